"""From g back to f: the count of disagreements, the bound on f, its recheck, and how often it
fails.
"""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cushion.certificates import recheck as verifier
from cushion.certificates.certificate import Certificate, certify_net, sentence
from cushion.certificates.format.claims import (
    Answers,
    OccamClaim,
    Transfer,
    assumptions_of,
    read_claim,
)
from cushion.certificates.format.container import pack
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.sources import Grid
from cushion.certificates.transfer import (
    choose_tolerance,
    count_disagreements,
    split_delta,
    transfer,
)
from cushion.data.dataset import Dataset
from cushion.data.inputs import Inputs
from cushion.errors import BadInput, Malformed
from cushion.numerics import float_up
from cushion.theorems.occam import holdout_bound, occam_bound

DELTA_G, DELTA_F = Decimal("0.04"), Decimal("0.01")
TOLERANCE = Decimal("0.01")
F = "f" * 64
# g answers 0 where the first value exceeds the second, 1 where it is the other way round, and ties
# else.
G = IntegerNet((1, 1, 2), Bytes(0), (Dense(Grid(np.array([[1, -1], [-1, 1]]), 1), None, 0, 0),))


def sample() -> Dataset:
    """400 different rows; g errs on none of them."""
    first = np.arange(400)
    x = (
        np.stack([first // 20 * 3, first % 20 * 3 + 1], axis=1)
        .astype(np.uint8)
        .reshape(-1, 1, 1, 2)
    )
    return Dataset("toy", x, (x[:, 0, 0, 0] < x[:, 0, 0, 1]).astype(np.int64), 2)


def fresh(n: int = 100) -> Inputs:
    """n rows that the sample does not have (a second value above 100); g answers 1 on all of
    them.
    """
    return Inputs(
        "fresh",
        np.stack([np.arange(n), np.full(n, 200)], axis=1).astype(np.uint8).reshape(-1, 1, 1, 2),
    )


def answers(n: int = 100, *, zeros: int = 0, gap: float = 1.0) -> Answers:
    """f answers 0 on the first rows and 1, as g does, on the others, all with the same gap."""
    classes = np.ones(n, dtype=np.int64)
    classes[:zeros] = 0
    return Answers(F, classes, np.full(n, gap))


def certified(f: Answers | None = None, inputs: Inputs | None = None) -> Certificate:
    inputs = fresh() if inputs is None else inputs
    f = answers(zeros=7) if f is None else f
    return transfer(certify_net(G, sample(), DELTA_G), inputs, f, TOLERANCE, DELTA_F)


def line_of(certificate: Certificate) -> Transfer:
    assert isinstance(certificate.claim, OccamClaim)
    assert certificate.claim.transfer is not None
    return certificate.claim.transfer


# ---- the count


def test_disagreements_ties_and_narrow_gaps_are_counted() -> None:
    g = np.array([0, 1, 1, -1, 1, -1, 0])
    f = Answers(
        F,
        np.array([0, 1, 0, 0, 1, 1, 0]),
        np.array([1.0, 0.02, 1.0, 1.0, 0.01, 0.0, np.nextafter(0.01, 1)]),
    )
    # agree, agree, differ, g ties, f's gap is the tolerance, both tie, just above the tolerance
    assert count_disagreements(g, f, TOLERANCE) == 4
    assert count_disagreements(g, f, Decimal("0.0001")) == 3
    assert count_disagreements(g, f, Decimal("1.0")) == 7


def test_an_answer_of_g_that_ties_never_agrees_with_a_narrow_gap_of_f() -> None:
    """Both are written -1; they must not look like the same answer."""
    assert (
        count_disagreements(np.array([-1]), Answers(F, np.array([1]), np.array([0.0])), TOLERANCE)
        == 1
    )


def test_ties_of_g_on_the_inputs_are_counted(tmp_path: Path) -> None:
    x = np.array([[85, 85], [45, 149], [179, 45]], dtype=np.uint8).reshape(-1, 1, 1, 2)
    f = Answers(F, np.array([0, 1, 0]), np.ones(3))
    three = Inputs("three", x)
    certificate = certified(f, three)
    assert line_of(certificate).disagreements == 1
    assert check(certificate.save(tmp_path / "f.cushion"), f, three).ok


# ---- the bound


def test_the_bound_is_the_closed_form_and_the_exact_sum() -> None:
    line = line_of(certified(answers()))
    assert line.disagreements == 0
    exact = 1 - 0.01 ** (1 / 100)  # (1-p)^100 = 0.01
    assert exact <= float(line.bound) <= exact + 1e-6
    claim = certified().claim
    assert claim.bound == occam_bound(0, 400, claim.bits, DELTA_G)
    assert line_of(certified()).bound == holdout_bound(7, 100, DELTA_F)
    assert Decimal(line_of(certified()).bound_f) == Decimal(claim.bound) + Decimal(
        line_of(certified()).bound
    )


def test_a_bound_beyond_one_is_one_and_is_called_vacuous() -> None:
    certificate = certified(answers(zeros=99))
    assert line_of(certificate).bound_f == "1.0"
    assert certificate.bound == 1.0
    assert sentence(certificate.claim).startswith("Vacuous for your net f")


def test_every_sentence_names_its_net() -> None:
    certificate = certified()
    assert (certificate.about, certificate.bound) == ("f", float_up(line_of(certificate).bound_f))
    first, second = sentence(certificate.claim).splitlines()
    assert first.startswith(
        "With probability 95 % over the draw of these 400 examples and 100 unlabelled inputs, your "
        "net f"
    )
    assert second.startswith(
        "With probability 96 % over the draw of these 400 examples, g, the integer net in the file"
    )
    assert "disagree on 7 of the 100 unlabelled inputs" in second


@given(st.integers(2, 5 * 10**17))
def test_the_shares_of_delta_sum_to_the_whole(units: int) -> None:
    total = Decimal(units).scaleb(-18)
    g, f = split_delta(total)
    assert g + f == total
    assert 0 < g <= total * Decimal("0.8")
    assert all(share == share.quantize(Decimal("1e-18")) for share in (g, f))


def test_a_delta_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(BadInput, match="`delta`"):
        split_delta(Decimal("1e-18"))


@pytest.mark.parametrize(
    ("largest", "tolerance"),
    [
        ([1.0], "0.00011"),
        ([9.0, 12.345, 50.0], "0.0013"),
        ([0.0], "1E-18"),
        ([1e9], "100001"),
        ([1e-17], "1E-18"),
    ],
)
def test_the_tolerance_follows_its_rule(largest: list[float], tolerance: str) -> None:
    """10^-4 of the median, rounded up to two digits (the float 10^-4 is a little above the decimal
    one).
    """
    found = choose_tolerance(np.array(largest))
    assert abs(found - Decimal(tolerance)) <= Decimal(tolerance) * Decimal("0.1")
    assert float(found) >= 1e-4 * float(np.median(largest))


def test_scores_beyond_what_a_tolerance_can_state_are_refused() -> None:
    with pytest.raises(BadInput, match="too large"):
        choose_tolerance(np.array([1e30]))


# ---- the recheck


def write(tmp_path: Path, certificate: Certificate, **changes: Any) -> Path:
    claim = certificate.claim
    path = tmp_path / "f.cushion"
    line = dataclasses.replace(line_of(certificate), **changes)
    path.write_bytes(pack(dataclasses.replace(claim, transfer=line), certificate.message))
    return path


def check(path: Path, f: Answers | None = None, inputs: Inputs | None = None) -> Any:
    chosen = answers(zeros=7) if f is None else f
    return verifier.verify(path, sample(), unlabelled=inputs or fresh(), answering=lambda _: chosen)


def test_a_true_bound_on_f_verifies_with_and_without_f(tmp_path: Path) -> None:
    path = certified().save(tmp_path / "f.cushion")
    assert (check(path).ok, "transfer" in check(path).replayed, check(path).level) == (
        True,
        True,
        "replay",
    )
    without = verifier.verify(path, sample())
    assert (without.ok, "transfer" in without.replayed) == (True, False)


@pytest.mark.parametrize(
    ("changes", "level", "reason"),
    [
        ({"disagreements": 6}, "message", "disagree on 7"),
        ({"disagreements": 8, "bound": "1.0", "bound_f": "1.0"}, "message", "disagree on 7"),
        ({"disagreements": 8}, "none", "do not imply"),
        ({"bound": "0.100000"}, "none", "do not imply"),
        ({"bound_f": "0.100000"}, "none", "bound on f"),
        ({"bound_f": "1.0"}, "none", "bound on f"),
        ({"delta": "0.001"}, "none", "do not imply"),
        ({"m": 101}, "message", "101 unlabelled inputs"),
        ({"net_fingerprint": "0" * 64}, "message", "not the net f"),
        ({"data_fingerprint": "0" * 64}, "message", "fingerprints differ"),
        ({"tolerance": "5.0"}, "message", "disagree on 100"),
    ],
)
def test_forged_numbers_are_not_ok(
    tmp_path: Path, changes: dict[str, Any], level: str, reason: str
) -> None:
    verdict = check(write(tmp_path, certified(), **changes))
    assert (verdict.ok, verdict.level, "transfer" in verdict.replayed) == (False, level, False)
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"disagreements": -1}, "disagreements must be a whole number"),
        ({"disagreements": 101}, "more than the 100"),
        ({"m": 10**7 + 1}, "whole number from 1 to 10000000"),
        ({"net_fingerprint": "xyz"}, "hexadecimal"),
        ({"data_fingerprint": "F" * 64}, "hexadecimal"),
        ({"tolerance": "0.0"}, "tolerance"),
        ({"tolerance": "1e-3"}, "tolerance"),
        ({"tolerance": "-1.0"}, "tolerance"),
        ({"tolerance": "00.1"}, "tolerance"),
        ({"delta": "0.0"}, "above 0"),
        ({"delta": "0.47"}, "together"),
        ({"bound": "2.0"}, "decimal"),
        ({"bound_f": "NaN"}, "decimal"),
    ],
)
def test_nonsense_is_malformed(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Malformed, match=words):
        check(write(tmp_path, certified(), **changes))


def test_the_assumptions_belong_to_the_bound_on_f(tmp_path: Path) -> None:
    certificate = certified()
    path = tmp_path / "f.cushion"
    for claim in (
        dataclasses.replace(certificate.claim, assumptions=assumptions_of("occam", holdout=False)),
        dataclasses.replace(certificate.claim, transfer=None),
    ):
        path.write_bytes(pack(claim, certificate.message))
        with pytest.raises(Malformed, match="assumptions"):
            verifier.verify(path, sample())
    assert certificate.claim.assumptions == assumptions_of("occam", holdout=False, transfer=True)


def test_a_missing_or_strange_key_is_malformed() -> None:
    claim = certified().claim
    whole = claim.to_json()
    assert read_claim(json.loads(json.dumps(whole))) == claim
    for key in whole["transfer"].keys() - {"program"}:
        part = {k: v for k, v in whole["transfer"].items() if k != key}
        for bad in (
            part,
            {**part, key: None},
            {**part, key: 1.5},
            {**whole["transfer"], "extra": 1},
            7,
        ):
            with pytest.raises(Malformed, match="transfer"):
                read_claim(json.loads(json.dumps({**whole, "transfer": bad})))


def test_gaps_near_the_tolerance_may_move_a_little_and_no_further(tmp_path: Path) -> None:
    """Another machine's scores differ: a count that half the tolerance explains is accepted, no
    other.
    """
    path = certified(answers(gap=0.009)).save(
        tmp_path / "f.cushion"
    )  # all within the tolerance: 100 disagreements
    assert line_of(certified(answers(gap=0.009))).disagreements == 100
    assert check(path, answers(gap=0.0149)).ok
    assert "disagree on 0 of" in check(path, answers(gap=0.0151)).reason
    path = certified(answers(gap=0.011)).save(tmp_path / "f.cushion")
    assert check(path, answers(gap=0.0051)).ok
    assert "disagree on 100 of" in check(path, answers(gap=0.005)).reason
    assert (
        "disagree on 1 to 100 of"
        in verifier.verify(
            certified(answers(zeros=0)).save(tmp_path / "g.cushion"),
            sample(),
            unlabelled=fresh(),
            answering=lambda _: answers(zeros=1, gap=0.01),
        ).reason
    )


def test_gaps_that_are_not_numbers_count_as_disagreements(tmp_path: Path) -> None:
    path = certified(answers()).save(tmp_path / "f.cushion")
    assert not check(path, answers(gap=float("nan"))).ok


def test_other_inputs_are_not_ok(tmp_path: Path) -> None:
    path = certified().save(tmp_path / "f.cushion")
    altered = fresh().x.copy()
    altered[3, 0, 0, 0] ^= 1
    assert "fingerprints differ" in check(path, inputs=Inputs("altered", altered)).reason
    assert "and 99 were given" in check(path, inputs=fresh(99)).reason


def test_inputs_from_the_sample_are_not_ok_even_if_the_file_says_so(tmp_path: Path) -> None:
    x = fresh().x.copy()
    x[0] = sample().x[0]
    stale = Inputs("stale", x)
    assert (
        "rows of the sample"
        in check(certified(inputs=stale).save(tmp_path / "f.cushion"), inputs=stale).reason
    )


def test_replaying_needs_both_and_a_bound_on_f(tmp_path: Path) -> None:
    path = certified().save(tmp_path / "f.cushion")
    with pytest.raises(BadInput, match="both"):
        verifier.verify(path, sample(), unlabelled=fresh())
    with pytest.raises(BadInput, match=r"finite scores, \[100, classes\]"):
        check(path, answers(99))
    plain = certify_net(G, sample(), DELTA_G).save(tmp_path / "g.cushion")
    with pytest.raises(BadInput, match="nothing about a net f"):
        check(plain)


# ---- how often it fails


def test_coverage_of_the_bound_on_f() -> None:
    """P[L(f) > bound_f] ≤ δ over sample and unlabelled inputs, in the worst case for the triangle
    inequality.

    Three kinds of input: f and g right; f and g wrong (probability p); only f wrong (q). Then L(f)
    = p + q is exactly L(g) plus the probability of disagreement. Bounds that forget to be unsure of
    the disagreements, or of f altogether, fail far too often in the same experiment.
    """
    rng = np.random.default_rng(5)
    draws, m, n, p, q = 20_000, 4000, 60, 0.05, 0.1
    total = Decimal("0.25")
    delta_g, delta_f = split_delta(total)
    of_g = np.array([float(occam_bound(k, m, 0, delta_g)) for k in range(m // 8)])
    of_change = np.array([float(holdout_bound(k, n, delta_f)) for k in range(n + 1)])
    errors, disagreements = rng.binomial(m, p, draws), rng.binomial(n, q, draws)

    def failures(bound: np.ndarray) -> float:
        return float((p + q > bound).mean())

    slack = 3 * np.sqrt(0.25 * 0.75 / draws)
    sound = failures(of_g[errors] + of_change[disagreements])
    assert 0 < sound <= 0.25 + slack
    assert failures(of_g[errors] + disagreements / n) > 0.25 + slack
    assert failures(of_g[errors]) > 0.9


def test_coverage_when_all_of_the_randomness_is_in_the_unlabelled_inputs() -> None:
    """g's error is known exactly: the disagreements' own share is kept, and nearly used up (the
    tail is exact).
    """
    rng = np.random.default_rng(6)
    draws, n, q, delta = 40_000, 200, 0.1, Decimal("0.05")
    bounds = np.array([float(holdout_bound(k, n, delta)) for k in range(n + 1)])
    failed = float((q > bounds[rng.binomial(n, q, draws)]).mean())
    assert 0.025 < failed <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / draws)


def test_the_format_states_the_assumptions_word_for_word() -> None:
    text = " ".join((Path(__file__).parents[2] / "FORMAT.md").read_text(encoding="utf-8").split())
    for sentence_ in assumptions_of("occam", holdout=True, transfer=True):
        assert sentence_ in text, sentence_
