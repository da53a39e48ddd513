"""The verifier under atheris: python -m fuzz.atheris_target [libFuzzer options]. Needs `pip install
cushion[fuzz]`.

libFuzzer's bytes choose an original, and replace its claim, its message or both; lengths and digest
are made to fit, so that coverage leads into the decoder instead of the digest. It begins with the
originals' own claims and messages.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-not-found]

with atheris.instrument_imports(include=["cushion_verify"]):
    from cushion.certificates.recheck import verify

from cushion.errors import BadInput, Malformed
from fuzz.campaign import Original
from fuzz.mutations import Parts
from fuzz.originals import load_originals
from fuzz.recheck import falsehood


def main() -> None:
    originals = load_originals()
    with tempfile.TemporaryDirectory() as folder:
        path, seeds = Path(folder) / "mutant.cushion", Path(folder) / "seeds"
        seeds.mkdir()
        for index, original in enumerate(originals):
            parts = Parts.of(original.content)
            for replaced, own in enumerate((parts.message, parts.claim)):
                (seeds / f"{original.name}-{replaced}").write_bytes(bytes([index, replaced]) + own)
        atheris.Setup([*sys.argv, str(seeds)], lambda data: _check(originals, path, data))
        atheris.Fuzz()


def _check(originals: list[Original], path: Path, data: bytes) -> None:
    if len(data) < 2:
        return
    original = originals[data[0] % len(originals)]
    parts = Parts.of(original.content)
    half = len(data) // 2
    claim, message = [
        (parts.claim, data[2:]),
        (data[2:], parts.message),
        (data[2:half], data[half:]),
    ][data[1] % 3]
    content = Parts(claim, message).seal()
    path.write_bytes(content)
    try:
        verdict = verify(path, original.sample, original.holdout)
    except (Malformed, BadInput):
        return
    if verdict.ok:
        held = original.holdout
        fault = falsehood(
            content,
            original.sample.x,
            original.sample.y,
            None if held is None else (held.x, held.y),
        )
        assert not fault, fault


if __name__ == "__main__":
    main()
