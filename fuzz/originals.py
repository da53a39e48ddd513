"""The files that are mutated: all valid ones of tests/certificates, with the data that confirm
them.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from tests.certificates import user_net
from tests.certificates.samples import sample

from cushion.certificates import answers as float_nets
from cushion.certificates.format.claims import Answers
from cushion.data.inputs import Inputs
from fuzz.campaign import Original

FOLDER = Path(__file__).parent.parent / "tests" / "certificates" / "valid"


def load_originals() -> list[Original]:
    """Every valid file of the corpus but those of the kind that needs f's scores for itself."""
    found = []
    for path in sorted(FOLDER.glob("*.cushion")):
        written = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        inputs = answering = None
        if written["net"] and not written["unlabelled"]:
            continue
        if written["net"]:
            inputs = Inputs("unlabelled", sample(written["unlabelled"]).x)
            answering = partial(_answers, written["net"])
        held = sample(written["holdout"]) if written["holdout"] else None
        found.append(
            Original(path.stem, path.read_bytes(), sample(written["data"]), held, inputs, answering)
        )
    assert found, "there are no valid certificate files to mutate"
    return found


def _answers(net: str, inputs: Inputs) -> Answers:
    """f's, computed once."""
    key = (net, inputs.fingerprint)
    if key not in _KNOWN:
        _KNOWN[key] = float_nets.answer(getattr(user_net, net)(), inputs.x)
    return _KNOWN[key]


_KNOWN: dict[tuple[str, str], Answers] = {}
