"""Populations whose every error rate is known, and nets that answer as they are told."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.certificates.holdout.counting import Scored, scored
from cushion.data import Dataset


@dataclass(frozen=True)
class Population:
    """A few kinds of rows with equal chances: the label and f's scores of each."""

    scores: NDArray[np.float64]
    y: NDArray[np.int64]

    def draw(self, n: int, rng: np.random.Generator) -> Scored:
        rows = rng.integers(0, len(self.y), n)
        return scored(self.scores[rows], self.y[rows], "0.0001")

    def all(self) -> Scored:
        return scored(self.scores, self.y, "0.0001")

    def error(self, k: int = 1) -> float:
        return float(self.all().missed(k).mean())

    def class_error(self, number: int) -> float:
        return float(self.all().missed()[self.y == number].mean())

    def risk(self, threshold: float) -> float:
        answered = self.all().gaps > threshold
        return float(self.all().missed()[answered].mean()) if answered.any() else 0.0

    def refused(self, threshold: float) -> float:
        return float((self.all().gaps <= threshold).mean())


def population(kinds: int, classes: int, signal: float, seed: int) -> Population:
    """Noisy scores, with a signal on the right class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, kinds)
    scores = rng.normal(size=(kinds, classes)) + signal * np.eye(classes)[y]
    return Population(scores, y)


def tail(errors: int, m: int, p: Fraction) -> Fraction:
    """P[Bin(m, p) ≤ errors], exactly."""
    return sum(
        (comb(m, i) * p**i * (1 - p) ** (m - i) for i in range(errors + 1)), start=Fraction(0)
    )


class Told(nn.Module):
    """A net that answers each row with the class that its first number is, but for some rows.

    wrong: rows whose second number is below this are answered with the next class.
    """

    def __init__(self, wrong: int, classes: int = 3) -> None:
        super().__init__()
        self.classes = classes
        self.wrong = nn.Parameter(torch.tensor(float(wrong)), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        label, number = x[:, 0], x[:, 1]
        said = torch.where(number < self.wrong, (label + 1) % self.classes, label)
        return nn.functional.one_hot(said.long(), self.classes).float()


def rows(n: int, classes: int = 3, name: str = "rows", first: int = 0) -> Dataset:
    """n different rows (label, number, salt): `Told(wrong)` errs on the first `wrong` of them."""
    y = np.arange(n, dtype=np.int64) % classes
    x = np.stack([y, np.arange(n), np.full(n, first)], axis=1).astype(np.float32)
    return Dataset(name, x, y, classes)


def plain(value: Any) -> Fraction:
    return Fraction(str(value))


def chained(objects: list[dict[str, Any]]) -> bytes:
    """The lines with a running hash that fits them, as someone who alters a ledger would."""
    chain, content = "", b""
    for obj in objects:
        plain = {key: value for key, value in obj.items() if key != "chain"}
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        chain = hashlib.sha256(f"{chain}\n{text}".encode()).hexdigest()
        whole = {**plain, "chain": chain}
        text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        content += text.encode() + b"\n"
    return content
