"""Compression that keeps the net: its options and its line in the table of methods; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cushion.compressors.method import MethodOptions, Named
from cushion.records import option

_FEWEST_EPOCHS = 5
_SHOWN = 40_000  # examples at each strength, repeats included, on small sets


class KeepOptions(MethodOptions):
    """One target at most; without any, at most one point of error more than before."""

    max_error: str | None = option(None, "at most this share of errors, such as 3%")
    lose: str | None = option(None, "at most so many points of error more than before, such as 0.5")
    max_size: str | None = option(None, "a file of at most this size, such as 20kB")
    min_bound: bool = option(False, "the smallest bound, whatever that does to the error")
    validation: float = option(
        0.0, "check the target on this part of the sample, and train on the rest", least=0, below=1
    )
    epochs: int | None = option(
        None,
        "of training at each strength of the price (default 5, more for fewer than 8000 examples); "
        "0: no training",
        least=0,
    )
    lr: float = option(0.05, "of Adam, in steps of a layer's grid", above=0, most=1)
    train_batch: int = option(128, "examples in a step of the training", least=2)
    levels: int = option(7, "steps of a weight to either side of zero", least=1, most=127)
    distil: float = option(
        0.5, "part of the loss that asks for NET's scores instead of the labels", least=0, most=1
    )
    augment: Literal["none", "moved", "crop-flip"] = option(
        "none", "show images shifted, turned and stretched a little, or cropped and mirrored"
    )

    def epochs_on(self, m: int) -> int:
        """As given; else enough for a small set too."""
        if self.epochs is not None:
            return self.epochs
        return max(_FEWEST_EPOCHS, -(-_SHOWN // m))


@dataclass(frozen=True)
class Keeping(Named):
    """A method that trains the net where it is stored."""

    options = KeepOptions
    stores = ("storage.matrix",)

    def uncertifiable(self, options: Any) -> str:  # noqa: ARG002
        return ""


RATE = Keeping(
    "rate",
    "NET on a grid of few steps, trained there with the price of its code in the loss",
    (
        "max_error",
        "lose",
        "max_size",
        "min_bound",
        "validation",
        "epochs",
        "lr",
        "train_batch",
        "levels",
        "distil",
        "augment",
    ),
)
