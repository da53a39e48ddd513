"""Labels as people write them (from 1, text, one-hot, bool, whole floats) as classes 0, 1, 2, ....

A mapping is made where only one makes sense, and said; the source's label of each class is kept, so
that a held-out part is mapped the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.data.streaming import pieces
from cushion.data.values import as_array
from cushion.errors import BadInput

MOST_CLASSES = 10_000  # when labels alone say how many classes there are
Names = tuple[int | str, ...]
_FEW = 6  # labels that a sentence names


@dataclass(frozen=True)
class Labels:
    """names[k]: the source's label of class k; None where labels are the classes themselves."""

    classes: int
    names: Names | None = None
    remark: str = ""

    def number(self, y: NDArray[Any], where: str) -> NDArray[np.int64]:
        """[m] classes of the plain labels (whole numbers or strings) in y."""
        if self.names is None:
            if y.dtype.kind in "US" and len(y):
                said = f"{where} has the label {str(y[0])!r}, but the sample's labels are numbers"
                raise BadInput(f"{said}; label both alike")
            return whole_labels(y, where)
        if (y.dtype.kind in "US") != isinstance(self.names[0], str):
            said = f"{_listed(self.names)} in the sample"
            raise BadInput(f"{where} has labels of another kind than {said}; label both alike")
        known = np.array(self.names)
        order = np.argsort(known, kind="stable")
        at = order[np.minimum(np.searchsorted(known, y, sorter=order), len(known) - 1)]
        if (wrong := known[at] != y).any():
            strange = y[wrong][0].item()
            how = "remove those rows, or add such examples to the sample"
            raise BadInput(f"{where} has the label {strange!r}, which the sample lacks; {how}")
        return at.astype(np.int64)


def read_labels(
    parts: Sequence[Any], where: Sequence[str], classes: int | None = None
) -> tuple[list[NDArray[np.int64]], Labels]:
    """The classes of each part's labels, and how they were found, from all parts together.

    classes: their number, where it is known; labels that already lie in 0..classes-1 stay.
    """
    plain = [_plain(y, place) for y, place in zip(parts, where, strict=True)]
    said = next((remark for _, remark in plain if remark), "")
    ys = [y for y, _ in plain]
    if len({y.dtype.kind == "U" for y in ys}) > 1:
        raise BadInput(f"{where[-1]}: labels of one part are text, of the other numbers; use one")
    found = (_strings if ys[0].dtype.kind == "U" else _numbers)(ys, where, classes)
    remark = "; ".join(text for text in (said, found.remark) if text)
    return (
        [found.number(y, place) for y, place in zip(ys, where, strict=True)],
        Labels(found.classes, found.names, remark),
    )


def as_names(names: Sequence[str]) -> Names | None:
    """Names of the classes 0, 1, ..., as labels in text are read: whole numbers stand for these,
    and None says that they are the classes themselves.
    """
    found: Names = tuple(_digits(np.array(names), "names")[0].tolist())
    return None if found == tuple(range(len(found))) else found


def read_like(y: Any, where: str, like: Labels) -> NDArray[np.int64]:
    """The classes of a held-out part's labels, as in the sample."""
    return like.number(_plain(y, where)[0], where)


def _plain(y: Any, where: str) -> tuple[NDArray[Any], str]:
    """[m] whole numbers of any type or strings, from all that stands for them; and what to say."""
    y = as_array(y, where)
    if y.dtype == object:
        y = _objects(y, where)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim == 2 and y.dtype.kind in "buif":
        return _one_hot(y, where), f"{where} was one-hot"
    if y.ndim != 1:
        how = "give one label for each example"
        raise BadInput(f"{where} must be a vector of labels, not {y.dtype} {y.shape}; {how}")
    if y.dtype.kind == "b":
        return y.astype(np.int64), f"{where} was bool: False is class 0, True is class 1"
    if y.dtype.kind == "f":
        return _whole_floats(y, where), f"{where} was {y.dtype}"
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8", "backslashreplace")
    if y.dtype.kind == "U":
        _check_text(y, where)
        return _digits(y, where)
    if y.dtype.kind not in "iu":
        raise BadInput(f"{where} must hold whole numbers or strings, not {y.dtype}")
    return y, ""


def _check_text(y: NDArray[Any], where: str) -> None:
    """BadInput for what numpy stores as text and Python cannot read: numpy checks no code point."""
    if not y.nbytes:
        return
    points = np.ascontiguousarray(y).view(np.dtype(np.uint32).newbyteorder(y.dtype.byteorder))
    if bool(((points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))).any()):
        raise BadInput(f"{where} holds text that is no Unicode; write the labels again")


def _objects(y: NDArray[Any], where: str) -> NDArray[Any]:
    kinds = {type(value) for value in y.flat}
    if y.ndim == 1 and kinds and all(issubclass(kind, str) for kind in kinds):
        return y.astype(str)
    if kinds and all(issubclass(kind, (bool, int, np.integer, np.bool_)) for kind in kinds):
        if any(not -(2**63) <= int(value) < 2**63 for value in y.flat):
            how = "number the classes 0, 1, 2, ..."
            raise BadInput(f"{where} has a label that no number of 64 bits holds; {how}")
        return y.astype(np.int64)
    named = ", ".join(sorted(kind.__name__ for kind in kinds)) or "nothing"
    how = "give every example one whole number or one string"
    raise BadInput(f"{where} holds Python objects ({named}); {how}")


def _one_hot(y: NDArray[Any], where: str) -> NDArray[np.int64]:
    if y.shape[1] < 2 or not (((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all()):
        how = "give one class for each example, such as y.argmax(axis=1)"
        raise BadInput(f"{where} has shape {y.shape} and is not one-hot; {how}")
    return np.asarray(y.argmax(axis=1), np.int64)


def _whole_floats(y: NDArray[Any], where: str) -> NDArray[np.int64]:
    with np.errstate(invalid="ignore"):
        broken = ~(np.isfinite(y) & (y == np.floor(y)) & (np.abs(y) < 2**53))
    if broken.any():
        value = y[broken][0].item()
        how = "number the classes 0, 1, 2, ... (a regression has no classes)"
        raise BadInput(f"{where} has the label {value:g}, which is no whole number; {how}")
    return y.astype(np.int64)


def _digits(y: NDArray[Any], where: str) -> tuple[NDArray[Any], str]:
    """Strings that are all whole numbers stand for these."""
    known, at = np.unique(y, return_inverse=True)
    if not len(y) or not all(
        text.isascii() and text.isdigit() and len(text) < 18 for text in known
    ):
        return y, ""
    whole = known.astype(np.int64)
    if len(np.unique(whole)) < len(known):  # "1" and "01"
        return y, ""
    return whole[at], f"{where} was text"


def _strings(ys: Sequence[NDArray[Any]], where: Sequence[str], classes: int | None) -> Labels:
    names = tuple(np.unique(np.concatenate(ys)).tolist())
    if len(names) > MOST_CLASSES:
        many = f"{len(names)} different labels, more than {MOST_CLASSES}"
        raise BadInput(f"{where[0]} has {many}; are these the labels?")
    if classes is not None and classes < len(names):
        counts = f"{len(names)} different labels for {classes} classes"
        raise BadInput(f"{where[0]} has {counts}; fix the labels or the number of classes")
    listed = f"labels are text and were numbered in the order of code points: {_listed(names)}"
    return Labels(max(2, len(names), classes or 0), names, listed)


def _numbers(ys: Sequence[NDArray[Any]], where: Sequence[str], classes: int | None) -> Labels:
    """Whole numbers: from 0 they stay; 1 to K without gaps, and -1 and 1, have one meaning."""
    sets = [_seen(whole_labels(y, place)) for y, place in zip(ys, where, strict=True)]
    seen = sorted(set().union(*sets))
    if not seen:
        return Labels(classes or 2)
    low, high = seen[0], seen[-1]
    if classes is not None and (low >= 0 and high < classes):
        return Labels(classes)
    if seen == [-1, 1] and classes in (None, 2):
        return Labels(2, (-1, 1), "labels are -1 and 1, taken as classes 0 and 1")
    if classes is None and high >= MOST_CLASSES:
        fault = (
            f"{where[0]} has the label {high}, which would make more than {MOST_CLASSES} classes"
        )
        raise BadInput(f"{fault}; number the labels 0, 1, 2, ... without gaps")
    if low == 1 and high >= 2 and (len(seen) == high if classes is None else high == classes):
        given = f"cushion.Dataset(x, y, classes={high + 1})"
        pass_on = f"if class 0 is only missing here, say so in Python with {given}"
        shifted = f"labels run from 1 to {high} and were taken as classes 0 to {high - 1}"
        return Labels(high, tuple(range(1, high + 1)), f"{shifted}; {pass_on}")
    if low < 0:
        how = "number the labels 0, 1, 2, ... and remove rows without a label"
        whose = next(place for place, own in zip(where, sets, strict=True) if low in own)
        raise BadInput(f"{whose} has the label {low}, but classes start at 0; {how}")
    return Labels(max(1, high) + 1 if classes is None else classes)


def whole_labels(y: NDArray[Any], where: str) -> NDArray[np.int64]:
    """The labels as int64, from any integer type."""
    if y.dtype.kind not in "iu" or y.ndim != 1:
        said = f"not {y.dtype} of shape {y.shape}"
        raise BadInput(f"{where} must be a vector of whole numbers, {said}")
    if y.dtype == np.uint64 and len(y) and int(y.max()) > np.iinfo(np.int64).max:
        raise BadInput(f"{where} has the label {int(y.max())}, which no number of classes can hold")
    return y.astype(np.int64, copy=False)


def _seen(y: NDArray[np.int64]) -> set[int]:
    """The different labels; of very many, some of them with the smallest and the largest."""
    seen: set[int] = set()
    for _, part in pieces(y):
        seen.update(np.unique(part).tolist())
        if len(seen) > 2 * MOST_CLASSES:
            seen = {min(seen), *sorted(seen)[-MOST_CLASSES:]}
    return seen


def _listed(names: Names) -> str:
    shown = ", ".join(f"{name!r} is {k}" for k, name in enumerate(names[:_FEW]))
    return f"{shown}, ..." if len(names) > _FEW else shown
