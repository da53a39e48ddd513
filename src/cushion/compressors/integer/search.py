"""Rate-aware search for the integer net whose Occam bound is smallest.

Each try trains one plan's net on cross-entropy plus the price of its bits, where the price follows the bound itself: at
the present error and length, ∂bound/∂bits over ∂bound/∂error says how many errors a bit may cost. Nothing in here is
trusted: what counts is the message of the net that comes out, and its error count by exact evaluation. How a net was
found (initialisation, schedule, number of tries) costs no bits, because the decoder never reads it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import count

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.compressors.integer.plans import Plan, Shape, plans
from cushion.compressors.integer.trainable import GridWeights, TrainableIntegerNet
from cushion.data.dataset import Dataset
from cushion.encoding.inputs import Bytes, Input, fit_floats
from cushion.encoding.integer_net import Dense, IntegerNet
from cushion.encoding.sources import Grid
from cushion.numerics import kl_inverse

_BATCH = 256
_WORTH_THREADS = 2**17  # values in a batch; below, threads spend longer waiting for one another than computing
_EXCHANGE = 2.5  # cross-entropy that goes with one unit of error rate


@dataclass(frozen=True)
class Found:
    """The best net of a search, and whether someone ended the search before its time."""

    net: IntegerNet
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

    judge: the bound of a net on this sample (encode it, count its errors exactly, invert the tail). teacher:
    [m, classes] logits of a net to imitate, or None. report is told now and then how many seconds have passed and the
    best bound so far. The search begins with the net that always says the most frequent class, so there is always an
    answer; Ctrl-C ends it early and keeps the best so far. Where judging is slow (it counts errors on the whole
    sample), it is done less often, so that it takes at most about a quarter of the time.
    """
    shape: Shape = data.shape if len(data.shape) == 3 else (1, 1, int(np.prod(data.shape)))
    begin = time.monotonic()
    best = constant_net(shape, data, quantiser_for(data, 0))
    lowest = judge(best)
    cost = time.monotonic() - begin  # seconds that one judgement takes
    judged = time.monotonic()
    deadline = begin + seconds
    threads = torch.get_num_threads()
    interrupted = False
    try:
        if data.x[0].size * _BATCH < _WORTH_THREADS:
            torch.set_num_threads(1)
        choices = plans(shape)
        for attempt in count():
            plan = choices[attempt % len(choices)]
            for progress, net in train(plan, shape, data, teacher, seed + attempt, deadline - cost):
                if net is not None and (progress >= 1.0 or time.monotonic() - judged > 3 * cost):
                    before = time.monotonic()
                    bound = judge(net)
                    judged = time.monotonic()
                    cost = judged - before
                    if bound < lowest:
                        lowest, best = bound, net
                if report is not None:
                    report(time.monotonic() - begin, lowest)
            if time.monotonic() >= deadline - cost:
                break
    except KeyboardInterrupt:
        interrupted = True
    finally:
        torch.set_num_threads(threads)
    return Found(best, interrupted)


def quantiser_for(data: Dataset, shift: int) -> Input:
    """How a net reads these examples: bytes by a shift, floats by a quantiser fitted to them (and paid)."""
    if data.x.dtype == np.uint8:
        return Bytes(shift)
    return fit_floats(np.asarray(data.x, dtype=np.float32).reshape(len(data), -1))


def constant_net(shape: Shape, data: Dataset, quantiser: Input) -> IntegerNet:
    """Always answers the most frequent class: all weights zero, one bias."""
    bias = np.zeros(data.classes, dtype=np.int64)
    bias[np.bincount(data.y, minlength=data.classes).argmax()] = 1
    weight = np.zeros((data.classes, math.prod(shape)), dtype=np.int64)
    return IntegerNet(shape, quantiser, (Dense(Grid(weight, 1), bias, 0, 0),))


def price_of_a_bit(error: float, bits: float, m: int) -> float:
    """How much error rate one bit is worth: ∂bound/∂bits over ∂bound/∂error of the relaxed (kl) bound.

    >>> 1e-6 < price_of_a_bit(0.02, 2000, 60000) < 1e-4
    True
    """

    def bound(q: float, b: float) -> float:
        return kl_inverse(q, (b * math.log(2.0) + 3.0) / m)

    error = min(0.9, max(error, 1.0 / m))
    step = 0.02 * error
    slope = (bound(error + step, bits) - bound(error, bits)) / step
    return (bound(error, bits + 64) - bound(error, bits)) / 64 / max(slope, 1e-3)


def train(
    plan: Plan, shape: Shape, data: Dataset, teacher: Tensor | None, seed: int, deadline: float
) -> Iterator[tuple[float, IntegerNet | None]]:
    """One try; yields its progress with the frozen net, or with None where there is nothing to judge yet.

    The schedule ends by the deadline, however slow the machine is.
    """
    begin = time.monotonic()
    generator = torch.Generator().manual_seed(seed)
    quantiser = quantiser_for(data, plan.input_shift)
    m = len(data)
    pixels = torch.from_numpy(quantiser.read(np.asarray(data.x).reshape(m, -1), np.float32).astype(np.int16))
    pixels = pixels.reshape(m, *shape)
    labels = torch.from_numpy(np.array(data.y))
    model = TrainableIntegerNet(
        plan.blueprint, shape, data.classes, quantiser, lambda stored, _: GridWeights(stored, plan.levels, generator)
    )
    batch = min(m, _BATCH)
    model.calibrate(pixels[:batch].float())
    rates = (0.05, 0.02, 0.02)
    optimiser = torch.optim.Adam(
        [
            {"params": list(model.weights.parameters()), "lr": rates[0]},
            {"params": list(model.biases.parameters()), "lr": rates[1]},
            {"params": [model.log_scale], "lr": rates[2]},
        ],
        betas=(0.9, 0.99),
    )
    error, price = 0.5, 0.0
    for step in range(1, plan.steps + 1):
        progress = min(1.0, max(step / plan.steps, (time.monotonic() - begin) / max(deadline - begin, 1e-9)))
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
        if step % 50 == 1:
            model.refresh()
            with torch.no_grad():
                bits = float(model.rate())
            price = plan.price * _EXCHANGE * price_of_a_bit(error, bits, m)
        rows = torch.randint(m, (batch,), generator=generator)
        logits = model.logits(pixels[rows].float())
        loss = F.cross_entropy(logits, labels[rows])
        if teacher is not None:
            loss = 0.5 * loss + 0.5 * F.cross_entropy(logits, F.softmax(teacher[rows], dim=1))
        loss = loss + price * min(1.0, 2.5 * progress) * model.rate()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        error = 0.98 * error + 0.02 * float((logits.detach().argmax(1) != labels[rows]).float().mean())
        over = progress >= 1.0
        if over or step % 50 == 0:
            yield progress, model.freeze() if progress > 0.5 else None
        if over:
            return
