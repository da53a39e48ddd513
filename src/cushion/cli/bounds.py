"""cushion bounds NET --data D"""

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
    load_named_net,
    seed,
    whole,
    whole_or_all,
)
from cushion.cli.output import answer
from cushion.cli.sharpness import add_sharpness, sharpness_options
from cushion.errors import BadInput

if TYPE_CHECKING:
    from cushion.theorems.bounds import BoundOptions
    from cushion.theorems.records import BoundsTable


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "bounds",
        summary="all bounds on a net's error in one table, each labelled certificate or measure",
        example="cushion bounds runs/true --data mnist --beside runs/random --beside-data "
        "mnist,random-labels=1,seed=0",
    )
    add_net(parser, flag=False)
    add_data(parser)
    parser.add_argument(
        "--delta",
        default="0.05",
        metavar="P",
        help="probability that a row fails, for each by itself (default 0.05)",
    )
    add_epsilon(parser)
    parser.add_argument(
        "--beside",
        type=filled,
        metavar="NET2",
        help="a second net: each row says which of the two it prefers",
    )
    parser.add_argument(
        "--beside-data",
        type=filled,
        metavar="D2",
        help="what NET2 was trained on (default: the same as D)",
    )
    parser.add_argument(
        "--beside-weights", metavar="W2", help="with --beside file.py:factory: its state dict"
    )
    parser.add_argument(
        "--noisy-draws",
        type=whole,
        default=8192,
        metavar="N",
        help="nets drawn for the PAC-Bayes rows (8192)",
    )
    parser.add_argument(
        "--examples",
        type=whole_or_all,
        default=500,
        metavar="N|all",
        help="rows for noise stability and the conditions (500)",
    )
    parser.add_argument(
        "--paper",
        action="store_true",
        help="the published 1000 draws and 2000 steps of ascent for sharpness",
    )
    add_sharpness(parser)
    parser.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="of rows, probes and draws (0)"
    )
    parser.set_defaults(run=run)


def _options(args: argparse.Namespace) -> BoundOptions:
    from cushion.measures.conditions.options import ConditionOptions
    from cushion.measures.stability.options import StabilityOptions
    from cushion.theorems.bounds import BoundOptions

    return BoundOptions(
        delta=args.delta,
        epsilon=args.epsilon,
        noisy_draws=args.noisy_draws,
        seed=args.seed,
        sharpness=sharpness_options(args),
        conditions=ConditionOptions(examples=args.examples, seed=args.seed),
        stability=StabilityOptions(
            examples=args.examples, draws=0, attenuation_draws=0, seed=args.seed
        ),
    )


def run(args: argparse.Namespace) -> int:
    from cushion.cli.bounds_text import describe
    from cushion.theorems.bounds import beside
    from cushion.theorems.occam import parse_delta

    parse_delta(args.delta)
    if args.beside is None and (args.beside_data is not None or args.beside_weights is not None):
        raise BadInput(
            "--beside-data and --beside-weights are about a second net; give it with --beside as "
            "well"
        )
    if args.beside == args.net and args.beside_data in (None, args.data):
        raise BadInput("--beside names the same net on the same data; give another one")
    options = _options(args)
    found = _bounds(args, args.net, args.data, options)
    if args.beside is not None:
        found = beside(found, _bounds(args, args.beside, args.beside_data or args.data, options))
    answer(args, found.to_json(), describe(found))
    return 0


def _bounds(
    args: argparse.Namespace, named: str, source: str, options: BoundOptions
) -> BoundsTable:
    from cushion.cli.options import say_if_other_data, say_if_untrained
    from cushion.data import load_pair
    from cushion.theorems.bounds import bounds

    data, holdout = load_pair(source)
    weights = args.weights if named == args.net else args.beside_weights
    one = argparse.Namespace(net=named, data=source, weights=weights, trust=args.trust)
    net = load_named_net(one, data)
    if say_if_other_data(one, net, data) and holdout is not None:
        print(
            "cushion: note: so the held-out row is left out: those examples may be its training "
            "set",
            file=sys.stderr,
        )
        holdout = None
    say_if_untrained(one)
    return bounds(net.module, data, holdout=holdout, init=net.init, options=options, name=named)
