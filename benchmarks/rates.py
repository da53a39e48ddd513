"""Rates: LeNet-5 of Caffe on MNIST as small files, beside what was published.

    OMP_NUM_THREADS=2 python -m benchmarks.rates SIZE OUT

trains the net in plain PyTorch on the first 55 000 training examples, compresses it to a file of at
most SIZE bytes (such as 1400B), its settings chosen on the last 5 000, and reads the test examples
once, at the end. Writes OUT/lenet5-SIZE.net, .json and .png; killed, it goes on from OUT.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cushion
from cushion.cli.figures import draw
from cushion.compressors.tuning.views import moved
from cushion.nets.batches import as_floats

LEARNT = 55_000
EPOCHS, BATCH = 12, 128


def lenet5() -> nn.Module:
    """As Caffe has it: no activation but one."""
    first = [nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2)]
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


def train(net: nn.Module, data: cushion.Dataset) -> None:
    draw_ = torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(net.parameters(), 1e-3)
    steps, step = EPOCHS * math.ceil(len(data) / BATCH), 0
    for _ in range(EPOCHS):
        order = torch.randperm(len(data), generator=draw_).numpy()
        for start in range(0, len(data), BATCH):
            rows = order[start : start + BATCH]
            optimiser.param_groups[0]["lr"] = 1e-3 * (1 - step / steps) + 1e-5
            step += 1
            x: Tensor = moved(as_floats(data.x[rows]), draw_)
            optimiser.zero_grad()
            F.cross_entropy(net(x), torch.from_numpy(data.y[rows])).backward()  # type: ignore[no-untyped-call]
            optimiser.step()


def main(size: str, folder: str) -> None:
    started, out = time.time(), Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    whole, test = cushion.load_pair("mnist")
    sample = cushion.Dataset(whole.x[:LEARNT], whole.y[:LEARNT])
    validation = cushion.Dataset(whole.x[LEARNT:], whole.y[LEARNT:])
    torch.manual_seed(0)
    net, kept = lenet5(), out / "lenet5.safetensors"
    if kept.exists():
        from safetensors.torch import load_file

        net.load_state_dict(load_file(kept))
    else:
        from safetensors.torch import save_file

        train(net, sample)
        save_file(net.state_dict(), kept)
    net.eval()
    how: dict[str, Any] = {"max_size": size, "epochs": 12, "lr": 0.06, "distil": 0.8}
    name, resume = f"lenet5-{size}", out / f"lenet5-{size}.part"
    found = cushion.compress(net, sample, validation=validation, holdout=test, resume=resume, **how)
    found.save(out / f"{name}.net")
    draw(found.summary, str(out / name))
    record = {"seconds": round(time.time() - started), **found.summary.to_json()}
    (out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    for one in found.summary.tried:
        print(one.asked, one.bytes, one.train_error, one.validation_error, one.chosen, flush=True)
    errors = found.summary.holdout_errors, found.summary.holdout_errors_before
    print(f"{found.summary.bytes} bytes, {errors[0]} of 10000 test errors ({errors[1]} before)")


if __name__ == "__main__":
    main(*sys.argv[1:])
