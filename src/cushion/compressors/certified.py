"""A compressed net, the certificate of its integer net if it has one, and its Occam bounds."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Generic, TypeVar

from cushion.certificates.certificate import Certificate, certify_net
from cushion.certificates.format.integer_net import IntegerNet
from cushion.compressors.file import CompressedNet
from cushion.compressors.method import Found
from cushion.compressors.records import Occam
from cushion.compressors.storage.exact import to_integer_net
from cushion.errors import BadInput, Malformed, Unsupported
from cushion.numerics import float_up
from cushion.records import Record
from cushion.theorems.net_facts import look_at
from cushion.theorems.occam import occam_bound

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
        return certify_net(exact, sample, delta, holdout=found.holdout, made_with=made_with), ""
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
