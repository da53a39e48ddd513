"""From a layer's weight to its tails: which numbers are fitted, and what layers without a law
answer.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import cushion
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.measures.tails.comparison import compare_laws
from cushion.measures.tails.doubts import find_doubts
from cushion.measures.tails.family import TailOptions
from cushion.measures.tails.measurement import layer_tails
from cushion.measures.tails.power_law import (
    Magnitudes,
    bootstrap_goodness,
    fit_power_law,
    hill_plot,
)
from cushion.measures.tails.records import LayerTails, StableFit, TailFits
from cushion.measures.tails.stable_fit import fit_stable
from cushion.nets.tracing import trace

NONE = TailOptions()


def weight(*shape: int, degrees: float = 3.0, seed: int = 0) -> Tensor:
    """Student's t, in float32 as nets have it."""
    return torch.from_numpy(np.random.default_rng(seed).standard_t(degrees, shape)).float()


def eigenvalues(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of WWᵀ or WᵀW, the smaller one, from their definition."""
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    return np.linalg.eigvalsh(gram)


def sample(side: int, classes: int = 3, m: int = 12) -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset(
        "noise", rng.random((m, side), dtype=np.float32), rng.integers(0, classes, m), classes
    )


def wide(side: int = 64, hidden: int = 80) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(side, hidden), nn.ReLU(), nn.Linear(hidden, 3))


def test_all_weights_are_fitted_in_their_exact_values_and_biases_are_not() -> None:
    numbers = weight(60, 40)
    found = layer_tails(numbers, NONE).weights
    exact = numbers.double().numpy()
    magnitudes = Magnitudes.of(exact)
    law = fit_power_law(magnitudes)
    assert (found.what, found.count, found.no_fit, found.no_stable) == ("weights", 2400, "", "")
    assert found.power_law == law
    assert found.comparisons == compare_laws(magnitudes, law)
    assert found.hill == hill_plot(magnitudes)
    assert found.goodness is None
    assert found.stable == fit_stable(exact.reshape(-1), symmetric=True)
    assert found.stable_skewed == fit_stable(exact.reshape(-1), symmetric=False)
    assert found.stable is not None
    assert found.stable.symmetric
    assert found.doubts == find_doubts(replace(found, doubts=()))


@pytest.mark.parametrize(
    ("shape", "slices"),
    [
        ((60, 90), 1),
        ((90, 60), 1),
        ((64, 8, 3, 3), 1),
        ((8, 5, 4, 4), 16),
        ((6, 20, 3, 3), 9),
        ((4, 3, 2, 2), 4),
        ((6, 9), 1),
        ((70,), 1),
    ],
)
def test_eigenvalues_are_those_of_the_weight_as_a_matrix(
    shape: tuple[int, ...], slices: int
) -> None:
    """A kernel is [out, rest], one with too few rows its slices, pooled; a diagonal map's factors
    stand for the diagonal matrix.
    """
    numbers = weight(*shape)
    found = layer_tails(numbers, NONE).eigenvalues
    matrix = np.diag(numbers) if len(shape) == 1 else numbers.flatten(1).double().numpy()
    naive = eigenvalues(np.asarray(matrix, dtype=np.float64))
    if slices > 1:
        places = [(i, j) for i in range(shape[2]) for j in range(shape[3])]
        cut = [eigenvalues(numbers[:, :, i, j].double().numpy()) for i, j in places]
        naive = np.sort(np.concatenate(cut))
    assert (found.what, found.count) == ("eigenvalues", len(naive))
    assert found.slices == slices
    assert found.stable is found.stable_skewed is None
    assert found.no_stable.startswith("eigenvalues are positive")
    if len(naive) < 50:
        assert found.power_law is None
        assert found.no_fit == f"only {len(naive)} non-zero eigenvalues, and 50 are needed"
        return
    law = fit_power_law(Magnitudes.of(naive))
    assert found.power_law is not None
    assert found.power_law.tail == law.tail
    for name in ("alpha", "xmin", "ks_distance", "largest"):
        assert getattr(found.power_law, name) == pytest.approx(getattr(law, name), rel=1e-8)
    assert found.hill is not None
    assert found.survival is not None
    assert found.survival.x[0] == pytest.approx(naive[-1])


def test_what_rounding_leaves_of_a_zero_eigenvalue_is_a_zero() -> None:
    """A matrix of rank 55 has 55 eigenvalues, not 80 of which 25 are noise."""
    rng = np.random.default_rng(0)
    product = torch.from_numpy(rng.standard_t(3, (80, 55)) @ rng.standard_t(3, (55, 100)))
    law = layer_tails(product, NONE).eigenvalues.power_law
    assert law is not None
    assert (law.values, law.zeros) == (55, 25)


def test_the_survival_function_counts_ties_in_full() -> None:
    numbers = torch.from_numpy(np.random.default_rng(0).integers(-9, 10, 1000) / 8.0)
    found = layer_tails(numbers.reshape(100, 10), NONE).weights.survival
    assert found is not None
    magnitudes = np.abs(numbers.numpy())
    magnitudes = magnitudes[magnitudes > 0]
    assert list(found.x) == sorted(set(found.x), reverse=True)
    assert found.x[0] == magnitudes.max()
    assert found.x[-1] == magnitudes.min()
    for x, share in zip(found.x, found.share, strict=True):
        assert share == (magnitudes >= x).mean()


def test_the_survival_function_is_thinned_evenly_in_the_rank() -> None:
    found = layer_tails(weight(100, 200), NONE).weights.survival
    assert found is not None
    assert 40 < len(found.x) <= 64
    assert found.share[0] == 1 / 20000
    assert found.share[-1] == 1.0
    # from rank 1 to rank 2, and less from there on
    assert max(np.diff(np.log10(found.share))) < 0.31


@pytest.mark.parametrize(
    ("numbers", "no_fit", "no_stable", "no_eigenvalues"),
    [
        (
            torch.full((10, 20), 0.5),
            "all 200 non-zero weights have the magnitude 0.5: a constant has no tail",
            "all 200 weights are 0.5: a constant has no law",
            "only 1 non-zero eigenvalues beside 9 that are zero up to",
        ),
        (
            torch.zeros(60, 60),
            "all 3600 weights are zero",
            "all 3600 weights are 0: a constant has no law",
            "all 60 eigenvalues are zero",
        ),
        (
            weight(7, 7),
            "only 49 non-zero weights, and 50 are needed",
            "only 49 weights, and 50 are needed",
            "only 7 non-zero eigenvalues, and 50 are needed",
        ),
        (
            weight(10, 20).index_fill(0, torch.tensor([3]), torch.inf),
            "20 of 200 weights are infinite or not a number",
            "20 of 200 weights are infinite or not a number",
            "20 of 200 weights are infinite or not a number",
        ),
        (
            weight(60, 60).index_fill(1, torch.tensor([0]), torch.nan),
            "60 of 3600 weights are infinite or not a number",
            "60 of 3600 weights are infinite or not a number",
            "60 of 3600 weights are infinite or not a number",
        ),
        (
            weight(10, 40) * (torch.arange(400).reshape(10, 40) % 10 == 0),
            "only 40 non-zero weights beside 360 zeros",
            "360 of 400 weights are exactly 0: a stable law has a density",
            "only 4 non-zero eigenvalues",
        ),
        (weight(1, 1), "only 1 non-zero weights", "only 1 weights", "only 1 non-zero eigenvalues"),
        (
            torch.tensor([-0.5, 0.5]).repeat(10, 10),
            "all 200 non-zero weights have the magnitude 0.5",
            "100 of 200 weights are exactly -0.5: a stable law has a density",
            "only 1 non-zero eigenvalues",
        ),
    ],
    ids=["constant", "zeros", "49 weights", "infinite", "nan", "pruned", "one weight", "signs"],
)
def test_a_layer_without_a_law_says_why(
    numbers: Tensor, no_fit: str, no_stable: str, no_eigenvalues: str
) -> None:
    found = layer_tails(numbers, TailOptions(bootstrap=3))
    for fits, reason in ((found.weights, no_fit), (found.eigenvalues, no_eigenvalues)):
        assert fits.no_fit.startswith(reason)
        assert fits.power_law is fits.goodness is fits.hill is fits.survival is None
        assert fits.comparisons == ()
    assert found.weights.count == numbers.numel()
    assert found.weights.no_stable.startswith(no_stable)
    assert found.weights.stable is found.weights.stable_skewed is None
    assert found.weights.doubts == found.eigenvalues.doubts == ()
    assert '"no_fit"' in found.dumps()


def test_pruned_layers_are_fitted_without_their_zeros() -> None:
    numbers = weight(50, 40) * (torch.arange(2000).reshape(50, 40) % 10 == 0)
    found = layer_tails(numbers, NONE).weights
    assert found.power_law is not None
    assert (found.power_law.values, found.power_law.zeros) == (200, 1800)
    assert found.no_stable.startswith(
        "1800 of 2000 weights are exactly 0: a stable law has a density"
    )
    assert found.survival is not None
    assert found.survival.share[-1] == 1.0


def test_four_magnitudes_are_fitted_and_doubted() -> None:
    """More than half of the weights have the largest: no Hill plot, no stable law."""
    numbers = torch.tensor([0.5, 1.0, 1.5, -2.0, 2.0, 2.0, 2.0, 2.0]).repeat(50, 5)
    found = layer_tails(numbers, TailOptions(bootstrap=3)).weights
    assert found.power_law is not None
    assert found.power_law.distinct == 4
    assert found.hill is not None
    assert found.hill.k == ()
    assert found.survival is not None
    assert (found.survival.x, found.survival.share) == (
        (2.0, 1.5, 1.0, 0.5),
        (0.625, 0.75, 0.875, 1.0),
    )
    assert found.no_stable.startswith("1000 of 2000 weights are exactly 2")


def test_ties_at_xmin_do_not_pass_for_a_perfect_fit() -> None:
    """Just below each value the power law is near; on the other side of xmin it misses nine tenths
    of the tail.
    """
    numbers = torch.full((10, 20), 1.0)
    numbers[0, :4] = torch.tensor([1e3, 1e4, 1e5, 1e6])
    found = layer_tails(numbers, NONE).weights
    assert found.power_law is not None
    assert found.power_law.ks_distance < 0.1 < 0.9 < found.power_law.ks_both_sides
    assert any("misses its own tail: KS distance 0.9" in doubt for doubt in found.doubts)


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        (weight(10, 20).double() * 1e306, ""),
        (
            torch.linspace(1, 1 + 1e-13, 200, dtype=torch.float64).reshape(10, 20),
            "within a relative 1e-09",
        ),
        (
            torch.logspace(-300, 300, 200, dtype=torch.float64).reshape(10, 20),
            "more than 1e+150 times xmin",
        ),
        (5e-324 * torch.arange(1, 201, dtype=torch.float64).reshape(10, 20), ""),
    ],
    ids=["huge", "narrow", "wide", "smallest"],
)
def test_every_layer_has_an_answer_at_the_ends_of_float64(numbers: Tensor, reason: str) -> None:
    found = layer_tails(numbers, TailOptions(bootstrap=2)).weights
    assert found.power_law is not None
    assert math.isfinite(found.power_law.alpha)
    assert reason in found.no_comparisons
    assert len(found.comparisons) == (0 if reason else 3)
    assert all(math.isfinite(test.ratio) and 0 <= test.p <= 1 for test in found.comparisons)


def test_eigenvalues_that_leave_float64_say_so() -> None:
    found = layer_tails(weight(60, 70).double() * 1e-180, NONE)
    assert found.weights.power_law is not None
    assert (
        found.eigenvalues.no_fit
        == "its eigenvalues leave the range of float64; scale the net's weights"
    )


def test_half_precision_is_fitted_as_its_numbers_are() -> None:
    numbers = weight(60, 70)
    for dtype in (torch.float16, torch.bfloat16):
        found = layer_tails(numbers.to(dtype), NONE)
        assert found == layer_tails(numbers.to(dtype).double(), NONE)


@pytest.mark.parametrize("levels", [1.0, 8.0])
def test_quantised_layers_are_fitted_and_called_so(levels: float) -> None:
    numbers = torch.round(weight(50, 40) * levels) / levels
    found = layer_tails(numbers, NONE).weights
    assert found.power_law is not None
    assert any("different magnitudes among" in doubt for doubt in found.doubts)


def test_a_stable_law_that_is_refused_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Student's t with 0.3 degrees: the likelihood still rises where alpha is smallest. A skewed
    fit may fail alone.
    """
    found = layer_tails(weight(50, 40, degrees=0.3), NONE).weights
    assert found.power_law is not None
    assert found.stable is found.stable_skewed is None
    assert found.no_stable.startswith(
        "the likelihood of a stable law still rises where alpha falls to"
    )

    def only_symmetric(values: NDArray[np.float64], *, symmetric: bool) -> StableFit:
        if not symmetric:
            raise BadInput("these 2000 numbers are odd")
        return fit_stable(values, symmetric=True)

    monkeypatch.setattr("cushion.measures.tails.measurement.fit_stable", only_symmetric)
    found = layer_tails(weight(50, 40), NONE).weights
    assert found.stable == fit_stable(weight(50, 40).double().numpy(), symmetric=True)
    assert found.stable_skewed is None
    assert found.no_stable == "only a symmetric one: these 2000 weights are odd"


def test_eigenvalues_that_overflow_are_no_fit() -> None:
    found = layer_tails(weight(60, 60).double() * 1e200, NONE)
    assert found.weights.power_law is not None
    assert "eigenvalues are infinite" in found.eigenvalues.no_fit


def test_very_large_layers_have_no_eigenvalues_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cushion.measures.tails.measurement.is_exact", lambda matrix: False)
    found = layer_tails(weight(60, 60), NONE)
    assert found.weights.power_law is not None
    assert (
        found.eigenvalues.no_fit
        == "W has more than 4096 rows and columns: its eigenvalues take too long"
    )


def test_the_bootstrap_is_asked_for_and_repeats_with_its_seed() -> None:
    numbers = weight(60, 55)
    found = layer_tails(numbers, TailOptions(bootstrap=12, seed=5))
    magnitudes = Magnitudes.of(numbers.double().numpy())
    law = fit_power_law(magnitudes)
    assert found.weights.goodness == bootstrap_goodness(magnitudes, law, draws=12, seed=5)
    assert found.eigenvalues.goodness is not None
    assert found.eigenvalues.goodness.draws == 12
    assert layer_tails(numbers, TailOptions(bootstrap=12, seed=5)) == found


def test_neither_scale_nor_precision_nor_order_matters() -> None:
    """Exponents have no unit; float16 is fitted in its exact values; a permuted layer has the same
    weights.
    """
    numbers = weight(60, 70).half()
    law, moved, turned = (
        layer_tails(made, NONE).weights.power_law
        for made in (numbers, numbers.double() * 4, numbers.flip(0, 1))
    )
    assert law is not None
    assert moved is not None
    assert moved.alpha == pytest.approx(law.alpha, rel=1e-12)
    assert moved.xmin == 4 * law.xmin
    assert turned == law


def test_measure_has_tails_for_every_layer_by_default() -> None:
    net, data = wide(), sample(64)
    table = cushion.measure(net, data, only="tails")
    usual = cushion.measure(net, data)
    assert [layer.tails for layer in usual.layers] == [layer.tails for layer in table.layers]
    for layer, module in zip(table.layers, (net[0], net[2]), strict=True):
        expected = layer_tails(module.weight, NONE)
        assert layer.tails == expected
        assert layer.tail_alpha == (
            None if expected.weights.power_law is None else expected.weights.power_law.alpha
        )
    assert table.net.margins is None
    assert (
        table.to_json()["layers"][0]["tails"]["weights"]["power_law"]["alpha"]
        == table.layers[0].tail_alpha
    )
    frame = table.to_frame()
    assert frame.loc["0", "tail_alpha"] == table.layers[0].tail_alpha
    assert "tails" not in frame


def test_batch_norms_that_stand_alone_have_tails_too() -> None:
    net = nn.Sequential(nn.BatchNorm1d(60), nn.Linear(60, 3)).eval()
    with torch.no_grad():
        net[0].weight.copy_(weight(60))
    table = cushion.measure(net, sample(60), only="tails")
    tails = table.layers[0].tails
    assert tails is not None
    assert tails.weights.power_law is not None
    assert tails.eigenvalues.power_law is not None
    assert tails.eigenvalues.power_law.tail_index == pytest.approx(
        tails.weights.power_law.tail_index / 2
    )


def test_infinite_weights_are_an_answer_in_a_traced_net_and_refused_by_name_before() -> None:
    net, data = wide(), sample(64)
    traced = trace(net, (64,))
    traced.affine_layers[0].affine.operator.weight[3, 4] = torch.inf
    first, last = cushion.measure(traced, data, only="tails").layers
    assert first.tail_alpha is None
    assert first.tails is not None
    assert first.tails.weights.no_fit.startswith("1 of 5120 weights are infinite")
    assert last.tail_alpha is not None
    with torch.no_grad():
        net[0].weight[3, 4] = torch.inf
    with pytest.raises(BadInput, match=r"parameter 0\.weight holds NaN or infinite values"):
        cushion.measure(net, data, only="tails")


def test_the_net_beside_has_its_own_tails() -> None:
    table = cushion.measure(wide(), sample(64), only="tails", beside="random")
    assert table.beside is not None
    tails = table.beside.layers[0].tails
    assert isinstance(tails, LayerTails)
    assert isinstance(tails.weights, TailFits)
    assert tails != table.layers[0].tails


@pytest.mark.parametrize(
    "bad",
    [
        *({"bootstrap": value} for value in (-1, 1.5, 10**20, math.inf, math.nan, "x", None, True)),
        {"seed": -1},
        {"seed": 2**63},
    ],
)
def test_options_are_checked(bad: dict[str, float]) -> None:
    (name,) = bad
    with pytest.raises(BadInput, match=f"`{name}` must be a whole number of at least 0 "):
        TailOptions(**bad)  # type: ignore[arg-type]
