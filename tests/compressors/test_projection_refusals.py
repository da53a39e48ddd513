"""What the compressors of Arora 2018 refuse, in one sentence, and what they take although little is
promised of it.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.cases import CASES
from tests.trained_cases import digits, trained
from torch import nn

from cushion.compressors.projection.method import NetOptions
from cushion.compressors.run import compress_model
from cushion.data.dataset import Dataset
from cushion.errors import CushionError

NAMED = {case.name: case for case in CASES}
CHEAP = {"examples": 12}


def _nan() -> nn.Module:
    net = copy.deepcopy(trained("mlp")[0])
    with torch.no_grad():
        net[1].weight[0, 0] = math.nan
    return net


def _noise(name: str) -> tuple[nn.Module, Dataset]:
    case = NAMED[name]
    module = case.module()
    with torch.no_grad():
        classes = module(case.inputs(2)).shape[1]
    rng = np.random.default_rng(0)
    return module, Dataset(name, case.inputs(8).numpy(), rng.integers(0, classes, 8), classes)


BAD: dict[str, tuple[Any, Any, str, dict[str, Any], str]] = {
    "nan": (_nan, digits, "matrix-project", {"k": 5}, "NaN"),
    "untrained": (
        lambda: trained("mlp")[1],
        digits,
        "low-rank",
        {},
        "margin γ is not positive .*`gamma`",
    ),
    "untrained vector": (
        lambda: trained("linear")[1],
        digits,
        "vector-compress",
        {},
        "margin γ is not positive",
    ),
    "sparse k": (
        lambda: trained("linear")[0],
        digits,
        "vector-compress",
        {"k": 5},
        "leave out `k`",
    ),
    "untrained lemma": (
        lambda: trained("mlp")[1],
        digits,
        "matrix-project",
        {},
        "margin is not positive.*`k`",
    ),
    "lemma too large": (
        lambda: trained("mlp")[0],
        digits,
        "matrix-project",
        {},
        "asks for .* numbers .*`k` = 5%",
    ),
    "too fine": (
        lambda: trained("mlp")[0],
        digits,
        "low-rank",
        {"gamma": 1e-9},
        "finer than the weights .*`epsilon`",
    ),
    "no chain": (
        lambda: _noise("residual")[0],
        lambda: _noise("residual")[1:],
        "low-rank",
        {"gamma": 1.0},
        "chain",
    ),
    "no cushions": (
        lambda: _noise("residual")[0],
        lambda: _noise("residual")[1:],
        "matrix-project",
        {"epsilon": 0.5},
        "cushions are not defined",
    ),
    "deep vector": (lambda: trained("mlp")[0], digits, "vector-compress", {}, "linear classifiers"),
    "no start": (
        lambda: trained("mlp")[0],
        digits,
        "low-rank",
        {"k": 2, "from_initialisation": True},
        "RUN folder",
    ),
    "other shape": (
        lambda: trained("mlp")[0],
        lambda: (Dataset("o", np.zeros((4, 1, 5, 5), np.uint8), np.zeros(4, np.int64), 10),),
        "low-rank",
        {"k": 2},
        ".",
    ),
    "more classes": (
        lambda: trained("mlp")[0],
        lambda: (Dataset("o", np.zeros((4, 1, 8, 8), np.uint8), np.array([0, 1, 2, 11]), 12),),
        "low-rank",
        {"k": 2},
        "12|11|classes",
    ),
    "too many": (
        lambda: trained("mlp")[0],
        digits,
        "matrix-project",
        {"k": 10**11},
        "`k` = 100000000000",
    ),
    "helper": (
        lambda: trained("mlp")[0],
        digits,
        "matrix-project",
        {"k": 9, "helper": "gaussian"},
        "signs, srht",
    ),
    "sweep": (
        lambda: trained("mlp")[0],
        digits,
        "matrix-project",
        {"k": 9, "sweep": ("x",)},
        "`sweep` x",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_compressed_gets_one_sentence(name: str) -> None:
    model, data, method, options, complaint = BAD[name]
    with pytest.raises(CushionError, match=complaint) as caught:
        compress_model(
            model(), data()[0], method=method, options=NetOptions(**{**CHEAP, **options})
        )
    assert "\n" not in str(caught.value)


def test_nets_that_are_no_chains_or_have_one_layer_are_compressed_where_k_is_given() -> None:
    model, data = _noise("residual")
    for method, options in (
        ("low-rank", {"k": 1}),
        ("matrix-project", {"k": 500}),
        ("conv-project", {"k": 1, "p": 2}),
    ):
        found = compress_model(model, data, method=method, options=NetOptions(**options)).summary  # type: ignore[arg-type]
        assert len(found.layers) == 6
        if method == "low-rank":  # Lemma 9 is about chains
            assert [one.held for one in found.promises] == [None, None]
    (linear, _), (data, _) = trained("linear"), digits()
    one = compress_model(
        linear, data, method="matrix-project", options=NetOptions(k=2000, epsilon=0.9)
    ).summary
    assert [check.name for check in one.promises] == ["Lemma 2", "Lemma 3"]
    assert one.promises[0].held is True
    assert len(one.induction) == 1


def test_a_layer_that_never_moved_costs_nothing() -> None:
    model, (data, _) = trained("mlp")[0], digits()
    start = copy.deepcopy(model)
    with torch.no_grad():
        start[-1].weight.mul_(0.9)
    options = NetOptions(from_initialisation=True, k=10)
    same = compress_model(model, data, method="low-rank", options=options, init=start)
    assert [layer.weight_error for layer in same.summary.layers[:-1]] == [0.0] * (
        len(same.summary.layers) - 1
    )
    assert same.summary.layers[0].measured == 0
    with pytest.raises(
        CushionError, match="the initialisation is the net itself"
    ):  # the trained net as helper string
        compress_model(model, data, method="low-rank", options=options, init=model)
    other = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with pytest.raises(CushionError, match="initialisation"):
        compress_model(
            model,
            data,
            method="low-rank",
            options=NetOptions(from_initialisation=True, k=2),
            init=other,
        )
