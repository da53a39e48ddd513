"""cushion certify --data D [--net NET] -o FILE.cushion"""

from __future__ import annotations

import argparse
import signal
from decimal import Decimal
from typing import Any

from cushion.cli.options import (
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
from cushion.cli.verify import claim_json
from cushion.errors import BadInput
from cushion.files import check_writable


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "certify",
        summary="find a small integer net and write a certificate that bounds its error; Ctrl-C keeps the best so far",
        example="cushion certify --data digits -o digits.cushion --minutes 1",
    )
    add_data(parser)
    add_net(parser, flag=True)
    parser.add_argument(
        "-o", "--out", type=filled, required=True, metavar="FILE.cushion", help="where to write the certificate"
    )
    parser.add_argument("--delta", default="0.05", metavar="P", help="probability that the bound fails (default 0.05)")
    parser.add_argument("--minutes", type=positive, default=1.0, metavar="N", help="time for the search (default 1)")
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of the search; how far it gets still depends on the time",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    from cushion.api import certify
    from cushion.certificates.certificate import sentence
    from cushion.certificates.occam import parse_delta
    from cushion.data import load_pair
    from cushion.numerics import percent_up

    parse_delta(args.delta)
    check_writable(args.out)
    if args.net is None and (args.weights or args.trust):
        raise BadInput("--weights and --trust say how to load a net; give --net as well")
    data, holdout = load_pair(args.data)
    model = None if args.net is None else load_named_net(args, data).module

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the search as Ctrl-C does
    shape = "{desc}: {percentage:3.0f}%|{bar}| {elapsed} of {unit}{postfix}"
    total = 60 * args.minutes
    with tqdm(total=total, desc="searching", unit=f"{args.minutes:g} min", bar_format=shape, disable=None) as bar:

        def report(seconds: float, best: Decimal) -> None:
            bar.set_postfix_str(f"best bound {percent_up(str(best))}", refresh=False)
            bar.update(min(seconds, total) - bar.n)

        certificate = certify(
            data,
            model=model,
            holdout=holdout,
            delta=args.delta,
            minutes=args.minutes,
            seed=args.seed,
            report=report,
        )
    certificate.save(args.out)
    say_if_untrained(args)
    claim = certificate.claim
    lines = [sentence(claim), f"It errs on {claim.errors} of these {claim.m} examples itself."]
    if certificate.claim.made_with["interrupted"]:
        lines.append("The search was interrupted; this is the best net until then.")
    if model is not None:
        lines.append("This is about the integer net g in the certificate, which imitates your net; not about your net.")
    if claim.holdout is not None:
        lines.append(_holdout_line(claim.holdout))
    lines += ["It assumes that", *(f"- {text};" for text in claim.assumptions)]
    lines.append(f"Check it with: cushion verify {args.out} --data {args.data}")
    answer(args, {"ok": True, "file": args.out, **claim_json(claim)}, "\n".join(lines))
    return 0


def _holdout_line(line: Any) -> str:
    from cushion.numerics import percent_up

    return (
        f"For comparison: {line.errors} errors on {line.m} held-out examples bound its error by "
        f"{percent_up(line.bound)} (δ = {line.delta})."
    )
