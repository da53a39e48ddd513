"""IDX files (the MNIST family), plain or gzip, read strictly.

Layout: two zero bytes, a type byte (0x08: unsigned byte), the number of dimensions, each dimension
as a big-endian 32-bit count, then the values in C order and nothing after them.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from cushion.data.files import check_regular
from cushion.data.formats.arrays import Arrays, Pair
from cushion.errors import BadInput, Malformed

UNSIGNED_BYTE = 0x08
IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
# read in pieces, so that a header with absurd sizes cannot ask for the memory it names
CHUNK = 1 << 22


def recognise(folder: Path) -> bool:
    """Whether the folder holds the training images or labels of the MNIST family."""
    return any(_find(folder, f"train-{rest}") for rest in (IMAGES, LABELS))


def read_folder(folder: Path) -> Pair:
    """The four files of the MNIST family: x [m, 1, H, W] uint8, y [m]; t10k-* may be absent."""
    train = _part(folder, "train")
    has_test = any(_find(folder, f"t10k-{rest}") for rest in (IMAGES, LABELS))
    return train, _part(folder, "t10k") if has_test else None


def read(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array of one file, which must have exactly `dimensions` dimensions of unsigned bytes."""
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(check_regular(path), "rb") as stream:
            return _array(cast(BinaryIO, stream), path, dimensions)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        fault = f"the gzip stream is damaged ({error})"
        raise Malformed(f"{path}: {fault}; fetch the file again") from None


def _array(stream: BinaryIO, path: Path, dimensions: int) -> NDArray[np.uint8]:
    magic = _take(stream, 4, 0, path)
    if magic[:2] != b"\0\0":
        raise Malformed(f"{path}: not an IDX file, since it does not begin with two zero bytes", 0)
    if magic[2] != UNSIGNED_BYTE:
        fault = f"IDX type 0x{magic[2]:02x} is not unsigned bytes (0x08), the only type read here"
        raise Malformed(f"{path}: {fault}", 2)
    if magic[3] != dimensions:
        fault = f"{magic[3]} dimensions where {dimensions} belong"
        raise Malformed(f"{path}: {fault}; is it the right file?", 3)
    header = 4 + 4 * dimensions
    shape = np.frombuffer(_take(stream, 4 * dimensions, 4, path), dtype=">u4").tolist()
    values = _take(stream, math.prod(shape), header, path)
    if stream.read(1):
        fault = "bytes follow the last value; the header and the data disagree"
        raise Malformed(f"{path}: {fault}", header + len(values))
    try:
        return np.frombuffer(values, dtype=np.uint8).reshape(shape)
    # no values, since one size is 0, but the others are beyond what an array can have
    except ValueError:
        sizes = " x ".join(map(str, shape))
        raise Malformed(f"{path}: sizes {sizes} are beyond any array", 4) from None


def _take(stream: BinaryIO, count: int, position: int, path: Path) -> bytearray:
    """Exactly `count` bytes from `position` on, or Malformed where the (decompressed) file ends."""
    taken = bytearray()
    while len(taken) < count:
        piece = stream.read(min(CHUNK, count - len(taken)))
        if not piece:
            end = position + len(taken)
            fault = f"since {position + count} bytes are promised but only {end} are there"
            raise Malformed(f"{path}: cut short, {fault}; fetch the file again", end)
        taken += piece
    return taken


def _find(folder: Path, name: str) -> Path | None:
    """The file, or else its gzip; a folder that holds both holds the same bytes twice."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _part(folder: Path, prefix: str) -> Arrays:
    paths = []
    for name in (f"{prefix}-{IMAGES}", f"{prefix}-{LABELS}"):
        if (path := _find(folder, name)) is None:
            fault = "the file is missing (plain or .gz)"
            raise BadInput(f"{folder / name}: {fault}; put it beside the others")
        paths.append(path)
    images, labels = paths
    x, y = read(images, 3), read(labels, 1)
    if len(x) != len(y):
        fault = f"{len(x)} images, but {labels.name} has {len(y)} labels"
        raise BadInput(f"{images}: {fault}; they must match")
    return Arrays(x[:, None], y.astype(np.int64))
