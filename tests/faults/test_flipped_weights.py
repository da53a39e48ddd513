"""Files of weights carry a checksum: one flipped bit is refused at load and at resume."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.training_cases import RECIPE, assert_same_weights, make_data

from cushion.errors import Malformed
from cushion.nets.loading import checksums
from cushion.nets.loading.weights import load_net, read_tensors, save_tensors
from cushion.training.imp import train_imp
from cushion.training.training import train

DATA = make_data(30)


def flip(path: Path, at: int = -3, bit: int = 0) -> None:
    """Flip one bit of one byte of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def strip(path: Path) -> None:
    """The file as an older version wrote it."""
    with safe_open(path, framework="pt") as file:
        metadata = {key: v for key, v in file.metadata().items() if key != checksums.KEY}
    save_file(load_file(path), path, metadata)


def interrupted(folder: Path) -> Path:
    """A run of two epochs that was killed before its last file."""
    train(RECIPE, DATA, folder, epochs=2, progress=False)
    (folder / "net.safetensors").unlink()
    return folder / "checkpoint.safetensors"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "t.safetensors"
    many = {
        "floats": torch.linspace(-1, 1, 6).reshape(2, 3),
        "halves": torch.tensor([1.5, 2.0], dtype=torch.bfloat16),
        "mask": torch.tensor([True, False]),
        "nothing": torch.zeros(0, 4),
        "step": torch.tensor(7.0),
    }
    save_tensors(path, many, {"format": "test", "é": "δ"})
    return path


def test_a_flipped_bit_anywhere_is_refused_or_changes_nothing(saved: Path) -> None:
    tensors, metadata = read_tensors(saved)
    assert metadata == {"format": "test", "é": "δ"}
    content = saved.read_bytes()
    refused = 0
    places = range(0, len(content), 3)
    for at in places:
        saved.write_bytes(content)
        flip(saved, at, bit=at % 8)
        try:
            found, said = read_tensors(saved)
        except Malformed:
            refused += 1
            continue
        # what passes: blanks, other spellings of a letter, another name for the checksum itself
        assert metadata.items() <= said.items()
        assert found.keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
            assert torch.equal(found[name], tensor)
    assert refused > 0.9 * len(places)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, said: tensors["floats"].neg_(),
        lambda tensors, said: tensors.update(floats=tensors["floats"].reshape(3, 2)),
        lambda tensors, said: tensors.update(floats=tensors["floats"].view(torch.int32)),
        lambda tensors, said: tensors.update(other=tensors.pop("floats")),
        lambda tensors, said: said.update(format="best"),
        lambda tensors, said: said.pop("é"),
    ],
)
def test_the_checksum_covers_names_shapes_dtypes_bytes_and_metadata(
    saved: Path, change: Callable[[dict[str, torch.Tensor], dict[str, str]], object]
) -> None:
    tensors, said = read_tensors(saved)
    known = {**said, checksums.KEY: checksums.digest(tensors, said)}
    assert checksums.check(saved, tensors, known) == said
    change(tensors, known)
    with pytest.raises(checksums.Damaged, match="its contents are not those that were written"):
        checksums.check(saved, tensors, known)


def test_flipped_weights_of_a_checkpoint_are_not_resumed(tmp_path: Path) -> None:
    path = interrupted(tmp_path)
    flip(path)
    with pytest.raises(
        Malformed,
        match=r"checkpoint\.safetensors is damaged \(its contents are not those that were "
        r"written\); delete it to start the run again$",
    ):
        train(RECIPE, DATA, tmp_path, epochs=2, progress=False)
    path.unlink()
    assert train(RECIPE, DATA, tmp_path, epochs=2, progress=False).status == "trained"


def test_a_truncated_checkpoint_is_not_resumed(tmp_path: Path) -> None:
    path = interrupted(tmp_path)
    content = path.read_bytes()
    for length in (0, 4, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(Malformed, match="delete it to start the run again"):
            train(RECIPE, DATA, tmp_path, epochs=2, progress=False)


def test_a_changed_history_of_a_checkpoint_is_not_resumed(tmp_path: Path) -> None:
    path = interrupted(tmp_path)
    content = path.read_bytes()
    at = content.index(b"train_loss") + len(b'train_loss\\": ')
    flip(path, at)
    json.loads(path.read_bytes()[8 : 8 + int.from_bytes(content[:8], "little")])
    with pytest.raises(Malformed, match="delete it to start the run again"):
        train(RECIPE, DATA, tmp_path, epochs=2, progress=False)


@pytest.mark.parametrize("file", ["net.safetensors", "init.safetensors"])
def test_flipped_weights_of_a_net_are_not_loaded(tmp_path: Path, file: str) -> None:
    train(RECIPE, DATA, tmp_path, epochs=1, progress=False)
    flip(tmp_path / file)
    with pytest.raises(Malformed, match=r"damaged: its contents .*; take a copy of it, or delete"):
        load_net(tmp_path)
    (tmp_path / file).unlink()
    if file == "net.safetensors":
        assert train(RECIPE, DATA, tmp_path, epochs=1, progress=False).status == "resumed"
    assert load_net(tmp_path).spec is not None


def test_flipped_weights_of_a_snapshot_are_not_loaded(tmp_path: Path) -> None:
    train(RECIPE, DATA, tmp_path, epochs=1, snapshots=(1,), progress=False)
    flip(tmp_path / "epoch-0001.safetensors")
    with pytest.raises(Malformed, match="damaged"):
        load_net(tmp_path / "epoch-0001.safetensors")


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("level-00/rewind.safetensors", r"; delete .*level-00, and it is trained again$"),
        ("level-00/net.safetensors", "damaged: its contents"),
        ("level-01/checkpoint.safetensors", "; delete it to start the run again$"),
    ],
)
def test_flipped_weights_are_not_pruned_further(tmp_path: Path, file: str, sentence: str) -> None:
    how = {"epochs": 2, "rewind": 1, "fraction": 0.5, "progress": False}
    train_imp(RECIPE, DATA, tmp_path, rounds=1, **how)
    flip(tmp_path / file)
    (tmp_path / "level-01" / "net.safetensors").unlink()
    with pytest.raises(Malformed, match=sentence):
        train_imp(RECIPE, DATA, tmp_path, rounds=1, **how)


def test_files_of_older_versions_still_load_and_resume(tmp_path: Path) -> None:
    train(RECIPE, DATA, tmp_path / "whole", epochs=2, progress=False)
    train(RECIPE, DATA, tmp_path / "old", epochs=1, progress=False)
    for folder in ("whole", "old"):
        strip(tmp_path / folder / "checkpoint.safetensors")
        strip(tmp_path / folder / "net.safetensors")
        assert checksums.KEY not in read_tensors(tmp_path / folder / "net.safetensors")[1]
        assert load_net(tmp_path / folder).init is not None
    again = tmp_path / "whole" / "net.safetensors"
    (tmp_path / "copy").mkdir()
    again.rename(tmp_path / "copy" / "net.safetensors")
    assert train(RECIPE, DATA, tmp_path / "whole", epochs=2, progress=False).status == "resumed"
    assert_same_weights(tmp_path / "whole", tmp_path / "copy")
