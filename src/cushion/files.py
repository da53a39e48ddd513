"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cushion.errors import BadInput


def write_whole(path: str | Path, content: bytes | str) -> Path:
    """Write to a temporary name in the same folder, then rename: a reader never sees half of the file."""
    target = Path(path)
    if not target.parent.is_dir():
        raise BadInput(f"{target.parent} is not a folder; make it first, then write {target.name} there")
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target
