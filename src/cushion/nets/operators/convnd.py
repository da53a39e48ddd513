"""The true map of any zero-padded convolution: in any number of dimensions, plain or transposed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.errors import BadInput
from cushion.nets.entries import flag, sides, whole
from cushion.nets.operators.conv2d import Conv2d
from cushion.nets.operators.fourier import circular_upper
from cushion.nets.operators.norms import EXPLICIT, gram_upper
from cushion.nets.operators.operator import Operator

_PLAIN: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Callable[..., Tensor]] = {
    1: F.conv_transpose1d,
    2: F.conv_transpose2d,
    3: F.conv_transpose3d,
}


@dataclass(frozen=True, eq=False)
class ConvNd(Operator):
    """Convolution of [C_in, *places] maps with one to three axes of places.

    weight: as torch has it, [C_out, C_in / groups, *kernel], and [C_in, C_out / groups, *kernel] of
    a transposed one. stride, dilation: one number an axis. padding: zeros (before, after) for each
    axis in turn, a negative number crops.

    A transposed convolution is the adjoint of the plain one with the same weight, which reads the
    larger map; stride, padding and dilation are those of that one. torch's `output_padding` takes
    from the padding behind: (p, p - output_padding).
    """

    weight: Tensor
    input_shape: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    transposed: bool = False

    def __post_init__(self) -> None:
        kernel = self.weight.shape[2:]
        per_group = self.weight.shape[0 if self.transposed else 1]
        channels = per_group * (1 if self.transposed else self.groups)
        said = f"a feature map of shape {self.input_shape}; check the input shape"
        if len(self.input_shape) != 1 + len(kernel) or self.input_shape[0] != channels:
            raise BadInput(f"a convolution with {channels} input channels cannot read {said}")
        if min(self.output_shape) < 1:
            raise BadInput(f"a {'x'.join(map(str, kernel))} kernel does not fit into {said}")

    @property
    def axes(self) -> int:
        return self.weight.ndim - 2

    @property
    def output_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Along an axis ⌊(L + padding - extent) / stride⌋ + 1; of a transposed map its inverse."""
        added = [sum(self.padding[2 * axis : 2 * axis + 2]) for axis in range(self.axes)]
        taken = zip(self.input_shape[1:], added, self.extent, self.stride, strict=True)
        if self.transposed:
            channels = self.weight.shape[1] * self.groups
            return channels, *((n - 1) * step + reach - zeros for n, zeros, reach, step in taken)
        places = ((n + zeros - reach) // step + 1 for n, zeros, reach, step in taken)
        return self.weight.shape[0], *places

    @property
    def extent(self) -> tuple[int, ...]:
        """How far a dilated kernel reaches: dilation · (K - 1) + 1."""
        taps = zip(self.weight.shape[2:], self.dilation, strict=True)
        return tuple(gap * (size - 1) + 1 for size, gap in taps)

    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """[B, *input_shape] -> [B, *output_shape]."""
        y = self._scatter(x, self.output_shape) if self.transposed else self._gather(x)
        return y if bias is None else y + self.per_channel(bias)

    def adjoint(self, y: Tensor) -> Tensor:
        """[B, *output_shape] -> [B, *input_shape]."""
        return self._gather(y) if self.transposed else self._scatter(y, self.input_shape)

    def _gather(self, x: Tensor) -> Tensor:
        """The plain convolution: the larger map, padded, is read by windows."""
        before, after = self.padding[::2], self.padding[1::2]
        inside: Sequence[int] = before
        if before != after or min(before) < 0:
            x, inside = F.pad(x, self._pads(before, after)), (0,) * self.axes
        convolve = _PLAIN[self.axes]
        return convolve(x, self.weight, None, self.stride, inside, self.dilation, self.groups)

    def _scatter(self, y: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The adjoint of `_gather` on maps of this shape: scatter, then drop the padding."""
        spread = _TRANSPOSED[self.axes]
        x = spread(y, self.weight, None, self.stride, 0, 0, self.groups, self.dilation)
        before = self.padding[::2]
        # A negative pad crops; a positive one restores what the stride never reads.
        taken = zip(shape[1:], x.shape[2:], before, strict=True)
        after = [wanted + zeros - have for wanted, have, zeros in taken]
        return F.pad(x, self._pads([-zeros for zeros in before], after))

    @staticmethod
    def _pads(before: Sequence[int], after: Sequence[int]) -> list[int]:
        """torch counts axes from the last."""
        sides = zip(reversed(before), reversed(after), strict=True)
        return [zeros for side in sides for zeros in side]

    def dense(self) -> Tensor:
        """The matrix of A, a column for each number of the input."""
        ones = torch.eye(self.input_size, dtype=self.weight.dtype, device=self.weight.device)
        return self.apply(ones.reshape(-1, *self.input_shape)).flatten(1).T.contiguous()

    def column_energies(self) -> Tensor:
        """Σ of weight² over the taps that meet a place: no tap reads a place twice."""
        ones = self.weight.new_ones((1, *self.output_shape))
        return self.with_weight(self.weight.square()).adjoint(ones)[0]

    @property
    def multiplications(self) -> int:
        """Each weight once per position of the smaller map (those on padding included)."""
        smaller = self.input_shape if self.transposed else self.output_shape
        return self.parameters * math.prod(smaller[1:])

    def spectral_upper(self) -> float:
        """At least ‖A‖₂: from the matrix of a small map, else from a circular one.

        A transposed map has the norm of the plain one, whose outputs are this one's inputs.
        """
        if self.input_size * self.output_size <= EXPLICIT:
            return gram_upper(self.to(torch.float64).dense()[None], guess=self.spectral())
        outputs = (self.input_shape if self.transposed else self.output_shape)[1:]
        taken = self.stride, self.dilation, self.groups
        return circular_upper(self.weight, outputs, *taken, guess=self.spectral())

    def scaled(self, scale: Tensor) -> Self:
        if not self.transposed:
            return super().scaled(scale)
        grouped = self.weight.reshape(self.groups, -1, *self.weight.shape[1:])
        factors = scale.reshape(self.groups, 1, -1, *(1 for _ in range(self.axes)))
        return self.with_weight((grouped * factors).reshape(self.weight.shape))

    @classmethod
    def rebuild(cls, entry: dict[str, Any], weight: Tensor) -> ConvNd:
        """Groups must be of equal size; whether the kernel fits is checked when it is made."""
        groups, axes = whole(entry["groups"], 1), weight.ndim - 2
        stride, dilation = sides(entry["stride"]), sides(entry["dilation"])
        padding = tuple(-whole(-z) if z < 0 else whole(z) for z in entry["padding"])
        if weight.shape[0] % groups or axes not in _PLAIN:
            raise ValueError("groups of equal size")
        if (len(stride), len(dilation), len(padding)) != (axes, axes, 2 * axes):
            raise ValueError("one number an axis")
        shape, transposed = sides(entry["input_shape"]), flag(entry["transposed"])
        return cls(weight, shape, stride, padding, dilation, groups, transposed)


def convolution(
    weight: Tensor,
    input_shape: tuple[int, ...],
    *,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    transposed: bool = False,
    output_padding: int | Sequence[int] = 0,
) -> Conv2d | ConvNd:
    """The map of a zero-padded convolution, from torch's own options; a plain one over images is a
    `Conv2d`, which has the faster formulas.
    """
    axes = weight.ndim - 2
    steps, gaps = per_axis(stride, axes), per_axis(dilation, axes)
    if padding == "same":
        totals = [gap * (size - 1) for size, gap in zip(weight.shape[2:], gaps, strict=True)]
        zeros = [side for total in totals for side in (total // 2, total - total // 2)]
    else:
        before = per_axis(0 if isinstance(padding, str) else padding, axes)
        extra = per_axis(output_padding, axes)
        pairs = zip(before, extra, strict=True)
        zeros = [side for zero, more in pairs for side in (zero, zero - more)]
    if axes == 2 and not transposed:
        above, below, left, right = zeros
        sides = (above, below, left, right)
        return Conv2d(weight, input_shape, (steps[0], steps[1]), sides, (gaps[0], gaps[1]), groups)
    return ConvNd(weight, input_shape, steps, tuple(zeros), gaps, groups, transposed)


def per_axis(value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """torch's one-number-or-one-an-axis options, one an axis; BadInput for another count."""
    numbers = (value,) if isinstance(value, int) else tuple(int(one) for one in value)
    if len(numbers) not in (1, axes):
        raise BadInput(f"the option {numbers} does not describe {axes} dimensions")
    return numbers if len(numbers) == axes else numbers * axes
