"""Print the tables of README.md from the records beside this file: python
results/bounds-mnist/summary.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MARK = {"first": "right", "second": "WRONG", "neither": "-"}


def pairs() -> dict[str, dict[str, Any]]:
    """The records by net, number of examples and seed; in each true labels, and random ones beside
    them.
    """
    found = {path.stem: json.loads(path.read_text()) for path in HERE.glob("*.json")}
    return dict(
        sorted(found.items(), key=lambda item: (item[0].split("-")[0], item[1]["m"], item[0]))
    )


def nets(records: dict[str, dict[str, Any]]) -> list[str]:
    """What was compared: errors and margins."""
    lines = [
        "| pair | m | labels | training errors | test error | γ |",
        "|---|---|---|---|---|---|",
    ]
    for name, record in records.items():
        for labels, net in (("true", record), ("random", record["beside"])):
            test = net["holdout_errors"] / net["holdout_m"]
            lines.append(
                f"| {name} | {net['m']} | {labels} | {net['errors']} | {test:.2%} | "
                f"{net['margin']:.3g} |"
            )
    return lines


def verdicts(records: dict[str, dict[str, Any]]) -> list[str]:
    """For every row of the table of bounds, whether it calls the net of true labels the better
    one.
    """
    lines = [f"| row | form | {' | '.join(records)} |", "|---|---|" + "---|" * len(records)]
    tables = [
        {(v["name"], v["form"]): v for v in record["verdicts"]} for record in records.values()
    ]
    for name, form in tables[0]:
        cells = []
        for table in tables:
            verdict = table[name, form]
            gap = ""
            if verdict["prefers"] != "neither":
                gap = f" {verdict['second'] - verdict['first']:+.2f}"
            cells.append(MARK[verdict["prefers"]] + gap)
        lines.append(f"| {name} | {form} | {' | '.join(cells)} |")
    return lines


def certificates(records: dict[str, dict[str, Any]]) -> list[str]:
    """The certificates of both nets, in per cent, as the records have them: rounded up."""
    lines = [
        "| certificate | about | labels | " + " | ".join(records) + " |",
        "|---|---|---|" + "---|" * len(records),
    ]
    rows = [row for row in next(iter(records.values()))["bounds"] if row["kind"] == "certificate"]
    for row in rows:
        for labels in ("true", "random"):
            cells = []
            for record in records.values():
                table = record if labels == "true" else record["beside"]
                found = next(
                    one
                    for one in table["bounds"]
                    if one["kind"] == "certificate" and one["name"] == row["name"]
                )
                cells.append("vacuous" if found["vacuous"] else f"{100 * found['value']:.4f}")
            lines.append(f"| {row['name']} | {row['about']} | {labels} | {' | '.join(cells)} |")
    return lines


def growth(records: dict[str, dict[str, Any]]) -> list[str]:
    """How the four capacities of Figure 1 grow with the number of examples: log10, seed 0, one
    hidden layer.
    """
    chosen = [
        record
        for name, record in records.items()
        if name.startswith("two-") and name.endswith("-0")
    ]
    lines = [
        "| log10 of norm² / γ² | labels | "
        + " | ".join(f"m = {record['m']}" for record in chosen)
        + " |"
    ]
    lines.append("|---|---|" + "---|" * len(chosen))
    for name in ("l2-norm", "l1-path", "l2-path", "spectral"):
        for labels in ("true", "random"):
            cells = []
            for record in chosen:
                rows = (record if labels == "true" else record["beside"])["bounds"]
                row = next(
                    one for one in rows if (one["name"], one["form"]) == (name, "as plotted")
                )
                cells.append(f"{row['capacity_log10']:.2f}")
            lines.append(f"| {name} | {labels} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """All tables."""
    records = pairs()
    for part in (nets, certificates, verdicts, growth):
        sys.stdout.write("\n".join(part(records)) + "\n\n")


if __name__ == "__main__":
    main()
