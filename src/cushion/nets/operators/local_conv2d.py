"""A convolution that has a filter of its own at every place of its output."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.errors import BadInput
from cushion.nets.operators.conv2d import Conv2d, Convolution
from cushion.nets.operators.norms import gram_upper

_CHUNK = 1 << 22  # numbers of patches, or of filters, held at a time


@dataclass(frozen=True, eq=False)
class LocalConv2d(Convolution):
    """Â *_s X of Arora 2018, section C: output place l is its own filter times its patch.

    weight: [places, C_out, C_in, K_h, K_w], the places (H_out·W_out of them) in row-major order.
    stride, padding and dilation as in `Conv2d`, whose map this is when all filters are equal.
    `frobenius` is that of all filters together.
    """

    weight: Tensor
    input_shape: tuple[int, ...]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        if self.weight.ndim != 5:
            said = "filters [places, out, in, height, width] cannot have the shape"
            raise BadInput(f"{said} {tuple(self.weight.shape)}")
        super().__post_init__()
        places, given = math.prod(self.output_shape[1:]), len(self.weight)
        if given != places:
            raise BadInput(f"a map with {places} places needs as many filters, not {given}")

    @classmethod
    def of(cls, convolution: Conv2d, filters: Tensor | None = None) -> Self:
        """The convolution with `filters` [places, *kernel], or its own kernel at every place."""
        setting = convolution.setting
        if (groups := setting.pop("groups")) != 1:
            said = f"a convolution in {groups} groups cannot have a filter for every place"
            raise BadInput(f"{said}; only groups=1 can")
        if filters is None:
            places = math.prod(convolution.output_shape[1:])
            filters = convolution.weight.expand(places, *convolution.weight.shape)
        return cls(filters, **setting)

    def apply(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """[B, C_in, H, W] -> [B, C_out, H_out, W_out]."""
        filters = self.weight.flatten(2).mT  # [places, in·taps, out]
        patches = map(self._patches, self._chunks(x))
        y = torch.cat([torch.bmm(some, filters).permute(1, 2, 0) for some in patches])
        y = y.reshape(len(x), *self.output_shape)
        return y if bias is None else y + bias[:, None, None]

    def _patches(self, x: Tensor) -> Tensor:
        """What each place reads: [places, b, in·taps], by one copy of overlapping windows."""
        image = self._pad(x).permute(2, 3, 0, 1).contiguous()  # [height, width, b, in]
        (row, column, example, channel), (down, across) = image.stride(), self.stride
        size = (*self.output_shape[1:], *image.shape[2:], *self.kernel)
        taps = (row * self.dilation[0], column * self.dilation[1])
        windows = image.as_strided(size, (row * down, column * across, example, channel, *taps))
        return windows.reshape(len(self.weight), len(x), self.weight[0, 0].numel())

    def adjoint(self, y: Tensor) -> Tensor:
        """[B, C_out, H_out, W_out] -> [B, C_in, H, W]: add patches, then drop the padding."""
        filters = self.weight.flatten(2)  # [places, out, in·taps]
        (above, _, left, _), (_, height, width) = self.padding, self.input_shape
        parts = []
        for some in self._chunks(y):
            # [b, in·taps, places]
            patches = torch.bmm(some.flatten(2).permute(2, 0, 1), filters).permute(1, 2, 0)
            whole = F.fold(patches, self.padded, self.kernel, self.dilation, 0, self.stride)
            parts.append(whole[:, :, above : above + height, left : left + width])
        return torch.cat(parts)

    def dense(self) -> Tensor:
        """The matrix of A, tap by tap and place by place."""
        places, out, channels = self.weight.shape[:3]
        matrix = self.weight.new_zeros((places, math.prod(self.input_shape[1:]), out, channels))
        for tap, filters in zip(self._reads, self.weight.flatten(3).unbind(3), strict=True):
            inside = (tap >= 0).nonzero()[:, 0]
            matrix[inside, tap[inside]] = filters[inside]
        return matrix.permute(2, 0, 3, 1).reshape(self.output_size, self.input_size)

    def column_energies(self) -> Tensor:
        """Σ over the places and taps that read a number, and outputs, of weight²: [C_in, H, W]."""
        energies = self.weight.new_zeros((math.prod(self.input_shape[1:]), self.weight.shape[2]))
        each = self.weight.square().sum(1).flatten(2).unbind(2)
        for tap, squares in zip(self._reads, each, strict=True):
            energies.index_add_(0, tap[tap >= 0], squares[tap >= 0])
        return energies.T.reshape(self.input_shape)

    def large_upper(self) -> float:
        """At least ‖A‖₂: √overlap · max_l ‖A_l‖₂.

        ‖A x‖² = Σ_l ‖A_l x_l‖² ≤ max_l ‖A_l‖₂² · Σ_l ‖x_l‖² with A_l the filter of place l as a
        matrix [out, in·taps] and x_l the patch that it reads; in the last sum every number of x is
        counted `overlap` times at most.
        """
        filters, upper = self.weight.detach().flatten(2), 0.0
        step = max(1, _CHUNK // filters[0].numel())
        for some in torch.split(filters, step):
            upper = max(upper, gram_upper(some.to(torch.float64), guess=upper))
        return math.sqrt(self.overlap) * upper * (1 + 2.0**-50)

    def frobenius(self) -> float:
        """The root mean square over places of the filters' norms: a kernel's if all are alike."""
        return super().frobenius() / math.sqrt(len(self.weight))

    @property
    def overlap(self) -> int:
        """The largest number of places that read one number: ≤ ⌈κ/s⌉² without dilation."""
        reads = self._reads[self._reads >= 0]
        return int(torch.bincount(reads).max()) if len(reads) else 0

    def scaled(self, scale: Tensor) -> Self:
        return self.with_weight(self.weight * scale[:, None, None, None])

    @cached_property
    def _reads(self) -> Tensor:
        """Which pixel each tap reads at each place, -1 on padding: [taps, places]."""
        height, width = self.input_shape[1:]
        numbers = torch.arange(1, height * width + 1, device=self.weight.device)
        image = self._pad(numbers.double().reshape(1, 1, height, width))
        return F.unfold(image, self.kernel, self.dilation, 0, self.stride)[0].long() - 1

    def _pad(self, x: Tensor) -> Tensor:
        above, below, left, right = self.padding
        return F.pad(x, (left, right, above, below)) if any(self.padding) else x

    def _chunks(self, x: Tensor) -> Iterator[Tensor]:
        """The batch in parts whose patches fit: unfolded, an image is overlap times as large."""
        one = len(self.weight) * math.prod(self.weight.shape[2:])
        return iter(torch.split(x, max(1, _CHUNK // one)))
