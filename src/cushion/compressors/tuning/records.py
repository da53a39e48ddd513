"""What a compression that keeps the net tried and found; no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cushion.compressors.records import Occam
from cushion.records import Record, column


class Setting(Record, kw_only=True):
    """One setting that was tried: the file that it makes, and how the net in it does.

    checked_errors, checked_on: on the rows on which the target is checked. exact_bound: before it
    is cut off at 1, so that settings without a bound are still told apart.
    """

    asked: str = column("", label="setting")
    bytes: int = column("of the whole file, header included")
    train_error: float = column("of the sample", label="train error")
    validation_error: float | None = column(
        "of the rows of it left out of the training", label="validation error"
    )
    bound: float = column("Occam's, for the bits of the whole file", unit="bound")
    parameters: int = column("stored numbers that are not zero", label="numbers")
    multiplications: int = column("by numbers that are not zero, for one example")
    front: bool = column("none that was tried is smaller and errs less", default=False)
    chosen: bool = column("", label="taken", default=False)
    checked_errors: int = 0
    exact_bound: float = 1.0


def mark_front(settings: Sequence[Setting]) -> list[Setting]:
    """The same with the Pareto front of bytes and errors marked."""
    ordered = sorted(
        range(len(settings)), key=lambda at: (settings[at].bytes, settings[at].checked_errors)
    )
    fewest, found = float("inf"), list(settings)
    for at in ordered:
        on = settings[at].checked_errors < fewest
        fewest = min(fewest, settings[at].checked_errors)
        found[at] = replace(settings[at], front=on)
    return found


class KeptLayer(Record):
    """One affine layer, before and after."""

    name: str = column("", label="layer")
    before: tuple[int, ...] = column("its weight's shape", label="shape")
    after: tuple[int, ...] = column(
        "without units that nothing makes or reads", label="shape after"
    )
    numbers: int = column("of its weight, not zero")
    levels: int = column("different values of them")
    bits: int = column("what its weight and bias take in the message")


class KeptSummary(Record, kw_only=True):
    """A compression of a net that keeps its error. met: whether the target is, by the net that the
    decoder rebuilds from the file. bytes_before: of its numbers, as they were stored in memory.
    bound: by the file's bits; holdout_bound: by held-out rows, if this is their first use.
    """

    method: str
    seed: int
    settings: dict[str, Any]
    target: str
    met: bool
    m: int
    delta: float
    bytes_before: int
    bytes: int
    parameters_before: int
    parameters: int
    errors_before: int
    errors: int
    validation_rows: int
    validation_errors_before: int | None
    validation_errors: int | None
    holdout_rows: int | None
    holdout_errors_before: int | None
    holdout_errors: int | None
    holdout_bound: float | None
    bound: float
    occam: tuple[Occam, ...]
    layers: tuple[KeptLayer, ...]
    tried: tuple[Setting, ...]
    interrupted: bool
    assumptions: tuple[str, ...]

    @property
    def ratio(self) -> float:
        return self.bytes_before / self.bytes
