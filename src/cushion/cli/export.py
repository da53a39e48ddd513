"""cushion export FILE --to FORMAT -o OUT"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cushion.cli import options
from cushion.cli.output import answer
from cushion.errors import BadInput

_FORMATS = "safetensors (weights by name), torch (a program for torch.export.load), onnx"


def add_parser(verbs: Any) -> None:
    summary = "a compressed net as a plain dense one, for other programs"
    example = "cushion export small.net --to onnx -o small.onnx"
    parser = options.add_verb(verbs, "export", run, summary=summary, example=example)
    what = "a file that cushion compress wrote"
    parser.add_argument("file", metavar="FILE", help=what)
    options.add_word(parser, "--to", "FORMAT", _FORMATS, required=True)
    options.add_out(parser, "OUT", "where to write")


def run(args: argparse.Namespace) -> None:
    from cushion.compressors.dense import export, load_compressed

    net = load_compressed(args.file)
    if Path(args.out).resolve() == Path(args.file).resolve():
        raise BadInput(f"-o is the compressed net itself, {args.file}; give another name")
    out = export(net, args.to, args.out)
    size = out.stat().st_size
    shapes = {name: list(one.shape) for name, one in net.state_dict().items()}
    words = f"{out}: {size} bytes, {len(shapes)} dense tensors in float32, {args.to}"
    answer(args, {"file": str(out), "to": args.to, "bytes": size, "tensors": shapes}, words)
