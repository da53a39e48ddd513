"""cushion measure NET --data D"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from cushion.cli.options import (
    add_data,
    add_epsilon,
    add_net,
    add_verb,
    filled,
    fraction,
    levels,
    load_named_net,
    natural,
    say_if_other_data,
    say_if_untrained,
    seed,
    whole,
    whole_or_all,
)
from cushion.cli.output import answer
from cushion.cli.sharpness import add_sharpness, sharpness_options
from cushion.data.files import check_writable, write_whole

if TYPE_CHECKING:
    from cushion.measures.conditions.options import ConditionOptions
    from cushion.measures.stability.options import StabilityOptions
    from cushion.measures.tails.options import TailOptions


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "measure",
        summary="measure why a net generalises, on its training set (measures, not bounds: see "
        "`cushion bounds`)",
        example="cushion measure runs/guha --data mnist --only norms,paths,margins,sharpness",
    )
    add_net(parser, flag=False)
    add_data(parser)
    parser.add_argument(
        "--only",
        metavar="FAMILIES",
        help="some of stability (with spectra), spectra, norms, paths, margins, sharpness, "
        "conditions, tails "
        "(default: all)",
    )
    parser.add_argument(
        "--examples",
        type=whole_or_all,
        metavar="N|all",
        help="rows for conditions and all of noise stability but its one pass (default: what some "
        "minutes allow)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="of rows, probes and draws (0)"
    )
    parser.add_argument(
        "--paper",
        action="store_true",
        help="Neyshabur 2017's counts: 1000 draws and 2000 steps of ascent for sharpness, "
        "condition C1 without probes",
    )
    parser.add_argument(
        "--beside",
        choices=("init", "random"),
        help="measure the initialisation, or random weights, too: scaled to match, but for the "
        "conditions",
    )
    _add_stability(parser)
    _add_neyshabur(parser)
    _add_tails(parser)
    parser.add_argument(
        "--figures",
        type=filled,
        metavar="DIR",
        help="draw histograms and curves (needs matplotlib)",
    )
    parser.set_defaults(run=run)


def _add_stability(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("noise stability (Arora 2018)")
    group.add_argument(
        "--probes",
        type=natural,
        default=16,
        metavar="P",
        help="random probes for large pairs; 0 leaves them out (16)",
    )
    group.add_argument(
        "--exact",
        action="store_true",
        help="no probes: every Jacobian norm exactly, whatever it takes",
    )
    group.add_argument(
        "--draws",
        type=natural,
        default=20,
        metavar="N",
        help="of noise for smoothness; 0: none (20)",
    )
    group.add_argument(
        "--delta",
        type=fraction,
        default=0.05,
        metavar="F",
        help="of the smoothness rho_delta (0.05)",
    )
    group.add_argument(
        "--k", type=whole, default=1000, metavar="K", help="sign matrices of Algorithm 1 (1000)"
    )
    group.add_argument(
        "--levels",
        type=levels,
        default=(0.1, 1.0),
        metavar="L,...",
        help="relative norms of injected noise (0.1,1)",
    )
    group.add_argument(
        "--attenuation-draws",
        type=natural,
        default=4,
        metavar="N",
        help="of injected noise; 0: none (4)",
    )
    group.add_argument(
        "--zeta",
        type=fraction,
        default=0.05,
        metavar="F",
        help="examples that may be dropped (0.05)",
    )
    group.add_argument(
        "--places",
        type=natural,
        default=0,
        metavar="N",
        help="sampled places for beta of large pairs (0)",
    )
    group.add_argument("--no-spectra", action="store_true", help="leave the singular values out")


def _add_neyshabur(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("margins, sharpness and conditions (Neyshabur 2017)")
    add_epsilon(group)
    group.add_argument(
        "--save-margins",
        type=filled,
        metavar="FILE",
        help="write every example's margin, a line each",
    )
    add_sharpness(group)


def _add_tails(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tails (Shin 2021)")
    group.add_argument(
        "--bootstrap",
        type=natural,
        default=0,
        metavar="N",
        help="samples of each fitted power law that test its goodness of fit, such as 100; 0: no "
        "test (0)",
    )


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


def condition_options(args: argparse.Namespace) -> ConditionOptions:
    from cushion.measures.conditions.options import ConditionOptions

    exact = args.exact or args.paper
    return ConditionOptions(
        examples=args.examples,
        probes=max(1, args.probes),
        method="exact" if exact else "auto",
        seed=args.seed,
    )


def tail_options(args: argparse.Namespace) -> TailOptions:
    from cushion.measures.tails.options import TailOptions

    return TailOptions(bootstrap=args.bootstrap, seed=args.seed)


def run(args: argparse.Namespace) -> int:
    from cushion.cli.measure_text import describe
    from cushion.data import load
    from cushion.measures.table import margins, measure

    options = stability_options(args)
    sharpness, conditions = sharpness_options(args), condition_options(args)
    if args.save_margins is not None:
        check_writable(args.save_margins)
    if args.figures is not None:
        from cushion.cli.figures import prepare

        prepare(args.figures)
    data = load(args.data)
    net = load_named_net(args, data)
    found = measure(
        net.module,
        data,
        only=None if args.only is None else args.only.split(","),
        stability=options,
        sharpness=sharpness,
        conditions=conditions,
        tails=tail_options(args),
        epsilon=args.epsilon,
        init=net.init,
        beside=args.beside,
        spectra=not args.no_spectra,
    )
    say_if_other_data(args, net, data)
    say_if_untrained(args)
    answer(args, found.to_json(), describe(found))
    if args.save_margins is not None:
        lines = "".join(f"{margin!r}\n" for margin in margins(net.module, data).tolist())
        write_whole(args.save_margins, lines)
        print(f"cushion: wrote {len(data)} margins to {args.save_margins}", file=sys.stderr)
    if args.figures is not None:
        from cushion.cli.figures import draw

        names = sorted({path.stem for path in draw(found, args.figures)})
        drawn = (
            f"drew {', '.join(names)} (png and svg) into {args.figures}"
            if names
            else "had nothing to draw"
        )
        print(f"cushion: {drawn}", file=sys.stderr)
    return 0
