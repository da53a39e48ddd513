"""Tiny stand-ins for the items of Guha 2023: nets on digits, and a pruning whose numbers are known
beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from cushion.compressors.records import Occam
from cushion.papers.guha import nets as guha_nets
from cushion.papers.guha.nets import NetPlan
from cushion.theorems.records import Bound, Form

_LN10 = math.log(10.0)


def plan(width: int, epochs: int = 1, *, hidden: int = 8, level: float = 0.95) -> NetPlan:
    """A net of a few hidden units that stands for the paper's of `width`; at level 0.95 it has a
    margin at once.
    """
    spec = f"1x8x8: flatten 4*[fc{hidden} relu] fc10"
    return NetPlan(spec, "digits", width, epochs, level, stem=f"tiny-{hidden}")


@dataclass
class Pruning:
    """Stands for prune_net: counts its calls, dies where told, and answers with what the pages read
    of its record.
    """

    ours: float = 2.0
    shift: float = 1.0
    calls: int = 0
    dies_at: int | None = None
    given: Any = None

    def __call__(self, net: Any, data: Any, **given: Any) -> Any:
        """d = 2 has the smallest bound; d = 0.5 fewer errors and a bound that is larger by a factor
        e^0.25.
        """
        self.calls += 1
        self.given = given
        if self.calls == self.dies_at:
            raise KeyboardInterrupt
        gentle = given["options"].d == (0.5,)
        errors, test_errors, ours = (50, 11, self.ours + 0.25) if gentle else (150, 33, self.ours)
        occam = Occam(
            "this machine", errors, len(data), 800, 0.05, 0.25, test_errors, len(given["holdout"])
        )
        bounds = (
            _row("sketch count", "as plotted", ours, 500.0),
            _row("sketch count", "as printed", ours + 1, 600.0),
            _row("sketch count", "corrected", ours + 0.5, 800.0),
            _row("naive count", "as printed", 1.0, 70.0),
            _row("naive count", "corrected", 0.5, 80.0),
        )
        record = {
            "d": 0.5 if gentle else 2.0,
            "tried": [{"asked": "d=0.5", "errors": 50}, {"asked": "d=2", "errors": 150}],
            "sparsity": 0.7,
            "bits": 800,
            "errors": errors,
            "layers": [{"spectral": 10.0, "shift": self.shift} for _ in net.affine_layers],
            "occam": [occam.to_json()],
            "paper_bounds": [bound.to_json() for bound in bounds],
        }
        return SimpleNamespace(summary=SimpleNamespace(to_json=lambda: record))


def _row(name: str, form: Form, ln: float, nats: float) -> Bound:
    return Bound(
        name, "test", "measure", form, None, ln / _LN10, True, "", about="g", factors={"nats": nats}
    )


def tiny_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two widths, two nets for CIFAR-10 and two lengths of training; seconds in all."""
    pair = (plan(784, hidden=10), plan(784, 6, hidden=24))
    monkeypatch.setitem(guha_nets.TABLE_1, "quick", (plan(500), plan(784, hidden=12)))
    monkeypatch.setitem(guha_nets.TABLE_2, "quick", pair)
    monkeypatch.setitem(
        guha_nets.FIGURE_2, "quick", (plan(784, 1, hidden=12), plan(784, 2, hidden=12))
    )
