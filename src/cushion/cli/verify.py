"""cushion verify FILE.cushion --data D [--net NET --unlabelled U]; cushion inspect FILE.cushion"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cushion.certificates.certificate import holdout_sentence, sentence, sentence_about_g, spaced
from cushion.certificates.format.claims import Claim, GaussianClaim, OccamClaim, Verdict
from cushion.cli import options
from cushion.cli.ledger import bit_positions, claim_json, show_assumptions, show_numbers
from cushion.cli.output import answer
from cushion.errors import BadInput, remark

if TYPE_CHECKING:
    from cushion.certificates.format.claims import Answers
    from cushion.data import Dataset
    from cushion.data.inputs import Inputs
    from cushion.verifier.occam import Answering

UNLABELLED_HELP = (
    "fresh inputs that were used for nothing else, as in --data (labels may be missing and are "
    "ignored); NAME,split=test means the held-out part of a set"
)


def add_parser(verbs: Any) -> None:
    summary = "recheck a certificate from its bytes and the data; exit code 1 if it does not hold"
    example = "cushion verify digits.cushion --data digits --json -"
    parser = options.add_verb(verbs, "verify", run, summary=summary, example=example)
    parser.add_argument("file", metavar="FILE.cushion")
    options.add_data(parser)
    options.add_net(parser, "--net")
    options.add_batch(parser)
    options.add_word(parser, "--unlabelled", "U", f"with --net: {UNLABELLED_HELP}")
    slow = "replay even a certificate that takes more than some minutes"
    options.add_switch(parser, "--slow", slow)
    summary = "show what a certificate states and what each of its bits pays for"
    example = "cushion inspect digits.cushion"
    parser = options.add_verb(verbs, "inspect", inspect, summary=summary, example=example)
    parser.add_argument("file", metavar="FILE.cushion")


def run(args: argparse.Namespace) -> int:
    from cushion.data import load_pair
    from cushion.data.inputs import as_inputs
    from cushion.verifier import verify

    options.check_certificate(args.file)
    options.check_net_flags(args)
    if (args.net is None) != (args.unlabelled is None):
        how = "is replayed with both --net and --unlabelled; give both, or neither"
        raise BadInput(f"the bound on your net f {how}")
    data, holdout = load_pair(args.data)
    inputs = None if args.unlabelled is None else as_inputs(args.unlabelled)
    answering = None if args.net is None else _answering(args, data)
    found = verify(args.file, data, holdout, unlabelled=inputs, answering=answering, slow=args.slow)
    if found.claim.made_with != {**found.claim.made_with, **data.found}:
        remark(*data.doubts)  # the file does not say it
    verdict = {key: value for key, value in vars(found).items() if key != "claim"}
    claim = claim_json(found.claim, f_confirmed=found.transfer_replayed)
    answer(args, verdict | claim, *_words(found))
    return 0 if found.ok else 1


def _answering(args: argparse.Namespace, data: Dataset) -> Answering:
    from cushion.certificates import answers as float_nets
    from cushion.nets.batch_size import batches

    module = options.load_named_net(args, data).module
    known, names = data.classes, data.labels

    def answering(inputs: Inputs) -> Answers:
        with batches(args.batch):
            return float_nets.answer(module, inputs.x, classes=known, labels=names)

    return answering


def _words(verdict: Verdict) -> list[str]:
    claim = verdict.claim
    if not verdict.ok:
        lines = [f"NOT OK: {verdict.reason}", f"highest level that holds: {verdict.level}"]
        replayed = f"The errors of {claim.about} on the sample were replayed and are as stated."
        return [*lines, replayed] if verdict.sample_replayed else lines
    own = isinstance(claim, OccamClaim) and claim.transfer is None
    lines = ["ok: arithmetic, message and replay all hold"]
    lines += _statement(claim, verdict.transfer_replayed)
    if isinstance(claim, GaussianClaim):
        drawn = f"{spaced(claim.errors)} of {spaced(claim.draws)} nets drawn err"
        lines.append(f"Q: {drawn}, each on one of these {spaced(claim.m)} examples.")
    else:
        lines.append(errors_sentence(claim, "It" if own else "g"))
    if claim.holdout is not None:
        lines.append(holdout_sentence(claim.holdout, "its" if own else f"{claim.about}'s"))
        if not verdict.holdout_replayed:
            lines.append("That last count was NOT replayed.")
    return [*lines, *show_assumptions(claim)]


def errors_sentence(claim: Claim, who: str) -> str:
    """The count behind the bound of one net."""
    return f"{who} errs on {spaced(claim.errors)} of these {spaced(claim.m)} examples itself."


def _statement(claim: Claim, transfer_replayed: bool) -> list[str]:
    """What was confirmed, and what the file says beyond that."""
    if not isinstance(claim, OccamClaim) or claim.transfer is None:
        return [sentence(claim)]
    if transfer_replayed:
        return [
            sentence(claim),
            "This net has the numbers of that f, and its disagreements with g were replayed and "
            "are as stated.",
        ]
    return [
        "That is about g, the integer net in the file:",
        sentence_about_g(claim),
        "The file also makes a statement about a net f, and f's disagreements with g were NOT "
        "replayed (give --net and --unlabelled for that). Claimed, not checked:",
        sentence(claim).splitlines()[0],
    ]


def inspect(args: argparse.Namespace) -> int:
    from cushion.verifier import verify

    options.check_certificate(args.file)
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
