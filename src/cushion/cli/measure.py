"""cushion measure NET --data D"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cushion.cli.options import add_data, add_net, add_verb, load_named_net
from cushion.cli.output import answer, table
from cushion.records import MeasureTable


def add_parser(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "measure",
        summary="measure a net on its training set: margins, norms, layer cushions (measures, not bounds)",
        example="cushion measure runs/guha --data mnist --only stability,margins",
    )
    add_net(parser, flag=False)
    add_data(parser)
    parser.add_argument("--only", metavar="FAMILIES", help="some of stability,norms,margins (default: all)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from cushion.api import measure
    from cushion.data import load

    data = load(args.data)
    net = load_named_net(args, data)
    found = measure(net.module, data, only=None if args.only is None else args.only.split(","))
    trained_on = net.meta.get("data_fingerprint", data.fingerprint)
    if trained_on != data.fingerprint:
        print(f"cushion: note: {args.net} was trained on other examples or labels than {args.data}", file=sys.stderr)
    answer(args, found.to_json(), describe(found))
    return 0


def describe(found: MeasureTable) -> str:
    """The table for people, with what each number means."""
    net = found.net
    lines = [
        f"{net.parameters} parameters in {net.depth} affine layers, on {net.m} examples of {net.data} ({found.note})"
    ]
    if not net.is_chain:
        lines.append(f"not a chain of layers: {net.not_a_chain_because}")
    header = ["layer", "kind", "shape", "cushion min", "median", "Frobenius", "spectral", "stable rank"]
    rows = [
        [
            layer.name,
            layer.kind,
            "x".join(map(str, layer.shape)),
            _number(None if layer.layer_cushion is None else layer.layer_cushion.value),
            _number(None if layer.layer_cushion is None else layer.layer_cushion.quantiles["0.5"]),
            _number(layer.frobenius),
            _number(layer.spectral),
            _number(layer.stable_rank),
        ]
        for layer in found.layers
    ]
    lines += ["", table(header, rows), ""]
    lines.append("cushion: ‖A φ(x)‖ / (‖A‖_F ‖φ(x)‖); the larger, the less noise in A matters (Arora 2018, Def. 4)")
    lines.append("spectral: largest singular value of the true map, with stride and padding")
    if net.margins is not None:
        lines.append(
            f"training error {net.errors}/{net.m}; margins: smallest {_number(net.margins.value)}, "
            f"5th percentile {_number(net.margin_5th)}, median {_number(net.margins.quantiles['0.5'])}"
        )
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
