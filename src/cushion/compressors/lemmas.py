"""What the lemmas of all papers share: errors of compressed layers, and observed over promised.

The induction of Lemmas 3 and 14 (Arora 2018) is run: x̂_i^j is the output of layer j when layers 1
to i are compressed and the others are not. The lemmas promise ‖x̂_i^j - x^j‖ ≤ (i/d)·ε·‖x^j‖ for
every j ≥ i and every example.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.compressors.records import InductionError, PromiseCheck
from cushion.compressors.storage.stored_net import StoredNet
from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.margins import sample_margins
from cushion.measures.probing import lengths, stream
from cushion.nets.batch_size import rows_at_a_time
from cushion.nets.linearisation import Activations
from cushion.nets.network import Network
from cushion.theorems.compression import CompressedFacts

_ACTIVATIONS = 1 << 24  # numbers in all activations of a shard

Values: TypeAlias = NDArray[np.float64]
Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class LayerErrors:
    """Relative errors, one number per example.

    errors: under (i, j), places in `net.affine_layers` from 0 with j ≥ i. gaps: ‖f̂(x) - f(x)‖₂ of
    the whole compressed net, and largest_gaps its largest score difference. sizes: ‖f(x)‖₂.
    margins: of the compressed net. scores: of the net as it was, [m, classes].
    """

    errors: dict[Pair, Values]
    gaps: Values
    largest_gaps: Values
    sizes: Values
    margins: Values
    scores: Values

    @property
    def relative(self) -> Values:
        """‖f̂(x) - f(x)‖/‖f(x)‖; where f(x) = 0, infinite unless the compressed net agrees."""
        return over(self.gaps, self.sizes)


def over(observed: Values, promised: Values) -> Values:
    """observed/promised; 0 where nothing was observed, infinite where only nothing was promised."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(observed == 0, 0.0, observed / promised)


def follow_induction(
    net: Network, compressed: Network, data: Dataset, *, scores: Values | None = None
) -> LayerErrors:
    """Both nets on all of `data`; with the `scores` of `net` the whole compressed one alone."""
    values = sum(math.prod(node.shape) for node in net.nodes)
    batch = max(1, min(rows_at_a_time(), _ACTIVATIONS // values))

    @torch.no_grad()
    def work(x: Tensor, rows: slice) -> dict[Pair | str, Tensor | Values]:
        found: dict[Pair | str, Tensor | Values] = {}
        if scores is None:
            clean = Activations(net, x).values
            own, changed = clean[net.nodes[-1].index], _follow(net, compressed, clean, found)
        else:
            own, changed = torch.from_numpy(scores[rows]).to(net.dtype), compressed.forward(x)
        if not bool(torch.isfinite(changed).all()):
            raise BadInput(f"scores are not finite near row {rows.start}: use more numbers (`k`)")
        gap, labels = changed.double() - own.double(), torch.from_numpy(np.array(data.y[rows]))
        return found | {
            "gaps": lengths(gap),
            "largest_gaps": gap.abs().amax(1),
            "sizes": lengths(own),
            "margins": sample_margins(changed.double(), labels),
            "scores": own,
        }

    found = stream(net, data, batch, work, "errors of the compressed layers")
    errors = {pair: values for pair, values in found.items() if not isinstance(pair, str)}
    whole = {name: values for name, values in found.items() if isinstance(name, str)}
    return LayerErrors(errors, **whole)


def _follow(
    net: Network, compressed: Network, clean: dict[int, Tensor], found: dict[Any, Any]
) -> Tensor:
    """Fill in the errors of every (i, j); the scores of the whole compressed net."""
    values, layers = dict(clean), net.affine_layers
    for i, node in enumerate(layers):
        values[node.index] = compressed.nodes[node.index].affine(values[node.inputs[0]])
        after = net.descendants(node.index)
        for later in net.nodes[node.index + 1 :]:
            if later.index in after:
                values[later.index] = later.op(*(values[k] for k in later.inputs))
        for j in range(i, len(layers)):
            at = layers[j].index
            if at == node.index or at in after:
                moved = lengths(values[at] - clean[at]).numpy()
                found[i, j] = over(moved, lengths(clean[at]).numpy())
    return values[net.nodes[-1].index]


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
    """The largest ratio but for the ⌊ζn⌋ largest; NaN (no word of an example) never counts."""
    known = np.sort(ratios[~np.isnan(ratios)])
    dropped = math.floor(zeta * len(ratios) + 1e-9)
    return float(known[-1 - dropped]) if len(known) > dropped else 0.0


def induction_check(
    lemma: Lemma, errors: LayerErrors, epsilon: float, why: str, zeta: float, note: str = ""
) -> PromiseCheck:
    """‖x̂_i^j - x^j‖ ≤ (i/d)ε‖x^j‖ for all i ≤ j and all examples, but for a fraction ζ of them.

    `why` it is not promised, or empty; `note`: what to add where it is.
    """
    depth = 1 + max(i for i, _ in errors.errors)
    ratios = [values / ((i + 1) / depth * epsilon) for (i, _), values in errors.errors.items()]
    each = np.fmax.reduce(ratios)
    text = f"‖x̂_i^j - x^j‖ over (i/d)·{epsilon:.3g}·‖x^j‖, all i ≤ j, every example"
    said = f"{text}; {note}" if note and not why else text
    unless = f"not promised here: {why}" if why else ""
    return lemma.checked(worst_kept(each, zeta), each.size * len(ratios), said, unless)


def induction_rows(
    net: Network, errors: LayerErrors, epsilon: float | None
) -> tuple[InductionError, ...]:
    """The induction as records, beside (i/d)ε where it is promised."""
    layers, rows = net.affine_layers, []
    for (i, j), values in sorted(errors.errors.items()):
        promised = None if epsilon is None else (i + 1) / len(layers) * epsilon
        worst, mean = float(values.max()), float(values.mean())
        rows.append(InductionError(i + 1, layers[j].name, promised, worst, mean))
    return tuple(rows)


def count_on_sample(
    gamma: float, margins: Values, errors: LayerErrors, stored: StoredNet, delta: float
) -> CompressedFacts:
    """f and its compressed g counted: what Theorem 2.1 and Corollary A.1 (Arora 2018) ask for;
    margins: [m], of f.

    f and g are compared in whichever norm fewer examples fail under. Where g errs although f is
    sure and g close to it, rounding is to blame: the argument failed there too.
    """
    far = errors.largest_gaps > gamma
    far_l2 = errors.gaps > gamma / math.sqrt(2.0)
    l2 = not far_l2.any() or far.sum() >= far_l2.sum()
    unsure = margins <= (gamma if l2 else 2 * gamma)
    failed = (far_l2 if l2 else far) | ((errors.margins <= 0) & ~unsure)
    parts = [part for layer in stored.layers for part in layer.numbers]
    parts += [bias for bias in stored.biases if bias is not None]
    return CompressedFacts(
        m=len(margins),
        delta=delta,
        numbers=sum(part.integers.size for part in parts),
        values=2 * max(int(np.abs(part.integers).max(initial=0)) for part in parts) + 1,
        gamma=gamma,
        norm="l2" if l2 else "largest",
        below_gamma=int((margins <= gamma).sum()),
        unsure=int(unsure.sum()),
        failed=int(failed.sum()),
        unsure_or_failed=int((failed | unsure).sum()),
        bits=stored.bits,
    )
