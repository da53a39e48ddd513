"""A method of a few lines goes the whole way: options, candidate, columns, certificate, text and
pictures; nothing else knows of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trained_cases import digits, trained

import cushion
from cushion.cli.compression import describe
from cushion.cli.figures import draw
from cushion.compressors.file import read_compressed
from cushion.compressors.method import Account, Candidate, MarginOptions, Method
from cushion.compressors.records import LayerSummary, PromiseCheck, Summary
from cushion.compressors.registry import METHODS
from cushion.compressors.storage.pruned import Grid, store_pruned
from cushion.records import column, option
from cushion.theorems.records import Bound


class ToyOptions(MarginOptions):
    toy_bits: int = option(8, "bits of a weight", least=2, most=16)


class ToyLayer(LayerSummary, kw_only=True):
    moved: float = column("the largest change of a weight")


class ToyAccount(Account):
    @property
    def layers(self) -> list[ToyLayer]:
        rows = []
        for at, node in enumerate(self.subject.net.affine_layers):
            other = self.found.network.nodes[node.index].affine.operator.weight
            weight = node.affine.operator.weight
            rows.append(
                ToyLayer(
                    **self.of_layer(at),
                    stored_as="grid",
                    moved=float((other - weight).abs().max()),
                )
            )
        return rows

    @property
    def lemmas(self) -> list[PromiseCheck]:
        return []

    @property
    def bounds(self) -> list[Bound]:
        return []


@dataclass(frozen=True)
class Toy(Method):
    options = ToyOptions
    summary = Summary
    candidates = f"{__name__}:toy_candidates"
    account = f"{__name__}:ToyAccount"


def toy_candidates(subject: Any) -> Iterator[Candidate]:
    net, grid = subject.net, Grid(subject.options.toy_bits)
    weights = [node.affine.operator.weight for node in net.affine_layers]
    masks = [torch.ones_like(weight, dtype=torch.bool) for weight in weights]
    yield Candidate(store_pruned(net, masks, grid, subject.seed, faithful=True))


TOY = Toy("toy", "every weight on a grid", ("toy_bits", "gamma", "level"))


def test_a_toy_goes_the_whole_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "toy", TOY)
    (model, _), (data, holdout) = trained("mlp"), digits()
    sizes = []
    for bits in (4, 8):
        found = cushion.compress(model, data, method="toy", holdout=holdout, toy_bits=bits)
        summary, net = found.summary, read_compressed(found.save(tmp_path / "n.net"))
        assert (net.stored.bits, net.notes["toy_bits"]) == (summary.bits, bits)
        assert found.certificate is not None
        assert [row.bits for row in summary.occam] == [summary.bits, found.certificate.bits]
        for layer, node in zip(summary.layers, net.network.affine_layers, strict=True):
            own = dict(model.named_parameters())[f"{layer.name}.weight"]
            moved = float((node.affine.operator.weight - own).detach().abs().max())
            assert layer.moved == pytest.approx(moved)
        text = describe(summary, "n.net", None, "digits")
        assert "toy: every weight on a grid" in text
        assert "moved: the largest change of a weight" in text
        assert draw(summary, str(tmp_path / "pictures")) == []
        sizes.append((summary.bits, max(layer.moved for layer in summary.layers)))
    assert sizes[0][0] < sizes[1][0]
    assert sizes[0][1] > sizes[1][1]
    with pytest.raises(cushion.BadInput, match="`toy_bits` must be a whole number of at least 2"):
        cushion.compress(model, data, method="toy", toy_bits=1)
    with pytest.raises(cushion.BadInput, match="`method` = toy does not take `k`; its options are"):
        cushion.compress(model, data, method="toy", k=3)
