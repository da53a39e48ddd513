"""Files of the corpus as plain objects, restated by hand as whoever forges one would."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from tests.certificates.case import sealed

from cushion_verify import MAGIC, Given, Verdict, canonical, check

HERE = Path(__file__).parent


def filed(name: str) -> tuple[dict[str, Any], bytes]:
    """Claim and message of a valid file."""
    content, place = (HERE / "valid" / f"{name}.cushion").read_bytes(), len(MAGIC)
    (length,) = struct.unpack_from("<I", content, place)
    claim = json.loads(content[place + 4 : place + 4 + length])
    return claim, content[place + 4 + length + 4 : -32]


def array(name: str) -> np.ndarray:
    """One of the arrays beside the corpus."""
    return np.load(HERE / "samples" / f"{name}.npy")


def judged(tmp_path: Path, claim: dict[str, Any], message: bytes, **given: Any) -> Verdict:
    """The verdict on this claim, sealed with a fitting digest."""
    path = tmp_path / "c.cushion"
    path.write_bytes(sealed(canonical(claim), message))
    return check(path, Given(**given), slow=True)
