"""Of several candidates the one with the smallest Occam bound on the sample."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from cushion.compressors.file import CompressedNet
from cushion.compressors.induction import LayerErrors, follow_induction
from cushion.compressors.method import Candidate, Method
from cushion.compressors.records import CurvePoint, Tried
from cushion.compressors.storage.stored_net import StoredNet
from cushion.compressors.subject import Subject
from cushion.measures.margins import margin_loss
from cushion.numerics import float_up
from cushion.progress import working
from cushion.theorems.occam import occam_bound

# numbers up to which every message that is tried is written: a third of a second
_WRITTEN = 1 << 15


@dataclass(frozen=True, eq=False)
class Judged:
    """One candidate, the net that comes back from it, and how that does on the sample."""

    candidate: Candidate
    compressed: CompressedNet
    errors: LayerErrors


def take_best(
    method: Method, subject: Subject, delta: Decimal, notes: Mapping[str, Any]
) -> tuple[Judged, list[Tried], list[CurvePoint]]:
    """The candidate with the smallest bound, and how all of them did, the best as `chosen`.

    Of a method that makes one candidate nothing is judged: its layers are followed one by one.
    """
    net, sample = subject.net, subject.sample
    if method.tried is None:
        (candidate,) = method.candidates(subject)
        compressed = CompressedNet(candidate.stored, net, dict(notes), subject.start)
        return (
            Judged(candidate, compressed, follow_induction(net, compressed.network, sample)),
            [],
            [],
        )
    found: list[tuple[tuple[float, float], Tried, CurvePoint]] = []
    best: Judged | None = None
    with working("settings", method.tries(subject.options), "setting") as bar:
        for candidate in method.candidates(subject):
            said = {**notes, "chosen": candidate.asked, "on": candidate.grid}
            compressed = CompressedNet(candidate.stored, net, said, subject.start)
            errors = follow_induction(net, compressed.network, sample, scores=subject.net_scores)
            found.append(_judge(method.tried, candidate, errors, subject.gamma or 0.0, delta))
            if found[-1][0] < min((key for key, _, _ in found[:-1]), default=(math.inf, 0.0)):
                best = Judged(candidate, compressed, errors)
            bar.advance()
    assert best is not None
    at = min(range(len(found)), key=lambda one: found[one][0])
    tried = [replace(one, chosen=k == at) for k, (_, one, _) in enumerate(found)]
    return best, tried, [point for _, _, point in found]


def _judge(
    kind: type[Tried], candidate: Candidate, errors: LayerErrors, gamma: float, delta: Decimal
) -> tuple[tuple[float, float], Tried, CurvePoint]:
    """What is smaller for a better one, and its records, by the length of its message, which is
    estimated where writing every one would take too long.
    """
    wrong, m = int((errors.margins <= 0).sum()), len(errors.margins)
    written = candidate.stored.parameters <= _WRITTEN
    bits = candidate.stored.bits if written else candidate.stored.estimated_bits()
    bound = float_up(occam_bound(wrong, m, bits, delta))
    counts: dict[str, Any] = dict(candidate.counts or {})
    tried = kind(
        asked=candidate.asked,
        grid=candidate.grid,
        bits=bits,
        errors=wrong,
        bound=bound,
        written=written,
        **counts,
    )
    # Where bounds are all 100 % the Hoeffding form before it is cut off still tells them apart.
    beyond = wrong / m + math.sqrt(bits * math.log(2.0) / (2 * m))
    asked = f"{candidate.asked}, {candidate.grid}"
    return (bound, beyond), tried, curve_point(asked, candidate.stored, bits, errors, gamma)


def curve_point(
    asked: str, stored: StoredNet, bits: int, errors: LayerErrors, gamma: float
) -> CurvePoint:
    """One size of the net on the sample; held-out examples are not looked at."""
    relative = errors.relative
    return CurvePoint(
        asked=asked,
        parameters=stored.parameters,
        bits=bits,
        worst_relative_error=float(relative.max()),
        mean_relative_error=float(relative.mean()),
        margin_loss=margin_loss(errors.margins, gamma),
        error=margin_loss(errors.margins, 0.0),
        test_error=None,
    )


def worthless(tried: Sequence[Tried], classes: int) -> list[str]:
    """A word where the smallest bound, by which a setting was taken, is no better than guessing."""
    gentlest = min(tried, key=lambda one: one.errors)
    if len(tried) == 1 or gentlest.chosen or min(one.bound for one in tried) < 1 - 1 / classes:
        return []
    return [
        "no setting has a bound better than guessing; the smallest was taken all the same, and "
        f"{gentlest.asked} with grid {gentlest.grid} errs least ({gentlest.errors} of the "
        "examples): ask for it alone to get that net"
    ]
