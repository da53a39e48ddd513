"""Anytime training of nets that a seed makes: what random-subspace training and supermasks share.

What a seed makes costs nothing, so these nets are wider than those of the integer search. Each try
trains one plan on cross-entropy plus the price of its bits, as the integer search does. Nothing in
here is trusted: what counts is the message of the net found, and its errors by exact evaluation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import torch
from torch import nn

from cushion.certificates.format.layers import Pool
from cushion.certificates.format.limits import MOST_WEIGHTS, Shape
from cushion.certificates.search.integer import blueprints
from cushion.certificates.search.integer.search import anneal, optimiser_of
from cushion.certificates.search.integer.trainable import TrainableIntegerNet
from cushion.certificates.search.sample import Sample
from cushion.certificates.search.sizes import image_shape, square_summed
from cushion.certificates.search.task import Judging, Place, Task, price_of_a_bit
from cushion.errors import BadInput

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
    """One try. weights(stored shape, place from 1, generator) makes a layer's trained numbers."""

    blueprint: blueprints.Blueprint
    weights: Callable[[tuple[int, ...], int, torch.Generator], nn.Module]
    learning_rate: float  # of their shadows
    price: float  # weight of the rate, in units of what a bit is worth to the bound itself
    steps: int  # length of the schedule, if time allows


def wide_blueprint(shape: Shape, classes: int, width: float, hidden: int) -> blueprints.Blueprint:
    """Convolutions from 16x16 on, else one hidden layer; `width` multiplies its size."""

    def scaled(count: int) -> int:
        return max(1, round(count * width))

    channels = 8 if shape[0] == 1 else 16
    blueprint = blueprints.convolutional(scaled(channels), scaled(channels), scaled(2 * channels))
    if min(shape[1:]) < 16:
        blueprint = (blueprints.DenseBlock(scaled(hidden)), blueprints.DenseBlock())
    if (total := sum(sizes_of(blueprint, shape, classes).values())) > MOST_WEIGHTS:
        raise BadInput(f"`width` = {width:g} makes {total} weights; the limit is {MOST_WEIGHTS}")
    return blueprint


def sizes_of(
    blueprint: blueprints.Blueprint, shape: Shape, classes: int, first: int = 1
) -> dict[int, int]:
    """Place in the net (of the blueprint's first layer: `first`) -> how many numbers that layer
    has, if it has any.
    """
    layers = (stage.layer for stage in blueprints.lay_out(blueprint, shape, classes))
    return {
        place: math.prod(layer.source.shape)
        for place, layer in enumerate(layers, first)
        if not isinstance(layer, Pool)
    }


def search_seeded(plans: Sequence[SeededPlan], task: Task) -> Judging:
    """Train plan after plan until the time is over; keep the net with the smallest judge(net).

    With a number of steps, the first plan only is trained, judged at fixed steps and without a look
    at the clock, so that the answer repeats. Until a trained net is judged the answer is the net
    that always says the most frequent class, so there is always one; Ctrl-C ends the search early
    and keeps the best so far.
    """
    begin = time.monotonic()
    judging = Judging(task)
    begin -= judging.place.seconds
    steps = task.options.steps
    seconds = math.inf if steps else task.options.seconds
    tries = iter([replace(plans[0], steps=steps)]) if steps else cycle(plans)

    def deadline() -> float:
        """Moves as the cost becomes known: the last judgement's and the certificate's own."""
        return begin + seconds - 2 * judging.cost

    square = square_summed(image_shape(task.data))
    with judging:
        held = Sample.of(task.data, _INPUT_SHIFT, task.options.seed, task.teacher, square)
        for attempt, plan in enumerate(tries, 0 if steps else judging.place.tries):
            sample = held.again(task.options.seed + attempt)
            if not steps:
                judging.begin(Place(attempt, time.monotonic() - begin))
            for progress, due, model in _train(plan, sample, deadline):
                if due and (steps or progress >= 1.0 or judging.rested()):
                    # the method's own net, even where it is the worse one
                    judging.hear(model.freeze(), first=True)
                spent = progress if steps else min(1.0, (time.monotonic() - begin) / seconds)
                task.report(spent, judging.lowest)
            if time.monotonic() >= deadline():
                break
    return judging


def _train(
    plan: SeededPlan, sample: Sample, deadline: Callable[[], float]
) -> Iterator[tuple[float, bool, TrainableIntegerNet]]:
    """One try, in time: its progress, whether the net is due to be judged, and the net."""
    begin = time.monotonic()

    def weights(stored: tuple[int, ...], place: int) -> nn.Module:
        return plan.weights(stored, place, sample.generator)

    model = TrainableIntegerNet(plan.blueprint, *sample.kind, weights, sample.square)
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
            price = plan.price * _EXCHANGE * price_of_a_bit(error, model.bits(), len(sample))
            if progress > _SETTLED:
                settle(model, _PULL * plan.learning_rate)
        if _passed(calibrations, progress):
            model.calibrate(sample.some())
        rising = price * min(1.0, 2.5 * progress)
        error = 0.98 * error + 0.02 * sample.descend(model.logits, optimiser, rising, model.rate)
        due = _passed(judgements, progress) or progress >= 1.0
        if due or step % _NEWS == 0:
            yield progress, due, model
        if progress >= 1.0:
            return


def settle(model: TrainableIntegerNet, pull: float) -> None:
    """Move every shadow towards the whole number it is rounded to, by at most `pull`.

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
