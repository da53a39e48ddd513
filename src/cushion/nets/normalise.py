"""Constants that stood before a net in its training: (x - mean) / std, a channel at a time.

They wrap the net and not the data, whose fingerprint stays. They are given, never fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from cushion.errors import BadInput
from cushion.nets.calling import call
from cushion.nets.specs import write_shape
from cushion.numerics import counted

Constants: TypeAlias = float | Sequence[float]
Normalise: TypeAlias = tuple[Constants, Constants]  # mean and std


class Normalised(nn.Module):
    """inner((x - mean) / std); mean and std: [channels, 1, ...] or [1], in float32."""

    mean: Tensor
    std: Tensor

    def __init__(self, inner: nn.Module, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.training = inner.training

    def forward(self, x: Any) -> Any:
        return call(self.inner, (x - self.mean) / self.std)


def constants(mean: Constants, std: Constants, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """mean and std for examples of `shape`: each one number, or one a channel (the first axis)."""
    means, stds = _numbers(mean), _numbers(std)
    if not shape:
        raise BadInput("`normalise` is for data of one array; leave it out for named parts")
    channels = shape[0]
    for name, values in (("mean", means), ("std", stds)):
        if len(values) not in (1, channels):
            said = f"{len(values)} values for {name}, but the data are {write_shape(tuple(shape))}"
            last = len(shape) > 1 and len(values) == shape[-1]
            fix = f"with {counted(channels, 'channel')}; give one number, or one a channel"
            fix = "with the channels last; move them to the front" if last else fix
            raise BadInput(f"`normalise` has {said}, {fix}")
        if not all(map(math.isfinite, values)):
            raise BadInput(f"`normalise` must have finite numbers for {name}, not {values}")
    if min(stds) <= 0:
        raise BadInput(f"`normalise` must have a std above 0, not {min(stds):g}")
    sides = [1] * (len(shape) - 1)
    return torch.tensor(means).reshape(-1, *sides), torch.tensor(stds).reshape(-1, *sides)


def parse_normalise(text: str) -> tuple[list[float], list[float]]:
    """mean,std as on the command line: a number each, or one a channel with colons between.

    >>> parse_normalise("0.1307,0.3081")
    ([0.1307], [0.3081])
    >>> parse_normalise("0.5:0.4,0.25:0.2")
    ([0.5, 0.4], [0.25, 0.2])
    """
    try:
        mean, std = ([float(part) for part in side.split(":")] for side in text.split(","))
    except ValueError:
        form = "MEAN,STD, such as 0.1307,0.3081, or 0.5:0.4:0.4,0.2:0.2:0.2 for three channels"
        raise BadInput(f"`normalise` must be {form}, not '{text}'") from None
    return mean, std


def normalise_words(mean: Constants, std: Constants) -> str:
    """The step in words, for results.

    >>> normalise_words(0.1307, 0.3081)
    '(x - 0.1307) / 0.3081'
    >>> normalise_words((0.5, 0.4), (0.25, 0.2))
    '(x - [0.5, 0.4]) / [0.25, 0.2]'
    """
    shown = [", ".join(f"{value:g}" for value in _numbers(part)) for part in (mean, std)]
    left, right = (f"[{text}]" if "," in text else text for text in shown)
    return f"(x - {left}) / {right}"


def _numbers(given: Any) -> list[float]:
    try:
        values = given if isinstance(given, Iterable) else [given]
        return [float(value) for value in values]
    except (TypeError, ValueError):
        raise BadInput(
            f"`normalise` must be a pair (mean, std) of numbers, not {given!r}"
        ) from None
