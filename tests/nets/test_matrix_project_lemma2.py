"""Arora 2018, Algorithm 1 and Lemma 2: the promise P[|uᵀ(Â - A)v| > ε‖A‖_F‖u‖‖v‖] ≤ η, at two
counts k.

With k = ln(4/η)/(ε²/4 - ε³/6), as here, it holds; with the paper's k = ln(1/η)/ε² it does not.
These tests are the evidence for that erratum: exact binomial tails for the simplest weight,
simulation for others.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from cushion.data.counter import stream
from cushion.nets.operators.sign_projection import sign_project, sign_projection_k

EPSILON, ETA = 0.5, 0.01
SURE = 1e-6  # of every statement about a simulated rate


def papers_k(epsilon: float, eta: float) -> int:
    """Algorithm 1 as printed; rounded up, in its favour."""
    return math.ceil(math.log(1.0 / eta) / epsilon**2)


def _normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _cases() -> dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """(A, u, v). For unit a = A, b = uvᵀ the error has variance (1 + ⟨a, b⟩² - 2 Σ a²b²)/k: almost
    2/k where a = b is spread out, about 1/k where A has nothing to do with u and v, and 1/k where a
    = b has two equal entries.
    """
    u, v = _normal(4, seed=1), _normal(4, seed=2)
    ones = torch.ones(4, dtype=torch.float64)
    pair = torch.zeros(2, 2, dtype=torch.float64)
    pair[0] = 1.0
    return {
        "rank one": (torch.outer(ones, ones), ones, ones),
        "generic": (_normal(4, 4, seed=3), u, v),
        "two entries": (pair, torch.tensor([1.0, 0.0]).double(), torch.tensor([1.0, 1.0]).double()),
    }


CASES = _cases()


def sign_matrix(k: int, n: int, seed: int, purpose: str) -> np.ndarray:
    """M_1, ..., M_k by the layout that `sign_projection` states: [k, n] of ±1."""
    words = stream(purpose, seed, -(-k // 64) * n).astype("<u8").reshape(-1, n, 1).view(np.uint8)
    bits = np.unpackbits(words, axis=2, bitorder="little")  # [words of matrices, n, 64]
    return bits.transpose(0, 2, 1).reshape(-1, n)[:k] * 2.0 - 1.0


def errors(A: torch.Tensor, U: torch.Tensor, k: int, trials: int, purpose: str) -> np.ndarray:
    """⟨U, Â - A⟩ of `trials` independent runs: one helper string, cut into stretches of k matrices:
    [trials].

    ⟨U, Â⟩ = (1/k) Σ_t ⟨A, M_t⟩⟨U, M_t⟩, so two rows of inner products are all that is needed.
    """
    signs = sign_matrix(k * trials, A.numel(), 0, purpose)
    products = (signs @ A.reshape(-1).numpy()) * (signs @ U.reshape(-1).numpy())
    return products.reshape(trials, k).mean(1) - float((A * U).sum())


def failures(case: str, k: int, trials: int) -> int:
    A, u, v = CASES[case]
    allowed = EPSILON * float(A.norm() * u.norm() * v.norm())
    return int(
        (np.abs(errors(A, torch.outer(u, v), k, trials, case)) > allowed * (1 + 1e-12)).sum()
    )


@pytest.mark.parametrize("case", CASES)
def test_the_simulated_error_is_that_of_the_projection(case: str) -> None:
    A, u, v = CASES[case]
    for seed, k in enumerate((1, 64, 144, 333)):
        coefficients, estimate = sign_project(A, k, seed, "lemma 2")
        signs = sign_matrix(k, A.numel(), seed, "lemma 2")
        np.testing.assert_allclose(coefficients, signs @ A.reshape(-1).numpy(), rtol=0, atol=1e-13)
        products = coefficients.numpy() * (signs @ torch.outer(u, v).reshape(-1).numpy())
        assert float(u @ estimate @ v) == pytest.approx(float(products.mean()), rel=0, abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_with_our_k_the_failure_rate_is_at_most_eta(case: str) -> None:
    trials = 4000
    failed = failures(case, sign_projection_k(EPSILON, ETA), trials)
    highest = stats.beta.ppf(
        1 - 1e-3, failed + 1, trials - failed
    )  # Clopper and Pearson: covers the rate but for 0.001
    assert highest <= ETA


@pytest.mark.parametrize("case", CASES)
def test_with_the_papers_k_the_failure_rate_is_above_eta(case: str) -> None:
    """So many failures would have a probability below a millionth if η were the rate."""
    trials = 4000
    failed = failures(case, papers_k(EPSILON, ETA), trials)
    assert stats.binomtest(failed, trials, ETA, alternative="greater").pvalue < SURE


def test_the_same_with_a_seed_for_every_run() -> None:
    A, u, v = CASES["rank one"]
    k, seeds = papers_k(EPSILON, ETA), 600
    found = [float(u @ (sign_project(A, k, seed, "seeds")[1] - A) @ v) for seed in range(seeds)]
    failed = int((np.abs(found) > EPSILON * float(A.norm() * u.norm() * v.norm())).sum())
    assert stats.binomtest(failed, seeds, ETA, alternative="greater").pvalue < SURE
    # two ways to draw independent runs: the rates agree within five standard errors of their
    # difference
    rate, other = failed / seeds, failures("rank one", k, 4000) / 4000
    assert abs(rate - other) < 5 * math.sqrt(other * (1 - other) * (1 / seeds + 1 / 4000))


@pytest.mark.parametrize("eta", [0.1, 0.05, 0.01, 1e-3, 1e-6])
@pytest.mark.parametrize("epsilon", [0.3, 0.2, 0.1, 0.03])
def test_the_exact_failure_probability_of_two_entries(epsilon: float, eta: float) -> None:
    """A = e₁(1, 1), u = e₁, v = (1, 1): ⟨a, M⟩² is 2 or 0 with probability ½ each, so that the
    relative error is the mean of k fair signs, and the failure probability is a binomial tail: no
    simulation.
    """

    def failure(k: int) -> float:
        # heads at which the mean 2·heads/k - 1 exceeds ε
        least = math.floor(k * (1.0 + epsilon) / 2.0 + 1e-9) + 1
        return 2.0 * float(stats.binom.sf(least - 1, k, 0.5))

    assert failure(papers_k(epsilon, eta)) > eta
    assert failure(sign_projection_k(epsilon, eta)) <= eta


def test_the_exact_probability_is_that_of_the_simulation() -> None:
    k, trials = (
        papers_k(EPSILON, ETA),
        4000,
    )  # 19 signs: a mean beyond ½ needs 15 heads or more, or 4 or fewer
    exact = 2.0 * float(stats.binom.sf(14, 19, 0.5))
    assert k == 19
    assert abs(failures("two entries", k, trials) / trials - exact) < 4 * math.sqrt(
        exact * (1 - exact) / trials
    )


def test_lemma_2_for_a_set_of_pairs() -> None:
    """‖U(Â - A)x‖ ≤ ε‖A‖_F‖U‖_F‖x‖ for m pairs (U, x) with n rows at once, but for δ, with η =
    δ/(mn).
    """
    delta, pairs, rows, trials = 0.05, 2, 2, 500
    A = _normal(3, 3, seed=4)
    k = sign_projection_k(EPSILON, delta / (pairs * rows))

    def broken(count: int) -> int:
        broke = np.zeros(trials, dtype=bool)
        for number in range(pairs):
            U, x = _normal(rows, 3, seed=5 + number), _normal(3, seed=7 + number)
            images = [errors(A, torch.outer(row, x), count, trials, "a set") for row in U]
            norms = np.sqrt(np.square(images).sum(axis=0))
            broke |= norms > EPSILON * float(A.norm() * U.norm() * x.norm())
        return int(broke.sum())

    failed = broken(k)
    assert stats.beta.ppf(1 - 1e-3, failed + 1, trials - failed) <= delta
    # so this can fail
    assert stats.binomtest(broken(k // 30), trials, delta, alternative="greater").pvalue < SURE
