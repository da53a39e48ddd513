"""What a weight that is not zero costs in the code of a matrix, as far as counts tell.

`matrix_code` adapts to how full each row, column and tap is. Their counts now, read as a model in
which the odds multiply, say what a weight costs beyond a zero in its place: little where its row
and column are full anyway, much where it alone keeps a unit alive. So what a price presses on
empties whole units.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_FEWEST = 0.5  # bits: even in a full row a weight has its sign
_RAREST, _SUREST = 2.0**-12, 0.98
_HINT = 0.4  # of a count, before anything is seen
_LEVEL = 1.5  # bits that a weight costs for each doubling beyond one step


def prices(integers: Tensor) -> Tensor:
    """Bits by which each number would cost more than a zero in its place: [*integers.shape], which
    is that of a matrix or kernel, [out, in, ...].
    """
    filled = (integers.detach() != 0).to(torch.float32)
    matrix = filled.reshape(*filled.shape[:2], -1)
    rows, columns, taps = (matrix.sum(over) for over in ((1, 2), (0, 2), (0, 1)))
    live = [max(1, int((counts > 0).sum())) for counts in (rows, columns, taps)]
    size = math.prod(live)
    row = _log_odds((rows + _HINT) / (size / live[0] + 2 * _HINT))
    column = _log_odds((columns + _HINT) / (size / live[1] + 2 * _HINT))
    tap = _log_odds((taps + _HINT) / (size / live[2] + 2 * _HINT))
    whole = _log_odds((matrix.sum() + _HINT) / (size + 2 * _HINT))
    odds = row[:, None, None] + column[None, :, None] + tap[None, None, :] - 2 * whole
    chance = torch.sigmoid(odds).clamp(_RAREST, _SUREST)
    bits = (torch.log2(1 - chance) - torch.log2(chance) + 1).clamp(min=_FEWEST)
    return bits.reshape(integers.shape)


def rate(scaled: Tensor, price: Tensor) -> Tensor:
    """About how many bits these weights take, for gradients: `price` at one step and more, in
    proportion below, and what their size adds.
    """
    sizes = scaled.abs()
    beyond = torch.log2(1 + (sizes - 1).clamp(min=0))
    return (price * sizes.clamp(max=1)).sum() + _LEVEL * beyond.sum()


def natural_weight(m: int) -> float:
    """The loss of one bit at which m examples' mean cross-entropy and the code make one message."""
    return math.log(2.0) / m


def _log_odds(part: Tensor) -> Tensor:
    return torch.log(part / (1 - part).clamp(min=0.02))
