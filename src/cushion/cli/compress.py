"""cushion compress [NET] --data D --method M -o OUT"""

from __future__ import annotations

import argparse
import signal
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cushion.cli.options import (
    CONSTANT,
    add_data,
    add_verb,
    filled,
    load_named_net,
    positive,
    say_if_untrained,
    seed,
    whole,
)
from cushion.cli.output import answer, table
from cushion.compressors.registry import METHODS, OPTIONS, choose
from cushion.errors import BadInput
from cushion.files import check_writable

if TYPE_CHECKING:
    from cushion.compression import Compressed


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "compress",
        summary="compress to a small net by a method of your choice and write it as a certificate; "
        "Ctrl-C keeps the best so far",
        example="cushion compress --data digits --method supermask -o digits.cushion --minutes 1",
    )
    parser.add_argument(
        "net",
        metavar="NET",
        nargs="?",
        help="a net to imitate (without one, the labels alone are learned): weights that cushion wrote, a RUN folder, "
        "file.py:factory, or a torch.export program (.pt2)",
    )
    parser.add_argument("--weights", metavar="W", help="with file.py:factory: its state dict, .safetensors or .pt")
    parser.add_argument("--trust", action="store_true", help="load a .pt2 program, although loading one can run code")
    add_data(parser)
    parser.add_argument(
        "--method",
        type=filled,
        required=True,
        metavar="M",
        help="; ".join(f"{method.name}: {method.meaning}" for method in METHODS.values()),
    )
    parser.add_argument(
        "-o", "--out", type=filled, required=True, metavar="OUT", help="where to write the net, as a certificate file"
    )
    parser.add_argument("--delta", default="0.05", metavar="P", help="probability that the bound fails (default 0.05)")
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of the training; subspace and supermask also make their net from it and pay for it (default 0)",
    )
    for option in OPTIONS.values():
        takers = ", ".join(method.name for method in METHODS.values() if option.name in method.options)
        kind = whole if option.kind == "whole" else positive
        parser.add_argument(f"--{option.name}", type=kind, metavar="N", help=f"{option.meaning} ({takers})")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    from cushion.certificates.occam import parse_delta
    from cushion.compressing import compress
    from cushion.data import load_pair
    from cushion.numerics import percent_up

    parse_delta(args.delta)
    options = {name: value for name in OPTIONS if (value := getattr(args, name)) is not None}
    choose(args.method, options)
    check_writable(args.out)
    if args.net is None and (args.weights or args.trust):
        raise BadInput("--weights and --trust say how to load a net; give NET as well")
    data, holdout = load_pair(args.data)
    model = None if args.net is None else load_named_net(args, data).module

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the training as Ctrl-C does
    shape = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}{postfix}"
    with tqdm(total=1.0, desc=args.method, bar_format=shape, disable=None) as bar:

        def report(done: float, best: Decimal) -> None:
            bar.set_postfix_str(f"best bound {percent_up(str(best))}", refresh=False)
            bar.update(done - bar.n)

        found = compress(
            data,
            method=args.method,
            model=model,
            holdout=holdout,
            delta=args.delta,
            seed=args.seed,
            report=report,
            **options,
        )
    found.save(args.out)
    say_if_untrained(args)
    answer(args, {"file": args.out, **found.summary.to_json()}, "\n".join(_words(args, found)))
    return 0


def _words(args: argparse.Namespace, found: Compressed) -> list[str]:
    from cushion.certificates.certificate import holdout_sentence, sentence, spaced

    summary, claim = found.summary, found.certificate.claim
    rows = [
        [layer.name, layer.kind, "x".join(map(str, layer.shape)) or "-", layer.source or "-", layer.stored, layer.bits]
        for layer in summary.layers
    ]
    rest = summary.bits - sum(layer.bits for layer in summary.layers)
    total: list[object] = ["total", "", "", "", summary.parameters, summary.bits]
    lines = [
        f"{METHODS[summary.method].name}: {METHODS[summary.method].meaning} (seed {summary.seed})",
        "",
        table(
            ["layer", "kind", "shape", "numbers from", "stored", "bits"],
            [*rows, ["header and end", "-", "-", "-", 0, rest], total],
        ),
        "",
        sentence(claim),
        f"It errs on {spaced(summary.errors)} of these {spaced(summary.m)} examples itself.",
    ]
    if args.net is not None:
        lines.append("This is about the compressed net in the file, which imitates your net; not about your net.")
    if summary.interrupted:
        lines.append("The training was interrupted; this is the best net until then.")
    if not claim.made_with["trained"]:
        lines.append(CONSTANT)
    if claim.holdout is not None:
        lines.append(holdout_sentence(claim.holdout, "its"))
    lines.append(f"What it assumes, and every bit: cushion inspect {args.out}")
    lines.append(f"Check it with: cushion verify {args.out} --data {args.data}")
    return lines
