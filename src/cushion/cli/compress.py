"""cushion compress [NET] --data D --method M -o OUT"""

from __future__ import annotations

import argparse
import re
import signal
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cushion.cli import render
from cushion.cli.options import (
    CONSTANT,
    add_data,
    add_verb,
    filled,
    load_named_net,
    say_if_other_data,
    say_if_untrained,
    seed,
)
from cushion.cli.output import answer
from cushion.compressors.method import Method
from cushion.compressors.registry import METHODS, choose
from cushion.data.files import check_writable
from cushion.errors import BadInput
from cushion.records.options import Option

if TYPE_CHECKING:
    from cushion.compressors.certified import Compressed
    from cushion.compressors.searches import SearchSummary
    from cushion.data import Dataset
    from cushion.nets.loading.weights import LoadedNet


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "compress",
        summary="compress a net, or search for a small one, by a method of your choice; check what "
        "the method promises",
        example="cushion compress runs/lenet --data mnist --method low-rank --k 20% --sweep 5%,40% "
        "-o lenet.net; "
        "or: cushion compress runs/mlp --data mnist --method heavy-tail --tau 1,2 --t 0,1 -o "
        "mlp.net",
    )
    parser.add_argument(
        "net",
        metavar="NET",
        nargs="?",
        help="the net to compress, or for a search to imitate: weights that cushion wrote, a RUN "
        "folder, "
        "file.py:factory, or a torch.export program (.pt2)",
    )
    parser.add_argument(
        "--weights", metavar="W", help="with file.py:factory: its state dict, .safetensors or .pt"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="load a .pt2 program, although loading one can run code",
    )
    add_data(parser)
    parser.add_argument(
        "--method",
        type=filled,
        required=True,
        metavar="M",
        help="; ".join(f"{method.name}: {method.meaning}" for method in METHODS.values()),
    )
    parser.add_argument(
        "-o",
        "--out",
        type=filled,
        required=True,
        metavar="OUT",
        help="where to write: a certificate file (integer, subspace, supermask), or the "
        "compressed NET",
    )
    parser.add_argument(
        "--delta",
        default="0.05",
        metavar="P",
        help="probability that the bound fails (default 0.05)",
    )
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="seed of the training, or of the helper string, which is part of the net and paid "
        "(default 0)",
    )
    parser.add_argument(
        "--certificate", metavar="FILE", help="also write the certificate of the compressed NET"
    )
    parser.add_argument(
        "--figures", metavar="DIR", help="also draw errors and the curve of --sweep (PNG and SVG)"
    )
    for name in dict.fromkeys(name for method in METHODS.values() for name in method.takes):
        _add(parser, name)
    parser.set_defaults(run=run)


def _add(parser: argparse.ArgumentParser, name: str) -> None:
    """One flag for all methods that take an option of this name, with what it means to each; its
    text is read once the method is known.
    """
    takers: dict[str, list[str]] = {}
    for method in METHODS.values():
        for one in method.flags:
            if one.name == name:
                default = "" if one.default in (None, False) else f" (default {one.default})"
                takers.setdefault(f"{one.meaning}{default}", []).append(method.name)
                kind = one
    text = "; ".join(f"{meaning} [{', '.join(names)}]" for meaning, names in takers.items())
    text = re.sub("`(\\w+)`", r"--\1", text).replace("%", "%%")
    flag = f"--{name.replace('_', '-')}"
    if kind.kind is bool:
        parser.add_argument(flag, action="store_true", default=None, help=text)
    else:
        shown = kind.shown or {int: "N", float: "F"}.get(kind.kind, "WORD")
        metavar = f"{shown},{shown}" if kind.many else shown
        parser.add_argument(flag, metavar=metavar, help=text)


def _read(one: Option, text: Any) -> Any:
    """What the text behind a flag says, or BadInput."""
    if one.kind is bool:
        return text
    try:
        return tuple(one.kind(part) for part in text.split(",")) if one.many else one.kind(text)
    except ValueError:
        raise BadInput(f"`{one.name}` must be {one.rule}, not {text!r}") from None


def run(args: argparse.Namespace) -> int:
    from cushion.data import load_pair
    from cushion.theorems.occam import parse_delta

    parse_delta(args.delta)
    if args.method not in METHODS:
        choose(args.method, {})
    known = {one.name: one for one in METHODS[args.method].flags}
    names = dict.fromkeys(name for method in METHODS.values() for name in method.takes)
    options = {
        name: _read(known[name], text) if name in known else text
        for name in names
        if (text := getattr(args, name)) is not None
    }
    method, chosen = choose(args.method, options)
    of_a_net = isinstance(method, Method)
    for name in ("certificate", "figures"):
        if getattr(args, name) is not None and not of_a_net:
            raise BadInput(
                f"--method {method.name} does not take --{name}; -o is its certificate, and it has "
                "no curve"
            )
    for path in (args.out, args.certificate):
        if path is not None:
            check_writable(path)
    run = None if args.net is None or not Path(args.net).is_dir() else Path(args.net).resolve()
    written = {"-o": args.out, "--certificate": args.certificate, "--json": args.json}
    for option, path in written.items():
        if run is not None and path not in (None, "-") and Path(path).resolve().parent == run:
            raise BadInput(
                f"{option} lies in {args.net}, the folder of the net's run; give another folder"
            )
    if (
        args.certificate is not None
        and isinstance(method, Method)
        and (why := method.uncertifiable(chosen))
    ):
        raise BadInput(
            f"--certificate {args.certificate}: there is none for this net ({why}); leave it out"
        )
    if args.figures is not None:
        from cushion.cli.figures import prepare

        prepare(args.figures)
    if args.net is None and (args.weights or args.trust):
        raise BadInput("--weights and --trust say how to load a net; give NET as well")
    if args.net is None and of_a_net:
        raise BadInput(
            f"--method {method.name} compresses a trained net; give NET, such as a RUN folder"
        )
    data, holdout = load_pair(args.data)
    net = None if args.net is None else load_named_net(args, data)
    if net is not None and of_a_net:
        return _compress_net(args, net, data, holdout, chosen)
    return _search(args, net, data, holdout, options)


def _compress_net(
    args: argparse.Namespace,
    net: LoadedNet,
    data: Dataset,
    holdout: Dataset | None,
    options: Any,
) -> int:
    from cushion.cli.compression import describe
    from cushion.cli.figures.compression import draw
    from cushion.compressors.run import compress_model

    other = say_if_other_data(args, net, data)
    found = compress_model(
        net.module,
        data,
        method=args.method,
        options=options,
        holdout=None if other else holdout,
        init=net.init,
        delta=args.delta,
        seed=args.seed,
    )
    if args.certificate is not None and found.certificate is None:
        because = next(row.because for row in found.summary.occam if row.kind == "certificate")
        raise BadInput(
            f"--certificate {args.certificate}: there is none for this net ({because}); leave it "
            "out"
        )
    found.save(args.out)
    if args.certificate is not None and found.certificate is not None:
        found.certificate.save(args.certificate)
    figures = [] if args.figures is None else draw(found.summary, args.figures)
    say_if_untrained(args)
    files = {
        "file": args.out,
        "certificate": args.certificate,
        "figures": [str(path) for path in figures],
    }
    text = describe(found.summary, args.out, args.certificate, args.data)
    answer(args, {**files, **found.summary.to_json()}, text)
    return 0


def _search(
    args: argparse.Namespace,
    net: LoadedNet | None,
    data: Dataset,
    holdout: Dataset | None,
    options: dict[str, Any],
) -> int:
    from cushion.compressors.run import compress
    from cushion.numerics import percent_up
    from cushion.progress import working

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the training as Ctrl-C does
    with working(args.method, 1.0) as bar:

        def report(done: float, best: Decimal) -> None:
            bar.say(f"best bound {percent_up(str(best))}")
            bar.reach(done)

        found = compress(
            None if net is None else net.module,
            data,
            method=args.method,
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


def _words(args: argparse.Namespace, found: Compressed[SearchSummary]) -> list[str]:
    from cushion.certificates.certificate import holdout_sentence, sentence, spaced

    assert found.certificate is not None
    summary, claim = found.summary, found.certificate.claim
    rest = summary.bits - sum(layer.bits for layer in summary.layers)
    lines = [
        f"{summary.method}: {METHODS[summary.method].meaning} (seed {summary.seed})",
        "",
        render.records(summary.layers),
        f"total: {summary.parameters} numbers in {summary.bits} bits, {rest} of them the header's",
        "",
        sentence(claim),
        f"It errs on {spaced(summary.errors)} of these {spaced(summary.m)} examples itself.",
    ]
    if args.net is not None:
        lines.append(
            "This is about the compressed net in the file, which imitates your net; not about your "
            "net."
        )
    if summary.interrupted:
        lines.append("The training was interrupted; this is the best net until then.")
    if not claim.made_with["trained"]:
        lines.append(CONSTANT)
    if claim.holdout is not None:
        lines.append(holdout_sentence(claim.holdout, "its"))
    lines.append(f"What it assumes, and every bit: cushion inspect {args.out}")
    lines.append(f"Check it with: cushion verify {args.out} --data {args.data}")
    return lines
