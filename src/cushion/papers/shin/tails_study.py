"""Heavy tails of LeNet-300-100 and a ResNet-20: are the weights heavy-tailed, and can they be
compressed?
"""

from __future__ import annotations

import math
from typing import Any

from cushion.papers.commands import (
    LENET,
    OCCAM,
    TICKETS,
    Answer,
    answers,
    by_machine_and_file,
    certified,
    promised,
    sized,
    taken,
)
from cushion.papers.drawings import Curve, Curves, Panels
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

_KEPT = {
    "form": "",
    "bits": "",
    "eta": "",
    "layers": "tau t kept replaced replaced_largest frobenius rounding epsilon",
    "promises": "name held worst_ratio",
    "tried": "asked grid kept bound chosen",
    "trials": "errors holdout_errors",
    "accuracy": "",
    "holdout_accuracy": "",
    "occam": OCCAM,
}
_RECORDED = {
    "corrected": "--tau 1 --t 1",
    "without-noise": "--tau 1 --t 0",
    "algorithm": "--form algorithm --tau 1",
    "appendix": "--form appendix",
    "best": "--grid best",
    "proposition": "--epsilon 0.01 --eta 0.01",
    "last": "--layers last --tau 1 --t 1",
    "ticket": "--tau 0.5,1,2,4 --t 0 --grid best "
    "--certificate study-heavy-tails/recorded/ticket.cushion",
}
_RESNET = "train shin-resnet20 --data cifar10 --epochs 3 --lr-halve-every 1 -o .runs/resnet20"
_LEMMAS = ("Proposition 1.1", "Lemma 2.1", "Lemma 2.2")
_KINDS = ("weights", "eigenvalues")


def page(workshop: Workshop) -> Page:
    """Laws of weights and eigenvalues, then the compressions."""
    quick = workshop.size == "quick"
    needs = [LENET] if quick else [LENET, _RESNET, TICKETS]
    nets = {"lenet": "mnist"} if quick else {"lenet": "mnist", "resnet20": "cifar10"}
    laws = {
        net: f"measure .runs/{net} --data {data} --only tails --bootstrap 200"
        for net, data in nets.items()
    }
    compressions = {
        name: f"compress .runs/{'imp-lenet/level-24' if name == 'ticket' else 'lenet'} "
        f"--data mnist --method heavy-tail {words} -o .runs/nets/{name}.net"
        for name, words in _RECORDED.items()
        if not quick or name == "corrected"
    }

    def ask(commands: dict[str, str], kept: dict[str, str]) -> dict[str, Answer]:
        small = {name: sized(workshop, command) for name, command in commands.items()}
        before = [sized(workshop, training) for training in needs]
        return answers(workshop, "heavy-tails", small, kept, before)

    measured, found = ask(laws, {"layers": "name tails"}), ask(compressions, _KEPT)
    return Page(
        tables=(
            *(_tails(net, one, kind) for net, one in measured.items() for kind in _KINDS),
            _nets(found),
            _lemmas(found),
        ),
        settings={"delta": 0.05, "bootstrap": 200},
        claims=claims(measured, found),
        notes=(
            "α is the exponent of the density (the paper's Pareto α is one less); p the share of "
            "200 samples of the fitted law that lie as far from their own fit, and below 0.1 "
            "rejects. rivals that win: likelier than the power law at level 0.1. doubts: how many "
            "reasons the output gives not to believe the fits. Eigenvalues are those of WWᵀ.",
            "taken: the setting with the smallest bound of those tried. bound here: the Occam "
            "bound on this machine's scores; certificate: that of the integer net. Ten trials "
            "where there is noise. ticket: level 24 of the lottery tickets.",
            "promises: what was seen, at worst, over what was promised (as printed for the forms "
            "algorithm and appendix). Lemma 2.2 promises nothing: its ε is in the thousands.",
        ),
        pictures=tuple(
            picture
            for net, one in measured.items()
            for kind in _KINDS
            for picture in _pictures(net, one, kind)
            if picture.panels
        ),
    )


def claims(measured: dict[str, Answer], found: dict[str, Answer]) -> tuple[Tried, ...]:
    """What the records must still support when they are made again."""
    fits = [_fits(layer, "weights") for one in measured.values() for layer in one["layers"]]
    known = [one for one in fits if one["power_law"] is not None]
    sure = [one for one in known if not one["doubts"]]
    first = Tried(
        "a layer's weights have a power law that nothing speaks against",
        bool(sure),
        f"{len(sure)} of {len(known)} layers",
    )
    if "ticket" not in found:
        return (first,)
    noisy, plain = (
        found[name]["holdout_accuracy"]["mean"] for name in ("corrected", "without-noise")
    )
    lemmas = {
        name: {one["name"]: one["held"] for one in record["promises"]}
        for name, record in found.items()
    }
    corrected = [name for name in found if found[name]["form"] == "corrected"]
    held = [lemmas[name].get(lemma) for name in corrected for lemma in _LEMMAS[:2]]
    bounds = {name: record["occam"][0]["bound"] for name, record in found.items()}
    return (
        first,
        Tried(
            "noise does not cost accuracy: what goes is replaced as well with as without it",
            noisy >= plain,
            f"{noisy:.2%} with noise, {plain:.2%} without, the same weights kept",
        ),
        Tried(
            "Proposition 1.1 and Lemma 2.1, corrected, hold on every unit and example",
            None if None in held else all(held),
            f"{sum(one is True for one in held)} of {len(held)}",
        ),
        Tried(
            "Proposition 1.1 as printed holds where the mean survives",
            lemmas["algorithm"].get("Proposition 1.1 as printed"),
            promised(
                next(
                    one
                    for one in found["algorithm"]["promises"]
                    if one["name"].startswith("Proposition 1.1")
                )
            ),
        ),
        Tried(
            "counted with positions, a dense net has a bound that says something",
            min(value for name, value in bounds.items() if name != "ticket") < 0.9,
            f"at best {certified(min(v for n, v in bounds.items() if n != 'ticket'))}; the ticket "
            f"{certified(bounds['ticket'])}",
        ),
    )


def _fits(layer: Answer, kind: str) -> Answer:
    found: Answer = layer["tails"][kind]
    return found


def _tails(net: str, found: Answer, kind: str) -> Table:
    def wins(fits: Answer) -> str:
        names = [one["rival"] for one in fits["comparisons"] if one["p"] < 0.1 and one["ratio"] < 0]
        return ", ".join(names) or "none"

    columns: dict[str, Any] = {
        "layer": lambda row: row[0],
        "count": lambda row: row[1]["count"],
        "α": lambda row: row[1]["power_law"]["alpha"],
        "± s.e.": lambda row: row[1]["power_law"]["alpha_error"],
        "xmin": lambda row: row[1]["power_law"]["xmin"],
        "tail": lambda row: row[1]["power_law"]["tail"],
        "KS": lambda row: row[1]["power_law"]["ks_distance"],
        "p": lambda row: row[1]["goodness"]["p"],
        "rivals that win": lambda row: wins(row[1]),
        "stable α": lambda row: None if row[1]["stable"] is None else row[1]["stable"]["alpha"],
        "doubts": lambda row: len(row[1]["doubts"]),
    }
    if kind == "eigenvalues":
        del columns["stable α"]
    rows = [(layer["name"], _fits(layer, kind)) for layer in found["layers"]]
    known = [row for row in rows if row[1]["power_law"] is not None]
    return Table.of(f"{net}, {kind}:", known, columns)


def _nets(found: dict[str, Answer]) -> Table:
    def stays(record: Answer) -> str:
        layers = [layer for layer in record["layers"] if layer["tau"] is not None]
        total = sum(layer["kept"] + layer["replaced"] for layer in layers)
        return f"{taken(record)['kept']} of {total}"

    def after(record: Answer) -> str:
        accuracy = record["holdout_accuracy"]
        spread = "" if accuracy["deviation"] is None else f" ± {100 * accuracy['deviation']:.2f}"
        return f"{100 * accuracy['mean']:.2f}{spread} %"

    return Table.of(
        "Can they be compressed?",
        found.items(),
        {
            "record": lambda row: row[0],
            "form": lambda row: row[1]["form"],
            "taken": lambda row: f"{taken(row[1])['asked']}, {taken(row[1])['grid']}",
            "tried": lambda row: len(row[1]["tried"]),
            "weights that stay": lambda row: stays(row[1]),
            "bits": lambda row: row[1]["bits"],
            "held-out accuracy before": lambda row: row[1]["holdout_accuracy"]["before"],
            "after": lambda row: after(row[1]),
            "bound here": lambda row: by_machine_and_file(row[1])[0],
            "certificate": lambda row: by_machine_and_file(row[1])[1],
        },
    )


def _lemmas(found: dict[str, Answer]) -> Table:
    rows = [
        (name, {one["name"].removesuffix(" as printed"): one for one in record["promises"]})
        for name, record in found.items()
    ]
    columns: dict[str, Any] = {"record": lambda row: row[0]}
    for lemma in _LEMMAS:
        columns[lemma] = lambda row, lemma=lemma: promised(row[1].get(lemma))
    return Table.of("What was promised, and the worst of what was seen over it:", rows, columns)


def _pictures(net: str, found: Answer, kind: str) -> tuple[Panels, Panels]:
    """One panel a layer: how many exceed a size, and Hill's exponent over the k largest."""
    survivals, hills = [], []
    for layer in found["layers"]:
        fits = _fits(layer, kind)
        if fits["power_law"] is None:
            continue
        x, share = fits["survival"]["x"], fits["survival"]["share"]
        both = [
            (size, math.log10(one)) for size, one in zip(x, share, strict=True) if size > 0 < one
        ]
        curve = Curve(kind, tuple(size for size, _ in both), tuple(one for _, one in both))
        survivals.append(
            Curves("", layer["name"], "size", "log10 of the share above", (curve,), x_log=True)
        )
        hill = Curve(kind, tuple(fits["hill"]["k"]), tuple(fits["hill"]["tail_index"]))
        hills.append(Curves("", layer["name"], "k largest", "Hill's exponent", (hill,), x_log=True))
    return (
        Panels(f"tails-{net}-{kind}", f"{net}: sizes of the {kind}", 4, tuple(survivals)),
        Panels(f"hill-{net}-{kind}", f"{net}: Hill's estimate, {kind}", 4, tuple(hills)),
    )
