"""Any module's scores at other weights: what sharpness needs of a net that only hooks see.

Every parameter of floating point moves, in the copy with batch-norms folded: weights, biases, and
the factors of normalisations that could not be folded. Each mini-batch has one ν for all of its
rows, as the definition says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from cushion.measures.sharpness.rule import NoiseRule
from cushion.nets.batches import Batch
from cushion.nets.hooked.net import HookedNet
from cushion.nets.hooked.probe import shown
from cushion.nets.hooked.reads import Reads
from cushion.nets.normalise import Normalised


def module_parameters(net: HookedNet) -> Iterator[tuple[str, Tensor]]:
    """Name and value of every parameter that moves; tied ones once."""
    return (
        (name, p.detach()) for name, p in net.module.named_parameters() if p.is_floating_point()
    )


@dataclass(frozen=True, eq=False)
class MovedNet:
    """The net with other numbers in the place of its parameters; `values` may carry gradients."""

    net: HookedNet
    values: dict[str, Tensor]

    @classmethod
    def of(cls, net: HookedNet, changed: Callable[[Tensor], Tensor]) -> MovedNet:
        """With what `changed` makes of each parameter, in their order."""
        return cls(net, {name: changed(value) for name, value in module_parameters(net)})

    @property
    def dtype(self) -> torch.dtype:
        return self.net.dtype

    @property
    def device(self) -> torch.device:
        return self.net.device

    def evaluate(self, x: Batch) -> Tensor:
        """The scores, with gradients where the caller has switched them on."""
        return functional_call(self.net.module, self.values, (x,))  # type: ignore[no-any-return]

    @torch.no_grad()
    def forward(self, x: Batch) -> Tensor:
        return self.evaluate(x)


@torch.no_grad()
def unmoved(net: HookedNet, x: Batch) -> tuple[str, ...]:
    """Numbers on which the scores of x depend and which noise in the parameters does not move:
    buffers, and tensors that the module does not know of. Each may hold as much of the sample as
    weights can, so a certificate by noise must not ignore it.

    What a formula gives (zeros, ones, 0 to n - 1, a triangle of ones) is part of the architecture,
    and so are the constants of `normalise` and Python numbers in the code.
    """
    moved = MovedNet.of(net, Tensor.clone)
    inputs = list(x.values()) if isinstance(x, dict) else [x]
    reads = Reads([*inputs, *moved.values.values()])
    with reads:
        moved.evaluate(x)
    stated = {id(b) for m in net.module.modules() if isinstance(m, Normalised) for b in m.buffers()}
    numbers = (*net.module.named_buffers(), *net.module.named_parameters())
    names = {id(value): shown(name) for name, value in numbers}
    return tuple(
        dict.fromkeys(
            names.get(id(one), f"a tensor of shape {tuple(one.shape)}")
            for one in reads.foreign
            if id(one) not in stated and not _is_formula(one)
        )
    )


def _is_formula(value: Tensor) -> bool:
    if value.numel() == 0 or bool(
        ((value == 0) | (value == 1)).all() & (value == value.max()).all()
    ):
        return True
    if value.ndim == 0:
        return False
    last = torch.arange(value.shape[-1], device=value.device).to(value.dtype)
    triangle = torch.ones_like(value).tril() if value.ndim > 1 else last
    return bool((value == last).all()) or bool((value == triangle).all())


class DrawnPass:
    """One draw of the noise for each of `draws` mini-batches of x, as `perturbed.NoisyPass`.

    The normal numbers are drawn again from a seed for every α instead of being kept: a large net's
    would fill the memory.
    """

    def __init__(
        self, net: HookedNet, rule: NoiseRule, x: Batch, draws: int, generator: torch.Generator
    ) -> None:
        self._net, self._rule, self._draws = net, rule, draws
        self._parts = _parts(x, draws)
        high = 2**62
        self._seeds = torch.randint(high, (draws,), generator=generator).tolist()

    @torch.no_grad()
    def scores(self, alpha: float) -> Tensor:
        """The perturbed net's logits, [draws·b, classes]."""
        outputs = []
        for seed, rows in zip(self._seeds, self._parts, strict=True):
            generator = torch.Generator().manual_seed(seed)

            def moved(value: Tensor, generator: torch.Generator = generator) -> Tensor:
                wide = torch.float32 if value.dtype.itemsize < 4 else value.dtype
                normal = torch.randn(value.shape, generator=generator, dtype=wide).to(value)
                std = self._rule.unit_std(value.clone())
                return torch.addcmul(value, std, normal, value=alpha)

            outputs.append(MovedNet.of(self._net, moved).forward(rows))
        return torch.cat(outputs)


def _parts(x: Batch, draws: int) -> list[Batch]:
    if isinstance(x, dict):
        split = {name: torch.tensor_split(part, draws) for name, part in x.items()}
        return [{name: parts[at] for name, parts in split.items()} for at in range(draws)]
    return list(torch.tensor_split(x, draws))
