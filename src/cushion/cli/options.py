"""Options that several verbs share, each with one meaning."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from cushion.cli.output import add_json
from cushion.errors import BadInput

if TYPE_CHECKING:
    from cushion.data import Dataset
    from cushion.nets.loading.weights import LoadedNet

CONSTANT = (
    "This net always gives the most frequent class: nothing that was trained has a smaller bound. "
    "Give it longer (--minutes), or more examples."
)


def add_verb(verbs: Any, name: str, *, summary: str, example: str) -> argparse.ArgumentParser:
    """A verb's parser, with its example and --json."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=summary, description=summary, epilog=f"example: {example}", allow_abbrev=False
    )
    add_json(parser)
    return parser


def add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        required=True,
        type=filled,
        metavar="D",
        help="a set's name (see `cushion data list`), a folder or an .npz file; steps may follow, "
        "such as cifar10,subset=10000,random-labels=1,seed=0",
    )


def add_net(parser: argparse.ArgumentParser, *, flag: bool) -> None:
    """NET as a positional argument, or as --net where it is optional."""
    text = (
        "weights that cushion wrote, a RUN folder, a compressed net, file.py:factory, or a .pt2 "
        "program"
    )
    if flag:
        parser.add_argument("--net", metavar="NET", help=text)
    else:
        parser.add_argument("net", metavar="NET", help=text)
    parser.add_argument(
        "--weights", metavar="W", help="with file.py:factory: its state dict, .safetensors or .pt"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="load a .pt2 program, although loading one can run code",
    )


def add_examples(
    parser: argparse.ArgumentParser, what: str, default: str = "what some minutes allow"
) -> None:
    parser.add_argument(
        "--examples",
        type=whole_or_all,
        metavar="N|all",
        help=f"rows for {what} (default: {default})",
    )


def filled(text: str) -> str:
    """A name that is not empty."""
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def whole(text: str) -> int:
    """An option's whole number ≥ 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text}")
    return value


def seed(text: str) -> int:
    """A seed: 0 ≤ seed < 2^63."""
    value = int(text)
    if not 0 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 2^63 - 1, not {text}")
    return value


def whole_or_all(text: str) -> int:
    """A number of rows; "all" is more than any sample has."""
    try:
        return sys.maxsize if text == "all" else whole(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of at least 1, or all, not '{text}'"
        ) from None


def say_if_untrained(args: argparse.Namespace) -> None:
    """A factory without --weights gives a net that nobody trained, unless it loads weights
    itself.
    """
    if args.net is not None and ".py:" in args.net and args.weights is None:
        print(
            f"cushion: note: no --weights, so {args.net} is taken as its factory returns it",
            file=sys.stderr,
        )


def say_if_other_data(args: argparse.Namespace, net: LoadedNet, data: Dataset) -> bool:
    """Say, and return, whether the net was trained on other data than these."""
    other = net.meta.get("data_fingerprint", data.fingerprint) != data.fingerprint
    if other:
        print(
            f"cushion: note: {args.net} was trained on other examples or labels than {args.data}",
            file=sys.stderr,
        )
    return bool(other)


def load_named_net(args: argparse.Namespace, data: Dataset) -> LoadedNet:
    from cushion.compressors.file import is_compressed, load_compressed
    from cushion.nets.loading.weights import LoadedNet, load_net
    from cushion.nets.network import NetworkModule

    if is_compressed(args.net):
        if args.weights or args.trust:
            raise BadInput(
                f"--weights and --trust do not go with {args.net}, a compressed net; leave them out"
            )
        return LoadedNet(NetworkModule(load_compressed(args.net).network).eval(), None, {})
    return load_net(
        args.net,
        weights=args.weights,
        trust=args.trust,
        input_shape=data.shape,
        classes=data.classes,
    )
