"""Samples that tails are fitted to, and the textbook's power-law fit: every candidate on every
point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from cushion.measures.tails.power_law import Magnitudes

Law = Callable[[np.random.Generator, int], np.ndarray]


def _with_body(rng: np.random.Generator, n: int) -> np.ndarray:
    """A Pareto tail from 1 on, of a third of the numbers, above a uniform body."""
    return np.where(rng.random(n) < 1 / 3, 1 + rng.pareto(1.5, n), rng.random(n))


LAWS: dict[str, Law] = {
    "pareto 1.3": lambda rng, n: 0.01 * (1 + rng.pareto(0.3, n)),
    "pareto 2.5": lambda rng, n: 1 + rng.pareto(1.5, n),
    "pareto 6": lambda rng, n: 0.02 * (1 + rng.pareto(5, n)),
    "student 3": lambda rng, n: rng.standard_t(3, n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "log-normal": lambda rng, n: rng.lognormal(-2, 1, n),
    "exponential": lambda rng, n: rng.exponential(0.1, n),
    "normal": lambda rng, n: 0.05 * rng.normal(size=n),
    "normal float32": lambda rng, n: (0.05 * rng.normal(size=n)).astype(np.float32),
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "weibull": lambda rng, n: rng.weibull(0.5, n),
    "body and tail": _with_body,
    "two normals": lambda rng, n: np.where(rng.random(n) < 0.1, 10.0, 1.0) * rng.normal(size=n),
    "normal of 8 bits": lambda rng, n: np.round(40 * rng.normal(size=n)) / 127,
    "pareto on a grid": lambda rng, n: np.round(1 + rng.pareto(1.5, n), 1),
    "normal and zeros": lambda rng, n: np.maximum(0.0, rng.normal(size=n)),
}


def drawn(name: str, n: int, seed: int) -> np.ndarray:
    return LAWS[name](np.random.default_rng(seed), n)


def magnitudes(values: Iterable[float]) -> Magnitudes:
    """The positive ones of any numbers, however few there are."""
    array = np.sort(np.abs(np.asarray(list(values), dtype=np.float64)))
    return Magnitudes(array[array > 0], int(np.count_nonzero(array == 0)))


def textbook_distances(values: Iterable[float]) -> dict[float, tuple[float, float]]:
    """{xmin: (alpha, distance)}, the two largest distinct values left out; of two distinct values,
    the larger.
    """
    x = sorted(abs(float(value)) for value in values if value != 0)
    distinct = sorted(set(x))
    found = {}
    for xmin in distinct[:-2] or distinct[:1]:
        tail = [value for value in x if value >= xmin]
        alpha = 1 + len(tail) / math.fsum(math.log(value / xmin) for value in tail)
        distance = 0.0
        for point in distinct[distinct.index(xmin) :]:
            empirical = sum(value < point for value in tail) / len(tail)
            distance = max(distance, abs(1 - (point / xmin) ** (1 - alpha) - empirical))
        found[xmin] = (alpha, distance)
    return found
