"""cushion bounds NET --data D"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cushion.cli import options
from cushion.cli.flags import add_options, from_flags
from cushion.cli.measure import chosen
from cushion.cli.output import answer
from cushion.cli.render import show
from cushion.errors import BadInput
from cushion.measures.family import View
from cushion.measures.sharpness.family import SharpnessOptions
from cushion.numerics import counted
from cushion.progress import plan
from cushion.theorems.options import EXAMPLES, BoundOptions

if TYPE_CHECKING:
    from cushion.theorems.records import BoundsTable

_EXAMPLE = "cushion bounds runs/a --data mnist --beside runs/b --beside-data mnist,random-labels=1"


def add_parser(verbs: Any) -> None:
    summary = "all bounds on a net's error in one table, each labelled certificate or measure"
    parser = options.add_verb(verbs, "bounds", run, summary=summary, example=_EXAMPLE)
    options.add_net(parser)
    options.add_data(parser)
    delta = f"probability that a row fails, for each by itself (default {BoundOptions.delta})"
    parser.add_argument("--delta", metavar="P", help=delta)
    beside = "a second net: each row says which of the two it prefers"
    options.add_word(parser, "--beside", "NET2", beside)
    data = "what NET2 was trained on (default: the same as D)"
    options.add_word(parser, "--beside-data", "D2", data)
    state = "with --beside file.py:factory: its state dict"
    parser.add_argument("--beside-weights", metavar="W2", help=state)
    options.add_batch(parser)
    options.add_stated_error(parser)
    options.add_examples(parser, "noise stability and the conditions", f"{EXAMPLES}")
    paper = "the published 1000 draws and 2000 steps of ascent for sharpness"
    options.add_switch(parser, "--paper", paper)
    add_options(parser, BoundOptions)
    group = parser.add_argument_group("sharpness (Neyshabur 2017)")
    add_options(group, SharpnessOptions, leave_out={"seed"})


def _options(args: argparse.Namespace) -> BoundOptions:
    usual = BoundOptions()
    seed = usual.seed if args.seed is None else args.seed
    rows: dict[str, Any] = {"examples": args.examples or EXAMPLES, "seed": seed}
    parts = {
        "sharpness": chosen(SharpnessOptions, args),
        "conditions": replace(usual.conditions, **rows),
        "stability": replace(usual.stability, **rows),
    }
    delta = usual.delta if args.delta is None else args.delta
    return from_flags(BoundOptions, args, delta=delta, **parts)


def run(args: argparse.Namespace) -> None:
    from cushion.theorems.bounds import beside

    how = _options(args)
    options.check_net_flags(args)
    if args.beside is None and (args.beside_data is not None or args.beside_weights is not None):
        about = "--beside-data and --beside-weights are about a second net"
        raise BadInput(f"{about}; give it with --beside as well")
    same = (args.beside, args.beside_weights) == (args.net, args.weights)
    if same and args.beside_data in (None, args.data):
        raise BadInput("--beside names the same net on the same data; give another one")
    found = _bounds(args, how)
    if args.beside is not None:
        second = {"net": args.beside, "data": args.beside_data or args.data}
        second["weights"] = args.beside_weights
        twin = _bounds(argparse.Namespace(**vars(args) | second), how, "--beside-weights")
        found = beside(found, twin)
    answer(args, found.to_json(), show(views(found)))


def _bounds(args: argparse.Namespace, how: BoundOptions, weights: str = "--weights") -> BoundsTable:
    from cushion.data import load_pair
    from cushion.theorems.bounds import bounds

    data, holdout = load_pair(args.data)
    net = options.load_named_net(args, data)
    if options.say_if_other_data(args, net, data) and holdout is not None:
        options.note("so the held-out row is left out: those examples may be its training set")
        holdout = None
    options.say_if_untrained(args, weights)
    given = {"holdout": holdout, "init": net.init, "options": how, "name": args.net}
    given |= {"batch": args.batch, "stated_error": options.stated_error(net, data, args)}
    with plan({"measures": 6, "sharpness": 2, "noisy nets": 2}):
        return bounds(net.module, data, **given)


def views(found: BoundsTable) -> Iterator[View]:
    """Certificates first, then what only ranks nets; of both nets where there are two."""
    title = f"{found.net} on {found.m} examples of {found.data}: {counted(found.errors, 'error')}"
    if found.holdout_m:
        errors = counted(found.holdout_errors or 0, "error")
        title += f"; {errors} on {found.holdout_m} held-out examples"
    yield View(title, [found], "loss delta margin margin_level margin_loss", upright=True)
    stated = [bound for bound in found.bounds if not bound.abstains]
    proved = [bound for bound in stated if bound.kind == "certificate"]
    rest = [bound for bound in stated if bound.kind == "measure"]
    chance = f"errs on {1 - 1 / found.classes:.4g} of the examples"
    guess = f"guessing one of {found.classes} classes at random {chance}"
    notes = [guess, f"assuming that {'; '.join(found.assumptions)}"]
    columns = "name about shown source meaning"
    yield View("Certificates: every constant explicit", proved, columns, notes)
    explicit = [bound for bound in rest if bound.form == "stated"]
    title = "Measures: bounds of the literature with their constants (no certificates: unchecked)"
    yield View(title, explicit, "name shown vacuous source meaning")
    plotted = [bound for bound in rest if bound.form != "stated"]
    title = "Measures: up to constants, as the papers plot them; they rank nets and prove nothing"
    yield View(title, plotted, "name form capacity_log10 shown source meaning")
    silent: dict[str, list[str]] = {}
    for bound in found.bounds:
        if bound.abstains:
            why = bound.meaning.removeprefix("abstains: ")
            silent.setdefault(why, []).append(f"{bound.name} ({bound.form})")
    if found.left_out:
        silent.setdefault(found.left_out, []).append("bounds that need the trace of the net")
    if silent:
        notes = [f"{', '.join(names)}: {why}" for why, names in silent.items()]
        yield View("No value for", [], "", notes)
    if (other := found.beside) is not None:
        yield from views(other)
        title = f"Which net each row prefers (first: {found.net}, second: {other.net})"
        title += ", and whether the held-out errors agree"
        yield View(title, found.verdicts, "name form first second prefers right")
