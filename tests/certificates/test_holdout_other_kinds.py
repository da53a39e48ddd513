"""Rows that have or had a ledger of looks, and certificates that are no look of it."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.certificates import case, user_net
from tests.certificates.samples import sample
from tests.certificates.user_net import f

import cushion
from cushion.certificates import recheck
from cushion.certificates.certificate import Certificate
from cushion.certificates.format.holdout_claim import Look
from cushion.certificates.holdout.looks import holding, open_ledger
from cushion.certificates.holdout.words import count_sentence
from cushion.certificates.picks.options import PicksOptions
from cushion.data import registered
from cushion.data.inputs import Inputs
from cushion.errors import BadInput, Remark

DELTA = Decimal("0.05")
SAMPLE, HELD = sample("halves"), sample("halves held out")
FRESH = Inputs("halves unlabelled", sample("halves unlabelled").x)
KINDS = ("occam", "picks", "pac-bayes", "transfer", "first use")


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)


def made(kind: str) -> Certificate:
    """A certificate with a hold-out line, or of the hold-out rows' first use."""
    if kind == "first use":
        return cushion.certify(f(), SAMPLE, kind="holdout", holdout=HELD)
    if kind == "picks":
        return cushion.certify(None, SAMPLE, kind="picks", holdout=HELD)
    return {"occam": case.base, "pac-bayes": case.gaussian, "transfer": case.transferred}[kind](
        True
    )


def written() -> str:
    """The sample and its held-out part as a source that is named."""
    names = {"x": SAMPLE.x, "y": SAMPLE.y, "x_test": HELD.x, "y_test": HELD.y}
    np.savez("d.npz", **names)
    return "d.npz"


def of_f(kind: str) -> dict[str, Any]:
    return {"model": f(), "unlabelled": FRESH} if kind == "transfer" else {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_ledger_opens_its_rows_for_a_look_of_it_alone(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recount of any other certificate would be an exact count that nobody pays for."""
    path = made(kind).save("c.cushion")
    open_ledger("H.looks", HELD, DELTA, SAMPLE)
    for name in ("as_dataset", "load_pair", "as_inputs"):
        monkeypatch.setattr(recheck, name, None)  # no row is read
    for data, holdout in ((SAMPLE, HELD), (written(), None), (None, HELD)):
        with pytest.raises(BadInput, match=r"^\S*c\.cushion is not a look at .*leave `looks` out$"):
            cushion.verify(path, data, holdout, looks="H.looks", **of_f(kind))


@pytest.mark.parametrize("kind", KINDS[:4])
def test_without_the_ledger_the_held_out_part_is_left_out_or_refused(kind: str) -> None:
    path = made(kind).save("c.cushion")
    whole = cushion.verify(path, SAMPLE, HELD, **of_f(kind))
    assert "holdout" in whole.replayed
    open_ledger("H.looks", HELD, DELTA, SAMPLE)
    with pytest.raises(BadInput, match="are read only through it"):
        cushion.verify(path, SAMPLE, HELD, **of_f(kind))
    with pytest.warns(Remark, match="going on without them"):
        found = cushion.verify(path, written(), **of_f(kind))
    assert found.ok
    assert "holdout" not in found.replayed


def test_f_does_not_answer_on_held_out_rows_under_a_ledger() -> None:
    """They would serve to see that these are f's answers."""
    path = made("transfer").save("c.cushion")
    open_ledger("H.looks", HELD, DELTA, SAMPLE)
    asked: list[int] = []
    net = f()

    class Counts(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            asked.append(len(x))
            scores: torch.Tensor = net(x)
            return scores

    with pytest.warns(Remark, match="going on without them"):
        cushion.verify(path, written(), model=Counts(), unlabelled=FRESH)
    assert set(asked) & {len(HELD)} == set()


def test_everything_that_takes_held_out_rows_takes_the_held_out_part_of_a_file() -> None:
    source = written()
    path = cushion.certify(f(), None, holdout=source, kind="holdout").save("c.cushion")
    for sample_ in (SAMPLE, None):
        assert cushion.verify(path, sample_, source, model=f()).ok
    assert cushion.bounds(f(), SAMPLE, holdout=source).holdout_m == len(HELD)
    made = cushion.certify(None, SAMPLE, kind="picks", holdout=source).claim
    assert made.holdout is not None
    assert made.holdout.data_fingerprint == HELD.fingerprint


# ---- who was counted on rows without a ledger


def fit(x: torch.Tensor, y: torch.Tensor, seed: int) -> torch.nn.Module:
    return f()


COUNTED: dict[str, Any] = {
    "occam": case.base,
    "pac-bayes": case.gaussian.__wrapped__,
    "transfer": case.transferred,
    "picks": lambda _: cushion.certify(None, SAMPLE, kind="picks", holdout=HELD),
    "fit": lambda _: cushion.certify(None, SAMPLE, kind="picks", fit=fit, holdout=HELD),
    "holdout": lambda _: cushion.certify(f(), SAMPLE, kind="holdout", holdout=HELD),
    "bounds": lambda _: cushion.bounds(f(), SAMPLE, holdout=HELD),
}


@pytest.mark.parametrize("kind", COUNTED)
def test_every_kind_remembers_whom_it_counted(kind: str, recwarn: Any) -> None:
    def remarks() -> list[str]:
        said = [str(one.message) for one in recwarn if "before" in str(one.message)]
        recwarn.clear()
        return said

    COUNTED[kind](True)
    COUNTED[kind](True)  # the same classifier again
    assert remarks() == []
    turned = HELD.select(np.arange(len(HELD))[::-1], "turned")
    assert len(registered.first_uses(turned)) == 1
    other = user_net.other()
    cushion.certify(other, SAMPLE, kind="holdout", holdout=turned)
    assert len(remarks()) == 1
    COUNTED[kind](True)
    (said,) = remarks()
    assert "another classifier was counted on halves held out before" in said
    assert ("--looked 2" in said) is (kind in ("picks", "fit"))


def test_f_is_one_classifier_wherever_it_is_counted() -> None:
    for kind in ("holdout", "bounds", "fit"):
        COUNTED[kind](True)
        assert len(registered.first_uses(HELD)) == 1


def test_picks_that_pay_for_all_who_were_counted_are_not_doubted(recwarn: Any) -> None:
    COUNTED["holdout"](True)
    paid = PicksOptions(looks=2)
    cushion.certify(None, SAMPLE, kind="picks", holdout=HELD, picks=paid)
    assert not [one for one in recwarn if "counted on" in str(one.message)]


def test_a_ladder_of_its_own_is_not_doubted(recwarn: Any) -> None:
    source = written()
    for model in (None, f()):
        cushion.certify(model, source)
        recwarn.clear() if model is not None else None
        assert not [one for one in recwarn if "counted on" in str(one.message)]


def test_a_ledger_of_rows_that_were_counted_on_before_is_doubted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    COUNTED["picks"](True)
    with pytest.warns(Remark, match=r"^a classifier was counted .* H\.looks holds only for"):
        open_ledger("H.looks", HELD, DELTA, SAMPLE)
    monkeypatch.setenv("CUSHION_DATA", str(Path("another").resolve()))
    COUNTED["picks"](True)
    COUNTED["holdout"](True)
    with pytest.warns(Remark, match=r"^2 classifiers were counted .* H\.looks holds only for"):
        cushion.certify(f(), SAMPLE, holdout=HELD, kind="holdout", looks="H.looks")


# ---- looks


class Unreadable(torch.nn.Module):
    """A net whose forward nobody can follow and that has no source."""

    def __init__(self) -> None:
        super().__init__()
        self.net = f()

    exec("def forward(self, x): return self.net(x) if float(x.sum()) < 1e9 else None")


def test_a_net_whose_program_cannot_be_read_gets_no_look_and_no_check_of_one() -> None:
    open_ledger("H.looks", HELD, DELTA, SAMPLE)
    before = Path("H.looks").read_bytes()
    with pytest.raises(BadInput, match=r"code of your net cannot be read, .* export it with torch"):
        cushion.certify(Unreadable(), SAMPLE, holdout=HELD, kind="holdout", looks="H.looks")
    assert Path("H.looks").read_bytes() == before
    made = cushion.certify(f(), SAMPLE, holdout=HELD, kind="holdout", looks="H.looks")
    path = made.save("c.cushion")
    with pytest.raises(BadInput, match="code of your net cannot be read"):
        cushion.verify(path, SAMPLE, HELD, model=Unreadable(), looks="H.looks")
    claim: Any = made.claim
    old = Certificate(dataclasses.replace(claim, program=None), b"").save("old.cushion")
    with pytest.raises(BadInput, match="code of your net cannot be read"):
        cushion.verify(old, SAMPLE, HELD, model=f(), looks="H.looks")
    assert cushion.verify(path, SAMPLE, HELD, model=f(), looks="H.looks").ok


def test_the_net_of_the_best_count_is_told_so_and_to_ask_for_all_at_once() -> None:
    open_ledger("H.looks", HELD, DELTA, SAMPLE)
    cushion.certify(f(), SAMPLE, holdout=HELD, kind="holdout", looks="H.looks")
    how: dict[str, Any] = {"kind": "holdout", "looks": "H.looks", "per_class": True}
    for model, same in ((f(), True), (user_net.other(), False)):
        with pytest.raises(cushion.NoBetter) as told:
            cushion.certify(model, SAMPLE, holdout=HELD, **how)
        own = "(it is the net of that count, look 1: ask for all at once)"
        assert (own in str(told.value)) is same


@pytest.mark.parametrize(("bits", "said"), [(1, "1 bit that was"), (9, "9 bits that were")])
def test_what_a_look_pays_is_said_in_the_right_number(bits: int, said: str) -> None:
    open_ledger("H.looks", HELD, DELTA, SAMPLE)
    claim: Any = cushion.certify(f(), SAMPLE, holdout=HELD, kind="holdout", looks="H.looks").claim
    second = dataclasses.replace(claim, look=Look(2, bits, "0" * 64))
    assert f"it pays the {said} told before it" in count_sentence(second)


# ---- rows of a closed ledger


def closed() -> None:
    open_ledger("H.looks", HELD, DELTA, SAMPLE)
    with holding("H.looks") as ledger:
        ledger.close()


def test_rows_of_a_closed_ledger_have_no_first_use() -> None:
    closed()
    np.savez("h.npz", x=HELD.x[::-1], y=HELD.y[::-1])
    few = HELD.select(np.arange(7), "few")
    for data, holdout in ((SAMPLE, HELD), (None, HELD), (SAMPLE, few), (None, "h.npz")):
        with pytest.raises(BadInput, match=r"looked at under .*H\.looks, which is closed, .*false"):
            cushion.certify(f(), data, holdout=holdout, kind="holdout")
    with pytest.raises(BadInput, match="first use would be false; give other rows"):
        cushion.certify(f(), written(), kind="holdout")


def test_the_ladder_goes_on_without_a_hold_out_rung_on_them() -> None:
    closed()
    for how in ({"data": SAMPLE, "holdout": HELD}, {"data": written()}):
        with pytest.warns(Remark, match=r"H\.looks, which is closed, .*without a hold-out line"):
            found = cushion.certify(f(), **how)
        assert {rung.kind for rung in found.ladder if rung.bound is not None} == {"picks"}
        assert found.claim.holdout is None


HOW: dict[str, dict[str, Any]] = {
    "occam": {"method": "subspace", "steps": 2},
    "picks": {},
    "pac-bayes": {"minutes": 0.02},
}


@pytest.mark.parametrize("kind", [*HOW, "compress"])
def test_other_kinds_go_on_without_a_hold_out_line_on_them(kind: str) -> None:
    def made() -> Certificate | None:
        if kind == "compress":
            return cushion.compress(f(), SAMPLE, method="magnitude", holdout=HELD).certificate
        return cushion.certify(None, SAMPLE, kind=kind, holdout=HELD, **HOW[kind])

    closed()
    with pytest.warns(Remark, match=r"H\.looks, which is closed, .*without a hold-out line"):
        found = made()
    assert found is not None
    assert found.claim.holdout is None


def test_rows_that_never_had_a_ledger_keep_their_line() -> None:
    closed()
    other = sample("halves unlabelled")
    assert cushion.certify(f(), SAMPLE, holdout=other, kind="holdout").claim.m == len(other)
    assert cushion.certify(None, SAMPLE, kind="picks", holdout=other).claim.holdout is not None


def test_measures_read_rows_of_a_closed_ledger() -> None:
    closed()
    assert cushion.measure(f(), HELD, only=["margins"]) is not None


def test_bounds_go_on_without_the_row_that_counts_on_them() -> None:
    names = [row.name for row in cushion.bounds(f(), SAMPLE, holdout=HELD).bounds]
    closed()
    with pytest.warns(Remark, match="without a hold-out line"):
        found = cushion.bounds(f(), SAMPLE, holdout=HELD)
    left = [row.name for row in found.bounds]
    assert set(names) - set(left) == {"held-out examples"}


# ---- ledgers that were begun on another machine


def test_a_ledger_from_elsewhere_keeps_its_rows_here_as_it_left_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed()
    monkeypatch.setenv("CUSHION_DATA", str(Path("another").resolve()))
    with pytest.raises(BadInput, match=r"H\.looks is closed"):
        cushion.certify(f(), SAMPLE, holdout=HELD, kind="holdout", looks="H.looks")
    with pytest.raises(BadInput, match="first use would be false"):
        cushion.certify(f(), SAMPLE, holdout=HELD, kind="holdout")


def test_a_ledger_from_elsewhere_of_rows_that_have_one_here_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = HELD.select(np.arange(30), "part")
    open_ledger("elsewhere.looks", part, DELTA, SAMPLE)
    monkeypatch.setenv("CUSHION_DATA", str(Path("another").resolve()))
    closed()
    with pytest.raises(BadInput, match=r"another ledger of looks here, .*H\.looks; go on with"):
        cushion.certify(f(), SAMPLE, holdout=part, kind="holdout", looks="elsewhere.looks")


def test_a_moved_ledger_is_closed_where_it_is() -> None:
    open_ledger("H.looks", HELD, DELTA, SAMPLE)
    Path("H.looks").rename("moved.looks")
    with holding("moved.looks") as ledger:
        ledger.close()
    assert cushion.measure(f(), HELD, only=["margins"]) is not None
    with pytest.raises(BadInput, match=r"moved\.looks, which is closed"):
        cushion.certify(f(), SAMPLE, holdout=HELD, kind="holdout")
