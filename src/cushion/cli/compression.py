"""A compression for people: facts, what was tried, layers, promises, what is proved. It knows no
method: tables and legends are drawn from what the fields of a summary say of themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cushion.cli import render
from cushion.compressors.records import InductionError, Occam, PromiseCheck, Summary
from cushion.compressors.registry import METHODS
from cushion.measures.family import View
from cushion.numerics import counted, percent_up
from cushion.records import Record, columns_of
from cushion.theorems.records import Bound


def describe(found: Summary, file: str, certificate: str | None, data: str) -> str:
    """Everything that was found, and what to do with the files."""
    return render.show(_parts(found, file, certificate, data))


def _parts(found: Summary, file: str, certificate: str | None, data: str) -> Iterator[View | str]:
    yield _about(found)
    if tried := getattr(found, "tried", ()):
        yield View("What was tried", tried, "")
    yield from _layers(found)
    yield from _fields(found)
    yield _promises(found.promises)
    if len(found.layers) > 1 and (rows := getattr(found, "induction", ())):
        yield _induction([layer.name for layer in found.layers], rows)
    yield _proved(found, len(tried))
    yield _bounds(found.paper_bounds)
    files = f"The compressed net is in {file}; in Python: cushion.load_compressed"
    if certificate is not None:
        files += f"\nCheck the certificate with: cushion verify {certificate} --data {data}"
    elif not any(row.because for row in found.occam):
        anybody = "For a file that anybody can check with cushion verify"
        files += f"\n{anybody}, add --certificate FILE.cushion"
    yield files


def _about(found: Summary) -> str:
    share = f"{100 * found.parameters / found.parameters_before:.3g} %"
    size = f"{found.parameters} numbers ({share}) in {found.bits} bits"
    lines = [
        f"{found.method}: {METHODS[found.method].meaning} (seed {found.seed})",
        f"{found.parameters_before} parameters become {size}",
    ]
    if found.gamma is None:
        lines.append("no positive margin")
    held = {one.name: getattr(found, one.name) for one in columns_of(found)}
    plain = [name for name, value in held.items() if not isinstance(value, Record | tuple)]
    plain = [name for name in plain if held[name] not in (None, "", False)]
    lines.append(render.facts(found, *plain))
    if all(getattr(layer, "size", None) == 0 for layer in found.layers):
        kept = "At this accuracy nothing can be cut: every layer is kept, on a grid"
        lines.append(f"{kept}; give `k` or a larger `epsilon`")
    return "\n".join([*lines, *(f"note: {note}" for note in getattr(found, "notes", ()))])


def _layers(found: Summary) -> Iterator[View]:
    """Flat columns of the layers, and a table for each column that holds records."""
    layers = found.layers
    flat, nested = [], {}
    for one in columns_of(layers[0]):
        rows = [layer for layer in layers if isinstance(getattr(layer, one.name), Record)]
        if rows:
            inner = columns_of(getattr(rows[0], one.name))
            paths = " ".join(f"{one.name}.{part.name}" for part in inner)
            nested[one.name] = View(one.meaning, rows, f"name {paths}")
        else:
            flat.append(one.name)
    rest = found.bits - sum(layer.bits for layer in layers)
    after = f"{found.parameters} numbers and {found.bits} bits after"
    total = f"total: {found.parameters_before} parameters before, {after}"
    yield View(f"{total}, {rest} of them sizes and grids", layers, " ".join(flat))
    yield from nested.values()


def _fields(found: Summary) -> Iterator[View | str]:
    """A table for each field of the net that holds records, titled by its meaning."""
    for one in columns_of(found):
        value = getattr(found, one.name)
        if isinstance(value, tuple) and value and isinstance(value[0], Record):
            yield View(one.meaning, value, "")
        elif isinstance(value, Record):
            yield "\n".join([one.meaning, *_record(found, value)])


def _record(found: Summary, record: Record) -> list[str]:
    """Its facts, and a table of what it has for each layer."""
    columns = columns_of(record)
    wide = [one for one in columns if isinstance(getattr(record, one.name), tuple)]
    lines = [render.facts(record, *(one.name for one in columns if one not in wide))]
    if wide:
        names = [layer.name for layer in found.layers]
        values = [[render.cell(one, v) for v in getattr(record, one.name)] for one in wide]
        rows = list(zip(names, *values, strict=True))
        lines.append(render.table(["layer", *(one.label for one in wide)], rows))
    return [*lines, *render.legend(columns)]


def _promises(checks: Sequence[PromiseCheck]) -> str:
    """Every lemma, and whether it held."""
    words = {True: "held", False: "BROKEN", None: "not promised"}
    rows = []
    for one in checks:
        ratio = "-" if one.worst_ratio is None else f"{one.worst_ratio:.4g}"
        meaning = f"{one.meaning} [{one.source}]"
        rows.append([one.name, words[one.held], ratio, one.cases, meaning])
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
    return f"{title}\n{render.table(['i', '(i/d)ε', *names], rows)}"


def _proved(found: Summary, tried: int) -> str:
    """What is proved, what that assumes, and what it costs that a setting was chosen."""
    before = f"Before: {counted(found.errors_before, 'error')} on {found.m} examples"
    lines = [
        f"{before}. What is proved of the compressed net:",
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
    return "\n".join(lines)


def _occam(row: Occam) -> str:
    if row.because:
        return f"no certificate file: {row.because}"
    errors = counted(row.errors, "error")
    if row.holdout_m:
        errors += f"; {counted(row.holdout_errors or 0, 'error')} on {row.holdout_m} held-out"
    kind = "in this machine's floating point"
    if row.kind == "certificate":
        kind = "as an integer net, for cushion verify"
    shown = percent_up(str(row.bound))
    bound = "vacuous" if shown == "100.00 %" else f"errs on at most {shown} of new examples"
    return f"{kind}: {errors}, {row.bits} bits, {bound} (delta = {row.delta:g})"


def _bounds(rows: Sequence[Bound]) -> str:
    """The rows with a value, each once, then for the others why they have none."""
    lines = ["The paper's bounds for this net, with explicit constants; kind says what each is"]
    known: dict[tuple[Any, ...], Bound] = {}  # without failures two theorems may say the same
    silent: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.abstains:
            why = row.meaning.removeprefix("abstains: ")
            silent.setdefault(why, {})[f"{row.name} [{row.source}]"] = None
        else:
            known.setdefault((row.name.split(",")[0], row.form, row.value, row.log10), row)
    if known:
        header = ["bound", "form", "kind", "error at most", "meaning"]
        cells = [
            [one.name, one.form, one.kind, one.shown, f"{one.meaning} [{one.source}]"]
            for one in known.values()
        ]
        lines.append(render.table(header, cells))
    lines += [f"No value for {', '.join(names)}: {why}" for why, names in silent.items()]
    return "\n".join(lines)
