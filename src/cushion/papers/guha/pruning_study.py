"""Pruning and sketching LeNet-300-100 on MNIST: what stays, what lemmas say, what is proved."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from cushion.compressors.file import load_compressed
from cushion.papers.commands import (
    LENET,
    OCCAM,
    TICKETS,
    Answer,
    answers,
    by_machine_and_file,
    promised,
    sized,
    taken,
)
from cushion.papers.pages import Page, Table, Tried
from cushion.papers.runner import Workshop

_KEPT = {
    "sparsity": "",
    "bits": "",
    "layers": "name shape nonzeros normality moments shift gamma_l spectral sketch",
    "promises": "name held worst_ratio",
    "tried": "asked grid nonzeros bound chosen",
    "errors_before": "",
    "errors_after_pruning": "",
    "errors": "",
    "occam": OCCAM,
}
_FILES = "study-guha-pruning/recorded"  # where the certificates lie
_ALL = "--sparsity 0.8,0.9,0.95,0.98,0.99"
_SPARSE = ".runs/imp-lenet/level-22"  # 99.2 % pruned
_RECORDED = {
    "bernoulli-gentle": ".runs/lenet --method magnitude --d 0.01",
    "bernoulli": ".runs/lenet --method magnitude --d 1",
    "bernoulli-best": ".runs/lenet --method magnitude --grid best",
    "global": f".runs/lenet --method magnitude {_ALL} --grid best "
    f"--certificate {_FILES}/global.cushion",
    "layer": f".runs/lenet --method magnitude --rule layer {_ALL} --grid best",
    "two-of-four": ".runs/lenet --method magnitude --rule 2:4 --grid best",
    "fine-tuned": ".runs/lenet --method magnitude --sparsity 0.98,0.99,0.995 --grid best "
    f"--fine-tune 5 --certificate {_FILES}/fine-tuned.cushion",
    "mask-and-values": f"{_SPARSE} --method magnitude --rule zeros --grid 4",
    "sketch": f"{_SPARSE} --method sketch --rule zeros --grid 4",
}
_QUICK = ("bernoulli-gentle", "bernoulli", "mask-and-values", "sketch")


def page(workshop: Workshop) -> Page:
    """Nine prunings of one net and of a sparse one, the lemmas, and a sketch's round trip."""
    quick = workshop.size == "quick"
    commands = {}
    for name in _QUICK if quick else _RECORDED:
        net, _, options = _RECORDED[name].partition(" ")
        command = f"compress {net} --data mnist {options} -o .runs/nets/{name}.net"
        commands[name] = sized(workshop, command)
    needs = [sized(workshop, training) for training in (LENET, TICKETS)]
    found = answers(workshop, "guha-pruning", commands, _KEPT, needs)
    two = {"sketched": commands["sketch"], "pruned": commands["mask-and-values"]}
    files = [
        workshop.out / sized(workshop, f".runs/nets/{name}.net")
        for name in ("sketch", "mask-and-values")
    ]
    trip = workshop.step("study-round-trip", two, partial(round_trip, *files))
    coins = {name: found[name] for name in found if name.startswith("bernoulli")}
    return Page(
        tables=(_nets(found), _lemmas(coins), _normality(coins["bernoulli"]), _sketches(found)),
        settings={"delta": 0.05, "data": "digits" if quick else "mnist"},
        claims=claims(found, trip),
        notes=(
            "taken: the setting with the smallest bound of those that were tried. bound here: the "
            "Occam bound on this machine's scores; certificate: that of the integer net; held-out: "
            "the error of the stored net on the test set. The last two rows are of a lottery "
            "ticket.",
            "The lemmas' constants are 1 where the paper leaves them open. Lemmas 4.1, 4.2 and 5.1 "
            "rest on Assumption 3.1, normal weights, which the third table tries.",
            "A sketch replaces few numbers with positions by many without; recovered by the ℓ1 "
            "program and checked number by number.",
        ),
    )


def round_trip(first: Path, second: Path) -> dict[str, Any]:
    """Are the sketched net and the pruned one the same net? Weights that differ, by layer."""
    sketched, pruned = load_compressed(first), load_compressed(second)
    layers = zip(sketched.network.affine_layers, pruned.network.affine_layers, strict=True)
    differ = {
        one.name: int((one.affine.operator.weight != two.affine.operator.weight).sum())
        for one, two in layers
        if isinstance(one.affine.operator.weight, torch.Tensor)
    }
    return {"differ": differ, "bits": [sketched.stored.bits, pruned.stored.bits]}


def claims(found: dict[str, Answer], trip: dict[str, Any]) -> tuple[Tried, ...]:
    """What the records must still support when they are made again."""
    promises = {one["name"]: one for one in found["bernoulli-gentle"]["promises"]}
    norms = [promises["Lemma 4.3"]["held"], promises["Lemma 4.4"]["held"]]
    normal = [
        layer["normality"]["ks_distance"] <= layer["normality"]["ks_critical"]
        for layer in found["bernoulli"]["layers"]
    ]
    sketched, plain = trip["bits"]
    return (
        Tried(
            "Lemmas 4.3 and 4.4 hold with exact norms at d = 0.01",
            None if None in norms else all(norms),
            f"Lemma 4.3 {promised(promises['Lemma 4.3'])}; 4.4 {promised(promises['Lemma 4.4'])}",
        ),
        Tried(
            "Assumption 3.1: the weights of a layer are normal",
            all(normal),
            f"a Kolmogorov-Smirnov test at level 1 % lets {sum(normal)} of {len(normal)} pass",
        ),
        Tried(
            "every number comes back from the sketch",
            not any(trip["differ"].values()),
            f"{sum(trip['differ'].values())} weights of {len(trip['differ'])} layers differ",
        ),
        Tried(
            "the sketch is shorter than mask and values",
            sketched < plain,
            f"{sketched} bits against {plain}",
        ),
    )


def _nets(found: dict[str, Answer]) -> Table:
    def errors(record: Answer) -> str:
        return ", ".join(
            str(record[key]) for key in ("errors_before", "errors_after_pruning", "errors")
        )

    def held_out(record: Answer) -> float:
        return float(record["occam"][0]["holdout_errors"] / record["occam"][0]["holdout_m"])

    return Table.of(
        "Every pruning:",
        found.items(),
        {
            "record": lambda row: row[0],
            "taken": lambda row: f"{taken(row[1])['asked']}, {taken(row[1])['grid']}",
            "tried": lambda row: len(row[1]["tried"]),
            "weights left": lambda row: taken(row[1])["nonzeros"],
            "share left": lambda row: 1 - row[1]["sparsity"],
            "bits": lambda row: row[1]["bits"],
            "training errors before, pruned, stored": lambda row: errors(row[1]),
            "bound here": lambda row: by_machine_and_file(row[1])[0],
            "certificate": lambda row: by_machine_and_file(row[1])[1],
            "held-out": lambda row: held_out(row[1]),
        },
    )


def _lemmas(found: dict[str, Answer]) -> Table:
    by_record = {
        name: {one["name"]: one for one in record["promises"]} for name, record in found.items()
    }
    columns: dict[str, Any] = {"lemma": str}
    for name, promises in by_record.items():
        columns[name] = lambda lemma, promises=promises: promised(promises.get(lemma))
    lemmas = next(iter(by_record.values()))
    return Table.of("What the lemmas promise of Algorithm 1, and the worst seen:", lemmas, columns)


def _normality(record: Answer) -> Table:
    def over(layer: Answer, moment: str) -> float | None:
        moments = layer["moments"]
        return None if moments is None else float(moments[moment] / moments[f"{moment}_expected"])

    return Table.of(
        "Assumption 3.1 and Lemma 4.1 on the layers of the dense net, at d = 1:",
        record["layers"],
        {
            "layer": "name",
            "Ψ": lambda layer: layer["normality"]["psi"],
            "KS distance": lambda layer: layer["normality"]["ks_distance"],
            "KS, 1 % level": lambda layer: layer["normality"]["ks_critical"],
            "kurtosis": lambda layer: layer["normality"]["kurtosis"],
            "E Δ² seen / Lemma 4.1": lambda layer: over(layer, "second"),
            "E Δ⁴ seen / Lemma 4.1": lambda layer: over(layer, "fourth"),
            "kept / χ": lambda layer: over(layer, "kept"),
            "‖Δ‖₂": "shift",
            "‖Δ‖₂/Γ_l": lambda layer: layer["shift"] / layer["gamma_l"],
            "‖A‖₂/L": lambda layer: layer["spectral"] / len(record["layers"]),
        },
    )


def _sketches(found: dict[str, Answer]) -> Table:
    def back(sketch: Answer) -> str:
        return "every number" if sketch["recovered"] else f"no ({sketch['wrong']} wrong)"

    return Table.of(
        "A sketch of every layer, Y = A X Bᵀ with A and B from the seed:",
        [layer for layer in found["sketch"]["layers"] if layer["sketch"] is not None],
        {
            "layer": "name",
            "shape": lambda layer: "x".join(map(str, layer["shape"])),
            "non-zeros": "nonzeros",
            "sketch": lambda layer: f"{layer['sketch']['rows']}x{layer['sketch']['columns']}",
            "numbers": lambda layer: layer["sketch"]["numbers"],
            "√(jp)·ln p": lambda layer: layer["sketch"]["theory"],
            "came back": lambda layer: back(layer["sketch"]),
            "gap": lambda layer: layer["sketch"]["optimal_gap"],
            "seconds": lambda layer: layer["sketch"]["seconds"],
            "bits": lambda layer: layer["sketch"]["bits"],
            "as mask and values": lambda layer: layer["sketch"]["pruned_bits"],
        },
    )
