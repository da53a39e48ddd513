"""cushion measure NET --data D"""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import TYPE_CHECKING, Any, TypeVar

from cushion.cli.flags import add_options, flag_of, given
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
from cushion.cli.render import width
from cushion.cli.views import show
from cushion.data.files import check_writable, write_whole
from cushion.measures.conditions.family import ConditionOptions
from cushion.measures.families import FAMILIES
from cushion.records import Options
from cushion.records.options import options_of

if TYPE_CHECKING:
    from cushion.measures.records import MeasureTable

Chosen = TypeVar("Chosen", bound=Options)


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
    names = ", ".join(family.name for family in FAMILIES)
    parser.add_argument(
        "--only",
        metavar="FAMILIES",
        help=f"some of {names} (default: all; stability comes with spectra)",
    )
    add_examples(parser, "conditions and all of noise stability but its one pass")
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
    parser.add_argument(
        "--exact",
        action="store_const",
        const="exact",
        dest="method",
        help="no probes: every Jacobian norm exactly, whatever it takes",
    )
    parser.add_argument("--no-spectra", action="store_true", help="leave the singular values out")
    parser.add_argument(
        "--save-margins",
        type=filled,
        metavar="FILE",
        help="write every example's margin, a line each",
    )
    parser.add_argument(
        "--figures",
        type=filled,
        metavar="DIR",
        help="draw histograms and curves (needs matplotlib)",
    )
    add_family_options(parser, [family.name for family in FAMILIES])
    parser.set_defaults(run=run)


def add_family_options(parser: argparse.ArgumentParser, names: list[str]) -> None:
    """The flags of some families, a group each; a flag that several share stands with the first."""
    taken = {"--examples"}
    for family in FAMILIES:
        if family.name in names and family.options is not None:
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


def run(args: argparse.Namespace) -> int:
    from cushion.data import load
    from cushion.measures.table import margins, measure

    kinds = {family.name: family.options for family in FAMILIES if family.options is not None}
    options: dict[str, Any] = {name: chosen(kind, args) for name, kind in kinds.items()}
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
        init=net.init,
        beside=args.beside,
        spectra=not args.no_spectra,
        **options,
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


def describe(found: MeasureTable) -> str:
    """All that was measured, family by family."""
    net = found.net
    lines = [
        f"{net.parameters} parameters in {net.depth} affine layers, on {net.m} examples of "
        f"{net.data} ({found.note})"
    ]
    if not net.is_chain:
        lines.append(f"not a chain of layers: {net.not_a_chain_because}")
    views = [view for family in FAMILIES if family.measured(found) for view in family.shown(found)]
    start = [part for line in lines for part in textwrap.wrap(line, width())]
    return "\n".join(start) + "\n\n" + show(views)
