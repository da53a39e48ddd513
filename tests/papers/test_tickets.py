"""Theorem 6.1 of Guha 2023 as an item: steps by width and seed, claims from errors that are
known.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cushion.papers import runner
from cushion.papers.guha import tickets as guha_tickets
from cushion.papers.guha.lottery import ticket_error
from cushion.papers.guha.tickets import TicketPlan, mask_bits, sufficient_width


def tiny(monkeypatch: pytest.MonkeyPatch) -> TicketPlan:
    plan = TicketPlan((3, 4, 2), (32, 128, 512), 2, (0.5,))
    monkeypatch.setitem(guha_tickets.PLANS, "quick", plan)
    return plan


def made(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "records.json").read_text())
    return found


def test_rows_are_the_worst_over_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tiny(monkeypatch)
    found = made(runner.reproduce("guha2023-tickets", tmp_path))
    table, enough, theorem = found["tables"]
    for row in table["rows"]:
        ones = [ticket_error(plan.dims, row[0], seed) for seed in (0, 1)]
        assert row[1:4] == [
            max(one[key] for one in ones) for key in ("found", "at_most", "worst_weight")
        ]
        active = max(one["active"] for one in ones)
        assert row[4:6] == [active, 3 * 4 + 4 * 2]
        # four layers: 3 -> D -> D -> D -> 2
        weights = row[0] * 3 + 2 * row[0] * row[0] + 2 * row[0]
        assert row[6:] == [3 * row[0] + 2 * row[0] ** 2, weights, mask_bits(weights, active)]
    assert enough["rows"][0][:4] == [0.5, sufficient_width(plan.dims, 0.5, 0.05), 2, 2]
    for row, counted in zip(theorem["rows"], table["rows"], strict=True):
        # (n_M d₀ + L n_M²) ln²D numbers of 8 ln 2 nats each, and the mask's bits, over m = 60 000.
        numbers = (4 * 3 + 2 * 4**2) * math.log(row[0]) ** 2
        assert row[1] == pytest.approx(math.sqrt(numbers * 8 * math.log(2) / 60_000))
        nats = counted[8] * math.log(2) + math.log(20)
        assert row[2] == pytest.approx(math.sqrt(nats / 120_000), abs=2e-6)
        exact = -math.expm1(-nats / 60_000)  # no errors: (1 - bound)^m = δ 2^-bits
        assert exact <= row[3] <= exact + 2e-6  # rounded up
    assert found["verdict"] == "reproduced"
    assert (tmp_path / "guha2023-tickets" / "quick" / "tickets.png").is_file()


@pytest.mark.parametrize(
    ("error", "active", "held"),
    [
        (lambda width: 100 / width, 10, (True, True, True)),
        (
            lambda width: 100 / width**0.3,
            10,
            (False, False, True),
        ),  # falls too slowly, and never gets small
        (lambda width: 100 / width, 100, (True, True, False)),  # five times the target's 20 weights
    ],
)
def test_claims_follow_the_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any, active: int, held: tuple[bool, ...]
) -> None:
    plan = tiny(monkeypatch)

    def stand_in(dims: tuple[int, ...], width: int, seed: int) -> dict[str, Any]:
        errors = {"found": error(width) / 2, "at_most": error(width), "worst_weight": 0.1}
        counts = {"active": active, "target_weights": 20, "all_weights": 10_000, "printed": 99}
        return {"dims": dims, "width": width, "seed": seed, **errors, **counts}

    monkeypatch.setattr(guha_tickets, "ticket_error", stand_in)
    found = made(runner.reproduce("guha2023-tickets", tmp_path))
    assert tuple(claim["holds"] for claim in found["claims"]) == held
    assert sufficient_width(plan.dims, 0.5, 0.05) > 200, "so that 100/width is within 0.5 there"


def test_killed_between_two_tickets_it_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny(monkeypatch)
    calls: list[tuple[int, int]] = []

    def dies_once(dims: tuple[int, ...], width: int, seed: int) -> dict[str, Any]:
        calls.append((width, seed))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return ticket_error(dims, width, seed)

    monkeypatch.setattr(guha_tickets, "ticket_error", dies_once)
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce("guha2023-tickets", tmp_path)
    runner.reproduce("guha2023-tickets", tmp_path)
    assert calls[:4] == [(32, 0), (32, 1), (128, 0), (128, 0)]
    assert len(calls) == len(set(calls)) + 1
