"""Rate-aware search for the integer net whose Occam bound is smallest.

Nothing in here is trusted: what counts is the message of the net that comes out, and its error
count by exact evaluation. How a net was found (initialisation, schedule, number of tries) costs no
bits, because the decoder never reads it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count

import numpy as np
import torch
from torch import Tensor

from cushion.certificates.format.inputs import Input
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.search.integer.plans import Plan, plans
from cushion.certificates.search.integer.polish import polish
from cushion.certificates.search.integer.training import State, train
from cushion.certificates.search.sample import (
    Sample,
    Shape,
    constant_net,
    image_shape,
    quantiser_for,
)
from cushion.data.dataset import Dataset

# values in an example; below, threads spend longer waiting for one another than computing
_WORTH_THREADS = 256


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
    shape = image_shape(data)
    begin = time.monotonic()
    best = constant = constant_net(data)
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
            # each time round twice as long
            plan = replace(choices[place], steps=choices[place].steps << min(lap, 10))
            left = begin + seconds - cost - time.monotonic()
            if left <= 0:
                break
            generator = torch.Generator().manual_seed(seed + attempts)
            quantiser = quantiser_for(data, plan.input_shift)
            sample = Sample.of(data, quantiser, teacher, generator)
            time_for_it = min(left, plan.share * seconds)
            for state in attempt(
                plan, sample, data, shape, quantiser, time_for_it, seed + attempts
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
