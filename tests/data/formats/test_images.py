"""Image folders: order, classes, channels, and each refusal naming its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cushion.data import as_dataset
from cushion.data.formats import images
from cushion.errors import BadInput, Malformed


def draw(path: Path, value: int, size: tuple[int, int] = (4, 3), mode: str = "RGB") -> None:
    """A picture of `size` (width, height) whose every pixel tells its place, channel and value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    channels = {"RGB": 3, "L": 1, "RGBA": 4}[mode]
    pixels = np.zeros((height, width, channels), np.uint8)
    for i in range(height):
        for j in range(width):
            for c in range(channels):
                pixels[i, j, c] = (value + 10 * i + j + 60 * c) % 256
    Image.fromarray(pixels[..., 0] if mode == "L" else pixels).save(path)


def test_one_folder_per_class_in_sorted_order(tmp_path: Path) -> None:
    draw(tmp_path / "dog" / "b.png", 1)
    draw(tmp_path / "dog" / "a.BMP", 2)
    draw(tmp_path / "Zebra" / "z.png", 3)
    draw(tmp_path / "cat" / "c.png", 4)
    (tmp_path / "dog" / "notes.txt").write_text("ignored")
    (tmp_path / "dog" / ".hidden.png").write_text("ignored")
    (tmp_path / ".git").mkdir()
    (train, test), classes = images.read_folder(tmp_path)
    assert images.recognise(tmp_path)
    assert test is None
    assert classes == ["Zebra", "cat", "dog"]
    assert train.x.shape == (4, 3, 3, 4)
    assert train.x.dtype == np.uint8
    assert train.y.tolist() == [0, 1, 2, 2]  # Zebra, cat, dog: code points, as sorted() has them
    assert train.x[:, 0, 0, 0].tolist() == [3, 4, 2, 1]
    assert train.x[0, 2, 1, 3] == 3 + 10 + 3 + 120  # channel 2, row 1, column 3


def test_grey_images_have_one_channel(tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw(tmp_path / name / "1.png", 5, mode="L")
    (train, _), _ = images.read_folder(tmp_path)
    assert train.x.shape == (2, 1, 3, 4)
    assert train.x[1, 0, 2, 1] == 5 + 21


def test_jpeg_is_read(tmp_path: Path) -> None:
    for name, value in (("a", 0), ("b", 200)):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(
            tmp_path / name / "1.jpeg", quality=95
        )
    (train, _), _ = images.read_folder(tmp_path)
    assert abs(train.x[1].astype(int) - 200).max() <= 2


@pytest.mark.parametrize("held_out", ["test", "val"])
def test_train_and_a_held_out_folder(tmp_path: Path, held_out: str) -> None:
    for name in ("a", "b", "c"):
        draw(tmp_path / "train" / name / "1.png", 1)
        draw(tmp_path / held_out / name / "1.png", 2)
    draw(tmp_path / held_out / "c" / "2.png", 3)
    (train, test), classes = images.read_folder(tmp_path)
    assert images.recognise(tmp_path)
    assert classes == ["a", "b", "c"]
    assert train.y.tolist() == [0, 1, 2]
    assert test is not None
    assert test.y.tolist() == [0, 1, 2, 2]
    assert test.x[:, 0, 0, 0].tolist() == [2, 2, 2, 3]


def test_train_alone(tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw(tmp_path / "train" / name / "1.png", 1)
    (_, test), _ = images.read_folder(tmp_path)
    assert test is None


@pytest.mark.parametrize(
    ("size", "mode", "said"),
    [((5, 3), "RGB", "5x3 RGB"), ((4, 2), "RGB", "4x2 RGB"), ((4, 3), "L", "4x3 grey")],
)
def test_another_size_or_mode_names_the_file(
    tmp_path: Path, size: tuple[int, int], mode: str, said: str
) -> None:
    draw(tmp_path / "a" / "1.png", 1)
    draw(tmp_path / "b" / "odd.png", 1, size=size, mode=mode)
    with pytest.raises(BadInput, match=rf"b/odd\.png: this image is {said} but 1\.png is 4x3 RGB"):
        images.read_folder(tmp_path)


def test_a_held_out_part_of_another_size(tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw(tmp_path / "train" / name / "1.png", 1)
        draw(tmp_path / "test" / name / "1.png", 1, size=(6, 6))
    with pytest.raises(
        BadInput, match="test: its images are 6x6 RGB but those of train are 4x3 RGB"
    ):
        images.read_folder(tmp_path)


def test_an_unknown_class_in_the_held_out_part(tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw(tmp_path / "train" / name / "1.png", 1)
    draw(tmp_path / "test" / "c" / "1.png", 1)
    with pytest.raises(
        BadInput, match="test/c: no class of that name was trained on; the classes are a, b"
    ):
        images.read_folder(tmp_path)


def test_an_empty_class(tmp_path: Path) -> None:
    draw(tmp_path / "a" / "1.png", 1)
    (tmp_path / "b").mkdir()
    with pytest.raises(BadInput, match="b: this class folder has no PNG, JPEG or BMP image"):
        images.read_folder(tmp_path)


def test_an_unsupported_mode_names_the_file(tmp_path: Path) -> None:
    draw(tmp_path / "a" / "1.png", 1, mode="RGBA")
    with pytest.raises(BadInput, match=r"a/1\.png: images of mode RGBA are not read; convert it"):
        images.read_folder(tmp_path)


@pytest.mark.parametrize("damage", ["no image", "cut", "gif"])
def test_an_unreadable_image_names_the_file(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "a" / "1.png"
    draw(path, 1, size=(64, 64))
    if damage == "gif":
        Image.fromarray(np.zeros((4, 4), np.uint8)).save(path, format="GIF")
    else:
        path.write_bytes(b"hello" if damage == "no image" else path.read_bytes()[:80])
    with pytest.raises(Malformed, match=r"a/1\.png: not a readable PNG, JPEG or BMP image"):
        images.read_folder(tmp_path)


def test_a_held_out_folder_has_the_sample_s_classes(tmp_path: Path) -> None:
    """Folders that hold some of the classes are not numbered anew; others are refused by name."""
    for at, name in enumerate(("cat", "dog", "eel")):
        draw(tmp_path / "a" / name / "1.png", at)
        draw(tmp_path / "b" / ("fox" if name == "cat" else name) / "1.png", 9 + at)
        if name != "cat":
            draw(tmp_path / "c" / name / "1.png", 20 + at)
    sample = as_dataset(str(tmp_path / "a"))
    assert (sample.labels, sample.y.tolist()) == (("cat", "dog", "eel"), [0, 1, 2])
    assert sample.fingerprint == (
        "cbd2e74de32381664eee59f1720b6be6b731896661492e4b8a3fe3ecfdd07725"
    ), "as before classes had names"
    held = as_dataset(str(tmp_path / "c"), like=sample)
    assert (held.labels, held.classes, held.y.tolist()) == (sample.labels, 3, [1, 2])
    with pytest.raises(BadInput, match="b: y has the label 'fox', which the sample lacks"):
        as_dataset(str(tmp_path / "b"), like=sample)
    with pytest.raises(BadInput, match="has the label 'dog', but the sample's labels are numbers"):
        as_dataset(str(tmp_path / "c"), like=as_dataset((sample.x, sample.y)))


def test_folders_that_are_numbers_are_these(tmp_path: Path) -> None:
    for name in range(11):
        draw(tmp_path / "many" / str(name) / "1.png", name)
        if name < 3:
            draw(tmp_path / "few" / str(name) / "1.png", name + 50)
    few, many = as_dataset(str(tmp_path / "few")), as_dataset(str(tmp_path / "many"))
    assert few.labels is None
    assert many.labels == (0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9), "in the order of code points"
    assert as_dataset(str(tmp_path / "few"), like=many).y.tolist() == [0, 1, 3]
