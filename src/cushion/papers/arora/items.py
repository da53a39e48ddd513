"""The items of Arora 2018, for the registry. All of VGG-19 share one training, and so do the
AlexNets.
"""

from __future__ import annotations

from cushion.papers.item import Item

_VGG19 = ("4 minutes (shared)", "50 minutes (shared)", "3 weeks (shared)")
_ALEXNETS = ("1 minute (shared)", "10 minutes (shared)", "4 days (shared)")


def _item(
    name: str, title: str, shown: str, shows: str, times: tuple[str, str, str], maker: str
) -> Item:
    return Item(
        f"arora2018-{name}",
        title,
        f"Arora 2018, {shown}",
        shows,
        *times,
        f"cushion.papers.arora.{maker}",
    )


ITEMS = (
    _item(
        "figure1a", "Layer cushion", "Figure 1a", "layer 13 of VGG-19", _VGG19, "spreads:figure_1a"
    ),
    _item(
        "figure1b",
        "Interlayer cushion",
        "Figure 1b",
        "the same layer, unclipped",
        _VGG19,
        "spreads:figure_1b",
    ),
    _item(
        "figure1c",
        "Activation contraction",
        "Figure 1c",
        "the same layer",
        _VGG19,
        "spreads:figure_1c",
    ),
    _item(
        "figure1d",
        "Interlayer smoothness",
        "Figure 1d",
        "the same layer",
        _VGG19,
        "spreads:figure_1d",
    ),
    _item(
        "figure2-left",
        "Normal against shuffled labels",
        "Figure 2 left",
        "layer cushion and contraction of layer 5 of two AlexNets",
        _ALEXNETS,
        "labels:figure_2_left",
    ),
    _item(
        "figure2-middle",
        "Bounds side by side",
        "Figure 2 middle",
        "four earlier bounds, noise stability, the number of parameters",
        _VGG19,
        "bounds:figure_2_middle",
    ),
    _item(
        "figure2-right",
        "The bound during training",
        "Figure 2 right",
        "errors and bound after more and more epochs",
        _VGG19,
        "bounds:figure_2_right",
    ),
    _item(
        "table1",
        "Effective parameters",
        "Table 1",
        "seven layers beside the paper's",
        _VGG19,
        "table:table_1",
    ),
    _item(
        "figure-a1",
        "Layer cushions",
        "Figure A.1",
        "all layers of VGG-19",
        _VGG19,
        "spreads:figure_a1",
    ),
    _item(
        "figure-a2",
        "Interlayer cushions",
        "Figure A.2",
        "all layers of VGG-19",
        _VGG19,
        "spreads:figure_a2",
    ),
    _item(
        "figure-a3",
        "Activation contractions",
        "Figure A.3",
        "all layers of VGG-19",
        _VGG19,
        "spreads:figure_a3",
    ),
    _item(
        "figure-a4",
        "Interlayer smoothness",
        "Figure A.4",
        "all layers of VGG-19",
        _VGG19,
        "spreads:figure_a4",
    ),
    _item(
        "figure-a5",
        "Well-distributed Jacobians",
        "Figure A.5",
        "convolutions of VGG-19",
        _VGG19,
        "spreads:figure_a5",
    ),
    _item(
        "figure-a6",
        "Cushions by labels",
        "Figure A.6",
        "all layers of AlexNet",
        _ALEXNETS,
        "labels:figure_a6",
    ),
    _item(
        "figure-a7",
        "Contractions by labels",
        "Figure A.7",
        "all layers of AlexNet",
        _ALEXNETS,
        "labels:figure_a7",
    ),
)
