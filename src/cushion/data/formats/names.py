"""What people call inputs and labels in numpy's files: x and y, or another usual pair of names."""

from __future__ import annotations

from collections.abc import Collection

Names = tuple[str, str]  # of the inputs and of the labels

_OTHERS: dict[str, tuple[Names, ...]] = {
    "x": (
        ("x_train", "y_train"),
        ("X", "y"),
        ("X", "Y"),
        ("X_train", "y_train"),
        ("X_train", "Y_train"),
        ("images", "labels"),
        ("train_images", "train_labels"),
        ("data", "target"),
    ),
    "x_test": (("X_test", "y_test"), ("X_test", "Y_test"), ("test_images", "test_labels")),
}


def find_names(names: Collection[str], key: str) -> Names:
    """What the part `key` ("x" or "x_test") is called among these names.

    x and y (x_test and y_test) where one of them is there; otherwise the one usual pair of which
    both are. Where there is none, or several: x and y, so that what is missing is told by them.

    >>> find_names(["images", "labels"], "x"), find_names(["X", "x", "y"], "x")
    (('images', 'labels'), ('x', 'y'))
    """
    own = (key, f"y{key[1:]}")
    found = [pair for pair in _OTHERS[key] if set(pair) <= set(names)]
    return own if own[0] in names or len(found) != 1 else found[0]


def find_inputs(names: Collection[str], key: str) -> str:
    """What the inputs of the part are called, where labels are not looked at."""
    found = {pair[0] for pair in _OTHERS[key]} & set(names)
    return key if key in names or len(found) != 1 else found.pop()
