"""What an item found, as data, and the page in markdown that is written from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cushion.papers.drawings import Drawing
from cushion.records import Record

Size: TypeAlias = Literal["quick", "recorded", "full"]
Outcome: TypeAlias = Literal["reproduced", "not reproduced", "differs", "undecided"]
SIZES: tuple[Size, ...] = ("quick", "recorded", "full")
# Under its header, what a column reads of a row: a function, or a path such as "occam.1.bits".
Columns: TypeAlias = Mapping[str, str | Callable[[Any], Any]]


class Table(Record):
    """Rows under a header; an empty cell is None."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""

    @classmethod
    def of(cls, caption: str, rows: Iterable[Any], columns: Columns) -> Table:
        """One line a row; the parts of a path are keys, places or attributes, and None has none."""
        cells = [[_at(row, read) for read in columns.values()] for row in rows]
        return cls(list(columns), cells, caption)


def _at(value: Any, read: str | Callable[[Any], Any]) -> Any:
    if callable(read):
        return read(value)
    for part in read.split("."):
        if isinstance(value, Mapping):
            value = value[part]
        elif isinstance(value, list | tuple):
            value = value[int(part)]
        else:
            value = None if value is None else getattr(value, part)
    return value


class Tried(Record):
    """A sentence of the source, tried on the source's own numbers and on ours.

    holds: on ours; None where ours cannot decide. in_paper: on the source's numbers; None where it
    gives none. The two texts say what was compared.
    """

    text: str
    holds: bool | None
    because: str
    in_paper: bool | None = None
    paper_because: str = ""


@dataclass(frozen=True)
class Page:
    """What an item found. The verdict is counted from its claims, which code tries, never typed."""

    tables: Sequence[Table]
    settings: Mapping[str, Any]
    claims: Sequence[Tried] = ()
    notes: Sequence[str] = ()
    pictures: Sequence[Drawing] = ()

    def to_json(self) -> dict[str, Any]:
        """Everything but the settings, to which the runner adds its own."""
        verdict, because = judge(self.claims)
        return {
            "verdict": verdict,
            "because": because,
            "claims": [claim.to_json() for claim in self.claims],
            "tables": [table.to_json() for table in self.tables],
            "notes": list(self.notes),
            "pictures": [picture.to_json() for picture in self.pictures],
        }


def judge(claims: Sequence[Tried]) -> tuple[Outcome, str]:
    """The verdict, with the counts as a sentence."""
    held = sum(claim.holds is True for claim in claims)
    undecided = sum(claim.holds is None for claim in claims)
    rest = f", {undecided} cannot be decided here" if undecided else ""
    because = f"{held} of {len(claims)} claims hold on our numbers{rest}."
    return judged([claim.holds for claim in claims]), because


def judged(holds: Sequence[bool | None]) -> Outcome:
    """All claims hold: reproduced; none (or no claim at all): not reproduced; none is decided:
    undecided; else differs.

    Beside claims that are decided, one that is not counts as not holding.
    """
    held = sum(one is True for one in holds)
    if holds and all(one is None for one in holds):
        return "undecided"
    return "not reproduced" if held == 0 else "reproduced" if held == len(holds) else "differs"


def render(records: Mapping[str, Any]) -> str:
    """The page in markdown, from the records alone."""
    lines = [
        f"# {records['title']} ({records['id']})",
        "",
        f"Source: {records['source']}. Claim: {records['claim']}",
        "",
        f"**Verdict: {records['verdict']}.** {records['because']}",
        "",
    ]
    if records["claims"]:
        header = ("claim", "in the source's numbers", "in ours")
        lines += grid(header, [_tried(claim) for claim in records["claims"]])
    for table in records["tables"]:
        lines += [table["caption"], ""] if table["caption"] else []
        lines += grid(table["header"], table["rows"])
    if records["pictures"] and records["not_drawn_because"]:
        lines += [f"Pictures were not drawn: {records['not_drawn_because']}.", ""]
    else:
        for picture in records["pictures"]:
            lines += [f"![{picture['title']}]({picture['name']}.png)", ""]
    if records["notes"]:
        lines += [*(f"- {note}" for note in records["notes"]), ""]
    settings = ", ".join(f"{key} {value}" for key, value in records["settings"].items())
    lines += [f"Settings: {settings}.", "", f"Made by `{records['command']}`."]
    return "\n".join(lines) + "\n"


def _tried(claim: Mapping[str, Any]) -> tuple[str, str, str]:
    words = {True: "holds", False: "does not hold", None: "cannot be decided"}
    paper = f"{words[claim['in_paper']]}: {claim['paper_because']}"
    ours = f"{words[claim['holds']]}: {claim['because']}"
    return claim["text"], "gives none" if claim["in_paper"] is None else paper, ours


def grid(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """The lines of a table in markdown, and an empty one."""
    first, *others = ("| " + " | ".join(map(_cell, row)) + " |" for row in (header, *rows))
    return [first, "|" + "---|" * len(header), *others, ""]


def _cell(value: Any) -> str:
    """Fractions to four significant digits; what has no value is a dash."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")
