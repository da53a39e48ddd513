"""The options of sharpness, which `measure` and `bounds` share."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cushion.cli.options import levels, natural, positive

if TYPE_CHECKING:
    from cushion.measures.sharpness.options import SharpnessOptions


def add_sharpness(group: Any) -> None:
    """--alphas, --sharpness-draws, --ascent-steps, --max-alpha."""
    group.add_argument(
        "--alphas",
        type=levels,
        metavar="A,...",
        help="sizes of the noise alpha(10|w| + 1) in the weights (0.001,0.003,0.01,0.03,0.1)",
    )
    group.add_argument(
        "--sharpness-draws", type=natural, metavar="N", help="of that noise, for each alpha (100)"
    )
    group.add_argument(
        "--ascent-steps", type=natural, metavar="N", help="of ascent to the largest loss (100)"
    )
    group.add_argument(
        "--max-alpha",
        type=positive,
        default=5e-4,
        metavar="A",
        help="of the box alpha(|w| + 1) of the ascent (0.0005)",
    )


def sharpness_options(args: argparse.Namespace) -> SharpnessOptions:
    from cushion.measures.sharpness.options import SharpnessOptions

    usual = SharpnessOptions.as_published() if args.paper else SharpnessOptions()
    return replace(
        usual,
        alphas=usual.alphas if args.alphas is None else args.alphas,
        draws=usual.draws if args.sharpness_draws is None else args.sharpness_draws,
        ascent_steps=usual.ascent_steps if args.ascent_steps is None else args.ascent_steps,
        max_alpha=args.max_alpha,
        seed=args.seed,
    )
