"""What every linear map between feature maps can do."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from cushion.errors import BadInput
from cushion.nets.operators.norms import lanczos_norm
from cushion.nets.operators.path_sums import Floats, PathSums, Powered, Powers, Sums, as_map


class Operator(ABC):
    """A linear map A from [*input_shape] to [*output_shape], given by its weight.

    `frobenius` is a norm of the weight (for a convolution: of its kernel, as Arora 2018 uses it);
    all other norms are those of the true map, with stride, padding, dilation and groups. Immutable:
    nothing here writes to the weight, and the weight carries no gradient.
    """

    weight: Tensor
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]

    @abstractmethod
    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """[B, *input_shape] -> [B, *output_shape]: A x, plus `bias`, one number a channel."""

    @abstractmethod
    def adjoint(self, y: Tensor) -> Tensor:
        """[B, *output_shape] -> [B, *input_shape]: Aᵀ y, so that ⟨A x, y⟩ = ⟨x, Aᵀ y⟩."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The matrix of A, [output_size, input_size], row-major: for small maps."""

    @abstractmethod
    def column_energies(self) -> Tensor:
        """The squared length of each column of A, [*input_shape]; their sum is ‖A‖_F²."""

    @property
    def channels(self) -> int:
        """Of the output: how many numbers a bias has."""
        return self.output_shape[0]

    def per_channel(self, values: Tensor) -> Tensor:
        """One number per output channel, [C], shaped to meet a batch of outputs."""
        return values.reshape(-1, *(1 for _ in self.output_shape[1:]))

    def channel_sums(self, sums: PathSums) -> Floats:
        """Σ over positions of sums of the output, one for each number of a bias: [channels]."""
        return sums.per_channel()

    @property
    def multiplications(self) -> int:
        """Products that one application takes (those that meet padding included)."""
        return self.parameters

    def operator_frobenius(self) -> float:
        """‖A‖_F of the true map, in closed form (float64)."""
        return math.sqrt(float(self.to(torch.float64).column_energies().sum()))

    def spectral(self) -> float:
        """‖A‖₂ to a relative 1e-6, from below (`norms.lanczos_norm`); computed once."""
        return self._lanczos_norm

    @cached_property
    def _lanczos_norm(self) -> float:
        return lanczos_norm(self)

    @abstractmethod
    def spectral_upper(self) -> float:
        """A number that is at least ‖A‖₂, rounding included."""

    def scaled(self, scale: Tensor) -> Self:
        """diag(scale) A, where `scale` has one number per output channel."""
        return self.with_weight(self.weight * scale.reshape(-1, *[1] * (self.weight.ndim - 1)))

    def with_weight(self, weight: Tensor) -> Self:
        """The map of the same kind and shape that another weight makes."""
        return dataclasses.replace(self, weight=weight)  # type: ignore[type-var]

    def minus(self, other: Operator) -> Self:
        """The map x -> A x - B x in float64, for a map B that differs from A in its weight only."""
        mine, yours = ((type(one), one.weight.shape, one.setting) for one in (self, other))
        if mine != yours:
            said = "the two layers differ in more than their weights"
            raise BadInput(f"{said}; compare a layer with its own start")
        first, second = (one.weight.detach().to(torch.float64) for one in (self, other))
        return self.with_weight(first - second)

    @property
    def setting(self) -> dict[str, Any]:
        """All that defines the map besides its weight."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in fields if field.name != "weight"}

    @classmethod
    def rebuild(cls, entry: dict[str, Any], weight: Tensor) -> Operator:
        """The map with this weight and the `setting` in a stored description, which is checked."""
        raise NotImplementedError(f"a {cls.__name__} is stored by its compressor")

    def sums_before(self, sums: Sums, powers: Powers) -> list[PathSums | None]:
        """(|A|^p)ᵀ s for each p: sums over paths of the input from the output's; None stays."""
        powered = powers.of(self.weight)
        before = self._sums_before(sums, powered)
        for one, found, lacks in zip(sums, before, powered.lacking, strict=True):
            if one is not None and found is not None:
                found.exponent = one.exponent + lacks
        return before

    def _sums_before(self, sums: Sums, powered: Powered) -> list[PathSums | None]:
        """All but the exponent; here by the adjoint, for what a layer was compressed to."""
        before: list[PathSums | None] = []
        for one, power in zip(sums, powered.each(), strict=True):
            if one is None:
                before.append(None)
                continue
            positive = self.with_weight(torch.from_numpy(power.copy()))
            outputs = torch.from_numpy(one.expanded().reshape(1, *self.output_shape))
            whole = positive.adjoint(outputs)[0].cpu().numpy()
            values = whole.reshape(as_map(self.input_shape))
            rows, columns = (tuple(range(side)) for side in values.shape[1:])
            before.append(PathSums(values, rows, columns))
        return before

    def to(self, dtype: torch.dtype) -> Self:
        """The same map with a weight of its own in `dtype`: detached, contiguous, unshared."""
        layout = torch.contiguous_format
        return self.with_weight(self.weight.detach().to(dtype, copy=True, memory_format=layout))

    def multiplying(self, dtype: torch.dtype) -> Operator:
        """The same map for products with vectors of `dtype`; it may share the weight."""
        return self.with_weight(self.weight.detach().to(dtype))

    def largest(self) -> float:
        """The largest |weight|; nothing is copied."""
        low, high = torch.aminmax(self.weight.detach())
        return float(max(-low, high))

    @property
    def input_size(self) -> int:
        return math.prod(self.input_shape)

    @property
    def output_size(self) -> int:
        return math.prod(self.output_shape)

    @property
    def parameters(self) -> int:
        return self.weight.numel()

    def frobenius(self) -> float:
        """Frobenius norm of the weight itself (float64)."""
        return float(torch.linalg.vector_norm(self.weight, dtype=torch.float64))
