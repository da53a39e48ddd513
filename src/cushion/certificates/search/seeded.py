"""Anytime training of nets that a seed makes: what random-subspace training and supermasks share.

What a seed makes costs nothing, so these nets are wider than those of the integer search. Each try
trains one plan on cross-entropy plus the price of its bits, as the integer search does. Nothing in
here is trusted: what counts is the message of the net that comes out, and its error count by exact
evaluation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import torch
from torch import Tensor, nn

from cushion.certificates.format.limits import MOST_WEIGHTS
from cushion.certificates.search.integer.blueprints import (
    Blueprint,
    ConvBlock,
    DenseBlock,
    PoolBlock,
    lay_out,
)
from cushion.certificates.search.integer.relaxation import price_of_a_bit
from cushion.certificates.search.integer.trainable import TrainableIntegerNet
from cushion.certificates.search.integer.training import anneal, descend, optimiser_of
from cushion.certificates.search.judging import Found, Judge, Judging
from cushion.certificates.search.options import Report
from cushion.certificates.search.sample import (
    Sample,
    Shape,
    image_shape,
    quantiser_for,
)
from cushion.data.dataset import Dataset
from cushion.errors import BadInput

MOST_SEED = 2**32 - 1  # the largest that the format can name
_INPUT_SHIFT = 4  # of byte inputs
_EXCHANGE = 2.5  # cross-entropy that goes with one unit of error rate
_NEWS = 50  # steps between two looks at price and clock
_JUDGED = (0.2, 0.4, 0.6, 0.8, 0.9)  # of a try, besides its end
_SETTLED = 0.6  # of a try, from where on shadows are drawn to their whole numbers
_PULL = 6.0  # how far at most between two looks, in learning rates
# of a try: the sizes of sums move while weights are switched on and off
_CALIBRATED = (0.1, 0.2, 0.3)


@dataclass(frozen=True)
class SeededPlan:
    """One try: a blueprint, how a layer's weights arise, the learning rate of their shadows, and
    what a bit costs.

    weights(stored shape, place from 1, generator) makes a layer's `Weights`. price: weight of the
    rate, in units of what a bit is worth to the bound itself. steps: length of the schedule, if
    time allows.
    """

    blueprint: Blueprint
    weights: Callable[[tuple[int, ...], int, torch.Generator], nn.Module]
    learning_rate: float
    price: float
    steps: int


@dataclass(frozen=True)
class Budget:
    """For some seconds, or one try of exactly so many steps, which then repeats exactly."""

    seconds: float | None = None
    steps: int | None = None


def wide_blueprint(shape: Shape, classes: int, width: float, hidden: int) -> Blueprint:
    """Convolutions from 16x16 on, else one hidden layer; `width` multiplies its size."""

    def scaled(count: int) -> int:
        return max(1, round(count * width))

    channels = 8 if shape[0] == 1 else 16
    blueprint: Blueprint = (
        ConvBlock(scaled(channels), 5, stride=2, padding=2),
        ConvBlock(scaled(channels), 3, padding=1),
        PoolBlock("max", 2),
        ConvBlock(scaled(2 * channels), 3, padding=1),
        PoolBlock("max", 2),
        DenseBlock(),
    )
    if min(shape[1:]) < 16:
        blueprint = (DenseBlock(scaled(hidden)), DenseBlock())
    if (total := sum(sizes_of(blueprint, shape, classes).values())) > MOST_WEIGHTS:
        raise BadInput(
            f"`width` = {width:g} makes a net of {total} weights, more than the {MOST_WEIGHTS} of "
            "the format; give a smaller one"
        )
    return blueprint


def sizes_of(blueprint: Blueprint, shape: Shape, classes: int) -> dict[int, int]:
    """Place in the net (from 1) -> how many numbers that layer has, if it has any."""
    slots = enumerate(lay_out(blueprint, shape, classes), 1)
    return {place: math.prod(slot.stored) for place, slot in slots if slot.stored}


def check_seed(seed: int) -> None:
    if not 0 <= seed <= MOST_SEED:
        raise BadInput(
            f"`seed` = {seed} cannot be written into a net; give a whole number from 0 to "
            f"{MOST_SEED}"
        )


def search_seeded(
    plans: Sequence[SeededPlan],
    data: Dataset,
    judge: Judge,
    *,
    budget: Budget,
    seed: int,
    teacher: Tensor | None = None,
    report: Report | None = None,
) -> Found:
    """Train plan after plan until the budget is spent; return the net with the smallest judge(net).

    A budget of steps trains the first plan only, judges it at fixed steps and never looks at the
    clock. teacher: [m, classes] scores to imitate, or None. report is told now and then which part
    of the budget is spent, and the best bound so far. Until a trained net is judged the answer is
    the net that always says the most frequent class, so there is always one; Ctrl-C ends the search
    early and keeps the best so far.
    """
    begin = time.monotonic()
    judging = Judging(data, judge)
    timed = budget.steps is None
    seconds = budget.seconds or math.inf
    tries = cycle(plans) if timed else iter([replace(plans[0], steps=budget.steps or 1)])

    def deadline() -> float:
        """Moves as the cost becomes known: the last judgement's and the certificate's own."""
        return begin + seconds - 2 * judging.cost

    try:
        for attempt, plan in enumerate(tries):
            for progress, due, model in _train(plan, data, teacher, seed + attempt, deadline):
                if due and (not timed or progress >= 1.0 or judging.rested()):
                    # the method's own net, even where it is the worse one
                    judging.hear(model.freeze(), first=True)
                if report is not None:
                    spent = min(1.0, (time.monotonic() - begin) / seconds) if timed else progress
                    report(spent, judging.lowest)
            if time.monotonic() >= deadline():
                break
    except KeyboardInterrupt:
        return judging.found(interrupted=True)
    return judging.found(interrupted=False)


def _train(
    plan: SeededPlan,
    data: Dataset,
    teacher: Tensor | None,
    seed: int,
    deadline: Callable[[], float],
) -> Iterator[tuple[float, bool, TrainableIntegerNet]]:
    """One try, in time: its progress, whether the net is due to be judged, and the net."""
    begin = time.monotonic()
    m, shape = len(data), image_shape(data)
    generator = torch.Generator().manual_seed(seed)
    quantiser = quantiser_for(data, _INPUT_SHIFT)
    sample = Sample.of(data, quantiser, teacher, generator)
    model = TrainableIntegerNet(
        plan.blueprint,
        shape,
        data.classes,
        quantiser,
        lambda stored, place: plan.weights(stored, place, generator),
    )
    model.calibrate(sample.some())
    rates = (plan.learning_rate, 0.1, 0.02)
    optimiser = optimiser_of(model)
    error, price, progress = 0.5, 0.0, 0.0
    judgements, calibrations = list(_JUDGED), list(_CALIBRATED)
    for step in range(1, plan.steps + 1):
        passed = (time.monotonic() - begin) / max(deadline() - begin, 1e-9)
        progress = min(1.0, max(progress, step / plan.steps, passed))
        anneal(optimiser, rates, progress)
        if step % _NEWS == 1:
            price = plan.price * _EXCHANGE * price_of_a_bit(error, model.bits(), m)
            if progress > _SETTLED:
                settle(model, _PULL * plan.learning_rate)
        if _passed(calibrations, progress):
            model.calibrate(sample.some())
        rows = sample.rows()
        logits = model.logits(sample.pixels[rows].float())
        paid = price * min(1.0, 2.5 * progress) * model.rate()
        descend(optimiser, sample.loss(logits, rows) + paid)
        error = 0.98 * error + 0.02 * sample.wrong(logits, rows)
        due = _passed(judgements, progress) or progress >= 1.0
        if due or step % _NEWS == 0:
            yield progress, due, model
        if progress >= 1.0:
            return


def settle(model: TrainableIntegerNet, pull: float) -> None:
    """Move every shadow towards the whole number that it is rounded to, by at most `pull`; no
    integer changes.

    What is worth little more than it costs would otherwise flip to and fro at its threshold for
    ever. As the learning rate falls below the pull, it settles on one side.
    """
    with torch.no_grad():
        for shadow in model.weights.parameters():
            shadow.add_((torch.floor(shadow + 0.5) - shadow).clamp(-pull, pull))


def _passed(marks: list[float], progress: float) -> bool:
    """Whether progress has just passed the next mark (or several); those are struck off."""
    passed = False
    while marks and progress >= marks[0]:
        del marks[0]
        passed = True
    return passed
