"""The ways in which cushion says no.

Every message is one sentence that names the file, layer or option and what to do about it. The
command line prints it and exits with 2. A certificate that is well-formed but false is not an
error: it is an answer (a Verdict).
"""

from __future__ import annotations

import sys
import warnings


class CushionError(Exception):
    """Base of everything cushion raises on purpose; anything else is a bug in cushion."""


class BadInput(CushionError):
    """A file, array or option that cannot be used as it is."""


class Unsupported(CushionError):
    """A module or operation that the trace does not understand: its path, why, and what helps."""


class Remark(UserWarning):
    """What a person should know, though nothing is wrong; the command line prints it as a note."""


def remark(*sentences: str) -> None:
    """Warn of each, at the line of whoever called cushion."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("cushion."):
        frame, level = frame.f_back, level + 1
    for sentence in sentences:
        warnings.warn(sentence, Remark, stacklevel=level)


class Malformed(CushionError):
    """Bytes that do not follow their format; `position`: where reading stopped (bytes or bits)."""

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message if position is None else f"{message} (at position {position})")
        self.position = position
