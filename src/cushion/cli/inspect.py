"""cushion inspect FILE.cushion"""

from __future__ import annotations

import argparse
from typing import Any

from cushion.cli.options import add_verb
from cushion.cli.output import answer, table
from cushion.cli.verify import claim_json


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "inspect",
        summary="show what a certificate states and what each of its bits pays for",
        example="cushion inspect digits.cushion",
    )
    parser.add_argument("file", metavar="FILE.cushion")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cushion.certificates.certificate import sentence
    from cushion.verifier import verify

    verdict = verify(args.file, None)
    claim = verdict.claim
    checked = verdict.level == "message"
    rows = [[item.item, item.bits, item.meaning] for item in claim.ledger]
    lines = [
        sentence(claim),
        f"{claim.errors} errors on {claim.m} examples of {claim.data}, δ = {claim.delta}",
        f"fingerprint of the examples: {claim.data_fingerprint}",
        "",
        table(["paid for", "bits", "what it is"], [*rows, ["total", claim.bits, "the length of the message"]]),
        "",
        "Checked: the counts imply the bound, and the message decodes to the last bit."
        if checked
        else f"NOT OK: {verdict.reason}",
        "Not checked here: the error count. Run `cushion verify` with the data.",
    ]
    answer(
        args, {"ok": checked, "level": verdict.level, "reason": verdict.reason, **claim_json(claim)}, "\n".join(lines)
    )
    return 0 if checked else 1
