"""cushion measure NET --data D"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cushion.cli.options import add_data, add_net, add_verb, load_named_net, say_if_untrained
from cushion.cli.output import answer, table
from cushion.measure_records import MeasureTable


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
    from cushion.data import load
    from cushion.measuring import measure

    data = load(args.data)
    net = load_named_net(args, data)
    found = measure(net.module, data, only=None if args.only is None else args.only.split(","))
    trained_on = net.meta.get("data_fingerprint", data.fingerprint)
    if trained_on != data.fingerprint:
        print(f"cushion: note: {args.net} was trained on other examples or labels than {args.data}", file=sys.stderr)
    say_if_untrained(args)
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
    cushions = any(layer.layer_cushion is not None for layer in found.layers)
    norms = any(layer.spectral is not None for layer in found.layers)
    header = ["layer", "kind", "shape"]
    header += ["cushion min", "median"] if cushions else []
    header += ["weight Frobenius", "map Frobenius", "map spectral", "stable rank"] if norms else []
    rows = []
    for layer in found.layers:
        row: list[object] = [layer.name, layer.kind, "x".join(map(str, layer.shape))]
        if cushions:
            spread = layer.layer_cushion
            row += [_number(spread and spread.value), _number(spread and spread.quantiles["0.5"])]
        if norms:
            parts = (layer.frobenius, layer.operator_frobenius, layer.spectral, layer.stable_rank)
            row += [_number(part) for part in parts]
        rows.append(row)
    lines += ["", table(header, rows), ""]
    if cushions:
        lines.append("cushion: ‖A φ(x)‖ / (‖A‖_F ‖φ(x)‖); the larger, the less noise in A matters (Arora 2018, Def. 4)")
    if norms:
        lines.append(
            "weight: of the layer's parameters; map: of the true linear map, a convolution with stride and padding"
        )
    if net.margins is not None:
        lines.append(
            f"errors on these examples {net.errors}/{net.m}; margins: smallest {_number(net.margins.value)}, "
            f"5th percentile {_number(net.margin_5th)}, median {_number(net.margins.quantiles['0.5'])}"
        )
    return "\n".join(lines)


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}"
