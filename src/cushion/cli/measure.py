"""cushion measure NET --data D"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from cushion.cli import options
from cushion.cli.flags import add_options, flag_of, given
from cushion.cli.output import answer
from cushion.cli.render import show
from cushion.data.files import check_writable, write_whole
from cushion.errors import BadInput
from cushion.measures.conditions.family import ConditionOptions
from cushion.measures.families import FAMILIES
from cushion.measures.family import Family, View
from cushion.records import Options
from cushion.records.options import options_of
from cushion.records.text import say

if TYPE_CHECKING:
    from cushion.measures.records import MeasureTable

Chosen = TypeVar("Chosen", bound=Options)
_KINDS: dict[str, type[Options]] = {one.name: one.options for one in FAMILIES if one.options}


_WAYS = {
    "hooks": "hooks: layers with weights as they run, and the blocks that all data pass",
    "weights": "its weights, and its answers where there are data",
    "answers": "its answers alone",
}


def add_parser(verbs: Any) -> None:
    summary = "measure why a net generalises, on its training set (no bounds: see `cushion bounds`)"
    example = "cushion measure runs/guha --data mnist --only norms,paths,margins,sharpness"
    parser = options.add_verb(verbs, "measure", run, summary=summary, example=example)
    options.add_net(parser)
    none = "; without it: norms, spectra and tails of the weights"
    options.add_data(parser, required=False, more=none)
    options.add_shape(parser)
    names = ", ".join(family.name for family in FAMILIES)
    only = f"some of {names} (default: all; stability comes with spectra)"
    parser.add_argument("--only", metavar="FAMILIES", help=only)
    options.add_examples(parser, "conditions and all of noise stability but its one pass")
    paper = "Neyshabur 2017's counts: 1000 draws and 2000 steps of ascent for sharpness, condition"
    options.add_switch(parser, "--paper", f"{paper} C1 without probes")
    beside = "measure the initialisation, or random weights, too: scaled to match, but for the"
    parser.add_argument("--beside", choices=("init", "random"), help=f"{beside} conditions")
    options.add_batch(parser)
    options.add_stated_error(parser)
    ways = "how to see the net (default: the trace where it is understood, else hooks)"
    parser.add_argument("--way", choices=("trace", "hooks", "weights", "answers"), help=ways)
    exact = "no probes: every Jacobian norm exactly, whatever it takes"
    options.add_switch(parser, "--exact", exact)
    options.add_switch(parser, "--no-spectra", "leave the singular values out")
    margins = "write every example's margin, a line each"
    options.add_word(parser, "--save-margins", "FILE", margins)
    options.add_word(parser, "--figures", "DIR", "draw histograms and curves (needs matplotlib)")
    taken = {"--examples"}  # a flag that several families share stands with the first
    for family in FAMILIES:
        if family.options is not None:
            shared = {one.name for one in options_of(family.options) if flag_of(one) in taken}
            add_options(parser.add_argument_group(family.title), family.options, leave_out=shared)
            taken |= {flag_of(one) for one in options_of(family.options)}


def chosen(kind: type[Chosen], args: argparse.Namespace) -> Chosen:
    """The options from the flags; --paper has other defaults."""
    published = getattr(kind, "as_published", kind) if args.paper else kind
    values = {**vars(published()), **given(kind, args)}
    if kind is ConditionOptions:  # --probes 0 leaves pairs out of stability only
        values["probes"] = max(1, values["probes"])
    return kind(**values)


def _check_flags(args: argparse.Namespace) -> None:
    """BadInput for a flag that nothing to be measured reads."""
    if args.data is None:
        for flag in (name for name in ("save_margins", "normalise") if getattr(args, name)):
            raise BadInput(
                f"--{flag.replace('_', '-')} is about data; give --data, or leave it out"
            )
    if args.exact:
        if args.method not in (None, "exact"):
            raise BadInput(f"--exact is --method exact, not {args.method}; give one of them")
        args.method = "exact"
    if args.only is None:
        return
    asked = args.only.split(",")
    known = {name for kind in asked if kind in _KINDS for name in given(_KINDS[kind], args)}
    published = {name for name, kind in _KINDS.items() if hasattr(kind, "as_published")}
    if args.paper and not published & set(asked):
        raise BadInput(f"--paper is about {' and '.join(sorted(published))}; leave it out")
    for family, kind in _KINDS.items():
        for one in options_of(kind):
            if one.name in given(kind, args) and family not in asked and one.name not in known:
                flag = "--exact" if args.exact and one.name == "method" else flag_of(one)
                raise BadInput(f"{flag} is about {family}, which --only leaves out; drop the flag")


def run(args: argparse.Namespace) -> int:
    from cushion.data import load
    from cushion.measures.table import INTERRUPTED, margins, measure

    options.check_net_flags(args)
    _check_flags(args)
    how: dict[str, Any] = {name: chosen(kind, args) for name, kind in _KINDS.items()}
    if args.save_margins is not None:
        check_writable(args.save_margins)
    if args.figures is not None:
        from cushion.cli import figures

        figures.prepare(args.figures)
    data = None if args.data is None else load(args.data)
    net = options.load_named_net(args, data)
    how |= {"only": args.only, "init": net.init, "beside": args.beside, "way": args.way}
    how |= {"batch": args.batch, "stated_error": options.stated_error(net, data, args)}
    own = None if data is not None or net.spec is None else net.spec.input_shape
    found = measure(net.module, data, shape=args.shape or own, spectra=not args.no_spectra, **how)
    if data is not None:
        options.say_if_other_data(args, net, data)
    options.say_if_untrained(args)
    answer(args, found.to_json(), describe(found))
    if data is not None and args.save_margins is not None:
        lines = "".join(f"{margin!r}\n" for margin in margins(net.module, data).tolist())
        write_whole(args.save_margins, lines)
        say(f"cushion: wrote {len(data)} margins to {args.save_margins}")
    if args.figures is not None:
        names = ", ".join(sorted({path.stem for path in figures.draw(found, args.figures)}))
        drawn = f"drew {names} (png and svg) into {args.figures}"
        say(f"cushion: {drawn if names else 'had nothing to draw'}")
    return 130 if any(one.why == INTERRUPTED for one in found.left_out) else 0


def describe(found: MeasureTable) -> str:
    net = found.net
    size = f"{net.parameters} parameters" + (f" in {net.depth} affine layers" if net.depth else "")
    where = f"on {net.m} examples of {net.data}" if net.m else "without data"
    lines = [f"{size}, {where} ({found.note})"]
    if net.way == "trace" and not net.is_chain:
        lines.append(f"not a chain of layers: {net.not_a_chain_because}")
    if net.way != "trace":
        lines.append(f"seen by {_WAYS[net.way]}")
    if any(layer.is_kernel for layer in found.layers):
        lines.append(
            "convolutions stand for their kernels, as matrices with a row a filter; the norms of "
            "the maps that they are, mostly larger, need the shape of an example (--shape 3x32x32)"
        )
    if net.not_seen:
        lines.append(f"not looked at: {', '.join(net.not_seen)}: they do not compute as their kind")
    if net.apart:
        names = ", ".join(net.apart)
        lines.append(f"norms only of {names}: the first axis of what they read is not the examples")
    for why in dict.fromkeys(one.why for one in found.left_out):
        names = ", ".join(one.family for one in found.left_out if one.why == why)
        lines.append(f"left out: {names}: {why}")
    shown = [_views(family, found) for family in FAMILIES if family.measured(found)]
    return show(["\n".join(lines), *chain(*shown)])


def _views(family: Family, found: MeasureTable) -> list[View]:
    """What the family shows; where it leaves out the net beside it, that one's own views do."""
    own, twins = list(family.shown(found)), list(family.shown(found.beside or found))
    if found.beside is None or len(own) != len(twins) or any(view.beside for view in own):
        return own
    return [replace(view, beside=twin.rows) for view, twin in zip(own, twins, strict=True)]
