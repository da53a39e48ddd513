"""Image folders: one sub-folder a class, optionally below train/ and test/ (or val/)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cushion.data.files import check_regular
from cushion.data.formats.arrays import Arrays, Pair
from cushion.errors import BadInput, Malformed
from cushion.progress import progress

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp")
MODES = ("L", "RGB")
_CONVERT = "convert all images to one size and mode"


def recognise(folder: Path) -> bool:
    """Whether some sub-folder (or one of train/) holds images."""
    classes = _classes(folder / "train" if (folder / "train").is_dir() else folder)
    return any(_files(folder) for folder in classes)


def read_folder(folder: Path) -> tuple[Pair, list[str]]:
    """x [m, C, H, W] uint8 with C = 1 (grey) or 3, y [m], and the names of the classes.

    Class k is the k-th sub-folder in the order of code points; within a class, files follow the
    same order. A held-out part is read from test/, or else val/, beside train/, with the classes of
    train/.
    """
    divided = (folder / "train").is_dir()
    first = folder / "train" if divided else folder
    classes = [path.name for path in _classes(first)]
    train = _part(first, classes)
    others = [folder / name for name in ("test", "val") if (folder / name).is_dir()]
    if not (divided and others):
        return (train, None), classes
    test = _part(others[0], classes)
    if test.x.shape[1:] != train.x.shape[1:]:
        sizes = f"its images are {_size(test.x)} but those of train are {_size(train.x)}"
        raise BadInput(f"{others[0]}: {sizes}; {_CONVERT}")
    return (train, test), classes


def _part(folder: Path, classes: list[str]) -> Arrays:
    for path in _classes(folder):
        if path.name not in classes:
            known = f"the classes are {', '.join(classes)}"
            raise BadInput(f"{path}: no class of that name was trained on; {known}")
    files: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        found = _files(folder / name)
        files += found
        labels += [label] * len(found)
        if not found:
            fault = "this class folder has no PNG, JPEG or BMP image"
            raise BadInput(f"{folder / name}: {fault}; add some or remove it")
    first = _image(files[0])
    x = np.empty((len(files), *first.shape), dtype=np.uint8)
    for row, path in enumerate(progress(files, f"reading {folder.name}", "image")):
        image = _image(path)
        if image.shape != first.shape:
            sizes = f"this image is {_size(image)} but {files[0].name} is {_size(first)}"
            raise BadInput(f"{path}: {sizes}; {_CONVERT}")
        x[row] = image
    return Arrays(x, np.array(labels, dtype=np.int64))


def _image(path: Path) -> NDArray[np.uint8]:
    """One image as [C, H, W]."""
    from PIL import Image

    try:
        with Image.open(check_regular(path), formats=["PNG", "JPEG", "BMP"]) as image:
            if image.mode not in MODES:
                fault = f"images of mode {image.mode} are not read"
                raise BadInput(f"{path}: {fault}; convert it to 8-bit grey or RGB")
            pixels = np.asarray(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        fault = f"not a readable PNG, JPEG or BMP image ({error})"
        raise Malformed(f"{path}: {fault}; replace it") from None
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _size(x: NDArray[np.uint8]) -> str:
    channels, height, width = x.shape[-3:]
    return f"{width}x{height} {'grey' if channels == 1 else 'RGB'}"


def _classes(folder: Path) -> list[Path]:
    """Sub-folders in the order of code points, without hidden ones."""
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _files(folder: Path) -> list[Path]:
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(p for p in found if p.suffix.lower() in ENDINGS and not p.name.startswith("."))
