"""What every compression answers: sizes, errors, promises, what is proved; no torch.

A method adds columns of its own to `Summary` and `LayerSummary`. Relative errors are ‖x̂ - x‖/‖x‖ of
one example's values at a layer; "worst" is the largest over the examples that were looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from cushion.records import Record, column
from cushion.theorems.records import Bound


class Promise(Record):
    """What a method's theorem promises of the compressed net, checked on the sample: the largest
    observed deviation over the promised one, and whether all checks held.
    """

    held: bool
    worst_ratio: float

    @classmethod
    def of(cls, checks: Sequence[PromiseCheck]) -> Promise | None:
        """All promises that were made; None if there was none."""
        made = [one for one in checks if one.held is not None and one.worst_ratio is not None]
        if not made:
            return None
        worst = max(float(one.worst_ratio or 0.0) for one in made)
        return cls(all(one.held for one in made), worst)


class PromiseCheck(Record):
    """One lemma on this net: what it promises, on how many cases, the worst observed over promised.

    held: whether the worst ratio is at most 1 (for a promise that may fail on a fraction of the
    examples: whether at most that fraction does). None where the lemma's conditions fail, so that
    it promises nothing; `meaning` says why.
    """

    name: str
    source: str
    held: bool | None
    worst_ratio: float | None
    cases: int
    meaning: str


class InductionError(Record):
    """The relative error at `at`, layers 1 to `compressed` compressed, against (i/d)ε."""

    compressed: int
    at: str
    promised: float | None
    worst: float
    mean: float


class CurvePoint(Record):
    """One compression of the same net by the same method at another size."""

    asked: str = column("")
    parameters: int = column("", label="numbers")
    bits: int = column("")
    worst_relative_error: float = column(
        "‖f̂(x) - f(x)‖/‖f(x)‖ of the scores, the worst over the sample", label="worst error"
    )
    mean_relative_error: float = column("the same, the mean", label="mean error")
    margin_loss: float = column("fraction of the sample with a margin of at most γ")
    error: float = column("fraction of the sample that errs", label="train error")
    test_error: float | None = column("of the held-out examples", label="test error")


class Occam(Record):
    """The Occam bound on the compressed net's error, from the bits of its own message.

    kind "certificate": `file` holds an integer net that anybody can recheck with `cushion verify`.
    kind "this machine": scores are floating point and the architecture is taken as fixed before the
    data; the same command recomputes it.
    """

    kind: Literal["certificate", "this machine"]
    errors: int
    m: int
    bits: int
    delta: float
    bound: float
    holdout_errors: int | None = None
    holdout_m: int | None = None
    file: str = ""
    because: str = ""  # why there is no certificate of this kind


class Tried(Record, kw_only=True):
    """One setting on one grid, of those that were tried; the smallest bound is taken.

    A method adds what it counts (`count`). bits: an estimate, to a few in a thousand, where the
    message was not `written` because it has more than 32 768 numbers and another was taken.
    """

    asked: str = column("", label="setting")
    grid: str = column("")
    bits: int = column("")
    errors: int = column("")
    bound: float = column("", label="Occam bound", unit="bound")
    written: bool = column("no: bits are an estimate")
    chosen: bool = column("the setting with the smallest bound", label="taken", default=False)

    @property
    def count(self) -> int:
        """The weights that are left, as the method counts them."""
        raise NotImplementedError


class LayerSummary(Record, kw_only=True):
    """One affine layer, before and after; its bits include its bias."""

    name: str = column("", label="layer")
    kind: str
    shape: tuple[int, ...] = column("")
    stored_as: str = column("", label="stored as")
    parameters_before: int = column("parameters of the layer as it was", label="before")
    bits: int = column("what its weight and bias take in the message")

    @property
    def weights(self) -> int:
        """Numbers in its weight, the bias left out."""
        return math.prod(self.shape)


class Summary(Record, kw_only=True):
    """One compression of a whole net, layer by layer. promise: all checks together."""

    method: str
    seed: int
    settings: dict[str, Any]  # every option as it was given or by default
    gamma: float | None = column("the margin", label="gamma")
    m: int
    parameters_before: int
    parameters: int
    bits: int
    layers: tuple[Any, ...]
    promises: tuple[PromiseCheck, ...]
    promise: Promise | None
    errors_before: int = column("errors on the sample before", label="errors before")
    occam: tuple[Occam, ...]
    paper_bounds: tuple[Bound, ...]
    assumptions: tuple[str, ...]  # of the bounds, which nobody can check


class TriedSummary(Summary, kw_only=True):
    """Of a method that tries several settings and takes the one with the smallest bound.

    price: nats that the paper's own bounds pay for the choice; the certificate's code covers all
    messages, so that there the choice is free. output_error: worst ‖f̂(x) - f(x)‖ over the sample.
    notes: what a reader should know of this run.
    """

    delta: float
    tried: tuple[Any, ...]
    price: float
    errors: int = column("errors on the sample after", label="errors after")
    output_error: float = column(
        "how far scores move, worst ‖f̂(x) - f(x)‖ over the sample", label="scores move by"
    )
    notes: tuple[str, ...] = ()
