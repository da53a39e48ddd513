"""Any linear map between feature maps, written out as a matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from cushion.errors import BadInput
from cushion.nets.operators.linear import Matrix


@dataclass(frozen=True, eq=False)
class FlatMap(Matrix):
    """x -> weight · x on feature maps in row-major order; weight: [output_size, input_size].

    What is left of a convolution once its true map has been truncated: it has no kernel any more.
    """

    weight: Tensor
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if tuple(self.weight.shape) != (self.output_size, self.input_size):
            raise BadInput(
                f"a matrix of shape {tuple(self.weight.shape)} does not map {self.input_shape} to "
                f"{self.output_shape}"
            )

    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """[B, *input_shape] -> [B, *output_shape]."""
        y = (x.flatten(1) @ self.weight.T).reshape(-1, *self.output_shape)
        return y if bias is None else y + bias.reshape(-1, *(1 for _ in self.output_shape[1:]))

    def adjoint(self, y: Tensor) -> Tensor:
        """[B, *output_shape] -> [B, *input_shape]."""
        return (y.flatten(1) @ self.weight).reshape(-1, *self.input_shape)

    def column_energies(self) -> Tensor:
        """Σ over outputs of weight²: [*input_shape]."""
        return self.weight.square().sum(0).reshape(self.input_shape)

    def scaled(self, scale: Tensor) -> Self:
        """diag(scale) A, `scale` one number per output channel."""
        each = scale.repeat_interleave(self.output_size // len(scale))
        return replace(self, weight=self.weight * each[:, None])
