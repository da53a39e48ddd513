"""Rows that have or had a ledger of looks, and certificates that are no look of it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.certificates import case
from tests.certificates.samples import sample
from tests.certificates.user_net import f

import cushion
from cushion.certificates import recheck
from cushion.certificates.certificate import Certificate
from cushion.certificates.holdout.looks import holding, open_ledger
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
    with pytest.raises(BadInput, match="first use would be false; hold out other rows"):
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
