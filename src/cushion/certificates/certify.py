"""certify(): from a sample, and perhaps a net to imitate, to a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cushion.certificates.answers import answer, teacher_scores
from cushion.certificates.best import BestFile, Tell, identify, tell_nobody
from cushion.certificates.certificate import Certificate, certify_net
from cushion.certificates.features import BackboneOptions, Seen, see
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.message import encode
from cushion.certificates.holdout.certificate import certify_holdout
from cushion.certificates.holdout.options import HoldoutOptions
from cushion.certificates.ladder import answer_of, climb, doubt
from cushion.certificates.model_first import model_first
from cushion.certificates.pac_bayes import certify_gaussian
from cushion.certificates.picks.options import PicksOptions
from cushion.certificates.picks.run import certify_by_list, certify_fit, reading_of
from cushion.certificates.search.integer.search import search
from cushion.certificates.search.options import (
    Kind,
    Method,
    Report,
    SearchOptions,
    check_kind,
    no_report,
)
from cushion.certificates.search.posterior import FoundPosterior, train_posterior
from cushion.certificates.search.sample import reading_for
from cushion.certificates.search.seeded import search_seeded
from cushion.certificates.search.seeded_weights import seeded_plans
from cushion.certificates.search.sizes import memory_needed, usual_minutes
from cushion.certificates.search.task import Task
from cushion.certificates.state_file import StateFile, is_state
from cushion.certificates.transfer import (
    COARSE_TOLERANCE,
    RELATIVE_TOLERANCE,
    choose_tolerance,
    split_delta,
    transfer,
)
from cushion.data import AnyData, Dataset, as_dataset
from cushion.data.dataset import hash_arrays
from cushion.data.doubts import doubts_about_error
from cushion.data.inputs import Inputs, as_fresh, as_holdout, check_fresh
from cushion.data.registered import unless_looked_at
from cushion.errors import BadInput, Malformed, remark
from cushion.nets.batch_size import batches
from cushion.nets.classifier import behind, step_before
from cushion.nets.devices import placed
from cushion.nets.network import Network
from cushion.nets.normalise import Normalise
from cushion.theorems.occam import occam_bound, parse_delta

if TYPE_CHECKING:
    from cushion.certificates.picks.fit import Function

_LONG = 60.0  # seconds: what takes longer is said before it starts
_USUAL = SearchOptions()


@model_first
def certify(
    model: Any,
    data: AnyData,
    *,
    kind: Kind | None = None,
    method: Method | None = None,
    unlabelled: Inputs | AnyData | None = None,
    holdout: AnyData | None = None,
    delta: str | float = _USUAL.delta,
    minutes: float | None = _USUAL.minutes,
    seed: int = _USUAL.seed,
    steps: int | None = _USUAL.steps,
    k: int | None = _USUAL.k,
    width: float | None = _USUAL.width,
    draws: int = _USUAL.draws,
    normalise: Normalise | None = None,
    device: str | None = None,
    batch: int | None = None,
    stated_error: float | None = None,
    fit: str | Function | None = None,
    picks: PicksOptions | None = None,
    backbone: str | BackboneOptions | None = None,
    looks: str | Path | None = None,
    per_class: bool = False,
    top_k: int | None = None,
    selective: str | float | None = None,
    report: Report | None = None,
    keep: str | Path | None = None,
    tell: Tell = tell_nobody,
) -> Certificate:
    """Find, within the time given, what has a small bound on `data`, and certify it.

    `model` is None, or any classifier (`nets.classifier`); `data` and `holdout` are whatever
    `as_dataset` takes. Without `minutes` and `steps` the time depends on the size of the data
    (`sizes.usual_minutes`). `normalise`, a pair (mean, std), puts (x - mean) / std before the
    model, as in its training; the data stay as they are. `device` (cpu, cuda, cuda:1, mps, auto) is
    where a copy of the model gives its scores, `batch` rows at a time (256); the search runs on the
    CPU.

    Without a kind, a method or anything that only a search is told, the strongest kind that what
    was given allows is made, and the certificate's `ladder` says all of them (`ladder.climb`).

    Methods integer, subspace and supermask find an integer net g with a small Occam bound. With a
    model f, g also imitates f's scores. The certificate is about g; with fresh `unlabelled` inputs,
    used for nothing else, it also bounds f itself, and `delta` is the failure probability of that
    statement: g's bound gets 4/5 of it and the disagreements of f and g the rest.

    Method pac-bayes finds a distribution Q over integer nets. The bound is on L(Q), the chance that
    a net drawn anew from Q errs on a new example; it fails with probability at most `delta` over
    the sample and the draws, which are made after training, once.

    Kind picks runs a fixed learner of the frozen list, or `fit`, your own training (`file.py:fit`
    or a function fit(x, y, seed) -> nn.Module), in rounds that add the rows which it gets wrong;
    the bound is about what the last training gave, with `fit` your own net (`certificate.net`).
    `picks`: how (`PicksOptions`). docs/picks.md.

    `backbone`: a public net, by name or as `BackboneOptions`, whose features are read instead of
    the inputs by picks, an integer net or a posterior. docs/backbone.md.

    Kind holdout counts the model's own errors on held-out rows, `holdout` or the held-out part of a
    named source, and bounds the error of the model itself; `per_class`, `top_k` and `selective`
    (the risk) ask for more lines, and `looks` is the ledger of these rows. docs/holdout.md.

    `holdout` and `unlabelled` are used only after the search has ended; before it, they are only
    checked for rows of the sample. `report` is told now and then which part of the work is done,
    and the best bound so far (pac-bayes: an estimate of it). `keep` is a file for the best so far
    (`best`; pac-bayes: `state_file`), from which a search that was killed goes on; remove it when
    the certificate is safe. `tell` is told in sentences what should be known before it starts. The
    other options: `SearchOptions`.
    """
    asked = HoldoutOptions(
        None if looks is None else str(looks),
        per_class,
        top_k,
        None if selective is None else str(selective),
    )
    check_kind(kind, method)
    how: dict[str, Any] = {"normalise": normalise, "device": device, "batch": batch}
    if kind == "holdout":
        if unlabelled is not None or fit is not None or picks is not None:
            raise BadInput("`kind` = holdout counts on labels; leave out what is about other kinds")
        if looks is None and model is not None and data is not None:
            doubt(model, as_dataset(data), stated_error, **how)
        own = None if str(delta) == _USUAL.delta else str(delta)
        return certify_holdout(model, data, holdout, asked, delta=own, **how)
    if data is None:
        raise BadInput(
            "`data` is missing; give the sample that is certified on, or `kind` = holdout, which "
            "counts the errors of your net on `holdout` and needs no sample"
        )
    if asked != HoldoutOptions():
        raise BadInput(
            "`looks`, `per_class`, `top_k` and `selective` belong to `kind` = holdout; give that"
        )
    # beside fresh inputs `minutes` asks for a search too, for the better of two nets g
    timed = minutes if unlabelled is None else None
    searched = any(one is not None for one in (method, timed, steps, k, width))
    if method is None:
        method = "pac-bayes" if kind == "pac-bayes" else _USUAL.method
    options = SearchOptions(minutes, steps, k, width, method, str(delta), seed, draws)
    if kind is None and not searched and fit is None and picks is None and draws == _USUAL.draws:
        how |= {"unlabelled": unlabelled, "backbone": backbone, "stated_error": stated_error}
        how["searching"] = {"seed": seed, "report": report, "keep": keep, "tell": tell}
        how["searching"] |= {} if minutes is None else {"minutes": minutes}
        return answer_of(climb(certify, model, data, holdout, delta=delta, **how))
    if kind is not None and (kind == "pac-bayes") != (method == "pac-bayes"):
        raise BadInput(f"`method` = {method} is not of `kind` = {kind}; give one of them")
    sample = as_dataset(data) if fit is not None else _readable(as_dataset(data))
    holdout = unless_looked_at(as_holdout(holdout, sample, reading_for(sample)))
    remark(*sample.doubts)
    seen = None
    if backbone is not None:
        given = {"model": model, "unlabelled": unlabelled, "fit": fit}
        for name in (name for name, value in given.items() if value is not None):
            raise BadInput(f"with a `backbone` the net reads its features; leave `{name}` out")
        seen = see(BackboneOptions(backbone) if isinstance(backbone, str) else backbone, sample)
    if kind == "picks":
        own = placed(behind(model, normalise, sample.shape), device)
        return _certify_picks(own, sample, holdout, unlabelled, options, fit, picks, batch, seen)
    if fit is not None or picks is not None:
        raise BadInput("`fit` and what is said of picks belong to `kind` = picks; give that too")
    if seen is not None:
        sample, holdout = seen.sample(sample), None if holdout is None else seen.sample(holdout)
    if options.minutes is None and options.steps is None:
        options = replace(options, minutes=usual_minutes(sample))
    if options.steps is None and options.seconds > _LONG:
        tell(
            f"this takes about {options.minutes:g} minutes and {memory_needed(sample) / 1e9:.1f} "
            "GB of memory; `minutes` sets another time"
        )
    model = placed(behind(model, normalise, sample.shape), device)
    total = parse_delta(options.delta)
    if method == "pac-bayes":
        given = {"model": model, "unlabelled": unlabelled}
        for name in (name for name, value in given.items() if value is not None):
            raise BadInput(f"`method` = pac-bayes trains nets of its own; leave `{name}` out")
        nets = options.draws + (0 if holdout is None else len(holdout))
        trained = _train(sample, options, nets, report or no_report, keep, tell)
        return _certify_posterior(trained, sample, holdout, total, options, seen)
    delta_g, delta_f = (total, None) if unlabelled is None else split_delta(total)
    if unlabelled is not None and (model is None or isinstance(model, Network)):
        raise BadInput("`unlabelled` serves to bound the error of your own net; give `model` too")
    inputs = None if unlabelled is None else as_fresh(unlabelled, sample, reading_for(sample))

    counted: dict[bytes, int] = {}  # errors by message: what was judged is not counted again

    def judge(net: IntegerNet) -> Decimal:
        message = encode(net)
        errors = counted[message.data] = net.errors(sample.x, sample.y)
        return Decimal(occam_bound(errors, len(sample), message.bits, delta_g))

    def stated(net: IntegerNet, notes: Mapping[str, Any], line: Dataset | None) -> Certificate:
        errors = counted.get(encode(net).data)
        return certify_net(
            net, sample, delta_g, holdout=line, made_with=notes, errors=errors, seen=seen
        )

    def unfinished(net: IntegerNet, more: Mapping[str, Any]) -> Certificate:
        return stated(net, {**_notes(options, True), **about, "trained": True, **more}, None)

    about: dict[str, Any] = {"imitates_a_model": model is not None}
    about |= {"normalise": said} if (said := step_before(model)) else {}
    with batches(batch):
        scores = None if model is None else teacher_scores(model, sample)
    teacher = None if scores is None else scores[:, : sample.classes]
    if scores is not None:
        wrong = float((scores.argmax(dim=1).numpy() != sample.y).mean())
        remark(*doubts_about_error(wrong, sample.classes, stated_error))
    task = Task(sample, judge, options, teacher, report or no_report)
    if keep is not None:
        imitated = None if teacher is None else hash_arrays("scores", teacher.numpy())
        # the hash of what is read, which with a backbone is not the fingerprint of the examples
        made = {"data": sample.hashed(), "share": str(delta_g), "imitated": imitated}
        which = identify(**made, **vars(options))
        best = BestFile(Path(keep), which, unfinished, tell, is_state)
        task = replace(task, start=best.start(), keep=best.keep)
        if method == "integer":
            under_way = StateFile(Path(f"{keep}.try"), which, tell, "a try")
            task = replace(task, paused=under_way.start(), pause=under_way.keep)
    try:
        found = search(task) if method == "integer" else search_seeded(seeded_plans(task), task)
    except Malformed:
        if task.paused is None:
            raise
        raise under_way.refusal() from None
    if task.pause is not None:  # a search that has ended goes on nowhere
        under_way.path.unlink(missing_ok=True)
    notes = {**_notes(options, found.interrupted), **about, "trained": found.trained}
    certificate = stated(found.net, notes, holdout)
    if inputs is None or delta_f is None:
        return certificate
    check_fresh(inputs, sample, found.net.as_read)
    assert scores is not None
    tolerance = choose_tolerance(_largest(scores), _relative_tolerance(model))
    with batches(batch):
        answers = answer(model, inputs.x, classes=sample.classes, labels=sample.labels)
    return transfer(certificate, inputs, answers, tolerance, delta_f)


def _certify_picks(
    model: Any,
    sample: Dataset,
    holdout: Dataset | None,
    unlabelled: Inputs | AnyData | None,
    options: SearchOptions,
    fit: str | Function | None,
    picks: PicksOptions | None,
    batch: int | None,
    seen: Seen | None,
) -> Certificate:
    """By a learner that picks rows, a fixed one or the user's own; with a model and fresh inputs
    also about that model, through the inputs on which the two disagree.
    """
    searched = {name: getattr(options, name) for name in ("method", "minutes", "steps")}
    for name in (name for name, value in searched.items() if value != getattr(_USUAL, name)):
        raise BadInput(f"`kind` = picks searches for nothing; leave `{name}` out")
    chosen, total = picks or PicksOptions(), parse_delta(options.delta)
    if fit is not None:
        given = {"model": model, "unlabelled": unlabelled}
        for name in (name for name, value in given.items() if value is not None):
            raise BadInput(f"`fit` makes the net that is certified; leave `{name}` out")
        return certify_fit(
            fit, sample, total, chosen, seed=options.seed, batch=batch, holdout=holdout
        )
    if (model is None) != (unlabelled is None):
        raise BadInput("to bound your own net by picks give both `model` and `unlabelled`")
    if unlabelled is None:
        return certify_by_list(sample, total, chosen, seen=seen, holdout=holdout)[0]
    inputs, (delta_g, delta_f) = (
        as_fresh(unlabelled, sample, reading_for(sample)),
        split_delta(total),
    )
    certificate, trained = certify_by_list(sample, delta_g, chosen, holdout=holdout)
    check_fresh(inputs, sample, reading_of(trained, sample))
    with batches(batch):
        scores = teacher_scores(model, sample)
        answers = answer(model, inputs.x, classes=sample.classes, labels=sample.labels)
    tolerance = choose_tolerance(_largest(scores), _relative_tolerance(model))
    classes = trained.bound.classify(inputs.x)
    return transfer(certificate, inputs, answers, tolerance, delta_f, classes)


def _largest(scores: torch.Tensor) -> NDArray[np.float64]:
    """[m] of each row, in magnitude."""
    found: NDArray[np.float64] = scores.abs().amax(dim=1).double().numpy()
    return found


def _relative_tolerance(model: Any) -> float:
    return COARSE_TOLERANCE if _is_half(model) else RELATIVE_TOLERANCE


def _is_half(model: Any) -> bool:
    """Whether f computes, at least in part, in half precision."""
    halves = (torch.float16, torch.bfloat16)
    return isinstance(model, nn.Module) and any(p.dtype in halves for p in model.parameters())


def _readable(sample: Dataset) -> Dataset:
    """The sample, or BadInput unless an integer net can read it."""
    if sample.x.dtype in (np.uint8, np.float32):
        return sample
    kind = "a dict of arrays" if sample.x.dtype.names else "tokens (whole numbers)"
    raise BadInput(
        f"{sample.name}: its inputs are {kind}, which integer nets do not read yet; certify "
        "features of them instead (float32, a row per example, by a map that these examples had no "
        "part in), or bound the net by held-out examples (cushion bounds)"
    )


def _train(
    sample: Dataset,
    options: SearchOptions,
    nets: int,
    report: Report,
    keep: str | Path | None,
    tell: Tell,
) -> FoundPosterior:
    """A posterior, from where a search that was killed had come, if `keep` says so."""
    if keep is None:
        return train_posterior(sample, options, nets, report)
    # neither δ nor the draws have a part in the training, but asking for others is another search
    file = StateFile(Path(keep), identify(data=sample.hashed(), **vars(options)), tell)
    try:
        return train_posterior(sample, options, nets, report, file.start(), file.keep)
    except Malformed:
        raise file.refusal() from None


def _certify_posterior(
    found: FoundPosterior,
    sample: Dataset,
    holdout: Dataset | None,
    delta: Decimal,
    options: SearchOptions,
    seen: Seen | None,
) -> Certificate:
    notes = {**_notes(options, found.interrupted), "steps": found.steps}
    return certify_gaussian(
        found.posterior,
        sample,
        delta,
        draws=options.draws,
        holdout=holdout,
        made_with=notes,
        seen=seen,
    )


def _notes(options: SearchOptions, interrupted: bool) -> dict[str, Any]:
    """Method and seed, the time or the steps, and the sizes that were asked for."""
    asked = {"steps": options.steps, "k": options.k, "width": options.width}
    time = {"minutes": options.seconds / 60} if options.steps is None else {}
    told = {name: value for name, value in asked.items() if value is not None}
    said = {"method": options.method, "seed": options.seed, "interrupted": interrupted}
    return said | time | told
