"""The items of Guha 2023, for the registry."""

from __future__ import annotations

from cushion.papers.item import Item

ITEMS = (
    Item(
        id="guha2023-table1",
        title="Bounds on MNIST by width",
        source="Guha 2023, Table 1",
        shows="norm-based bounds, the sketch's, the naive and corrected counts, a certificate, the "
        "true error",
        quick="3 minutes",
        recorded="1 hour",
        full="4 days",
        maker="cushion.papers.guha.table:table_1",
    ),
    Item(
        id="guha2023-table2",
        title="Bounds on CIFAR-10",
        source="Guha 2023, Table 2",
        shows="the same on CIFAR-10, for the paper's recipe and for a net that learns",
        quick="3 minutes",
        recorded="15 minutes",
        full="16 hours",
        maker="cushion.papers.guha.table:table_2",
    ),
    Item(
        id="guha2023-figure1a",
        title="Bounds on MNIST as bars",
        source="Guha 2023, Figure 1a",
        shows="the column of Table 1 for width 784",
        quick="2 minutes",
        recorded="5 minutes",
        full="4 hours",
        maker="cushion.papers.guha.figures:figure_1a",
    ),
    Item(
        id="guha2023-figure1b",
        title="Bounds on CIFAR-10 as bars",
        source="Guha 2023, Figure 1b",
        shows="Table 2",
        quick="3 minutes",
        recorded="15 minutes",
        full="16 hours",
        maker="cushion.papers.guha.figures:figure_1b",
    ),
    Item(
        id="guha2023-figure1c",
        title="Bounds on MNIST over the width",
        source="Guha 2023, Figure 1c",
        shows="the bound by sketching and Bartlett's over the hidden width",
        quick="3 minutes",
        recorded="1 hour",
        full="4 days",
        maker="cushion.papers.guha.figures:figure_1c",
    ),
    Item(
        id="guha2023-figure2",
        title="Bound and true error over the epochs",
        source="Guha 2023, Figure 2",
        shows="the bound by sketching and the true error of nets of width 784 after more and more "
        "epochs",
        quick="4 minutes",
        recorded="10 minutes",
        full="6 hours",
        maker="cushion.papers.guha.figures:figure_2",
    ),
    Item(
        id="guha2023-sketch",
        title="Exact recovery from sketches",
        source="Guha 2023, Theorem 5.1",
        shows="the share of sparse matrices that come back from A X Bᵀ over its size, beside √(jp) "
        "log p",
        quick="1 minute",
        recorded="10 minutes",
        full="1 day",
        maker="cushion.papers.guha.sketch:sketches",
    ),
    Item(
        id="guha2023-tickets",
        title="Tickets in random nets",
        source="Guha 2023, Theorem 6.1",
        shows="the error of a pruned random net beside its target, over the width",
        quick="seconds",
        recorded="2 minutes",
        full="1 hour",
        maker="cushion.papers.guha.tickets:tickets",
    ),
)
