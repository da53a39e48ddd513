"""The examples as a search sees them: read once, a piece at a time, as small whole numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cushion.certificates.format.inputs import Bytes, Input, fit_floats
from cushion.certificates.format.limits import Shape
from cushion.certificates.search.sizes import image_shape, rows_held, summed_shape
from cushion.data.dataset import Dataset
from cushion.data.rows import Reading

_BATCH = 128
_FLOAT_BITS = 8  # of a float feature, at its finest
_USUAL_BITS = 6
_FITTED = 2**24  # numbers to which a quantiser is fitted, at most
_MANY = 4096  # pixels, from which on their ranges are not looked at one by one
_PIECE = 2**22  # numbers that are read at a time


def quantiser_for(data: Dataset, shift: int) -> Input:
    """Bytes by a shift, floats as coarsely by a quantiser fitted to them (and paid)."""
    if data.x.dtype == np.uint8:
        return Bytes(shift)
    numbers, image = data.x[0].size, len(data.shape) == 3
    step = max(1, -(-len(data) * numbers // _FITTED))
    flat = np.asarray(data.x[::step], dtype=np.float32).reshape(-1, numbers)
    if image and numbers > _MANY:
        flat = flat.reshape(-1, 1)
    return fit_floats(flat, _FLOAT_BITS - shift, alike=image)


def reading_for(data: Dataset) -> Reading | None:
    """About how the nets that a search finds will read float rows, to compare them before it.

    None where rows are compared otherwise: bytes without their lowest bits.
    """
    if data.x.dtype != np.float32:
        return None
    quantiser = quantiser_for(data, _FLOAT_BITS - _USUAL_BITS)
    return lambda x: quantiser.read(x.reshape(len(x), -1), np.float32)


@dataclass
class Sample:
    """The examples in training; batches go through all rows held in a fresh order each time."""

    # [rows held, channels, height, width] as the quantiser gives them, summed over squares
    pixels: Tensor
    labels: Tensor
    teacher: Tensor | None  # [rows held, classes] logits to imitate
    generator: torch.Generator
    quantiser: Input
    classes: int
    shape: Shape | None = None  # of the images that the net reads; without squares, the pixels'
    square: int = 1
    m: int = 0  # examples that a net is judged on; 0: those held
    _order: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))

    @classmethod
    def of(
        cls, data: Dataset, shift: int, seed: int, teacher: Tensor | None = None, square: int = 1
    ) -> Self:
        """shift: how many of an input's eight bits are left unread. square: `sizes.square_summed`.

        Where memory does not hold them all, rows are left out evenly.
        """
        quantiser, shape = quantiser_for(data, shift), image_shape(data)
        rows = np.linspace(0, len(data), rows_held(data, square), endpoint=False).astype(np.int64)
        channels, height, width = summed_shape(shape, square)
        wide = quantiser.largest * square**2 >= 2**15
        pixels = np.empty((len(rows), channels, height, width), np.int32 if wide else np.int16)
        piece = max(1, _PIECE // data.x[0].size)
        for start in range(0, len(rows), piece):
            x = np.asarray(data.x[rows[start : start + piece]])
            numbers = quantiser.read(x.reshape(len(x), -1), np.float32).reshape(len(x), *shape)
            whole = numbers[:, :, : height * square, : width * square].astype(pixels.dtype)
            squares = whole.reshape(len(x), channels, height, square, width, square)
            pixels[start : start + piece] = squares.sum(axis=(3, 5), dtype=pixels.dtype)
        return cls(
            torch.from_numpy(pixels),
            torch.from_numpy(np.array(data.y[rows])),
            None if teacher is None else teacher[torch.from_numpy(rows)],
            torch.Generator().manual_seed(seed),
            quantiser,
            data.classes,
            shape,
            square,
            len(data),
        )

    def again(self, seed: int) -> Self:
        """The same examples, in an order that begins with another seed."""
        order = torch.empty(0, dtype=torch.int64)
        return replace(self, generator=torch.Generator().manual_seed(seed), _order=order)

    def __len__(self) -> int:
        return self.m or len(self.labels)

    @property
    def kind(self) -> tuple[Shape, int, Input]:
        """Input shape, classes and quantiser of a net for these examples."""
        channels, height, width = self.pixels.shape[1:]
        return self.shape or (channels, height, width), self.classes, self.quantiser

    def some(self) -> Tensor:
        """Rows on which steps are calibrated."""
        return self.pixels[:1024].float()

    def rows(self) -> Tensor:
        """The next batch."""
        held = len(self.labels)
        if len(self._order) < min(held, _BATCH):
            self._order = torch.randperm(held, generator=self.generator)
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
