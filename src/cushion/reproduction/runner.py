"""Runs registered items so that killing at any point and running again continues.

An item does its work in named steps. A step's result is JSON, kept under OUT/.steps by the hash of its name and
settings: run again, or asked for by another item, it is read back instead of made. When all is made, the records,
the table and the page are written, and last of all done.json, which marks the item as done.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cushion.errors import BadInput, Malformed
from cushion.files import write_whole
from cushion.reproduction.registry import ITEMS, Item, find

Size = Literal["quick", "full"]


@dataclass(frozen=True)
class Page:
    """What an item found. The verdict is computed from the rows by the item's code, never typed."""

    claim: str  # what the source claims
    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    verdict: Literal["reproduced", "not reproduced", "differs"]
    because: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Workshop:
    """Where an item works: its size and device, and steps that are made once."""

    out: Path
    size: Size
    device: str
    seed: int

    def step(self, name: str, settings: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """The JSON value of `make()`, made at most once for this name and these settings."""
        text = json.dumps([name, dict(settings)], sort_keys=True)
        path = self.out / ".steps" / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        if not path.is_file():
            value = make()
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(value, allow_nan=False))
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise Malformed(f"{path} is damaged; delete it and run again") from None


def folder_of(item: Item, out: Path, size: Size) -> Path:
    return out / item.id / size


def is_done(item: Item, out: Path, size: Size) -> bool:
    return (folder_of(item, out, size) / "done.json").is_file()


def reproduce(item_id: str, out: str | Path, *, size: Size = "quick", device: str = "cpu", seed: int = 0) -> Path:
    """Make one item and return its folder: records.json, table.csv, page.md, done.json."""
    item = find(item_id)
    root = Path(out)
    if root.exists() and not root.is_dir():
        raise BadInput(f"{root} is not a folder; choose another -o")
    folder = folder_of(item, root, size)
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "done.json"
    done.unlink(missing_ok=True)  # until everything below is written again, it is not done
    page = item.load()(Workshop(root, size, device, seed))
    command = f"cushion reproduce {item.id} --{size} --seed {seed}"
    records: dict[str, Any] = {
        "id": item.id,
        "title": item.title,
        "source": item.source,
        "claim": page.claim,
        "header": list(page.header),
        "rows": [list(row) for row in page.rows],
        "verdict": page.verdict,
        "because": page.because,
        "settings": {**page.settings, "size": size, "device": device, "seed": seed},
        "command": command,
    }
    write_whole(folder / "records.json", json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    write_whole(folder / "table.csv", _csv(page.header, page.rows))
    write_whole(folder / "page.md", render(records))
    write_whole(done, json.dumps({"command": command}) + "\n")
    return folder


def reproduce_all(out: str | Path, **options: Any) -> list[Path]:
    """Every registered item, in order."""
    return [reproduce(item_id, out, **options) for item_id in ITEMS]


def render(records: Mapping[str, Any]) -> str:
    """The page in markdown, from the records alone."""
    lines = [
        f"# {records['title']} ({records['id']})",
        "",
        f"Source: {records['source']}. Claim: {records['claim']}",
        "",
        f"**Verdict: {records['verdict']}.** {records['because']}",
        "",
        "| " + " | ".join(records["header"]) + " |",
        "|" + "---|" * len(records["header"]),
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in records["rows"]),
        "",
        "Settings: " + ", ".join(f"{key} {value}" for key, value in records["settings"].items()) + ".",
        "",
        f"Made by `{records['command']}`.",
    ]
    return "\n".join(lines) + "\n"


def _csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
