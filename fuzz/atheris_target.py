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
    import cushion_verify

from cushion.errors import BadInput, Malformed
from fuzz.campaign import false, verified
from fuzz.mutants import Mutant
from fuzz.mutations import Parts
from fuzz.originals import Original, load_originals


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
    mutant = Mutant(Parts(claim, message).seal(), original.looks)
    path.write_bytes(mutant.content)
    try:
        verdict = verified(original, mutant, path)
    except (Malformed, BadInput, cushion_verify.Malformed, cushion_verify.BadInput):
        return
    if verdict.ok:
        fault = false(original, mutant)
        assert not fault, fault


if __name__ == "__main__":
    main()
