"""What every linear map between feature maps can do."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from cushion.errors import BadInput
from cushion.nets.operators.norms import lanczos_norm


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
        """[B, *input_shape] -> [B, *output_shape]: A x, plus `bias` (one number a channel) when it
        is given.
        """

    @abstractmethod
    def adjoint(self, y: Tensor) -> Tensor:
        """[B, *output_shape] -> [B, *input_shape]: Aᵀ y, so that ⟨A x, y⟩ = ⟨x, Aᵀ y⟩."""

    @abstractmethod
    def dense(self) -> Tensor:
        """The matrix of A, [output_size, input_size], in row-major order of the shapes: for small
        maps.
        """

    @abstractmethod
    def column_energies(self) -> Tensor:
        """The squared length of each column of A, [*input_shape]: what a unit input contributes to
        ‖A‖_F².
        """

    @property
    @abstractmethod
    def multiplications(self) -> int:
        """Products that one application takes."""

    @abstractmethod
    def operator_frobenius(self) -> float:
        """‖A‖_F of the true map, in closed form (float64)."""

    def spectral(self) -> float:
        """‖A‖₂ of the true map to a relative 1e-6, from below (`norms.lanczos_norm`); computed
        once.
        """
        return self._lanczos_norm

    @cached_property
    def _lanczos_norm(self) -> float:
        return lanczos_norm(self)

    @abstractmethod
    def spectral_upper(self) -> float:
        """A number that is at least ‖A‖₂, rounding included."""

    @abstractmethod
    def scaled(self, scale: Tensor) -> Self:
        """diag(scale) A, where `scale` has one number per output channel."""

    def with_weight(self, weight: Tensor) -> Self:
        """The map of the same kind and shape that another weight makes."""
        return dataclasses.replace(self, weight=weight)  # type: ignore[type-var]

    def minus(self, other: Operator) -> Self:
        """The map x -> A x - B x in float64, for a map B that differs from A in its weight only."""
        if (
            type(self) is not type(other)
            or self.weight.shape != other.weight.shape
            or self._setting != other._setting
        ):
            raise BadInput(
                "the two layers differ in more than their weights; compare a layer with its own "
                "start"
            )
        return self.with_weight(
            self.weight.detach().to(torch.float64) - other.weight.detach().to(torch.float64)
        )

    @property
    def _setting(self) -> list[object]:
        """All that defines the map besides its weight."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return [getattr(self, field.name) for field in fields if field.name != "weight"]

    def to(self, dtype: torch.dtype) -> Self:
        """The same map with a weight of its own in `dtype`: detached, contiguous, shared with
        nothing.
        """
        return self.with_weight(
            self.weight.detach().to(dtype, copy=True, memory_format=torch.contiguous_format)
        )

    @property
    def input_size(self) -> int:
        """Numbers in one input."""
        return math.prod(self.input_shape)

    @property
    def output_size(self) -> int:
        """Numbers in one output."""
        return math.prod(self.output_shape)

    @property
    def parameters(self) -> int:
        """Numbers in the weight."""
        return self.weight.numel()

    def frobenius(self) -> float:
        """Frobenius norm of the weight itself (float64)."""
        return float(torch.linalg.vector_norm(self.weight, dtype=torch.float64))

    def stable_rank(self) -> float:
        """‖A‖_F² / ‖A‖₂² of the true map, between 1 and its rank; 0 for the zero map."""
        spectral = self.spectral()
        return (self.operator_frobenius() / spectral) ** 2 if spectral > 0 else 0.0
