"""cushion verify FILE.cushion --data D [--net NET --unlabelled U]"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cushion.certificates.format.claims import AnyClaim, Claim, Verdict
from cushion.certificates.format.gaussian_claims import GaussianClaim
from cushion.cli.ledger import delta_items, total_delta
from cushion.cli.options import add_data, add_net, add_verb, filled, load_named_net
from cushion.cli.output import answer
from cushion.errors import BadInput

if TYPE_CHECKING:
    from cushion.certificates.format.answers import Answers
    from cushion.data import Dataset
    from cushion.data.inputs import Inputs

UNLABELLED_HELP = (
    "fresh inputs that were used for nothing else, as in --data (labels may be missing and are "
    "ignored); NAME,split=test means the held-out part of a set"
)


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "verify",
        summary="recheck a certificate from its bytes and the data; exit code 1 if it does not "
        "hold",
        example="cushion verify digits.cushion --data digits --json -",
    )
    parser.add_argument("file", metavar="FILE.cushion")
    add_data(parser)
    add_net(parser, flag=True)
    parser.add_argument(
        "--unlabelled", type=filled, metavar="U", help=f"with --net: {UNLABELLED_HELP}"
    )
    parser.add_argument(
        "--slow",
        action="store_true",
        help="replay even a certificate that takes more than some minutes",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cushion.data import load_pair
    from cushion.data.inputs import as_inputs
    from cushion.verifier import verify

    if args.net is None and (args.weights or args.trust):
        raise BadInput("--weights and --trust say how to load a net; give --net as well")
    if (args.net is None) != (args.unlabelled is None):
        raise BadInput(
            "the bound on your net f is replayed with both --net and --unlabelled; give both, or "
            "neither"
        )
    data, holdout = load_pair(args.data)
    inputs = None if args.unlabelled is None else as_inputs(args.unlabelled)
    answering = None if args.net is None else _answering(args, data)
    verdict = verify(
        args.file, data, holdout, unlabelled=inputs, answering=answering, slow=args.slow
    )
    obj = {
        "ok": verdict.ok,
        "level": verdict.level,
        "reason": verdict.reason,
        "sample_replayed": verdict.sample_replayed,
        "holdout_replayed": verdict.holdout_replayed,
        "transfer_replayed": verdict.transfer_replayed,
        **claim_json(verdict.claim, f_confirmed=verdict.transfer_replayed),
    }
    answer(args, obj, "\n".join(_words(verdict)))
    return 0 if verdict.ok else 1


def _answering(args: argparse.Namespace, data: Dataset) -> Callable[[Inputs], Answers]:
    from cushion.certificates import answers as float_nets

    module = load_named_net(args, data).module
    return lambda inputs: float_nets.answer(module, inputs.x)


def _words(verdict: Verdict) -> list[str]:
    claim = verdict.claim
    if not verdict.ok:
        lines = [f"NOT OK: {verdict.reason}", f"highest level that holds: {verdict.level}"]
        if verdict.sample_replayed:
            lines.append(
                f"The errors of {claim.about} on the sample were replayed and are as stated."
            )
        return lines
    return [
        "ok: arithmetic, message and replay all hold",
        *_statement(claim, verdict.transfer_replayed),
        *_sample_words(claim),
        *_holdout_words(claim, verdict.holdout_replayed),
        "What nobody can check, and is assumed:",
        *(f"- {text}" for text in claim.assumptions),
    ]


def _statement(claim: AnyClaim, transfer_replayed: bool) -> list[str]:
    """What was confirmed, and what the file says beyond that."""
    from cushion.certificates.certificate import sentence, sentence_about_g
    from cushion.certificates.pac_bayes import posterior_sentence

    if isinstance(claim, GaussianClaim):
        return [posterior_sentence(claim)]
    assert isinstance(claim, Claim)
    if claim.transfer is None:
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


def _sample_words(claim: AnyClaim) -> list[str]:
    """The count behind the bound."""
    from cushion.certificates.certificate import spaced

    m = spaced(claim.m)
    if isinstance(claim, GaussianClaim):
        return [
            f"Q: {spaced(claim.errors)} of {spaced(claim.draws)} nets drawn err, each on one of "
            f"these {m} examples."
        ]
    assert isinstance(claim, Claim)
    which = "It" if claim.transfer is None else "g"
    return [f"{which} errs on {spaced(claim.errors)} of these {m} examples itself."]


def _holdout_words(claim: AnyClaim, replayed: bool) -> list[str]:
    line = claim.holdout
    if line is None:
        return []
    from cushion.certificates.certificate import holdout_sentence

    whose = "its" if isinstance(claim, Claim) and claim.transfer is None else f"{claim.about}'s"
    return [
        holdout_sentence(line, whose),
        *([] if replayed else ["That last count was NOT replayed."]),
    ]


def claim_json(claim: AnyClaim, *, f_confirmed: bool = True) -> dict[str, Any]:
    """The claim with its probabilities as numbers, rounded up.

    `about` names the net that `bound` and `delta` are about: f where the file bounds it (and, in a
    verdict, its disagreements were replayed), else g. errors, m, bits and the hold-out line are
    always about g.
    """
    from cushion.numerics import float_up

    obj = claim.to_json()
    stated = claim.bound
    if isinstance(claim, Claim):
        obj |= {"bound_g": float_up(claim.bound), "delta_g": float_up(claim.delta), "bound_f": None}
        obj["deltas"] = [dataclasses.asdict(share) for share in delta_items(claim)]
        for share in obj["deltas"]:
            share["delta"] = float_up(share["delta"])
        if claim.transfer is not None:
            obj["bound_f"] = float_up(claim.transfer.bound_f)
            for key in ("tolerance", "delta", "bound", "bound_f"):
                obj["transfer"][key] = float_up(obj["transfer"][key])
            if f_confirmed:
                stated = claim.transfer.bound_f
                obj |= {"about": "f", "bound": stated, "delta": total_delta(claim)}
    obj["vacuous"] = stated.startswith("1")
    if isinstance(claim, GaussianClaim):
        obj |= {key: float_up(obj[key]) for key in ("kl", "delta_draws", "sample_bound")}
    for part in (obj, obj["holdout"]):
        if part is not None:
            part["delta"], part["bound"] = float_up(part["delta"]), float_up(part["bound"])
    return obj
