"""`cushion data get NAME`: download, check, decode, publish; once killed, it continues.

ROOT/NAME/.partial keeps each finished stage: package.tgz or package.deb (downloaded), files/
(unpacked, every hash checked). What is kept is checked again before use. The result,
ROOT/NAME/arrays, is renamed into place.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import sys
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cushion.data import catalogue, clients, store
from cushion.data.catalogue import NamedSet, Package
from cushion.data.files import sync
from cushion.data.formats import arrays, cifar, idx
from cushion.errors import BadInput, Malformed
from cushion.records import Record, column
from cushion.records.text import one_line, say

CHUNK = 1 << 20
_DAMAGED = "it is damaged or was replaced, so nothing was kept: try again later"


class SetLine(Record):
    """One line of `cushion data list`."""

    name: str = column("as `data` takes it")
    examples: int = column("in the sample", label="train")
    held_out: int = column("in the test set")
    shape: tuple[int, ...] = column("of an example")
    classes: int = column("of labels")
    origin: str = column("where it comes from")
    present: bool = column("whether it can be loaded", label="here")


def list_sets(root: Path | None = None) -> list[SetLine]:
    """Every named set, and whether it is there to be loaded."""
    return [
        SetLine(s.name, s.train, s.test, s.shape, s.classes, s.origin, store.is_present(s, root))
        for s in catalogue.SETS.values()
    ]


def get(name: str, root: Path | None = None) -> Path:
    """Make a named set loadable; the folder of its arrays, with the catalogue's fingerprints.

    A set that is already there is checked and left alone. Of two calls at once the second waits.
    """
    named = catalogue.SETS.get(name)
    if named is None:
        known = ", ".join(catalogue.SETS)
        raise BadInput(f"{name}: no set of that name; the named sets are {known}")
    if named.package is None:
        fault = f"nothing to get, since this set {named.origin}"
        raise BadInput(f"{name}: {fault}; use it by its name")
    home = (root or store.root()) / name
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _alone(home, name):
            target, partial = store.folder(name, root), home / ".partial"
            try:
                if not (store.is_present(named, root) and store.is_sound(named, target)):
                    _make(named, named.package, partial, target)
                shutil.rmtree(partial, ignore_errors=True)
            finally:
                with suppress(OSError):  # after a failure it stays if a finished stage is in it
                    partial.rmdir()
    except OSError as error:
        fault = f"cannot be written ({error.strerror or error})"
        how = "free it, or set CUSHION_DATA to another folder"
        raise BadInput(f"{home}: {fault}; {how}") from None
    return target


def _make(named: NamedSet, package: Package, partial: Path, target: Path) -> None:
    partial.mkdir(exist_ok=True)
    files = _files(named, package, partial)
    _say(f"{named.name}: decoding")
    fresh = partial / "arrays"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    train, test = (idx.read_folder if package.layout == "idx" else cifar.read_sheets)(files)
    assert test is not None, "every hash was right, so the held-out part is there"
    arrays.write_folder(fresh, train, test)
    store.write_meta(named, fresh)
    if not store.is_sound(named, fresh):
        fault = "the decoded arrays are not the published ones"
        raise BadInput(f"{named.name}: {fault}; remove {partial} and try again")
    shutil.rmtree(partial / "damaged", ignore_errors=True)
    for path in (*fresh.iterdir(), fresh):
        sync(path)
    if target.exists():
        # a folder cannot be renamed over one that has files
        os.replace(target, partial / "damaged")
    os.replace(fresh, target)
    sync(target.parent)
    _say(f"{named.name}: ready")


def _files(named: NamedSet, package: Package, partial: Path) -> Path:
    """The folder of unpacked, checked files; a kept archive that is corrupt is fetched again."""
    files = partial / "files"
    if files.is_dir() and _wrong_file(package, files) is None:
        return files
    archive = partial / ("package.tgz" if package.client == "npm" else "package.deb")
    kept = archive.is_file()
    if not kept:
        _say(f"{named.name}: downloading {package.megabytes} MB with {package.client}")
        incoming = partial / "incoming"
        try:
            os.replace(clients.download(package, incoming), archive)
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
    try:
        _unpack(named, package, archive, files)
    except Malformed:
        shutil.rmtree(partial)
        partial.mkdir()
        if not kept:
            raise
        return _files(named, package, partial)
    return files


def _unpack(named: NamedSet, package: Package, archive: Path, files: Path) -> None:
    _say(f"{named.name}: checking and unpacking")
    if package.sha256 is not None:
        with open(archive, "rb") as stream:
            found = _digest(stream, "sha256")
        if found != package.sha256:
            fault = f"the downloaded archive has sha256 {found}, not the pinned {package.sha256}"
            raise Malformed(f"{named.name}: {fault}; {_DAMAGED}")
    fresh = archive.parent / "unpacking"
    for leftover in (fresh, files):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh.mkdir()
    (_extract_tar if package.client == "npm" else _extract_deb)(package, archive, fresh)
    if (wrong := _wrong_file(package, fresh)) is not None:
        fault = f"{wrong} in the downloaded archive is missing or does not have its pinned hash"
        raise Malformed(f"{named.name}: {fault}; {_DAMAGED}")
    os.replace(fresh, files)


def _extract_tar(package: Package, archive: Path, into: Path) -> None:
    """Only the catalogue's files, under their last names: no path of the archive is trusted."""
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.name in package.files else None
                if content is not None:
                    with open(into / Path(member.name).name, "wb") as out:
                        shutil.copyfileobj(content, out, CHUNK)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        fault = f"the downloaded archive is damaged ({error})"
        raise Malformed(f"{package.name}: {fault}; try again later") from None


def _extract_deb(package: Package, archive: Path, into: Path) -> None:
    tree = archive.parent / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    clients.unpack_deb(archive, tree)
    for path in package.files:
        if (tree / path).is_file():
            os.replace(tree / path, into / Path(path).name)
    shutil.rmtree(tree)


def _wrong_file(package: Package, folder: Path) -> str | None:
    """The first of the package's files that is missing or whose content is not the pinned one."""
    for path, pinned in package.files.items():
        file = folder / Path(path).name
        try:
            with gzip.open(file) if file.suffix == ".gz" else open(file, "rb") as stream:
                if _digest(stream, "md5") != pinned:
                    return file.name
        except (FileNotFoundError, gzip.BadGzipFile, EOFError, zlib.error):
            return file.name
    return None


def _digest(stream: Any, algorithm: str) -> str:
    # the publishers' md5; the fingerprint is sha256
    empty = hashlib.new(algorithm, usedforsecurity=False)
    return hashlib.file_digest(stream, empty.copy).hexdigest()


@contextmanager
def _alone(home: Path, name: str) -> Iterator[None]:
    """Hold ROOT/NAME/.lock; the kernel lets go of it when the process ends, however it ends."""
    import fcntl

    with open(home / ".lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"{name}: waiting for another `cushion data get {name}`")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    if sys.stderr.isatty():
        say(one_line(line))
