"""Arrays as a sceptic may give them: labels that wrap around, bytes in another order, named parts,
rows that repeat; whatever they are, the same rows get the same verdict.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.centres import FRESH, SAMPLE, net
from tests.certificates.filed import HERE, array, filed, judged

import cushion
import cushion_verify
from cushion.data.inputs import Inputs
from cushion.errors import Remark
from cushion_verify import BadInput, Given, usable

X, Y = array("halves.x"), array("halves.y")
WRAPS = np.full(len(Y), 2**64 - 1, np.uint64)  # -1 as 64 bits with a sign: "no class"


@pytest.mark.parametrize("name", ["plain", "picks-fit", "pac-bayes", "own-every-line"])
def test_a_label_that_would_be_no_class_is_refused(tmp_path: Path, name: str) -> None:
    claim, message = filed(name)
    for labels in (WRAPS, Y - 1, np.where(Y == 0, np.uint64(2**63), np.uint64(1))):
        with pytest.raises(BadInput, match="y must hold a class, from 0 on"):
            judged(tmp_path, claim, message, x=X, y=labels)
    assert (usable(Given(x=X, y=Y.astype(np.uint64))).sample[1] == Y).all()


@pytest.mark.parametrize("name", ["picks-table-floats", "floats-own"])
def test_the_order_of_bytes_in_memory_changes_nothing(tmp_path: Path, name: str) -> None:
    claim, message = filed(name)
    said = json.loads((HERE / "valid" / f"{name}.json").read_text(encoding="utf-8"))
    x, y = (array(f"{said['data'].replace(' ', '-')}.{part}") for part in "xy")
    found = [
        judged(tmp_path, claim, message, x=x.astype(f"{order}f4"), y=y.astype(f"{order}i4"))
        for order in "<>"
    ]
    assert found[0].to_json() == found[1].to_json()
    assert found[0].ok


def near(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """A sample, and its own rows with the last bits changed."""
    rng = np.random.default_rng(0)
    if "u1" in kind:
        x = rng.integers(0, 256, (300, 8), dtype=np.uint8)
        close = x ^ np.uint8(1)
    else:
        x = rng.normal(size=(300, 8)).astype(np.float32)
        close = np.nextafter(x, np.float32(9))
    if kind.startswith("named"):
        part = np.dtype([("a", x.dtype, (8,))])
        return x.view(part).reshape(-1), close.view(part).reshape(-1)
    return x.astype(kind), close.astype(kind)


@pytest.mark.parametrize("kind", ["u1", "<f4", ">f4", "named u1", "named f4"])
def test_nudged_rows_are_the_sample_s_own_however_they_are_written(kind: str) -> None:
    x, close = near(kind)
    given = usable(Given(x=x, y=np.zeros(300, int), unlabelled=close))
    assert given.unlabelled is not None
    said = cushion_verify.freshness_fault(given.unlabelled, given.sample[0])
    assert said.startswith("300 of the 300 are rows of the sample itself but for their")


@pytest.mark.parametrize(
    "kind",
    [
        np.dtype([("a", "u1"), ("b", "<f4")], align=True),  # bytes between, that no fingerprint has
        np.dtype({"names": ["a", "b"], "formats": ["u1", "u1"], "offsets": [1, 0]}),
        np.dtype({"names": ["a", "b"], "formats": ["<f4", "<f4"], "offsets": [0, 0]}),
        np.dtype([("a", [("b", "u1")])]),
        np.dtype([("a", "<f8")]),
    ],
    ids=["gap", "another order", "overlap", "parts of parts", "doubles"],
)
def test_named_parts_lie_one_behind_the_other(kind: np.dtype[Any]) -> None:
    with pytest.raises(BadInput, match="examples are uint8, float32 or int64"):
        usable(Given(x=np.zeros(4, kind), y=np.zeros(4, int)))
    usable(
        Given(x=np.zeros(4, [("a", "u1", (3,)), ("b", "<f4"), ("c", ">i8")]), y=np.zeros(4, int))
    )


def test_rows_that_repeat_are_said_wherever_they_were_counted(tmp_path: Path) -> None:
    def warned(verdict: cushion_verify.Verdict) -> list[str]:
        return [one.partition(" repeat")[0] for one in verdict.warnings]

    again = Inputs("few, again", np.repeat(FRESH.x[:30], 20, axis=0))
    with pytest.warns(Remark, match="570 of the 600 inputs of few, again repeat"):
        found = cushion.certify(net(), SAMPLE, unlabelled=again)
    path = found.save(tmp_path / "t.cushion")
    verdict = cushion.verify(path, SAMPLE, model=net(), unlabelled=again)
    assert (verdict.ok, warned(verdict)) == (True, ["570 of the 600 unlabelled inputs"])
    claim, message = filed("picks-fit-holdout")
    rows = np.r_[0:30, 0:30]
    held = {f"holdout_{part}": array(f"halves-held-out.{part}")[rows] for part in "xy"}
    classes = held["holdout_y"].copy()
    classes[: claim["holdout"]["errors"]] ^= 1
    claim["holdout"]["data_fingerprint"] = cushion_verify.fingerprint_arrays(
        "cushion-data-1", held["holdout_x"], held["holdout_y"]
    )
    given = {"rounds": array("halves.rounds"), "holdout_classes": classes, **held}
    verdict = judged(tmp_path, claim, message, x=X, y=Y, **given)
    assert (verdict.ok, warned(verdict)) == (True, ["30 of the 60 held-out examples"])


def test_large_pictures_are_read_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thin file may unpack to pictures of gigabytes."""
    x, widths = np.zeros((4, 1024, 1024), np.uint8), list[int]()
    machine = cushion_verify.Machine(filed("picks-stripes")[0]["configuration"], 2, x)
    machine._rows = np.zeros((1, 3), np.float32)
    monkeypatch.setattr(cushion_verify, "in_batches", lambda _, width, *__: widths.append(width))
    machine.vectors(x)
    machine.classes(x)
    assert widths == [2**20, 2**20]
