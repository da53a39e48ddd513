"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from cushion.errors import BadInput


def check_writable(path: str | Path) -> Path:
    """Where a file named so would be written, links followed; a sentence if it cannot be."""
    if not str(path):
        raise BadInput("the name of the file to write is empty; give one")
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise BadInput(f"{path} is a folder; name a file in it")
    if not target.parent.is_dir():
        how = f"make it first, then write {target.name} there"
        raise BadInput(f"{target.parent} is not a folder; {how}")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise BadInput(f"{path} cannot be written (no permission); choose another place")
    return target


def write_whole(path: str | Path, content: bytes | str) -> Path:
    """Write a hidden `.partial` file beside it, then rename: nobody ever sees half of the file.

    Process and thread are part of the temporary name: two that write one file do not meet before
    the rename.
    """
    target = check_writable(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.partial")
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        # a device or a pipe: renaming over it would destroy it
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return target
        partial.write_bytes(data)
        os.replace(partial, target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        reason = error.strerror or error
        raise BadInput(f"{target} cannot be written ({reason}); choose another place") from None
    return target
