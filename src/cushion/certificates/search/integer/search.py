"""Rate-aware search for the integer net whose Occam bound is smallest.

Nothing in here is trusted: what counts is the message of the net that comes out, and its error
count by exact evaluation. How a net was found (initialisation, schedule, number of tries) costs no
bits, because the decoder never reads it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count

import numpy as np
import torch
from torch import Tensor

from cushion.certificates.format.inputs import Bytes, Input, fit_floats
from cushion.certificates.format.integer_net import Dense, IntegerNet
from cushion.certificates.format.sources import Grid
from cushion.certificates.search.integer.plans import Plan, Shape, plans
from cushion.certificates.search.integer.polish import polish
from cushion.certificates.search.integer.training import Sample, State, train
from cushion.data.dataset import Dataset

_FLOAT_BITS = 8  # of a float feature, at its finest
_WORTH_THREADS = (
    256  # values in an example; below, threads spend longer waiting for one another than computing
)


@dataclass(frozen=True)
class Found:
    """The best net of a search, whether it was trained (else it always gives the most frequent
    class), and whether someone ended the search before its time.
    """

    net: IntegerNet
    trained: bool
    interrupted: bool


def search(
    data: Dataset,
    judge: Callable[[IntegerNet], Decimal],
    *,
    seconds: float,
    seed: int,
    teacher: Tensor | None = None,
    report: Callable[[float, Decimal], None] | None = None,
) -> Found:
    """Train plan after plan until the time is over; return the net with the smallest judge(net).

    judge: the bound of a net on this sample (encode it, count its errors exactly, invert the tail).
    teacher: [m, classes] logits of a net to imitate, or None. report is told now and then how many
    seconds have passed and the best bound so far. The search begins with the net that always says
    the most frequent class, so there is always an answer; Ctrl-C ends it early and keeps the best
    so far. Only nets that promise to beat it are judged, and judging (it counts errors on the whole
    sample) gets at most about a quarter of the time.
    """
    shape: Shape = data.shape if len(data.shape) == 3 else (1, 1, int(np.prod(data.shape)))
    begin = time.monotonic()
    best = constant = constant_net(shape, data, quantiser_for(data, 7))
    lowest = judge(best)
    judged = time.monotonic()
    cost = judged - begin  # seconds that one judgement takes
    threads = torch.get_num_threads()
    interrupted = False
    try:
        if data.x[0].size < _WORTH_THREADS:
            torch.set_num_threads(1)
        choices = plans(shape)
        for attempts in count():
            lap, place = divmod(attempts, len(choices))
            plan = replace(
                choices[place], steps=choices[place].steps << min(lap, 10)
            )  # each time round twice as long
            left = begin + seconds - cost - time.monotonic()
            if left <= 0:
                break
            generator = torch.Generator().manual_seed(seed + attempts)
            quantiser = quantiser_for(data, plan.input_shift)
            numbers = quantiser.read(np.asarray(data.x).reshape(len(data), -1), np.float32).astype(
                np.int16
            )
            pixels = torch.from_numpy(numbers).reshape(len(data), *shape)
            sample = Sample(pixels, torch.from_numpy(np.array(data.y)), teacher, generator)
            for state in attempt(
                plan,
                sample,
                data,
                shape,
                quantiser,
                min(left, plan.share * seconds),
                seed + attempts,
            ):
                rested = state.last or time.monotonic() - judged > 3 * cost
                if state.net is not None and rested and state.promise < 1.05 * float(lowest):
                    before = time.monotonic()
                    bound = judge(state.net)
                    judged = time.monotonic()
                    cost = judged - before
                    if bound < lowest:
                        lowest, best = bound, state.net
                if report is not None:
                    report(time.monotonic() - begin, lowest)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        torch.set_num_threads(threads)
    return Found(best, best is not constant, interrupted)


def attempt(
    plan: Plan,
    sample: Sample,
    data: Dataset,
    shape: Shape,
    quantiser: Input,
    seconds: float,
    seed: int,
) -> Iterator[State]:
    """One try: train, then polish what came out, for a part of the time that training took."""
    begin = time.monotonic()
    net = None
    for state in train(plan, sample, shape, data.classes, quantiser, (1.0 - plan.polish) * seconds):
        net = state.net
        yield state
    if net is None:
        return
    rest = plan.polish / (1.0 - plan.polish) * (time.monotonic() - begin)
    yield from polish(net, np.asarray(data.x), np.asarray(data.y), rest, seed)


def quantiser_for(data: Dataset, shift: int) -> Input:
    """How a net reads these examples: bytes by a shift, floats by a quantiser fitted to them (and
    paid), as coarse.
    """
    if data.x.dtype == np.uint8:
        return Bytes(shift)
    flat = np.asarray(data.x, dtype=np.float32).reshape(len(data), -1)
    return fit_floats(flat, _FLOAT_BITS - shift, alike=len(data.shape) == 3)


def constant_net(shape: Shape, data: Dataset, quantiser: Input) -> IntegerNet:
    """Always answers the most frequent class: all weights zero, one bias."""
    bias = np.zeros(data.classes, dtype=np.int64)
    bias[np.bincount(data.y, minlength=data.classes).argmax()] = 1
    weight = np.zeros((data.classes, math.prod(shape)), dtype=np.int64)
    return IntegerNet(shape, quantiser, (Dense(Grid(weight, 1), bias, 0, 0),))
