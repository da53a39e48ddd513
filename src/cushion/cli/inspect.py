"""cushion inspect FILE.cushion"""

from __future__ import annotations

import argparse
from typing import Any

from cushion.certificates.format.claims import Claim
from cushion.certificates.format.gaussian_claims import GaussianClaim
from cushion.cli.ledger import bit_positions, show_ledger
from cushion.cli.options import add_verb
from cushion.cli.output import answer
from cushion.cli.posterior import show_posterior
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
    from cushion.verifier import verify

    verdict = verify(args.file, None)
    claim = verdict.claim
    checked = verdict.level == "message"
    obj = {"ok": checked, "level": verdict.level, "reason": verdict.reason, **claim_json(claim)}
    if isinstance(claim, Claim):
        for item, (first, last) in zip(obj["ledger"], bit_positions(claim), strict=True):
            item |= {"first_bit": first, "last_bit": last}
    lines = [
        *(show_posterior(claim) if isinstance(claim, GaussianClaim) else []),
        *(_shown(claim) if isinstance(claim, Claim) else []),
        "",
        "What nobody can check, and is assumed:",
        *(f"- {text}" for text in claim.assumptions),
        "",
        "Checked: the counts imply the bound, and the message decodes to the last bit."
        if checked
        else f"NOT OK: {verdict.reason}",
        "Not checked here: what was counted on data. Run `cushion verify` with the data.",
    ]
    answer(args, obj, "\n".join(lines))
    return 0 if checked else 1


def _shown(claim: Claim) -> list[str]:
    from cushion.certificates.certificate import sentence, spaced
    from cushion.numerics import percent_up

    lines = [
        sentence(claim),
        "",
        f"g, the net in the file: {spaced(claim.errors)} errors on {spaced(claim.m)} examples of "
        f"{claim.data}, {spaced(claim.bits)} bits, δ = {claim.delta}: at most "
        f"{percent_up(claim.bound)}",
        f"   fingerprint of the examples: {claim.data_fingerprint}",
    ]
    if claim.holdout is not None:
        line = claim.holdout
        lines += [
            f"   held out: {spaced(line.errors)} errors on {spaced(line.m)} examples, δ = "
            f"{line.delta}: at most {percent_up(line.bound)}",
            f"   fingerprint of the held-out examples: {line.data_fingerprint}",
        ]
    if claim.transfer is not None:
        change = claim.transfer
        lines += [
            f"f: disagrees with g on {spaced(change.disagreements)} of {spaced(change.m)} "
            "unlabelled inputs (a gap between its two largest scores of at most "
            f"{change.tolerance} counts), δ = {change.delta}: at most {percent_up(change.bound)}; "
            f"so f errs on at most {percent_up(change.bound_f)}",
            f"   fingerprint of f's numbers: {change.net_fingerprint}",
            f"   fingerprint of the unlabelled inputs: {change.data_fingerprint}",
        ]
    return [*lines, "", *show_ledger(claim)]
