"""cushion certify --data D [--net NET [--unlabelled U]] -o FILE.cushion"""

from __future__ import annotations

import argparse
import signal
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cushion.certificates.format.claims import Claim
from cushion.cli.ledger import show_ledger, total_delta
from cushion.cli.options import (
    CONSTANT,
    add_data,
    add_net,
    add_verb,
    filled,
    load_named_net,
    positive,
    say_if_untrained,
    seed,
)
from cushion.cli.output import answer
from cushion.cli.posterior import certify_posterior
from cushion.cli.verify import UNLABELLED_HELP, claim_json
from cushion.data.files import check_writable
from cushion.errors import BadInput

if TYPE_CHECKING:
    from torch import nn

    from cushion.data import Dataset
    from cushion.data.inputs import Inputs


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "certify",
        summary="find a small integer net and write a certificate that bounds its error; Ctrl-C "
        "keeps the best so far",
        example="cushion certify --data digits -o digits.cushion --minutes 1",
    )
    add_data(parser)
    add_net(parser, flag=True)
    parser.add_argument(
        "--unlabelled",
        type=filled,
        metavar="U",
        help=f"bound the error of NET itself, with {UNLABELLED_HELP}",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=filled,
        required=True,
        metavar="FILE.cushion",
        help="where to write the certificate",
    )
    parser.add_argument(
        "--delta",
        default="0.05",
        metavar="P",
        help="probability that the statement fails (default 0.05); with --unlabelled, 4/5 of it "
        "go to the bound on the "
        "integer net and 1/5 to its disagreements with NET",
    )
    parser.add_argument(
        "--kind",
        choices=("occam", "pac-bayes"),
        default="occam",
        help="occam: one integer net, paid by its bits (default); pac-bayes: a Gaussian "
        "distribution over nets, "
        "paid by its divergence from a prior",
    )
    parser.add_argument(
        "--minutes", type=positive, default=1.0, metavar="N", help="time for the search (default 1)"
    )
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of the search; how far it gets still depends on the time",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cushion.certificates.certify import certify
    from cushion.data import load_pair
    from cushion.data.inputs import as_inputs
    from cushion.numerics import percent_up
    from cushion.progress import working
    from cushion.theorems.occam import parse_delta

    parse_delta(args.delta)
    check_writable(args.out)
    if args.net is None and (args.weights or args.trust):
        raise BadInput("--weights and --trust say how to load a net; give --net as well")
    if args.net is None and args.unlabelled is not None:
        raise BadInput(
            "--unlabelled serves to bound the error of your own net; give the net with --net as "
            "well"
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the search as Ctrl-C does
    if args.kind == "pac-bayes":
        answer(args, *certify_posterior(args))
        return 0
    data, holdout = load_pair(args.data)
    model = None if args.net is None else load_named_net(args, data).module
    inputs = None if args.unlabelled is None else as_inputs(args.unlabelled)
    total = 60 * args.minutes
    with working("searching", total, f"{args.minutes:g} min") as bar:

        def report(seconds: float, best: Decimal) -> None:
            bar.say(f"best bound {percent_up(str(best))}")
            bar.reach(min(seconds, total))

        certificate = certify(
            data,
            model=model,
            unlabelled=inputs,
            holdout=holdout,
            delta=args.delta,
            minutes=args.minutes,
            seed=args.seed,
            report=report,
        )
    certificate.save(args.out)
    say_if_untrained(args)
    claim = certificate.claim
    own = None if model is None else _own_net(model, data, holdout, claim)
    obj = {"ok": True, "file": args.out, **claim_json(claim), "net": own}
    answer(args, obj, "\n".join(_words(args, claim, own, inputs, holdout)))
    return 0


def _own_net(
    model: nn.Module, data: Dataset, holdout: Dataset | None, claim: Claim
) -> dict[str, Any]:
    """f's own errors on the sample (no bound: it was trained on them), and its hold-out line at the
    total δ.
    """
    from cushion.certificates.answers import answer as answers_on
    from cushion.numerics import float_up
    from cushion.theorems.occam import holdout_bound

    def errors(part: Dataset) -> int:
        return int((answers_on(model, part.x).outside(Decimal(0)) != part.y).sum())

    line = None
    if holdout is not None:
        delta = total_delta(claim)
        missed = errors(holdout)
        bound = float_up(holdout_bound(missed, len(holdout), Decimal(delta)))
        line = {"errors": missed, "m": len(holdout), "delta": float_up(delta), "bound": bound}
    return {"errors": errors(data), "m": len(data), "holdout": line}


def _words(
    args: argparse.Namespace,
    claim: Claim,
    own: dict[str, Any] | None,
    inputs: Inputs | None,
    holdout: Dataset | None,
) -> list[str]:
    from cushion.certificates.certificate import holdout_sentence, sentence, spaced
    from cushion.numerics import percent_up

    lines = [sentence(claim)]
    if own is not None and claim.transfer is None:
        lines.append(
            "This is about g, the integer net in the file, which imitates your net f; not about f. "
            "Fresh inputs without labels (--unlabelled) would bound f too."
        )
    g, whose = ("It", "its") if own is None else ("g", "g's")
    lines.append(f"{g} errs on {spaced(claim.errors)} of these {spaced(claim.m)} examples itself.")
    if own is not None:
        lines.append(f"f errs on {spaced(own['errors'])} of them.")
    if claim.made_with["interrupted"]:
        lines.append("The search was interrupted; this is the best net until then.")
    if not claim.made_with["trained"]:
        lines.append(CONSTANT)
    if claim.holdout is not None:
        lines.append(holdout_sentence(claim.holdout, whose))
    if own is not None and own["holdout"] is not None:
        line = own["holdout"]
        lines.append(
            f"The same for f: {spaced(line['errors'])} errors on them bound f's error by "
            f"{percent_up(line['bound'])} (δ = {total_delta(claim)})."
        )
    if inputs is not None and holdout is not None:
        from cushion.data.inputs import count_shared

        shared = count_shared(inputs.x, holdout.x)
        if shared:
            lines.append(
                f"Note: {spaced(shared)} of the {spaced(len(inputs))} unlabelled inputs are "
                "held-out examples, so the hold-out lines and the bound on f share inputs; each "
                "holds by itself."
            )
    lines += [
        "",
        *show_ledger(claim),
        "",
        "What nobody can check, and is assumed:",
        *(f"- {text}" for text in claim.assumptions),
    ]
    lines.append(f"Check it with: cushion verify {args.out} --data {args.data}{_own_options(args)}")
    return lines


def _own_options(args: argparse.Namespace) -> str:
    """The options with which verify replays the bound on f."""
    if args.unlabelled is None:
        return ""
    weights = f" --weights {args.weights}" if args.weights else ""
    return (
        f" --net {args.net}{weights}{' --trust' if args.trust else ''} --unlabelled "
        f"{args.unlabelled}"
    )
