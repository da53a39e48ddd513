"""An upper bound on the norm of any convolution, from the Fourier blocks of a circular one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from cushion.nets.operators.norms import gram_upper

_CHUNK = 1 << 22  # numbers of Fourier blocks held at a time


def circular_upper(
    weight: Tensor,
    outputs: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> float:
    """At least ‖A‖₂ for the convolution with this weight, [C_out, C_in / groups, *kernel], and
    `outputs` positions along each axis, whatever its input's size and zero padding; close to it
    unless the map is not much larger than the kernel.

    Splitting the padded map into its interleaved sub-maps, stride of them along an axis (as
    channels), makes A a convolution with stride 1 and a kernel of K = ⌈extent / stride⌉ taps. On a
    circular grid of outputs + K - 1 no output position of A wraps around, so A = P C Q with the
    circulant C on that grid, a row selection P and an embedding Q: ‖A‖₂ ≤ ‖C‖₂, which is the
    largest norm among C's Fourier blocks (Sedghi et al. 2019). A grid of the map's own size would
    wrap, and is not an upper bound.
    """
    taps = _polyphase_kernel(weight, stride, dilation, groups)
    sizes = taps.shape[3:]
    grid = [places + size - 1 for places, size in zip(outputs, sizes, strict=True)]
    # Real weights: frequencies f and -f give blocks of equal norm: half of one axis suffice.
    seen = [*grid[:-1], grid[-1] // 2 + 1]
    phases = torch.ones(1, 1, dtype=torch.complex128)
    for axis in zip(sizes, grid, seen, strict=True):
        phases = torch.kron(phases, _phases(*axis))  # [taps, frequencies]
    phases = phases.to(taps.device)
    flat = taps.flatten(3).to(torch.complex128)  # [groups, out, in·stride^axes, taps]
    # Each entry is a sum of as many products as there are taps, with phases that are rounded.
    roundings = 8 * (flat.shape[3] + 8) * 2.0**-53
    perturbation = roundings * float(torch.linalg.vector_norm(flat, dim=(1, 2)).sum(1).max())
    step = max(1, _CHUNK // (flat.shape[1] * flat.shape[2]))
    upper = 0.0
    for kernel in flat:
        for start in range(0, phases.shape[1], step):
            blocks = (kernel @ phases[:, start : start + step]).permute(2, 0, 1)
            # The bound so far is the next guess: most chunks then need one factorisation.
            upper = max(upper, gram_upper(blocks, guess=upper, perturbation=perturbation))
    return upper


def _polyphase_kernel(
    weight: Tensor, stride: Sequence[int], dilation: Sequence[int], groups: int
) -> Tensor:
    """The kernel over the sub-maps, float64: [groups, out, in·stride^axes, *K]."""
    (out, inside), kernel = weight.shape[:2], weight.shape[2:]
    axes = range(len(kernel))
    extent = [gap * (size - 1) + 1 for size, gap in zip(kernel, dilation, strict=True)]
    taps = [-(-reach // step) for reach, step in zip(extent, stride, strict=True)]
    wide = [size * step for size, step in zip(taps, stride, strict=True)]
    spread = weight.new_zeros((out, inside, *wide), dtype=torch.float64)
    places = tuple(slice(0, extent[axis], dilation[axis]) for axis in axes)
    spread[(slice(None), slice(None), *places)] = weight.to(torch.float64)
    apart = [side for axis in axes for side in (taps[axis], stride[axis])]
    split = spread.reshape(out, inside, *apart)
    order = (0, 1, *(3 + 2 * axis for axis in axes), *(2 + 2 * axis for axis in axes))
    split = split.permute(order).flatten(1, 1 + len(kernel))
    return split.reshape(groups, out // groups, *split.shape[1:])


def _phases(taps: int, grid: int, frequencies: int) -> Tensor:
    """exp(2πi·tap·frequency / grid), [taps, frequencies], accurate by reducing modulo the grid."""
    turns = torch.outer(torch.arange(taps), torch.arange(frequencies)) % grid
    return torch.exp(2j * math.pi * turns.to(torch.float64) / grid)
