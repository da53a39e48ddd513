"""Options that several verbs share, each with one meaning, and what verbs do with them."""

from __future__ import annotations

import argparse
import signal
import sys
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cushion.certificates.format.container import MAGIC
from cushion.certificates.search.options import Report
from cushion.cli.flags import translate
from cushion.errors import BadInput, Remark, remark
from cushion.numerics import percent_up
from cushion.progress import working
from cushion.records.text import harmless, one_line, say

if TYPE_CHECKING:
    from cushion.data import Dataset
    from cushion.nets.loading.weights import LoadedNet

CONSTANT = (
    "This net always gives the most frequent class: nothing that was trained has a smaller bound. "
    "Give it longer (--minutes), or more examples."
)
_JSON = "write the answer as one JSON object to FILE, or to stdout with -"
_DATA = (
    "a set's name (see `cushion data list`), a folder or an .npz file; steps may follow, such as "
    "cifar10,subset=10000,random-labels=1,seed=0"
)
NET = (
    "weights that cushion wrote, a RUN folder, a compressed net, file.py:name (a function, class "
    "or net), an .onnx file, or with --trust a .pt2 or TorchScript file"
)


def add_verb(
    verbs: Any, name: str, run: Callable[..., int | None], *, summary: str, example: str
) -> argparse.ArgumentParser:
    """A verb's parser, with its example and --json."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=summary, description=summary, epilog=f"example: {example}", allow_abbrev=False
    )
    parser.set_defaults(run=run)
    parser.add_argument("--json", metavar="FILE|-", help=_JSON)
    return parser


def add_word(parser: Any, flag: str, shown: str, meaning: str, **more: Any) -> None:
    """A flag with a word behind it, which must not be empty."""
    parser.add_argument(*flag.split(), metavar=shown, type=filled, help=meaning, **more)


def add_switch(parser: Any, flag: str, meaning: str) -> None:
    parser.add_argument(flag, action="store_true", help=meaning)


def add_data(parser: Any, *, required: bool = True, more: str = "") -> None:
    add_word(parser, "--data", "D", _DATA + more, required=required)


def add_shape(parser: Any) -> None:
    text = "without --data: of one example, such as 3x32x32; the true maps of convolutions need it"
    parser.add_argument("--shape", metavar="SHAPE", type=shape, help=text)


def add_out(parser: Any, shown: str, meaning: str) -> None:
    add_word(parser, "-o --out", shown, meaning, required=True)


def add_net(parser: Any, name: str = "net", meaning: str = NET, **more: Any) -> None:
    """NET as a positional argument, or as --net where it is optional."""
    parser.add_argument(name, metavar="NET", help=meaning, **more)
    state = "with file.py:name: its state dict or checkpoint, .safetensors, .pt or .ckpt"
    parser.add_argument("--weights", metavar="W", help=state)
    trust = "load a .pt2 or TorchScript program, although loading one can run code"
    add_switch(parser, "--trust", trust)
    constants = "MEAN,STD that stood before the net in its training, such as 0.1307,0.3081; with"
    colons = "a number a channel 0.5:0.4:0.4,0.2:0.2:0.2 (images are divided by 255 before)"
    add_word(parser, "--normalise", "MEAN,STD", f"{constants} {colons}")
    add_device(parser)


def add_device(parser: Any) -> None:
    where = "where NET runs: cpu, cuda, cuda:1, mps or auto (default: cpu)"
    add_word(parser, "--device", "DEV", where)


def add_batch(parser: Any) -> None:
    rows = "rows that pass NET at a time (default 256; halved where memory runs out)"
    parser.add_argument("--batch", type=whole, metavar="N", help=f"{rows}: no answer depends on it")


def add_stated_error(parser: Any) -> None:
    text = "NET's training error as you know it, such as 0.02: far more than that is doubted"
    parser.add_argument("--stated-error", type=share, metavar="E", help=text)


def share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, not '{text}'")
    return value


def add_examples(parser: Any, what: str, default: str = "what some minutes allow") -> None:
    text = f"rows for {what} (default: {default})"
    parser.add_argument("--examples", type=whole_or_all, metavar="N|all", help=text)


def filled(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def seed(text: str) -> int:
    """A seed: 0 ≤ seed < 2^63."""
    value = int(text)
    if not 0 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 2^63 - 1, not {text}")
    return value


def shape(text: str) -> tuple[int, ...]:
    """Sides with an x between them."""
    sides = text.split("x")
    if not all(side.isdecimal() and int(side) > 0 for side in sides):
        rule = "must be whole numbers with an x between them, such as 3x32x32"
        raise argparse.ArgumentTypeError(f"{rule}, not '{text}'")
    return tuple(map(int, sides))


def whole(text: str) -> int:
    """A whole number of at least 1."""
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not '{text}'")
    return int(text)


def whole_or_all(text: str) -> int:
    """A number of rows; "all" is more than any sample has."""
    if text != "all" and not (text.isdecimal() and int(text) > 0):
        rule = "must be a whole number of at least 1, or all"
        raise argparse.ArgumentTypeError(f"{rule}, not '{text}'")
    return sys.maxsize if text == "all" else int(text)


def note(sentence: str) -> None:
    say(f"cushion: note: {one_line(sentence)}")


@contextmanager
def notes_for_warnings(flags: Collection[str] = ()) -> Iterator[None]:
    """What Python is warned of (a Remark), the command line prints as a note with its flags, each
    once.
    """
    told: set[str] = set()
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if not issubclass(category, Remark):
                shown(harmless(str(message)), category, *rest, **more)
            elif str(message) not in told:
                told.add(str(message))
                note(translate(str(message), flags))

        warnings.simplefilter("always", Remark)
        warnings.showwarning = show
        yield


def say_if_untrained(args: argparse.Namespace, flag: str = "--weights") -> None:
    """A factory without weights gives a net that nobody trained, unless it loads them itself."""
    if args.net is not None and ".py:" in args.net and args.weights is None:
        note(f"no {flag}, so {args.net} is taken as its factory returns it")


def say_if_other_data(args: argparse.Namespace, net: LoadedNet, data: Dataset) -> bool:
    """Say, and return, whether the net was trained on other data than these."""
    other = net.meta.get("data_fingerprint", data.fingerprint) != data.fingerprint
    if other:
        note(f"{args.net} was trained on other examples or labels than {args.data}")
    return bool(other)


def stated_error(
    net: LoadedNet, data: Dataset | None, args: argparse.Namespace | None = None
) -> float | None:
    """The training error that the flags state, or that was recorded with the net if it was trained
    on these data.
    """
    if args is not None and args.stated_error is not None:
        return float(args.stated_error)
    if data is None or net.meta.get("data_fingerprint") != data.fingerprint:
        return None
    recorded: float | None = net.meta.get("metrics", {}).get("train_error")
    return recorded


def check_net_flags(args: argparse.Namespace, name: str = "--net") -> None:
    """BadInput where a flag says how to load a net that is not there."""
    if args.net is None and (args.weights or args.trust or args.normalise or args.device):
        flags = "--weights, --trust, --normalise and --device"
        raise BadInput(f"{flags} say how to load a net; give {name} as well")
    fit = getattr(args, "fit", None)  # nets of its own
    if args.net is None and fit is None and args.batch is not None:
        raise BadInput(f"--batch says how a net answers; give {name} as well, or leave it out")
    nets = [net for net in (args.net, getattr(args, "beside", None)) if net is not None]
    if args.trust:
        from cushion.nets.loading.foreign import PROGRAMS

        if any(net.lower().endswith(PROGRAMS) for net in nets):
            return
        said = f"--trust is for .pt2 and TorchScript programs, which {args.net} is not"
        raise BadInput(f"{said}; leave it out")


def is_certificate(path: str | Path) -> bool:
    if not Path(path).is_file():
        return False
    with open(path, "rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def check_certificate(path: str) -> None:
    """BadInput for what is a compressed net instead."""
    from cushion.compressors.file import is_compressed

    if is_compressed(path):
        how = "give the file that cushion compress wrote with --certificate"
        raise BadInput(f"{path} is a compressed net and not a certificate; {how}")


def load_named_net(args: argparse.Namespace, data: Dataset | None) -> LoadedNet:
    """The NET of the flags; checked on rows of the data where there are any."""
    from cushion.compressors.dense import load_compressed
    from cushion.compressors.file import is_compressed
    from cushion.nets.batches import as_batch
    from cushion.nets.devices import find_device, placed
    from cushion.nets.loading.weights import LoadedNet, load_net
    from cushion.nets.normalise import normalise_words, parse_normalise

    device = None if args.device is None else find_device(args.device)
    if is_certificate(args.net):
        how = "check it with cushion verify, or see what it states with cushion inspect"
        raise BadInput(f"{args.net} is a certificate and not a NET; {how}")
    if is_compressed(args.net):
        for flag in (name for name in ("weights", "normalise") if getattr(args, name)):
            said = f"--{flag} does not go with {args.net}, a compressed net"
            raise BadInput(f"{said}, which has all its numbers in it; leave it out")
        # rebuilt on the CPU, so that its numbers are those of the file, then moved
        return LoadedNet(placed(load_compressed(args.net), device), None, {})
    known: dict[str, Any] = {}
    if data is not None:
        known |= {"rows": as_batch(data.x[:2]), "classes": data.classes, "labels": data.labels}
    if args.normalise is not None:
        known["normalise"] = parse_normalise(args.normalise)
        note(f"the net reads {normalise_words(*known['normalise'])}, as --normalise says")
    net = load_net(args.net, weights=args.weights, trust=args.trust, **known)
    remark(*net.remarks)
    if device is None:
        return net
    init = None if net.init is None else placed(net.init, device)
    return replace(net, module=placed(net.module, device), init=init)


@contextmanager
def searching(what: str) -> Iterator[Report]:
    """A search under way, which shows what it reports; SIGTERM ends it as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with working(what, 1.0) as bar:

            def report(done: float, best: Decimal) -> None:
                bar.say(f"best bound {percent_up(str(best))}")
                bar.reach(done)

            yield report
    finally:
        signal.signal(signal.SIGTERM, before)
