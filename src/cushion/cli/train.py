"""cushion train RECIPE --data D -o RUN [--prune imp ...]"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cushion.cli.options import add_data, add_verb, filled, natural, positive, seed, whole, wholes
from cushion.cli.output import answer, table
from cushion.errors import BadInput

if TYPE_CHECKING:
    from cushion.training.imp import ImpResult

# What `train_imp` calls each option of pruning.
_PRUNING = {
    "rounds": "prune_rounds",
    "to": "prune_to",
    "fraction": "prune_fraction",
    "rewind": "rewind_epoch",
    "scope": "prune_scope",
}


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "train",
        summary="train a paper's net, or a free spec; run it again to resume",
        example="cushion train guha-mlp --data mnist --epochs 3 -o runs/guha",
    )
    parser.epilog = f"{parser.epilog}. Recipes: {', '.join(recipe_names())}"
    parser.add_argument(
        "recipe",
        metavar="RECIPE",
        help='a recipe (such as arora-vgg19, guha-mlp, small) or a spec such as "1x28x28: flatten '
        'fc300 relu fc10"',
    )
    add_data(parser)
    parser.add_argument(
        "-o",
        "--out",
        type=filled,
        required=True,
        metavar="RUN",
        help="folder of the run: init, checkpoint, net",
    )
    parser.add_argument(
        "--width", type=positive, default=1.0, metavar="F", help="scale every hidden width by F"
    )
    parser.add_argument("--epochs", type=whole, metavar="N", help="instead of the recipe's number")
    parser.add_argument(
        "--lr-halve-every",
        type=whole,
        metavar="N",
        help="halve the learning rate every N epochs (a shorter run's schedule)",
    )
    parser.add_argument(
        "--snapshots",
        type=wholes,
        default=(),
        metavar="N,N",
        help="keep the net after these epochs: RUN/epoch-NNNN",
    )
    parser.add_argument(
        "--seed",
        type=seed,
        default=0,
        metavar="N",
        help="initialisation, order, dropout (default 0)",
    )
    parser.add_argument("--device", default="cpu", metavar="DEV", help="cpu (default) or cuda")
    add_pruning(parser)
    parser.set_defaults(run=run)


def add_pruning(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "iterative magnitude pruning", "(lottery tickets; RUN gets a folder a level)"
    )
    group.add_argument(
        "--prune",
        choices=["imp"],
        help="train, prune the smallest weights, rewind the others, train again",
    )
    group.add_argument(
        "--prune-rounds", type=whole, metavar="N", help="how often (default: until --prune-to)"
    )
    group.add_argument(
        "--prune-to", type=float, metavar="F", help="share of weights to prune in all (0.95)"
    )
    group.add_argument(
        "--prune-fraction",
        type=float,
        metavar="F",
        help="share of what is left to prune each time (0.2)",
    )
    group.add_argument(
        "--rewind-epoch",
        type=natural,
        metavar="K",
        help="rewind to the end of epoch K (0: the start)",
    )
    group.add_argument(
        "--prune-scope",
        choices=["layer", "global"],
        help="layer (default): each layer loses that share, the last one half of it; global: the "
        "net as a whole",
    )


def recipe_names() -> list[str]:
    """The recipes, those of the two-layer nets shortened to one name."""
    from cushion.training.recipes import RECIPES

    names = [name for name in RECIPES if not name.startswith("neyshabur-mlp-")]
    return [*names, "neyshabur-mlp-8 to -8192 (powers of two)"]


def run(args: argparse.Namespace) -> int:
    from cushion.data import load_pair
    from cushion.training.imp import train_imp
    from cushion.training.training import train

    pruning = {
        name: value
        for name, option in _PRUNING.items()
        if (value := getattr(args, option)) is not None
    }
    if pruning and args.prune is None:
        option = _PRUNING[next(iter(pruning))].replace("_", "-")
        raise BadInput(f"--{option} goes with --prune imp; add that, or leave it out")
    data, test = load_pair(args.data)
    options: dict[str, Any] = {
        "test": test,
        "width": args.width,
        "epochs": args.epochs,
        "lr_halve_every": args.lr_halve_every,
        "seed": args.seed,
        "device": args.device,
    }
    if args.prune is not None:
        if args.snapshots:
            raise BadInput("--snapshots does not go with --prune imp; leave one of them out")
        found = train_imp(args.recipe, data, args.out, **options, **pruning)
        answer(args, found.to_json(), describe_levels(found))
        return 0
    result = train(args.recipe, data, args.out, snapshots=args.snapshots, **options)
    metrics = ", ".join(
        f"{key} {value:.4g}" for key, value in result.metrics.items() if isinstance(value, float)
    )
    answer(
        args,
        result.to_json(),
        f"{result.status} after {result.epochs} epochs: {result.net}\n{metrics}",
    )
    return 0


def describe_levels(found: ImpResult) -> str:
    """The levels as a table, and where their nets are."""
    last = found.levels[-1]
    rows = [
        [
            level.level,
            f"{level.sparsity:.2%}",
            level.nonzeros,
            f"{level.train_error:.2%}",
            "-" if level.test_error is None else f"{level.test_error:.2%}",
            level.epochs,
            level.folder,
        ]
        for level in found.levels
    ]
    header = ["level", "pruned", "weights left", "train error", "test error", "epochs", "net"]
    return (
        f"{found.status}: {found.recipe}, {len(found.levels)} levels, {last.nonzeros} of "
        f"{found.weights} weights left\n{table(header, rows)}\nCertify a level with: cushion "
        f"compress {last.folder} --data D --method magnitude --rule zeros --grid best -o NET "
        "--certificate FILE"
    )
