"""Rate-aware search for the integer net whose Occam bound is smallest.

Nothing in here is trusted: what counts is the message of the net that comes out, and its error
count by exact evaluation. How a net was found (initialisation, schedule, number of tries) costs no
bits, because the decoder never reads it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import numpy as np
import torch
from torch import Tensor

from cushion.certificates.format.inputs import Input
from cushion.certificates.search.integer.plans import Plan, plans
from cushion.certificates.search.integer.polish import polish
from cushion.certificates.search.integer.training import State, train
from cushion.certificates.search.judging import Found as Found
from cushion.certificates.search.judging import Judge, Judging
from cushion.certificates.search.options import Report
from cushion.certificates.search.sample import (
    Sample,
    Shape,
    image_shape,
    quantiser_for,
)
from cushion.data.dataset import Dataset

# values in an example; below, threads spend longer waiting for one another than computing
_WORTH_THREADS = 256


def search(
    data: Dataset,
    judge: Judge,
    *,
    seconds: float,
    seed: int,
    teacher: Tensor | None = None,
    report: Report | None = None,
) -> Found:
    """Train plan after plan until the time is over; return the net with the smallest judge(net).

    teacher: [m, classes] logits of a net to imitate, or None. report is told now and then how many
    seconds have passed and the best bound so far. The search begins with the net that always says
    the most frequent class, so there is always an answer; Ctrl-C ends it early and keeps the best
    so far. Only nets that promise to beat it are judged.
    """
    shape = image_shape(data)
    begin = time.monotonic()
    judging = Judging(data, judge)
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
            left = begin + seconds - judging.cost - time.monotonic()
            if left <= 0:
                break
            generator = torch.Generator().manual_seed(seed + attempts)
            quantiser = quantiser_for(data, plan.input_shift)
            sample = Sample.of(data, quantiser, teacher, generator)
            time_for_it = min(left, plan.share * seconds)
            for state in attempt(
                plan, sample, data, shape, quantiser, time_for_it, seed + attempts
            ):
                promising = state.promise < 1.05 * float(judging.lowest)
                if state.net is not None and promising and (state.last or judging.rested()):
                    judging.hear(state.net)
                if report is not None:
                    report(time.monotonic() - begin, judging.lowest)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        torch.set_num_threads(threads)
    return judging.found(interrupted)


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
