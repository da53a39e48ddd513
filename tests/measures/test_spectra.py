"""Spectra against dense SVDs and closed forms, and the estimated density against the exact one."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.cases import LAYERS, Layer, every
from tests.simulations import few_and_many

from cushion.errors import BadInput
from cushion.measures.spectra import Spectrum, kernel_spectrum, layer_spectrum
from cushion.nets.operators import Conv2d, Diagonal, Linear, Operator
from cushion.nets.operators import spectrum as spectrum_module
from cushion.nets.operators.spectrum import (
    GaussRule,
    estimate_density,
    is_exact,
    singular_values,
    top_values,
)

torch.set_num_threads(1)


def _normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def _dense_values(operator: Operator) -> np.ndarray:
    return torch.linalg.svdvals(operator.to(torch.float64).dense()).numpy()


OPERATORS: list[Operator | Layer] = [
    *LAYERS,
    Conv2d(_normal(4, 3, 1, 1), (3, 5, 4), stride=(2, 3), padding=(1, 0, 2, 0)),
    Conv2d(_normal(4, 2, 1, 1), (4, 3, 3), groups=2),
    Conv2d(_normal(2, 3, 1, 1), (3, 2, 2), padding=(2, 2, 2, 2)),
    Linear(_normal(1, 7)),
    Linear(_normal(7, 1)),
    Linear(_normal(6, 2) @ _normal(2, 9)),
    Diagonal(_normal(3), (3, 2, 4)),
]


@every(OPERATORS)
def test_all_values_match_the_dense_svd(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _dense_values(operator)
    assert is_exact(operator)
    np.testing.assert_allclose(
        singular_values(operator), expected, rtol=0, atol=1e-12 * expected[0]
    )
    found = layer_spectrum(operator)
    assert found.count == min(operator.input_size, operator.output_size) == sum(found.counts)
    assert found.operator_frobenius**2 == pytest.approx((expected**2).sum(), rel=1e-12)
    assert found.operator_frobenius == operator.operator_frobenius()
    assert (
        found.spectral == found.top[0] == found.edges[-1] == pytest.approx(expected[0], rel=1e-12)
    )
    assert found.stable_rank == pytest.approx(
        (operator.operator_frobenius() / operator.spectral()) ** 2, rel=2e-6
    )
    part = (expected[: found.effective_rank_90] ** 2).sum() / (expected**2).sum()
    assert (
        part
        >= 0.9 - 1e-12
        > (expected[: found.effective_rank_90 - 1] ** 2).sum() / (expected**2).sum() - 1e-9
    )

    monkeypatch.setattr(
        spectrum_module, "SVD_SIDE", 0
    )  # through the Gram matrix, from the dense matrix ...
    from_gram = singular_values(operator)
    np.testing.assert_allclose(
        from_gram**2, expected**2, rtol=0, atol=1e-13 * len(expected) * expected[0] ** 2
    )
    monkeypatch.setattr(
        spectrum_module, "_ENTRIES", 32
    )  # ... and from products with parts of the identity
    np.testing.assert_allclose(
        singular_values(operator), from_gram, rtol=0, atol=1e-6 * expected[0]
    )


def test_closed_forms() -> None:
    assert singular_values(Diagonal(torch.tensor([-3.0, 1.0]), (2, 2))).tolist() == [3, 3, 1, 1]
    orthogonal = Linear(torch.linalg.qr(_normal(30, 30).double()).Q)
    np.testing.assert_allclose(singular_values(orthogonal), np.ones(30), rtol=1e-13)
    identity = torch.zeros(4, 4, 3, 3)
    identity[range(4), range(4), 1, 1] = 1.0
    np.testing.assert_allclose(
        singular_values(Conv2d(identity, (4, 6, 6), padding=(1,) * 4)), np.ones(144), rtol=1e-13
    )
    # A box of three taps on n pixels is I plus a path's adjacency: 1 + 2 cos(kπ / (n + 1)); two
    # axes multiply.
    line = 1 + 2 * np.cos(np.pi * np.arange(1, 9) / 9)
    expected = np.sort(np.abs(np.outer(line, line)).ravel())[::-1]
    box = Conv2d(torch.ones(1, 1, 3, 3), (1, 8, 8), padding=(1,) * 4)
    np.testing.assert_allclose(singular_values(box), expected, atol=1e-13)


def test_a_large_pointwise_convolution_is_exact() -> None:
    """100 352 values: the kernel's, once per position."""
    operator = Conv2d(_normal(32, 48, 1, 1), (48, 56, 56))
    values = singular_values(operator)
    kernel = torch.linalg.svdvals(operator.weight[:, :, 0, 0].double()).numpy()
    np.testing.assert_allclose(values, np.repeat(kernel, 56 * 56), rtol=1e-12)
    assert layer_spectrum(operator).operator_frobenius ** 2 == pytest.approx(
        (values**2).sum(), rel=1e-12
    )


def test_groups_make_a_large_map_exact() -> None:
    operator = Conv2d(_normal(64, 1, 3, 3), (64, 12, 12), padding=(1,) * 4, groups=64)
    assert is_exact(operator)
    assert not is_exact(Conv2d(_normal(64, 64, 3, 3), (64, 12, 12), padding=(1,) * 4))
    one = Conv2d(operator.weight[5:6], (1, 12, 12), padding=(1,) * 4)
    values = singular_values(operator)
    assert len(values) == operator.input_size
    assert all(np.abs(values - value).min() < 1e-12 for value in _dense_values(one))


def test_zero_and_rank_deficient_maps() -> None:
    zero = layer_spectrum(Linear(torch.zeros(5, 8)))
    assert (zero.count, zero.spectral, zero.effective_rank_90, zero.stable_rank) == (
        5,
        0.0,
        0,
        None,
    )
    assert sum(zero.counts) == zero.counts[0] == 5
    flat = layer_spectrum(Linear(_normal(40, 1) @ _normal(1, 30)))
    assert flat.effective_rank_90 == 1
    assert flat.stable_rank == pytest.approx(1.0)
    assert flat.counts[0] == 29
    assert layer_spectrum(Linear(_normal(1, 9))).counts[-1] == 1


def test_the_record_reads_as_stated() -> None:
    found = layer_spectrum(Linear(torch.diag(torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0]))))
    assert found.top == (4.0, 3.0, 2.0, 1.0, 0.0)
    assert [found.quantiles[q] for q in ("0.01", "0.25", "0.5", "0.75", "0.99")] == [
        0.0,
        1.0,
        2.0,
        3.0,
        4.0,
    ]
    assert found.effective_rank_90 == 3  # 16 + 9 of 30 are 83 %, with 4 more 97 %
    assert (found.of, found.exact, found.standard_error) == ("map", True, None)
    assert len(found.edges) == len(found.counts) + 1 == 25
    assert json.loads(found.dumps())["count"] == 5


def test_the_kernel_is_labelled_and_is_not_the_map() -> None:
    operator = Conv2d(_normal(8, 4, 3, 3).abs(), (4, 9, 9), padding=(1,) * 4)
    kernel = kernel_spectrum(operator)
    assert kernel.of == "kernel"
    np.testing.assert_allclose(
        kernel.top, torch.linalg.svdvals(operator.weight.double().reshape(8, -1)), rtol=1e-12
    )
    assert kernel.operator_frobenius == pytest.approx(operator.frobenius(), rel=1e-13)
    assert kernel.spectral < layer_spectrum(operator).spectral
    assert kernel_spectrum(Diagonal(torch.tensor([1.0, -2.0]), (2, 3, 3))).top == (2.0, 1.0)


def test_what_training_changed() -> None:
    start = Conv2d(_normal(4, 3, 3, 3), (3, 6, 6), padding=(1,) * 4)
    step = _normal(4, 3, 3, 3, seed=9) * 0.1
    end = Conv2d(start.weight + step, (3, 6, 6), padding=(1,) * 4)
    change = end.minus(start)
    np.testing.assert_allclose(
        layer_spectrum(change).top,
        _dense_values(
            Conv2d((end.weight.double() - start.weight.double()), (3, 6, 6), padding=(1,) * 4)
        )[:16],
        rtol=1e-12,
    )
    assert layer_spectrum(end.minus(end)).spectral == 0.0
    for other in (
        Conv2d(start.weight, (3, 6, 6)),
        Conv2d(start.weight[:2], (3, 6, 6), padding=(1,) * 4),
        Linear(_normal(4, 3)),
    ):
        with pytest.raises(BadInput, match="differ in more than their weights"):
            end.minus(other)


DENSITIES = {
    "random": Conv2d(_normal(12, 8, 3, 3), (8, 10, 10), padding=(1,) * 4),
    "strided": Conv2d(_normal(12, 6, 3, 3), (6, 16, 16), stride=(2, 2), padding=(1,) * 4),
    "low rank": Conv2d(
        (_normal(8, 2) @ _normal(2, 72)).reshape(8, 8, 3, 3), (8, 13, 13), padding=(1,) * 4
    ),
    "smooth": Conv2d(
        torch.ones(4, 4, 3, 3) / 36 + 0.02 * _normal(4, 4, 3, 3), (4, 18, 18), padding=(1,) * 4
    ),
    "tall": Linear(_normal(600, 350)),
}


@few_and_many("seeds", 4, 10)
@pytest.mark.parametrize("operator", DENSITIES.values(), ids=DENSITIES.keys())
def test_estimated_histograms_cover_the_exact_one(operator: Operator, seeds: int) -> None:
    """Over seeds and bins: errors are of the size of the standard error, neither more nor far
    less.
    """
    values = _dense_values(operator)
    edges = np.linspace(0.0, values[0], 25)
    exact = np.histogram(values, edges)[0]
    scores = []
    for seed in range(seeds):
        density = estimate_density(operator, seed=seed)
        counts, error = density.histogram(edges)
        assert density.count == len(values) == pytest.approx(counts.sum())
        scores.append((counts - exact) / np.maximum(error, 1e-3))
        assert error.max() < 0.03 * len(values)
        for level, value in zip((0.25, 0.5, 0.9), density.quantiles((0.25, 0.5, 0.9)), strict=True):
            assert (values <= value).mean() == pytest.approx(
                level, abs=0.03
            ) or value < 1e-3 * values[0]
        rank = int(np.searchsorted(np.cumsum(values**2), 0.9 * (values**2).sum())) + 1
        assert density.rank_of_energy(0.9) == pytest.approx(rank, rel=0.05)
    size = np.abs(np.array(scores))
    assert (size <= 2).mean() >= 0.8
    assert (size <= 4).mean() >= 0.97
    assert np.median(size) > 0.2


def test_a_rule_that_closes_is_exact() -> None:
    """Few distinct values: the Krylov space is invariant after as many steps, and weights are
    counts.
    """
    density = estimate_density(Diagonal(torch.tensor([2.0, 2.0, 1.0, 0.0]), (4, 50)), seed=0)
    counts, error = density.histogram(np.array([0.0, 0.5, 1.5, 2.0]))
    np.testing.assert_allclose(counts, [50, 50, 100], rtol=1e-4)
    assert error.max() < 1e-3
    # all 100 twos hold 400 of 450, and 27.5 ones the rest
    assert density.rank_of_energy(0.95) == 128


def test_the_share_below_a_point() -> None:
    rule = GaussRule(np.array([1.0, 2.0]), np.array([0.5, 0.5]), closed=False)
    np.testing.assert_allclose(
        rule.below(np.array([0.5, 1.0, 1.5, 2.0, 3.0])), [0.0, 0.25, 0.5, 0.75, 1.0]
    )
    atom = GaussRule(
        np.array([1e-5, 2.0]), np.array([0.5, 0.5]), closed=False
    )  # a null space is no density
    np.testing.assert_allclose(atom.below(np.array([0.1])), [0.5], atol=0.02)


def test_a_map_too_large_to_factorise_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = DENSITIES["random"]
    exact = layer_spectrum(operator)
    monkeypatch.setattr(spectrum_module, "EXACT_SIDE", 100)
    found = layer_spectrum(operator, seed=3)
    assert found == layer_spectrum(operator, seed=3) != layer_spectrum(operator, seed=4)
    assert (found.exact, found.count, found.of) == (False, exact.count, "map")
    np.testing.assert_allclose(found.top, exact.top, rtol=1e-6)
    assert found.operator_frobenius == exact.operator_frobenius
    assert found.standard_error is not None
    assert len(found.standard_error) == len(found.counts)
    assert np.abs(np.subtract(found.counts, exact.counts)).max() < 0.02 * exact.count
    assert found.effective_rank_90 == pytest.approx(exact.effective_rank_90, rel=0.03)
    assert found.stable_rank == pytest.approx(exact.stable_rank, rel=1e-5)
    assert isinstance(found, Spectrum)
    assert json.loads(found.dumps())["exact"] is False
    with pytest.raises(BadInput, match="too large for all of its singular values"):
        singular_values(operator)
    assert layer_spectrum(Conv2d(torch.zeros(8, 8, 3, 3), (8, 14, 14))).spectral == 0.0


def test_top_values_of_maps_with_little_beside_the_first() -> None:
    """Rank one, and extreme scales."""
    flat = Linear(_normal(300, 1) @ _normal(1, 200))
    values = top_values(flat, 4)
    assert values[0] == pytest.approx(flat.spectral(), rel=1e-6)
    assert values[1:].max() < 1e-3 * values[0]
    for scale in (1e-30, 1e25):
        operator = Linear(_normal(120, 150) * scale)
        np.testing.assert_allclose(top_values(operator, 8), _dense_values(operator)[:8], rtol=1e-6)
