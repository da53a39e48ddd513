"""What looks at one held-out set cost: a table of prices, and a session on digits.

    python -m benchmarks.looks results/looks.json

Prices are arithmetic: n held-out rows, 5 % error, one count and then failures. The session trains
nets on digits, each longer than the one before and then with other seeds, and looks at each once,
in a store of its own; only answers of the ledger are recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

from cushion import certify, load_net, train
from cushion.certificates.format.holdout_claim import Look
from cushion.certificates.holdout import grid
from cushion.certificates.holdout.certificate import NoBetter
from cushion.certificates.holdout.ledger import read_ledger
from cushion.certificates.holdout.lines import bound_of
from cushion.certificates.holdout.looks import open_ledger
from cushion.data import load_pair, registered
from cushion.data.files import write_whole

_DELTA = Decimal("0.05")
_EVEN = 100  # answers of one weight, for comparison
_PLANS = [(1, 0), (2, 0), (3, 0), (5, 0), (8, 0), *((8, seed) for seed in range(1, 8))]


def price(n: int, number: int) -> dict[str, Any]:
    """Bounds on 5 % errors at look `number`, after one count and failures, in several ways."""
    errors, before = n // 20, number - 1
    stated = grid.at_least(errors, grid.counts(n))
    bits = 0 if not before else grid.count_bits(n, None, stated) + before - 1
    even = before * grid.word_bits(_EVEN)
    return {
        **{"n": n, "look": number, "bits": bits},
        "bound": bound_of(stated, n, _DELTA, Look(number, bits, "")),
        "bound_even": bound_of(stated, n, _DELTA, Look(number, even, "")),
        "bound_first_use": bound_of(errors, n, _DELTA, None),
    }


def session(folder: Path) -> list[dict[str, Any]]:
    """One look at each net, and the answers."""
    sample, held_out = load_pair("digits")
    assert held_out is not None
    ledger, found = folder / "digits.looks", []
    open_ledger(ledger, held_out, _DELTA, sample)
    for number, (epochs, seed) in enumerate(_PLANS, 1):
        out = folder / f"{epochs}-{seed}"
        train("small", sample, out, epochs=epochs, seed=seed, progress=False)
        net, bound = load_net(out).module, None
        try:
            with registered.reading_through(ledger):
                made = certify(net, sample, holdout=held_out, kind="holdout", looks=ledger)
            bound = made.claim.bound
        except NoBetter:
            pass
        past = read_ledger(ledger).past[-1]
        assert past.look.number == number
        errors = None if past.told is None else past.told.errors
        paid = {"bits_before": past.look.bits_before, "bits": past.bits}
        told: dict[str, Any] = {"said": past.said, "errors": errors, "bound": bound}
        found.append({"look": number, "epochs": epochs, "seed": seed, **told, **paid})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    args = parser.parse_args()
    prices = [price(n, k) for n in (1_000, 10_000) for k in (1, 2, 5, 12, 50, 300)]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CUSHION_DATA"] = str(Path(folder) / "store")
        looks = session(Path(folder))
    record = {"command": f"python -m benchmarks.looks {args.out}", "delta": str(_DELTA)}
    write_whole(
        args.out, json.dumps({**record, "prices": prices, "digits": looks}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
