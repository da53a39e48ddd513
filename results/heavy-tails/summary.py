"""Print the tables of README.md from the records beside this file: python summary.py"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cushion.numerics import percent_up

HERE = Path(__file__).parent
NETS = ("lenet", "resnet20")
NAMES = (
    "corrected",
    "without-noise",
    "algorithm",
    "appendix",
    "best",
    "proposition",
    "last",
    "ticket",
)


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return found


def nets() -> list[str]:
    """One row a compression: what was taken, what it costs, what is proved."""
    rows = header(
        "record",
        "form",
        "taken",
        "tried",
        "weights that stay",
        "bits",
        "held-out accuracy before",
        "after",
        "bound here",
        "certificate",
    )
    for name in NAMES:
        found = record(name)
        taken = next(one for one in found["tried"] if one["chosen"])
        here, exact = found["occam"]
        accuracy = found["holdout_accuracy"]
        spread = "" if accuracy["deviation"] is None else f" ± {100 * accuracy['deviation']:.2f}"
        of = sum(
            layer["kept"] + layer["replaced"]
            for layer in found["layers"]
            if layer["tau"] is not None
        )
        cells = [
            name,
            found["form"],
            f"{taken['asked']}, {taken['grid']}",
            len(found["tried"]),
            f"{taken['kept']} of {of}",
            found["bits"],
            f"{100 * accuracy['before']:.2f} %",
            f"{100 * accuracy['mean']:.2f}{spread} %",
            bound(here["bound"]),
            "none" if exact["because"] else bound(exact["bound"]),
        ]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return rows


def lemmas() -> list[str]:
    """What was promised, and the worst of what was seen over it."""
    words = {True: "held", False: "broken", None: "not promised"}
    rows = header("record", "Proposition 1.1", "Lemma 2.1", "Lemma 2.2")
    for name in NAMES:
        found = {one["name"].removesuffix(" as printed"): one for one in record(name)["promises"]}
        cells = []
        for lemma in ("Proposition 1.1", "Lemma 2.1", "Lemma 2.2"):
            one = found.get(lemma)
            ratio = (
                "" if one is None or one["worst_ratio"] is None else f", {one['worst_ratio']:.3g}"
            )
            cells.append("-" if one is None else words[one["held"]] + ratio)
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def tails(net: str, what: str) -> list[str]:
    """The laws of a net's weights or eigenvalues, layer by layer; what: weights or eigenvalues."""
    more = ["stable α"] if what == "weights" else []
    rows = header(
        "layer", "count", "α", "xmin", "tail", "KS", "p", "rivals that win", *more, "doubts"
    )
    for layer in record(f"{net}-tails")["layers"]:
        fits = layer["tails"][what]
        law = fits["power_law"]
        if law is None:
            continue
        wins = [one["rival"] for one in fits["comparisons"] if one["p"] < 0.1 and one["ratio"] < 0]
        stable = fits["stable"]
        cells = [
            layer["name"],
            fits["count"],
            f"{law['alpha']:.2f} ± {law['alpha_error']:.2f}",
            f"{law['xmin']:.3g}",
            law["tail"],
            f"{law['ks_distance']:.3f}",
            f"{fits['goodness']['p']:.2f}",
            ", ".join(wins) or "none",
            *(["-" if stable is None else f"{stable['alpha']:.3f}"] if more else []),
            len(fits["doubts"]),
        ]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return rows


def header(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]


def bound(value: float) -> str:
    return "vacuous" if value >= 1 else percent_up(str(value))


if __name__ == "__main__":
    parts = [
        nets(),
        lemmas(),
        *(tails(net, what) for net in NETS for what in ("weights", "eigenvalues")),
    ]
    sys.stdout.write("\n\n".join("\n".join(part) for part in parts) + "\n")
