"""What the lemmas of all papers share: observed over promised, the induction over layers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cushion.compressors.induction import LayerErrors
from cushion.compressors.records import InductionError, PromiseCheck
from cushion.nets.network import Network

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Lemma:
    """A lemma by name; every answer of it is a check."""

    name: str
    paper: str
    cited: str = ""  # as the source calls it, where that is not the name

    def silent(self, why: str) -> PromiseCheck:
        """It promises nothing, and nothing was looked at."""
        return self.seen(None, None, 0, why)

    def checked(self, worst: float, cases: int, text: str, unless: str = "") -> PromiseCheck:
        """Held where the worst ratio is at most 1; `unless`: why it is not promised here."""
        said = f"{text}; {unless}" if unless else text
        return self.seen(None if unless else worst <= 1, worst, cases, said)

    def seen(self, held: bool | None, worst: float | None, cases: int, text: str) -> PromiseCheck:
        source = f"{self.paper}, {self.cited or self.name}"
        return PromiseCheck(self.name, source, held, worst, cases, text)


def worst_kept(ratios: Values, zeta: float) -> float:
    """The largest ratio once the ⌊ζn⌋ largest are left out; NaN (an example that says nothing)
    never counts.
    """
    known = np.sort(ratios[~np.isnan(ratios)])
    dropped = math.floor(zeta * len(ratios) + 1e-9)
    return float(known[-1 - dropped]) if len(known) > dropped else 0.0


def over(observed: Values, promised: Values) -> Values:
    """observed/promised; 0 where nothing was observed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(observed == 0, 0.0, observed / promised)


def induction_check(
    lemma: Lemma, errors: LayerErrors, epsilon: float, why: str, zeta: float, note: str = ""
) -> PromiseCheck:
    """‖x̂_i^j - x^j‖ ≤ (i/d)ε‖x^j‖ for all i ≤ j and all examples, but for a fraction ζ of them.

    `why` it is not promised, or empty; `note`: what to add where it is.
    """
    depth = 1 + max(i for i, _ in errors.errors)
    each = np.fmax.reduce(
        [values / ((i + 1) / depth * epsilon) for (i, _), values in errors.errors.items()]
    )
    text = f"‖x̂_i^j - x^j‖ over (i/d)·{epsilon:.3g}·‖x^j‖, all i ≤ j, every example"
    said = "; ".join(part for part in (text, "" if why else note) if part)
    unless = f"not promised here: {why}" if why else ""
    return lemma.checked(worst_kept(each, zeta), len(each) * len(errors.errors), said, unless)


def induction_rows(
    net: Network, errors: LayerErrors, epsilon: float | None
) -> tuple[InductionError, ...]:
    """The induction as records, beside (i/d)ε where it is promised."""
    layers = net.affine_layers
    return tuple(
        InductionError(
            compressed=i + 1,
            at=layers[j].name,
            promised=None if epsilon is None else (i + 1) / len(layers) * epsilon,
            worst=float(values.max()),
            mean=float(values.mean()),
        )
        for (i, j), values in sorted(errors.errors.items())
    )
