"""The items of Shin 2021, for the registry."""

from __future__ import annotations

from cushion.papers.item import Item

ITEMS = (
    Item(
        id="shin2021-figure1",
        title="α-stable densities",
        source="Shin 2021, Figure 1",
        shows="the densities by α, and their tails beside the power law of eq. 12",
        quick="seconds",
        recorded="seconds",
        full="seconds",
        maker="cushion.papers.shin.figures:figure_1",
    ),
    Item(
        id="shin2021-figure2",
        title="Resilient classification",
        source="Shin 2021, Figure 2",
        shows="how likely a row reaches c^M from entries of size c^i: eq. 16 as printed, clipped, "
        "and exactly",
        quick="seconds",
        recorded="seconds",
        full="1 minute",
        maker="cushion.papers.shin.figures:figure_2",
    ),
    Item(
        id="shin2021-figure3",
        title="Stable rank over the exponent of the tail",
        source="Shin 2021, Figure 3",
        shows="a fleet of nets: α and stable rank of the last dense layer, a mixture of lines, the "
        "gap beside both",
        quick="2 minutes",
        recorded="2 hours",
        full="2 weeks",
        maker="cushion.papers.shin.stable_rank:figure_3",
    ),
    Item(
        id="shin2021-table1",
        title="Accuracy before and after compression",
        source="Shin 2021, Table 1",
        shows="the last dense layer replaced as Appendix E prints it and corrected, ten trials, on "
        "the fleet",
        quick="2 minutes",
        recorded="2 hours",
        full="2 weeks",
        maker="cushion.papers.shin.table:table_1",
    ),
    Item(
        id="shin2021-propositions",
        title="Propositions 1.1 and 1.2, eq. 10 and 14 by simulation",
        source="Shin 2021, Propositions 1.1 and 1.2",
        shows="failures claimed and seen, as printed and corrected; sparsity; spikes; brackets",
        quick="seconds",
        recorded="1 minute",
        full="1 hour",
        maker="cushion.papers.shin.propositions:propositions",
    ),
)
