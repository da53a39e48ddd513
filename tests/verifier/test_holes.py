"""Statements that verified once and must not, or not without a word: invented lines beside "ok",
copied rows, a hold-out that contradicts its bound, rows nudged out of a comparison, another net's
answers.
"""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.certificates import nets
from tests.certificates.case import altered, base, transferred
from tests.certificates.samples import sample
from tests.certificates.user_net import f

from cushion.certificates.answers import fingerprint_net, score
from cushion.certificates.certificate import certify_net
from cushion.certificates.format.claims import Holdout, assumptions_of
from cushion.certificates.format.inputs import Floats
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.sources import Grid
from cushion.data.dataset import Dataset
from cushion.theorems.occam import holdout_bound
from cushion_verify import BadInput, Given, Verdict, check, contradiction

DELTA = Decimal("0.05")
HALVES, HELD, FRESH = (sample(name) for name in ("halves", "halves held out", "halves unlabelled"))


def verdict(tmp_path: Path, content: bytes, **given: Any) -> Verdict:
    path = tmp_path / "c.cushion"
    path.write_bytes(content)
    return check(path, Given(**{"x": HALVES.x, "y": HALVES.y, **given}))


def with_line(net: IntegerNet, data: Dataset, held: Dataset) -> bytes:
    """A certificate with a hold-out line, whoever refuses to make it."""
    errors = net.errors(held.x, held.y)
    bound = holdout_bound(errors, len(held), DELTA)
    line = Holdout(held.fingerprint, errors, len(held), "0.05", bound)
    made = certify_net(net, data, DELTA)
    return altered(made, holdout=line, assumptions=assumptions_of("occam", holdout=True))


# ---- numbers that were not replayed


def test_an_invented_hold_out_line_does_not_stand_beside_ok(tmp_path: Path) -> None:
    invented = Holdout("e" * 64, 0, 10**6, "0.05", holdout_bound(0, 10**6, DELTA))
    content = altered(base(holdout=True), holdout=invented)
    found = verdict(tmp_path, content)
    assert found.ok
    shown = found.to_json()
    assert (shown["holdout"], shown["replayed"]) == (None, ["sample"])
    assert shown["claimed_holdout"]["m"] == 10**6
    (line,) = (line for line in found.lines() if "held-out" in line and "Assumed" not in line)
    assert line.startswith("Hold-out, claimed, NOT recounted: 0 errors")


def test_an_invented_bound_on_f_does_not_stand_beside_ok(tmp_path: Path) -> None:
    plain = transferred()
    assert plain.claim.transfer is not None
    few = holdout_bound(0, 10**6, Decimal("0.01"))
    line = dataclasses.replace(
        plain.claim.transfer,
        disagreements=0,
        m=10**6,
        bound=few,
        bound_f=format(Decimal(plain.claim.bound) + Decimal(few), "f"),
    )
    shown = verdict(tmp_path, altered(plain, transfer=line)).to_json()
    assert (shown["ok"], shown["about"], shown["delta"]) == (True, "g", 0.04)
    assert (shown["transfer"], shown["bound_f"]) == (None, None)
    assert shown["claimed_bound_f"] == shown["claimed_transfer"]["bound_f"]


def test_what_is_not_ok_states_no_number(tmp_path: Path) -> None:
    wrong = altered(base(), errors=base().claim.errors - 1)
    shown = verdict(tmp_path, wrong).to_json()
    assert not shown["ok"]
    assert [shown[key] for key in ("bound", "errors", "m", "delta", "holdout")] == [None] * 5
    assert shown["claimed_errors"] == base().claim.errors - 1
    assert shown["claimed_bound"] == float(base().claim.bound)


# ---- copied rows


def test_rows_a_hundred_times_are_warned_of(tmp_path: Path) -> None:
    rows = np.repeat(np.arange(200), 100)
    data = Dataset("many", HALVES.x[rows], HALVES.y[rows], 2)
    made = certify_net(nets.difference(), data, DELTA)
    found = verdict(tmp_path, altered(made), x=data.x, y=data.y)
    assert found.ok, "nobody can see from the rows that they were copied"
    (warning,) = found.warnings
    assert warning.startswith("19 800 of the 20 000 examples repeat earlier ones")
    assert any(line.startswith("Warning: 19 800") for line in found.lines())
    assert verdict(tmp_path, altered(base())).warnings == []


def test_the_same_input_with_another_label_is_no_repeat(tmp_path: Path) -> None:
    x = np.concatenate([HALVES.x, HALVES.x])
    data = Dataset("both", x, np.concatenate([HALVES.y, 1 - HALVES.y]), 2)
    made = certify_net(nets.difference(), data, DELTA)
    assert verdict(tmp_path, altered(made), x=data.x, y=data.y).warnings == []


# ---- a hold-out that contradicts the bound


def test_a_hold_out_far_above_the_bound_is_warned_of(tmp_path: Path) -> None:
    plain, wrong = base(), Dataset("other way", HELD.x, 1 - HELD.y, 2)
    content = with_line(nets.difference(), HALVES, wrong)
    for given in ({}, {"holdout_x": wrong.x, "holdout_y": wrong.y}):
        found = verdict(tmp_path, content, **given)
        assert found.ok
        (warning,) = found.warnings
        assert "held-out examples contradict the bound" in warning
    assert Decimal(plain.claim.bound) < 1
    assert verdict(tmp_path, altered(base(holdout=True))).warnings == []


def test_contradiction_is_an_exact_binomial_test() -> None:
    for m, bound in ((60, "0.3"), (200, "0.05"), (200, "0.0"), (5, "0.9")):
        p = Fraction(bound)
        for errors in range(m + 1):
            terms = (math.comb(m, i) * p**i * (1 - p) ** (m - i) for i in range(errors, m + 1))
            assert contradiction(errors, m, bound) == (sum(terms) < Fraction(1, 1000)), errors
    assert not contradiction(5, 5, "1.0")


# ---- rows that are not held out


@pytest.mark.parametrize("shift", [0, 1, 2, 4])
def test_flipped_bits_do_not_hide_a_row(tmp_path: Path, shift: int) -> None:
    """Changes below what any reading keeps; the last one is below g's own input shift."""
    x = HALVES.x.copy()
    x[:, 0, 1, 1] ^= np.uint8(1 << max(0, shift - 1))
    held = Dataset("nudged", x, HALVES.y, 2)
    net = nets.on_halves(Dense(nets.difference().layers[0].source, None, 0, 0), shift=4)
    content = with_line(net, HALVES, held)
    found = verdict(tmp_path, content, holdout_x=held.x, holdout_y=held.y)
    assert (found.ok, found.replayed) == (False, {"sample"})
    assert "are not held out: 200 of the 200 are rows of the sample itself" in found.reason


def test_floats_are_compared_as_g_reads_them(tmp_path: Path) -> None:
    """A nudge within a step of the quantiser is another number and the same row."""
    rng = np.random.default_rng(0)
    data = Dataset("floats", rng.normal(size=(150, 1, 1, 4)).astype(np.float32), HALVES.y[:150], 2)
    source = Grid(np.array([[1, 0, -1, 0], [-1, 0, 1, 0]]), 1)
    net = IntegerNet((1, 1, 4), Floats(8, (5,), (-128,)), (Dense(source, None, 0, 0),))
    steps = np.floor(data.x * 32)
    nudged = ((steps + rng.uniform(0.1, 0.9, steps.shape)) / 32).astype(np.float32)
    assert not np.isin(nudged, data.x).any()
    held = Dataset("nudged", nudged, data.y, 2)
    given = {"x": data.x, "y": data.y, "holdout_x": held.x, "holdout_y": held.y}
    found = verdict(tmp_path, with_line(net, data, held), **given)
    assert "150 of the 150 are rows of the sample itself as the net reads them" in found.reason
    other = Dataset("other", rng.normal(size=(60, 1, 1, 4)).astype(np.float32), HELD.y, 2)
    given |= {"holdout_x": other.x, "holdout_y": other.y}
    assert verdict(tmp_path, with_line(net, data, other), **given).ok


@pytest.mark.parametrize("times", [2, 3, 5])
def test_a_sample_of_copies_does_not_switch_the_check_off(tmp_path: Path, times: int) -> None:
    rows = np.repeat(np.arange(200), times)
    data = Dataset("copies", HALVES.x[rows], HALVES.y[rows], 2)
    for x, y in (
        (HALVES.x[::2], HALVES.y[::2]),
        # few of them among others: no more than chance would bring, were these not copies
        (np.concatenate([HELD.x, HALVES.x[:10]]), np.concatenate([HELD.y, HALVES.y[:10]])),
    ):
        held = Dataset("own", x, y, 2)
        content = with_line(nets.difference(), data, held)
        given = {"x": data.x, "y": data.y, "holdout_x": held.x, "holdout_y": held.y}
        assert "not held out" in verdict(tmp_path, content, **given).reason


def test_more_than_half_of_the_rows_are_never_chance(tmp_path: Path) -> None:
    """Draws with repeats look like draws from few possible rows: even so half is the most."""
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 200, 600)
    data = Dataset("drawn", HALVES.x[rows], HALVES.y[rows], 2)
    held = Dataset("own", HALVES.x[:100], HALVES.y[:100], 2)
    content = with_line(nets.difference(), data, held)
    given = {"x": data.x, "y": data.y, "holdout_x": held.x, "holdout_y": held.y}
    assert "not held out" in verdict(tmp_path, content, **given).reason


# ---- another net's answers


def about_f(**given: Any) -> dict[str, Any]:
    answers = score(f(), FRESH.x).numpy()
    return {"unlabelled": FRESH.x, "answers": answers, "net": fingerprint_net(f()), **given}


def test_answers_that_the_labels_contradict_are_not_f_s(tmp_path: Path) -> None:
    """Another forward with the same parameters agrees with g on the unlabelled inputs and errs on
    labelled rows: the fingerprint of f's numbers does not see it, the labels do.
    """
    content = altered(transferred())
    right = score(f(), HELD.x).numpy()
    rows = {"holdout_x": HELD.x, "holdout_y": HELD.y}
    found = verdict(tmp_path, content, **about_f(**rows, holdout_answers=right))
    assert (found.ok, found.to_json()["about"]) == (True, "f")
    found = verdict(tmp_path, content, **about_f(**rows, holdout_answers=right[:, ::-1]))
    assert (found.ok, found.level, "transfer" in found.replayed) == (False, "message", False)
    assert "of the 60 held-out examples, which a bound of" in found.reason


def test_a_program_is_compared_where_both_are_known(tmp_path: Path) -> None:
    plain = transferred()
    assert plain.claim.transfer is not None
    stated = dataclasses.replace(plain.claim.transfer, program="a" * 64)
    known, unknown = (
        altered(plain, transfer=dataclasses.replace(stated, program=program))
        for program in ("a" * 64, None)
    )
    assert verdict(tmp_path, known, **about_f(program="a" * 64)).ok
    found = verdict(tmp_path, known, **about_f(program="b" * 64))
    assert (found.ok, "fingerprints of their programs differ" in found.reason) == (False, True)
    assert verdict(tmp_path, known, **about_f()).ok
    assert verdict(tmp_path, unknown, **about_f(program="b" * 64)).ok


def test_given_answers_are_said_to_be_given(tmp_path: Path) -> None:
    content = altered(transferred())
    found = verdict(tmp_path, content, **about_f(net=None))
    assert (found.ok, found.given) == (True, ["f's answers"])
    assert "Given, not recomputed: f's answers." in found.lines()
    assert verdict(tmp_path, content, **about_f(recomputed=("answers",))).given == []


@pytest.mark.parametrize("kind", ["f8", "c8", "M8[s]", "U1", "i4", ">f4"])
def test_rows_of_kinds_that_nobody_reads_are_refused_in_a_sentence(
    tmp_path: Path, kind: str
) -> None:
    content = altered(base())
    x = np.zeros((4, 3)).astype(kind)
    if kind == ">f4":  # the order of its bytes does not matter
        assert not verdict(tmp_path, content, x=x, y=np.arange(4) % 2).ok
        return
    with pytest.raises(BadInput, match="examples are uint8, float32 or int64"):
        verdict(tmp_path, content, x=x, y=np.arange(4) % 2)
