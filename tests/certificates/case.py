"""One file of the corpus with its written verdict, and how claims are altered and sealed again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from tests.certificates.nets import difference, posterior
from tests.certificates.samples import sample
from tests.certificates.user_net import f

from cushion.certificates.answers import answer
from cushion.certificates.certificate import Certificate, certify_net
from cushion.certificates.format.container import MAGIC, pack
from cushion.certificates.pac_bayes import certify_gaussian
from cushion.certificates.transfer import transfer
from cushion.data.inputs import Inputs

DELTA = Decimal("0.05")
DRAWS = 10**5


@dataclass(frozen=True)
class Case:
    """data, holdout, unlabelled, features: names in `samples`; net: a factory in `user_net`, where
    f is replayed; fit: a training in `user_learner`; looks: the rows whose ledger is given.
    """

    name: str
    content: bytes
    verdict: str  # "ok" | "not ok" | "malformed"
    level: str | None  # the highest that holds; None for a malformed file
    why: str
    data: str = "halves"
    holdout: str | None = None
    unlabelled: str | None = None
    net: str | None = None
    features: str | None = None
    fit: str | None = None
    looks: str | None = None

    @property
    def folder(self) -> str:
        return {"ok": "valid", "not ok": "invalid", "malformed": "malformed"}[self.verdict]

    @property
    def description(self) -> str:
        """The text of the .json file beside the certificate."""
        kept = {key: value for key, value in vars(self).items() if key not in ("name", "content")}
        for key in ("features", "fit", "looks"):  # said where there are any
            if kept[key] is None:
                del kept[key]
        return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"


def base(holdout: bool = False) -> Certificate:
    """The true certificate that most cases alter: the difference net on `halves`."""
    return certify_net(
        difference(),
        sample("halves"),
        DELTA,
        holdout=sample("halves held out") if holdout else None,
    )


def transferred(holdout: bool = False, inputs: str = "halves unlabelled") -> Certificate:
    """The same at 4/5 of δ, with the bound on f."""
    held = sample("halves held out") if holdout else None
    plain = certify_net(difference(), sample("halves"), Decimal("0.04"), holdout=held)
    fresh = Inputs(inputs, sample(inputs).x)
    return transfer(plain, fresh, answer(f(), fresh.x), Decimal("0.001"), Decimal("0.01"))


@cache
def gaussian(holdout: bool = False) -> Certificate:
    held = sample("halves held out") if holdout else None
    return certify_gaussian(posterior(), sample("halves"), DELTA, draws=DRAWS, holdout=held)


def version_before(name: str) -> bytes:
    """A file that the version before wrote, as it was."""
    return Path(__file__).with_name(f"{name}-version-before.cushion").read_bytes()


def altered(certificate: Certificate, message: bytes | None = None, **changes: Any) -> bytes:
    """The file with some of its claim replaced, sealed again with a fitting digest."""
    claim: Any = dataclasses.replace(certificate.claim, **changes)  # type: ignore[type-var]
    return pack(claim, certificate.message if message is None else message)


def sealed(text: str | bytes, message: bytes) -> bytes:
    """A file with this claim text, whatever it is."""
    raw = text.encode() if isinstance(text, str) else text
    body = MAGIC + struct.pack("<I", len(raw)) + raw + struct.pack("<I", len(message)) + message
    return body + hashlib.sha256(body).digest()


def less(decimal: str, by: str = "0.000001") -> str:
    return format(Decimal(decimal) - Decimal(by), "f")
