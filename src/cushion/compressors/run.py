"""compress(): a method of the registry on a net and its sample.

For every method of a net alike: check and trace; judge what is tried by its Occam bound and take
the best; hold the method's lemmas against it; its Occam bounds, its certificate, its curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeAlias

import torch
from torch import nn

from cushion.certificates.certificate import Certificate
from cushion.certificates.format.number_stream import MOST_FIELD
from cushion.certificates.model_first import model_first
from cushion.certificates.search.options import Report
from cushion.compressors import choice
from cushion.compressors.choice import Compressed
from cushion.compressors.lemmas import follow_induction
from cushion.compressors.method import Found, Method
from cushion.compressors.records import CurvePoint, Promise, Summary, Tried
from cushion.compressors.registry import METHODS, choose
from cushion.compressors.searches import Search
from cushion.compressors.storage.stored_net import StoredNet
from cushion.compressors.subject import Subject, check_weights
from cushion.compressors.tuning.keep import keep
from cushion.compressors.tuning.options import Keeping
from cushion.data import AnyData, Dataset, as_dataset
from cushion.data.inputs import as_holdout
from cushion.errors import BadInput, remark
from cushion.measures.norms.layers import squared_distance
from cushion.measures.stability.comparison import check_alike
from cushion.measures.table import traced
from cushion.nets.batch_size import batches
from cushion.nets.classifier import behind
from cushion.nets.devices import placed
from cushion.nets.network import Network, NetworkModule
from cushion.nets.normalise import Normalise
from cushion.progress import plan, working
from cushion.theorems.net_facts import look_at
from cushion.theorems.occam import parse_delta
from cushion.theorems.records import Bound

Value: TypeAlias = bool | int | float | str | Sequence[float] | Sequence[str] | None


@model_first
def compress(
    model: Any,
    data: AnyData,
    *,
    method: str | None = None,
    holdout: AnyData | None = None,
    delta: str | float = "0.05",
    seed: int = 0,
    resume: str | Path | None = None,
    validation: float | AnyData | None = None,
    certified: bool = False,
    report: Report | None = None,
    init: nn.Module | None = None,
    normalise: Normalise | None = None,
    device: str | None = None,
    batch: int | None = None,
    **options: Value,
) -> Compressed[Any]:
    """Compress `model`, or search for a net with a small Occam bound on `data`.

    rate, the method for a model unless another is named: the same net with fewer numbers, trained
    on the grid on which it is stored, as small as its target allows (without one: at most one point
    of error more on the sample). `resume` names a folder from which a killed run goes on;
    `validation`, a share of the data or rows beside them, is where the target is checked;
    `certified` refuses, before any training, a net that no certificate can hold.
    integer, subspace, supermask search: with a model, the net also imitates the model's scores; the
    certificate is about the net that was found, not about the model. `report` is told now and then
    which part of the work is done and the best bound so far. All other methods compress the model
    and check what their lemmas promise; `init` is the model before its training, for
    `from_initialisation`. `normalise`, a pair (mean, std), puts (x - mean) / std before the model.
    `device` (cpu, cuda, cuda:1, mps, auto) has a copy of the model give its scores there; stored
    numbers are always made on the CPU. `batch`: rows that pass the net at a time, where it changes
    no answer (256).

    The seed makes everything repeatable; where it makes a helper string it is written into the net
    and paid. `holdout` is read only at the end. The method's own options are the fields of its
    Options; None means not given.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if normalise is not None:
        data = as_dataset(data)
        model = behind(model, normalise, data.shape)
        init = None if init is None else behind(init, normalise, data.shape)
    model, init = placed(model, device), placed(init, device)  # with the constants before them
    method = method or ("integer" if model is None else "rate")
    beside = None
    if isinstance(validation, int | float):
        given["validation"] = validation
    elif validation is not None:
        beside = as_holdout(validation, as_dataset(data))
    chosen, own = choose(method, given)
    if beside is not None and not isinstance(chosen, Keeping):
        raise BadInput(f"`method` = {method} does not take `validation`; leave it out")
    if resume is not None and not isinstance(chosen, Keeping):
        raise BadInput(f"`method` = {method} keeps nothing to go on from; leave `resume` out")
    if isinstance(chosen, Method):
        check_given(model, method)
        how: dict[str, Any] = {"holdout": holdout, "init": init, "delta": delta, "seed": seed}
        return compress_model(model, data, method=method, options=own, batch=batch, **how)
    sample, exact = as_dataset(data), parse_delta(str(delta))
    holdout = as_holdout(holdout, sample)
    remark(*sample.doubts)
    if isinstance(chosen, Search):
        with batches(batch):
            return chosen.run(
                sample, own, model=model, holdout=holdout, delta=exact, seed=seed, report=report
            )
    check_given(model, method)
    _check_seed(seed, 1)
    with torch.inference_mode(False):
        net = traced(_at_home(model), sample)
        check_weights(net)
        more: dict[str, Any] = {"resume": None if resume is None else Path(resume)}
        more |= {"validation": beside, "holdout": holdout, "size": _size(model), "exact": certified}
        return keep(net, sample, own, method=method, delta=exact, seed=seed, **more)


def _size(model: Any) -> tuple[int, int] | None:
    """Parameters and their bytes, a shared one once."""
    if not isinstance(model, nn.Module) or isinstance(model, NetworkModule):
        return None
    parts = list(model.parameters())
    return sum(one.numel() for one in parts), sum(one.numel() * one.element_size() for one in parts)


def check_given(model: Any, method: str) -> None:
    if model is None:
        raise BadInput(f"`method` = {method} compresses a trained net; give `model`")


def compress_model(
    model: nn.Module | Network,
    data: AnyData,
    *,
    method: str,
    options: Any = None,
    holdout: AnyData | None = None,
    init: nn.Module | Network | None = None,
    delta: str | float = "0.05",
    seed: int = 0,
    batch: int | None = None,
) -> Compressed[Summary]:
    """Compress a trained net and hold what the method's lemmas promise against what happens.

    options: of the method's Options class. `init`, the net at its initialisation, is needed for
    `from_initialisation` alone. The model is not changed; the held-out examples are only looked at
    once the setting is chosen.
    """
    chosen = METHODS.get(method)
    if not isinstance(chosen, Method):
        known = ", ".join(name for name, one in METHODS.items() if isinstance(one, Method))
        raise BadInput(f"`method` = {method} compresses no net; use one of {known}")
    options = chosen.options() if options is None else options
    if not isinstance(options, chosen.options):
        kind = type(options).__name__
        raise BadInput(f"`method` = {method} takes {chosen.options.__name__}, not {kind}")
    options.check(method)
    _check_seed(seed, chosen.seeds(options))
    sample = as_dataset(data)
    holdout = as_holdout(holdout, sample)
    remark(*sample.doubts)
    exact = parse_delta(str(delta))
    net, start = _traced(model, init, sample, options)
    net, start = chosen.prepare(net, start)
    subject = resolve_name(chosen.subject)(net, start, sample, method, options, float(exact), seed)
    notes = {"method": method, "seed": seed, **chosen.settings(options)}
    with batches(batch), plan({"candidates": 2, "promises": 1}):
        with working("candidates", 1):
            found, tried, curve = choice.take_best(chosen, subject, exact, notes)
        found = replace(found, holdout=holdout)
        with working("promises", 1):
            summary, certificate = _report(chosen, found, tried, curve, exact)
    return Compressed(found.compressed, summary, certificate)


def _at_home(model: nn.Module | Network) -> nn.Module | Network:
    """The model on the CPU, where stored numbers are made: itself if it is there, else a copy."""
    return placed(model, "cpu") if isinstance(model, nn.Module) else model


def _check_seed(seed: int, used: int) -> None:
    if type(seed) is not int or not 0 <= seed < MOST_FIELD - used:
        trials = ", and the trials count up from it" if used > 1 else ""
        must = f"must be a whole number from 0 to {MOST_FIELD - used - 1}"
        raise BadInput(f"`seed` = {seed} {must}: it is part of the message{trials}")


def _traced(
    model: nn.Module | Network, init: nn.Module | Network | None, sample: Dataset, options: Any
) -> tuple[Network, Network | None]:
    """The net, and its initialisation where the options ask for it."""
    net = traced(_at_home(model), sample)
    check_weights(net)
    if not getattr(options, "from_initialisation", False):
        return net, None
    if init is None:
        raise BadInput("`from_initialisation` needs an initialisation: give a RUN folder as NET")
    start = traced(_at_home(init), sample)
    check_alike(net, start, "the initialisation")
    if squared_distance(net, start) == 0.0:
        raise BadInput("the initialisation is the net itself: training changed nothing to compress")
    return net, start


def _report(
    method: Method, found: Found, tried: list[Tried], curve: list[CurvePoint], delta: Decimal
) -> tuple[Summary, Certificate | None]:
    """The summary, which takes what it has fields for, and the certificate."""
    subject, stored, account = found.subject, found.stored, resolve_name(method.account)(found)
    lemmas = tuple(account.lemmas)
    certificate, because = choice.certificate_of(found, delta)
    occam = choice.occam_rows(found, delta, certificate, because)
    if tried:
        at, held = next(k for k, one in enumerate(tried) if one.chosen), occam[0].holdout_errors
        error = None if held is None or found.holdout is None else held / len(found.holdout)
        curve[at] = replace(curve[at], test_error=error)
    else:
        curve = [_point(subject, *one, found.holdout) for one in method.curve(subject)]
    known = {
        "method": method.name,
        "seed": subject.seed,
        "settings": subject.options.settings(),
        "gamma": subject.gamma,
        "m": len(subject.sample),
        "delta": subject.delta,
        "parameters_before": subject.net.parameters,
        "parameters": stored.parameters,
        "bits": stored.bits,
        "layers": tuple(account.layers),
        "promises": lemmas,
        "promise": Promise.of(lemmas),
        "tried": tuple(tried),
        "price": math.log(max(1, len(tried))),
        "errors_before": subject.seen.errors,
        "errors": found.wrong,
        "output_error": float(found.errors.gaps.max()),
        "occam": occam,
        "paper_bounds": tuple(map(_in_own_words, account.bounds)),
        "curve": tuple(curve),
        "assumptions": choice.ASSUMED,
        **account.columns,
    }
    taken = {field.name for field in fields(method.summary)}
    summary = method.summary(**{name: value for name, value in known.items() if name in taken})
    if "notes" in taken:
        said = (*account.notes(summary), *choice.worthless(tried, subject.net.classes))
        summary = replace(summary, notes=said)  # type: ignore[call-arg]
    return summary, certificate


def _in_own_words(row: Bound) -> Bound:
    """A row of a theorem as compress says it: here ε is an accuracy, and `level` finds γ."""
    return replace(row, meaning=row.meaning.replace("`epsilon` lets γ", "`level` lets γ"))


def _point(subject: Subject, asked: str, stored: StoredNet, holdout: Dataset | None) -> CurvePoint:
    """One further size, on the sample and on held-out examples."""
    network = stored.network(subject.net, subject.start)
    errors = follow_induction(subject.net, network, subject.sample, scores=subject.net_scores)
    point = choice.curve_point(asked, stored, stored.bits, errors, subject.gamma or 0.0)
    held = None if holdout is None else look_at(network, holdout).errors / len(holdout)
    return replace(point, test_error=held)
