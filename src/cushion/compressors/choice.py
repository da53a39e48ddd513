"""The candidate with the smallest Occam bound on the sample, and its certificate if it has one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from cushion.certificates.certificate import Certificate, certify_net
from cushion.certificates.format.integer_net import IntegerNet
from cushion.compressors.file import CompressedNet
from cushion.compressors.lemmas import LayerErrors, follow_induction
from cushion.compressors.method import Candidate, Found, Method
from cushion.compressors.records import CurvePoint, Occam, Tried
from cushion.compressors.storage.exact import to_integer_net
from cushion.compressors.storage.stored_net import StoredNet
from cushion.compressors.subject import Subject
from cushion.data.registered import unless_looked_at
from cushion.errors import BadInput, Malformed, Unsupported
from cushion.measures.margins import margin_loss
from cushion.numerics import float_up
from cushion.progress import working
from cushion.records import Record
from cushion.theorems.net_facts import look_at
from cushion.theorems.occam import occam_bound

# numbers up to which every message that is tried is written: a third of a second
_WRITTEN = 1 << 15


def take_best(
    method: Method, subject: Subject, delta: Decimal, notes: Mapping[str, Any]
) -> tuple[Found, list[Tried], list[CurvePoint]]:
    """The candidate with the smallest bound, and how all of them did, the best as `chosen`.

    Of a method that makes one candidate nothing is judged: its layers are followed one by one.
    """
    if method.tried is None:
        (candidate,) = resolve_name(method.candidates)(subject)
        return _found(subject, candidate, notes, layers=True), [], []
    best: Found | None = None
    keys: list[tuple[float, float]] = []
    tried: list[Tried] = []
    curve: list[CurvePoint] = []
    tries = len(subject.options.asked) * max(1, len(subject.options.grids))
    with working("settings", tries, "setting") as bar:
        for candidate in resolve_name(method.candidates)(subject):
            said = {**notes, "chosen": candidate.asked, "on": candidate.grid}
            found = _found(subject, candidate, said)
            one, beyond = _judge(method.tried, found, delta)
            asked, stored = f"{candidate.asked}, {candidate.grid}", candidate.stored
            curve.append(curve_point(asked, stored, one.bits, found.errors, subject.gamma or 0.0))
            tried.append(one)
            keys.append((one.bound, beyond))
            if best is None or keys[-1] < min(keys[:-1]):
                best = found
            bar.advance()
    assert best is not None
    at = keys.index(min(keys))
    finished = method.finish(subject, best.candidate)
    if finished is not best.candidate:  # what is written, and what really comes back
        best = _found(subject, finished, best.compressed.notes)
    bits = best.stored.bits
    bound = float_up(occam_bound(best.wrong, len(subject.sample), bits, delta))
    tried[at] = replace(tried[at], chosen=True, bits=bits, bound=bound, written=True)
    stored = best.stored
    curve[at] = replace(curve[at], bits=stored.bits, parameters=stored.parameters)
    return replace(best, tried=len(tried)), tried, curve


def _found(
    subject: Subject, candidate: Candidate, notes: Mapping[str, Any], *, layers: bool = False
) -> Found:
    """The candidate as it comes back; layers: followed one by one."""
    net, sample = subject.net, subject.sample
    compressed = CompressedNet(candidate.stored, net, dict(notes), subject.start)
    scores = None if layers else subject.net_scores
    errors = follow_induction(net, compressed.network, sample, scores=scores)
    return Found(subject, candidate, compressed, errors)


def _judge(kind: type[Tried], found: Found, delta: Decimal) -> tuple[Tried, float]:
    """Its record, by the length of its message, which is estimated where writing every one would
    take too long; and the bound's Hoeffding form before it is cut off, which still tells them apart
    where bounds are all 100 %.
    """
    candidate, m = found.candidate, len(found.errors.margins)
    written = candidate.stored.parameters <= _WRITTEN
    bits = candidate.stored.bits if written else candidate.stored.estimated_bits()
    counts: dict[str, Any] = dict(candidate.counts or {})
    tried = kind(
        asked=candidate.asked,
        grid=candidate.grid,
        bits=bits,
        errors=found.wrong,
        bound=float_up(occam_bound(found.wrong, m, bits, delta)),
        written=written,
        **counts,
    )
    return tried, found.wrong / m + math.sqrt(bits * math.log(2.0) / (2 * m))


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


ASSUMED = (
    "the examples are independent draws from one distribution, and new ones come from it too",
    "delta, the code of the message and, but for the certificate file, the architecture were fixed "
    "before the data",
    "scores that are not those of an integer net are those of this machine's floating point",
    "each bound fails with probability at most delta, the best of n of them with n times that",
)

Answer = TypeVar("Answer", bound=Record)


@dataclass(frozen=True, eq=False)
class Compressed(Generic[Answer]):
    """What `compress` returns: the net, what was found of it, and the certificate that carries it.

    A search makes an integer net, whose file is its certificate. Any other method makes a
    `CompressedNet`, with the certificate of its integer net where the format can hold it.
    """

    net: CompressedNet | IntegerNet
    summary: Answer
    certificate: Certificate | None

    @property
    def bound(self) -> float:
        """Of the certificate; 1 without one."""
        return 1.0 if self.certificate is None else self.certificate.bound

    def save(self, path: str | Path) -> Path:
        """Write the net, whole or not at all: a certificate file where a search found it, else one
        that `cushion.load_compressed` reads.
        """
        if isinstance(self.net, CompressedNet):
            return self.net.save(path)
        assert self.certificate is not None
        return self.certificate.save(path)


def certificate_of(found: Found, delta: Decimal) -> tuple[Certificate | None, str]:
    """The certificate of the integer net that the stored numbers make, or why there is none."""
    net, sample = found.compressed, found.subject.sample
    if net.start is not None:
        because = "the initialisation is floating point, which a certificate's decoder cannot make "
        return None, because + "again from a seed"
    try:
        stored = net.stored
        exact = to_integer_net(net.network, stored.layers, stored.biases, stored.seed, sample)
        made_with = dict(net.notes)
        line = unless_looked_at(found.holdout)
        return certify_net(exact, sample, delta, holdout=line, made_with=made_with), ""
    except (Unsupported, Malformed, BadInput) as problem:
        return None, str(problem)


def occam_rows(
    found: Found, delta: Decimal, certificate: Certificate | None, because: str
) -> tuple[Occam, Occam]:
    """The Occam bound on this machine's scores, and the certificate's."""
    holdout, m, bits = found.holdout, len(found.subject.sample), found.stored.bits
    held = None if holdout is None else look_at(found.network, holdout).errors
    of = None if holdout is None else len(holdout)
    bound = float_up(occam_bound(found.wrong, m, bits, delta))
    here = Occam("this machine", found.wrong, m, bits, float(delta), bound, held, of)
    if certificate is None:
        return here, Occam("certificate", 0, m, 0, float(delta), 1.0, because=because)
    claim, bits = certificate.claim, certificate.bits
    line = (None, None) if claim.holdout is None else (claim.holdout.errors, claim.holdout.m)
    bound = float_up(claim.bound)
    return here, Occam("certificate", claim.errors, m, bits, float(delta), bound, *line)
