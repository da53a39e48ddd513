"""cushion inspect FILE.cushion"""

from __future__ import annotations

import argparse
from typing import Any

from cushion.certificates.format.claims import OccamClaim
from cushion.cli.ledger import bit_positions, claim_json, show_assumptions, show_numbers
from cushion.cli.options import add_verb, check_certificate
from cushion.cli.output import answer


def add_parser(verbs: Any) -> None:
    summary = "show what a certificate states and what each of its bits pays for"
    example = "cushion inspect digits.cushion"
    parser = add_verb(verbs, "inspect", run, summary=summary, example=example)
    parser.add_argument("file", metavar="FILE.cushion")


def run(args: argparse.Namespace) -> int:
    from cushion.verifier import verify

    check_certificate(args.file)
    verdict = verify(args.file, None)
    claim = verdict.claim
    checked = verdict.level == "message"
    obj = {"ok": checked, "level": verdict.level, "reason": verdict.reason, **claim_json(claim)}
    if isinstance(claim, OccamClaim):
        for item, (first, last) in zip(obj["ledger"], bit_positions(claim), strict=True):
            item |= {"first_bit": first, "last_bit": last}
    found = "Checked: the counts imply the bound, and the message decodes to the last bit."
    lines = [
        found if checked else f"NOT OK: {verdict.reason}",
        "Not checked here: what was counted on data. Run `cushion verify` with the data.",
    ]
    answer(args, obj, *show_numbers(claim), "", *show_assumptions(claim), "", *lines)
    return 0 if checked else 1
