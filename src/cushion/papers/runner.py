"""Runs registered items so that killing at any point and running again continues.

An item does its work in named steps. A step's result is JSON, kept under OUT/records by the hash of
its name and settings: run again, or asked for by another item, it is read back instead of made.
Nets are trained into OUT/.runs, one RUN folder each. When all is made, the tables, the pictures and
the page are written, and last of all done.json, which marks the item as done. A page is a function
of its steps alone: `from_records` makes it from them and refuses to make a step, so that anyone can
derive what a page prints again without training anything.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cushion.data.files import check_regular, write_whole
from cushion.errors import BadInput, Malformed
from cushion.papers.pages import SIZES, Page, Size, Table, render
from cushion.papers.pictures import draw_picture
from cushion.papers.registry import ITEMS, Item, find
from cushion.progress import progress

Made = TypeVar("Made")
# What a page's code meets in a record of another shape.
_MISSHAPEN: tuple[type[Exception], ...] = (LookupError, TypeError, ValueError, ArithmeticError)
_MISSHAPEN += (AssertionError, AttributeError, StopIteration)


class Unrecorded(BadInput):
    """A step that would have to be made, where only records may be read."""


@dataclass(frozen=True)
class Workshop:
    """Where an item works: its size and device, and steps that are made once.

    used: the files of the steps that were asked for, in order. from_records: whether a missing step
    is refused.
    """

    out: Path
    size: Size
    device: str = "cpu"
    seed: int = 0
    from_records: bool = False
    used: list[str] = field(default_factory=list)

    @property
    def runs(self) -> Path:
        """Where nets are trained: one RUN folder each, shared by all items and sizes."""
        return self.out / ".runs"

    @property
    def records(self) -> Path:
        """Where the results of steps are kept, shared by all items and sizes."""
        return self.out / "records"

    def step(self, name: str, settings: Mapping[str, Any], make: Callable[[], Made]) -> Made:
        """What `make()` returns, which is JSON, made at most once for name and settings."""
        text = json.dumps([name, dict(settings)], sort_keys=True)
        path = self.records / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        if not path.is_file():
            if self.from_records:
                why = "nothing is made with `from_records`; leave that option out"
                raise Unrecorded(f"{path} is missing, and {why}")
            record = {"step": name, "settings": dict(settings), "value": make()}
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, _compact(record))
        found: Made = _read(path, name, settings)
        if path.name not in self.used:
            self.used.append(path.name)
        return found


def _read(path: Path, name: str, settings: Mapping[str, Any]) -> Any:
    """The value of a step's file, which must be about that step: its name is not believed."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        record = json.loads(check_regular(path).read_text("utf-8"), parse_constant=refuse)
        value, asked = record["value"], json.loads(json.dumps(dict(settings)))
        same = (record["step"], record["settings"]) == (name, asked)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Malformed(f"{path} is damaged; delete it and run again") from None
    if not same:
        raise Malformed(f"{path} is the record of another step; delete it and run again")
    return value


def folder_of(item: Item, out: Path, size: Size) -> Path:
    return out / item.id / size


def is_done(item: Item, out: Path, size: Size) -> bool:
    return (folder_of(item, out, size) / "done.json").is_file()


def done_sizes(item: Item, out: Path) -> list[Size]:
    """The sizes at which the item is done, the smallest first."""
    return [size for size in SIZES if is_done(item, out, size)]


def reproduce(
    item_id: str,
    out: str | Path,
    *,
    size: Size = "quick",
    device: str = "cpu",
    seed: int = 0,
    from_records: bool = False,
    svg: bool = False,
) -> Path:
    """Make one item and return its folder: records.json, table*.csv, pictures (PNG; with `svg` as
    SVG too), page.md, done.json.
    """
    from cushion.nets.devices import find_device  # torch: not for --list and --summary

    item = find(item_id)
    find_device(device)
    root = Path(out)
    folder = folder_of(item, root, size)
    workshop = Workshop(root, size, device, seed, from_records)
    if from_records:  # a refusal leaves no folder behind
        page = _make(item, workshop)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        problem = f"{folder} is not a folder and cannot become one"
        raise BadInput(f"{problem}; choose another -o than {root}") from None
    if not from_records:
        page = _make(item, workshop)
    done = folder / "done.json"
    done.unlink(missing_ok=True)  # until everything below is written again, it is not done
    where = "" if device == "cpu" else f" --device {device}"
    command = f"cushion reproduce {item.id} --{size} --seed {seed}{where}"
    records: dict[str, Any] = {
        **{key: getattr(item, key) for key in ("id", "title", "source", "claim")},
        **page.to_json(),
        "settings": {**page.settings, "size": size, "device": device, "seed": seed},
        "command": command,
        "made_from": workshop.used,
        "not_drawn_because": _draw(page, folder, svg),
    }
    write_whole(folder / "records.json", _compact(records))
    for number, table in enumerate(page.tables, 1):
        write_whole(folder / ("table.csv" if number == 1 else f"table-{number}.csv"), _csv(table))
    write_whole(folder / "page.md", render(records))
    write_whole(done, json.dumps({"command": command}) + "\n")
    return folder


def reproduce_all(
    out: str | Path, *, from_records: bool = False, **options: Any
) -> tuple[list[Path], list[str]]:
    """Every registered item, in order: the folders, and with `from_records` the ids of those
    without records.

    Otherwise an item that refuses (data that are not here, say) stops the rest.
    """
    made, without = [], []
    for item_id in progress(ITEMS, "items", "item"):
        try:
            made.append(reproduce(item_id, out, from_records=from_records, **options))
        except BadInput:  # a step without a record, or data that such a step would read
            if not from_records:
                raise
            without.append(item_id)
    return made, without


def _make(item: Item, workshop: Workshop) -> Page:
    """The page; where a record that was read has another shape, a sentence and not a bug."""
    try:
        return item.load()(workshop)
    except _MISSHAPEN:
        if not workshop.from_records:
            raise
        used = f"{', '.join(workshop.used)} in {workshop.records}"
        raise Malformed(
            f"{item.id} cannot be made from {used}; delete them and run again"
        ) from None


def _draw(page: Page, folder: Path, svg: bool) -> str:
    """Draw the pictures; without matplotlib, how to get it."""
    try:
        for picture in page.pictures:
            draw_picture(picture.to_json(), folder, svg=svg)
    except BadInput as problem:
        return str(problem)
    return ""


def _compact(record: Mapping[str, Any]) -> str:
    """One line of JSON: what a page shows is written out on the page."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows(table.rows)
    return text.getvalue()
