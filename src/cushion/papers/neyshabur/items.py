"""The items of Neyshabur 2017, for the registry."""

from __future__ import annotations

from cushion.papers.item import Item

_HERE = "cushion.papers.neyshabur"
_DEEP = ("1 minute (shared)", "8 minutes (shared)", "2 hours (shared)")


def _item(number: int, title: str, shows: str, times: tuple[str, str, str], maker: str) -> Item:
    name, source = f"neyshabur2017-figure{number}", f"Neyshabur 2017, Figure {number}"
    return Item(name, title, source, shows, *times, maker=f"{_HERE}.{maker}:figure{number}")


ITEMS: tuple[Item, ...] = (
    _item(
        1,
        "Norms with true and with random labels",
        "four norms over the margin of VGG nets on subsets of CIFAR-10, by size and labels",
        ("2 minutes (shared)", "1 hour (shared)", "months (shared)"),
        "norms_by_labels",
    ),
    _item(
        2,
        "Sharpness with true and with random labels",
        "largest sharpness of the nets of figure1, and expected sharpness over KL",
        ("2 minutes (shared)", "70 minutes (shared)", "months (shared)"),
        "sharpness_by_labels",
    ),
    _item(
        3,
        "Global minima with poor generalisation",
        "errors, norms, sharpness and KL of VGG nets trained with confusion sets of random labels",
        ("1 minute (shared)", "20 minutes (shared)", "weeks (shared)"),
        "minima",
    ),
    _item(
        4,
        "Two-layer perceptrons of growing width",
        "errors, norms, sharpness and KL on MNIST, by hidden units",
        ("1 minute (shared)", "8 minutes (shared)", "1 day (shared)"),
        "widths",
    ),
    _item(
        5,
        "Conditions of Theorem 1",
        "C1, C2 and C3 of a ten-layer perceptron on MNIST",
        _DEEP,
        "condition_figures",
    ),
    _item(
        6,
        "Condition C1, random and learned",
        "1/μ over three sets of indices, of the net of figure5 and of its initialisation",
        _DEEP,
        "condition_figures",
    ),
    _item(
        7,
        "Condition C2, random and learned",
        "the share of activations that flip, of the net of figure5 and of its initialisation",
        _DEEP,
        "condition_figures",
    ),
    _item(
        8,
        "Condition C3 and outputs, random and learned",
        "norms of units and lengths of outputs, of the net of figure5 and of its initialisation",
        _DEEP,
        "condition_figures",
    ),
)
