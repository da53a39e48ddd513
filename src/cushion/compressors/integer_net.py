"""Rate-aware training of integer nets: find the one whose Occam bound is smallest.

Shadow weights in grid units are rounded in the forward pass and receive the gradient as if they had not been
(straight-through); a log(1 + (2w)²) penalty pulls them to zero, where the adaptive code makes them cheap. The
forward pass in training uses the very integers that the exact evaluator uses. Nothing in here is trusted: what
counts is the message of the net that comes out, and its error count by exact evaluation. How a net was found
(initialisation, schedule, number of tries) costs no bits, because the decoder never reads it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import count, product

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.data.dataset import Dataset
from cushion.encoding.integer_net import Conv, Dense, IntegerNet, Layer, Pool
from cushion.errors import BadInput

Shape = tuple[int, int, int]
_BATCH = 512
_WORTH_THREADS = 2**17  # values in a batch; below, threads spend longer waiting for one another than computing


@dataclass(frozen=True)
class Plan:
    """What one try trains: channels of 3x3 convolutions (each followed by 2x2 max pooling), grid, price of a bit."""

    channels: tuple[int, ...]
    levels: int
    input_shift: int
    price: float  # weight of the rate penalty, in units of the loss change that one bit is worth at this m


class _Round(torch.autograd.Function):
    """Floor of the value plus a half (or plain floor), passing the gradient straight through."""

    @staticmethod
    def forward(ctx: object, value: Tensor, offset: float) -> Tensor:  # noqa: ARG004
        return torch.floor(value + offset)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ARG004
        return gradient, None


def _straight(value: Tensor, offset: float) -> Tensor:
    rounded: Tensor = _Round.apply(value, offset)  # type: ignore[no-untyped-call]
    return rounded


class TrainableIntegerNet(nn.Module):
    """A Plan's net with shadow weights; `freeze` gives the IntegerNet that its forward pass computes."""

    def __init__(self, plan: Plan, shape: Shape, classes: int, generator: torch.Generator) -> None:
        super().__init__()
        self.plan, self.shape = plan, shape
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        self.shifts: list[int] = []
        channels, height, width = shape
        for out in plan.channels:
            self._add((out, channels, 3, 3), generator)
            channels, height, width = out, height // 2, width // 2
        self._add((classes, channels * height * width), generator)
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.units = [1.0] * len(self.weights)  # a typical sum of each layer, see `calibrate`

    def _add(self, shape: tuple[int, ...], generator: torch.Generator) -> None:
        self.weights.append(nn.Parameter(torch.randn(shape, generator=generator) * 0.7))
        self.biases.append(nn.Parameter(torch.zeros(shape[0])))
        self.shifts.append(0)

    def integers(self, index: int) -> Tensor:
        """The weights of one layer, rounded to the grid."""
        limit = float(self.plan.levels)
        return _straight(self.weights[index].clamp(-limit, limit), 0.5)

    def forward(self, pixels: Tensor) -> Tensor:
        """pixels: [n, *shape], already shifted, as floats -> [n, classes] integer scores."""
        values = pixels
        for index in range(len(self.plan.channels)):
            weight = self.integers(index)
            values = torch.relu(F.conv2d(values, weight, self.integer_bias(index), padding=1))
            values = F.max_pool2d(_straight(values / 2.0 ** self.shifts[index], 0.0), 2)
        return F.linear(values.flatten(1), self.integers(-1), self.integer_bias(-1))

    def integer_bias(self, index: int) -> Tensor:
        """The biases of one layer: trained in units of a typical sum, so that one learning rate serves all."""
        return _straight(self.biases[index] * self.units[index], 0.5)

    def calibrate(self, pixels: Tensor) -> None:
        """Set the shifts (powers of two) and units from a batch, so that hidden values stay around 0..15."""
        with torch.no_grad():
            values = pixels
            for index in range(len(self.plan.channels)):
                sums = F.conv2d(values, self.integers(index), padding=1)
                spread = float(sums.std().clamp(min=1.0))
                self.units[index] = spread
                self.shifts[index] = max(0, round(math.log2(spread / 4.0)))
                values = torch.relu(sums) / 2.0 ** self.shifts[index]
                values = F.max_pool2d(torch.floor(values), 2)
            scores = F.linear(values.flatten(1), self.integers(-1))
            self.units[-1] = float(scores.std().clamp(min=1.0))

    def rate_penalty(self) -> Tensor:
        """A smooth stand-in for the length of the adaptively coded weights and biases, in bits."""
        total = torch.zeros(())
        for weight in self.weights:
            total = total + torch.log2(1.0 + (2.0 * weight) ** 2).sum()
        for index, bias in enumerate(self.biases):
            total = total + torch.log2(1.0 + (2.0 * bias * self.units[index]) ** 2).sum()
        return total

    def freeze(self) -> IntegerNet:
        """The integers of the forward pass as a net for the exact evaluator."""
        layers: list[Layer] = []
        for index in range(len(self.weights)):
            weight = self.integers(index).detach().numpy().astype(np.int64)
            rounded = self.integer_bias(index).detach()
            bias = rounded.numpy().astype(np.int64) if bool((rounded != 0).any()) else None
            levels = max(1, int(np.abs(weight).max()))
            if weight.ndim == 4:
                layers += [
                    Conv(weight, bias, levels, self.shifts[index], stride=1, padding=1),
                    Pool("max", 2),
                ]
            else:
                layers.append(Dense(weight, bias, levels, shift=0))
        return IntegerNet(self.shape, self.plan.input_shift, tuple(layers))


@dataclass(frozen=True)
class Found:
    """The best net of a search, and whether someone ended the search before its time."""

    net: IntegerNet
    interrupted: bool


def plans(shape: Shape) -> list[Plan]:
    """The architectures and prices that the search goes through, in order."""
    side = min(shape[1:])
    stacks: list[tuple[int, ...]] = [()]
    if side >= 6:
        stacks = [(), (6,)]
    if side >= 16:
        stacks = [(6, 10, 16), (6, 10), (8, 16), ()]
    return [Plan(c, 3, 4, price) for c, price in product(stacks, (2.0, 3.0, 5.0, 1.0))]


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

    data: uint8 inputs. judge: the bound of a net on this sample (encode it, count its errors exactly, invert the
    tail). teacher: [m, classes] logits of a net to imitate, or None. report is told now and then how many seconds
    have passed and the best bound so far. The search begins with the net that always says the most frequent class,
    so there is always an answer; Ctrl-C ends it early and keeps the best so far. Where judging is slow (it counts
    errors on the whole sample), it is done less often, so that it takes at most about a quarter of the time.
    """
    if data.x.dtype != np.uint8:
        raise BadInput(f"{data.name}: an integer net reads uint8 inputs; quantise the features to 0..255 first")
    shape: Shape = data.shape if len(data.shape) == 3 else (1, 1, int(np.prod(data.shape)))
    begin = time.monotonic()
    best = constant_net(shape, data)
    lowest = judge(best)
    cost = time.monotonic() - begin  # seconds that one judgement takes
    judged = time.monotonic()
    deadline = begin + seconds
    threads = torch.get_num_threads()
    interrupted = False
    try:
        if data.x[0].size * _BATCH < _WORTH_THREADS:
            torch.set_num_threads(1)
        for attempt, plan in _endless(plans(shape)):
            for progress, net in _train(plan, shape, data, teacher, seed + attempt, deadline - cost):
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


def constant_net(shape: Shape, data: Dataset) -> IntegerNet:
    """Always answers the most frequent class: all weights zero, one bias."""
    bias = np.zeros(data.classes, dtype=np.int64)
    bias[np.bincount(data.y, minlength=data.classes).argmax()] = 1
    weight = np.zeros((data.classes, math.prod(shape)), dtype=np.int64)
    return IntegerNet(shape, 0, (Dense(weight, bias, levels=1, shift=0),))


def _endless(items: list[Plan]) -> Iterator[tuple[int, Plan]]:
    for attempt in count():
        yield attempt, items[attempt % len(items)]


def _train(
    plan: Plan,
    shape: Shape,
    data: Dataset,
    teacher: Tensor | None,
    seed: int,
    deadline: float,
    steps: int = 3000,
) -> Iterator[tuple[float, IntegerNet | None]]:
    """One try; yields its progress with the frozen net, or with None where there is nothing to judge yet.

    The schedule ends by the deadline, however slow the machine is.
    """
    begin = time.monotonic()
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.from_numpy(np.asarray(data.x) >> plan.input_shift).reshape(len(data), *shape)
    labels = torch.from_numpy(np.array(data.y))
    model = TrainableIntegerNet(plan, shape, data.classes, generator)
    batch = min(len(data), _BATCH)
    model.calibrate(pixels[:batch].float())
    optimiser = torch.optim.Adam(
        [{"params": [*model.weights, *model.biases], "lr": 0.05}, {"params": [model.log_scale], "lr": 0.02}]
    )
    price = plan.price * math.log(2.0) / len(data)
    for step in range(1, steps + 1):
        now = time.monotonic()
        progress = min(1.0, max(step / steps, (now - begin) / max(deadline - begin, 1e-9)))
        for group, rate in zip(optimiser.param_groups, (0.05, 0.02), strict=True):
            group["lr"] = rate * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))
        rows = torch.randint(len(data), (batch,), generator=generator)
        scores = model(pixels[rows].float())
        logits = scores * (torch.exp(model.log_scale) * 4.0 / model.units[-1])
        loss = F.cross_entropy(logits, labels[rows])
        if teacher is not None:
            loss = 0.5 * loss + 0.5 * F.cross_entropy(logits, F.softmax(teacher[rows], dim=1))
        loss = loss + price * min(1.0, 2 * progress) * model.rate_penalty()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        over = progress >= 1.0
        if over or step % 50 == 0:
            yield progress, model.freeze() if progress > 0.5 else None
        if over:
            return
