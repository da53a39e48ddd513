"""Are two compressed nets the same net? python round_trip.py SKETCHED PRUNED"""

from __future__ import annotations

import sys
import time

import torch

import cushion


def main(sketched: str, pruned: str) -> None:
    started = time.perf_counter()
    first = cushion.load_compressed(sketched)
    seconds = time.perf_counter() - started
    second = cushion.load_compressed(pruned)
    pairs = zip(
        first.network.affine_layers, second.network.affine_layers, first.stored.layers, strict=True
    )
    for mine, other, stored in pairs:
        a, b = mine.affine.operator.weight, other.affine.operator.weight
        same = "equal" if torch.equal(a, b) else f"{int((a != b).sum())} differ"
        sizes = f"{stored.parameters} numbers stored, {int((b != 0).sum())} non-zeros"
        sys.stdout.write(f"{mine.name}: {stored.kind}, {sizes}: {same}\n")
    bits = f"{first.stored.bits} sketched, {second.stored.bits} as mask and values"
    sys.stdout.write(f"bits: {bits}; recovered in {seconds:.1f} s\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
