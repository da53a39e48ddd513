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

from cushion.certificates.search.integer.blueprints import Plan, plans
from cushion.certificates.search.integer.last_layer import polish
from cushion.certificates.search.integer.training import State, train
from cushion.certificates.search.judging import Found, Judging, Task
from cushion.certificates.search.sample import Sample, image_shape
from cushion.data.dataset import Dataset

# values in an example; below, threads spend longer waiting for one another than computing
_WORTH_THREADS = 256


def search(task: Task) -> Found:
    """Train plan after plan until the time is over; return the net with the smallest judge(net).

    The search begins with the net that always says the most frequent class, so there is always an
    answer; Ctrl-C ends it early and keeps the best so far. Only nets that promise to beat it are
    judged.
    """
    data, seconds = task.data, task.options.seconds
    begin = time.monotonic()
    judging = Judging(task)
    threads = torch.get_num_threads()
    interrupted = False
    try:
        if data.x[0].size < _WORTH_THREADS:
            torch.set_num_threads(1)
        choices = plans(image_shape(data))
        for attempts in count():
            lap, place = divmod(attempts, len(choices))
            # each time round twice as long
            plan = replace(choices[place], steps=choices[place].steps << min(lap, 10))
            left = begin + seconds - judging.cost - time.monotonic()
            if left <= 0:
                break
            seed = task.options.seed + attempts
            sample = Sample.of(data, plan.input_shift, seed, task.teacher)
            for state in attempt(plan, sample, data, min(left, plan.share * seconds), seed):
                promising = state.promise < 1.05 * float(judging.lowest)
                if state.net is not None and promising and (state.last or judging.rested()):
                    judging.hear(state.net)
                task.report(min(1.0, (time.monotonic() - begin) / seconds), judging.lowest)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        torch.set_num_threads(threads)
    return judging.found(interrupted)


def attempt(
    plan: Plan, sample: Sample, data: Dataset, seconds: float, seed: int
) -> Iterator[State]:
    """One try: train, then polish what came out, for a part of the time that training took."""
    begin = time.monotonic()
    net = None
    for state in train(plan, sample, (1.0 - plan.polish) * seconds):
        net = state.net
        yield state
    if net is None:
        return
    rest = plan.polish / (1.0 - plan.polish) * (time.monotonic() - begin)
    yield from polish(net, np.asarray(data.x), np.asarray(data.y), rest, seed)
