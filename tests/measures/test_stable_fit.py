"""Fits of stable laws: against a brute-force likelihood, under shift, scale and sign, on ties,
zeros and extremes.
"""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from cushion.errors import BadInput
from cushion.measures.tails import stable_fit
from cushion.measures.tails.records import StableFit
from cushion.measures.tails.stable_fit import fit_stable
from cushion.measures.tails.stable_law import StableLaw, sample_stable

Floats = NDArray[np.float64]
NAMES = ("alpha", "beta", "scale", "location")


def drawn(n: int, alpha: float, beta: float = 0.0, *, seed: int = 0) -> Floats:
    return 0.03 * sample_stable(n, alpha, beta, np.random.default_rng(seed)) + 0.01


def naive_likelihood(x: Floats, alpha: float, beta: float, c: float, delta: float) -> float:
    """Σ ln f(x), f the Fourier integral of the characteristic function: midpoints of u^(1/3), from
    0 to |cu|^α = 36.
    """
    root = (np.arange(2500) + 0.5) * (36 ** (1 / (3 * alpha)) / 2500)
    u, width = root**3, 2 * root[0]  # in units of 1/c
    skew = beta * math.tan(math.pi * alpha / 2) * (u - u**alpha)
    waves = (
        np.cos(np.outer((x - delta) / c, u) + skew)
        @ (3 * root**2 * np.exp(-(u**alpha)))
        * width
        / math.pi
    )
    return float(np.log(np.maximum(waves, 1e-12)).sum() - x.size * math.log(c))


@pytest.mark.parametrize(("alpha", "beta"), [(1.4, 0.0), (1.2, -0.4)])
def test_the_fit_maximises_the_likelihood(alpha: float, beta: float) -> None:
    """A simplex search on the naive likelihood finds the same law; its second differences the same
    standard errors.
    """
    x = sample_stable(60, alpha, beta, np.random.default_rng(3)).clip(-40, 40) * 2 + 1
    symmetric = beta == 0.0
    found = fit_stable(x, symmetric=symmetric)
    at = np.array([found.alpha, found.beta, found.scale, found.location])
    kept = [0, 2, 3] if symmetric else [0, 1, 2, 3]

    def naive(free: Floats) -> float:
        full = at.copy()
        full[kept] = free
        return naive_likelihood(x, *full)

    assert found.log_likelihood == pytest.approx(naive(at[kept]), abs=1e-4)
    begin = at[kept] * np.array([0.9, 1.2, 0.9, 1.1])[: len(kept)]
    best = minimize(
        lambda free: -naive(free),
        begin,
        method="Nelder-Mead",
        options={"fatol": 1e-7, "xatol": 1e-5},
    )
    assert -best.fun == pytest.approx(found.log_likelihood, abs=1e-4)
    np.testing.assert_allclose(best.x, at[kept], atol=2e-3)
    steps = np.diag([0.02] * len(kept))
    second = [
        [
            (
                naive(at[kept] + a + b)
                - naive(at[kept] + a - b)
                - naive(at[kept] - a + b)
                + naive(at[kept] - a - b)
            )
            for a in steps
        ]
        for b in steps
    ]
    naive_errors = np.sqrt(np.diag(np.linalg.inv(-np.array(second) / (4 * 0.02**2))))
    found_errors = [found.errors[NAMES[index]] for index in kept]
    np.testing.assert_allclose(found_errors, naive_errors, rtol=0.02)


@pytest.mark.parametrize("ties", [False, True])
def test_the_distance_is_that_of_a_double_loop(ties: bool) -> None:
    x = drawn(300, 1.5)
    x = np.round(x, 2) if ties else x
    found = fit_stable(x, symmetric=True)
    law = StableLaw(found.alpha).cdf((x - found.location) / found.scale)
    below = [abs(np.mean(x < value) - under) for value, under in zip(x, law, strict=True)]
    up_to = [abs(np.mean(x <= value) - under) for value, under in zip(x, law, strict=True)]
    assert found.ks_distance == pytest.approx(max(below + up_to), abs=1e-12)
    total = StableLaw(found.alpha).log_density(
        (x - found.location) / found.scale
    ).sum() - 300 * math.log(found.scale)
    assert found.log_likelihood == pytest.approx(float(total), rel=1e-12)


def same(one: StableFit, other: StableFit, factor: float = 1.0, shift: float = 0.0) -> None:
    """other is the fit of factor·x + shift."""
    sign = math.copysign(1.0, factor)
    assert other.alpha == pytest.approx(one.alpha, abs=1e-4)
    assert other.beta == pytest.approx(sign * one.beta, abs=2e-4)
    assert other.scale == pytest.approx(abs(factor) * one.scale, rel=1e-4)
    assert other.location == pytest.approx(factor * one.location + shift, abs=1e-4 * other.scale)
    assert other.ks_distance == pytest.approx(one.ks_distance, abs=1e-4)
    for name in NAMES:
        error = one.errors[name]
        grown = 1.0 if name in ("alpha", "beta") else abs(factor)
        assert other.errors[name] == (
            None if error is None else pytest.approx(grown * error, rel=1e-2)
        )


@pytest.mark.parametrize(
    ("alpha", "beta", "symmetric"), [(1.5, 0.5, False), (0.8, 0.0, True), (2.0, 0.0, False)]
)
@pytest.mark.parametrize("factor", [1e-6, 1e6, -1.0, 1e-300])
def test_scale_shift_and_sign(alpha: float, beta: float, symmetric: bool, factor: float) -> None:
    x = drawn(1500, alpha, beta)
    one = fit_stable(x, symmetric=symmetric)
    shift = 3.7 * abs(factor)
    other = fit_stable(factor * x + shift, symmetric=symmetric)
    same(one, other, factor, shift)
    grown = one.log_likelihood - x.size * math.log(abs(factor))
    assert other.log_likelihood == pytest.approx(grown, rel=1e-9, abs=1e-3)


def test_order_shape_and_precision_do_not_matter_and_the_values_are_left_alone() -> None:
    x = drawn(2000, 1.3, 0.5).astype(np.float32)
    before = x.copy()
    one = fit_stable(x, symmetric=False)
    np.testing.assert_array_equal(x, before)
    assert fit_stable(x[::-1].reshape(40, 50).astype(np.float64), symmetric=False) == one


@pytest.mark.parametrize(("alpha", "beta"), [(1.7, 0.0), (0.7, 0.6)])
def test_bins_move_the_fit_by_less_than_a_hundredth_of_the_standard_error(
    alpha: float, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = drawn(60_000, alpha, beta)
    binned = fit_stable(x, symmetric=beta == 0.0)
    monkeypatch.setattr(stable_fit, "_EXACT", 10**6)
    exact = fit_stable(x, symmetric=beta == 0.0)
    for name in NAMES:
        error = exact.errors[name]
        if error is not None:
            assert abs(getattr(exact, name) - getattr(binned, name)) < 0.01 * error
            assert binned.errors[name] == pytest.approx(error, rel=1e-3)
    assert binned.log_likelihood == pytest.approx(exact.log_likelihood, abs=1e-3)
    assert binned.ks_distance == pytest.approx(exact.ks_distance, abs=1e-5)


def test_bins_hold_every_number() -> None:
    z = np.sort(np.concatenate([drawn(50_000, 0.6), [-1e30, 0.0, 1e90]]))
    places, shares = stable_fit._binned(z)
    assert places.size < 40_000
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(places) > 0).all()
    assert (places[0], places[-1]) == (-1e30, 1e90)
    middle = np.abs(z) < 1e3
    inside = np.abs(places) < 1e3
    assert float(places[inside] @ shares[inside]) == pytest.approx(
        float(z[middle].sum()) / z.size, abs=1e-3
    )
    assert np.diff(np.arcsinh(places[inside])).min() > 0
    gaps = [np.abs(np.arcsinh(z[i]) - np.arcsinh(places)).min() for i in range(0, z.size, 997)]
    assert max(gaps) < 1 / 1024


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("n", [60, 3000, 50_000])
def test_normal_numbers_give_alpha_near_2(n: int, symmetric: bool) -> None:
    x = 5 + 3 * np.random.default_rng(8).normal(size=n)
    found = fit_stable(x, symmetric=symmetric)
    assert found.alpha > 1.97
    if found.alpha == 2.0:  # on the edge: the closed form of the normal law, and no error of alpha
        assert (found.beta, found.errors["alpha"], found.errors["beta"]) == (0.0, None, None)
        assert found.location == pytest.approx(x.mean(), rel=1e-12)
        assert found.scale == pytest.approx(x.std() / math.sqrt(2), rel=1e-12)
        assert found.errors["location"] == pytest.approx(x.std() / math.sqrt(n))
        assert found.errors["scale"] == pytest.approx(found.scale / math.sqrt(2 * n))
        density = -0.5 * np.square((x - x.mean()) / x.std()) - math.log(
            x.std() * math.sqrt(2 * math.pi)
        )
        assert found.log_likelihood == pytest.approx(density.sum())


def test_one_of_these_normal_samples_is_on_the_edge() -> None:
    assert fit_stable(np.random.default_rng(8).normal(size=3000), symmetric=True).alpha == 2.0


def test_a_law_of_one_side_has_beta_on_its_edge() -> None:
    x = drawn(2000, 1.3, 1.0)
    for sign in (1, -1):
        found = fit_stable(sign * x, symmetric=False)
        assert found.beta == pytest.approx(sign, abs=0.02)
        assert found.errors["alpha"] is not None
        assert abs(found.alpha - 1.3) < 3 * found.errors["alpha"]
    assert fit_stable(x, symmetric=True).errors["beta"] is None


def test_one_number_far_away_is_a_tail() -> None:
    x = np.append(np.random.default_rng(2).normal(size=4000), 1e90)
    found = fit_stable(x, symmetric=True)
    assert 1.9 < found.alpha < 2.0
    assert found.scale == pytest.approx(math.sqrt(0.5), rel=0.03)


LAYERS = {
    "rounded": np.round(np.random.default_rng(1).normal(size=4000) * 2) / 2,
    "float16": np.random.default_rng(1).normal(size=4000).astype(np.float16) * np.float16(1e-3),
    "a fifth are zeros": np.where(
        np.arange(4000) % 5 == 0, 0.0, np.random.default_rng(1).normal(size=4000)
    ),
    "uniform": np.random.default_rng(1).uniform(-1, 1, 4000),
    "two heaps": np.concatenate(
        [np.random.default_rng(1).normal(size=2000) + s for s in (-20, 20)]
    ),
    "one-sided": np.random.default_rng(1).exponential(size=4000),
    "Laplace": np.random.default_rng(1).laplace(size=4000),
    "50 numbers in a row": np.arange(50.0),
    "subnormal": np.random.default_rng(1).normal(size=400) * 1e-316,
    "near the largest": np.random.default_rng(1).normal(size=400) * 1e307,
}


@pytest.mark.parametrize("name", LAYERS)
def test_what_is_no_stable_law_still_gets_the_best_of_them(name: str) -> None:
    narrow, wide = (fit_stable(LAYERS[name], symmetric=symmetric) for symmetric in (True, False))
    for found in (narrow, wide):
        assert 0.5 < found.alpha <= 2.0
        assert -1 <= found.beta <= 1
        assert 0 < found.scale < math.inf
        assert 0 <= found.ks_distance <= 1
    # the symmetric laws are among the others
    assert wide.log_likelihood > narrow.log_likelihood - 1e-3
    assert narrow.symmetric
    assert not wide.symmetric


@pytest.mark.parametrize("zeros", [0.34, 0.5, 0.9])
def test_a_pruned_layer_is_refused(zeros: float) -> None:
    x = np.random.default_rng(1).normal(size=4000)
    x[: round(zeros * 4000)] = 0.0
    with pytest.raises(BadInput, match=f"{round(zeros * 4000)} of 4000 numbers are exactly 0"):
        fit_stable(x, symmetric=True)


def test_numbers_over_too_many_orders_of_magnitude_are_refused() -> None:
    x = 10.0 ** np.random.default_rng(1).uniform(-8, 8, 500)
    with pytest.raises(BadInput, match=r"still rises where alpha falls to 0\.5"):
        fit_stable(x - np.median(x), symmetric=True)
    for far in ([1e200], [-1e200], [1e308, -1e308]):
        with pytest.raises(BadInput, match="too far apart"):
            fit_stable(np.append(np.arange(60.0), far), symmetric=True)


def test_a_million_weights_in_memory() -> None:
    """numpy's arrays stay below ten times the float32 weights."""
    x = drawn(10**6, 1.5).astype(np.float32)
    tracemalloc.start()
    found = fit_stable(x, symmetric=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * x.nbytes
    assert found.errors["alpha"] == pytest.approx(1.54e-3, rel=0.02)
    assert abs(found.alpha - 1.5) < 3 * 1.54e-3


@pytest.mark.parametrize(("far", "wide"), [(4.5, 0.03), (1.5, 0.1), (0.8, 0.1), (0.0, 0.05)])
def test_of_several_maxima_the_highest_is_taken(far: float, wide: float) -> None:
    """A narrow heap with a third of the numbers elsewhere: no law of a grid is likelier, and none
    below alpha = 0.5.
    """
    rng = np.random.default_rng(0)
    x = np.where(rng.random(2000) < 0.3, rng.normal(far, 0.5, 2000), rng.normal(0, wide, 2000))
    likelihoods = {
        (alpha, c, delta): StableLaw(alpha, 0.0).log_density((x - delta) / c).sum()
        - x.size * math.log(c)
        for alpha in (0.5, 0.7, 1.0, 1.3, 1.6, 1.9)
        for c in np.geomspace(wide / 4, 2.0, 16).tolist()
        for delta in (0.0, 0.3 * far)
    }
    best = max(likelihoods, key=lambda at: likelihoods[at])
    try:
        found = fit_stable(x, symmetric=True)
    except BadInput as refused:
        assert "still rises where alpha falls to 0.5" in str(refused)  # noqa: PT017
        assert best[0] == 0.5
    else:
        assert found.log_likelihood >= likelihoods[best]
        assert fit_stable(x, symmetric=False).log_likelihood >= found.log_likelihood - 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_a_skewed_law_is_never_the_less_likely(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.choice([0.1, 1.0, 3.0], 500) * rng.normal(size=500) + rng.choice([0.0, 0.4], 500)
    skewed, symmetric = (fit_stable(x, symmetric=held).log_likelihood for held in (False, True))
    assert skewed >= symmetric - 1e-4
