"""A compression for people: facts, what was tried, layers, promises, what is proved. It knows no
method: tables and legends are drawn from what the fields of a summary say of themselves.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import Any

from cushion.cli import render
from cushion.compressors.records import InductionError, LayerSummary, Occam, PromiseCheck, Summary
from cushion.compressors.registry import METHODS
from cushion.numerics import percent_up
from cushion.records import Column, Record, columns_of
from cushion.theorems.records import Bound


def describe(found: Summary, file: str, certificate: str | None, data: str) -> str:
    """Everything that was found, and what to do with the files."""
    parts = [_about(found)]
    if tried := getattr(found, "tried", ()):
        parts.append(_titled("What was tried", tried))
    parts += [_layers(found), *_nested(found.layers), *_fields(found), promises(found.promises)]
    if len(found.layers) > 1 and (rows := getattr(found, "induction", ())):
        parts.append(_induction([layer.name for layer in found.layers], rows))
    parts += [_proved(found, len(tried)), bounds(found.paper_bounds)]
    files = f"The compressed net is in {file}; in Python: cushion.load_compressed"
    if certificate is not None:
        files += f"\nCheck the certificate with: cushion verify {certificate} --data {data}"
    elif not any(row.because for row in found.occam):
        files += (
            "\nFor a file that anybody can check with cushion verify, add --certificate "
            "FILE.cushion"
        )
    return "\n\n".join([*parts, files])


def _about(found: Summary) -> str:
    share = 100 * found.parameters / found.parameters_before
    lines = [
        *_wrapped(f"{found.method}: {METHODS[found.method].meaning} (seed {found.seed})"),
        *_wrapped(
            f"{found.parameters_before} parameters become {found.parameters} numbers "
            f"({share:.3g} %) in {found.bits} bits"
        ),
    ]
    if found.gamma is None:
        lines.append("no positive margin")
    plain = [
        column
        for column in columns_of(found)
        if not isinstance(getattr(found, column.name), Record | tuple)
        and getattr(found, column.name) not in (None, "", False)
    ]
    lines.append(render.facts(found, *(column.name for column in plain)))
    if all(getattr(layer, "size", None) == 0 for layer in found.layers):
        lines.append(
            "At this accuracy nothing can be cut: every layer is kept, on a grid; give `k` or a "
            "larger `epsilon`"
        )
    for note in getattr(found, "notes", ()):
        lines += _wrapped(f"note: {note}")
    return "\n".join(lines)


def _titled(title: str, rows: Sequence[Record]) -> str:
    return "\n".join([*_wrapped(title), render.records(rows), *_legend(type(rows[0]))])


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, render.width())


def _legend(cls: type, *names: str) -> list[str]:
    """What the columns mean whose labels do not say it, each once."""
    told = [column.name for column in columns_of(cls, *names) if column.meaning]
    return list(dict.fromkeys(render.legend(cls, *told).splitlines())) if told else []


def _layers(found: Summary) -> str:
    """Flat columns of the layers, those that say nothing left out, and their sums."""
    layers: Sequence[LayerSummary] = found.layers
    shown = [
        column.name
        for column in columns_of(layers[0])
        if not _records_in(layers, column)
        and any(getattr(layer, column.name) not in (None, "", ()) for layer in layers)
    ]
    rest = found.bits - sum(layer.bits for layer in layers)
    return "\n".join(
        [
            render.records(layers, *shown),
            *_wrapped(
                f"total: {found.parameters_before} parameters before, {found.parameters} numbers "
                f"and {found.bits} bits after, {rest} of them sizes and grids"
            ),
            *_legend(type(layers[0]), *shown),
        ]
    )


def _records_in(layers: Sequence[LayerSummary], column: Column) -> list[tuple[str, Record]]:
    """(layer, record) of the layers that have one in this column."""
    found = ((layer.name, getattr(layer, column.name)) for layer in layers)
    return [(name, value) for name, value in found if isinstance(value, Record)]


def _nested(layers: Sequence[LayerSummary]) -> list[str]:
    """One table for each column of the layers that holds records."""
    tables = []
    for column in columns_of(layers[0]):
        if rows := _records_in(layers, column):
            own = columns_of(rows[0][1])
            cells = [
                [name, *(render.cell(one, getattr(record, one.name)) for one in own)]
                for name, record in rows
            ]
            header = ["layer", *(one.label for one in own)]
            lines = [*_wrapped(column.meaning), render.table(header, cells)]
            tables.append("\n".join([*lines, *_legend(type(rows[0][1]))]))
    return tables


def _fields(found: Summary) -> list[str]:
    """A table for each field of the net that holds records, titled by its meaning."""
    parts = []
    for column in columns_of(found):
        value = getattr(found, column.name)
        if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            parts.append(_titled(column.meaning, value))
        elif isinstance(value, Record):
            parts.append("\n".join([*_wrapped(column.meaning), *_record(found, value)]))
    return parts


def _record(found: Summary, record: Record) -> list[str]:
    """Its facts, and a table of what it has for each layer."""
    columns = columns_of(record)
    wide = [one for one in columns if isinstance(getattr(record, one.name), tuple)]
    lines = [render.facts(record, *(one.name for one in columns if one not in wide))]
    if wide:
        names = [layer.name for layer in found.layers]
        values = [[render.cell(one, v) for v in getattr(record, one.name)] for one in wide]
        rows = [list(row) for row in zip(names, *values, strict=True)]
        lines.append(render.table(["layer", *(one.label for one in wide)], rows))
    return [*lines, *_legend(type(record))]


def promises(checks: Sequence[PromiseCheck]) -> str:
    """Every lemma, and whether it held."""
    words = {True: "held", False: "BROKEN", None: "not promised"}
    rows = [
        [
            one.name,
            words[one.held],
            "-" if one.worst_ratio is None else f"{one.worst_ratio:.4g}",
            one.cases,
            f"{one.meaning} [{one.source}]",
        ]
        for one in checks
    ]
    header = ["lemma", "", "worst/promised", "cases", "meaning"]
    return f"What the lemmas promise\n{render.table(header, rows)}"


def _induction(names: Sequence[str], induction: Sequence[InductionError]) -> str:
    """Rows: how many layers are changed; columns: at which layer the error is seen."""
    seen = {(one.compressed, one.at): f"{one.worst:.4g}" for one in induction}
    promised = {one.compressed: one.promised for one in induction}
    rows = []
    for i in range(1, len(names) + 1):
        allowed = promised.get(i)
        own = [seen.get((i, name), "-") for name in names]
        rows.append([str(i), "-" if allowed is None else f"{allowed:.4g}", *own])
    title = "Worst relative error at each layer when the first i layers are changed, beside (i/d)ε"
    return "\n".join([*_wrapped(title), render.table(["i", "(i/d)ε", *names], rows)])


def _proved(found: Summary, tried: int) -> str:
    """What is proved, what that assumes, and what it costs that a setting was chosen."""
    lines = [
        f"Before: {found.errors_before} errors on {found.m} examples. What is proved of the "
        "compressed net:",
        *map(_occam, found.occam),
        f"assuming that {'; '.join(found.assumptions)}",
    ]
    if tried > 1:
        lines.append(
            f"The best of {tried} settings was taken. That is free here: the code covers every "
            f"message, whichever setting made it. The paper's own bounds pay ln {tried} = "
            f"{getattr(found, 'price', 0.0):.3g} nats for it."
        )
    elif tried:
        lines.append("One setting was tried, so there was no choice to pay for.")
    return "\n".join(part for line in lines for part in _wrapped(line))


def _occam(row: Occam) -> str:
    if row.because:
        return f"no certificate file: {row.because}"
    held = f"; {row.holdout_errors} errors on {row.holdout_m} held-out" if row.holdout_m else ""
    kind = (
        "as an integer net, for cushion verify"
        if row.kind == "certificate"
        else "in this machine's floating point"
    )
    shown = percent_up(str(row.bound))
    bound = "vacuous" if shown == "100.00 %" else f"errs on at most {shown} of new examples"
    return f"{kind}: {row.errors} errors{held}, {row.bits} bits, {bound} (delta = {row.delta:g})"


def bounds(rows: Sequence[Bound]) -> str:
    """The rows with a value, each once, then for the others why they have none."""
    parts = _wrapped(
        "The paper's bounds for this net, with explicit constants; kind says what each is"
    )
    known: dict[tuple[Any, ...], Bound] = {}  # without failures two theorems may say the same
    for row in rows:
        if not row.abstains:
            known.setdefault((row.name.split(",")[0], row.form, row.value, row.log10), row)
    if known:
        cells = [
            [one.name, one.form, one.kind, one.shown, f"{one.meaning} [{one.source}]"]
            for one in known.values()
        ]
        header = ["bound", "form", "kind", "error at most", "meaning"]
        parts.append(render.table(header, cells))
    silent: dict[str, list[Bound]] = {}
    for row in rows:
        if row.abstains:
            silent.setdefault(row.meaning.removeprefix("abstains: "), []).append(row)
    for why, these in silent.items():
        names = ", ".join(dict.fromkeys(f"{bound.name} [{bound.source}]" for bound in these))
        parts += _wrapped(f"No value for {names}: {why}")
    return "\n".join(parts)
