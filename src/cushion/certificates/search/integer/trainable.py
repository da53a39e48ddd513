"""Integer nets while they are trained.

At the end of training the forward pass uses the very integers that the exact evaluator uses (its
sums may round where float32 ends, which changes training a little and a certificate not at all:
`freeze` hands over the integers, and those are counted). A layer's integers arise from trained
numbers on a grid here, from a seeded mask or a seeded projection elsewhere.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.certificates.format.inputs import Input
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Conv, Dense, Layer, Pool
from cushion.certificates.format.limits import Shape, Stage
from cushion.certificates.format.sources import Grid, Source
from cushion.certificates.search.integer.blueprints import Blueprint, is_biased, lay_out

# typical size of a hidden value after its shift: precision between layers costs no bits
_TARGET = 256.0
_ANY = 2**15
_BIAS_STEPS = 16.0  # bias steps in one typical sum


def straight(value: Tensor, offset: float = 0.5) -> Tensor:
    """⌊value + offset⌋ going forward, the identity going back."""
    return torch.floor(value.detach() + offset) + (value - value.detach())


def interpolated(costs: Tensor, sizes: Tensor) -> Tensor:
    """Σ costs[size], linear between whole sizes and flat beyond the last but one."""
    sizes = sizes.clamp(max=len(costs) - 2 + 0.999)
    low = sizes.detach().floor()
    at = low.long()
    return (costs[at] + (sizes - low) * (costs[at + 1] - costs[at])).sum()


class GridWeights(nn.Module):
    """Weights on their way to -levels..levels: some are held on the grid, the others still real.

    `mask` is 0 where a weight was pruned for good. All start free; `hold` rounds more and more of
    them for good, and those still free make up for the rounding errors of the others. With
    `always_round` all are rounded from the start, and the gradient passes straight through.
    """

    always_round = False

    def __init__(
        self,
        shape: tuple[int, ...],
        levels: int,
        generator: torch.Generator | None = None,
        spread: float = 1.0,
    ) -> None:
        super().__init__()
        self.levels = levels
        self.real = nn.Parameter(torch.randn(shape, generator=generator) * spread)
        self.mask = torch.ones(shape)
        self.held = torch.zeros(shape, dtype=torch.bool)
        self.grid = torch.zeros(shape)  # the values of held weights
        self.refresh()

    @classmethod
    def of(cls, real: nn.Parameter) -> GridWeights:
        """Given numbers on their way to any whole ones."""
        numbers = cls(tuple(real.shape), _ANY)
        numbers.real = real
        return numbers

    def rounded(self) -> Tensor:
        """All weights on the grid."""
        nearest = torch.floor(self.real.detach().clamp(-self.levels, self.levels) + 0.5) * self.mask
        return torch.where(self.held, self.grid, nearest)

    def integers(self) -> Tensor:
        """Whole numbers where weights are held (no gradient), real ones elsewhere."""
        real = self.real.clamp(-self.levels, self.levels)
        if self.always_round:
            return straight(real) * self.mask
        return torch.where(self.held, self.rounded(), real * self.mask)

    def distances(self) -> Tensor:
        """How far each free weight is from the grid; infinite for those that are held or pruned."""
        away = (self.rounded() - self.real.detach()).abs()
        return torch.where(self.held | (self.mask == 0), torch.inf, away)

    def hold(self, chosen: Tensor) -> None:
        """Hold the chosen weights where they are on the grid."""
        with torch.no_grad():
            # the optimiser's momentum may still move `real`
            self.grid = torch.where(chosen, self.rounded(), self.grid)
            self.held = self.held | chosen

    def rate(self) -> Tensor:
        """Bits, by linear interpolation between the costs of neighbouring magnitudes."""
        return interpolated(self.costs, (self.real * self.mask).abs())

    def refresh(self) -> None:
        """-log2 of each magnitude's share (and a sign bit), never falling with the magnitude."""
        sizes = self.rounded().abs().long().reshape(-1)
        counts = torch.bincount(sizes, minlength=self.levels + 1).double() + 0.5
        costs = -torch.log2(counts / counts.sum())
        costs[1:] += 1
        self.costs = torch.cummax(torch.cat([costs, costs[-1:]]), 0).values.float()

    def source(self, place: int) -> Source:  # noqa: ARG002
        values = self.rounded().numpy().astype(np.int64)
        return Grid(values, max(1, int(np.abs(values).max())))


class TrainableIntegerNet(nn.Module):
    """A blueprint's net in training; `freeze` gives the IntegerNet of its forward pass."""

    def __init__(
        self,
        blueprint: Blueprint,
        shape: Shape,
        classes: int,
        quantiser: Input,
        weights: Callable[[tuple[int, ...], int], nn.Module],
        square: int = 1,
    ) -> None:
        """square: above 1 the net begins with a sum pooling over such squares, which the examples
        in training went through already; the blueprint is of what follows.

        weights(stored shape, place from 1) makes each layer's trained numbers, a module with
        integers(): them as whole floats, differentiable (straight through);
        rate(): a differentiable stand-in for the bits that they cost;
        refresh(): brings what `rate` knows of the code up to date, called now and then;
        source(place): them as the format stores them.
        """
        super().__init__()
        self.shape, self.quantiser = shape, quantiser
        summed: Blueprint = (Pool("sum", square),) if square > 1 else ()
        self.behind = len(summed)  # layers that the examples went through
        self.stages = lay_out((*summed, *blueprint), shape, classes)
        self.weights = nn.ModuleDict()
        self.biases = nn.ParameterDict()
        self.shifts: dict[str, int] = {}
        self.bias_shifts: dict[str, int] = {}  # biases are multiples of a power of two
        self.settled_biases: dict[str, GridWeights] = {}
        self.units: dict[str, float] = {}  # a typical sum of each layer, see `calibrate`
        self.orders: dict[str, Tensor] = {}  # see `expanded`
        for key, layer in self.affine():
            self.weights[key] = weights(layer.source.shape, int(key))
            if is_biased(layer):
                self.biases[key] = nn.Parameter(torch.zeros(layer.outputs))
            self.shifts[key], self.bias_shifts[key], self.units[key] = 0, 0, 1.0
            if layer.symmetry > 1:
                self.orders[key] = torch.from_numpy(layer.order)
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.settling = False  # while numbers go to the grid, hidden values are not rounded

    def affine(self) -> Iterator[tuple[str, Dense | Conv]]:
        """(key, blank layer) of each layer with numbers; a key is its place in the net, from 1."""
        for place, stage in enumerate(self.stages, 1):
            if not isinstance(stage.layer, Pool):
                yield str(place), stage.layer

    def expanded(self, key: str, numbers: Tensor) -> Tensor:
        """Stored numbers of a layer as they are used, its symmetry expanded."""
        return numbers.reshape(-1)[self.orders[key]] if key in self.orders else numbers

    def weight(self, key: str) -> Tensor:
        """The layer's integers as they are used."""
        numbers: Tensor = self.weights[key].integers()  # type: ignore[operator]
        return self.expanded(key, numbers)

    def stored_bias(self, key: str) -> Tensor:
        """In steps: whole (straight through); while settling, real where not held yet."""
        return self.settled_biases[key].integers() if self.settling else straight(self.biases[key])

    def held(self) -> list[GridWeights]:
        """All numbers that settle on a grid."""
        weights = [layer for layer in self.weights.values() if isinstance(layer, GridWeights)]
        return [*weights, *self.settled_biases.values()]

    def release(self) -> None:
        """From now on numbers are real until they are held on the grid, one by one."""
        self.settling = True
        self.settled_biases = {key: GridWeights.of(bias) for key, bias in self.biases.items()}

    def set_steps(self, key: str, values: Tensor) -> None:
        """Shift and bias step of a layer (powers of two) from its sums on a batch."""
        self.units[key] = max(1.0, float(values.std()))
        self.bias_shifts[key] = max(0, round(math.log2(self.units[key] / _BIAS_STEPS)))
        last = int(key) == len(self.stages)
        self.shifts[key] = 0 if last else max(0, round(math.log2(self.units[key] / _TARGET)))

    def pools_next(self, place: int) -> bool:
        """Whether max pooling follows: then ReLU goes behind it, to fewer values."""
        # pixels may be negative
        layer = self.stages[place].layer if 0 < place < len(self.stages) else None
        return isinstance(layer, Pool) and layer.kind == "max"

    @staticmethod
    def pooled(values: Tensor, layer: Pool) -> Tensor:
        if layer.kind == "max":
            return F.max_pool2d(values, layer.size)
        return F.avg_pool2d(values, layer.size) * float(layer.size**2)

    @staticmethod
    def linear(values: Tensor, stage: Stage, weight: Tensor) -> Tensor:
        """A layer's sums without biases."""
        layer = stage.layer
        if isinstance(layer, Conv):
            groups = layer.groups or stage.before.shape[0]
            return F.conv2d(values, weight, None, layer.stride, layer.padding, groups=groups)
        return F.linear(values.flatten(1), weight.flatten(1))

    def walk(
        self,
        values: Tensor,
        sums: Callable[[str, Stage, Tensor], Tensor],
        passed_on: Callable[[Tensor, str], Tensor],
    ) -> Tensor:
        """Through all layers: sums(key, stage, values) of one, passed_on(sums, key) to the next."""
        for place, stage in enumerate(self.stages, 1):
            key = str(place)
            if place <= self.behind:
                continue
            if isinstance(stage.layer, Pool):
                values = self.pooled(values, stage.layer)
                if self.pools_next(place - 1):
                    values = passed_on(values, str(place - 1))
                continue
            values = sums(key, stage, values)
            if place < len(self.stages) and not self.pools_next(place):
                values = passed_on(values, key)
        return values

    def forward(self, pixels: Tensor, calibrating: bool = False) -> Tensor:
        """pixels: [n, *shape] whole, as a `Sample` has them -> [n, classes] integer scores."""

        def sums(key: str, stage: Stage, values: Tensor) -> Tensor:
            values = self.linear(values, stage, self.weight(key))
            if calibrating:
                self.set_steps(key, values)
            elif key in self.biases:
                bias = self.stored_bias(key) * 2.0 ** self.bias_shifts[key]
                values = values + along_channels(bias, values)
            return values

        return self.walk(pixels, sums, self.passed_on)

    def passed_on(self, values: Tensor, key: str) -> Tensor:
        """ReLU and shift behind a layer."""
        values = torch.relu(values)
        if not self.shifts.get(key, 0):
            return values
        values = values * 2.0 ** -self.shifts[key]
        return values if self.settling else straight(values, 0.0)

    def calibrate(self, pixels: Tensor) -> None:
        """Set shifts and bias steps from a batch, so that hidden values keep their size."""
        with torch.no_grad():
            self.forward(pixels, calibrating=True)

    def unit_logit(self) -> float:
        """What one score is in logits while `log_scale` is zero."""
        return 4.0 / self.units[str(len(self.stages))]

    def logits(self, pixels: Tensor) -> Tensor:
        """Scores in the units of a softmax; the scale is trained and never stored."""
        logits: Tensor = self.forward(pixels) * (torch.exp(self.log_scale) * self.unit_logit())
        return logits

    def rate(self) -> Tensor:
        """A smooth stand-in for the length of all coded numbers, in bits."""
        total = torch.zeros(())
        for key, weights in self.weights.items():
            total = total + weights.rate()  # type: ignore[operator]
            if key in self.biases:
                total = total + torch.log2(1.0 + (2.0 * self.biases[key]) ** 2).sum()
        return total

    def refresh(self) -> None:
        for weights in self.weights.values():
            weights.refresh()  # type: ignore[operator]

    def bits(self) -> float:
        """The rate by today's costs."""
        self.refresh()
        with torch.no_grad():
            return float(self.rate())

    def freeze(self) -> IntegerNet:
        """The integers of the forward pass as a net for the exact evaluator."""
        layers: list[Layer] = [stage.layer for stage in self.stages]
        for key, layer in self.affine():
            bias = self.frozen_bias(key) if key in self.biases else None
            layers[int(key) - 1] = dataclasses.replace(
                layer,
                source=self.weights[key].source(int(key)),  # type: ignore[operator]
                bias=bias,
                bias_shift=0 if bias is None else self.bias_shifts[key],
                shift=self.shifts[key],
            )
        return IntegerNet(self.shape, self.quantiser, tuple(layers))

    def frozen_bias(self, key: str) -> NDArray[np.int64] | None:
        """A layer's biases in steps, or None if all are zero."""
        held = self.settled_biases.get(key)
        stored = straight(self.biases[key]).detach() if held is None else held.rounded()
        return stored.numpy().astype(np.int64) if bool((stored != 0).any()) else None


def along_channels(units: Tensor, values: Tensor) -> Tensor:
    """[outputs] as they are added to [n, channels, ...], one for all positions of a filter."""
    each = units.repeat_interleave(values.shape[1] // len(units))
    return each.reshape(1, -1, *[1] * (values.ndim - 2))
