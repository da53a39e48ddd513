"""cushion bounds NET --data D"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cushion.cli.flags import add_options, from_flags
from cushion.cli.measure import chosen
from cushion.cli.options import (
    add_data,
    add_examples,
    add_net,
    add_verb,
    filled,
    load_named_net,
    say_if_other_data,
    say_if_untrained,
)
from cushion.cli.output import answer
from cushion.cli.views import show
from cushion.errors import BadInput
from cushion.measures.family import View
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.theorems.options import EXAMPLES, BoundOptions

if TYPE_CHECKING:
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
        metavar="P",
        help=f"probability that a row fails, for each by itself (default {BoundOptions.delta})",
    )
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
    add_examples(parser, "noise stability and the conditions", f"{EXAMPLES}")
    parser.add_argument(
        "--paper",
        action="store_true",
        help="the published 1000 draws and 2000 steps of ascent for sharpness",
    )
    add_options(parser, BoundOptions)
    group = parser.add_argument_group("sharpness (Neyshabur 2017)")
    add_options(group, SharpnessOptions, leave_out={"seed"})
    parser.set_defaults(run=run)


def _options(args: argparse.Namespace) -> BoundOptions:
    usual = BoundOptions()
    seed = usual.seed if args.seed is None else args.seed
    rows: dict[str, Any] = {"examples": args.examples or EXAMPLES, "seed": seed}
    return from_flags(
        BoundOptions,
        args,
        delta=usual.delta if args.delta is None else args.delta,
        sharpness=chosen(SharpnessOptions, args),
        conditions=replace(usual.conditions, **rows),
        stability=replace(usual.stability, **rows),
    )


def run(args: argparse.Namespace) -> int:
    from cushion.theorems.bounds import beside

    options = _options(args)
    if args.beside is None and (args.beside_data is not None or args.beside_weights is not None):
        raise BadInput(
            "--beside-data and --beside-weights are about a second net; give it with --beside as "
            "well"
        )
    if args.beside == args.net and args.beside_data in (None, args.data):
        raise BadInput("--beside names the same net on the same data; give another one")
    found = _bounds(args, args.net, args.data, options)
    if args.beside is not None:
        found = beside(found, _bounds(args, args.beside, args.beside_data or args.data, options))
    answer(args, found.to_json(), show(views(found)))
    return 0


def _bounds(
    args: argparse.Namespace, named: str, source: str, options: BoundOptions
) -> BoundsTable:
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


def views(found: BoundsTable) -> Iterator[View]:
    """Certificates first, then what only ranks nets; of both nets where there are two."""
    held = ""
    if found.holdout_m:
        held = f"; {found.holdout_errors} errors on {found.holdout_m} held-out examples"
    title = f"{found.net} on {found.m} examples of {found.data}: {found.errors} errors{held}"
    about = "loss delta margin margin_level margin_loss"
    yield View(title, [found], about, upright=True)
    stated = [bound for bound in found.bounds if not bound.abstains]
    proved = [bound for bound in stated if bound.kind == "certificate"]
    rest = [bound for bound in stated if bound.kind == "measure"]
    guess = (
        f"guessing one of {found.classes} classes at random errs on {1 - 1 / found.classes:.4g} of "
        "the examples"
    )
    notes = [guess, f"assuming that {'; '.join(found.assumptions)}"]
    columns = "name about shown source meaning"
    yield View("Certificates: every constant explicit", proved, columns, notes)
    yield View(
        "Measures: bounds of the literature with their constants (rechecked by nobody: not "
        "certificates)",
        [bound for bound in rest if bound.form == "stated"],
        "name shown vacuous source meaning",
    )
    yield View(
        "Measures: up to constants, as the papers plot or print them; they rank nets and prove "
        "nothing",
        [bound for bound in rest if bound.form != "stated"],
        "name form capacity_log10 shown vacuous source meaning",
    )
    silent: dict[str, list[str]] = {}
    for bound in found.bounds:
        if bound.abstains:
            why = bound.meaning.removeprefix("abstains: ")
            silent.setdefault(why, []).append(f"{bound.name} ({bound.form})")
    if silent:
        notes = [f"{', '.join(names)}: {why}" for why, names in silent.items()]
        yield View("No value for", [], "", notes)
    if found.beside is not None:
        yield from views(found.beside)
        chosen = {"first": found.net, "second": found.beside.net, "neither": "neither"}
        yield View(
            f"Which net each row prefers (first: {chosen['first']}, second: {chosen['second']}), "
            "and whether the held-out errors agree",
            found.verdicts,
            "name form first second prefers right",
        )
