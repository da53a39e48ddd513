"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from cushion.errors import BadInput


def write_whole(path: str | Path, content: bytes | str) -> Path:
    """Write to `.NAME.partial` in the same folder, then rename: a reader never sees half of the file.

    The temporary name is fixed, so a killed writer leaves at most one such file, which the next one replaces.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise BadInput(f"{target.parent} is not a folder; make it first, then write {target.name} there")
    partial = target.with_name(f".{target.name}.partial")
    try:
        partial.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        os.replace(partial, target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise BadInput(f"{target} cannot be written ({error.strerror or error}); choose another place") from None
    return target
