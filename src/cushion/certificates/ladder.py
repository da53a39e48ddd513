"""The strongest honest statement that what was given allows, as a ladder of kinds.

Hold-out, about the user's net f, where there are f and held-out labels; transfer, about f, where
there are fresh unlabelled inputs; picks, about a classifier g, from the sample alone; Occam, the
same by a search that takes minutes, where picks cannot read the sample or it is asked for. With
both, the transfer goes through the g that bounds f better.

All that is made at once shares δ, so all of it holds together, and the best may be quoted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from decimal import Decimal
from os import PathLike
from typing import Any, Literal, TypeAlias

import numpy as np

from cushion.certificates.answers import teacher_scores
from cushion.certificates.best import tell_nobody
from cushion.certificates.certificate import Certificate, total_delta
from cushion.certificates.format.claims import Transfer
from cushion.certificates.picks.configurations import learner_for, numbers_for
from cushion.certificates.search.sample import reading_for
from cushion.certificates.transfer import split_delta
from cushion.data import AnyData, Dataset, as_dataset, load_pair, sources
from cushion.data.doubts import doubts_about_error
from cushion.data.inputs import Inputs, as_fresh, as_holdout
from cushion.data.registered import unless_looked_at
from cushion.errors import BadInput, remark
from cushion.nets.batch_size import batches
from cushion.nets.classifier import behind
from cushion.nets.devices import placed
from cushion.nets.normalise import Normalise
from cushion.numerics import float_up, percent_up
from cushion.records import Record
from cushion.theorems.occam import parse_delta

Make: TypeAlias = Callable[..., Certificate]  # certify() itself, with a kind and a share of δ
Step: TypeAlias = Literal["holdout", "transfer", "picks", "occam"]
_HALF = Decimal("0.5")
_HELD = (
    "by held-out labels your net f errs on at most {}; now a classifier g is bounded by the sample "
    "alone, which may take minutes (Ctrl-C goes on without)"
)
_TIME = "time: it was interrupted"
_WITHHELD = "withheld: they are under a ledger of looks (`kind` = holdout reads them)"
_LOOKED_AT = "withheld: they were looked at under a ledger; others, used for nothing else"
_FEW = 1000  # rows of the sample on which a net that was badly loaded shows


class Rung(Record):
    """One kind of statement: what it says here, or what it would need.

    bound and delta are None where it was not made; `certificate` is what carries it.
    """

    kind: Step
    about: Literal["f", "g"]
    bound: float | None
    delta: str | None  # a transfer's is that of the whole statement, g's part of it included
    needs: str
    certificate: Certificate | None = field(default=None, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        plain = replace(self, certificate=None)
        return {name: value for name, value in vars(plain).items() if name != "certificate"}


class Share(Record):
    """What a part of δ pays for."""

    item: str
    delta: str


def climb(
    make: Make,
    model: Any,
    data: AnyData,
    holdout: AnyData | None = None,
    *,
    unlabelled: Inputs | AnyData | None = None,
    delta: str | float = "0.05",
    backbone: Any = None,
    stated_error: float | None = None,
    searching: dict[str, Any] | None = None,
    withheld: bool = False,
    **how: Any,
) -> tuple[Rung, ...]:
    """All rungs, from the strongest kind on; those that were made fail together with probability at
    most δ.

    make: `certify`; how: how the model answers (normalise, device, batch); searching: what only a
    search is told. If that says `minutes`, Occam is run beside picks, and they share δ. An
    interrupt keeps the kinds that were made before. withheld: of `data`, `is_withheld`.
    """
    if unlabelled is not None and model is None:
        raise BadInput("`unlabelled` serves to bound the error of your own net; give `model` too")
    if holdout is None:
        sample, held = load_pair(data)
        withheld = withheld or (held is None and is_withheld(data))
    else:
        sample, held = as_dataset(data), holdout
    before, held = held, unless_looked_at(as_holdout(held, sample))
    looked_at = before is not None and held is None
    instead = _WITHHELD if withheld else _LOOKED_AT if looked_at else ""
    total = parse_delta(str(delta))
    own = model is not None and held is not None
    first = _about_g(sample, backbone, needed=not own)
    if unlabelled is not None and first is None:
        raise BadInput(
            f"{sample.name}: neither picks nor integer nets read its inputs, so nothing can be "
            "compared with your net; leave `unlabelled` out"
        )
    if unlabelled is not None:  # what is refused is refused before held-out rows are counted
        unlabelled = as_fresh(unlabelled, sample, reading_for(sample))
    behind(model, how.get("normalise"), sample.shape)  # for the same reason
    made: dict[str, Certificate] = {}
    interrupted = False
    tell = (searching or {}).get("tell", tell_nobody)
    share, rest = split_delta(total, _HALF) if own and first is not None else (total, total)
    if own:
        told = format(share, "f")
        line: dict[str, Any] = {"holdout": held, "delta": told, "stated_error": stated_error}
        made["holdout"] = make(model, sample, kind="holdout", **line, **how)
        if first is not None:
            tell(_HELD.format(percent_up(str(made["holdout"].claim.bound))))
    for about_g, part in _shared(first, rest, (searching or {}).get("minutes")):
        # g is counted on held-out rows only where f is not: each look at them would cost
        given: dict[str, Any] = {"holdout": None if own else held, "delta": format(part, "f")}
        given |= {} if backbone is None else {"backbone": backbone}
        given |= (searching or {}) if about_g == "occam" else {}
        imitated = None
        if unlabelled is not None or (about_g == "occam" and model is not None):
            imitated, given = model, {**given, **how, "unlabelled": unlabelled}
        try:
            made[about_g] = make(imitated, sample, kind=about_g, **given)
        except KeyboardInterrupt:
            if not made:
                raise
            tell("interrupted: going on with what was made before")
            interrupted = True
            break
    if model is not None and not own:  # the hold-out's sample was looked at for it
        doubt(model, sample, stated_error, **how)
    return _rungs(made, model is not None, interrupted, instead)


def is_withheld(data: AnyData) -> bool:
    """Whether a source of which `load_pair` gives no held-out part has one, under a ledger."""
    return isinstance(data, str | PathLike) and sources.load_pair(data)[1] is not None


def best(rungs: tuple[Rung, ...]) -> Rung:
    """What is best for the user: about their own net if anything is, and then the smallest."""
    made = [rung for rung in rungs if rung.bound is not None]
    return min(made, key=lambda rung: (rung.about != "f", rung.bound))


def answer_of(rungs: tuple[Rung, ...]) -> Certificate:
    """The certificate of the best rung, which knows the others."""
    found = best(rungs).certificate
    assert found is not None
    return replace(found, ladder=rungs)


def shares(rungs: tuple[Rung, ...]) -> tuple[Share, ...]:
    """What each part of δ pays for; they sum to δ."""
    found = []
    for rung in rungs:
        if rung.certificate is None or rung.kind == "transfer":
            continue
        claim = rung.certificate.claim
        subject = "your net f" if rung.about == "f" else "g"
        found.append(Share(f"{rung.kind}: the bound on {subject}", claim.delta))
        if (line := _transfer(rung.certificate)) is not None:
            found.append(Share("transfer: how often f and g disagree", line.delta))
    return tuple(found)


def _rungs(
    made: dict[str, Certificate], with_net: bool, interrupted: bool, instead: str
) -> tuple[Rung, ...]:
    """Those made, and of the others what they would need; instead: why labels are withheld."""
    held = made.get("holdout")
    through = [one for one in made.values() if _transfer(one) is not None]
    both = min(through, key=lambda one: one.bound, default=None)
    net = "" if with_net else "`model`, and "
    labels, inputs = "held-out labels, used for nothing else", "fresh inputs without labels"
    more = f"{net}held-out labels (`holdout`)"
    found = [
        _rung("holdout", held, labels, instead or more),
        _rung("transfer", both, inputs, f"{net}{inputs} (`unlabelled`)"),
        _rung(
            "picks",
            made.get("picks"),
            "the sample alone",
            _TIME if interrupted else "pictures, or rows of at most 16 384 numbers",
        ),
        _rung("occam", made.get("occam"), "the sample alone", "minutes: `kind` = occam"),
    ]
    return tuple(found)


def _rung(kind: Step, made: Certificate | None, needs: str, missing: str) -> Rung:
    about: Literal["f", "g"] = "f" if kind in ("holdout", "transfer") else "g"
    if made is None:
        return Rung(kind, about, None, None, missing)
    if kind == "transfer":
        return Rung(kind, about, made.bound, total_delta(made.claim), needs, made)
    return Rung(kind, about, float_up(made.claim.bound), made.claim.delta, needs, made)


def _transfer(certificate: Certificate) -> Transfer | None:
    return getattr(certificate.claim, "transfer", None)


def _about_g(sample: Dataset, backbone: Any, *, needed: bool) -> Literal["picks", "occam"] | None:
    """Which kind reads these rows; None if neither does, and nothing is needed of them."""
    try:
        learner_for(sample, numbers_for(sample)[0])
    except BadInput:
        readable = sample.x.dtype in (np.uint8, np.float32)
        return "picks" if backbone is not None else "occam" if readable or needed else None
    return "picks"


def _shared(
    first: Literal["picks", "occam"] | None, rest: Decimal, minutes: float | None
) -> list[tuple[Literal["picks", "occam"], Decimal]]:
    """The kinds about g that are made, each with its part of δ."""
    if first is None:
        return []
    if first == "occam" or minutes is None:
        return [(first, rest)]
    share, other = split_delta(rest, _HALF)
    return [("picks", share), ("occam", other)]


def doubt(
    model: Any,
    sample: Dataset,
    stated: float | None = None,
    *,
    normalise: Normalise | None = None,
    device: str | None = None,
    batch: int | None = None,
) -> None:
    """Say so where a net errs on its own training data as one that was badly loaded does."""
    rows = np.linspace(0, len(sample) - 1, min(len(sample), _FEW)).astype(np.int64)
    few = sample.select(rows, "some rows, evenly")
    net = placed(behind(model, normalise, sample.shape), device)
    with batches(batch):
        wrong = float((teacher_scores(net, few).argmax(dim=1).numpy() != few.y).mean())
    remark(*doubts_about_error(wrong, sample.classes, stated))
