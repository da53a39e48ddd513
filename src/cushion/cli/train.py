"""cushion train RECIPE --data D -o RUN [--prune imp ...]"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cushion.cli.flags import add_options, from_flags, given
from cushion.cli.options import add_data, add_out, add_verb
from cushion.cli.output import answer
from cushion.cli.render import records
from cushion.errors import BadInput
from cushion.training.options import ImpOptions, TrainOptions

if TYPE_CHECKING:
    from cushion.training.imp import ImpResult

_RECIPE = 'a recipe (such as guha-mlp) or a spec such as "1x28x28: flatten fc300 relu fc10"'


def add_parser(verbs: Any) -> None:
    summary = "train a paper's net, or a free spec; run it again to resume"
    example = "cushion train guha-mlp --data mnist --epochs 3 -o runs/guha"
    parser = add_verb(verbs, "train", run, summary=summary, example=example)
    parser.epilog = f"{parser.epilog}. Recipes: {', '.join(recipe_names())}"
    parser.add_argument("recipe", metavar="RECIPE", help=_RECIPE)
    add_data(parser)
    add_out(parser, "RUN", "folder of the run: init, checkpoint, net")
    add_options(parser, TrainOptions)
    about = "(lottery tickets; RUN gets a folder a level)"
    group = parser.add_argument_group("iterative magnitude pruning", about)
    how = "train, prune the smallest weights, rewind the others, train again"
    group.add_argument("--prune", choices=["imp"], help=how)
    add_options(group, ImpOptions)


def recipe_names() -> list[str]:
    """The recipes, those of the two-layer nets shortened to one name."""
    from cushion.training.recipes import RECIPES

    names = [name for name in RECIPES if not name.startswith("neyshabur-mlp-")]
    return [*names, "neyshabur-mlp-8 to -8192 (powers of two)"]


def run(args: argparse.Namespace) -> None:
    from cushion.data import load_pair
    from cushion.training.imp import train_imp
    from cushion.training.training import train

    pruning = from_flags(ImpOptions, args)
    asked = given(ImpOptions, args)
    if asked and args.prune is None:
        raise BadInput(f"`{next(iter(asked))}` goes with `prune` = imp; add that, or leave it out")
    options = vars(from_flags(TrainOptions, args))
    snapshots = options.pop("snapshots") or ()
    if args.prune is not None and snapshots:
        raise BadInput("`snapshots` does not go with `prune` = imp; leave one of them out")
    data, test = load_pair(args.data)
    if args.prune is not None:
        found = train_imp(args.recipe, data, args.out, test=test, **options, **vars(pruning))
        return answer(args, found.to_json(), *describe_levels(found))
    result = train(args.recipe, data, args.out, test=test, snapshots=snapshots, **options)
    numbers = {key: value for key, value in result.metrics.items() if isinstance(value, float)}
    done = f"{result.status} after {result.epochs} epochs: {result.net}"
    metrics = ", ".join(f"{key} {value:.4g}" for key, value in numbers.items())
    return answer(args, result.to_json(), done, metrics)


def describe_levels(found: ImpResult) -> list[str]:
    last = found.levels[-1]
    left = f"{last.nonzeros} of {found.weights} weights left"
    return [
        f"{found.status}: {found.recipe}, {len(found.levels)} levels, {left}",
        records(found.levels),
        f"Certify a level with: cushion compress {last.folder} --data D --method magnitude --rule "
        "zeros --grid best -o NET --certificate FILE",
    ]
