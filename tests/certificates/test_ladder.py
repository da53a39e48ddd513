"""certify() without a kind: the strongest statement that the inputs allow, and all the others."""

from __future__ import annotations

import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.centres import CENTRES, FRESH, HELD, SAMPLE, blobs, net
from torch import nn

import cushion
from cushion.certificates.certificate import Certificate
from cushion.certificates.holdout.looks import open_ledger
from cushion.certificates.ladder import best, climb, shares
from cushion.data import Dataset
from cushion.data.inputs import Inputs
from cushion.errors import BadInput, Remark

ABOUT = {"holdout": "f", "transfer": "f", "picks": "g", "occam": "g"}


def made(certificate: Certificate) -> set[str]:
    assert {rung.kind: rung.about for rung in certificate.ladder} == ABOUT
    return {rung.kind for rung in certificate.ladder if rung.bound is not None}


def total(certificate: Certificate) -> Decimal:
    return sum((Decimal(one.delta) for one in shares(certificate.ladder)), Decimal(0))


def test_without_a_net_it_is_picks_with_all_of_delta() -> None:
    found = cushion.certify(None, SAMPLE, holdout=(HELD.x, HELD.y))
    assert found.ladder[0].needs == "`model`, and held-out labels (`holdout`)"
    assert (found.claim.kind, found.about, found.claim.delta) == ("picks", "g", "0.05")
    assert made(found) == {"picks"}
    assert total(found) == Decimal("0.05")
    assert found.ladder[-1].needs == "minutes: `kind` = occam"


def test_held_out_labels_bound_the_net_itself_and_share_delta_with_picks(tmp_path: Path) -> None:
    found = cushion.certify(net(), SAMPLE, holdout=HELD)
    assert (found.claim.kind, found.about, found.claim.delta) == ("holdout", "f", "0.025")
    assert made(found) == {"holdout", "picks"}
    assert total(found) == Decimal("0.05")
    own = cushion.certify(net(), SAMPLE, holdout=HELD, kind="holdout", delta=0.025)
    assert found == own  # the same as asked for by name, at its share
    picks = next(rung.certificate for rung in found.ladder if rung.kind == "picks")
    assert picks == cushion.certify(None, SAMPLE, kind="picks", delta=0.025)
    assert picks.claim.holdout is None  # these rows were looked at once, for f
    assert cushion.verify(found.save(tmp_path / "f"), None, HELD, model=net()).ok
    assert cushion.verify(picks.save(tmp_path / "g"), SAMPLE).ok


def test_an_interrupt_keeps_what_was_made_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cushion.certificates.certify.certify_by_list", interrupted)
    told: list[str] = []
    found = cushion.certify(net(), SAMPLE, holdout=HELD, tell=told.append)
    assert (found.about, found.claim.delta, made(found)) == ("f", "0.025", {"holdout"})
    assert f"errs on at most {100 * found.bound:.2f} %" in told[0]
    assert told[1].startswith("interrupted")
    assert found.ladder[2].needs == "time: it was interrupted"
    with pytest.raises(KeyboardInterrupt):
        cushion.certify(net(), SAMPLE)


def test_a_net_alone_gets_picks_about_g_and_what_would_bound_it() -> None:
    found = cushion.certify(net(), SAMPLE)
    assert (found.about, made(found), total(found)) == ("g", {"picks"}, Decimal("0.05"))
    assert [rung.needs for rung in found.ladder[:2]] == [
        "held-out labels (`holdout`)",
        "fresh inputs without labels (`unlabelled`)",
    ]


def test_fresh_inputs_bound_the_net_through_picks_and_verify_replays_it(tmp_path: Path) -> None:
    found = cushion.certify(net(), SAMPLE, unlabelled=FRESH)
    assert (found.claim.kind, found.about) == ("picks", "f")
    assert made(found) == {"transfer", "picks"}
    assert [one.delta for one in shares(found.ladder)] == ["0.04", "0.01"]
    change: Any = found.claim.transfer  # type: ignore[attr-defined]
    assert found.ladder[1].bound == found.bound == float(change.bound_f)
    path = found.save(tmp_path / "t.cushion")
    verdict = cushion.verify(path, SAMPLE, model=net(), unlabelled=FRESH)
    assert (verdict.ok, verdict.level) == (True, "replay")
    assert verdict.to_json()["about"] == "f"
    other = net()
    with torch.no_grad():
        other.bias[0] += 1
    assert not cushion.verify(path, SAMPLE, model=other, unlabelled=FRESH).ok
    assert not cushion.verify(path, SAMPLE, model=net(), unlabelled=blobs(300, 3)).ok


def test_minutes_beside_fresh_inputs_ask_for_the_better_of_two_nets(tmp_path: Path) -> None:
    found = cushion.certify(net(), SAMPLE, unlabelled=FRESH, minutes=0.02)
    assert made(found) == {"transfer", "picks", "occam"}
    assert [one.delta for one in shares(found.ladder)] == ["0.02", "0.005", "0.02", "0.005"]
    rungs = {rung.kind: rung for rung in found.ladder}
    both = [rungs[kind].certificate for kind in ("picks", "occam")]
    assert all(one is not None and one.about == "f" for one in both)
    assert rungs["transfer"].bound == found.bound == min(one.bound for one in both if one)
    for one in both:
        assert one is not None
        path = one.save(tmp_path / f"{one.claim.kind}.cushion")
        assert cushion.verify(path, SAMPLE, model=net(), unlabelled=FRESH).ok


def test_the_smallest_bound_on_the_net_itself_is_the_best() -> None:
    few = blobs(12, 4)
    found = cushion.certify(net(), SAMPLE, holdout=few, unlabelled=FRESH)
    assert made(found) == {"holdout", "transfer", "picks"}
    assert [one.delta for one in shares(found.ladder)] == ["0.025", "0.02", "0.005"]
    bounds = {rung.kind: rung.bound for rung in found.ladder}
    assert bounds["transfer"] < bounds["holdout"]  # type: ignore[operator]
    assert (best(found.ladder).kind, found.claim.kind) == ("transfer", "picks")
    # g's own bound is smaller, but it is not about the user's net
    assert bounds["picks"] < bounds["transfer"]  # type: ignore[operator]


@pytest.mark.parametrize("delta", ["0.05", "0.01", "0.000000000000000003", "0.123456789012345679"])
def test_shares_sum_to_delta_whatever_it_is(delta: str) -> None:
    found = cushion.certify(net(), SAMPLE, holdout=HELD, delta=delta)
    assert total(found) == Decimal(delta)


def test_rows_that_only_an_integer_net_reads_are_searched() -> None:
    asked: list[str] = []

    def make(model: Any, data: Dataset, *, kind: str, **how: Any) -> Certificate:
        asked.append(f"{kind} {how['delta']} {how.get('seed')}")
        return cushion.certify(None, SAMPLE, kind="picks", delta=how["delta"])

    wide = Dataset("wide", np.zeros((4, 2**14 + 1), np.float32), np.array([0, 1, 0, 1]), 2)
    wide.x[1::2] = 1
    climb(make, None, wide, searching={"seed": 7})
    assert asked == ["occam 0.05 7"]


def test_tokens_are_held_out_or_refused() -> None:
    class Tokens(nn.Module):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return nn.functional.one_hot(ids[:, 0] % 2, 2).float()

    x = np.arange(60, dtype=np.int64).reshape(30, 2)
    sample = Dataset("tokens", x[:20], x[:20, 0] % 2, 2)
    held = Dataset("tokens test", x[20:], x[20:, 0] % 2, 2)
    found = cushion.certify(Tokens(), sample, holdout=held)
    assert (found.claim.kind, found.claim.delta, made(found)) == ("holdout", "0.05", {"holdout"})
    with pytest.raises(BadInput, match="integer nets do not read yet"):
        cushion.certify(Tokens(), sample)
    with pytest.raises(BadInput, match="leave `unlabelled` out"):
        cushion.certify(Tokens(), sample, holdout=held, unlabelled=Inputs("u", x[20:]))


def test_what_only_a_search_is_told_asks_for_a_search() -> None:
    found = cushion.certify(None, SAMPLE, method="subspace", steps=2)
    assert (found.claim.kind, found.ladder) == ("occam", ())


def test_fresh_inputs_without_a_net_are_refused() -> None:
    with pytest.raises(BadInput, match="give `model` too"):
        cushion.certify(None, SAMPLE, unlabelled=FRESH)


def with_weights(weights: np.ndarray) -> nn.Module:
    made = nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        made.weight.copy_(torch.from_numpy(weights.copy()))
    return made.eval()


GUESSING, RENUMBERED = with_weights(CENTRES * 0), with_weights(np.roll(CENTRES, 1, axis=0))


@pytest.mark.parametrize("kind", [None, "holdout"])
@pytest.mark.parametrize(
    ("model", "said"),
    [(GUESSING, "as guessing would"), (RENUMBERED, "its classes are probably numbered otherwise")],
)
def test_a_net_that_errs_as_guessing_does_or_more_is_doubted_once(
    model: nn.Module, said: str, kind: Any
) -> None:
    with pytest.warns(Remark, match=f"of its own training data.*{said}") as told:
        cushion.certify(model, SAMPLE, holdout=HELD, kind=kind)
    assert sum("of its own training data" in str(one.message) for one in told) == 1


def test_under_a_ledger_the_sample_says_nothing_about_the_net(tmp_path: Path) -> None:
    open_ledger(tmp_path / "h.looks", FRESH, Decimal("0.05"), SAMPLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Remark)
        how: dict[str, Any] = {"kind": "holdout", "looks": tmp_path / "h.looks"}
        cushion.certify(RENUMBERED, SAMPLE, holdout=FRESH, **how)


def test_what_is_refused_is_refused_before_held_out_rows_are_counted() -> None:
    counted: list[str] = []

    def make(model: Any, data: Dataset, *, kind: str, **how: Any) -> Certificate:
        counted.append(kind)
        return cushion.certify(model, data, kind=kind, **how)

    for inputs in (SAMPLE.x, np.zeros((5, 4), np.float32)):
        with pytest.raises(BadInput, match=r"not fresh|must be alike"):
            climb(make, net(), SAMPLE, HELD, unlabelled=inputs)
    assert counted == []


def test_without_a_sample_it_is_said_which_kind_needs_none() -> None:
    with pytest.raises(BadInput, match=r"`kind` = holdout, which counts.* needs no sample"):
        cushion.certify(net(), None, holdout=HELD)  # type: ignore[arg-type]
