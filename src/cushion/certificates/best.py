"""The best so far of a search, on disk: a certificate file whose notes say which search it is of.

A search that was killed and is asked for again, on the same data with the same options, goes on
from it: it keeps the net, and begins again with the try that was under way. Any other search begins
anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cushion.certificates.certificate import Certificate
from cushion.certificates.format.claims import OccamClaim
from cushion.certificates.format.container import MAGIC, unpack
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.message import decode
from cushion.certificates.search.task import Place, Start
from cushion.data.files import check_regular
from cushion.errors import BadInput, Malformed

_MOST_BYTES = 2**26  # of a certificate file
_MOST_TRIES, _MOST_SECONDS = 10**9, 1e7  # of a search
Tell = Callable[[str], None]


def tell_nobody(sentence: str) -> None:
    """Says nothing."""


def identify(**what: Any) -> str:
    """sha256 of what makes a search the same search: data, options, the net that it imitates."""
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _place(tries: Any, seconds: Any) -> Place:
    """How far the search was; Malformed for numbers that no search has."""
    if type(tries) is not int or type(seconds) not in (int, float):
        raise Malformed("tries and seconds must be numbers")
    if not (0 <= tries <= _MOST_TRIES and 0 <= seconds <= _MOST_SECONDS):
        raise Malformed("no search makes so many tries or takes so long")
    return Place(tries, float(seconds))


def is_best(path: Path) -> bool:
    """Whether a file begins as one that `BestFile` wrote."""
    with open(path, "rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def tell_another(path: Path, tell: Tell) -> None:
    """Say that the file is of another search."""
    tell(
        f"{path} is the best so far of another search (other data or options); this one begins "
        "anew and writes over it"
    )


@dataclass
class BestFile:
    """Where a search keeps its best. certificate(net, notes) states what is proved about a net.

    another: whether a file is what a search of another kind keeps.
    """

    path: Path
    identity: str
    certificate: Callable[[IntegerNet, Mapping[str, Any]], Certificate]
    tell: Tell = tell_nobody
    another: Callable[[Path], bool] = lambda _: False
    _lost: bool = False

    def start(self) -> Start | None:
        """From where to go on; None if there is nothing, or the file is of another search.

        BadInput for a file that `keep` would write over and no search can have written.
        """
        if not check_regular(self.path, "move it away").exists():
            return None
        if self.another(self.path):
            tell_another(self.path, self.tell)
            return None
        try:
            if self.path.stat().st_size > _MOST_BYTES:
                raise Malformed("longer than any certificate file")
            claim, message = unpack(self.path.read_bytes())
            assert isinstance(claim, OccamClaim)
            if claim.made_with.get("search") != self.identity:
                tell_another(self.path, self.tell)
                return None
            net = decode(message, claim.bits)
            place = _place(claim.made_with["tries"], claim.made_with["seconds"])
        except (Malformed, OSError, AssertionError, KeyError, TypeError, ValueError):
            raise BadInput(
                f"{self.path} is no best so far of a search, or was damaged; move it away, as this "
                "search keeps its own there"
            ) from None
        self.tell(
            f"going on from {self.path}: a bound of {claim.bound} so far, found by a search that "
            "did not end"
        )
        return Start(net, place)

    def keep(self, net: IntegerNet, place: Place) -> None:
        """Write a new best; where that fails the search goes on, and it is said once."""
        notes = {"search": self.identity, "tries": place.tries, "seconds": place.seconds}
        try:
            self.certificate(net, notes).save(self.path)
        except BadInput as problem:
            if not self._lost:
                self.tell(f"the best so far is not kept: {problem}")
            self._lost = True
