"""One CNN, 20 000 labels of Fashion-MNIST: what each kind of certificate says about the user's net.

    python -m benchmarks.own_net results/certificates/own-net

The training part in its published order: rows 0 to 19 999 are the labels there are, the inputs of
the next 20 000 come without labels, and on the last 20 000 the training was chosen. Three nets,
each by `cnn.py` there: one trained on 16 000 rows and counted on the other 4 000; one that picks
make of all 20 000; one trained on all 20 000 and compared with the picks of the frozen list on the
unlabelled inputs. The test rows are read once, at the end, for the error beside each.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import cushion
from cushion.certificates.certificate import Certificate
from cushion.certificates.picks.options import PicksOptions
from cushion.data import Dataset, load_pair
from cushion.data.files import write_whole
from cushion.data.inputs import Inputs

LABELS, TRAINED, EPOCHS = 20_000, 16_000, 15
GROUPS = (150,) * 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    (data, test), code = load_pair("fashion-mnist"), out / "cnn.py"
    assert test is not None
    spec = importlib.util.spec_from_file_location("cnn", code)
    assert spec is not None
    assert spec.loader is not None
    cnn = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cnn)

    def trained(n: int) -> nn.Module:
        x, y = data.x[:n].astype(np.float32) / 255, np.array(data.y[:n])
        torch.set_num_threads(1)
        made: nn.Module = cnn.fit(torch.from_numpy(x), torch.from_numpy(y), 0, EPOCHS)
        return made

    labelled = part(data, 0, LABELS)
    first, second = part(data, 0, TRAINED), part(data, TRAINED, LABELS)
    fresh = Inputs("fashion-mnist, rows 20000 to 39999", data.x[LABELS : 2 * LABELS])
    fit = f"{code}:fit"
    rows: list[dict[str, Any]] = []

    def told(kind: str, make: Any, check: Any, net: nn.Module | None = None) -> None:
        begin = time.monotonic()
        found: Certificate = make(net)
        seconds, path = time.monotonic() - begin, out / f"{kind}.cushion"
        found.save(path)
        begin = time.monotonic()
        verdict = check(path, net)
        assert verdict.ok, verdict.reason
        again = time.monotonic() - begin
        # f itself: the user's net, or that which the picks made
        f: nn.Module = found.net if net is None else net  # type: ignore[attr-defined]
        bound = verdict.to_json()["bound"]
        row = {"kind": kind, "bound": bound, "test_error": error(f, test)}
        rows.append({**row, "seconds": round(seconds), "verify_seconds": round(again)})
        print(json.dumps(rows[-1]), flush=True)

    told(
        "holdout",
        lambda f: cushion.certify(f, first, holdout=second, kind="holdout"),
        lambda path, f: cushion.verify(path, None, second, model=f),
        trained(TRAINED),
    )
    told(
        "fit",
        lambda _: cushion.certify(
            None, labelled, kind="picks", fit=fit, picks=PicksOptions(groups=GROUPS)
        ),
        lambda path, _: cushion.verify(path, labelled, fit=fit),
    )
    told(
        "transfer",
        lambda f: cushion.certify(f, labelled, kind="picks", unlabelled=fresh),
        lambda path, f: cushion.verify(path, labelled, model=f, unlabelled=fresh),
        trained(LABELS),
    )
    record = {"command": f"python -m benchmarks.own_net {out}", "labels": LABELS, "rows": rows}
    write_whole(out / "table.json", json.dumps(record, indent=1) + "\n")


def part(data: Dataset, begin: int, end: int) -> Dataset:
    name = f"fashion-mnist, rows {begin} to {end - 1}"
    return Dataset(name, data.x[begin:end], data.y[begin:end], data.classes)


def error(net: nn.Module, test: Dataset) -> float:
    """On rows that no bound is made of: a measure."""
    with torch.no_grad():
        batches = (
            torch.from_numpy(test.x[i : i + 500] / np.float32(255))
            for i in range(0, len(test), 500)
        )
        said = torch.cat([net(x).argmax(dim=1) for x in batches]).numpy()
    return float((said != test.y).mean())


if __name__ == "__main__":
    main()
