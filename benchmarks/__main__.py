"""`make bench`: every benchmark, printed and written to results/benchmarks.json."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from benchmarks import (
    compressing,
    expected_sharpness,
    jacobians,
    loading,
    measure_set,
    one_pass,
    operator_norms,
    path_norms,
    pruning,
    replay,
    sign_projection,
    stability_memory,
    tails,
    training_speed,
)
from cushion.data.files import write_whole


def main() -> None:
    results: dict[str, object] = {"command": "make bench", "threads": torch.get_num_threads()}
    for name, module in (
        ("training_speed", training_speed),
        ("one_pass", one_pass),
        ("jacobians", jacobians),
        ("operator_norms", operator_norms),
        ("sign_projection", sign_projection),
        ("path_norms", path_norms),
        ("expected_sharpness", expected_sharpness),
        ("measure_set", measure_set),
        ("replay", replay),
        ("loading", loading),
        ("stability_memory", stability_memory),
        ("compressing", compressing),
        ("pruning", pruning),
        ("tails", tails),
    ):
        results[name] = module.run()
        print(f"{name}: {json.dumps(results[name])}", flush=True)
    folder = Path(__file__).parent.parent / "results"
    write_whole(folder / "benchmarks.json", json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
