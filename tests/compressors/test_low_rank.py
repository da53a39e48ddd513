"""Lemma 1 of Arora 2018 on dense layers and on the true maps of convolutions, against plain
truncated SVDs.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from tests.cases import CASES

import cushion
from cushion.compressors.projection.low_rank import (
    LowRank,
    LowRankMap,
    ranks_for,
    to_accuracy,
    to_rank,
)
from cushion.compressors.storage.stored import Kept, StoredLayer
from cushion.errors import BadInput
from cushion.nets.operators import Conv2d, Linear, Operator

DELTAS = (0.02, 0.1, 0.3, 0.7, 1.0)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(dtype)


def decaying(rows: int, columns: int, ratio: float, seed: int = 0) -> torch.Tensor:
    """A matrix with the singular values 1, ratio, ratio², ..."""
    u = torch.linalg.qr(normal(rows, rows, seed=seed, dtype=torch.float64))[0]
    v = torch.linalg.qr(normal(columns, columns, seed=seed + 1, dtype=torch.float64))[0]
    n = min(rows, columns)
    return u[:, :n] @ torch.diag(ratio ** torch.arange(n, dtype=torch.float64)) @ v[:n]


CONVOLUTIONS = {
    "plain": Conv2d(normal(5, 3, 3, 3, seed=1), (3, 5, 6)),
    "padding": Conv2d(normal(4, 2, 3, 3, seed=2), (2, 5, 5), padding=(1, 1, 1, 1)),
    "stride": Conv2d(normal(6, 3, 3, 2, seed=3), (3, 7, 6), stride=(2, 1), padding=(1, 0, 1, 0)),
    "groups": Conv2d(normal(6, 2, 3, 3, seed=4), (4, 5, 5), padding=(1, 1, 1, 1), groups=2),
    "dilation": Conv2d(normal(4, 3, 2, 2, seed=5), (3, 6, 6), dilation=(2, 1)),
    "one place": Conv2d(normal(8, 2, 4, 4, seed=6), (2, 4, 4)),
    "smooth": Conv2d(
        decaying(12, 36, 0.5, seed=7).reshape(12, 4, 3, 3).float(), (4, 6, 6), padding=(1, 1, 1, 1)
    ),
    # two pixels: the true map [24, 20] is smaller than the kernel's matrix [12, 90]
    "map": Conv2d(
        decaying(12, 90, 0.6, seed=8).reshape(12, 10, 3, 3).float(),
        (10, 1, 2),
        padding=(1, 1, 1, 1),
    ),
    "double": Conv2d(normal(5, 3, 3, 3, seed=9, dtype=torch.float64), (3, 5, 6)),
}
DENSE = {
    "generic": Linear(normal(9, 14, seed=10)),
    "decaying": Linear(decaying(20, 30, 0.6, seed=11).float()),
    "row": Linear(normal(1, 8, seed=12)),
    "column": Linear(normal(8, 1, seed=13)),
    "double": Linear(decaying(16, 12, 0.7, seed=14)),
    "tiny": Linear(1e-30 * normal(6, 7, seed=15)),
}


def true_matrix(operator: Operator) -> np.ndarray:
    """Column by column: what the map does to the unit inputs (no `dense`)."""
    unit = torch.eye(operator.input_size, dtype=operator.weight.dtype).reshape(
        -1, *operator.input_shape
    )
    return operator.apply(unit).flatten(1).T.to(torch.float64).numpy()


def shift(layer: StoredLayer, operator: Operator, start: Operator | None = None) -> float:
    """‖Â - A‖₂/‖A‖₂ of the true maps, by dense SVDs."""
    found = true_matrix(layer.operator(operator, 0, start)) - true_matrix(operator)
    return float(np.linalg.norm(found, 2) / np.linalg.norm(true_matrix(operator), 2))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", DENSE)
def test_a_dense_layer_keeps_its_accuracy_with_no_more_rank_than_the_lemma_says(
    name: str, delta: float
) -> None:
    operator = DENSE[name]
    layer = to_accuracy(operator, delta)
    assert shift(layer, operator) <= delta
    rows, columns = operator.weight.shape
    assert layer.parameters <= rows * columns
    if isinstance(layer, LowRank):
        assert layer.parameters == layer.rank * (rows + columns)
        values = np.linalg.svd(operator.weight.double().numpy(), compute_uv=False)
        # truncation gets 7/8·0.999 of δ‖A‖₂: the rank counts the singular values above that, and
        # Lemma 1 bounds it
        part = 0.875 * 0.999 * delta
        assert layer.rank == max(1, int((values > part * values[0]).sum()))
        assert layer.rank <= (np.square(values).sum() / values[0] ** 2) / part**2
    else:
        assert isinstance(layer, Kept)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_keeps_the_accuracy_of_its_true_map(name: str, delta: float) -> None:
    operator = CONVOLUTIONS[name]
    layer = to_accuracy(operator, delta)
    assert shift(layer, operator) <= delta
    assert layer.parameters <= operator.parameters


@pytest.mark.parametrize(
    "name", ["conv-stride", "conv-groups", "conv-everything", "depthwise", "mlp"]
)
def test_traced_layers_keep_it_too(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    for node in cushion.trace(case.module(), case.input_shape).affine_layers:
        for delta in (0.05, 0.5):
            assert shift(to_accuracy(node.affine.operator, delta), node.affine.operator) <= delta


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-7, 6e-8, 1.5e-8])
def test_accuracies_near_the_rounding_of_the_dtype_hold_too(delta: float) -> None:
    """In float32 a product of factors is off by some 3e-8 whatever the grid: what is measured must
    include that.
    """
    for seed in (31, 35, 39):  # where a grid chosen in float64 breaks the promise at 6e-8
        weight = decaying(40, 30, 0.3, seed=seed).float()
        assert shift(to_accuracy(Linear(weight), delta), Linear(weight)) <= delta
        first = normal(6, 9, seed=seed)
        grown = Linear(first + 0.1 * normal(6, 9, seed=50 + seed))
        assert shift(to_accuracy(grown, delta, Linear(first)), grown, Linear(first)) <= delta


@pytest.mark.parametrize("name", ["generic", "decaying"])
def test_half_of_the_grid_is_not_needed(name: str) -> None:
    """The grid is the coarsest: with twice the step the promise would break (or all 24 doublings
    were used).
    """
    operator = DENSE[name]
    for delta in (0.1, 0.3):
        layer = to_accuracy(operator, delta)
        coarser = [
            np.rint(part.values / (2 * part.step)) * (2 * part.step) for part in layer.numbers
        ]
        weight = coarser[0] if isinstance(layer, Kept) else coarser[0] @ coarser[1]
        error = np.linalg.norm(
            weight.reshape(operator.weight.shape) - operator.weight.double().numpy(), 2
        )
        assert error * 1.0001 > 0.999 * delta * operator.spectral()


def test_the_smallest_of_kernel_map_and_weight_is_chosen() -> None:
    kinds = set()
    for name, delta in itertools.product(
        ("padding", "groups", "one place", "smooth", "map"), (0.02, 0.1, 0.3, 0.5)
    ):
        operator = CONVOLUTIONS[name]
        out, rest = len(operator.weight), operator.weight[0].numel()
        allowed = 0.875 * 0.999 * delta * np.linalg.norm(true_matrix(operator), 2)
        u, values, vt = np.linalg.svd(
            operator.weight.double().reshape(out, -1).numpy(), full_matrices=False
        )
        double = operator.to(torch.float64)
        for rank in range(
            1, len(values) + 1
        ):  # the first truncated kernel whose true map is close enough
            cut = torch.from_numpy((u[:, rank:] * values[rank:]) @ vt[rank:]).reshape(
                operator.weight.shape
            )
            if np.linalg.norm(true_matrix(double.with_weight(cut)), 2) <= allowed:
                break
        ranks = max(1, int((np.linalg.svd(true_matrix(double), compute_uv=False) > allowed).sum()))
        counts = (
            rank * (out + rest),
            ranks * (operator.input_size + operator.output_size),
            operator.parameters,
        )
        layer = to_accuracy(operator, delta)
        assert layer.parameters == min(counts)
        kinds.add(type(layer))
    assert kinds == {Kept, LowRank, LowRankMap}


def test_the_truncated_map_is_the_true_maps_svd() -> None:
    operator = CONVOLUTIONS["map"]
    layer = to_accuracy(operator, 0.3)
    assert isinstance(layer, LowRankMap)
    u, values, vt = np.linalg.svd(true_matrix(operator.to(torch.float64)), full_matrices=False)
    best = (u[:, : layer.rank] * values[: layer.rank]) @ vt[: layer.rank]
    assert values[layer.rank] <= 0.3 * 0.999 * 0.875 * values[0] < values[layer.rank - 1]
    matrix = true_matrix(operator.to(torch.float64))
    assert np.linalg.norm(layer.weight(0) - matrix, 2) <= 0.3 * values[0]
    assert np.linalg.norm(layer.weight(0) - best, 2) <= 0.3 * values[0]
    assert layer.fields == (layer.rank, operator.output_size, operator.input_size)
    assert LowRankMap.sizes(layer.shape, layer.fields) == tuple(
        part.integers.shape for part in layer.numbers
    )


@pytest.mark.parametrize("name", ["decaying", "double"])
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_a_given_rank_is_numpys_truncation_up_to_the_grid(name: str, rank: int) -> None:
    operator = DENSE[name]
    matrix = operator.weight.double().numpy()
    u, values, vt = np.linalg.svd(matrix, full_matrices=False)
    best = (u[:, :rank] * values[:rank]) @ vt[:rank]
    layer = to_rank(operator, rank, 20)
    assert isinstance(layer, LowRank)
    assert layer.rank == rank
    step = layer.left.step
    assert layer.right.exponent == layer.left.exponent
    # ‖L̃R̃ - LR‖_F ≤ ‖E_L‖‖R‖ + ‖L‖‖E_R‖ + ‖E_L‖‖E_R‖ with entries of at most step/2
    one, other = (step / 2 * math.sqrt(part.integers.size) for part in layer.numbers)
    allowed = (one + other) * math.sqrt(values[0]) + one * other
    assert np.linalg.norm(layer.weight(0) - best) <= allowed + 1e-6 * values[0]
    naive = sum(np.outer(layer.left.values[:, r], layer.right.values[r]) for r in range(rank))
    np.testing.assert_allclose(layer.weight(0), naive, rtol=1e-14, atol=1e-300)
    assert max(int(np.abs(part.integers).max()) for part in layer.numbers) < 2**19


def test_a_rank_that_saves_nothing_keeps_the_weight() -> None:
    operator = DENSE["generic"]  # 9 x 14: rank 5 would store 115 of 126 numbers, rank 6 138
    assert isinstance(to_rank(operator, 5, 8), LowRank)
    kept = to_rank(operator, 6, 8)
    assert isinstance(kept, Kept)
    assert np.abs(kept.weight(0) - operator.weight.double().numpy()).max() <= kept.values.step / 2
    assert isinstance(
        to_rank(Linear(normal(4, 4)), 2, 8), Kept
    )  # as many numbers: the weight, without their error
    assert to_rank(operator, 0, 8).numbers[0].integers.shape == (9, 1)  # a rank is at least 1


@pytest.mark.parametrize("name", ["plain", "stride", "groups"])
def test_from_a_start_only_the_change_is_stored(name: str) -> None:
    operator = CONVOLUTIONS[name]
    nudge = (
        torch.outer(
            normal(len(operator.weight), seed=1), normal(operator.weight[0].numel(), seed=2)
        )
        * 0.1
    )
    start = operator.with_weight(operator.weight - nudge.reshape(operator.weight.shape))
    for delta in (0.003, 0.1):
        layer = to_accuracy(operator, delta, start)
        assert isinstance(layer, LowRank)
        assert layer.rank == 1  # the change has rank 1, the kernel has full rank
        assert shift(layer, operator, start) <= delta
    layer = to_rank(operator, 1, 16, start)
    change = (operator.weight.double() - start.weight.double()).numpy()
    assert np.abs(layer.weight(0) - change).max() < 1e-3
    map_of = CONVOLUTIONS["map"]
    flat = map_of.with_weight(torch.zeros_like(map_of.weight))
    stored = to_accuracy(map_of, 0.3, flat)
    assert isinstance(stored, LowRankMap)
    assert np.array_equal(stored.weight(0), to_accuracy(map_of, 0.3).weight(0))


def test_a_start_is_added_to_a_truncated_map() -> None:
    operator = CONVOLUTIONS["map"]
    start = operator.with_weight(
        operator.weight - decaying(12, 90, 0.1, seed=3).reshape(12, 10, 3, 3).float()
    )
    layer = to_accuracy(operator, 0.3, start)
    assert isinstance(layer, LowRankMap)
    assert shift(layer, operator, start) <= 0.3 < shift(layer, operator)


def test_zeros_and_what_did_not_change() -> None:
    zero = Linear(torch.zeros(5, 6))
    assert not to_accuracy(zero, 0.1).weight(0).any()
    same = DENSE["generic"]
    layer = to_accuracy(same, 0.1, same)
    assert isinstance(layer, LowRank)
    assert layer.rank == 1
    assert not layer.weight(0).any()
    with pytest.raises(BadInput, match="zeros"):
        to_accuracy(zero, 0.1, Linear(torch.ones(5, 6)))


LAYERS: list[Operator] = [
    Linear(decaying(5, 8, 0.5, seed=20)),
    Linear(3 * decaying(7, 4, 0.8, seed=22)),
    Conv2d(decaying(6, 18, 0.7, seed=24).reshape(6, 2, 3, 3), (2, 4, 4)),
]


def stored_at(ranks: list[int], layers: list[Operator]) -> int:
    return sum(to_rank(op, rank, 8).parameters for op, rank in zip(layers, ranks, strict=True))


def test_ranks_are_those_of_the_least_common_threshold_within_the_budget() -> None:
    """Brute force: at threshold t a layer keeps the singular values with σ/‖A‖_F ≥ t; of all
    thresholds the lowest one that fits the budget. (No two ratios of these layers are equal, so one
    value is added at a time.)
    """
    none = [None] * len(LAYERS)
    ratios = []
    for operator in LAYERS:
        values = np.linalg.svd(
            operator.weight.reshape(len(operator.weight), -1).numpy(), compute_uv=False
        )
        ratios.append(values / np.linalg.norm(values))
    thresholds = sorted({float(ratio) for own in ratios for ratio in own})
    least = stored_at([1, 1, 1], LAYERS)
    whole = sum(operator.parameters for operator in LAYERS)
    before = [1, 1, 1]
    for budget in [0, 1, least, *range(least, whole + 20, 3)]:
        ranks = ranks_for(LAYERS, none, budget)
        fitting = [[1, 1, 1]]
        for t in thresholds:
            choice = [max(1, int((own >= t * (1 - 1e-9)).sum())) for own in ratios]
            if stored_at(choice, LAYERS) <= budget:
                fitting.append(choice)
                break
        best = fitting[-1]
        assert stored_at(ranks, LAYERS) == stored_at(best, LAYERS), budget
        assert stored_at(ranks, LAYERS) <= max(budget, least)
        assert all(a <= b for a, b in zip(before, ranks, strict=True))  # monotone in the budget
        before = ranks
    assert ranks_for(LAYERS, none, whole) == [5, 4, 6]


def test_ranks_of_a_change_look_at_the_change() -> None:
    first = Linear(normal(6, 6, seed=1))
    nudged = Linear(first.weight + torch.outer(normal(6, seed=2), normal(6, seed=3)))
    other = Linear(normal(6, 6, seed=4))
    # 12 numbers a rank, and 36 from rank 3 on: the other layer takes all it can before the second
    # value of the change
    assert ranks_for([nudged, other], [first, None], 48) == [1, 6]
    assert ranks_for([nudged, other], [None, None], 48) != [1, 6]
    assert ranks_for([nudged, other], [None, None], 10**6) == [6, 6]


def test_threads_change_no_integer() -> None:
    operator = Linear(normal(120, 150, seed=5))
    kernel = Conv2d(normal(32, 16, 3, 3, seed=6), (16, 8, 8), padding=(1, 1, 1, 1))
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            fresh = [
                Linear(operator.weight.clone()),
                kernel.with_weight(kernel.weight.clone()),
            ]  # nothing cached
            layers = [to_rank(fresh[0], 20, 8), to_rank(fresh[1], 9, 8), to_accuracy(fresh[0], 0.4)]
            found.append([part for layer in layers for part in layer.numbers])
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    for one, two in zip(*found, strict=True):
        assert one.exponent == two.exponent
        assert np.array_equal(one.integers, two.integers)


@pytest.mark.parametrize("fields", [(0,), (6,), (2**40 - 1,)])
def test_a_rank_that_fits_no_matrix_is_refused(fields: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="rank"):
        LowRank.sizes((5, 2, 3), fields)
    assert LowRank.sizes((5, 2, 3), (4,)) == ((5, 4), (4, 6))


@pytest.mark.parametrize(
    "fields", [(0, 4, 4), (5, 4, 9), (1, 2**39, 2**39), (1, 0, 5), (1, 2**12, 2**11)]
)
def test_a_map_that_fits_no_layer_is_refused(fields: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="rank"):
        LowRankMap.sizes((1, 1, 1, 1), fields)
