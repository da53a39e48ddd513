"""What a user may write after --data, and the sentence for everything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from cushion.data import catalogue, load, load_pair, permutation, store
from cushion.data.formats import arrays
from cushion.data.formats.arrays import Arrays
from cushion.errors import BadInput


@pytest.fixture(autouse=True)
def no_fetched_sets(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path_factory.mktemp("data")))


def test_digits_are_scikit_learns_in_the_order_of_the_permutation() -> None:
    sample, held_out = load_pair("digits")
    assert held_out is not None
    bunch, order = load_digits(), permutation(1797, seed=0)
    for part, rows in ((sample, order[:1500]), (held_out, order[1500:])):
        assert part.x.dtype == np.uint8
        assert part.x.shape == (len(rows), 1, 8, 8)
        assert (part.x[:, 0] == bunch.images[rows] * 15).all()
        assert (part.y == bunch.target[rows]).all()
        assert part.classes == 10
    source = "digits: scikit-learn's 1797 images, pixels 0..16 multiplied by 15"
    assert sample.history == (source, "split: the first 1500 rows of permutation(1797, seed=0)")
    assert held_out.history == (source, "split: the last 297 rows of permutation(1797, seed=0)")
    assert sample.x.max() == 240


def test_digits_never_change() -> None:
    pinned = catalogue.DIGITS
    assert load("digits").fingerprint == pinned.train_fingerprint
    assert load("digits", "test").fingerprint == pinned.test_fingerprint
    assert (len(load("digits")), len(load("digits", "test"))) == (pinned.train, pinned.test)


def test_digits_without_the_table_file_come_from_the_public_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store.importlib.util, "find_spec", lambda name: None)
    assert load("digits").fingerprint == catalogue.DIGITS.train_fingerprint


def save(folder: Path, labels: list[int], test_labels: list[int] | None = None) -> Path:
    path = folder / "toy.npz"
    arrays = {"x": np.zeros((len(labels), 2), np.uint8), "y": np.array(labels, dtype=int)}
    if test_labels is not None:
        arrays |= {
            "x_test": np.ones((len(test_labels), 2), np.uint8),
            "y_test": np.array(test_labels, dtype=int),
        }
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("labels", "test_labels", "classes"),
    [([0, 0], None, 2), ([0, 1, 4], None, 5), ([0, 1], [6], 7), ([3], [0], 4)],
)
def test_classes_are_read_off_both_parts(
    tmp_path: Path, labels: list[int], test_labels: list[int] | None, classes: int
) -> None:
    sample, held_out = load_pair(save(tmp_path, labels, test_labels))
    assert sample.classes == classes
    assert held_out is None or held_out.classes == classes


def test_names_are_never_paths(tmp_path: Path) -> None:
    sample, held_out = load_pair(str(save(tmp_path, [0, 1], [1])))
    assert sample.name == "toy.npz"
    assert held_out is not None
    assert held_out.name == "toy.npz test"
    assert sample.history == ()


def test_the_split_argument(tmp_path: Path) -> None:
    path = save(tmp_path, [0, 1], [1])
    assert load(path).x.max() == 0
    assert load(path, "test").x.max() == 1
    with pytest.raises(BadInput, match=r"^a split is 'train' or 'test', not 'valid'$"):
        load(path, "valid")  # type: ignore[arg-type]


def test_no_held_out_part(tmp_path: Path) -> None:
    path = save(tmp_path, [0, 1])
    assert load_pair(path)[1] is None
    with pytest.raises(BadInput, match=r"toy\.npz: this source has no held-out part"):
        load(path, "test")


def test_a_folder_keeps_the_layouts_classes(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / "pictures" / "train" / name).mkdir(parents=True)
        Image.new("RGB", (2, 2)).save(tmp_path / "pictures" / "train" / name / "1.png")
    assert load(tmp_path / "pictures").classes == 3


def test_one_class_folder_is_no_classification(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.new("RGB", (2, 2)).save(tmp_path / "a" / "1.png")
    with pytest.raises(BadInput, match="at least 2 classes, not 1"):
        load(tmp_path)


def test_labels_outside_the_layouts_classes(tmp_path: Path) -> None:
    for batch in range(5):
        (tmp_path / f"data_batch_{batch + 1}.bin").write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(BadInput, match=r"label 10 is outside the 10 classes \(0 to 9\)"):
        load(tmp_path)


def test_negative_labels_lengths_and_empty_sets(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"toy\.npz: y has the label -1, but classes start at 0"):
        load(save(tmp_path, [0, -1]))
    with pytest.raises(BadInput, match=r"toy\.npz test: y has the label -3"):
        load(save(tmp_path, [0, 1], [-3]))
    with pytest.raises(BadInput, match=r"toy\.npz: the set is empty"):
        load(save(tmp_path, []))
    np.savez(tmp_path / "toy.npz", x=np.zeros((3, 2), np.uint8), y=np.array([0, 1]))
    with pytest.raises(BadInput, match=r"toy\.npz: x has 3 rows but y has 2"):
        load(tmp_path / "toy.npz")


@pytest.mark.parametrize("x_test", [np.zeros((1, 3), np.uint8), np.zeros((1, 2), np.float32)])
def test_parts_must_be_alike(tmp_path: Path, x_test: np.ndarray) -> None:
    np.savez(
        tmp_path / "toy.npz", x=np.zeros((2, 2), np.uint8), y=[0, 1], x_test=x_test, y_test=[0]
    )
    with pytest.raises(
        BadInput, match=r"toy\.npz: held-out examples are .* but the sample's are uint8 \(2,\)"
    ):
        load(tmp_path / "toy.npz")


@pytest.mark.parametrize("source", ["mnsit", "no/such/file.npz", ""])
def test_an_unknown_source_lists_the_names(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sentence = (
        "no such file or folder, nor a named set; the named sets are digits, mnist, fashion-mnist, "
        "cifar10$"
    )
    with pytest.raises(
        BadInput,
        match=f"^{source}: {sentence}"
        if source
        else "^the source of the data is empty; give a name",
    ):
        load(source)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_a_set_that_was_not_fetched_says_how(name: str) -> None:
    with pytest.raises(
        BadInput,
        match=f"^{name}: this set has not been downloaded; run `cushion data get {name}` first$",
    ):
        load(name)


def test_a_known_name_wins_over_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = Arrays(np.zeros((2, 1, 2, 2), np.uint8), np.array([0, 1]))
    (tmp_path / "mnist").mkdir()
    arrays.write_folder(tmp_path / "mnist", part, part)
    monkeypatch.chdir(tmp_path)
    assert len(load("./mnist")) == 2
    with pytest.raises(BadInput, match="has not been downloaded"):
        load("mnist")


def test_a_single_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"")
    with pytest.raises(
        BadInput,
        match=r"a single file must be an \.npz with x and y; for other layouts give the folder",
    ):
        load(tmp_path / "train-images-idx3-ubyte")


def test_an_unreadable_file_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path, [0, 1])

    def denied(*_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("cushion.data.formats.arrays.np.load", denied)
    with pytest.raises(BadInput, match=r"toy\.npz: cannot be read \(Permission denied\)"):
        load(path)
