"""An upper bound on the norm of any convolution, from the Fourier blocks of a circular one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from cushion.nets.operators.norms import factor_slack, positive_top

_CHUNK = 1 << 22  # numbers of Fourier blocks held at a time
_WORTH = 4  # products of two taps that cost as much as one frequency's of complex blocks


def circular_upper(
    weight: Tensor,
    outputs: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    guess: float = 0.0,
) -> float:
    """At least ‖A‖₂ for the convolution with this weight, [C_out, C_in / groups, *kernel], and
    `outputs` positions along each axis, whatever its input's size and zero padding; close to it
    unless the map is not much larger than the kernel.

    Splitting the padded map into its interleaved sub-maps, stride of them along an axis (as
    channels), makes A a convolution with stride 1 and a kernel of K = ⌈extent / stride⌉ taps. On a
    circular grid of outputs + K - 1 no output position of A wraps around, so A = P C Q with the
    circulant C on that grid, a row selection P and an embedding Q: ‖A‖₂ ≤ ‖C‖₂, which is the
    largest norm among C's Fourier blocks (Sedghi et al. 2019). A grid of the map's own size would
    wrap, and is not an upper bound. `guess`, any number, is where the search starts: a lower bound
    on ‖A‖₂ saves most of it.
    """
    taps = _polyphase_kernel(weight, stride, dilation, groups)
    sizes = taps.shape[3:]
    grid = [places + size - 1 for places, size in zip(outputs, sizes, strict=True)]
    # Real weights: frequencies f and -f give blocks of equal norm: half of one axis suffice.
    seen = [*grid[:-1], grid[-1] // 2 + 1]
    flat = taps.flatten(3)  # [groups, out, in·stride^axes, taps]
    if flat.shape[1] > flat.shape[2]:  # as its adjoint, of the same norm
        flat = flat.transpose(1, 2)
    largest = float(flat.abs().max())
    if largest == 0.0:
        return 0.0
    # a power of two: scaling by it is exact, and squares cannot underflow
    unit = 2.0 ** math.frexp(largest)[1]
    flat = flat / unit
    pairs = flat.shape[3] * (flat.shape[3] + 1) // 2
    if pairs <= _WORTH * math.prod(seen):
        blocks, slack = _from_correlations(flat, sizes, grid, seen)
    else:
        blocks, slack = _from_blocks(flat, sizes, grid, seen)
    top = (guess / unit) ** 2 * (1 + 1e-5)
    for gram in blocks:
        # The bound so far is the next guess: most chunks then need one factorisation.
        top = positive_top(gram, top)
    rows = flat.shape[1]
    return unit * math.sqrt(top + factor_slack(rows, top) + slack) * (1 + 8 * 2.0**-53)


def _from_blocks(
    flat: Tensor, sizes: Sequence[int], grid: Sequence[int], seen: Sequence[int]
) -> tuple[Iterator[Tensor], float]:
    """B Bᴴ of all Fourier blocks B, some at a time, and how far they may be off, in norm.

    An entry of B is a sum of as many products as there are taps, with phases that are rounded.
    """
    phases = _all_phases([range(size) for size in sizes], grid, seen).to(flat.device)
    step = max(1, _CHUNK // (flat.shape[1] * flat.shape[2]))

    def blocks() -> Iterator[Tensor]:
        for kernel in flat.to(torch.complex128):
            for start in range(0, phases.shape[1], step):
                block = (kernel @ phases[:, start : start + step]).permute(2, 0, 1)
                yield block @ block.mH

    return blocks(), _slack(flat)


def _from_correlations(
    flat: Tensor, sizes: Sequence[int], grid: Sequence[int], seen: Sequence[int]
) -> tuple[Iterator[Tensor], float]:
    """The same from Σ_d C_d exp(i d·f), where C_d = Σ W_a W_bᵀ over the taps with a - b = d.

    The products of weights are made once, for all frequencies.
    """
    sums = _correlations(flat, sizes)  # [groups, offsets, n, n]
    rows, offsets = flat.shape[1], [range(1 - size, size) for size in sizes]
    phases = _all_phases(offsets, grid, seen).to(flat.device).T  # [frequencies, offsets]
    some = max(1, _CHUNK // (rows * rows))
    step, together = min(some, len(phases)), max(1, some // len(phases))

    def blocks() -> Iterator[Tensor]:
        for start in range(0, len(sums), together):
            part = sums[start : start + together].flatten(2)
            for first in range(0, len(phases), step):
                turns = phases[first : first + step]
                # as two real products, which cost a quarter of a complex one
                gram = torch.complex(turns.real @ part, turns.imag @ part)
                yield gram.reshape(-1, rows, rows)

    return blocks(), _slack(flat)


def _correlations(flat: Tensor, sizes: Sequence[int]) -> Tensor:
    """Σ W_a W_bᵀ over the taps a, b that are d apart, for all d: [groups, offsets, n, n]."""
    groups, rows, _, count = flat.shape
    wide = [2 * size - 1 for size in sizes]
    places = list(itertools.product(*(range(size) for size in sizes)))
    sums = flat.new_zeros(groups, math.prod(wide), rows, rows)
    taps = [tap.contiguous() for tap in flat.unbind(3)]
    middle = math.prod(wide) // 2
    for a in range(count):
        for b in range(a + 1):
            at = 0
            for up, down, size, side in zip(places[a], places[b], sizes, wide, strict=True):
                at = at * side + up - down + size - 1
            sums[:, at] += taps[a] @ taps[b].mT
    sums[:, :middle] = sums[:, middle + 1 :].flip(1).mT  # C_{-d} is the transpose of C_d
    return sums


def _slack(flat: Tensor) -> float:
    """How far a Gram matrix may be off, in norm: its roundings and those of the phases.

    Either way an entry has fewer than columns·taps + 4·taps + 32 roundings of terms that, without
    their signs, add up to at most (Σ ‖W_a‖_F)² in Frobenius norm; 8 for complex numbers, and for a
    triangle that stands for the whole.
    """
    _, _, columns, taps = flat.shape
    lengths = torch.linalg.vector_norm(flat, dim=(1, 2)).sum(1)
    return 8 * (columns * taps + 4 * taps + 32) * 2.0**-53 * float(lengths.max()) ** 2


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


def _all_phases(offsets: Sequence[range], grid: Sequence[int], seen: Sequence[int]) -> Tensor:
    """exp(2πi·offset·frequency / grid), [offsets, frequencies], the last axis fastest."""
    phases = torch.ones(1, 1, dtype=torch.complex128)
    for axis in zip(offsets, grid, seen, strict=True):
        phases = torch.kron(phases, _phases(*axis))
    return phases


def _phases(offsets: range, grid: int, frequencies: int) -> Tensor:
    """Along one axis, accurate by reducing modulo the grid."""
    turns = torch.outer(torch.tensor(list(offsets)), torch.arange(frequencies)) % grid
    return torch.exp(2j * math.pi * turns.to(torch.float64) / grid)
