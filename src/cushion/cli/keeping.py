"""A compression that keeps the net, for people: six lines; all that was tried behind --full."""

from __future__ import annotations

from cushion.cli import render
from cushion.compressors.tuning.records import KeptSummary
from cushion.measures.family import View
from cushion.numerics import counted, percent_up


def describe(found: KeptSummary, file: str, *, full: bool) -> str:
    """What was asked, what came of it, what is proved, what to do next."""
    parts: list[View | str] = ["\n".join(_lines(found, file))]
    if full:
        parts.append(View("What was tried, in this order", found.tried, ""))
        rest = 8 * found.bytes - sum(layer.bits for layer in found.layers)
        title = f"Layers; {rest} bits of the file are its head, sizes and grids"
        parts.append(View(title, found.layers, ""))
        parts.append(f"The bounds assume that {'; '.join(found.assumptions)}")
    return render.show(parts)


def _lines(found: KeptSummary, file: str) -> list[str]:
    numbers = f"{_spaced(found.parameters)} of {_spaced(found.parameters_before)} numbers"
    size = f"{_spaced(found.bytes)} bytes instead of {_spaced(found.bytes_before)}"
    met = "met" if found.met else "not met by any setting; this is the nearest"
    front = sum(one.front for one in found.tried)
    lines = [
        f"{file}: {size} ({found.ratio:.3g} times smaller), {numbers}",
        f"asked: {found.target}: {met}",
        f"errors: {_errors(found)}",
        _proved(found),
        f"tried: {counted(len(found.tried), 'setting')}, {front} of them on the front of size and "
        "error (--full shows all, --figures DIR draws them)",
    ]
    if found.interrupted:
        lines.append("interrupted: the best until then; the same command goes on from there")
    else:
        lines.append(f"next: {_next(found, file)}")
    return lines


def _errors(found: KeptSummary) -> str:
    said = [_change("the sample", found.errors_before, found.errors, found.m)]
    if found.validation_rows:
        before, after = found.validation_errors_before or 0, found.validation_errors or 0
        said.append(_change("the validation rows", before, after, found.validation_rows))
    if found.holdout_rows:
        before, after = found.holdout_errors_before or 0, found.holdout_errors or 0
        said.append(_change("held-out rows", before, after, found.holdout_rows))
    return "; ".join(said)


def _change(rows: str, before: int, after: int, m: int) -> str:
    return f"{100 * before / m:.2f} -> {100 * after / m:.2f} % of {rows} ({after} of {_spaced(m)})"


def _proved(found: KeptSummary) -> str:
    best = min(found.occam, key=lambda row: row.bound)
    by_bits = percent_up(str(best.bound))
    said = [f"by its bits ({best.kind}) {by_bits}"]
    if by_bits == "100.00 %":
        said = ["by its bits nothing: too many for so few examples"]
    if found.holdout_bound is not None:
        said.insert(0, f"by held-out rows {percent_up(str(found.holdout_bound))}")
    return f"the small net errs on at most (δ = {found.delta:g} each): {'; '.join(said)}"


def _next(found: KeptSummary, file: str) -> str:
    if not found.met:
        if found.settings["max_size"] is not None:
            return f"ask for more: the smallest that was tried has {_spaced(found.bytes)} bytes"
        return "allow more errors (--lose, --max-error), or give it longer (--epochs)"
    chosen = next(one for one in found.tried if one.chosen)
    smaller = f"smaller: --max-size {max(1, found.bytes // 2)}B or --lose 2"
    if "untrained" in chosen.asked:
        smaller = "smaller: give the training longer (--epochs), or --lose 2"
    certificate = "a certificate: --certificate FILE"
    return f"cushion export {file} --to torch -o NET.pt2; {smaller}; {certificate}"


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")
