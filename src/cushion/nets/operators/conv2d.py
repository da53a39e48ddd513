"""The true map of a two-dimensional convolution: zero padding, stride, dilation and groups."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.errors import BadInput
from cushion.nets.entries import sides, two, whole
from cushion.nets.operators.fourier import circular_upper
from cushion.nets.operators.norms import EXPLICIT, gram_upper
from cushion.nets.operators.operator import Operator
from cushion.nets.operators.path_sums import PathSums, Powered, Sums, before_convolution


class Convolution(Operator):
    """What windows of a padded image read; the weight ends in [C_out, C_in / groups, K_h, K_w]."""

    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups = 1

    def __post_init__(self) -> None:
        channels, high, wide = self.weight.shape[-3] * self.groups, *self.kernel
        said = f"a feature map of shape {self.input_shape}; check the input shape"
        if len(self.input_shape) != 3 or self.input_shape[0] != channels:
            raise BadInput(f"a convolution with {channels} input channels cannot read {said}")
        if min(self.output_shape) < 1:
            raise BadInput(f"a {high}x{wide} kernel does not fit into {said}")

    @property
    def kernel(self) -> tuple[int, int]:
        return self.weight.shape[-2], self.weight.shape[-1]

    @property
    def output_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """(C_out, H_out, W_out), with H_out = ⌊(H + padding - extent) / stride⌋ + 1."""
        sides = zip(self.padded, self.extent, self.stride, strict=True)
        return (self.weight.shape[-4], *((size - reach) // step + 1 for size, reach, step in sides))

    @property
    def padded(self) -> tuple[int, int]:
        above, below, left, right = self.padding
        return self.input_shape[1] + above + below, self.input_shape[2] + left + right

    @property
    def extent(self) -> tuple[int, int]:
        """How far a dilated kernel reaches: dilation · (K - 1) + 1."""
        (down, across), (high, wide) = self.dilation, self.kernel
        return down * (high - 1) + 1, across * (wide - 1) + 1

    def spectral_upper(self) -> float:
        """At least ‖A‖₂: from the matrix of a small map, else as `large_upper` says."""
        if self.input_size * self.output_size <= EXPLICIT:
            return gram_upper(self.to(torch.float64).dense()[None], guess=self.spectral())
        return self.large_upper()

    @abstractmethod
    def large_upper(self) -> float:
        """At least ‖A‖₂, without the matrix of A."""


@dataclass(frozen=True, eq=False)
class Conv2d(Convolution):
    """Convolution of [C_in, H, W] maps; weight: [C_out, C_in / groups, K_h, K_w].

    stride, dilation: (vertical, horizontal). padding: zeros added (above, below, left, right), so
    that the asymmetric padding of padding="same" with even kernels is exact too (`same_padding`
    computes it).
    """

    weight: Tensor
    input_shape: tuple[int, ...]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """[B, C_in, H, W] -> [B, C_out, H_out, W_out]."""
        above, below, left, right = self.padding
        symmetric = (above, left) == (below, right)
        if not symmetric:
            x = F.pad(x, (left, right, above, below))
        inside = (above, left) if symmetric else (0, 0)
        return F.conv2d(x, self.weight, bias, self.stride, inside, self.dilation, self.groups)

    def adjoint(self, y: Tensor) -> Tensor:
        """[B, C_out, H_out, W_out] -> [B, C_in, H, W]: scatter, then drop the padding."""
        above, below, left, right = self.padding
        height, width = self.input_shape[1:]
        if (above, left) == (below, right) and above < self.extent[0] and left < self.extent[1]:
            # The library crops by itself, without a copy of the larger map.
            sides = zip(self.padded, self.extent, self.stride, strict=True)
            unread = [(size - extent) % step for size, extent, step in sides]
            return F.conv_transpose2d(
                y, self.weight, None, self.stride, (above, left), unread, self.groups, self.dilation
            )
        x = F.conv_transpose2d(y, self.weight, None, self.stride, 0, 0, self.groups, self.dilation)
        # A negative pad crops; a positive one restores what the stride never reads.
        return F.pad(x, (-left, width + left - x.shape[3], -above, height + above - x.shape[2]))

    def dense(self) -> Tensor:
        """The matrix of A: output (o, i, j) reads (c, y, x) with weight [o, c, u, v]."""
        out, inside, high, wide = self.weight.shape
        matrix = self.weight.new_zeros((*self.output_shape, *self.input_shape))
        for group in range(self.groups):
            some = slice(group * out // self.groups, (group + 1) * out // self.groups)
            read = slice(group * inside, (group + 1) * inside)
            block = matrix[some, :, :, read].permute(1, 2, 4, 5, 0, 3)
            for u in range(high):
                i, y = self._reads(0, u)
                for v in range(wide):
                    j, x = self._reads(1, v)
                    block[i[:, None], j, y[:, None], x] = self.weight[some, :, u, v]
        return matrix.reshape(self.output_size, self.input_size)

    def column_energies(self) -> Tensor:
        """Σ of weight² over the taps that read a place and their outputs: [C_in, H, W]."""
        ones = self.weight.new_ones((1, *self.output_shape))
        return replace(self, weight=self.weight.square()).adjoint(ones)[0]

    @property
    def multiplications(self) -> int:
        """Each weight once per output position (those that fall on padding included)."""
        return self.parameters * math.prod(self.output_shape[1:])

    def operator_frobenius(self) -> float:
        """√(Σ over taps of |weight|² · the output positions where the tap reads the image)."""
        squares = self.weight.to(torch.float64).square().sum((0, 1)).cpu()  # [K_h, K_w]
        rows, columns = (
            squares.new_tensor([len(self._reads(axis, tap)[0]) for tap in range(taps)])
            for axis, taps in enumerate(self.kernel)
        )
        return math.sqrt(float(rows @ squares @ columns))

    def _reads(self, axis: int, tap: int) -> tuple[Tensor, Tensor]:
        """The outputs along one axis at which a tap reads the image, and where it reads."""
        outputs = torch.arange(self.output_shape[1 + axis])
        places = outputs * self.stride[axis] + tap * self.dilation[axis] - self.padding[2 * axis]
        inside = (places >= 0) & (places < self.input_shape[1 + axis])
        return outputs[inside], places[inside]

    def large_upper(self) -> float:
        """At least ‖A‖₂, and close to it unless the map is not much larger than the kernel."""
        outputs = self.output_shape[1:]
        taken = self.stride, self.dilation, self.groups
        return circular_upper(self.weight, outputs, *taken, guess=self.spectral())

    @classmethod
    def rebuild(cls, entry: dict[str, Any], weight: Tensor) -> Conv2d:
        """Groups must be of equal size; whether the kernel fits is checked when it is made."""
        out, _, _, _ = weight.shape
        a, b, c, d = (whole(value) for value in entry["padding"])
        groups = whole(entry["groups"], 1)
        if out % groups:
            raise ValueError("groups of equal size")
        stride, dilation = two(entry["stride"], 1), two(entry["dilation"], 1)
        return cls(weight, sides(entry["input_shape"]), stride, (a, b, c, d), dilation, groups)

    def _sums_before(self, sums: Sums, powered: Powered) -> list[PathSums | None]:
        return before_convolution(self, sums, powered)


def same_padding(kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int, int, int]:
    """The zeros of padding="same" (above, below, left, right); the odd one is below and right."""
    total = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
    return total[0] // 2, total[0] - total[0] // 2, total[1] // 2, total[1] - total[1] // 2
