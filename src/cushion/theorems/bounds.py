"""bounds(): every bound of the literature on one net, in the same δ, loss and m."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from torch import nn

from cushion.data import Dataset, as_dataset
from cushion.data.inputs import check_holdout
from cushion.errors import BadInput
from cushion.measures.conditions.records import NetConditions
from cushion.measures.norms.layers import squared_distance
from cushion.measures.records import MeasureTable
from cushion.measures.sharpness.measurement import measure_sharpness
from cushion.measures.sharpness.noisy import count_noisy_errors
from cushion.measures.sharpness.records import Sharpness
from cushion.measures.stability.comparison import check_alike
from cushion.measures.table import measure, traced
from cushion.nets.network import Network
from cushion.numerics import binomial_inverse, occam_log_delta
from cushion.theorems.capacities import figure_two, norm_capacities, size_and_lipschitz
from cushion.theorems.covering import covered
from cushion.theorems.facts import NetFacts
from cushion.theorems.growth import bits_bound, vc_bound
from cushion.theorems.net_facts import decisions, gather, in_unit_cube, look_at
from cushion.theorems.occam import parse_delta
from cushion.theorems.options import BoundOptions
from cushion.theorems.pac_bayes import (
    SIGMAS,
    NoisyErrors,
    isotropic,
    isotropic_as_printed,
    magnitude_noise,
)
from cushion.theorems.rademacher import peeled
from cushion.theorems.records import Bound, BoundsTable, compare
from cushion.theorems.robustness import cells
from cushion.theorems.rows import LN10, abstain, certified, log, log_sum, no_margin, ranking, stated
from cushion.theorems.spectral_pac_bayes import noise_tolerance

LOSS = "0-1 error on new examples; ties are errors"
_ASSUMED = (
    "the examples are independent draws from one distribution, and new ones come from it too",
    "delta, the seed and number of draws, and the net's architecture were fixed before the data",
    "scores are those of this machine's floating point, and noise comes from a pseudo-random "
    "generator",
)
_INITIAL = "the initialisation was drawn before the data"
_HELD_OUT = "the held-out examples were used for nothing else"
_HOPELESS = 4.0  # nats an example: beyond it no noise level can prove an error below 98 %
_FEWEST = 4  # noise levels that are drawn in any case


def bounds(
    model: nn.Module | Network,
    data: Dataset | str,
    *,
    holdout: Dataset | None = None,
    init: nn.Module | Network | None = None,
    options: BoundOptions | None = None,
    name: str = "net",
) -> BoundsTable:
    """All bounds on one net and its training set, each a certificate or a measure, in one table.

    `holdout` adds the bound by counting, with which every other should be compared; `init`, the net
    before training, the versions from initialisation. The model is not changed.
    """
    options = options or BoundOptions()
    sample = as_dataset(data)
    check_holdout(holdout, sample)
    exact = parse_delta(str(options.delta))
    delta = float(exact)
    net = traced(model, sample)
    initial = None if init is None else traced(init, sample)
    if initial is not None:
        check_alike(net, initial, "the initialisation")
        if squared_distance(net, initial) == 0.0:
            raise BadInput(
                "the initialisation is the net itself; give its weights before training, or leave "
                "it out"
            )
    seen = look_at(net, sample)
    found = measure(
        net,
        sample,
        only=["norms", "paths", "conditions", "stability"],
        stability=options.stability,
        conditions=replace(options.conditions, delta=delta),
        init=initial,
        spectra=False,
    )
    sharpness, why_flat = None, "sharpness was not asked for (0 draws)"
    try:
        sharpness = measure_sharpness(net, sample, options.sharpness)
    except BadInput as problem:  # it overflows the scores: its rows abstain, the others stand
        why_flat = str(problem)
    facts = gather(net, sample, seen, found, initial, delta=delta, epsilon=options.epsilon)
    missed = None if holdout is None else look_at(net, holdout).errors
    rows = [
        *([] if holdout is None or missed is None else [_counted(missed, holdout, sample, exact)]),
        *_noise_bounds(net, sample, initial, delta, options),
        bits_bound(facts),
        vc_bound(facts, decisions(net)),
        *peeled(facts),
        *covered(facts),
        noise_tolerance(facts),
        *cells(facts, in_unit_cube(sample)),
        *_measures(facts, found, sharpness, why_flat),
    ]
    return BoundsTable(
        net=name,
        data=sample.name,
        data_fingerprint=sample.fingerprint,
        m=len(sample),
        classes=net.classes,
        delta=delta,
        loss=LOSS,
        errors=seen.errors,
        margin_level=options.epsilon,
        margin=facts.margin,
        margin_loss=facts.margin_loss,
        holdout_errors=missed,
        holdout_m=None if holdout is None else len(holdout),
        bounds=tuple(rows),
        assumptions=(
            *_ASSUMED,
            *([] if initial is None else [_INITIAL]),
            *([] if holdout is None else [_HELD_OUT]),
        ),
    )


def beside(first: BoundsTable, second: BoundsTable) -> BoundsTable:
    """The first table with the second beside it, and every row's verdict on which net is better."""
    return replace(first, beside=second, verdicts=compare(first, second))


def _measures(
    facts: NetFacts, found: MeasureTable, sharpness: Sharpness | None, why_flat: str
) -> list[Bound]:
    effective = None if found.net.stability is None else found.net.stability.effective_parameters
    expected = None if sharpness is None else sharpness.expected
    points = (
        [] if expected is None else [(point.expected_error, point.kl) for point in expected.points]
    )
    return [
        *norm_capacities(facts),
        *figure_two(facts, effective),
        *size_and_lipschitz(facts),
        *magnitude_noise(points, facts.m, facts.delta, why_flat),
        *_theorem_one(found.net.conditions, facts),
        *_rankings(facts, found, sharpness),
    ]


def _rankings(facts: NetFacts, found: MeasureTable, sharpness: Sharpness | None) -> list[Bound]:
    """What is in no units of the error: it only says which of two nets is simpler, flatter or
    better conditioned.
    """
    net, conditions = found.net, found.net.conditions
    most = None if sharpness is None else sharpness.maximum
    curve = None if sharpness is None else sharpness.expected
    middle = None if curve is None else curve.points[len(curve.points) // 2]
    interaction = None if conditions is None else conditions.interaction
    mu = None if interaction is None else interaction.text.mu
    flips = [] if conditions is None else [part.restricted for part in conditions.activation_flips]
    units = (
        []
        if conditions is None
        else [part.value for part in conditions.unit_norms if part.value is not None]
    )
    level = 0.05
    why = "not measured, or infinite"
    return [
        ranking(
            "inverse margin",
            "Neyshabur 2017, §2.2",
            facts.margin**-2 if facts.margin > 0 else None,
            "1 / γ²: depends on the scale of the weights",
            no_margin(facts),
        ),
        ranking(
            "distance from initialisation",
            "Neyshabur 2017, eq. 6",
            None if net.distance is None else net.distance**2,
            "‖w - w₀‖²: how far training moved the weights",
            "the initialisation is not known: give a RUN folder",
        ),
        ranking(
            "largest sharpness",
            "Keskar 2016; Neyshabur 2017, eq. 4",
            None if most is None else most.value,
            "ζ: rise of the cross-entropy in a small box around the weights, found by ascent",
            why,
        ),
        ranking(
            "expected sharpness",
            "Neyshabur 2017, eq. 5",
            None if middle is None else max(0.0, middle.sharpness),
            "rise of the cross-entropy under Gaussian noise"
            + ("" if middle is None else f" α(10|w| + 1), α = {middle.alpha:g}"),
            why,
        ),
        ranking(
            "KL at fixed sharpness",
            "Neyshabur 2017, Figure 2",
            None if curve is None else curve.kl_at(level),
            f"½Σw²/σ² of the noise that raises the error by {level:g}: the bi-criteria curve at "
            "one height",
            f"no noise that was tried raises the error by {level:g}; give larger or smaller "
            "`alphas`",
        ),
        ranking(
            "C1",
            "Neyshabur 2017, §4",
            None if not mu else 1 / mu,
            "1/μ: how weakly layers interact, worst",
            why,
        ),
        ranking(
            "C2",
            "Neyshabur 2017, §4",
            max(flips, default=None),
            "share of units that can flip, over δ, worst",
            why,
        ),
        ranking(
            "C3",
            "Neyshabur 2017, §4",
            max(units, default=None),
            "largest unit over the active ones, worst",
            why,
        ),
    ]


def _counted(errors: int, holdout: Dataset, sample: Dataset, delta: Decimal) -> Bound:
    """The bound that needs no theory: errors on examples that training never saw."""
    n = len(holdout)
    text = (
        f"{errors} errors among {n} examples set aside: what every other bound is to be compared "
        "with"
    )
    if any("labels" in step for step in sample.history):
        text = (
            f"{errors} errors among {n} examples with their true labels, not with labels like the "
            "sample's"
        )
    value = binomial_inverse(errors, n, occam_log_delta(delta, 0))
    return certified(
        "held-out examples",
        "Clopper and Pearson 1934",
        value,
        text,
        form="counted",
        factors={"errors": errors, "n": n},
    )


def _noise_bounds(
    net: Network, sample: Dataset, initial: Network | None, delta: float, options: BoundOptions
) -> list[Bound]:
    """PAC-Bayes with isotropic noise: certificates from zero and from initialisation, and eq. 6 as
    printed.
    """
    m = len(sample)
    squares = squared_distance(net)
    moved = None if initial is None else squared_distance(net, initial)
    least = squares if moved is None else min(squares, moved)
    hopeful = [sigma for sigma in SIGMAS if least / (2 * sigma**2) <= _HOPELESS * m] or list(
        SIGMAS[:_FEWEST]
    )
    counts, independent = count_noisy_errors(
        net, sample, hopeful, draws=options.noisy_draws, seed=options.seed
    )
    errors = [
        NoisyErrors(one.sigma, one.errors, one.draws, one.clusters, independent) for one in counts
    ]
    rows = [isotropic(errors, squares, m, delta, from_initialisation=False)]
    if moved is not None:
        rows.append(isotropic(errors, moved, m, delta, from_initialisation=True))
    return [*rows, isotropic_as_printed(errors, squares, m, delta)]


def _theorem_one(found: NetConditions | None, facts: NetFacts) -> list[Bound]:
    name, source = "three conditions", "Neyshabur 2017, Theorem 1"
    if found is None or not found.theorem:
        why = (
            "the conditions were not measured"
            if found is None
            else found.not_measured_because or "nothing was found"
        )
        return [abstain(name, source, why, "as printed"), abstain(name, source, why, "corrected")]
    rows = []
    for one in found.theorem:
        if one.version == "simplified" or one.delta_range != "restricted":
            continue
        if one.log10_total is None:
            rows.append(
                abstain(
                    name, source, one.because or "a condition holds for no constant", one.version
                )
            )
            continue
        text = (
            f"expected sharpness from mu = {one.mu:.2g}, C2 = {one.c2:.3g}, C3 = {one.c3:.2g}, "
            "plus its norm term; with 1 in place of O(.)"
        )
        total = stated(
            name,
            source,
            log_sum(log(facts.error), one.log10_total * LN10),
            text,
            form=one.version,
            about="Q",
        )
        rows.append(total)
    return rows
