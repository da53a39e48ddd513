"""Vector-Compress and Vector-Project: textbook forms, moments, failure rates, the paper's slips,
and what is stored.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chi2

from cushion.compressors.projection.matrix_project import (
    HELPERS,
    Helper,
    Projected,
    ProjectedRows,
    Sparse,
    Start,
)
from cushion.compressors.projection.vectors import (
    LinearTask,
    vector_compress,
    vector_compress_on_grid,
    vector_project,
    vector_project_k,
)
from cushion.data.counter import stream
from cushion.errors import BadInput
from cushion.nets.operators.gaussian_projection import gaussian_rows
from cushion.nets.operators.hadamard import padded_size

Values = NDArray[np.float64]
METHODS = ("vector-compress", "vector-project")


def unit(values: Values) -> Values:
    return values / np.linalg.norm(values)


def normal(*shape: int, seed: int = 0) -> Values:
    return np.random.default_rng(seed).standard_normal(shape)


def most(p: float, n: int) -> float:
    """A frequency over n trials that a probability of p exceeds hardly ever (five standard
    errors).
    """
    return p + 5 * math.sqrt(p * (1 - p) / n)


# Vector-Compress


def test_vector_compress_is_the_textbook_algorithm() -> None:
    c, gamma, eta = unit(normal(40)), 0.6, 0.3
    expected = []
    for c_i, word in zip(c, stream("coins", 4, 40), strict=True):
        p_i = min(1.0, 2 * c_i**2 / (eta * gamma**2))
        expected.append(c_i / p_i if (int(word) >> 11) / 2**53 < p_i else 0.0)
    assert 0 < np.count_nonzero(expected) < 40
    np.testing.assert_allclose(vector_compress(c, gamma, eta, 4, "coins"), expected, rtol=1e-14)


def test_vector_compress_is_unbiased_with_the_exact_variance() -> None:
    # the first is certain to be kept (2·0.7²/0.1 > 1: the paper's p_i would be 9.8), the last one
    # never is
    c, gamma, eta, n = np.array([0.7, -0.2, 0.1, 0.05, -0.15, 0.0]), 0.5, 0.4, 20_000
    draws = np.stack([vector_compress(c, gamma, eta, seed, "moments") for seed in range(n)])
    p = np.minimum(1.0, 2 * c**2 / (eta * gamma**2))
    variance = np.divide(c**2, p, out=np.zeros(6), where=p > 0) - c**2 * (p > 0)  # c_i²(1/p_i - 1)
    assert (draws[:, 0] == c[0]).all()
    assert (draws[:, 5] == 0.0).all()
    assert (variance <= eta * gamma**2 / 2).all()  # the paper's bound is twice this
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - c), 5 * np.sqrt(variance / n) + 1e-12)
    for i in range(
        1, 5
    ):  # the standard error of a two-point variable's squared deviation, from its two values
        squares = (draws[:, i] - c[i]) ** 2
        assert abs(squares.mean() - variance[i]) < 5 * squares.std() / math.sqrt(n)
        assert abs((draws[:, i] != 0).mean() - p[i]) < 5 * math.sqrt(p[i] * (1 - p[i]) / n)
    # coins of different coordinates are independent: no covariance
    assert abs(np.mean((draws[:, 1] - c[1]) * (draws[:, 4] - c[4]))) < 5 * math.sqrt(
        variance[1] * variance[4] / n
    )


def test_vector_compress_fails_on_basis_vectors_where_vector_project_does_not() -> None:
    """The paper's remark after Lemma 6: over all basis vectors, Vector-Compress always fails on
    some.
    """
    gamma, eta, h = 0.5, 0.1, 2000
    c = np.full(h, 1 / math.sqrt(h))
    # a kept coordinate is ηγ²√h/2 = 0.56, off by more than γ: e_i fails if and only if it is kept,
    # p = 2/(hηγ²) = η/2.5
    p = 2 / (h * eta * gamma**2)
    assert eta / 2.6 < p < eta / 2
    failing = [
        np.abs(vector_compress(c, gamma, eta, seed, "basis") - c) > gamma for seed in range(20)
    ]
    assert all(row.any() for row in failing)
    frequency = np.mean(failing)
    assert abs(frequency - p) < 5 * math.sqrt(p / (20 * h))
    assert frequency <= most(eta / 2, 20 * h)  # Chebyshev holds, and is nearly reached

    k = vector_project_k(gamma, 0.01 / h)  # a union over the h basis vectors
    z = vector_project(c, gamma, k, 0, "weights 1")
    assert np.abs(Projected(z, (h,), "gaussian", 1).weight(0) - c).max() < gamma


@pytest.mark.parametrize("which", ["basis", "spread", "aligned"])
def test_lemma_5_holds_on_adverse_inputs(which: str) -> None:
    h, gamma, eta, n = 1600, 0.4, 0.2, 1500
    c = np.full(h, 1 / math.sqrt(h))
    # just short enough for its kept value ηγ²/(8c_3) = 0.444 to be off by more than γ
    c[3] = 0.9 * eta * gamma / 8
    c = c / max(1.0, np.linalg.norm(c))
    u = {"basis": np.eye(h)[3], "spread": unit(normal(h)), "aligned": c}[which]
    answers = [
        vector_compress_on_grid(c, gamma, eta, seed, "lemma 5").values @ u for seed in range(n)
    ]
    failed = np.abs(np.array(answers) - c @ u) > gamma
    assert failed.mean() <= most(eta / 2, n)
    if which == "basis":  # it fails if and only if it is kept, with p = 8c²/(ηγ²) = 0.02
        assert abs(failed.mean() - 8 * c[3] ** 2 / (eta * gamma**2)) < 5 * math.sqrt(0.02 / n)


def test_the_grid_costs_a_quarter_and_the_coins_are_those_of_the_shortened_vector() -> None:
    h, gamma, eta = 300, 0.3, 0.5
    c = unit(normal(h) ** 3)  # some long, most short
    kept = np.where(np.abs(c) >= gamma / (4 * math.sqrt(h)), c, 0.0)
    assert 0 < np.linalg.norm(kept - c) <= gamma / 4
    for seed in range(
        100
    ):  # a dropped coordinate would hardly ever be kept anyway: that takes many draws to see
        stored = vector_compress_on_grid(c, gamma, eta, seed, "grid")
        assert gamma / (4 * math.sqrt(h)) < stored.step <= gamma / (2 * math.sqrt(h))
        assert (
            np.linalg.norm(stored.values - vector_compress(kept, gamma / 2, eta, seed, "grid"))
            <= gamma / 4
        )
        assert (stored.integers[kept == 0] == 0).all()


def test_the_threshold_of_lemma_5() -> None:
    """|c_i| ≤ γ/(4√h) if and only if a kept c̃_i has |c̃_i| ≥ ηγ√h/2: the printed 2ηγ√h stands for
    γ/(16√h).
    """
    h, gamma, eta = 10_000, 0.4, 0.5
    # around the boundary; all have p_i < 1
    c = np.linspace(0.05, 1.95, 400) * gamma / (4 * math.sqrt(h))
    p = 8 * c**2 / (eta * gamma**2)
    assert p.max() < 1
    outcome = c / p
    assert ((outcome >= eta * gamma * math.sqrt(h) / 2) == (c <= gamma / (4 * math.sqrt(h)))).all()
    assert ((outcome >= 2 * eta * gamma * math.sqrt(h)) == (c <= gamma / (16 * math.sqrt(h)))).all()


@pytest.mark.parametrize("threshold", [0.5, 2.0])
def test_lemma_5_as_printed_drops_what_is_certain_to_be_kept(threshold: float) -> None:
    h, gamma, eta = 100, 0.1, 0.1
    c = np.eye(h)[0]
    sampled = vector_compress(c, gamma / 2, eta, 0, "printed")
    printed = np.where(np.abs(sampled) >= threshold * eta * gamma * math.sqrt(h), 0.0, sampled)
    assert printed @ c == 0.0  # an error of 1 where at most γ = 0.1 is promised, at every seed
    assert abs(vector_compress_on_grid(c, gamma, eta, 0, "printed").values @ c - 1) <= gamma / 4


# Vector-Project


def test_vector_project_is_the_textbook_algorithm() -> None:
    c, gamma, k, h = normal(7), 0.3, 50, 7
    rows = gaussian_rows(h, 0, k, 3, "weights 2")
    z = vector_project(c, gamma, k, 3, "weights 2")
    assert z.step == 0.125  # the largest power of two that is not above γ/2
    np.testing.assert_array_equal(z.integers, [round(math.fsum(row * c) / 0.125) for row in rows])
    back = Projected(z, (h,), "gaussian", 2).weight(3)
    np.testing.assert_allclose(
        back, sum(a * row for a, row in zip(z.values, rows, strict=True)) / k, rtol=1e-12
    )


@pytest.mark.parametrize("helper", ["gaussian", "signs"])
def test_vector_project_fails_no_more_than_eta(helper: Helper) -> None:
    gamma, eta, h, n = 0.8, 0.2, 12, 400
    c = unit(normal(h))
    others = [c, unit(normal(h, seed=1)), np.eye(h)[0], -c]
    k = vector_project_k(gamma, eta)
    moved = []
    for seed in range(n):
        z = vector_project(c, gamma, k, seed, "weights 1", helper)
        back = Projected(z, (h,), helper, 1).weight(seed)
        moved.append([abs((back - c) @ u) for u in others])
    assert (np.mean(np.array(moved) > gamma, axis=0) <= most(eta, n)).all()
    # the half of γ that is left to chance is what k is made for: the second moment at u = c is 2/k
    # for normal vectors, 2(1 - Σc⁴)/k for signs, plus what rounding adds, at most (γ/4)²
    second = np.mean(np.square(moved), axis=0)[0]
    exact = 2 / k if helper == "gaussian" else 2 * (1 - (c**4).sum()) / k
    assert 0.6 * exact < second < 1.4 * (exact + (gamma / 4) ** 2 / k)


def tail(k: int, gamma: float) -> float:
    """For u = c of length 1, ⟨ĉ, u⟩ is χ²_k/k: how likely it is to lie beyond 1 ± γ/2."""
    return float(chi2.sf(k * (1 + gamma / 2), k) + chi2.cdf(k * (1 - gamma / 2), k))


@pytest.mark.parametrize("gamma", [0.05, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("eta", [0.2, 0.01, 1e-6, 1e-12])
def test_the_exact_tail_at_our_k(gamma: float, eta: float) -> None:
    k = vector_project_k(gamma, eta)
    assert k == math.ceil(16 * math.log(4 / eta) / (gamma**2 * (1 - gamma / 3)))
    assert tail(k, gamma) < eta / 4


@pytest.mark.parametrize(
    ("gamma", "eta", "enough"),
    [
        (0.1, 0.01, True),
        (0.5, 1e-8, True),
        (0.8, 1e-6, False),
        (1.0, 1e-6, False),
        (1.0, 1e-8, False),
    ],
)
def test_the_papers_k_is_enough_only_where_gamma_is_small(
    gamma: float, eta: float, enough: bool
) -> None:
    """Lemma 7 claims a tail of exp(-γ²k/16) = η at k = 16 ln(1/η)/γ²."""
    assert (tail(math.ceil(16 * math.log(1 / eta) / gamma**2), gamma) <= eta) is enough


def test_rounding_on_the_papers_grid() -> None:
    """|V|₂ ≤ 2√h is false for k > h; the change of ĉ stays below γ/2 all the same, for every u."""
    gamma, h, k = 0.4, 10, 400
    rows = gaussian_rows(h, 0, k, 0, "weights 1")
    norm = np.linalg.norm(rows, 2)
    assert 2 * math.sqrt(h) < norm < math.sqrt(h) + math.sqrt(k) + 3
    step = gamma / (2 * math.sqrt(h * k))
    z = rows @ unit(normal(h))
    moved = np.linalg.norm((np.rint(z / step) * step - z) @ rows) / k
    assert 0 < moved <= norm * gamma / (4 * k * math.sqrt(h)) < gamma / 2 / math.sqrt(k)


def test_rounding_on_our_grid_costs_less_than_half_the_margin() -> None:
    """The worst rounding of all, r_t = ±s/2 with the signs of ⟨v_t, u⟩, still costs at most
    (s/2)|Vᵀu|/√k.
    """
    gamma, h, k = 1.0, 30, vector_project_k(1.0, 0.2)
    u = unit(normal(h))
    for seed in range(50):
        rows = gaussian_rows(h, 0, k, seed, "weights 1")
        adverse = np.abs(rows @ u).sum() * (gamma / 4) / k
        assert (
            adverse
            <= gamma / 4 * np.linalg.norm(rows @ u) / math.sqrt(k)
            <= gamma / 4 * math.sqrt(3)
        )


# Classifiers


def classifier(
    classes: int, h: int, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weight [classes, h], bias, and 300 inputs."""
    weight, bias, x = (
        normal(classes, h, seed=seed),
        normal(classes, seed=seed + 1),
        normal(300, h, seed=seed + 2),
    )
    return torch.from_numpy(weight), torch.from_numpy(bias), torch.from_numpy(x)


def compressed(
    weight: torch.Tensor, bias: torch.Tensor | None, **options: Any
) -> Sparse | ProjectedRows:
    asked = {"gamma": 3.0, "eta": 0.2, "radius": 1.0, "start": None} | options
    task = LinearTask(weight, bias, *(asked[name] for name in ("start", "gamma", "eta", "radius")))
    where = options.get("seed", 0), options.get("place", 1)
    if options["method"] == "vector-compress":
        return task.sparse(*where)
    return task.projected(options.get("k"), options.get("helper", "gaussian"), *where)


def scores(
    layer: Sparse | ProjectedRows, x: torch.Tensor, seed: int, start: Start | None = None
) -> torch.Tensor:
    weight, bias = layer.classifier(seed, start)
    return x @ torch.from_numpy(weight).T + (0 if bias is None else torch.from_numpy(bias))


def moved(before: torch.Tensor, after: torch.Tensor, gamma: float) -> Values:
    """[examples]: how far scores [examples, classes] moved, over what a margin of γ allows; two
    classes by the change of their difference, which may be γ, else by the largest change, γ/2.
    """
    change = (after - before).numpy()
    if change.shape[1] == 2:
        return np.abs(change[:, 1] - change[:, 0]) / gamma
    return np.abs(change).max(axis=1) / (gamma / 2.0)


def test_the_setting_is_normalised_as_stated() -> None:
    weight, bias = torch.tensor([[3.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([4.0, 0.0, 0.0])
    three = LinearTask(weight, bias, None, gamma=2.0, eta=0.3, radius=math.sqrt(24.0))
    assert (len(three.vectors), three.coordinates, three.norm, three.longest) == (3, 3, 5.0, 5.0)
    assert three.allowance == 2.0 / (2 * 5)
    assert three.share == pytest.approx(0.1)
    assert three.unit_gamma == pytest.approx(2.0 / (2 * 5 * 5))
    assert three.projections == vector_project_k(0.04, 0.3 / 3)
    two = LinearTask(weight[:2], None, None, gamma=2.0, eta=0.3, radius=5.0)  # (0, 1) - (3, 0)
    assert (len(two.vectors), two.coordinates, two.allowance, two.share) == (1, 2, 2.0 / 5, 0.3)
    assert two.norm == pytest.approx(math.sqrt(10))
    zeros = LinearTask(weight, bias, (weight, bias), gamma=2.0, eta=0.3, radius=5.0)
    assert (zeros.norm, zeros.unit_gamma) == (0.0, 1.0)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("method", METHODS)
def test_the_promise_holds_on_data(method: str, classes: int) -> None:
    weight, bias, x = classifier(classes, 30)
    before, radius, eta = x @ weight.T + bias, float(x.norm(dim=1).max()), 0.2
    size = float(torch.cat((weight, bias[:, None]), dim=1).norm(dim=1).max()) * math.hypot(
        radius, 1
    )
    gamma = 0.6 * size  # unit_gamma is about 0.4 for two classes and 0.3 for four
    top = before.topk(2, dim=1)
    failed, changed, clear = [], 0, (top.values[:, 0] - top.values[:, 1]) > gamma / 10
    for seed in range(20):
        layer = compressed(
            weight, bias, method=method, gamma=gamma, eta=eta, radius=radius, seed=seed
        )
        after = scores(layer, x, seed)
        failed.append((moved(before, after, gamma) > 1).mean())
        # a label with a margin above g never changes where the change of scores is within what g
        # allows
        held = torch.from_numpy(moved(before, after, gamma / 10) <= 1)
        assert (after.argmax(dim=1) == before.argmax(dim=1))[clear & held].all()
        changed += int((after.argmax(dim=1) != before.argmax(dim=1)).sum())
    assert np.mean(failed) <= eta / 2
    assert changed > 0  # something was lost: the check above is not empty


def test_two_classes_store_one_vector_and_give_back_its_halves() -> None:
    weight, bias, _ = classifier(2, 6)
    layer = compressed(weight, bias, method="vector-compress", gamma=1e-6)
    found, offset = layer.classifier(0)
    assert layer.entries.integers.shape == (1, 7)
    # so small a margin keeps every coordinate: what is left is rounding
    np.testing.assert_allclose(
        found[1] - found[0], (weight[1] - weight[0]).numpy(), atol=layer.entries.step / 2
    )
    assert offset[1] - offset[0] == pytest.approx(float(bias[1] - bias[0]), abs=layer.entries.step)
    np.testing.assert_array_equal(found[0], -found[1])
    assert layer.parameters == 7


@pytest.mark.parametrize("helper", HELPERS)
def test_the_rows_share_their_vectors_and_srht_can_be_exact(helper: Helper) -> None:
    weight, bias, _ = classifier(3, 9)
    weight[2], bias[2] = weight[0], bias[0]
    options = {"method": "vector-project", "helper": helper, "seed": 1, "place": 4}
    layer = compressed(weight, bias, k=16, **options)
    np.testing.assert_array_equal(layer.coefficients.integers[0], layer.coefficients.integers[2])
    assert layer.parameters == 3 * 16
    allowance = 3.0 / (2 * math.sqrt(2.0))
    assert allowance / 4 < layer.coefficients.step <= allowance / 2
    homogeneous = np.concatenate((weight.numpy(), bias.numpy()[:, None]), axis=1)
    for row, vector in zip(layer.coefficients.integers, homogeneous, strict=True):
        np.testing.assert_array_equal(
            row, vector_project(vector, allowance, 16, 1, "weights 4", helper).integers
        )
    full = compressed(weight, bias, **options)
    needed = LinearTask(weight, bias, None, gamma=3.0, eta=0.2, radius=1.0).projections
    assert full.coefficients.integers.shape[1] == (padded_size(10) if helper == "srht" else needed)
    # M/√N is orthogonal: |Mᵀr|/N = |r|/√N ≤ step/2, and nothing but rounding is lost
    if helper == "srht":
        found, _ = full.classifier(1)
        assert np.linalg.norm(found - weight.numpy(), axis=1).max() <= full.coefficients.step / 2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classes", [2, 3])
def test_the_distance_from_initialisation(method: str, classes: int) -> None:
    weight, bias, x = classifier(classes, 8)
    start = (weight + 0.01 * torch.from_numpy(normal(classes, 8, seed=9)), bias + 0.01)
    options = {"method": method, "gamma": 0.5, "radius": 6.0, "seed": 2}
    layer = compressed(weight, bias, start=start, **options)
    alone = compressed(weight - start[0], bias - start[1], **options)
    np.testing.assert_array_equal(layer.numbers[0].integers, alone.numbers[0].integers)
    found, offset = layer.classifier(2, start)
    added, shift = alone.classifier(2)
    np.testing.assert_allclose(found, added + start[0].numpy(), rtol=1e-14)
    np.testing.assert_allclose(offset, shift + start[1].numpy(), rtol=1e-14)
    ratios = moved(x @ weight.T + bias, scores(layer, x, 2, start), 0.5)
    assert (ratios > 1).mean() <= 0.2


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(
    ("method", "helper"),
    [("vector-compress", "gaussian"), *(("vector-project", h) for h in HELPERS)],
)
def test_a_decoder_rebuilds_the_layer(
    method: str, helper: Helper, with_bias: bool, classes: int
) -> None:
    weight, bias, _ = classifier(classes, 6)
    k = None if method == "vector-compress" else 8
    options = {"method": method, "k": k, "helper": helper, "seed": 7, "place": 5}
    layer, again = (compressed(weight, bias if with_bias else None, **options) for _ in range(2))
    np.testing.assert_array_equal(layer.numbers[0].integers, again.numbers[0].integers)
    kind = type(layer)
    assert len(layer.fields) == kind.field_count
    assert kind.sizes(layer.shape, layer.fields) == tuple(
        part.integers.shape for part in layer.numbers
    )
    found = kind.restore(layer.shape, 5, layer.fields, layer.numbers)
    np.testing.assert_array_equal(found.weight(7), layer.weight(7))
    assert found.weight(7).shape == (classes, 6)
    assert (found.classifier(7)[1] is None) is not with_bias
    if with_bias:
        np.testing.assert_array_equal(found.classifier(7)[1], layer.classifier(7)[1])
    # the helper string is part of the weight: another seed or place is another weight
    if method == "vector-project":
        assert (found.weight(8) != layer.weight(7)).any()
        assert (
            kind.restore(layer.shape, 6, layer.fields, layer.numbers).weight(7) != layer.weight(7)
        ).any()


def test_another_seed_keeps_other_coordinates_and_classes_have_coins_of_their_own() -> None:
    weight = torch.ones(3, 200, dtype=torch.float64)
    options = {"method": "vector-compress", "gamma": 300.0, "eta": 0.9, "radius": 14.0}
    first, second = (compressed(weight, None, seed=seed, **options) for seed in (0, 1))
    kept = first.entries.integers != 0
    assert 0 < first.parameters == kept.sum() < 600
    assert (kept != (second.entries.integers != 0)).any()
    assert (kept[0] != kept[1]).any()


def test_bad_input_is_named() -> None:
    weight, bias, _ = classifier(3, 4)
    for change, words in [
        ({"gamma": 0.0}, "margin γ"),
        ({"gamma": math.nan}, "margin γ"),
        ({"eta": 1.0}, "η"),
        ({"radius": math.inf}, "longest input"),
        ({"k": 0}, "at least 1 coefficient"),
        ({"start": (weight[:2], None)}, "initialisation"),
    ]:
        with pytest.raises(BadInput, match=words):
            compressed(weight, bias, **({"method": "vector-project"} | change))
    for broken, words in [
        (weight[:1], "2 classes"),
        (weight[0], "2 classes"),
        (weight * math.inf, "finite"),
    ]:
        with pytest.raises(BadInput, match=words):
            compressed(broken, None, method="vector-project")
    with pytest.raises(BadInput, match="at most 1"):
        vector_project_k(1.5, 0.1)
    for shape, fields in [((3, 4), (2,)), ((1, 4), (0,)), ((3, 4, 1), (0,))]:
        with pytest.raises(BadInput, match="fit no weight"):
            Sparse.sizes(shape, fields)
    for fields, words in [
        ((3, 5, 0), "no helper"),
        ((0, 0, 0), "0 coefficients"),
        ((0, 5, 2), "fit no weight"),
    ]:
        with pytest.raises(BadInput, match=words):
            ProjectedRows.sizes((3, 4), fields)
