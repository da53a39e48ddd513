"""A training under way, on disk, from which a search that was killed goes on: of a posterior, or of
a try of the integer search.

A safetensors file with a checksum; its metadata say which search it is of. Nothing in it is
trusted, and nothing of it is run: it holds numbers only, of which the shapes are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cushion.certificates.best import Tell, is_best, tell_another, tell_nobody
from cushion.certificates.search.pausing import Paused
from cushion.data.files import check_regular
from cushion.errors import BadInput, Malformed
from cushion.nets.loading.weights import read_metadata, read_tensors, save_tensors

_KIND = "search under way"
_CLOCK = {"seconds": float, "steps": int, "error": float, "tries": int, "whole": float}
_CLOCK |= {"before": float, "phase": str}


@dataclass
class StateFile:
    """Where the state of one search is kept; identity: `best.identify` of the search."""

    path: Path
    identity: str
    tell: Tell = tell_nobody
    what: str = "a posterior"
    _lost: bool = False

    def start(self) -> Paused | None:
        """From where to go on; None if there is nothing, or the file is of another search.

        BadInput for a file that `keep` would write over and no search can have written.
        """
        if not check_regular(self.path, "move it away").exists():
            return None
        if is_best(self.path):
            tell_another(self.path, self.tell)
            return None
        try:
            tensors, said = read_tensors(self.path)
            if said.get("kind") != _KIND:
                raise Malformed("another file")
            if said.get("search") != self.identity:
                tell_another(self.path, self.tell)
                return None
            clock: dict[str, Any] = {name: read(said[name]) for name, read in _CLOCK.items()}
            paused = Paused(tensors, **clock)
        except (Malformed, KeyError, ValueError, OverflowError):
            raise self.refusal() from None
        self.tell(
            f"going on from {self.path}: {self.what} after {paused.steps} steps, of a search that "
            "did not end"
        )
        return paused

    def refusal(self) -> BadInput:
        """The file is not what `keep` writes for this search."""
        return BadInput(
            f"{self.path} is no {self.what.split(' ', 1)[1]} that a search has under way, or was "
            "damaged; move it away, as this search keeps its own there"
        )

    def keep(self, paused: Paused) -> None:
        """Write the state, whole or not at all; where that fails training goes on, said once."""
        clock = {name: str(getattr(paused, name)) for name in _CLOCK}
        try:
            save_tensors(
                self.path, paused.tensors, {"kind": _KIND, "search": self.identity, **clock}
            )
        except BadInput as problem:
            if not self._lost:
                self.tell(f"{self.what} so far is not kept: {problem}")
            self._lost = True


def is_state(path: Path) -> bool:
    """Whether this is a file that `StateFile` wrote."""
    return read_metadata(path).get("kind") == _KIND
