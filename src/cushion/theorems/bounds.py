"""bounds(): every bound of the literature on one net, in the same δ, loss and m."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import torch
from torch import nn

from cushion.data import AnyData, Dataset, as_dataset
from cushion.data.doubts import doubts_about_error
from cushion.data.inputs import as_holdout
from cushion.data.registered import note_first_use, unless_looked_at
from cushion.errors import BadInput, remark
from cushion.measures.margins import epsilon_margin, margin_loss
from cushion.measures.norms.layers import squared_distance
from cushion.measures.probing import feed
from cushion.measures.records import MeasureTable
from cushion.measures.sharpness.expected import count_noisy_errors
from cushion.measures.sharpness.functional import unmoved
from cushion.measures.sharpness.measurement import measure_sharpness
from cushion.measures.sharpness.records import Sharpness
from cushion.measures.stability.comparison import check_alike
from cushion.measures.table import measure
from cushion.nets.batch_size import batches, rows_at_a_time
from cushion.nets.classifier import behind
from cushion.nets.devices import placed
from cushion.nets.hooked.net import HookedNet, check_same_layers
from cushion.nets.identity import fingerprint_net
from cushion.nets.network import Network, NetworkModule
from cushion.nets.normalise import Constants
from cushion.nets.program import program_fingerprint
from cushion.nets.scored import ScoredNet
from cushion.nets.view import Way, see, way_of
from cushion.numerics import binomial_inverse, occam_log_delta
from cushion.progress import working
from cushion.theorems import pac_bayes
from cushion.theorems.capacities import figure_two, norm_capacities, rankings, size_and_lipschitz
from cushion.theorems.logs import LN10, log, log_sum
from cushion.theorems.net_facts import decisions, gather, in_unit_cube, look_at
from cushion.theorems.norms import cells, covered, noise_tolerance, peeled
from cushion.theorems.occam import bits_bound, parse_delta, vc_bound
from cushion.theorems.options import BoundOptions
from cushion.theorems.pac_bayes import SIGMAS, NoisyErrors
from cushion.theorems.records import FORMS, Bound, BoundsTable, Statement, compare

_LOSS = "0-1 error on new examples; ties are errors"
_ASSUMED = (
    "the examples are independent draws from one distribution, and new ones come from it too",
    "delta, the seed and number of draws, and the net's architecture were fixed before the data",
    "scores are those of this machine's floating point, and noise comes from a pseudo-random "
    "generator",
)
_INITIAL = "the initialisation was drawn before the data"
_HELD_OUT = "the held-out examples were used for nothing else"
_CONDITIONS = "Theorem 1 with its three conditions"
_HOPELESS = 4.0  # nats an example: beyond it no noise level can prove an error below 98 %
_FEWEST = 4  # noise levels that are drawn in any case


@dataclass(frozen=True, eq=False)
class Subject:
    """Everything that a bound may look at: a net on its sample."""

    net: Network | HookedNet | ScoredNet
    sample: Dataset
    initial: Network | HookedNet | None  # the net before training, where it is known
    holdout: Dataset | None
    held_out_errors: int | None
    delta: Decimal
    options: BoundOptions
    facts: Any  # NetFacts; None of a net that hooks see: only ARGUMENTS_BY_HOOKS are about it
    measures: Any  # NetMeasures, likewise
    sharpness: Sharpness | None
    why_flat: str  # why there is no sharpness
    uncharged: str  # why no certificate charges all that training may have chosen; "" if it does


def bounds(
    model: Any,
    data: AnyData,
    *,
    holdout: AnyData | None = None,
    init: Any = None,
    options: BoundOptions | None = None,
    name: str = "net",
    normalise: tuple[Constants, Constants] | None = None,
    device: str | None = None,
    stated_error: float | None = None,
    batch: int | None = None,
) -> BoundsTable:
    """All bounds on one net and its training set, each a certificate or a measure, in one table.

    `holdout` adds the bound by counting, with which every other should be compared; `init`, the net
    before training, the versions from initialisation. The model is not changed. Of a net that
    cannot be traced there are the rows that need its answers and noise in its weights only; of one
    that only answers, the row of held-out examples; `left_out` says why. `normalise`, `device` and
    `stated_error`: as of `measure`. `batch`: rows that pass the net at a time, where it changes no
    answer (256).
    """
    options = options or BoundOptions()
    exact = parse_delta(str(options.delta))
    if isinstance(data, nn.Module | Network):
        raise BadInput("the net comes first and the data second: swap the two")
    sample = as_dataset(data)
    held_out = unless_looked_at(as_holdout(holdout, sample))
    remark(*sample.doubts)
    model = behind(model, normalise, sample.shape)
    init = None if init is None else behind(init, normalise, sample.shape)
    nets = placed(model, device), placed(init, device)
    with batches(batch), torch.inference_mode(False):
        table = _table(*nets, sample, held_out, options, exact, name)
    if held_out is not None:
        note_first_use(held_out, identity(nets[0]))
    remark(*doubts_about_error(table.errors / table.m, sample.classes, stated_error))
    return table


def _table(
    model: Any,
    init: Any,
    sample: Dataset,
    held_out: Dataset | None,
    options: BoundOptions,
    exact: Decimal,
    name: str,
) -> BoundsTable:
    """What `bounds` returns."""
    delta = float(exact)
    # of answers alone there is one row, and it needs held-out examples
    ways: tuple[Way, ...] = ("trace", "hooks", "answers")
    net, untraced = see(model, sample, ways if held_out is not None else ways[:2])
    if isinstance(net, Network) and (said := net.lacks("contracts", "every bound by norms")):
        by_hooks: tuple[Way, ...] = ("hooks",)
        net, untraced = see(model, sample, by_hooks).net, said
    if isinstance(net, ScoredNet) and init is not None:
        raise BadInput(
            "`init` is compared with a net's weights, and of this net only answers are seen"
        )
    initial = None if init is None else see(init, sample, (way_of(net),)).net
    if initial is not None:
        check = check_alike if isinstance(net, Network) else check_same_layers
        check(net, initial, "the initialisation")
        if squared_distance(net, initial) == 0.0:
            why = "the initialisation is the net itself"
            raise BadInput(f"{why}; give its weights before training, or leave it out")
    seen, facts, found = look_at(net, sample), None, None
    if isinstance(net, Network):
        found = _measures(net, sample, initial, options, delta)
        facts = gather(net, sample, seen, found, initial, delta=delta, epsilon=options.epsilon)
    sharpness, why_flat = None, "sharpness was not asked for (0 draws)"
    try:
        if isinstance(net, ScoredNet):
            raise BadInput("of this net only answers are seen")
        sharpness = measure_sharpness(net, sample, options.sharpness)
    except BadInput as problem:  # it overflows the scores: its rows abstain, the others stand
        why_flat = str(problem)
    held = None if held_out is None else look_at(net, held_out).errors
    nets, flat = (
        (net, sample, initial, held_out, held),
        (sharpness, why_flat, _uncharged(net, sample)),
    )
    about = Subject(*nets, exact, options, facts, None if found is None else found.net, *flat)
    assumed = [*_ASSUMED, *([_INITIAL] if initial else []), *([_HELD_OUT] if held_out else [])]
    arguments = {"trace": ARGUMENTS, "hooks": ARGUMENTS_BY_HOOKS, "answers": (_counted,)}[
        way_of(net)
    ]
    margin = epsilon_margin(seen.margins, options.epsilon)
    return BoundsTable(
        net=name,
        data=sample.name,
        data_fingerprint=sample.fingerprint,
        m=len(sample),
        classes=net.classes,
        delta=delta,
        loss=_LOSS,
        errors=seen.errors,
        margin_level=options.epsilon,
        margin=margin,
        margin_loss=margin_loss(seen.margins, margin),
        holdout_errors=held,
        holdout_m=None if held_out is None else len(held_out),
        bounds=tuple(row for argument in arguments for row in argument(about)),
        assumptions=tuple(assumed),
        left_out=untraced,
    )


def _measures(
    net: Network, sample: Dataset, initial: Any, options: BoundOptions, delta: float
) -> MeasureTable:
    """What the theorems read."""
    how: dict[str, Any] = {
        "stability": options.stability,
        "conditions": replace(options.conditions, delta=delta),
        "init": initial,
    }
    families = ["norms", "paths", "stability"]
    if not net.lacks("rectifies", _CONDITIONS):
        families.append("conditions")
    with working("measures", 1):
        size = rows_at_a_time()
        return measure(net, sample, only=families, spectra=False, batch=size, **how)


def identity(model: Any) -> str:
    """The fingerprints of f's numbers and program (FORMAT.md, section 5): who was counted."""
    net = NetworkModule(model) if isinstance(model, Network) else model
    return f"{fingerprint_net(net)}-{program_fingerprint(net) or ''}"


def beside(first: BoundsTable, second: BoundsTable) -> BoundsTable:
    """The first table with the second beside it, and every row's verdict on which net is better."""
    return replace(first, beside=second, verdicts=compare(first, second))


def _counted(subject: Subject) -> list[Bound]:
    """The bound that needs no theory: errors on examples that training never saw."""
    if subject.holdout is None or subject.held_out_errors is None:
        return []
    n, errors = len(subject.holdout), subject.held_out_errors
    how = "set aside: what every other bound is to be compared with"
    if any("labels" in step for step in subject.sample.history):
        how = "with their true labels, not with labels like the sample's"
    value = binomial_inverse(errors, n, occam_log_delta(subject.delta, 0))
    row = Statement("held-out examples", "Clopper and Pearson 1934", "counted")
    return [row.proves(value, f"{errors} errors among {n} examples {how}", errors=errors, n=n)]


def _noise_bounds(subject: Subject) -> list[Bound]:
    """PAC-Bayes with isotropic noise: from zero, from initialisation, and eq. 6 as printed."""
    net, initial, options = subject.net, subject.initial, subject.options
    assert not isinstance(net, ScoredNet)  # ARGUMENTS of the other two ways only
    m, delta = len(subject.sample), float(subject.delta)
    if subject.uncharged:
        names = ["noise", *(["noise around initialisation"] if initial is not None else [])]
        source = pac_bayes.SOURCE.format(6)
        silent = [Statement(name, source, "corrected", "Q") for name in names]
        return [row.abstains(subject.uncharged, "certificate") for row in silent]
    squares = squared_distance(net)
    moved = None if initial is None else squared_distance(net, initial)
    least = squares if moved is None else min(squares, moved)
    hopeful = [sigma for sigma in SIGMAS if least / (2 * sigma**2) <= _HOPELESS * m]
    levels, draws, seed = hopeful or SIGMAS[:_FEWEST], options.noisy_draws, options.seed
    counts, independent = count_noisy_errors(net, subject.sample, levels, draws=draws, seed=seed)
    errors = [
        NoisyErrors(one.sigma, one.errors, one.draws, one.clusters, independent) for one in counts
    ]
    rows = [pac_bayes.isotropic(errors, squares, m, delta, from_initialisation=False)]
    if moved is not None:
        rows.append(pac_bayes.isotropic(errors, moved, m, delta, from_initialisation=True))
    return [*rows, pac_bayes.isotropic_as_printed(errors, squares, m, delta)]


def _uncharged(net: Any, sample: Dataset) -> str:
    """What noise in the weights would not move although training may have chosen it."""
    if isinstance(net, HookedNet):
        names = unmoved(net, feed(sample, slice(0, 2), net))
    else:
        names = getattr(net, "uncharged", ())
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    said = f"the scores also depend on {', '.join(names[:3])}{more}"
    return f"{said}, which are no weights and may hold the sample; make them parameters of layers"


def _stored(subject: Subject) -> list[Bound]:
    if subject.uncharged:
        return [Statement("stored weights", "Occam").abstains(subject.uncharged, "certificate")]
    return [bits_bound(subject.facts)]


def _figure_two(subject: Subject) -> list[Bound]:
    stability = subject.measures.stability
    return figure_two(subject.facts, None if stability is None else stability.effective_parameters)


def _magnitude_noise(subject: Subject) -> list[Bound]:
    curve = None if subject.sharpness is None else subject.sharpness.expected
    points = [] if curve is None else [(point.expected_error, point.kl) for point in curve.points]
    m, delta = len(subject.sample), float(subject.delta)
    return pac_bayes.magnitude_noise(points, m, delta, subject.why_flat)


def _theorem_one(subject: Subject) -> list[Bound]:
    found = subject.measures.conditions
    rows = []
    for form in FORMS:
        row = Statement("three conditions", "Neyshabur 2017, Theorem 1", form, "Q")
        one = None if found is None else found.theorem_one(form)
        if one is None or one.log10_total is None:
            why = _traced(subject).lacks("rectifies", _CONDITIONS) or "they were not measured"
            if one is not None:
                why = one.because or "a condition holds for no constant"
            elif found is not None:
                why = found.not_measured_because or "nothing was found"
            rows.append(row.abstains(why))
            continue
        text = (
            f"expected sharpness from mu = {one.mu:.2g}, C2 = {one.c2:.3g}, C3 = {one.c3:.2g} "
            f"(the worst of {found.examples} examples), plus its norm term; with 1 in place of O(.)"
        )
        value = log_sum(log(subject.facts.error), one.log10_total * LN10)
        rows.append(row.states(value, text))
    return rows


def _traced(subject: Subject) -> Network:
    assert isinstance(subject.net, Network)
    return subject.net


# Every argument, a line each, in the order of the table.
ARGUMENTS: tuple[Callable[[Subject], list[Bound]], ...] = (
    _counted,
    _noise_bounds,
    _stored,
    lambda subject: [vc_bound(subject.facts, decisions(_traced(subject)))],
    lambda subject: peeled(subject.facts),
    lambda subject: covered(subject.facts),
    lambda subject: [noise_tolerance(subject.facts)],
    lambda subject: cells(subject.facts, in_unit_cube(subject.sample)),
    lambda subject: norm_capacities(subject.facts),
    _figure_two,
    lambda subject: size_and_lipschitz(subject.facts),
    _magnitude_noise,
    _theorem_one,
    lambda subject: rankings(subject.facts, subject.measures, subject.sharpness),
)

# Of a net that hooks see: its answers, and noise in its weights.
ARGUMENTS_BY_HOOKS = (_counted, _noise_bounds, _magnitude_noise)
