"""The hold-out certificate of the user's own net f: any net that gives answers.

L(f) ≤ BinInv(errors; n, δ) for n fresh held-out rows, or, where the rows have a ledger of looks,
at what is left of δ after all that was told about them before (docs/holdout.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

import torch
from torch import nn

from cushion.certificates.answers import fingerprint_net, score
from cushion.certificates.certificate import Certificate
from cushion.certificates.format.claims import LedgerItem
from cushion.certificates.format.holdout_claim import HoldoutClaim, Look, assumptions_of_holdout
from cushion.certificates.holdout.counting import (
    COARSE_TOLERANCE,
    RELATIVE_TOLERANCE,
    Scored,
    scored,
)
from cushion.certificates.holdout.ledger import Ledger, Past, Request
from cushion.certificates.holdout.lines import bound_of, exact_lines, plain, tell, told_lines
from cushion.certificates.holdout.looks import Holding, check_program, holding
from cushion.certificates.holdout.options import HoldoutOptions
from cushion.certificates.holdout.shares import Shares, share_delta
from cushion.certificates.sample_assumptions import notes_on
from cushion.data import AnyData, Dataset, as_dataset, load_pair
from cushion.data.given import as_held_out
from cushion.data.inputs import as_holdout
from cushion.data.registered import (
    Withheld,
    check_first_use,
    note_first_use,
    reading_through,
)
from cushion.errors import BadInput, CushionError, remark
from cushion.nets.batch_size import batches
from cushion.nets.classifier import behind, step_before
from cushion.nets.devices import placed
from cushion.nets.normalise import Normalise
from cushion.nets.program import program_fingerprint
from cushion.numerics import counted
from cushion.theorems.occam import parse_delta

Found = TypeVar("Found")
_HALVES = (torch.float16, torch.bfloat16)
_FAILED = (
    "your net failed on the held-out rows, and how must not be told: look {k} of {path} counts as "
    "failed; try the net on other rows first"
)


class NoBetter(CushionError):
    """A look's answer: the net errs no less than the best one looked at; no certificate."""


def certify_holdout(
    model: Any,
    data: AnyData | None,
    holdout: AnyData | None,
    options: HoldoutOptions,
    *,
    delta: str | None = None,
    normalise: Normalise | None = None,
    device: str | None = None,
    batch: int | None = None,
) -> Certificate:
    """Count f's errors on the held-out rows and state what they prove.

    data: the source whose held-out part is meant, or the sample beside which `holdout` is held out
    (None: it is not at hand). With `options.looks` the count is a look of that ledger: the file
    states it rounded up, earlier answers are paid, and NoBetter is raised where the net is no
    better than the best so far. What was asked before is answered again, and is no new look.
    delta: 0.05 where it is None, or the ledger's.

    With probability ≥ 1 - δ over the draw of the rows all stated bounds hold, of all looks at once,
    under `assumptions_of_holdout`.
    """
    if model is None:
        raise BadInput("`kind` = holdout is about a net of yours; give `model`")
    sample, rows = read_rows(data, holdout, options.looks)
    net = placed(behind(model, normalise, rows.shape), device)
    half = isinstance(net, nn.Module) and any(p.dtype in _HALVES for p in net.parameters())
    tolerance = COARSE_TOLERANCE if half else RELATIVE_TOLERANCE
    asked = options.asked(rows.classes)
    request = Request(fingerprint_net(net), program_fingerprint(net), tolerance, asked)
    notes: dict[str, Any] = {"normalise": said} if (said := step_before(net)) else {}
    with batches(batch):
        if options.looks is None:
            return _first_use(net, rows, request, parse_delta(delta or "0.05"), notes)
        check_program(request.program)
        with holding(options.looks) as held:
            _check_rows(held.ledger, rows, delta)
            held.take_up(rows, beside=sample)
            past = held.ledger.repeated(request)
            if past is None:
                if sample is not None:  # whatever can be said without a look
                    score(net, sample.x[:2], classes=rows.classes, labels=sample.labels)
                past = _look(held, net, rows, request)
            return _of_look(held.ledger, past, notes)


def read_rows(
    data: AnyData | None, holdout: AnyData | None, looks: str | None
) -> tuple[Dataset | None, Dataset]:
    """The sample, where there is one, and the held-out rows, which without `looks` are used first.

    Rows of a ledger were compared with their sample when it was opened: what they share with any
    sample that someone gives would be an answer, and so would be how they do not fit it.
    """
    sample = None
    with reading_through(looks):
        if holdout is None:
            if data is None:
                said = "there are no examples; give `holdout`, or `data` with a held-out part"
                raise BadInput(said)
            sample, holdout = _fitting(lambda: load_pair(data), data, looks)
            if holdout is None:
                raise BadInput(
                    f"{sample.name} has no held-out part that may be read; say which rows are held "
                    "out with `holdout`"
                )
        elif data is not None:
            sample = as_dataset(data)
        rows = _fitting(lambda: as_held_out(holdout, like=sample), holdout, looks)
    if looks is None:
        check_first_use(rows.x, rows.name)
        if sample is not None:
            as_holdout(rows, sample)
    return sample, rows


def _fitting(read: Callable[[], Found], source: AnyData, looks: str | None) -> Found:
    """What `read` gives; if rows of a ledger do not fit their sample, that is said and no more."""
    try:
        return read()
    except Withheld:
        raise
    except CushionError:
        if looks is None:
            raise
        as_dataset(source)  # what is wrong with it by itself
    raise BadInput(
        "the held-out examples do not fit the sample (labels, columns or shapes), and how must not "
        f"be told; give the sample that they were held out of when {looks} was opened, or "
        "`holdout` alone"
    )


def _check_rows(ledger: Ledger, rows: Dataset, delta: str | None) -> None:
    """BadInput unless these are the ledger's rows, at its δ."""
    if (rows.fingerprint, rows.classes) != (ledger.data_fingerprint, ledger.classes):
        raise BadInput(
            f"{rows.name}: these are not the rows that {ledger.path} was opened with, {ledger.m} "
            f"of {ledger.data}; give those"
        )
    if delta is not None and parse_delta(delta) != ledger.delta:
        raise BadInput(
            f"{ledger.path} was opened with δ = {ledger.delta}; leave `delta` = {delta} out"
        )


def _scored(net: Any, rows: Dataset, tolerance: str) -> Scored:
    known, names = rows.classes, rows.labels
    found = score(net, rows.x, classes=known, labels=names, describe="f's answers")
    return scored(found.double().numpy(), rows.y, tolerance)


def _first_use(
    net: Any, rows: Dataset, request: Request, delta: Decimal, notes: dict[str, Any]
) -> Certificate:
    """The certificate of rows that nobody has looked at before."""
    remark(*rows.doubts)
    found, asked = _scored(net, rows, request.tolerance), request.asked
    shares = _shares(request, rows.classes, delta)
    lines, selective = exact_lines(found, asked, rows.classes, shares)
    errors = int(found.missed().sum())
    note_first_use(rows, f"{request.net_fingerprint}-{request.program or ''}")
    claim = HoldoutClaim(
        data=rows.name,
        data_fingerprint=rows.fingerprint,
        m=len(rows),
        errors=errors,
        delta=plain(delta),
        bound=bound_of(errors, len(rows), shares.overall, None),
        delta_all=plain(shares.overall),
        **_subject(request),
        look=None,
        lines=lines,
        selective=selective,
        ledger=(),
        assumptions=assumptions_of_holdout(None),
        made_with={**notes, **notes_on(rows)},
    )
    return Certificate(claim, b"")


def _look(held: Holding, net: Any, rows: Dataset, request: Request) -> Past:
    """One look: written down, made, and its answer written down.

    An exception would tell more than "failed", and so would a warning: neither is passed on.
    """
    look = held.ask(request)
    ledger = held.ledger
    shares = _shares(request, ledger.classes, ledger.delta)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _scored(net, rows, request.tolerance)
        told = tell(found, request.asked, ledger.classes, shares, look, ledger.best)
    except Exception:
        held.answer(None, "failed")
        raise BadInput(_FAILED.format(k=look.number, path=ledger.path)) from None
    except BaseException:  # interrupted
        held.answer(None, "failed")
        raise
    return held.answer(told, "no better" if told is None else "counted")


def _of_look(ledger: Ledger, past: Past, notes: dict[str, Any]) -> Certificate:
    """The certificate of a look that was answered, from the ledger alone."""
    look, told, request = past.look, past.told, past.request
    if told is None:
        before = [one for one in ledger.past[: look.number - 1] if one.told is not None]
        best = before[-1]  # each count is below those before it
        assert best.told is not None
        own = ""
        if _subject(best.request) == _subject(request):
            own = f" (it is the net of that count, look {best.look.number}: ask for all at once)"
        raise NoBetter(
            f"your net is no better than the best so far, at most {best.told.errors} errors on "
            f"{ledger.m} held-out rows{own}: look {look.number} of {ledger.path}, which costs "
            f"later ones {counted(past.bits, 'bit')}; no certificate is written"
        )
    shares = _shares(request, ledger.classes, ledger.delta)
    lines, selective = told_lines(told, request.asked, ledger.classes, shares)
    claim = HoldoutClaim(
        data=ledger.data,
        data_fingerprint=ledger.data_fingerprint,
        m=ledger.m,
        errors=told.errors,
        delta=plain(ledger.delta),
        bound=bound_of(told.errors, ledger.m, shares.overall, look),
        delta_all=plain(shares.overall),
        **_subject(request),
        look=look,
        lines=lines,
        selective=selective,
        ledger=_ledger(look),
        assumptions=assumptions_of_holdout(look),
        made_with=notes,
    )
    return Certificate(claim, b"")


def _subject(request: Request) -> dict[str, Any]:
    net, program = request.net_fingerprint, request.program
    return {"net_fingerprint": net, "program": program, "tolerance": request.tolerance}


def _shares(request: Request, classes: int, delta: Decimal) -> Shares:
    asked = request.asked
    per_class = classes if asked.per_class else 0
    return share_delta(delta, per_class, asked.top_k is not None, asked.selective is not None)


def _ledger(look: Look) -> tuple[LedgerItem, ...]:
    what = f"all that looks 1 to {look.number - 1} were told about these rows"
    k = look.number
    if k == 1:
        what = "nothing was told about these rows before"
    meaning = f"{what}; the look's number is paid by a factor 1/({k}·{k + 1}) of δ"
    return (LedgerItem("answers before", look.bits_before, meaning),)
