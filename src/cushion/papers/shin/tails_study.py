"""LeNet-300-100 and a ResNet-20: are the weights heavy-tailed, and can they be compressed?"""

from __future__ import annotations

import math

from cushion.papers import commands
from cushion.papers.commands import Answer, certified, promised, sized
from cushion.papers.drawings import Curve, Curves, Panels
from cushion.papers.pages import Columns, Page, Table, Tried
from cushion.papers.runner import Workshop

_KEPT = {
    "layers": "tau t kept replaced replaced_largest frobenius rounding epsilon",
    "promises": "name held worst_ratio",
    "tried": "asked grid kept bound chosen",
    "trials": "errors holdout_errors",
    "occam": commands.OCCAM,
    **dict.fromkeys(("form", "bits", "eta", "accuracy", "holdout_accuracy"), ""),
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
    needs = [commands.LENET] if quick else [commands.LENET, _RESNET, commands.TICKETS]
    nets = {"lenet": "mnist"} if quick else {"lenet": "mnist", "resnet20": "cifar10"}
    tails = "--only tails --bootstrap 200"
    laws = {net: f"measure .runs/{net} --data {data} {tails}" for net, data in nets.items()}
    compressions = {
        name: f"compress .runs/{'imp-lenet/level-24' if name == 'ticket' else 'lenet'} "
        f"--data mnist --method heavy-tail {words} -o .runs/nets/{name}.net"
        for name, words in _RECORDED.items()
        if not quick or name == "corrected"
    }
    before = [sized(workshop, training) for training in needs]

    def ask(asked: dict[str, str], kept: dict[str, str]) -> dict[str, Answer]:
        small = {name: sized(workshop, command) for name, command in asked.items()}
        return commands.answers(workshop, "heavy-tails", small, kept, before)

    measured, found = ask(laws, {"layers": "name tails"}), ask(compressions, _KEPT)
    drawn = [_pictures(net, one, kind) for net, one in measured.items() for kind in _KINDS]
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
        pictures=[picture for both in drawn for picture in both if picture.panels],
    )


def claims(measured: dict[str, Answer], found: dict[str, Answer]) -> tuple[Tried, ...]:
    """What the records must still support when they are made again."""
    fits = [layer["tails"]["weights"] for one in measured.values() for layer in one["layers"]]
    known = [one for one in fits if one["power_law"] is not None]
    sure = sum(not one["doubts"] for one in known)
    text = "a layer's weights have a power law that nothing speaks against"
    first = Tried(text, sure > 0, f"{sure} of {len(known)} layers")
    if "ticket" not in found:
        return (first,)
    both = (found[name]["holdout_accuracy"] for name in ("corrected", "without-noise"))
    noisy, plain = (accuracy["mean"] for accuracy in both)
    corrected = [_promises(one) for one in found.values() if one["form"] == "corrected"]
    held = [lemmas[name]["held"] for lemmas in corrected for name in _LEMMAS[:2]]
    printed = _promises(found["algorithm"])["Proposition 1.1"]
    survives = "Proposition 1.1 as printed holds where the mean survives"
    bounds = {name: record["occam"][0]["bound"] for name, record in found.items()}
    ticket = bounds.pop("ticket")
    best = min(bounds.values())
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
            f"{held.count(True)} of {len(held)}",
        ),
        Tried(survives, printed["held"], promised(printed)),
        Tried(
            "counted with positions, a dense net has a bound that says something",
            best < 0.9,
            f"at best {certified(best)}; the ticket {certified(ticket)}",
        ),
    )


def _promises(record: Answer) -> dict[str, Answer]:
    """By the name of the lemma, in whichever form."""
    return {one["name"].removesuffix(" as printed"): one for one in record["promises"]}


def _tails(net: str, found: Answer, kind: str) -> Table:
    def wins(layer: Answer) -> str:
        rivals = layer["fits"]["comparisons"]
        names = [one["rival"] for one in rivals if one["p"] < 0.1 and one["ratio"] < 0]
        return ", ".join(names) or "none"

    columns: Columns = {
        "layer": "name",
        "count": "fits.count",
        "α": "fits.power_law.alpha",
        "± s.e.": "fits.power_law.alpha_error",
        "xmin": "fits.power_law.xmin",
        "tail": "fits.power_law.tail",
        "KS": "fits.power_law.ks_distance",
        "p": "fits.goodness.p",
        "rivals that win": wins,
        **({"stable α": "fits.stable.alpha"} if kind == "weights" else {}),
        "doubts": lambda layer: len(layer["fits"]["doubts"]),
    }
    return Table.of(f"{net}, {kind}:", _fitted(found, kind), columns)


def _fitted(found: Answer, kind: str) -> list[Answer]:
    """The layers whose weights or eigenvalues have a power law, with those `fits`."""
    layers = ({"name": one["name"], "fits": one["tails"][kind]} for one in found["layers"])
    return [one for one in layers if one["fits"]["power_law"] is not None]


def _nets(found: dict[str, Answer]) -> Table:
    def stays(record: Answer) -> str:
        layers = [layer for layer in record["layers"] if layer["tau"] is not None]
        total = sum(layer["kept"] + layer["replaced"] for layer in layers)
        return f"{record['taken']['kept']} of {total}"

    def after(record: Answer) -> str:
        accuracy = record["holdout_accuracy"]
        spread = "" if accuracy["deviation"] is None else f" ± {100 * accuracy['deviation']:.2f}"
        return f"{100 * accuracy['mean']:.2f}{spread} %"

    columns: Columns = {
        "record": "name",
        "form": "form",
        "taken": "asked",
        "tried": lambda one: len(one["tried"]),
        "weights that stay": stays,
        "bits": "bits",
        "held-out accuracy before": "holdout_accuracy.before",
        "after": after,
        "bound here": "bound here",
        "certificate": "certificate",
    }
    return Table.of("Can they be compressed?", commands.compressions(found), columns)


def _lemmas(found: dict[str, Answer]) -> Table:
    rows = [
        (name, *(promised(_promises(record).get(lemma)) for lemma in _LEMMAS))
        for name, record in found.items()
    ]
    caption = "What was promised, and the worst of what was seen over it:"
    return Table(("record", *_LEMMAS), rows, caption)


def _pictures(net: str, found: Answer, kind: str) -> tuple[Panels, Panels]:
    """One panel a layer: how many exceed a size, and Hill's exponent over the k largest."""
    survivals: list[Curves] = []
    hills: list[Curves] = []
    for layer in _fitted(found, kind):
        hill, survival = layer["fits"]["hill"], layer["fits"]["survival"]
        both = zip(survival["x"], survival["share"], strict=True)
        some = [(size, math.log10(share)) for size, share in both if size > 0 < share]
        above = Curve(kind, [size for size, _ in some], [share for _, share in some])
        exponent = Curve(kind, hill["k"], hill["tail_index"])
        for panels, labels, curve in (
            (survivals, ("size", "log10 of the share above"), above),
            (hills, ("k largest", "Hill's exponent"), exponent),
        ):
            panels.append(Curves("", layer["name"], *labels, [curve], x_log=True))
    return (
        Panels(f"tails-{net}-{kind}", f"{net}: sizes of the {kind}", 4, survivals),
        Panels(f"hill-{net}-{kind}", f"{net}: Hill's estimate, {kind}", 4, hills),
    )
