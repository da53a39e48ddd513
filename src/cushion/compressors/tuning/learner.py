"""A net under training on the grids on which it is stored, the price of its code in the loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cushion.compressors.storage.matrix import Matrix
from cushion.compressors.storage.stored import Kept, Numbers, StoredLayer
from cushion.compressors.storage.stored_net import StoredNet
from cushion.compressors.tuning.grids import rounded
from cushion.compressors.tuning.prices import natural_weight, prices, rate
from cushion.compressors.tuning.views import Augment, moved
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets.batches import as_floats, mix_seed
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine
from cushion.nets.operators import Diagonal
from cushion.nets.units import as_kernel, used_units, with_units
from cushion.training.epochs import EVALUATION_BATCH, batch_bounds, batches, count_errors

_DEAD = 0.1  # of a step: a weight is dropped up to ½ and this
_BIAS_FINER = 1  # bits by which a bias is finer than its layer's weights
_BIAS_MOST = 2**15
_BIAS_PRICE = torch.tensor(3.0)  # bits of one that is not zero
_FACTOR_BITS = 16  # of a batch-norm that no layer took in
_PRICED_EVERY = 20  # steps
_COARSER = 2.0  # steps: of a weight that is not zero, on average, from which on a grid is coarser
_BETAS = (0.9, 0.99)
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Regime:
    """How a net is trained on its grid.

    most: steps of a weight. lr: of Adam, in steps of a layer's grid, so that no scale of the
    weights matters. distil: the part of the loss that asks for the scores of the net as it was,
    instead of the labels. augment: which views of an image are shown.
    """

    most: int = 7
    lr: float = 0.05
    batch: int = 128
    distil: float = 0.5
    seed: int = 0
    augment: Augment = "none"


@dataclass(frozen=True)
class Pace:
    """Of one epoch, from its start to its end: the learning rate's factor, and the strength of the
    price (1: a bit costs what it does in a message that holds the labels as well).
    """

    rate: tuple[float, float]
    strength: tuple[float, float]

    def at(self, part: float) -> tuple[float, float]:
        factor = self.rate[0] + part * (self.rate[1] - self.rate[0])
        return factor, self.strength[0] ** (1 - part) * self.strength[1] ** part


@dataclass(frozen=True, eq=False)
class State:
    """Every number on which the next epoch depends: the float weights, the exponent of each layer's
    grid by its node, and Adam's two moments in the places of the weights (none before the first
    step).
    """

    net: Network
    exponents: Mapping[int, int]
    moments: Mapping[str, Network] = field(default_factory=dict)
    steps: int = 0

    @classmethod
    def start(cls, net: Network) -> State:
        """Of a net as it comes, most of its weights a few steps at most."""
        on_grid = (n for n in net.affine_layers if not isinstance(n.affine.operator, Diagonal))
        return cls(net, {n.index: _start_exponent(n.affine.operator.weight) for n in on_grid})


class Learner:
    """The net's float weights, and what they become when they are rounded.

    Every layer's grid is a power of two, about the size of its weights as they come. As the price
    leaves fewer and larger ones it gets coarser. Units that nothing makes or nothing reads are left
    out, so training gets faster. A batch-norm that no layer took in stays as it is.
    """

    def __init__(
        self, net: Network, sample: Dataset, regime: Regime, state: State | None = None
    ) -> None:
        self.teacher, self.sample, self.regime = net.to(torch.float32), sample, regime
        self.take(state or State.start(self.teacher))

    def take(self, state: State) -> None:
        """Train these weights from now on."""
        changes, groups = {}, []
        self.exponents = dict(state.exponents)
        for node in state.net.affine_layers:
            affine = _copied(node.affine)
            changes[node.index] = affine
            parts = [part.requires_grad_() for part in _tensors(affine)]
            groups.append({"params": parts, "scale": 2.0 ** self.exponents.get(node.index, -4)})
        self.net, self.steps = state.net.with_affine(changes), state.steps
        self.optimiser = torch.optim.Adam(groups, betas=_BETAS, fused=True)
        for name, other in state.moments.items():
            for node in other.affine_layers:
                own = _tensors(self.net.nodes[node.index].affine)
                for tensor, part in zip(own, _tensors(node.affine), strict=True):
                    self.optimiser.state[tensor][name] = part.clone()
                    self.optimiser.state[tensor]["step"] = torch.tensor(float(self.steps))
        self.priced: dict[int, Tensor] = {}
        self._reprice()

    @torch.no_grad()
    def state(self) -> State:
        """A copy of where it is."""
        changes = {node.index: _copied(node.affine) for node in self.net.affine_layers}
        moments = {}
        if self.steps:
            moments = {name: self._remembered(name) for name in _MOMENTS}
        return State(self.net.with_affine(changes), dict(self.exponents), moments, self.steps)

    def _remembered(self, name: str) -> Network:
        """What the optimiser remembers of each weight, in the places of the weights."""
        changes = {}
        for node in self.net.affine_layers:
            affine = node.affine
            weight = self.optimiser.state[affine.operator.weight][name].clone()
            bias = affine.bias
            bias = None if bias is None else self.optimiser.state[bias][name].clone()
            operator = affine.operator.with_weight(weight)
            changes[node.index] = replace(affine, operator=operator, bias=bias)
        return self.net.with_affine(changes)

    def integers(self, node: Node) -> Tensor:
        """The layer's weight in steps of its grid, rounded, [*shape]; gradients pass through."""
        return rounded(self._scaled(node), self.regime.most, _DEAD)

    def _scaled(self, node: Node) -> Tensor:
        return node.affine.operator.weight / math.ldexp(1.0, self.exponents[node.index])

    def rounded_layer(self, node: Node) -> Affine:
        """The layer as it would be stored."""
        affine = node.affine
        if node.index not in self.exponents:
            return affine
        exponent = self.exponents[node.index]
        weight = self.integers(node) * math.ldexp(1.0, exponent)
        bias = affine.bias
        if bias is not None:
            fine = math.ldexp(1.0, exponent - _BIAS_FINER)
            bias = rounded(bias / fine, _BIAS_MOST, _DEAD) * fine
        return replace(affine, operator=affine.operator.with_weight(weight), bias=bias)

    def rounded_net(self) -> Network:
        return self.net.with_affine(
            {n.index: self.rounded_layer(n) for n in self.net.affine_layers}
        )

    def bits(self) -> Tensor:
        """About what the code takes, differentiable."""
        total = torch.zeros(())
        for node in self.net.affine_layers:
            if node.index in self.exponents:
                total = total + rate(self._scaled(node), self.priced[node.index])
                if node.affine.bias is not None:
                    fine = math.ldexp(1.0, self.exponents[node.index] - _BIAS_FINER)
                    total = total + rate(node.affine.bias / fine, _BIAS_PRICE)
        return total

    @torch.no_grad()
    def _reprice(self) -> None:
        for node in self.net.affine_layers:
            if node.index in self.exponents:
                integers = self.integers(node)
                found = prices(integers.reshape(as_kernel(self.net, node)))
                self.priced[node.index] = found.reshape(integers.shape)

    def epoch(self, number: int, pace: Pace) -> float:
        """One pass over the sample; the mean loss of the scores. Its order, and so all it does,
        follows from the seed, the epoch's number and the state at its start.
        """
        m, regime = len(self.sample), self.regime
        steps, total = len(batch_bounds(m, regime.batch)), 0.0
        natural = natural_weight(m)
        crop = regime.augment == "crop-flip"
        fed = batches(self.sample, regime.batch, regime.seed, number, augment=crop)
        generator = torch.Generator().manual_seed(mix_seed(regime.seed, number, "views"))
        self._reprice()
        for at, (x, y) in enumerate(fed):
            if at % _PRICED_EVERY == _PRICED_EVERY - 1:
                self._reprice()
            factor, strength = pace.at(at / steps)
            for group in self.optimiser.param_groups:
                group["lr"] = factor * regime.lr * group["scale"]
            seen = moved(x, generator) if regime.augment == "moved" else x
            loss = self._loss(seen, y)
            self.optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss + strength * natural * self.bits())
            for group in self.optimiser.param_groups:
                for part in group["params"]:
                    if part.grad is None:  # no path leads from this layer to the scores
                        part.grad = torch.zeros_like(part)
            self.optimiser.step()
            self.steps += 1
            total += float(loss.detach()) * len(y)
        if not math.isfinite(total):
            raise BadInput(f"training on the grid diverged in epoch {number + 1}; lower `lr`")
        return total / m

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Cross-entropy with the labels and with what the net as it was says of the same view."""
        layers = {node.index: self.rounded_layer(node) for node in self.net.affine_layers}
        scores = self.net.evaluate(x, lambda node, *values: layers[node.index](*values))
        loss = F.cross_entropy(scores, y)
        if not self.regime.distil:
            return loss
        with torch.no_grad():
            said = self.teacher.evaluate(x).softmax(1)
        return (1 - self.regime.distil) * loss + self.regime.distil * F.cross_entropy(scores, said)

    @torch.no_grad()
    def coarsen(self) -> None:
        """Grids that are too fine for what is left of their weights become coarser."""
        for node in self.net.affine_layers:
            if node.index in self.exponents:
                sizes = self.integers(node).abs()
                if float(sizes.sum()) > _COARSER * float((sizes > 0).sum()):
                    self.exponents[node.index] += 1

    @torch.no_grad()
    def narrow(self) -> None:
        """Leave out the units that no weight makes or reads, now that they are rounded."""
        kept = _alive(self.rounded_net())
        now = self.state()
        moments = {name: with_units(one, kept) for name, one in now.moments.items()}
        net = with_units(now.net, kept)
        self.take(replace(now, net=net, moments=moments))

    @torch.no_grad()
    def stored(self) -> tuple[Network, StoredNet]:
        """The net as it is now, units with many weights first, and what is stored of it."""
        kept, now = {}, self.rounded_net()
        for index, units in _alive(now).items():
            filled = (now.nodes[index].affine.operator.weight != 0).flatten(1).sum(1)[units]
            kept[index] = units[torch.argsort(filled, descending=True, stable=True)]
        return store(with_units(now, kept), self.exponents, self.regime.seed)


def store(
    net: Network, exponents: Mapping[int, int], seed: int, finer: int = _BIAS_FINER
) -> tuple[Network, StoredNet]:
    """A net whose weights lie on grids, the exponent of each by its node, its bias on one that is
    `finer` by so many bits; others are kept as they are, in 16 bits.
    """
    layers: list[StoredLayer] = []
    biases: list[Numbers | None] = []
    for node in net.affine_layers:
        affine, exponent = node.affine, exponents.get(node.index)
        weight = affine.operator.weight.double().numpy()
        bias = None if affine.bias is None else affine.bias.double().numpy()
        if exponent is None:
            layers.append(Kept(Numbers.fitted(weight, _FACTOR_BITS)))
            biases.append(None if bias is None else Numbers.fitted(bias, _FACTOR_BITS))
        else:
            layers.append(Matrix.of(Numbers.rounded(weight, exponent), as_kernel(net, node)))
            fine = exponent - finer
            biases.append(None if bias is None else Numbers.rounded(bias, fine))
    return net, StoredNet(seed, tuple(layers), tuple(biases))


@torch.no_grad()
def count(net: Network, data: Dataset) -> int:
    """Errors on the data; a tie is an error."""
    found = 0
    for start in range(0, len(data), EVALUATION_BATCH):
        rows = slice(start, start + EVALUATION_BATCH)
        scores = net.forward(as_floats(data.x[rows]).to(net.dtype))
        found += int(count_errors(scores, torch.from_numpy(np.array(data.y[rows]))))
    return found


def _alive(net: Network) -> dict[int, Tensor]:
    """The units that are used, or one where none is: a layer is never empty."""
    return {at: units if len(units) else torch.tensor([0]) for at, units in used_units(net).items()}


def _copied(affine: Affine) -> Affine:
    """The same numbers in tensors of their own, float32."""
    weight = affine.operator.weight.detach().to(torch.float32, copy=True)
    bias = None if affine.bias is None else affine.bias.detach().to(torch.float32, copy=True)
    return replace(affine, operator=affine.operator.with_weight(weight), bias=bias)


def _tensors(affine: Affine) -> list[Tensor]:
    return [part for part in (affine.operator.weight, affine.bias) if part is not None]


def _start_exponent(weight: Tensor) -> int:
    """About the size of a weight: most of them are then a few steps at most."""
    size = float(weight.double().square().mean().sqrt())
    return round(math.log2(size)) if size > 0 else 0
