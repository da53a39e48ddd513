"""What can be reproduced: every item with its id, and where the function that makes it lives."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cushion.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from cushion.reproduction.pages import Page
    from cushion.reproduction.runner import Workshop


@dataclass(frozen=True)
class Item:
    """A table or figure: `maker` is "module:function", imported only when the item runs."""

    id: str
    title: str
    source: str  # the paper and the item in it, or "cushion" for our own tables
    shows: str
    quick: str  # time on two cores at quick size
    recorded: str  # at the size that results/ holds: larger, but with fewer epochs than the paper's
    full: str  # with the paper's own settings
    maker: str

    def load(self) -> Callable[[Workshop], Page]:
        """The function that makes the page."""
        module, _, function = self.maker.partition(":")
        found: Any = getattr(import_module(module), function)
        return found  # type: ignore[no-any-return]


ITEMS: dict[str, Item] = {
    item.id: item
    for item in (
        Item(
            id="cushion-occam-table",
            title="What bits and training errors buy",
            source="cushion",
            shows="the certified error by message length and training error: exact tail, kl form, Hoeffding form",
            quick="seconds",
            recorded="seconds",
            full="seconds",
            maker="cushion.reproduction.own.occam_table:make",
        ),
        Item(
            id="guha2023-table1",
            title="Bounds on MNIST by width",
            source="Guha 2023, Table 1",
            shows="norm-based bounds, the sketch's, the naive and corrected counts, a certificate, the true error",
            quick="3 minutes",
            recorded="1 hour",
            full="4 days",
            maker="cushion.reproduction.guha.table:table_1",
        ),
        Item(
            id="guha2023-table2",
            title="Bounds on CIFAR-10",
            source="Guha 2023, Table 2",
            shows="the same on CIFAR-10, for the paper's recipe and for a net that learns",
            quick="3 minutes",
            recorded="15 minutes",
            full="16 hours",
            maker="cushion.reproduction.guha.table:table_2",
        ),
        Item(
            id="guha2023-figure1a",
            title="Bounds on MNIST as bars",
            source="Guha 2023, Figure 1a",
            shows="the column of Table 1 for width 784",
            quick="2 minutes",
            recorded="5 minutes",
            full="4 hours",
            maker="cushion.reproduction.guha.figures:figure_1a",
        ),
        Item(
            id="guha2023-figure1b",
            title="Bounds on CIFAR-10 as bars",
            source="Guha 2023, Figure 1b",
            shows="Table 2",
            quick="3 minutes",
            recorded="15 minutes",
            full="16 hours",
            maker="cushion.reproduction.guha.figures:figure_1b",
        ),
        Item(
            id="guha2023-figure1c",
            title="Bounds on MNIST over the width",
            source="Guha 2023, Figure 1c",
            shows="the bound by sketching and Bartlett's over the hidden width",
            quick="3 minutes",
            recorded="1 hour",
            full="4 days",
            maker="cushion.reproduction.guha.figures:figure_1c",
        ),
        Item(
            id="guha2023-figure2",
            title="Bound and true error over the epochs",
            source="Guha 2023, Figure 2",
            shows="the bound by sketching and the true error of nets of width 784 after more and more epochs",
            quick="4 minutes",
            recorded="10 minutes",
            full="6 hours",
            maker="cushion.reproduction.guha.figures:figure_2",
        ),
        Item(
            id="guha2023-sketch",
            title="Exact recovery from sketches",
            source="Guha 2023, Theorem 5.1",
            shows="the share of sparse matrices that come back from A X Bᵀ over its size, beside √(jp) log p",
            quick="1 minute",
            recorded="10 minutes",
            full="1 day",
            maker="cushion.reproduction.guha.sketch:sketches",
        ),
        Item(
            id="guha2023-tickets",
            title="Tickets in random nets",
            source="Guha 2023, Theorem 6.1",
            shows="the error of a pruned random net beside its target, over the width",
            quick="seconds",
            recorded="2 minutes",
            full="1 hour",
            maker="cushion.reproduction.guha.tickets:tickets",
        ),
        Item(
            id="shin2021-figure1",
            title="α-stable densities",
            source="Shin 2021, Figure 1",
            shows="the densities by α, and their tails beside the power law of eq. 12",
            quick="seconds",
            recorded="seconds",
            full="seconds",
            maker="cushion.reproduction.shin.figures:figure_1",
        ),
        Item(
            id="shin2021-figure2",
            title="Resilient classification",
            source="Shin 2021, Figure 2",
            shows="how likely a row reaches c^M from entries of size c^i: eq. 16 as printed, clipped, and exactly",
            quick="seconds",
            recorded="seconds",
            full="1 minute",
            maker="cushion.reproduction.shin.figures:figure_2",
        ),
        Item(
            id="shin2021-figure3",
            title="Stable rank over the exponent of the tail",
            source="Shin 2021, Figure 3",
            shows="a fleet of nets: α and stable rank of the last dense layer, a mixture of lines, the gap beside both",
            quick="2 minutes",
            recorded="2 hours",
            full="2 weeks",
            maker="cushion.reproduction.shin.stable_rank:figure_3",
        ),
        Item(
            id="shin2021-table1",
            title="Accuracy before and after compression",
            source="Shin 2021, Table 1",
            shows="the last dense layer replaced as Appendix E prints it and corrected, ten trials, on the fleet",
            quick="2 minutes",
            recorded="2 hours",
            full="2 weeks",
            maker="cushion.reproduction.shin.table:table_1",
        ),
        Item(
            id="shin2021-propositions",
            title="Propositions 1.1 and 1.2, eq. 10 and 14 by simulation",
            source="Shin 2021, Propositions 1.1 and 1.2",
            shows="failures claimed and seen, as printed and corrected; sparsity; spikes; brackets",
            quick="seconds",
            recorded="1 minute",
            full="1 hour",
            maker="cushion.reproduction.shin.propositions:propositions",
        ),
    )
}


def find(item_id: str) -> Item:
    """The item of that id, or a sentence that lists what there is."""
    if item_id not in ITEMS:
        raise BadInput(f"there is nothing to reproduce called {item_id!r}; `cushion reproduce --list` shows the ids")
    return ITEMS[item_id]
