"""Hold-out certificates from a net to a verdict: what is stated, what is kept secret, what is
refused.
"""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from tests.holdout_cases import Told, chained, rows
from torch import nn

import cushion
import cushion_verify
from cushion.certificates.certificate import Certificate
from cushion.certificates.format.holdout_claim import HoldoutClaim, Line
from cushion.certificates.holdout import grid
from cushion.certificates.holdout.counting import scored
from cushion.certificates.holdout.ledger import read_ledger
from cushion.certificates.holdout.lines import Asked, exact_lines
from cushion.certificates.holdout.looks import open_ledger
from cushion.certificates.holdout.shares import share_delta
from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.theorems.occam import holdout_bound

DELTA = Decimal("0.05")
SAMPLE = rows(60, name="sample", first=1)


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)


def certify(model: Any, held: Dataset, **how: Any) -> Certificate:
    return cushion.certify(model, SAMPLE, holdout=held, kind="holdout", **how)


def claim_of(certificate: Certificate) -> HoldoutClaim:
    assert isinstance(certificate.claim, HoldoutClaim)
    return certificate.claim


def opened(n: int = 1000) -> Dataset:
    """n rows under H.looks."""
    held = rows(n)
    open_ledger("H.looks", held, DELTA, SAMPLE)
    return held


def check(certificate: Certificate, held: Dataset, model: nn.Module, **more: Any) -> Any:
    path = certificate.save("c.cushion")
    with torch.no_grad():
        scores = model(torch.from_numpy(held.x)).numpy()
    given = cushion_verify.Given(x=held.x, y=held.y, answers=scores, **more)
    return cushion_verify.check(path, given)


# ---- what is stated


def test_the_first_use_states_the_count_and_its_binomial_bound() -> None:
    held = rows(300)
    certificate = certify(Told(30), held)
    claim = claim_of(certificate)
    assert (claim.errors, claim.m, claim.about, claim.look) == (30, 300, "f", None)
    assert claim.bound == holdout_bound(30, 300, DELTA)
    assert certificate.message == b""
    assert str(certificate).startswith("With probability at least 95 %, your net f errs on at most")
    verdict = check(certificate, held, Told(30))
    assert (verdict.ok, verdict.level, verdict.given) == (True, "replay", ["f's answers"])
    assert cushion.verify("c.cushion", SAMPLE, held, model=Told(30)).ok
    assert cushion.verify("c.cushion", held, model=Told(30)).ok


def test_every_line_is_stated_shared_and_replayed() -> None:
    held = rows(1200)
    certificate = certify(Told(60), held, per_class=True, top_k=2, selective="10%")
    claim = claim_of(certificate)
    assert [(line.what, line.which) for line in claim.lines] == [
        ("class", 0),
        ("class", 1),
        ("class", 2),
        ("top", 2),
    ]
    assert [(line.errors, line.m) for line in claim.lines[:3]] == [(20, 400)] * 3
    assert claim.selective is not None
    assert claim.selective.risk == "0.1"
    shares = [line.delta for line in claim.lines]
    shares += [claim.delta_all, claim.selective.delta, claim.selective.delta_refused]
    assert sum(map(Decimal, shares)) == DELTA
    assert check(certificate, held, Told(60)).ok
    for sentence in ("of class 2 it errs", "2 best scored", "it answers at least"):
        from cushion.certificates.holdout.words import other_sentences

        assert any(sentence in said for said in other_sentences(claim))


def test_any_net_that_answers_gets_one() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    fitted = LogisticRegression().fit(x[:200], y[:200])
    certificate = cushion.certify(
        fitted, (x[:200], y[:200]), holdout=(x[200:], y[200:]), kind="holdout"
    )
    wrong = int((fitted.predict(x[200:]) != y[200:]).sum())
    assert wrong <= certificate.claim.errors <= wrong + 3
    path = certificate.save("fitted.cushion")
    found = cushion.verify(path, (x[:200], y[:200]), (x[200:], y[200:]), model=fitted)
    assert found.ok
    assert found.given == []


def test_without_the_sample_held_out_rows_are_enough() -> None:
    certificate = cushion.certify(Told(3), None, holdout=rows(100), kind="holdout")
    assert certificate.claim.errors == 3


def test_ties_and_near_ties_are_errors() -> None:
    class Near(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            label = nn.functional.one_hot(x[:, 0].long(), 3).float()
            return 1 + label * torch.where(x[:, 1:2] < 10, 0.00005, 1.0)

    assert certify(Near(), rows(100)).claim.errors == 10


@pytest.mark.parametrize(("gap", "ok"), [(0.00011, True), (0.00007, True), (0.00004, False)])
def test_another_machine_counts_with_half_the_tolerance(gap: float, ok: bool) -> None:
    """Here all gaps are just above it; there they may shrink to half of it, and no further."""

    class Close(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 1 - 0.00012 + 0.00012 * nn.functional.one_hot(x[:, 0].long(), 3).double()

    held = rows(100)
    certificate = certify(Close(), held)
    assert certificate.claim.errors == 0
    there = 1 - gap + gap * np.eye(3)[held.y]
    given = cushion_verify.Given(x=held.x, y=held.y, answers=there)
    assert cushion_verify.check(certificate.save("c.cushion"), given).ok == ok


def test_what_belongs_to_other_kinds_is_refused() -> None:
    held = rows(30)
    with pytest.raises(BadInput, match="about a net of yours"):
        certify(None, held)
    with pytest.raises(BadInput, match="belong to `kind` = holdout"):
        cushion.certify(None, SAMPLE, per_class=True)
    with pytest.raises(BadInput, match="`top_k` = 3 of 3 classes is never wrong"):
        certify(Told(1), held, top_k=3)
    with pytest.raises(BadInput, match="no held-out part"):
        cushion.certify(Told(1), SAMPLE, kind="holdout")
    with pytest.raises(BadInput, match="are not held out"):
        certify(Told(1), SAMPLE)


# ---- looks


def test_looks_pay_for_all_answers_before_them() -> None:
    held = opened()
    first = claim_of(certify(Told(100), held, looks="H.looks"))
    assert first.look is not None
    assert (first.look.number, first.look.bits_before, first.errors) == (1, 0, 100)
    with pytest.raises(
        cushion.NoBetter, match="no better than the best so far, at most 100 errors"
    ):
        certify(Told(101), held, looks="H.looks")
    better = certify(Told(60), held, looks="H.looks", per_class=True)
    claim, ledger = claim_of(better), read_ledger("H.looks")
    assert claim.look is not None
    assert (claim.look.number, claim.look.bits_before) == (3, ledger.past[0].bits + 1)
    assert Decimal(claim.bound) > Decimal(holdout_bound(60, 1000, DELTA / 2))
    verdict = check(better, held, Told(60), looks=Path("H.looks").read_bytes())
    assert verdict.ok
    assert "look" in verdict.replayed
    assert verdict.conditional == []
    alone = check(better, held, Told(60))
    assert alone.ok
    assert alone.conditional
    assert alone.to_json()["look"] is None
    assert alone.to_json()["claimed_look"]["number"] == 3


def test_what_was_asked_before_is_answered_again_and_is_no_new_look() -> None:
    held = opened()
    once = certify(Told(100), held, looks="H.looks")
    with pytest.raises(cushion.NoBetter):
        certify(Told(101), held, looks="H.looks")
    content = Path("H.looks").read_bytes()
    assert certify(Told(100), held, looks="H.looks") == once
    with pytest.raises(cushion.NoBetter, match="look 2"):
        certify(Told(101), held, looks="H.looks")
    assert Path("H.looks").read_bytes() == content


class Breaks(nn.Module):
    """Fails on one row of the held-out ones, and says which in every way it has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x[:, 2] == 0).any()):
            warnings.warn("secret 7", stacklevel=1)
            raise ValueError("secret 7")
        return nn.functional.one_hot(x[:, 0].long(), 3).float()


def test_a_net_that_fails_is_told_so_and_no_more() -> None:
    held = opened()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(BadInput) as failed:
            certify(Breaks(), held, looks="H.looks")
    assert "counts as failed" in str(failed.value)
    assert "secret" not in str(failed.value)
    assert not [one for one in told if "secret" in str(one.message)]
    assert [one.said for one in read_ledger("H.looks").past] == ["failed"]
    with pytest.raises(BadInput, match=r"look 2 of H\.looks counts as failed"):
        certify(Breaks(), held, looks="H.looks")


def test_a_net_that_does_not_fit_is_refused_before_a_look_is_taken() -> None:
    held = opened()
    with pytest.raises(BadInput):
        certify(nn.Linear(4, 3), held, looks="H.looks")
    assert read_ledger("H.looks").past == ()


def test_an_interrupted_look_counts_as_failed() -> None:
    class Interrupts(Breaks):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if bool((x[:, 2] == 0).any()):
                raise KeyboardInterrupt
            return super().forward(x)

    held = opened()
    with pytest.raises(KeyboardInterrupt):
        certify(Interrupts(), held, looks="H.looks")
    assert [one.said for one in read_ledger("H.looks").past] == ["failed"]


def test_other_rows_and_another_delta_are_refused_without_a_look() -> None:
    held = opened()
    with pytest.raises(BadInput, match="not the rows that"):
        certify(Told(1), rows(1000, first=2), looks="H.looks")
    with pytest.raises(BadInput, match="was opened with δ"):
        certify(Told(1), held, looks="H.looks", delta=0.1)
    assert read_ledger("H.looks").past == ()
    with pytest.raises(BadInput, match="read only through it"):
        certify(Told(1), held)


# ---- the exact count stays secret


def everything(wrong: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that a look with this net leaves behind, fingerprints and chains masked."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CUSHION_DATA", str(folder / "store"))
    held, found = opened(), []
    asked: dict[str, Any] = {"per_class": True, "top_k": 2, "selective": "0.5"}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        certificate = certify(Told(wrong), held, looks="H.looks", **asked)
        try:
            certify(Told(wrong + 300), held, looks="H.looks")
        except cushion.NoBetter as refused:
            found.append(str(refused))
    verdict = check(certificate, held, Told(wrong), looks=Path("H.looks").read_bytes())
    found += [str(one.message) for one in told] + [str(certificate), repr(certificate)]
    found += [json.dumps(verdict.to_json()), *verdict.lines()]
    found += [
        file.read_bytes().decode("latin1") for file in sorted(folder.rglob("*")) if file.is_file()
    ]
    masked = [re.sub(r"[0-9a-f]{64}", "#", text) for text in found]
    # the digest at the end of a certificate is of the fingerprints too
    return [re.sub(r"(?s)(\x89cushion1\n.*).{32}$", r"\1", text) for text in masked]


def test_nets_of_one_cell_cannot_be_told_apart_by_anything_that_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = grid.counts(1000)
    high = next(step for step in steps if step > 300)
    low = steps[steps.index(high) - 1] + 1
    assert high - low >= 3
    both = [everything(n, tmp_path / str(n), monkeypatch) for n in (high, high - 1)]
    paths = [
        [text.replace(str(tmp_path / str(n)), "*") for text in texts]
        for n, texts in zip((high, high - 1), both, strict=True)
    ]
    assert paths[0] == paths[1]
    assert not any(re.search(rf"\b{high - 1}\b", text) for text in paths[1])


# ---- what the verifier refuses


def altered(certificate: Certificate, **changes: Any) -> Certificate:
    return Certificate(dataclasses.replace(certificate.claim, **changes), b"")


def test_a_count_that_is_too_small_is_not_ok() -> None:
    held = rows(300)
    certificate = certify(Told(30), held)
    less = altered(certificate, errors=29, bound=holdout_bound(29, 300, DELTA))
    verdict = check(less, held, Told(30))
    assert not verdict.ok
    assert "more of the held-out examples than the 29 stated" in verdict.reason
    assert "30" not in verdict.reason
    assert check(altered(certificate, errors=31, bound="0.2"), held, Told(30)).ok


def test_arithmetic_other_rows_and_another_net_are_not_ok() -> None:
    held = rows(300)
    certificate = certify(Told(30), held)
    assert check(altered(certificate, bound="0.12"), held, Told(30)).level == "none"
    assert not check(certificate, rows(300, first=3), Told(30)).ok
    assert not cushion.verify(certificate.save("f.cushion"), held, model=Told(29)).ok


class Kinder(Told):
    """Another program with the same numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.one_hot(x[:, 0].long(), 3).float() + 0 * self.wrong


def test_another_program_with_the_same_numbers_is_not_that_net() -> None:
    held = rows(300)
    certificate = certify(Told(30), held)
    verdict = cushion.verify(certificate.save("f.cushion"), held, model=Kinder(30))
    assert claim_of(certificate).program is not None
    assert not verdict.ok
    assert "programs differ" in verdict.reason


def test_lines_that_do_not_hold_are_not_ok() -> None:
    held = rows(1200)
    claim = claim_of(certify(Told(60), held, per_class=True, top_k=2, selective="20%"))
    assert claim.selective is not None
    for at in range(4):
        line = claim.lines[at]
        assert line.errors is not None
        fewer = dataclasses.replace(line, errors=line.errors - 1)
        lines = (*claim.lines[:at], fewer, *claim.lines[at + 1 :])
        verdict = check(Certificate(dataclasses.replace(claim, lines=lines), b""), held, Told(60))
        assert not verdict.ok
    for change in ({"bound": "0.01"}, {"bound_refused": "0.0"}, {"errors": 0}, {"refused": 0}):
        worse = dataclasses.replace(claim.selective, **change)
        refused = Certificate(dataclasses.replace(claim, selective=worse), b"")
        if "refused" in change:  # none were: nothing is worse
            assert claim.selective.refused == 0
            continue
        assert not check(refused, held, Told(60)).ok


def step_less(bound: str) -> str:
    return format(Decimal(bound) - Decimal("0.000001"), "f")


def test_every_bound_is_the_least_that_its_counts_and_its_part_of_delta_imply() -> None:
    """One step less is not ok by arithmetic alone: of all lines, and after all that was told."""
    held = opened()
    certify(Told(300), held, looks="H.looks")
    third = certify(Told(200), held, looks="H.looks")
    other = rows(1200, first=5)
    every = claim_of(certify(Told(60), other, per_class=True, top_k=2, selective="10%"))
    assert claim_of(third).look is not None
    assert every.selective is not None
    changes: list[tuple[HoldoutClaim, dict[str, Any]]] = [
        (one, {"bound": step_less(one.bound)}) for one in (claim_of(third), every)
    ]
    for at, line in enumerate(every.lines):
        less = dataclasses.replace(line, bound=step_less(line.bound))
        changes.append((every, {"lines": (*every.lines[:at], less, *every.lines[at + 1 :])}))
    for name in ("bound", "bound_refused"):
        stated = step_less(getattr(every.selective, name))
        less_sure = dataclasses.replace(every.selective, **{name: stated})
        changes.append((every, {"selective": less_sure}))
    for claim, change in changes:
        path = Certificate(claim, b"").save("true.cushion")
        assert cushion_verify.check(path).level == "message"
        path = Certificate(dataclasses.replace(claim, **change), b"").save("less.cushion")
        assert cushion_verify.check(path).level == "none", change


def test_a_line_of_a_look_that_is_too_small_is_not_ok_without_its_ledger_either() -> None:
    held = opened()
    good = claim_of(certify(Told(100), held, looks="H.looks", per_class=True))
    rates = cushion_verify.RATES
    for at, line in enumerate(good.lines):
        below = rates[rates.index(int(Decimal(line.bound) * 10_000)) - 1]
        less = dataclasses.replace(line, bound=f"{below / 10_000:.4f}")
        lines = (*good.lines[:at], less, *good.lines[at + 1 :])
        verdict = check(Certificate(dataclasses.replace(good, lines=lines), b""), held, Told(100))
        assert not verdict.ok
        assert f"the line class {at}" in verdict.reason


def test_lines_for_some_of_the_classes_are_not_ok() -> None:
    """Whoever leaves out the worst class, and shares δ among the others, is caught."""
    held, asked = rows(300), Asked(per_class=True)
    shares = share_delta(DELTA, 2, False, False)
    with torch.no_grad():
        scores = Told(30)(torch.from_numpy(held.x)).numpy()
    lines, _ = exact_lines(scored(scores, held.y, "0.0001"), asked, 2, shares)
    bound = holdout_bound(30, 300, shares.overall)
    some = {"lines": lines, "delta_all": format(shares.overall, "f"), "bound": bound}
    with pytest.raises(cushion_verify.Malformed, match="do not add up to all of them"):
        check(altered(certify(Told(30), held), **some), held, Told(30))


MALFORMED: list[dict[str, Any]] = [
    {"about": "g"},
    {"m": 0},
    {"errors": 301},
    {"delta_all": "0.05"},
    {"tolerance": "0.0"},
    {"net_fingerprint": "x"},
    {"program": "x"},
    {"assumptions": ()},
    {"ledger": ({"item": "a", "bits": 1, "meaning": ""},)},
]


@pytest.mark.parametrize("change", MALFORMED, ids=lambda change: next(iter(change)))
def test_claims_outside_the_format_are_malformed(change: dict[str, Any]) -> None:
    certificate = certify(Told(30), rows(300), top_k=2)
    path = altered(certificate, **change).save("c.cushion")
    with pytest.raises(cushion_verify.Malformed):
        cushion_verify.check(path)


@pytest.mark.parametrize("lines", [[("class", 0)], [("top", 0)], [("top", 1), ("top", 2)]])
def test_lines_that_nobody_can_ask_for_are_malformed(lines: list[tuple[str, int]]) -> None:
    each = {0: "0.025", 1: "0.0125"}[len(lines) - 1]
    made: Any = [Line(what, which, 300, 300, each, "1.0") for what, which in lines]  # type: ignore[arg-type]
    shared = {"lines": tuple(made), "delta_all": "0.025", "bound": "0.5"}
    path = altered(certify(Told(30), rows(300)), **shared).save("c.cushion")
    with pytest.raises(cushion_verify.Malformed, match="the lines must be all classes"):
        cushion_verify.check(path)


def test_a_look_with_other_bits_number_or_chain_is_refused_by_its_ledger() -> None:
    held = opened()
    certify(Told(200), held, looks="H.looks")
    good = certify(Told(100), held, looks="H.looks", top_k=2, selective="50%")
    content, claim = Path("H.looks").read_bytes(), claim_of(good)
    assert claim.look is not None
    assert check(good, held, Told(100), looks=content).ok
    first: dict[str, Any] = {"number": 1, "bits_before": 0}
    for change in (first, {"bits_before": 1}, {"chain": "0" * 64}, {"number": 3}):
        look = dataclasses.replace(claim.look, **change)
        ledger = tuple(dataclasses.replace(i, bits=look.bits_before) for i in claim.ledger)
        forged = altered(good, look=look, ledger=ledger, bound="0.9")
        verdict = check(forged, held, Told(100), looks=content)
        assert not verdict.ok
        assert "ledger of looks does not confirm" in verdict.reason
    assert claim.selective is not None
    worse = dataclasses.replace(claim.selective, bound_refused="0.9535")
    assert not check(altered(good, selective=worse), held, Told(100), looks=content).ok
    more = altered(good, errors=102, bound="0.9")
    assert not check(more, held, Told(100), looks=content).ok
    with pytest.raises(cushion_verify.Malformed, match="a count of the ladder"):
        check(altered(good, errors=101, bound="0.9"), held, Told(100))
    with pytest.raises(cushion_verify.BadInput, match="damaged"):
        check(good, held, Told(100), looks=content.replace(b"counted", b"counter"))


@pytest.mark.parametrize(
    "change", [{"delta": "0.04"}, {"m": 1001}, {"data_fingerprint": "1" * 64}], ids=str
)
def test_a_ledger_of_other_rows_or_another_delta_confirms_nothing(change: dict[str, Any]) -> None:
    held = opened()
    good = certify(Told(100), held, looks="H.looks")
    objects = [json.loads(line) for line in Path("H.looks").read_text().splitlines()]
    content = chained([{**objects[0], **change}, *objects[1:]])
    look = dataclasses.replace(
        claim_of(good).look, chain=json.loads(content.splitlines()[1])["chain"]
    )
    verdict = check(altered(good, look=look), held, Told(100), looks=content)
    assert not verdict.ok
    assert "it is about other rows, or has another δ" in verdict.reason


def test_a_forged_file_is_refused_before_anything_is_counted() -> None:
    """verify on this machine answers nothing that is not in the ledger."""
    held = opened()
    good = certify(Told(100), held, looks="H.looks")
    forged = altered(good, errors=99, bound="0.9")
    path = forged.save("forged.cushion")
    said = []
    for model in (Told(100), Told(99)):
        verdict = cushion.verify(path, SAMPLE, held, model=model, looks="H.looks")
        assert not verdict.ok
        said.append(verdict.reason)
    assert "ledger of looks" in said[0]
    with pytest.raises(BadInput, match="give that as `looks`"):
        cushion.verify(path, SAMPLE, held, model=Told(100))
