"""The examples as a search sees them: quantised, in batches, and the net that ignores them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.certificates.format.inputs import Bytes, Input, fit_floats
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.limits import Shape
from cushion.certificates.format.sources import Grid
from cushion.data.dataset import Dataset

_BATCH = 128
_FLOAT_BITS = 8  # of a float feature, at its finest


def image_shape(data: Dataset) -> Shape:
    """(channels, height, width); what is no image is one row of values."""
    return data.shape if len(data.shape) == 3 else (1, 1, math.prod(data.shape))


def quantiser_for(data: Dataset, shift: int) -> Input:
    """Bytes by a shift, floats as coarsely by a quantiser fitted to them (and paid)."""
    if data.x.dtype == np.uint8:
        return Bytes(shift)
    flat = np.asarray(data.x, dtype=np.float32).reshape(len(data), -1)
    return fit_floats(flat, _FLOAT_BITS - shift, alike=len(data.shape) == 3)


def constant_net(data: Dataset) -> IntegerNet:
    """Always answers the most frequent class: all weights zero, one bias."""
    shape = image_shape(data)
    bias = np.zeros(data.classes, dtype=np.int64)
    bias[np.bincount(data.y, minlength=data.classes).argmax()] = 1
    weight = np.zeros((data.classes, math.prod(shape)), dtype=np.int64)
    return IntegerNet(shape, quantiser_for(data, 7), (Dense(Grid(weight, 1), bias, 0, 0),))


@dataclass
class Sample:
    """The examples in training: pixels [m, channels, height, width] as the quantiser gives them,
    labels, and perhaps [m, classes] logits to imitate; batches go through all rows in a fresh order
    each time.
    """

    pixels: Tensor
    labels: Tensor
    teacher: Tensor | None
    generator: torch.Generator
    quantiser: Input
    classes: int

    def __post_init__(self) -> None:
        self._order = torch.empty(0, dtype=torch.int64)

    @classmethod
    def of(cls, data: Dataset, shift: int, seed: int, teacher: Tensor | None = None) -> Self:
        """shift: how many of an input's eight bits are left unread."""
        m, quantiser = len(data), quantiser_for(data, shift)
        numbers = quantiser.read(np.asarray(data.x).reshape(m, -1), np.float32).astype(np.int16)
        pixels = torch.from_numpy(numbers).reshape(m, *image_shape(data))
        labels, generator = torch.from_numpy(np.array(data.y)), torch.Generator().manual_seed(seed)
        return cls(pixels, labels, teacher, generator, quantiser, data.classes)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def kind(self) -> tuple[Shape, int, Input]:
        """Input shape, classes and quantiser of a net for these examples."""
        channels, height, width = self.pixels.shape[1:]
        return (channels, height, width), self.classes, self.quantiser

    def some(self) -> Tensor:
        """Rows on which steps are calibrated."""
        return self.pixels[:1024].float()

    def rows(self) -> Tensor:
        """The next batch."""
        if len(self._order) < min(len(self), _BATCH):
            self._order = torch.randperm(len(self), generator=self.generator)
        rows, self._order = self._order[:_BATCH], self._order[_BATCH:]
        return rows

    def loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Cross-entropy with the labels, half and half with the teacher's answers if it has one."""
        loss = F.cross_entropy(logits, self.labels[rows])
        if self.teacher is not None:
            loss = 0.5 * loss + 0.5 * F.cross_entropy(logits, F.softmax(self.teacher[rows], dim=1))
        return loss

    def descend(
        self,
        logits_of: Callable[[Tensor], Tensor],
        optimiser: torch.optim.Optimizer,
        price: float = 0.0,
        rate: Callable[[], Tensor] = lambda: torch.zeros(()),
        rows: Tensor | None = None,
    ) -> float:
        """One step down the loss of a batch plus price · rate; the share of it that was wrong."""
        rows = self.rows() if rows is None else rows
        logits = logits_of(self.pixels[rows].float())
        loss = self.loss(logits, rows) + price * rate()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        return float((logits.detach().argmax(1) != self.labels[rows]).float().mean())
