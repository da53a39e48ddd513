"""Files that appear whole or not at all, and stay; files that can be read to an end.

What a process that was killed left behind is swept by the next one that writes beside it.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import stat
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path

from cushion.errors import BadInput

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# .NAME.HOST-PROCESS-THREAD.partial
_PARTIAL = re.compile(r"\..+\.([0-9a-f]{12})-([0-9]{1,10})-[0-9]+\.partial")
# Which bytes every ledger of looks begins with (FORMAT.md, section 9.4).
_LEDGER = re.compile(rb'\{"chain":"[0-9a-f]{64}","classes":')
_WRITING: set[Path] = set()  # by threads of this process


def check_regular(path: str | Path, how: str = "") -> Path:
    """The path, unless a pipe, socket, device or folder is there: BadInput before it is opened.

    Opening a pipe waits for a writer, and a device never ends. What is not there is the caller's.
    how: what to do about it, in the end of the sentence.
    """
    try:
        kind = _KINDS.get(stat.S_IFMT(os.stat(path).st_mode))
    except (OSError, ValueError):
        return Path(path)
    if kind is not None:
        usual = "name a file in it" if kind == "a folder" else "write what it gives to a file first"
        raise BadInput(f"{path} is {kind} and not a file; {how or usual}")
    return Path(path)


def check_writable(path: str | Path) -> Path:
    """Where a file named so would be written, links followed; a sentence if it cannot be."""
    if not str(path):
        raise BadInput("the name of the file to write is empty; give one")
    target = Path(os.path.realpath(path))
    if Path(path).exists() and not target.exists():  # /dev/stdout, where that is a pipe
        target = Path(path)
    if target.is_dir():
        raise BadInput(f"{path} is a folder; name a file in it")
    if not target.parent.is_dir():
        how = f"make it first, then write {target.name} there"
        raise BadInput(f"{target.parent} is not a folder; {how}")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise BadInput(f"{path} cannot be written (no permission); choose another place")
    if _is_ledger(target):
        raise BadInput(f"{path} exists and is a ledger of looks, which is kept; give another name")
    return target


def _is_ledger(path: Path) -> bool:
    """Whether a file is a ledger of looks: written over, nobody would know what was told."""
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as file:
            return _LEDGER.match(file.read(100)) is not None
    except OSError:
        return False


def write_whole(path: str | Path, content: bytes | str) -> Path:
    """Write a hidden `.partial` file beside it, to the disk, then rename: nobody ever sees half.

    A crash at any moment, of the process or of the machine, leaves the old file or the new one.
    Host, process and thread are part of the temporary name: two that write one file do not meet
    before the rename.
    """
    target = check_writable(path)
    own = f"{_host()}-{os.getpid()}-{threading.get_ident()}"
    partial = target.with_name(f".{target.name}.{own}.partial")
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        # a device or a pipe: renaming over it would destroy it
        if target.exists() and not target.is_file():
            target.write_bytes(data)
            return target
        _WRITING.add(partial)
        partial.write_bytes(data)
        sync(partial)
        os.replace(partial, target)
        sync(target.parent)
        sweep(target.parent)
    except OSError as error:
        reason = error.strerror or error
        raise BadInput(f"{target} cannot be written ({reason}); choose another place") from None
    finally:
        with suppress(OSError):  # there only if something went wrong
            partial.unlink(missing_ok=True)
        _WRITING.discard(partial)
    return target


def sync(path: Path) -> None:
    """Wait until the disk has the file, or a folder's names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        # some file systems cannot for folders; of a file's failed write the user has to know
        if not path.is_dir():
            raise
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Remove the `.partial` files of processes of this host that are no more."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _PARTIAL.fullmatch(entry.name)
            if found and found[1] == _host() and not _is_alive(int(found[2]), folder / entry.name):
                with suppress(OSError):
                    os.unlink(entry.path)


@cache
def _host() -> str:
    """This machine and its count of processes: in a container the numbers mean other ones."""
    try:
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        numbers = ""
    return hashlib.sha256(f"{socket.gethostname()} {numbers}".encode()).hexdigest()[:12]


def _is_alive(process: int, partial: Path) -> bool:
    if process == os.getpid():  # the number is ours, the file may be of one before us
        return partial in _WRITING
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
