"""The files that are mutated: the valid ones of tests/certificates, with the data that confirm
them.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.certificates import user_net
from tests.certificates.build import looks_name
from tests.certificates.samples import file_name, sample

from cushion.certificates import answers as float_nets
from cushion.certificates.format.claims import Answers
from cushion.certificates.recheck import Answering
from cushion.data.dataset import Dataset
from cushion.data.inputs import Inputs
from fuzz.mutations import Parts

FOLDER = Path(__file__).parent.parent / "tests" / "certificates"
KINDS = ("occam", "pac-bayes", "holdout", "picks")
_OF_ARRAYS = {"holdout", "picks"}  # kinds that are verified with plain arrays


@dataclass(frozen=True, eq=False)
class Original:
    """A valid file with the data that confirm it.

    arrays: what `cushion_verify.Given` is made of, of the kinds that are verified with such; looks:
    the ledger that it is a look of.
    """

    name: str
    content: bytes
    sample: Dataset
    holdout: Dataset | None
    unlabelled: Inputs | None
    answering: Answering | None
    arrays: dict[str, Any] | None = None
    looks: bytes | None = None

    @cached_property
    def claim(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Parts.of(self.content).claim)
        return found

    @property
    def kind(self) -> str:
        kind: str = self.claim["kind"]
        return kind


def load_originals(kinds: Collection[str] = KINDS) -> list[Original]:
    """Every valid file of the corpus of these kinds."""
    found = []
    for path in sorted((FOLDER / "valid").glob("*.cushion")):
        written = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        content = path.read_bytes()
        kind = json.loads(Parts.of(content).claim)["kind"]
        if kind not in kinds:
            continue
        make = _with_arrays if kind in _OF_ARRAYS else _with_data
        found.append(make(path.stem, content, written))
    assert found, "there are no valid certificate files to mutate"
    return found


def _with_data(name: str, content: bytes, written: dict[str, Any]) -> Original:
    inputs = answering = None
    if written["net"]:
        inputs = Inputs("unlabelled", sample(written["unlabelled"]).x)
        answering = partial(_answers, written["net"])
    held = sample(written["holdout"]) if written["holdout"] else None
    return Original(name, content, sample(written["data"]), held, inputs, answering)


def _with_arrays(name: str, content: bytes, written: dict[str, Any]) -> Original:
    """With f's scores, the features, the rounds of a training and the ledger as they are saved."""
    data, claim = sample(written["data"]), json.loads(Parts.of(content).claim)
    rows = written["holdout"] or ("halves held out" if claim["holdout"] else None)
    held = sample(rows) if rows else None
    arrays: dict[str, Any] = {"x": data.x, "y": data.y}
    if held is not None:
        arrays |= {"holdout_x": held.x, "holdout_y": held.y}
    if claim["kind"] == "holdout":
        arrays |= {"net": claim["net_fingerprint"], "program": claim["program"]}
        arrays["answers"] = _saved(written["data"], "f")
    if fresh := written["unlabelled"]:
        arrays |= {"unlabelled": sample(fresh).x, "answers": _saved(fresh, "f")}
    if "features" in written:
        arrays["features"] = sample(written["features"]).x
        arrays["holdout_features"] = sample(f"{rows} features").x
    if "fit" in written:
        arrays["rounds"] = _saved(written["data"], "rounds")
        if rows:
            arrays["holdout_classes"] = _saved(rows, "classes")
    looks = None
    if "looks" in written:
        looks = (FOLDER / "samples" / looks_name(written["looks"])).read_bytes()
    return Original(name, content, data, held, None, None, arrays, looks)


def _saved(name: str, part: str) -> Any:
    return np.load(FOLDER / "samples" / file_name(name, part), allow_pickle=False)


def _answers(net: str, inputs: Inputs) -> Answers:
    """f's, computed once."""
    key = (net, inputs.fingerprint)
    if key not in _KNOWN:
        _KNOWN[key] = float_nets.answer(getattr(user_net, net)(), inputs.x)
    return _KNOWN[key]


_KNOWN: dict[tuple[str, str], Answers] = {}
