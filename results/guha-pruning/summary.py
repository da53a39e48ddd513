"""Print the tables of README.md from the records beside this file: python summary.py"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cushion.numerics import percent_up

HERE = Path(__file__).parent
NAMES = (
    "bernoulli-gentle",
    "bernoulli",
    "bernoulli-best",
    "global",
    "layer",
    "two-of-four",
    "fine-tuned",
    "mask-and-values",
    "sketch",
)


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return found


def nets() -> list[str]:
    """One row a compression: what was taken, what it costs, what is proved."""
    rows = header(
        "record",
        "taken",
        "tried",
        "weights left",
        "bits",
        "training errors before, pruned, stored",
        "bound here",
        "certificate",
        "held-out",
    )
    for name in NAMES:
        found = record(name)
        taken = next(one for one in found["tried"] if one["chosen"])
        here, exact = found["occam"]
        certificate = "none" if exact["because"] else bound(exact["bound"])
        cells = [
            name,
            f"{taken['asked']}, {taken['grid']}",
            len(found["tried"]),
            f"{taken['nonzeros']} ({1 - found['sparsity']:.2%})",
            found["bits"],
            f"{found['errors_before']}, {found['errors_after_pruning']}, {found['errors']}",
            bound(here["bound"]),
            certificate,
            f"{here['holdout_errors'] / here['holdout_m']:.2%}",
        ]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return rows


def lemmas() -> list[str]:
    """What was promised of Algorithm 1, and what was seen."""
    words = {True: "held", False: "BROKEN", None: "not promised"}
    names = ("bernoulli-gentle", "bernoulli", "bernoulli-best")
    found = [{one["name"]: one for one in record(name)["promises"]} for name in names]
    rows = header("lemma", *names)
    for lemma in found[0]:
        cells = [
            words[one[lemma]["held"]]
            + ("" if one[lemma]["worst_ratio"] is None else f", {one[lemma]['worst_ratio']:.3g}")
            for one in found
        ]
        rows.append(f"| {lemma} | {' | '.join(cells)} |")
    return rows


def normality() -> list[str]:
    """Assumption 3.1 and Lemma 4.1 on the layers of the dense net, at d = 1."""
    rows = header(
        "layer",
        "Ψ",
        "KS distance (1 % level)",
        "kurtosis",
        "E Δ² seen / Lemma 4.1",
        "E Δ⁴ seen / Lemma 4.1",
        "kept / χ",
        "‖Δ‖₂",
        "‖Δ‖₂/Γ_l",
        "‖A‖₂/L",
    )
    layers = record("bernoulli")["layers"]
    for layer in layers:
        normal, moments = layer["normality"], layer["moments"]
        cells = [
            layer["name"],
            f"{normal['psi']:.4g}",
            f"{normal['ks_distance']:.4f} ({normal['ks_critical']:.4f})",
            f"{normal['kurtosis']:.3f}",
            f"{moments['second'] / moments['second_expected']:.3f}",
            f"{moments['fourth'] / moments['fourth_expected']:.3f}",
            f"{moments['kept'] / moments['kept_expected']:.3f}",
            f"{layer['shift']:.4g}",
            f"{layer['shift'] / layer['gamma_l']:.3f}",
            f"{layer['spectral'] / len(layers):.4g}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def sketches() -> list[str]:
    """The round trip, layer by layer."""
    rows = header(
        "layer",
        "shape",
        "non-zeros",
        "sketch",
        "numbers",
        "√(jp)·ln p",
        "came back",
        "gap",
        "seconds",
        "bits",
        "as mask and values",
    )
    for layer in record("sketch")["layers"]:
        found = layer["sketch"]
        cells = [
            layer["name"],
            "x".join(map(str, layer["shape"])),
            layer["nonzeros"],
            f"{found['rows']}x{found['columns']}",
            found["numbers"],
            f"{found['theory']:.1f}",
            "every number" if found["recovered"] else f"no ({found['wrong']} wrong)",
            f"{found['optimal_gap']:.1e}",
            f"{found['seconds']:.1f}",
            found["bits"],
            found["pruned_bits"],
        ]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return rows


def header(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]


def bound(value: float) -> str:
    return "vacuous" if value >= 1 else percent_up(str(value))


def main() -> None:
    sys.stdout.write(
        "\n\n".join("\n".join(part()) for part in (nets, lemmas, normality, sketches)) + "\n"
    )


if __name__ == "__main__":
    main()
