"""Fits of tails (Shin 2021) at the sizes that must be reached, and the power law against the
package `powerlaw`.

Goals: the power law with its search for xmin at least 1000 times faster than the package at 10^4
weights, with the same xmin, alpha and KS distance; 2.3 million weights in 3 s, within ten times
their own memory (as float32); a stable law of a million weights in 30 s. One thread, the best of
several runs; each size in a process of its own for its peak.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cushion.measures.tails.power_law import Magnitudes, fit_power_law
from cushion.measures.tails.records import PowerLawFit
from cushion.measures.tails.stable_fit import fit_stable
from cushion.measures.tails.stable_law import sample_stable

_RIVAL = 10_000
_LARGE = 2_300_000
_STABLE = 1_000_000
_FLOAT32 = 4  # bytes
_LAWS: dict[str, Callable[[np.random.Generator, int], NDArray[Any]]] = {
    "normal": lambda rng, n: 0.05 * rng.normal(size=n),
    "student 3": lambda rng, n: 0.05 * rng.standard_t(3, size=n),
    "pareto 2.5": lambda rng, n: 1 + rng.pareto(1.5, size=n),
    "normal of 8 bits": lambda rng, n: np.round(40 * rng.normal(size=n)) / 127,
}


def run() -> dict[str, object]:
    """{part: figures}."""
    return {part: json.loads(_own_process(part)) for part in ("rival", "large", "memory", "stable")}


def rival() -> dict[str, object]:
    """10^4 weights of every law by the package and by ours: how much faster, and how far apart the
    answers are.
    """
    import powerlaw

    found: dict[str, object] = {"weights": _RIVAL, "goal_ratio": 1000}
    for name, law in _LAWS.items():
        values = np.abs(law(np.random.default_rng(0), _RIVAL))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of zeros and ties
            begin = time.perf_counter()
            theirs = powerlaw.Fit(values, verbose=0, parameter_ranges={"alpha": [None, None]})
            package = time.perf_counter() - begin
        seconds = _best(partial(_fit, values), 21)
        ours = _fit(values)
        found[name] = {
            "package_over_ours": package / seconds,
            "package_seconds": package,
            "seconds": seconds,
            "same_xmin": bool(ours.xmin == theirs.xmin),
            "alpha_apart": abs(ours.alpha - theirs.alpha),
            "distance_apart": abs(ours.ks_distance - theirs.D),
        }
    return found


def large() -> dict[str, object]:
    """2.3 million weights in float32: seconds, and how many times as long as sorting them takes."""
    found: dict[str, object] = {"weights": _LARGE, "goal_seconds": 3}
    for name, law in _LAWS.items():
        weights = law(np.random.default_rng(0), _LARGE).astype(np.float32)
        seconds = _best(partial(_fit, weights), 3)
        found[name] = {
            "seconds": seconds,
            "over_a_sort": seconds / _best(partial(np.sort, weights.astype(np.float64)), 3),
        }
    return found


def memory() -> dict[str, float]:
    """Peak of the process above what it held before the fit, over the weights' own bytes."""
    weights = np.random.default_rng(0).standard_normal(_LARGE, dtype=np.float32)
    _fit(weights[:1000])
    before = _peak()
    _fit(weights)
    return {
        "weights": _LARGE,
        "goal_ratio": 10,
        "memory_over_weights": (_peak() - before) * 1024 / (_FLOAT32 * _LARGE),
    }


def stable() -> dict[str, object]:
    """A million numbers of stable laws, symmetric and skewed fits: seconds, and the error of alpha
    over its own.
    """
    found: dict[str, object] = {"weights": _STABLE, "goal_seconds": 30}
    for alpha, beta in ((1.2, 0.0), (1.8, 0.3), (2.0, 0.0)):
        values = sample_stable(_STABLE, alpha, beta, np.random.default_rng(0))
        for symmetric in (True, False):
            begin = time.perf_counter()
            fit = fit_stable(values, symmetric=symmetric)
            seconds = time.perf_counter() - begin
            name = f"alpha {alpha:g}, beta {beta:g}, {'symmetric' if symmetric else 'skewed'} fit"
            found[name] = {
                "seconds": seconds,
                "alpha": fit.alpha,
                "alpha_error": fit.errors["alpha"],
            }
    return found


def _fit(values: NDArray[Any]) -> PowerLawFit:
    return fit_power_law(Magnitudes.of(values))


def _best(work: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in KiB


def _own_process(part: str) -> str:
    command = [sys.executable, "-m", "benchmarks.tails", part]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _main() -> None:
    if len(sys.argv) == 1:
        print(json.dumps({"command": "python -m benchmarks.tails", **run()}, indent=2))
        return
    print(json.dumps(globals()[sys.argv[1]]()))


if __name__ == "__main__":
    _main()
