"""Grids of whole multiples of a power of two: which one fits a weight, and training on it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

_FINEST, _COARSEST = -1074, 1023


def least_squares_exponent(values: Tensor, most: int) -> int:
    """The e for which multiples of 2^e from -most·2^e to most·2^e lose the least squared error.

    What lies beyond is clipped, so a few large weights do not set the step of all others, as they
    would if all had to fit. The coarsest of several that lose the same.
    """
    sizes = values.detach().abs().double().reshape(-1)
    largest = float(sizes.max()) if sizes.numel() else 0.0
    if largest == 0.0:
        return 0
    # Above 2·largest all round to zero, as at it; and where nothing is clipped, half the step
    # rounds no worse, so the finest to try is the largest step that clips.
    top = min(math.frexp(largest)[1] + 1, _COARSEST)
    bottom = max(math.frexp(largest / most)[1] - 40, _FINEST)
    best, least, worse = top, math.inf, 0
    for exponent in range(top, bottom - 1, -1):
        step = math.ldexp(1.0, exponent)
        rounded = torch.round(sizes / step).clamp_(max=most).mul_(step)
        loss = float((rounded - sizes).square().sum())
        if loss < least:
            best, least, worse = exponent, loss, 0
        elif (worse := worse + 1) > 3:  # clipping has taken over, and grows from here on
            break
    return best


class _Rounded(torch.autograd.Function):
    """Multiples within ±most, gradients straight through but where what is clipped would grow."""

    @staticmethod
    def forward(ctx: Any, scaled: Tensor, most: int, dead: float) -> Tensor:
        ctx.save_for_backward(scaled)
        ctx.most = most
        sizes = torch.floor(scaled.abs() + (0.5 - dead)).clamp_(max=most)
        return sizes * torch.sign(scaled)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (scaled,) = ctx.saved_tensors
        return gradient * (scaled.abs() <= ctx.most + 0.5), None, None


def rounded(scaled: Tensor, most: int, dead: float = 0.0) -> Tensor:
    """Whole numbers from -most to most: the nearest, but that a fraction below ½ + dead is dropped
    (zero is wider by that); as a function it passes gradients straight through.
    """
    found: Tensor = _Rounded.apply(scaled, most, dead)  # type: ignore[no-untyped-call]
    return found
