"""Tiny stand-ins for the nets of Neyshabur 2017: perceptrons on digits, and nets whose numbers are
made up.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from cushion.measures.conditions.family import ConditionOptions
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.papers.nets import TrainingPlan
from cushion.papers.neyshabur import conditions, nets, plans
from cushion.papers.neyshabur.labels import Pair
from cushion.papers.neyshabur.nets import NORMS, NetFound

TRUE_ROWS = 400


def plan(data: str, hidden: int = 128) -> TrainingPlan:
    return TrainingPlan(f"neyshabur-mlp-{hidden}", data, epochs=60)


PAIRS = {
    n: (plan(f"digits,subset={n}"), plan(f"digits,subset={n},random-labels=1"))
    for n in (TRUE_ROWS, 600, 800)
}
CONFUSED = {
    0: PAIRS[TRUE_ROWS][0],
    **{k: plan(f"digits,confusion={TRUE_ROWS}+{k}") for k in (40, 80)},
}
WIDTHS = {h: plan("digits,subset=400", h) for h in (32, 128, 256)}
DEEP = TrainingPlan("neyshabur-mlp10", "digits,subset=200", width=0.012, epochs=5)


def tiny_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quick plans and options; seconds in all."""
    monkeypatch.setitem(plans.PAIRS, "quick", PAIRS)
    monkeypatch.setitem(plans.CONFUSED, "quick", CONFUSED)
    monkeypatch.setitem(plans.WIDTHS, "quick", WIDTHS)
    monkeypatch.setitem(plans.DEEP, "quick", DEEP)

    def few(_size: str, alphas: tuple[float, ...], seed: int) -> SharpnessOptions:
        return SharpnessOptions(alphas=alphas, draws=4, ascent_steps=3, seed=seed)

    def exact(_size: str, seed: int) -> ConditionOptions:
        return ConditionOptions(examples=10, method="exact", seed=seed)

    monkeypatch.setattr(nets, "sharpness_options", few)
    monkeypatch.setattr(conditions, "condition_options", exact)


def a_net(
    *,
    errors: int = 0,
    test_errors: int = 30,
    logs: float | dict[str, float] | None = 5.0,
    printed: float | None = 5.0,
    sharpness: float = 1.0,
    kl: float | None = 100.0,
) -> NetFound:
    """Made up: 1000 training and 100 test examples. logs: of all norms, or by norm; kl: at
    sharpness 0.05.
    """
    log10: dict[str, float | None] = {}
    for name in NORMS:
        log10[f"{name}, as plotted"] = logs[name] if isinstance(logs, dict) else logs
        log10[f"{name}, as printed"] = printed
    norms: dict[str, Any] = {
        "m": 1000,
        "errors": errors,
        "test_m": 100,
        "test_errors": test_errors,
        "log10": log10,
    }
    rises = (0.1, 0.0) if kl is not None else (0.01, 0.0)  # of half way in ln KL, or never reached
    ends = (1.0, 1.0) if kl is None else (kl / math.e, kl * math.e)
    points = [
        {"kl": at, "sharpness": rise, "error_sharpness": rise}
        for at, rise in zip(ends, rises, strict=True)
    ]
    sharp = {"maximum": {"value": sharpness}, "expected": {"points": points}}
    return NetFound(PAIRS[TRUE_ROWS][0], norms, sharp)


def a_pair(size: int, true: NetFound, random: NetFound) -> Pair:
    return Pair(
        replace(true, size=size, labels="true"), replace(random, size=size, labels="random")
    )


def pairs(true: list[NetFound], random: list[NetFound]) -> list[Pair]:
    both = zip(true, random, strict=True)
    return [a_pair(1000 * at, *one) for at, one in enumerate(both, 1)]


def sized(found: dict[int, NetFound]) -> list[NetFound]:
    return [replace(net, size=size) for size, net in found.items()]


def without(net: NetFound) -> NetFound:
    """The same net with γ ≤ 0."""
    return replace(net, norms={**net.norms, "log10": dict.fromkeys(net.norms["log10"])})


def condition_record(
    inverse: float | None, c2: float | None, c3: float | None, *, infinite: bool = False
) -> Any:
    """NetConditions as JSON with one layer, all numbers of a kind alike; None: nothing to
    constrain, or infinite.
    """

    def spread(value: float | None) -> dict[str, Any] | None:
        if value is None and not infinite:
            return None
        return {"value": value, "quantiles": {"0.05": value, "0.5": value, "0.95": value}}

    part = {"triples": 1, "mu": None, "inverse": spread(inverse), "because": "why not"}
    flips = [
        {"layer": "fc1", "units": 9, "value": c2, "restricted": c2, "restricted_spread": spread(c2)}
    ]
    return {
        "layers": ["fc1"],
        "interaction": dict.fromkeys(("text", "figure6", "inner", "outer"), part),
        "activation_flips": flips,
        "unit_norms": [{"layer": "fc1", "value": c3, "spread": spread(c3), "unit_ratio": None}],
    }
