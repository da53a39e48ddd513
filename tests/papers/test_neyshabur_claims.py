"""The claims of Neyshabur 2017's figures on made-up numbers: each can hold, fail and stay
undecided.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.neyshabur_cases import a_net, a_pair, condition_record, pairs, sized, without

from cushion.measures.sharpness.records import ExpectedSharpness, SharpnessPoint
from cushion.papers.neyshabur.claims import above_everywhere
from cushion.papers.neyshabur.conditions import (
    Conditions,
    alike,
    c2_at_most,
    c3_at_most,
    mu_at_least,
    pooled,
)
from cushion.papers.neyshabur.labels import Pair, capacity_claims, sharpness_claims
from cushion.papers.neyshabur.nets import kl_at
from cushion.papers.neyshabur.sizes import minima_claims, shares, wider_is_better, width_claims
from cushion.papers.pages import Tried


def held(claims: Sequence[Tried]) -> list[bool | None]:
    return [claim.holds for claim in claims]


def as_published() -> list[Pair]:
    """True labels: flat; random ones: growing, most for the ℓ2 and the ℓ2-path norm."""
    steep = {"l2-norm": 2.0, "l2-path": 1.5, "l1-path": 1.0, "spectral": 0.5}
    random = [
        a_net(
            logs={name: 6.0 + at * by for name, by in steep.items()},
            kl=1000.0 * 2**at,
            sharpness=0.5 + at,
        )
        for at in range(3)
    ]
    return pairs([a_net(logs=5.0, kl=100.0, sharpness=1.0) for _ in range(3)], random)


def test_norms_by_labels() -> None:
    good = as_published()
    assert held(capacity_claims(good)) == [True] * 7
    swapped = [a_pair(pair.true.size, pair.random, pair.true) for pair in good]
    assert held(capacity_claims(swapped)) == [True] + [False] * 6
    marginless = [Pair(pair.true, without(pair.random)) for pair in good]
    assert held(capacity_claims(marginless)) == [True] + [None] * 6
    errs = [*good[:2], a_pair(3000, good[2].true, a_net(errors=1, logs=9.0))]
    claims = capacity_claims(errs)
    assert claims[0].holds is False
    assert "3000 random: 1" in claims[0].because
    one_missing = [Pair(good[0].true, without(good[0].random)), swapped[1], good[2]]
    assert capacity_claims(one_missing)[1].holds is False, "one number is enough to refute"


def test_sharpness_by_labels() -> None:
    good = as_published()
    assert held(sharpness_claims(good)) == [True] * 4
    swapped = [a_pair(pair.true.size, pair.random, pair.true) for pair in good]
    assert held(sharpness_claims(swapped)) == [False, True, False, False]
    sharp = pairs([a_net(sharpness=1.0)] * 2, [a_net(sharpness=2.0, kl=None)] * 2)
    assert held(sharpness_claims(sharp)) == [True, False, None, None]
    assert sharpness_claims(good[:1])[1].holds is None


def test_minima() -> None:
    good = sized(
        {
            k: a_net(
                test_errors=30 + k // 10, logs=5.0 + k / 100, sharpness=1.0 / (1 + k), kl=100.0 + k
            )
            for k in (0, 20, 50, 70, 90)
        }
    )
    assert held(minima_claims(good)) == [True] * 8
    bad = sized(
        {
            k: a_net(errors=k, test_errors=50 - k // 10, logs=5.0 + k / 100, kl=100.0 + k)
            for k in (0, 20, 50, 70, 90)
        }
    )
    assert held(minima_claims(bad)) == [False] * 6 + [None, False]
    unknown = sized({k: without(a_net(test_errors=k, kl=None)) for k in (0, 20, 50, 70, 90)})
    assert held(minima_claims(unknown))[2:] == [None] * 6
    sharp = sized({k: a_net(test_errors=k, sharpness=float(k)) for k in (0, 20, 50, 70, 90)})
    assert minima_claims(sharp)[6].holds is False, "sharpness predicts too"
    assert held(minima_claims(good[:4]))[1:] == [None] * 7, "four nets are too few"
    assert shares([1.0, None, 2.0]) == [pytest.approx(0.1), None, 1.0]


def test_widths() -> None:
    turning = {32: 6.0, 64: 5.0, 128: 4.0, 512: 4.5, 1024: 5.0}
    good = sized(
        {
            h: a_net(
                test_errors=50 - at,
                logs={"l2-norm": log, "l1-path": log, "spectral": log, "l2-path": 6.0 - at},
                printed=float(at),
                kl=10.0**log,
            )
            for at, (h, log) in enumerate(turning.items())
        }
    )
    assert held(width_claims(good)) == [True] * 9
    bad = sized(
        {
            h: a_net(
                errors=20,
                test_errors=10 + at,
                logs=-abs(log - 4.0),
                printed=-float(at),
                kl=10.0 ** -abs(log - 4.0),
            )
            for at, (h, log) in enumerate(turning.items())
        }
    )
    assert held(width_claims(bad)) == [False, False, False, False, True, False, False, False, False]
    assert held(width_claims(good[2:3])) == [None] * 9
    up_again = sized({32: a_net(logs=5.0), 64: a_net(logs=6.0), 128: a_net(logs=4.0)})
    assert width_claims(up_again)[2].holds is False, "each step must fall"


@pytest.mark.parametrize(
    ("inverse", "c2", "c3", "expected"),
    [(4.0, 5.0, 3.0, [True] * 3), (4.1, 5.1, 3.1, [False] * 3)],
)
def test_conditions(inverse: float, c2: float, c3: float, expected: list[bool]) -> None:
    net = Conditions("learned", condition_record(inverse, c2, c3))
    assert (
        held((mu_at_least(net, "text", "a < c < b"), c2_at_most(net, 2.0), c3_at_most(net)))
        == expected
    )


def test_conditions_without_a_number() -> None:
    infinite = Conditions("learned", condition_record(None, None, None, infinite=True))
    assert (
        held((mu_at_least(infinite, "text", ""), c2_at_most(infinite, 2.0), c3_at_most(infinite)))
        == [False] * 3
    )
    record = condition_record(None, 1.0, None)
    free = Conditions("learned", {**record, "activation_flips": []})
    claims = (mu_at_least(free, "text", ""), c2_at_most(free, 2.0), c3_at_most(free))
    assert held(claims) == [None] * 3
    assert "why not" in claims[0].because


def test_similar_means_within_a_factor() -> None:
    assert alike("", ["a", "b"], [1.5, 1.0], [1.0, 1.4]).holds is True
    assert alike("", ["a", "b"], [1.6, 1.0], [1.0, 1.0]).holds is False
    assert alike("", ["a", "b"], [1.0, None], [1.0, 1.0]).holds is None
    assert alike("", ["a", "b"], [1.6, None], [1.0, 1.0]).holds is False


def test_kl_at_a_level_is_that_of_the_record() -> None:
    errors = {1e-3: (400.0, 0.0), 1e-2: (20.0, 0.02), 1e-1: (3.0, 0.3)}
    points = tuple(
        SharpnessPoint(alpha, kl, 2 * kl, 0.0, 0.0, 0.0, None, error, None, 2, 4)
        for alpha, (kl, error) in errors.items()
    )
    record = ExpectedSharpness(10.0, 1.0, 0.0, 0.0, True, points)
    plain = [point.to_json() for point in reversed(points)]
    for level in (0.01, 0.05, 0.2):
        assert kl_at(plain, level, "error_sharpness") == record.kl_at(level)
    assert kl_at(plain, 0.5, "error_sharpness") is None


def test_pooling_keeps_every_unit() -> None:
    one = {"edges": [0.5, 1.0, 1.5], "counts": [3, 4]}
    two = {"edges": [1.0, 2.0, 3.0], "counts": [5, 0]}
    found = pooled("x", [one, None, two])
    assert sum(found.counts) == 12
    assert (found.edges[0], found.edges[-1]) == (0.75, 1.5)
    assert len(found.edges) == len(found.counts) + 1


def test_above_means_above_at_every_place() -> None:
    for lower, expected in (
        ([0.9, 1.9], True),
        ([1.0, 1.9], False),
        ([0.9, 2.1], False),
        ([0.9, None], None),
    ):
        assert above_everywhere("x", [1, 2], [1.0, 2.0], lower, why="w").holds is expected
    assert above_everywhere("x", [1, 2], [1.0, None], [1.5, 1.0], why="w").holds is False, (
        "one place refutes it"
    )


def test_wider_is_better_asks_for_the_widest_net_too() -> None:
    falling = {32: 50, 64: 40, 128: 30, 256: 20, 512: 10, 1024: 60}
    nets = sized({h: a_net(test_errors=errors) for h, errors in falling.items()})
    assert wider_is_better(nets).holds is False
    assert wider_is_better(nets[:-1]).holds is True
    many = {32 * k: 50 - k for k in range(1, 17)} | {
        32 * 17: 50
    }  # rank correlation -0.67, yet the widest errs most
    assert (
        wider_is_better(sized({h: a_net(test_errors=errors) for h, errors in many.items()})).holds
        is False
    )
