"""Which layout a folder has, and reading it; torchvision's is one of these a level or two down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from cushion.data.formats import arrays, cifar, idx, images
from cushion.data.formats.arrays import Pair
from cushion.errors import BadInput

IDX_FAMILY = ("MNIST", "FashionMNIST", "KMNIST", "QMNIST")  # torchvision: ROOT/<name>/raw
Classes = int | list[str] | None  # their number, their names, or what the labels say
Reader = Callable[[], tuple[Pair, Classes]]


def read(folder: Path) -> tuple[Pair, Classes]:
    """Both parts, and the number or the names of the classes where the layout fixes them."""
    found = [(place, reader) for place in _places(folder) for reader in _readers(place)]
    if len(found) > 1:
        names = ", ".join(str(place.relative_to(folder)) for place, _ in found)
        raise BadInput(f"{folder}: this folder holds several sets ({names}); point at one of them")
    if found:
        return found[0][1]()
    if images.recognise(folder):
        return images.read_folder(folder)
    raise BadInput(
        f"{folder}: no known layout in this folder; it may hold IDX files, CIFAR batches (binary "
        "or python), x_train.npy and y_train.npy (or x.npy and y.npy), a torchvision folder, or "
        "one sub-folder of images per class"
    )


def _places(folder: Path) -> Iterator[Path]:
    yield folder
    yield folder / "raw"
    yield from (folder / name / "raw" for name in IDX_FAMILY)
    yield from (folder / layout.folder for layout in cifar.LAYOUTS)


def _readers(place: Path) -> Iterator[Reader]:
    if arrays.recognise(place):
        yield lambda: (arrays.read_folder(place), None)
    if idx.recognise(place):
        yield lambda: (idx.read_folder(place), None)
    layout = cifar.recognise(place)
    if layout is not None:
        yield lambda: (cifar.read_folder(place, layout), layout.classes)
