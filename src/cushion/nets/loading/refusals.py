"""What every way of loading a net says when it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cushion.data.files import check_regular
from cushion.errors import BadInput


def check_exists(path: Path, instead: str) -> None:
    """BadInput unless a file is there, which a pipe or device is not; instead: what to give."""
    if not check_regular(path).is_file():
        raise BadInput(f"{path} does not exist; give {instead}")


@contextmanager
def refusing(said: str, *, named: bool = False) -> Iterator[None]:
    """Whatever somebody else's code raises inside becomes one sentence."""
    try:
        yield
    except (Exception, SystemExit) as error:
        kind = f"{type(error).__name__}: " if named else ""
        raise BadInput(f"{said} {kind}{first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """The first line of an exception's text, or its kind."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def factory_for(path: Path) -> str:
    """The way out for weights without a net."""
    return f"give file.py:factory with `weights` = {path}"
