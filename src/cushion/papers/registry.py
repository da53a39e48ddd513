"""What can be reproduced: every table and figure, under its id, in the order of the papers."""

from __future__ import annotations

from dataclasses import dataclass

from cushion.errors import BadInput
from cushion.papers.item import Item

_SECONDS = ("seconds", "seconds", "seconds")
_VGG19 = ("4 minutes (shared)", "50 minutes (shared)", "3 weeks (shared)")
_ALEXNETS = ("1 minute (shared)", "10 minutes (shared)", "4 days (shared)")
_DEEP = ("1 minute (shared)", "8 minutes (shared)", "2 hours (shared)")


@dataclass(frozen=True)
class _Paper:
    """Ids and sources of its items follow from what the paper calls them: Figure A.1, Table 1."""

    key: str
    name: str

    def item(
        self,
        called: str,
        title: str,
        shows: str,
        times: tuple[str, str, str],
        maker: str,
        key: str = "",
    ) -> Item:
        """`times`: at quick, recorded and full size. `key`: the id's own, where it is no figure."""
        kind, number, *rest = called.lower().replace(".", "").split() if not key else ("", "")
        joined = f"{kind}{number}" if number[:1].isdigit() else f"{kind}-{number}"
        return Item(
            f"{self.key}-{key or '-'.join([joined, *rest])}",
            title,
            f"{self.name}, {called}",
            shows,
            *times,
            f"cushion.papers.{maker}",
        )


def _study(key: str, title: str, shows: str, times: tuple[str, str, str], maker: str) -> Item:
    """Of our own: what commands of `cushion` answer, on nets of several kinds."""
    return Item(f"study-{key}", title, "cushion", shows, *times, f"cushion.papers.{maker}")


_ARORA = _Paper("arora2018", "Arora 2018")
_NOTE = _Paper("note", "the note")
_GUHA = _Paper("guha2023", "Guha 2023")
_SHIN = _Paper("shin2021", "Shin 2021")
_NEYSHABUR = _Paper("neyshabur2017", "Neyshabur 2017")

_ALL = (
    Item(
        "cushion-occam-table",
        "What bits and training errors buy",
        "cushion",
        "the certified error by message length and training error: exact tail, kl form, "
        "Hoeffding form",
        *_SECONDS,
        "cushion.papers.own.occam_table:make",
    ),
    Item(
        "cushion-certificates",
        "Published certificates against ours",
        "cushion",
        "error bounds that hold with probability 95 %, ours verified by replay, beside "
        "what papers print",
        *("2 minutes", "2.5 hours", "12 hours"),
        "cushion.papers.own.certificates:published_against_ours",
    ),
    _ARORA.item(
        "Figure 1a", "Layer cushion", "layer 13 of VGG-19", _VGG19, "arora.spreads:figure_1a"
    ),
    _ARORA.item(
        "Figure 1b",
        "Interlayer cushion",
        "the same layer, unclipped",
        _VGG19,
        "arora.spreads:figure_1b",
    ),
    _ARORA.item(
        "Figure 1c", "Activation contraction", "the same layer", _VGG19, "arora.spreads:figure_1c"
    ),
    _ARORA.item(
        "Figure 1d", "Interlayer smoothness", "the same layer", _VGG19, "arora.spreads:figure_1d"
    ),
    _ARORA.item(
        "Figure 2 left",
        "Normal against shuffled labels",
        "layer cushion and contraction of layer 5 of two AlexNets",
        _ALEXNETS,
        "arora.labels:figure_2_left",
    ),
    _ARORA.item(
        "Figure 2 middle",
        "Bounds side by side",
        "four earlier bounds, noise stability, the number of parameters",
        _VGG19,
        "arora.bounds:figure_2_middle",
    ),
    _ARORA.item(
        "Figure 2 right",
        "The bound during training",
        "errors and bound after more and more epochs",
        _VGG19,
        "arora.bounds:figure_2_right",
    ),
    _ARORA.item(
        "Table 1",
        "Effective parameters",
        "seven layers beside the paper's",
        _VGG19,
        "arora.table:table_1",
    ),
    _ARORA.item(
        "Figure A.1", "Layer cushions", "all layers of VGG-19", _VGG19, "arora.spreads:figure_a1"
    ),
    _ARORA.item(
        "Figure A.2",
        "Interlayer cushions",
        "all layers of VGG-19",
        _VGG19,
        "arora.spreads:figure_a2",
    ),
    _ARORA.item(
        "Figure A.3",
        "Activation contractions",
        "all layers of VGG-19",
        _VGG19,
        "arora.spreads:figure_a3",
    ),
    _ARORA.item(
        "Figure A.4",
        "Interlayer smoothness",
        "all layers of VGG-19",
        _VGG19,
        "arora.spreads:figure_a4",
    ),
    _ARORA.item(
        "Figure A.5",
        "Well-distributed Jacobians",
        "convolutions of VGG-19",
        _VGG19,
        "arora.spreads:figure_a5",
    ),
    _ARORA.item(
        "Figure A.6",
        "Cushions by labels",
        "all layers of AlexNet",
        _ALEXNETS,
        "arora.labels:figure_a6",
    ),
    _ARORA.item(
        "Figure A.7",
        "Contractions by labels",
        "all layers of AlexNet",
        _ALEXNETS,
        "arora.labels:figure_a7",
    ),
    _NOTE.item(
        "Figure 1",
        "Error against network size",
        "training and test error of two-layer nets over their width",
        ("1 minute (shared)", "6 minutes (shared)", "1 day (shared)"),
        "neyshabur.note_sizes:figure_1",
    ),
    _NOTE.item(
        "Figure 2",
        "Norm-based bounds",
        "earlier bounds beside the number of parameters",
        _VGG19,
        "arora.note_stability:figure_2",
    ),
    _NOTE.item(
        "Figure 3",
        "Noise attenuation",
        "noise in a layer's input, followed to the output",
        _VGG19,
        "arora.note_stability:figure_3",
    ),
    _NOTE.item(
        "Figure 4",
        "Singular values",
        "a filter of layer 10 of VGG-19",
        _VGG19,
        "arora.note_stability:figure_4",
    ),
    _NOTE.item(
        "Figure 5",
        "Correlation with generalisation: labels",
        "capacity, cushion and contraction on normal and shuffled labels",
        _ALEXNETS,
        "arora.note_correlation:figure_5",
    ),
    _NOTE.item(
        "Figure 6",
        "Correlation with generalisation: training",
        "the bound and the test error during training",
        _VGG19,
        "arora.note_correlation:figure_6",
    ),
    _GUHA.item(
        "Table 1",
        "Bounds on MNIST by width",
        "norm-based bounds, the sketch's, the naive and corrected counts, a certificate, "
        "the true error",
        ("3 minutes", "1 hour", "4 days"),
        "guha.table:table_1",
    ),
    _GUHA.item(
        "Table 2",
        "Bounds on CIFAR-10",
        "the same on CIFAR-10, for the paper's recipe and for a net that learns",
        ("3 minutes", "15 minutes", "16 hours"),
        "guha.table:table_2",
    ),
    _GUHA.item(
        "Figure 1a",
        "Bounds on MNIST as bars",
        "the column of Table 1 for width 784",
        ("2 minutes", "5 minutes", "4 hours"),
        "guha.figures:figure_1a",
    ),
    _GUHA.item(
        "Figure 1b",
        "Bounds on CIFAR-10 as bars",
        "Table 2",
        ("3 minutes", "15 minutes", "16 hours"),
        "guha.figures:figure_1b",
    ),
    _GUHA.item(
        "Figure 1c",
        "Bounds on MNIST over the width",
        "the bound by sketching and Bartlett's over the hidden width",
        ("3 minutes", "1 hour", "4 days"),
        "guha.figures:figure_1c",
    ),
    _GUHA.item(
        "Figure 2",
        "Bound and true error over the epochs",
        "the bound by sketching and the true error of nets of width 784 after more and more epochs",
        ("4 minutes", "10 minutes", "6 hours"),
        "guha.figures:figure_2",
    ),
    _GUHA.item(
        "Theorem 5.1",
        "Exact recovery from sketches",
        "the share of sparse matrices that come back from A X Bᵀ over its size, beside √(jp) log p",
        ("1 minute", "10 minutes", "1 day"),
        "guha.sketch:sketches",
        key="sketch",
    ),
    _GUHA.item(
        "Theorem 6.1",
        "Tickets in random nets",
        "the error of a pruned random net beside its target, over the width",
        ("seconds", "2 minutes", "1 hour"),
        "guha.tickets:tickets",
        key="tickets",
    ),
    _SHIN.item(
        "Figure 1",
        "α-stable densities",
        "the densities by α, and their tails beside the power law of eq. 12",
        _SECONDS,
        "shin.figures:figure_1",
    ),
    _SHIN.item(
        "Figure 2",
        "Resilient classification",
        "how likely a row reaches c^M from entries of size c^i: eq. 16 as printed, "
        "clipped, and exactly",
        ("seconds", "seconds", "1 minute"),
        "shin.figures:figure_2",
    ),
    _SHIN.item(
        "Figure 3",
        "Stable rank over the exponent of the tail",
        "a fleet of nets: α and stable rank of the last dense layer, a mixture of lines, "
        "the gap beside both",
        ("2 minutes", "2 hours", "2 weeks"),
        "shin.stable_rank:figure_3",
    ),
    _SHIN.item(
        "Table 1",
        "Accuracy before and after compression",
        "the last dense layer replaced as Appendix E prints it and corrected, ten trials, "
        "on the fleet",
        ("2 minutes", "2 hours", "2 weeks"),
        "shin.table:table_1",
    ),
    _SHIN.item(
        "Propositions 1.1 and 1.2",
        "Propositions 1.1 and 1.2, eq. 10 and 14 by simulation",
        "failures claimed and seen, as printed and corrected; sparsity; spikes; brackets",
        ("seconds", "1 minute", "1 hour"),
        "shin.propositions:propositions",
        key="propositions",
    ),
    _NEYSHABUR.item(
        "Figure 1",
        "Norms with true and with random labels",
        "four norms over the margin of VGG nets on subsets of CIFAR-10, by size and labels",
        ("2 minutes (shared)", "1 hour (shared)", "months (shared)"),
        "neyshabur.norms_by_labels:figure1",
    ),
    _NEYSHABUR.item(
        "Figure 2",
        "Sharpness with true and with random labels",
        "largest sharpness of the nets of figure1, and expected sharpness over KL",
        ("2 minutes (shared)", "70 minutes (shared)", "months (shared)"),
        "neyshabur.sharpness_by_labels:figure2",
    ),
    _NEYSHABUR.item(
        "Figure 3",
        "Global minima with poor generalisation",
        "errors, norms, sharpness and KL of VGG nets trained with confusion sets of random labels",
        ("1 minute (shared)", "20 minutes (shared)", "weeks (shared)"),
        "neyshabur.minima:figure3",
    ),
    _NEYSHABUR.item(
        "Figure 4",
        "Two-layer perceptrons of growing width",
        "errors, norms, sharpness and KL on MNIST, by hidden units",
        ("1 minute (shared)", "8 minutes (shared)", "1 day (shared)"),
        "neyshabur.widths:figure4",
    ),
    _NEYSHABUR.item(
        "Figure 5",
        "Conditions of Theorem 1",
        "C1, C2 and C3 of a ten-layer perceptron on MNIST",
        _DEEP,
        "neyshabur.condition_figures:figure5",
    ),
    _NEYSHABUR.item(
        "Figure 6",
        "Condition C1, random and learned",
        "1/μ over three sets of indices, of the net of figure5 and of its initialisation",
        _DEEP,
        "neyshabur.condition_figures:figure6",
    ),
    _NEYSHABUR.item(
        "Figure 7",
        "Condition C2, random and learned",
        "the share of activations that flip, of the net of figure5 and of its initialisation",
        _DEEP,
        "neyshabur.condition_figures:figure7",
    ),
    _NEYSHABUR.item(
        "Figure 8",
        "Condition C3 and outputs, random and learned",
        "norms of units and lengths of outputs, of the net of figure5 and of its initialisation",
        _DEEP,
        "neyshabur.condition_figures:figure8",
    ),
    _study(
        "arora-compressors",
        "The compressors of Arora 2018 on real nets",
        "every method on LeNet-300-100, a VGG and linear classifiers: promises, sizes, proofs",
        ("2 minutes", "4 hours", "4 hours"),
        "arora.compressors_study:page",
    ),
    _study(
        "noise-stability",
        "Noise stability of a VGG-19 on CIFAR-10",
        "every condition of Arora 2018 at a quarter of the width, on all 50 000 examples",
        ("1 minute", "1 day", "1 day"),
        "arora.stability_study:page",
    ),
    _study(
        "bounds-mnist",
        "Every measure's verdict on true and random labels",
        "seven pairs of MLPs on MNIST through every row of `cushion bounds`",
        ("3 minutes", "1 day", "1 day"),
        "neyshabur.labels_study:page",
    ),
    _study(
        "guha-pruning",
        "Pruning and sketching LeNet-300-100 on MNIST",
        "Algorithm 1, magnitude, 2:4, fine-tuning and a sketch's round trip, with certificates",
        ("2 minutes", "30 minutes", "30 minutes"),
        "guha.pruning_study:page",
    ),
    _study(
        "lottery-tickets",
        "Lottery tickets on MNIST",
        "a certificate for every level of iterative pruning, a supermask, Theorem 6.1 tried",
        ("2 minutes", "1 hour", "1 hour"),
        "guha.tickets_study:page",
    ),
    _study(
        "heavy-tails",
        "Heavy tails: LeNet-300-100, a ResNet-20, a lottery ticket",
        "laws of weights and eigenvalues, and nets compressed by them",
        ("2 minutes", "2 hours", "2 hours"),
        "shin.tails_study:page",
    ),
)
ITEMS: dict[str, Item] = {item.id: item for item in _ALL}


def find(item_id: str) -> Item:
    """The item of that id, or a sentence that says where the ids are."""
    if item_id not in ITEMS:
        shown = "`cushion reproduce --list` shows the ids"
        raise BadInput(f"there is nothing to reproduce called {item_id!r}; {shown}")
    return ITEMS[item_id]
