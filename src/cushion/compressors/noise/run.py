"""replace_tails(): a net's small weights replaced by noise from a seed (Shin 2021), promises
checked, bounds beside.

Every threshold that was asked for is tried with every variance and grid; the one with the smallest
Occam bound on the sample is taken. Then the noise is drawn again, under `trials` seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cushion.certificates.format.number_stream import MOST_FIELD, MOST_NUMBERS
from cushion.compressors.certified import ASSUMED, NetCompressed, certificate_of, occam_rows
from cushion.compressors.file import CompressedNet
from cushion.compressors.induction import LayerErrors, follow_induction
from cushion.compressors.noise.notes import notes_on
from cushion.compressors.noise.options import FORMS, METHODS, Form, HeavyTailOptions
from cushion.compressors.noise.promises import ReplacedNet, describe, rounding
from cushion.compressors.noise.records import Accuracy, NetHeavyTail, Trial, TriedTail
from cushion.compressors.noise.replacement import (
    Replacement,
    choose_layers,
    replace_layer,
    standard_deviations,
    threshold_within,
)
from cushion.compressors.noise.storing import store_replaced
from cushion.compressors.projection.options import NetOptions
from cushion.compressors.storage.stored_net import StoredNet
from cushion.compressors.subject import Subject
from cushion.data import Dataset, as_dataset
from cushion.data.inputs import check_holdout
from cushion.errors import BadInput
from cushion.measures.table import traced
from cushion.nets.network import Network
from cushion.numerics import float_up
from cushion.progress import progress, working
from cushion.theorems.heavy_tails import spread_allowed, spread_allowed_printed
from cushion.theorems.net_facts import look_at
from cushion.theorems.occam import occam_bound, parse_delta

_EXAMPLES = 1000  # rows for cushions and pairs of layers
# numbers up to which every message that is tried is written: a third of a second
_WRITTEN = 1 << 15


@dataclass(frozen=True)
class _Setting:
    """One threshold, in standard deviations (None: from epsilon), and one variance."""

    asked: str
    tau: float | None
    t: float


@dataclass(frozen=True, eq=False)
class _Candidate:
    """One setting with one grid, and how it does on the sample; `key` is smaller for a better
    one.
    """

    setting: _Setting
    bits: int
    replaced: tuple[Replacement | None, ...]
    stored: StoredNet
    network: Network
    errors: LayerErrors
    tried: TriedTail
    key: tuple[float, float]


def replace_tails(
    model: nn.Module | Network,
    data: Dataset | str,
    *,
    method: str = METHODS[0],
    options: HeavyTailOptions | None = None,
    holdout: Dataset | None = None,
    delta: str | float = "0.05",
    seed: int = 0,
) -> NetCompressed[NetHeavyTail]:
    """Keep the large weights of a trained net, replace the others, and hold Shin 2021 against what
    happens.

    G comes from `seed`, which is part of the message and paid; the trials use seed, seed + 1, ...,
    and the net that is returned is that of the first. The model is not changed; the held-out
    examples are only looked at once the setting is chosen.
    """
    options = options or HeavyTailOptions()
    options.check(method)
    if type(seed) is not int or not 0 <= seed < MOST_FIELD - options.trials:
        raise BadInput(
            f"`seed` = {seed} must be a whole number from 0 to {MOST_FIELD - options.trials - 1}: "
            "it is part of the message, and the trials count up from it"
        )
    sample = as_dataset(data)
    check_holdout(holdout, sample)
    exact = parse_delta(str(delta))
    net = traced(model, sample)
    _check_weights(net)
    chosen = choose_layers(net, options.chosen_layers)
    deviations = standard_deviations(net, chosen)
    settings = NetOptions(
        gamma=options.gamma, level=options.level, examples=min(_EXAMPLES, len(sample))
    )
    subject = Subject(net, None, sample, method, settings, float(exact), seed)
    best, tried = _best(subject, options, deviations, exact)
    # The lemmas are about every weight that stays, also where no later layer reads it any more.
    faithful = store_replaced(net, best.replaced, best.bits, seed, faithful=True)
    made = ReplacedNet(
        best.replaced, deviations, best.setting.t, best.stored, faithful, faithful.network(net)
    )
    notes = {
        "method": method,
        "seed": seed,
        **options.settings(),
        "chosen": best.tried.asked,
        "on": best.tried.grid,
    }
    compressed = CompressedNet(best.stored, net, notes)
    summary = describe(subject, options, made, best.errors, len(tried))
    trials = _trials(subject, options, best, holdout)
    certificate, because = certificate_of(compressed, sample, exact, holdout, notes)
    occam = occam_rows(
        compressed, summary.errors, len(sample), exact, holdout, certificate, because
    )
    at, here = tried.index(best.tried), occam[0]
    tried[at] = replace(best.tried, bits=here.bits, bound=here.bound, written=True, chosen=True)
    held = None if holdout is None else look_at(net, holdout).errors
    summary = replace(
        summary,
        tried=tuple(tried),
        trials=trials,
        accuracy=_accuracy(len(sample), summary.errors_before, [one.errors for one in trials]),
        holdout_accuracy=None
        if holdout is None or held is None
        else _accuracy(len(holdout), held, [one.holdout_errors or 0 for one in trials]),
        occam=occam,
        assumptions=ASSUMED,
    )
    return NetCompressed(
        compressed, replace(summary, notes=notes_on(summary, net.classes)), certificate
    )


def _check_weights(net: Network) -> None:
    for node in net.affine_layers:
        for part in (node.affine.operator.weight, node.affine.bias):
            if part is not None and not bool(torch.isfinite(part).all()):
                raise BadInput(
                    f"{node.name}: a weight or bias is infinite or not a number; check how it was "
                    "trained"
                )


def _settings(options: HeavyTailOptions) -> list[_Setting]:
    """What is tried, each once."""
    if options.epsilon is not None:
        return [_Setting(f"epsilon={options.epsilon:g}, t={t:g}", None, t) for t in options.ts]
    if options.form == "appendix":
        return [_Setting("Appendix E", 1.0, 1.0)]
    return [_Setting(f"tau={tau:g}, t={t:g}", tau, t) for tau in options.taus for t in options.ts]


def _best(
    subject: Subject, options: HeavyTailOptions, deviations: Sequence[float | None], delta: Decimal
) -> tuple[_Candidate, list[TriedTail]]:
    """The candidate with the smallest bound, and how all of them did."""
    subject.seen  # noqa: B018
    scores = follow_induction(subject.net, subject.net, subject.sample).scores
    settings = _settings(options)
    best: _Candidate | None = None
    tried = []
    with working("settings", len(settings) * len(options.grids)) as bar:
        for setting in settings:
            for candidate in _candidates(subject, options, setting, deviations, scores, delta):
                tried.append(candidate.tried)
                if best is None or candidate.key < best.key:
                    best = candidate
                bar.advance()
    assert best is not None
    return best, tried


def _candidates(
    subject: Subject,
    options: HeavyTailOptions,
    setting: _Setting,
    deviations: Sequence[float | None],
    scores: NDArray[np.float64],
    delta: Decimal,
) -> Iterator[_Candidate]:
    net, sample, seed = subject.net, subject.sample, subject.seed
    replaced = _replacements(net, options, setting, deviations)
    kept = sum(one.kept for one in replaced if one is not None)
    if (
        2
        * (net.parameters - sum(one.mask.numel() - one.kept for one in replaced if one is not None))
        > MOST_NUMBERS
    ):
        raise BadInput(
            f"{setting.asked} leaves more weights than the {MOST_NUMBERS // 2} of a file; use a "
            "larger `tau`"
        )
    for bits in _grids(net, options, replaced, seed):
        stored = store_replaced(net, replaced, bits, seed)
        network = stored.network(net)
        errors = follow_induction(net, network, sample, scores=scores)
        wrong, m = int((errors.margins <= 0).sum()), len(sample)
        written = stored.parameters <= _WRITTEN
        length = stored.bits if written else stored.estimated_bits()
        bound = float_up(occam_bound(wrong, m, length, delta))
        # Where bounds are all 100 % the Hoeffding form before it is cut off still tells them apart.
        beyond = wrong / m + math.sqrt(length * math.log(2.0) / (2 * m))
        tried = TriedTail(setting.asked, f"{bits} bits", kept, length, wrong, bound, written)
        yield _Candidate(setting, bits, replaced, stored, network, errors, tried, (bound, beyond))


def _grids(
    net: Network, options: HeavyTailOptions, replaced: Sequence[Replacement | None], seed: int
) -> Iterator[int]:
    """The grids that are tried; where τ was chosen for ε, only those that round no layer by more,
    and the finest.
    """
    for bits in options.grids:
        if options.epsilon is not None and bits != options.grids[-1]:
            layers = store_replaced(net, replaced, bits, seed, faithful=True).layers
            moved = map(rounding, net.affine_layers, replaced, layers)
            if max(moved) > options.epsilon:
                continue
        yield bits


def _replacements(
    net: Network, options: HeavyTailOptions, setting: _Setting, deviations: Sequence[float | None]
) -> tuple[Replacement | None, ...]:
    form: Form = next(one for one in FORMS if one == options.form)
    found: list[Replacement | None] = []
    for node, deviation in zip(net.affine_layers, deviations, strict=True):
        if deviation is None:
            found.append(None)
            continue
        weight, norm = node.affine.operator.weight, node.affine.operator.frobenius()
        if setting.tau is not None:
            tau = setting.tau * deviation
        else:
            assert options.epsilon is not None
            assert options.eta is not None
            budget = spread_allowed(options.epsilon, options.eta, norm)
            if form == "algorithm":
                budget = spread_allowed_printed(options.epsilon * norm, options.eta, "main text")
            tau = threshold_within(weight, form, budget, setting.t)
        found.append(replace_layer(weight, form, tau, setting.t))
    return tuple(found)


def _trials(
    subject: Subject, options: HeavyTailOptions, best: _Candidate, holdout: Dataset | None
) -> tuple[Trial, ...]:
    """The net under every seed; without noise all are the same net, and one is enough."""
    noisy = any(one is not None and one.is_random for one in best.replaced)
    seeds = range(subject.seed, subject.seed + (options.trials if noisy else 1))
    found = []
    for seed in progress(seeds, "trials"):
        first = seed == subject.seed
        network = best.network if first else replace(best.stored, seed=seed).network(subject.net)
        errors = best.tried.errors if first else look_at(network, subject.sample).errors
        found.append(
            Trial(seed, errors, None if holdout is None else look_at(network, holdout).errors)
        )
    return tuple(found)


def _accuracy(m: int, before: int, errors: Sequence[int]) -> Accuracy:
    right = 1.0 - np.array(errors, dtype=np.float64) / m
    deviation = float(right.std(ddof=1)) if len(right) > 1 else None
    return Accuracy(m, 1.0 - before / m, float(right.mean()), deviation, len(right))
