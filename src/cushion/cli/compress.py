"""cushion compress [NET] --data D [--method M] -o OUT"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cushion.cli import options, render
from cushion.cli.flags import add_option, help_of, value_of
from cushion.cli.output import answer, check_files
from cushion.compressors.method import Method
from cushion.compressors.registry import METHODS, choose
from cushion.compressors.searches import Search
from cushion.compressors.tuning.options import RATE, Keeping
from cushion.data.files import check_writable
from cushion.errors import BadInput
from cushion.records.options import Option

if TYPE_CHECKING:
    from cushion.compressors.choice import Compressed
    from cushion.compressors.searches import SearchSummary
    from cushion.data import Dataset
    from cushion.nets.loading.weights import LoadedNet

_EXAMPLE = (
    "cushion compress runs/lenet --data mnist -o lenet.net; smaller: --lose 2 or --max-size 20kB; "
    "or by a paper's method: --method low-rank --k 20% --sweep 5%,40%"
)
_NET = f"the net to compress, or for a search to imitate: {options.NET}"
_OUT = "where to write: a certificate file (integer, subspace, supermask), or the compressed NET"
_SEED = "seed of the training, or of the helper string, which is part of the net and paid"


def add_parser(verbs: Any) -> None:
    summary = "compress a net, or search for a small one, and check what the method promises"
    parser = options.add_verb(verbs, "compress", run, summary=summary, example=_EXAMPLE)
    options.add_net(parser, meaning=_NET, nargs="?")
    options.add_data(parser)
    options.add_batch(parser)
    methods = "; ".join(f"{method.name}: {method.meaning}" for method in METHODS.values())
    options.add_word(parser, "--method", "M", f"{methods} (default: rate)")
    options.add_out(parser, "OUT", _OUT)
    delta = "probability that the bound fails (default 0.05)"
    parser.add_argument("--delta", default="0.05", metavar="P", help=delta)
    seed = f"{_SEED} (default 0)"
    parser.add_argument("--seed", type=options.seed, default=0, metavar="N", help=seed)
    certificate = "also write the certificate of the compressed NET"
    options.add_word(parser, "--certificate", "FILE", certificate)
    figures = "also draw errors and sizes of what was tried (PNG and SVG)"
    options.add_word(parser, "--figures", "DIR", figures)
    options.add_switch(parser, "--full", "all that was tried, and every layer [rate]")
    for takers in _takers().values():
        _add(parser, takers)


def _takers() -> dict[str, dict[str, Option]]:
    """Every option by its name, and what it is to each method that takes it."""
    found: dict[str, dict[str, Option]] = {}
    for method in METHODS.values():
        for one in method.flags:
            found.setdefault(one.name, {})[method.name] = one
    return found


def _add(parser: argparse.ArgumentParser, takers: dict[str, Option]) -> None:
    """One flag for all methods that take such an option; read once the method is known."""
    meanings: dict[str, list[str]] = {}
    for method, one in takers.items():
        meanings.setdefault(help_of(one), []).append(method)
    text = "; ".join(f"{meaning} [{', '.join(names)}]" for meaning, names in meanings.items())
    add_option(parser, one, text, read=str)


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """The options of the method that were given, read as it reads them, or BadInput."""
    if args.method not in METHODS:
        choose(args.method, {})
    found = {}
    for name, takers in _takers().items():
        text, one = getattr(args, name), takers.get(args.method)
        try:
            value = text if one is None or one.kind is bool or text is None else value_of(one, text)
        except ValueError:
            raise BadInput(f"`{name}` must be {one and one.rule}, not {text!r}") from None
        if value is not None:
            found[name] = value
    if {"gamma", "level"} <= found.keys():
        raise BadInput("`gamma` is the margin, and `level` says how to find it; give one of them")
    return found


def run(args: argparse.Namespace) -> int:
    from cushion.data import load_pair
    from cushion.theorems.occam import parse_delta

    parse_delta(args.delta)
    if args.method is None:
        if args.net is None:
            raise BadInput("give NET, such as a RUN folder, or a --method that searches: integer")
        args.method = RATE.name
    given = _given(args)
    method, chosen = choose(args.method, given)
    of_a_net = not isinstance(method, Search)
    for name in ("certificate", "figures"):
        if getattr(args, name) is not None and not of_a_net:
            why = "-o is its certificate, and it has no curve"
            raise BadInput(f"--method {method.name} does not take --{name}; {why}")
    _check_written(args)
    if args.certificate and isinstance(method, Method) and (why := method.uncertifiable(chosen)):
        _refuse_certificate(args, why)
    if args.figures is not None:
        from cushion.cli.figures import prepare

        prepare(args.figures)
    options.check_net_flags(args, "NET")
    if args.net is None and of_a_net:
        trained = f"--method {method.name} compresses a trained net"
        raise BadInput(f"{trained}; give NET, such as a RUN folder")
    data, holdout = load_pair(args.data)
    net = None if args.net is None else options.load_named_net(args, data)
    if net is not None and isinstance(method, Keeping):
        return _keep(args, net, data, holdout, chosen)
    if net is not None and of_a_net:
        _compress_net(args, net, data, holdout, chosen)
    else:
        _search(args, net, data, holdout, given)
    return 0


def _check_written(args: argparse.Namespace) -> None:
    """BadInput for a file that cannot be written, or that would lie in the net's RUN folder."""
    folder = Path(args.net).resolve() if args.net is not None and Path(args.net).is_dir() else None
    written = {"-o": args.out, "--certificate": args.certificate, "--json": args.json}
    for option, path in written.items():
        if path in (None, "-"):
            continue
        check_writable(path)
        if Path(path).resolve().parent == folder:
            where = f"lies in {args.net}, the folder of the net's run"
            raise BadInput(f"{option} {where}; give another folder")


def _refuse_certificate(args: argparse.Namespace, why: str) -> None:
    none = f"there is none for this net ({why})"
    raise BadInput(f"--certificate {args.certificate}: {none}; leave it out")


def _keep(
    args: argparse.Namespace, net: LoadedNet, data: Dataset, holdout: Dataset | None, chosen: Any
) -> int:
    """OUT where the target is met; else OUT.nearest, and exit code 1."""
    from cushion.cli.figures import draw
    from cushion.cli.keeping import describe
    from cushion.compressors.file import is_compressed
    from cushion.compressors.run import compress

    other = options.say_if_other_data(args, net, data)
    resume, nearest = Path(f"{args.out}.part"), f"{args.out}.nearest"
    check_files(argparse.Namespace(**{**vars(args), "out": nearest}))
    with options.searching(args.method):
        found = compress(
            net.module,
            data,
            method=args.method,
            holdout=None if other else holdout,
            delta=args.delta,
            seed=args.seed,
            batch=args.batch,
            resume=resume,
            certified=args.certificate is not None,
            **{name: value for name, value in vars(chosen).items() if value is not None},
        )
    summary = found.summary
    out = args.out if summary.met else nearest
    _save_certificate(args, found)
    found.save(out)
    if summary.met and is_compressed(nearest):  # of a run before this one
        Path(nearest).unlink()
    figures = [] if args.figures is None else map(str, draw(summary, args.figures))
    options.say_if_untrained(args)
    files = {"file": out, "certificate": args.certificate, "figures": list(figures)}
    answer(args, {**files, **summary.to_json()}, describe(summary, out, full=args.full))
    return 0 if summary.met else 1


def _save_certificate(args: argparse.Namespace, found: Compressed[Any]) -> None:
    if args.certificate is None:
        return
    if found.certificate is None:
        none = (row.because for row in found.summary.occam if row.kind == "certificate")
        _refuse_certificate(args, next(none))
    else:
        found.certificate.save(args.certificate)


def _compress_net(
    args: argparse.Namespace, net: LoadedNet, data: Dataset, holdout: Dataset | None, chosen: Any
) -> None:
    from cushion.cli.compression import describe
    from cushion.cli.figures import draw
    from cushion.compressors.run import compress_model

    other = options.say_if_other_data(args, net, data)
    how = {"method": args.method, "options": chosen, "delta": args.delta, "seed": args.seed}
    held = None if other else holdout
    how |= {"init": net.init, "batch": args.batch}
    found = compress_model(net.module, data, holdout=held, **how)
    _save_certificate(args, found)
    found.save(args.out)
    figures = [] if args.figures is None else map(str, draw(found.summary, args.figures))
    options.say_if_untrained(args)
    files = {"file": args.out, "certificate": args.certificate, "figures": list(figures)}
    text = describe(found.summary, args.out, args.certificate, args.data)
    answer(args, {**files, **found.summary.to_json()}, text)


def _search(
    args: argparse.Namespace,
    net: LoadedNet | None,
    data: Dataset,
    holdout: Dataset | None,
    given: dict[str, Any],
) -> None:
    from cushion.compressors.run import compress

    module = None if net is None else net.module
    how = {"method": args.method, "delta": args.delta, "seed": args.seed, **given}
    how["batch"] = args.batch
    with options.searching(args.method) as report:
        found = compress(module, data, holdout=holdout, report=report, **how)
    found.save(args.out)
    options.say_if_untrained(args)
    answer(args, {"file": args.out, **found.summary.to_json()}, *_words(args, found))


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
        imitates = "the compressed net in the file, which imitates your net"
        lines.append(f"This is about {imitates}; not about your net.")
    if summary.interrupted:
        lines.append("The training was interrupted; this is the best net until then.")
    if not claim.made_with["trained"]:
        lines.append(options.CONSTANT)
    if claim.holdout is not None:
        lines.append(holdout_sentence(claim.holdout, "its"))
    lines.append(f"What it assumes, and every bit: cushion inspect {args.out}")
    return [*lines, f"Check it with: cushion verify {args.out} --data {args.data}"]
