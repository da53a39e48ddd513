"""cushion measure NET --data D"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from cushion.cli.measure_text import describe
from cushion.cli.options import (
    add_data,
    add_net,
    add_verb,
    filled,
    fraction,
    load_named_net,
    natural,
    say_if_untrained,
    seed,
    whole,
)
from cushion.cli.output import answer

if TYPE_CHECKING:
    from cushion.measures.stability.options import StabilityOptions


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "measure",
        summary="measure a net on its training set: noise stability, margins, norms (measures, not bounds)",
        example="cushion measure runs/guha --data mnist --only stability,margins --examples 500",
    )
    add_net(parser, flag=False)
    add_data(parser)
    parser.add_argument(
        "--only", metavar="FAMILIES", help="some of stability (with spectra), spectra, norms, margins (default: all)"
    )
    group = parser.add_argument_group("noise stability (Arora 2018)")
    group.add_argument(
        "--examples",
        type=whole_or_all,
        metavar="N|all",
        help="rows for all but the one-pass quantities (default: what some minutes allow)",
    )
    group.add_argument(
        "--probes",
        type=natural,
        default=16,
        metavar="P",
        help="random probes for large pairs; 0 leaves them out (16)",
    )
    group.add_argument("--exact", action="store_true", help="no probes: every Jacobian norm exactly, whatever it takes")
    group.add_argument("--draws", type=natural, default=20, metavar="N", help="of noise for smoothness; 0: none (20)")
    group.add_argument("--delta", type=fraction, default=0.05, metavar="F", help="of the smoothness rho_delta (0.05)")
    group.add_argument("--k", type=whole, default=1000, metavar="K", help="sign matrices of Algorithm 1 (1000)")
    group.add_argument(
        "--levels", type=levels, default=(0.1, 1.0), metavar="L,...", help="relative norms of injected noise (0.1,1)"
    )
    group.add_argument(
        "--attenuation-draws", type=natural, default=4, metavar="N", help="of injected noise; 0: none (4)"
    )
    group.add_argument("--zeta", type=fraction, default=0.05, metavar="F", help="examples that may be dropped (0.05)")
    group.add_argument(
        "--places", type=natural, default=0, metavar="N", help="sampled places for beta of large pairs (0)"
    )
    group.add_argument("--seed", type=seed, default=0, metavar="N", help="of rows, probes and draws (0)")
    group.add_argument(
        "--beside",
        choices=("init", "random"),
        help="measure the initialisation, or random weights, too, scaled to match",
    )
    group.add_argument("--no-spectra", action="store_true", help="leave the singular values out")
    parser.add_argument("--figures", type=filled, metavar="DIR", help="draw histograms and curves (needs matplotlib)")
    parser.set_defaults(run=run)


def whole_or_all(text: str) -> int:
    """A number of rows; "all" is more than any sample has."""
    try:
        return sys.maxsize if text == "all" else whole(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, or all, not '{text}'") from None


def levels(text: str) -> tuple[float, ...]:
    """Numbers separated by commas; `StabilityOptions` checks them."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be numbers separated by commas, such as 0.1,1, not '{text}'") from None


def stability_options(args: argparse.Namespace) -> StabilityOptions:
    from cushion.measures.stability.options import StabilityOptions

    return StabilityOptions(
        examples=args.examples,
        probes=args.probes,
        method="exact" if args.exact else "auto",
        draws=args.draws,
        delta=args.delta,
        k=args.k,
        levels=args.levels,
        attenuation_draws=args.attenuation_draws,
        zeta=args.zeta,
        places=args.places,
        seed=args.seed,
    )


def run(args: argparse.Namespace) -> int:
    from cushion.data import load
    from cushion.measuring import measure

    options = stability_options(args)
    if args.figures is not None:
        from cushion.figures import prepare

        prepare(args.figures)
    data = load(args.data)
    net = load_named_net(args, data)
    found = measure(
        net.module,
        data,
        only=None if args.only is None else args.only.split(","),
        stability=options,
        init=net.init,
        beside=args.beside,
        spectra=not args.no_spectra,
    )
    trained_on = net.meta.get("data_fingerprint", data.fingerprint)
    if trained_on != data.fingerprint:
        print(f"cushion: note: {args.net} was trained on other examples or labels than {args.data}", file=sys.stderr)
    say_if_untrained(args)
    answer(args, found.to_json(), describe(found))
    if args.figures is not None:
        from cushion.figures import draw

        names = sorted({path.stem for path in draw(found, args.figures)})
        drawn = f"drew {', '.join(names)} (png and svg) into {args.figures}" if names else "had nothing to draw"
        print(f"cushion: {drawn}", file=sys.stderr)
    return 0
