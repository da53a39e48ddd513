"""cushion compress [NET] --data D --method M -o OUT"""

from __future__ import annotations

import argparse
import signal
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cushion.cli.options import (
    CONSTANT,
    add_data,
    add_verb,
    filled,
    fraction,
    levels,
    load_named_net,
    positive,
    say_if_other_data,
    say_if_untrained,
    seed,
    whole,
)
from cushion.cli.output import answer, table
from cushion.compressors.noise.options import METHODS as TAILS
from cushion.compressors.registry import METHODS, OPTIONS, Option, choose
from cushion.data.files import check_writable
from cushion.errors import BadInput

if TYPE_CHECKING:
    from cushion.compressors.noise.records import NetHeavyTail
    from cushion.compressors.pruning.records import NetPruning
    from cushion.compressors.records import NetCompression
    from cushion.compressors.search_report import Compressed
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
    for option in OPTIONS.values():
        takers = ", ".join(
            method.name for method in METHODS.values() if option.name in method.options
        )
        _add(parser, option, f"{option.meaning.replace('%', '%%')} ({takers})")
    parser.set_defaults(run=run)


def _add(parser: argparse.ArgumentParser, option: Option, text: str) -> None:
    flag = f"--{option.name}"
    if option.kind == "flag":
        parser.add_argument(flag, action="store_true", default=None, help=text)
        return
    kinds = {
        "whole": whole,
        "number": positive,
        "fraction": fraction,
        "size": _size,
        "word": filled,
        "words": _listed,
        "numbers": levels,
    }
    shown = {"word": "WORD", "words": "WORD,WORD", "numbers": "N,N"}
    parser.add_argument(
        flag, type=kinds[option.kind], metavar=shown.get(option.kind, "N"), help=text
    )


def _size(text: str) -> int | str:
    """A whole number where it is one; whoever uses it checks percentages."""
    return int(text) if text.isascii() and text.isdigit() else text


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filled(word.strip()) for word in text.split(","))


def run(args: argparse.Namespace) -> int:
    from cushion.data import load_pair
    from cushion.theorems.occam import parse_delta

    parse_delta(args.delta)
    options = {
        option.attribute: value
        for option in OPTIONS.values()
        if (value := getattr(args, option.attribute)) is not None
    }
    method = choose(args.method, options)
    for name in ("certificate", "figures"):
        if getattr(args, name) is not None and not method.of_a_net:
            raise BadInput(
                f"--method {method.name} does not take --{name}; -o is its certificate, and it has "
                "no curve"
            )
    if args.figures is not None and method.name in TAILS:
        raise BadInput(
            f"--method {method.name} does not take --figures: it has no pictures; leave it out"
        )
    for path in (args.out, args.certificate):
        if path is not None:
            check_writable(path)
    named = {
        "-o": args.out,
        "--certificate": args.certificate,
        "--json": None if args.json == "-" else args.json,
    }
    files = [(option, Path(path).resolve()) for option, path in named.items() if path is not None]
    for at, (option, path) in enumerate(files):
        for other, same in files[:at]:
            if path == same:
                raise BadInput(
                    f"{other} and {option} are one file, {path.name}; give each a name of its own"
                )
        if args.net is not None and path == Path(args.net).resolve():
            raise BadInput(f"{option} is the net itself, {args.net}; give another name")
        if (
            args.net is not None
            and Path(args.net).is_dir()
            and path.parent == Path(args.net).resolve()
        ):
            raise BadInput(
                f"{option} lies in {args.net}, the folder of the net's run; give another folder"
            )
    if args.certificate is not None and (why := _no_certificate(args)):
        raise BadInput(
            f"--certificate {args.certificate}: there is none for this net ({why}); leave it out"
        )
    if args.figures is not None:
        from cushion.cli.figures import prepare

        prepare(args.figures)
    if args.net is None and (args.weights or args.trust):
        raise BadInput("--weights and --trust say how to load a net; give NET as well")
    if args.net is None and method.of_a_net:
        raise BadInput(
            f"--method {method.name} compresses a trained net; give NET, such as a RUN folder"
        )
    data, holdout = load_pair(args.data)
    net = None if args.net is None else load_named_net(args, data)
    if method.of_a_net:
        assert net is not None
        return _compress_net(args, net, data, holdout, options)
    return _search(args, net, data, holdout, options)


def _no_certificate(args: argparse.Namespace) -> str:
    """Why the format can hold no net of this method, as far as that is known beforehand."""
    if args.from_initialisation:
        return "the initialisation is floating point, which a decoder cannot make again from a seed"
    if args.method in ("conv-project", "vector-project"):
        return f"the format has no weights as {args.method} makes them"
    if args.method == "sketch":
        return "the format has no sketches; use --method magnitude, which has the same weights"
    return "the format has no Hadamard rows; use --helper signs" if args.helper == "srht" else ""


def _compress_net(
    args: argparse.Namespace,
    net: LoadedNet,
    data: Dataset,
    holdout: Dataset | None,
    options: dict[str, Any],
) -> int:
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
    figures = _draw(found.summary, args.figures)
    say_if_untrained(args)
    files = {"file": args.out, "certificate": args.certificate, "figures": figures}
    answer(args, {**files, **found.summary.to_json()}, _describe(found.summary, args))
    return 0


def _draw(found: NetCompression | NetPruning | NetHeavyTail, folder: str | None) -> list[str]:
    from cushion.cli.figures.compression import draw_compression
    from cushion.cli.figures.pruning import draw_pruning
    from cushion.compressors.noise.records import NetHeavyTail
    from cushion.compressors.pruning.records import NetPruning

    if folder is None or isinstance(found, NetHeavyTail):
        return []
    paths = (
        draw_pruning(found, folder)
        if isinstance(found, NetPruning)
        else draw_compression(found, folder)
    )
    return [str(path) for path in paths]


def _describe(found: NetCompression | NetPruning | NetHeavyTail, args: argparse.Namespace) -> str:
    from cushion.cli import compression_text, heavy_tail_text, pruning_text
    from cushion.compressors.noise.records import NetHeavyTail
    from cushion.compressors.pruning.records import NetPruning

    if isinstance(found, NetHeavyTail):
        return heavy_tail_text.describe(found, args.out, args.certificate, args.data)
    if isinstance(found, NetPruning):
        return pruning_text.describe(found, args.out, args.certificate, args.data)
    return compression_text.describe(found, args.out, args.certificate, args.data)


def _search(
    args: argparse.Namespace,
    net: LoadedNet | None,
    data: Dataset,
    holdout: Dataset | None,
    options: dict[str, Any],
) -> int:
    from cushion.compressors.run import compress
    from cushion.compressors.search_report import Compressed
    from cushion.numerics import percent_up
    from cushion.progress import working

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the training as Ctrl-C does
    with working(args.method, 1.0) as bar:

        def report(done: float, best: Decimal) -> None:
            bar.say(f"best bound {percent_up(str(best))}")
            bar.reach(done)

        found = compress(
            data,
            method=args.method,
            model=None if net is None else net.module,
            holdout=holdout,
            delta=args.delta,
            seed=args.seed,
            report=report,
            **options,
        )
    assert isinstance(found, Compressed)
    found.save(args.out)
    say_if_untrained(args)
    answer(args, {"file": args.out, **found.summary.to_json()}, "\n".join(_words(args, found)))
    return 0


def _words(args: argparse.Namespace, found: Compressed) -> list[str]:
    from cushion.certificates.certificate import holdout_sentence, sentence, spaced

    summary, claim = found.summary, found.certificate.claim
    rows = [
        [
            layer.name,
            layer.kind,
            "x".join(map(str, layer.shape)) or "-",
            layer.source or "-",
            layer.stored,
            layer.bits,
        ]
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
