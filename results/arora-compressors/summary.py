"""Print the tables of README.md from the records beside this file: python summary.py (--figures
draws curves-*.png)
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MARKS = {True: "held", False: "BROKEN", None: "not promised"}
SHOWN = (
    "lenet/low-rank-margin",
    "lenet/low-rank",
    "lenet/matrix-project",
    "vgg/low-rank",
    "vgg/matrix-project",
    "vgg/conv-project",
)
Records = dict[str, dict[str, Any]]


def records() -> Records:
    """By net/method, in the order of the commands."""
    order = (HERE / "commands.sh").read_text()
    paths = sorted(
        HERE.glob("*/*.json"),
        key=lambda path: order.find(f"record {path.parent.name}/{path.stem} "),
    )
    return {f"{path.parent.name}/{path.stem}": json.loads(path.read_text()) for path in paths}


def layers(found: Records, name: str) -> list[str]:
    """One record's promise table: every layer before and after."""
    lines = [
        "| layer | stored as | lemma's k | accuracy | seen / allowed | promised | measured | "
        "before | after | bits |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for layer in found[name]["layers"]:
        asked = layer["lemma_size_log10"]
        cells = [
            layer["name"],
            layer["stored_as"],
            "-" if asked is None else f"10^{asked:.1f}",
            _number(layer["own_accuracy"]),
            _number(layer["own_ratio"]),
            _number(layer["promised"]),
            _number(layer["measured"]),
            layer["parameters_before"],
            layer["parameters"],
            layer["bits"],
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def promises(found: Records) -> list[str]:
    """Every lemma on every record."""
    lines = ["| record | lemma | | worst / promised | cases |", "|---|---|---|---|---|"]
    for name, record in found.items():
        for one in record["promises"]:
            ratio = _number(one["worst_ratio"])
            lines.append(
                f"| {name} | {one['name']} | {MARKS[one['held']]} | {ratio} | {one['cases']} |"
            )
    return lines


def curves(found: Records, net: str) -> list[str]:
    """Numbers stored, bits, mean relative error of the scores, errors on training and held-out
    examples.
    """
    lines = [
        "| method | size | numbers | bits | mean relative error | margin loss | training error | "
        "test error |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, record in found.items():
        if name.startswith(f"{net}/"):
            for point in record["curve"]:
                lines.append(
                    f"| {name.split('/')[1]} | {point['asked']} | {point['parameters']} | "
                    f"{point['bits']} | {_number(point['mean_relative_error'])} | "
                    f"{point['margin_loss']:.2%} | {point['error']:.2%} | "
                    f"{'-' if point['test_error'] is None else format(point['test_error'], '.2%')} "
                    "|"
                )
    return lines


def proved(found: Records) -> list[str]:
    """What the bits of each compressed net prove of it."""
    lines = [
        "| record | numbers | bits | errors | of | bound | certificate |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, record in found.items():
        here, exact = record["occam"]
        certificate = exact["because"].split(": ")[-1].split(",")[0] or _percent(exact["bound"])
        cells = [
            name,
            record["parameters"],
            here["bits"],
            here["errors"],
            here["m"],
            _percent(here["bound"]),
            certificate,
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def places(found: Records) -> list[str]:
    """Algorithm 4: how dependent the filters of different places are, layer by layer."""
    lines = [
        "| layer | places | correlation | closed form | variance of sums over places |",
        "|---|---|---|---|---|",
    ]
    for layer in found["vgg/conv-project"]["layers"]:
        one = layer["dependence"]
        if one is not None:
            lines.append(
                f"| {layer['name']} | {one['places']} | {one['correlation']:.4f} | "
                f"{one['expected']:.4f} | x {one['variance_factor']:.2f} |"
            )
    return lines


def draw(found: Records, net: str) -> None:
    """Test error over numbers stored, all methods of a net in one picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.add_subplot()
    styles = ["o-", "s--", "^:", "D-.", "v-", "P--", "X:", "*-."]
    colours = [
        "#0072B2",
        "#D55E00",
        "#009E73",
        "#CC79A7",
        "#56B4E9",
        "#E69F00",
        "#000000",
        "#999999",
    ]
    shown = [
        (name, record)
        for name, record in found.items()
        if name.startswith(f"{net}/") and record["curve"]
    ]
    for (name, record), style, colour in zip(shown, styles, colours, strict=False):
        seen = "error" if record["curve"][0]["test_error"] is None else "test_error"
        points = sorted((point["parameters"], point[seen]) for point in record["curve"])
        label = name.split("/")[1] + (" (training examples)" if seen == "error" else "")
        axes.plot(
            [size for size, _ in points],
            [error for _, error in points],
            style,
            color=colour,
            label=label,
        )
    axes.axvline(
        shown[0][1]["parameters_before"], color="#666666", linewidth=1, label="the net as it was"
    )
    axes.set_xscale("log")
    axes.set_xlabel("numbers stored")
    axes.set_ylabel("error on held-out examples")
    axes.set_title(f"{net}: error against size, all methods (measured)")
    axes.legend(fontsize=8)
    figure.savefig(HERE / f"curves-{net}.png", dpi=110)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _percent(bound: float) -> str:
    """Rounded up."""
    hundredths = math.ceil(bound * 10_000 - 1e-9)
    return "vacuous" if hundredths >= 10_000 else f"{hundredths / 100:.2f} %"


def _print(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")


def main() -> None:
    found = records()
    for name in SHOWN:
        _print(f"\n{name}\n", *layers(found, name))
    nets = dict.fromkeys(name.split("/")[0] for name in found)
    for net in nets:
        _print(f"\ncurve of {net}\n", *curves(found, net))
        if "--figures" in sys.argv:
            draw(found, net)
    _print(
        "\npromises\n", *promises(found), "\nproved\n", *proved(found), "\nplaces\n", *places(found)
    )


if __name__ == "__main__":
    main()
