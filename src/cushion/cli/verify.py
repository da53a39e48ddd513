"""cushion verify FILE.cushion --data D"""

from __future__ import annotations

import argparse
from typing import Any

from cushion.claims import Claim, Verdict
from cushion.cli.options import add_data, add_verb
from cushion.cli.output import answer


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "verify",
        summary="recheck a certificate from its bytes and the data; exit code 1 if it does not hold",
        example="cushion verify digits.cushion --data digits --json -",
    )
    parser.add_argument("file", metavar="FILE.cushion")
    add_data(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cushion.certificates.certificate import sentence
    from cushion.data import load_pair
    from cushion.verifier import verify

    data, holdout = load_pair(args.data)
    verdict = verify(args.file, data, holdout)
    claim = verdict.claim
    obj = {
        "ok": verdict.ok,
        "level": verdict.level,
        "reason": verdict.reason,
        "holdout_replayed": verdict.holdout_replayed,
        **claim_json(claim),
    }
    if verdict.ok:
        lines = [
            "ok: arithmetic, message and replay all hold",
            sentence(claim),
            *holdout_words(verdict),
            "What nobody can check, and is assumed:",
            *(f"- {text}" for text in claim.assumptions),
        ]
    else:
        lines = [f"NOT OK: {verdict.reason}", f"highest level that holds: {verdict.level}"]
    answer(args, obj, "\n".join(lines))
    return 0 if verdict.ok else 1


def holdout_words(verdict: Verdict) -> list[str]:
    """What is known of the hold-out line, if there is one."""
    from cushion.numerics import percent_up

    line = verdict.claim.holdout
    if line is None:
        return []
    words = f"{line.errors} errors on {line.m} held-out examples say {percent_up(line.bound)}"
    return [f"{words} (replayed)." if verdict.holdout_replayed else f"{words}, but that count was NOT replayed."]


def claim_json(claim: Claim) -> dict[str, Any]:
    """The claim with its probabilities as numbers, rounded up."""
    from cushion.numerics import float_up

    obj = {**claim.to_json(), "vacuous": claim.bound.startswith("1")}
    for part in (obj, obj["holdout"]):
        if part is not None:
            part["delta"], part["bound"] = float_up(part["delta"]), float_up(part["bound"])
    return obj
