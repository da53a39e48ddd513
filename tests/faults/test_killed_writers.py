"""A file appears whole or not at all, also when its writer is killed; what is left is swept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cushion.data import files
from cushion.data.files import sweep, write_whole
from cushion.errors import BadInput

# Writes a file whose second half never gets there: the process kills itself in the middle.
KILLED = """
import os, signal, sys
from pathlib import Path
from cushion.data import files

def half(self, data):
    with open(self, "wb") as stream:
        stream.write(data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)

def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[2] == "writing":
    Path.write_bytes = half
elif sys.argv[2] == "syncing":
    files.sync = killed
else:
    os.replace = killed
files.write_whole(sys.argv[1], b"new" * 1000)
"""


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".partial"))


@pytest.mark.parametrize("moment", ["writing", "syncing", "renaming"])
def test_kill_9_leaves_the_old_file_whole_and_the_next_writer_sweeps(
    tmp_path: Path, moment: str
) -> None:
    target = tmp_path / "net"
    target.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(target), moment], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old"
    assert len(leftovers(tmp_path)) == 1
    write_whole(tmp_path / "another", "text")
    assert leftovers(tmp_path) == []
    assert target.read_bytes() == b"old"


def partial(folder: Path, process: int, host: str = "") -> Path:
    path = folder / f".net.{host or files._host()}-{process}-1.partial"
    path.write_bytes(b"half")
    return path


def test_what_a_living_process_another_host_or_somebody_else_writes_stays(tmp_path: Path) -> None:
    living = partial(tmp_path, os.getppid())
    foreign = partial(tmp_path, dead_process(), host="0" * 12)
    others = [tmp_path / ".net.partial", tmp_path / f"net.{files._host()}-{dead_process()}-1.part"]
    for path in others:
        path.write_bytes(b"")
    write_whole(tmp_path / "x", "")
    assert all(path.exists() for path in (living, foreign, *others))


def test_what_another_thread_is_writing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []
    sync = files.sync

    def meanwhile(path: Path) -> None:
        if path.name.startswith(".slow"):
            other = threading.Thread(target=write_whole, args=(tmp_path / "quick", "2"))
            other.start()
            other.join()
            found.append(leftovers(tmp_path))
        sync(path)

    monkeypatch.setattr(files, "sync", meanwhile)
    write_whole(tmp_path / "slow", "1")
    assert len(found[0]) == 1
    assert ((tmp_path / "slow").read_text(), (tmp_path / "quick").read_text()) == ("1", "2")


def test_a_file_of_an_earlier_process_that_had_our_number_is_swept(tmp_path: Path) -> None:
    stale = partial(tmp_path, os.getpid())
    sweep(tmp_path)
    assert not stale.exists()


def dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as one:
        one.wait()
    return one.pid


def test_the_bytes_are_on_the_disk_before_the_name_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, order = tmp_path / "net", []
    replace = os.replace

    def synced(handle: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{handle}"))
        folder = name == tmp_path.resolve()
        order.append("folder" if folder else f"{name.suffix} {name.read_bytes().decode()}")

    def renamed(old: Path, new: Path) -> None:
        order.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_whole(target, "all of it")
    assert order == [".partial all of it", "rename", "folder"]


@pytest.mark.parametrize("stop", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_or_is_stopped_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException
) -> None:
    (tmp_path / "net").write_bytes(b"old")

    def failing(_: int) -> None:
        raise stop

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises((BadInput, KeyboardInterrupt)) as caught:
        write_whole(tmp_path / "net", b"new")
    if isinstance(stop, OSError):
        assert "cannot be written (No space left on device)" in str(caught.value)
    assert (leftovers(tmp_path), (tmp_path / "net").read_bytes()) == ([], b"old")


def test_a_folder_that_cannot_be_synced_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[[int], None] = os.fsync

    def refusing(handle: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{handle}")).is_dir():
            raise OSError(22, "Invalid argument")
        real(handle)

    monkeypatch.setattr(os, "fsync", refusing)
    assert write_whole(tmp_path / "net", "x").read_text() == "x"
