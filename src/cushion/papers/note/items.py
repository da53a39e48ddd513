"""The items of the note on Arora 2018, for the registry. They share the nets of Arora 2018 and of
Neyshabur 2017.
"""

from __future__ import annotations

from cushion.papers.item import Item

_VGG19 = ("4 minutes (shared)", "50 minutes (shared)", "3 weeks (shared)")


def _item(number: int, title: str, shows: str, times: tuple[str, str, str], maker: str) -> Item:
    return Item(
        f"note-figure{number}",
        title,
        f"the note, Figure {number}",
        shows,
        *times,
        f"cushion.papers.note.{maker}",
    )


ITEMS = (
    _item(
        1,
        "Error against network size",
        "training and test error of two-layer nets over their width",
        ("1 minute (shared)", "6 minutes (shared)", "1 day (shared)"),
        "sizes:figure_1",
    ),
    _item(
        2,
        "Norm-based bounds",
        "earlier bounds beside the number of parameters",
        _VGG19,
        "stability:figure_2",
    ),
    _item(
        3,
        "Noise attenuation",
        "noise in a layer's input, followed to the output",
        _VGG19,
        "stability:figure_3",
    ),
    _item(4, "Singular values", "a filter of layer 10 of VGG-19", _VGG19, "stability:figure_4"),
    _item(
        5,
        "Correlation with generalisation: labels",
        "capacity, cushion and contraction on normal and shuffled labels",
        ("1 minute (shared)", "10 minutes (shared)", "4 days (shared)"),
        "correlation:figure_5",
    ),
    _item(
        6,
        "Correlation with generalisation: training",
        "the bound and the test error during training",
        _VGG19,
        "correlation:figure_6",
    ),
)
