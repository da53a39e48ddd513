"""cushion train RECIPE --data D -o RUN"""

from __future__ import annotations

import argparse
from typing import Any

from cushion.cli.options import add_data, add_verb, filled, positive, seed, whole
from cushion.cli.output import answer


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
        help='a recipe (such as arora-vgg19, guha-mlp, small) or a spec such as "1x28x28: flatten fc300 relu fc10"',
    )
    add_data(parser)
    parser.add_argument(
        "-o", "--out", type=filled, required=True, metavar="RUN", help="folder of the run: init, checkpoint, net"
    )
    parser.add_argument("--width", type=positive, default=1.0, metavar="F", help="scale every hidden width by F")
    parser.add_argument("--epochs", type=whole, metavar="N", help="instead of the recipe's number")
    parser.add_argument(
        "--lr-halve-every",
        type=whole,
        metavar="N",
        help="halve the learning rate every N epochs (a shorter run's schedule)",
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="initialisation, order, dropout (default 0)")
    parser.add_argument("--device", default="cpu", metavar="DEV", help="cpu (default) or cuda")
    parser.set_defaults(run=run)


def recipe_names() -> list[str]:
    """The recipes, those of the two-layer nets shortened to one name."""
    from cushion.recipes import RECIPES

    names = [name for name in RECIPES if not name.startswith("neyshabur-mlp-")]
    return [*names, "neyshabur-mlp-8 to -8192 (powers of two)"]


def run(args: argparse.Namespace) -> int:
    from cushion.data import load_pair
    from cushion.training import train

    data, test = load_pair(args.data)
    result = train(
        args.recipe,
        data,
        args.out,
        test=test,
        width=args.width,
        epochs=args.epochs,
        lr_halve_every=args.lr_halve_every,
        seed=args.seed,
        device=args.device,
    )
    metrics = ", ".join(f"{key} {value:.4g}" for key, value in result.metrics.items() if isinstance(value, float))
    answer(args, result.to_json(), f"{result.status} after {result.epochs} epochs: {result.net}\n{metrics}")
    return 0
