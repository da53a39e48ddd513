"""Theorems 2.1 and 2.2 and Corollary A.1 of Arora 2018: formulas written anew, coverage, worst
cases.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.theorem_cases import Matrix, facts, layer, random_net, run

from cushion.numerics import binomial_inverse
from cushion.theorems.compression import CompressedFacts, corollary_a_1, theorem_2_1
from cushion.theorems.facts import NetFacts
from cushion.theorems.projection import theorem_2_2, truncation
from cushion.theorems.records import Bound

X = np.random.default_rng(0).uniform(0, 1, (200, 6))
CODED = CompressedFacts(
    m=10_000,
    delta=0.05,
    numbers=50,
    values=16,
    gamma=0.3,
    norm="largest",
    below_gamma=120,
    unsure=200,
    failed=0,
    unsure_or_failed=200,
    bits=170,
)


def p(j: int) -> float:
    return 2 / (3 * (abs(j) + 1) * (abs(j) + 2))


def value(row: Bound) -> float:
    assert row.value is not None
    return row.value


def test_theorem_2_1_by_its_formulas() -> None:
    printed, corrected, coded, exact = theorem_2_1(CODED)
    assert printed.value == pytest.approx(0.012 + math.sqrt(50 * math.log(16) / 10_000))
    nats = 50 * math.log(16) + math.log(1 / 0.05)
    assert corrected.value == pytest.approx(0.02 + math.sqrt(nats / 20_000))
    nats = 170 * math.log(2) + math.log(1 / 0.05)
    assert coded.value == pytest.approx(0.02 + math.sqrt(nats / 20_000), abs=1e-6)
    assert value(coded) >= 0.02 + math.sqrt(nats / 20_000)
    # The exact tail: P[Bin(m, value) ≤ 200] is δ·2^-170, here summed anew with logarithms.
    logs = [
        math.lgamma(10_001)
        - math.lgamma(i + 1)
        - math.lgamma(10_001 - i)
        + i * math.log(value(exact))
        + (10_000 - i) * math.log1p(-value(exact))
        for i in range(201)
    ]
    tail = max(logs) + math.log(sum(math.exp(one - max(logs)) for one in logs))
    assert tail == pytest.approx(math.log(0.05) - 170 * math.log(2), abs=0.02)
    assert tail <= math.log(0.05) - 170 * math.log(2)
    assert value(exact) < value(coded)
    assert [row.kind for row in (printed, corrected, coded, exact)] == ["measure"] * 2 + [
        "certificate"
    ] * 2
    assert [row.form for row in (printed, corrected, coded, exact)] == ["as printed"] + [
        "corrected"
    ] * 3
    assert all(row.about == "g" for row in (printed, corrected, coded, exact))
    # g errs at most where f is unsure, so its own Occam bound is never above.
    assert value(exact) >= binomial_inverse(150, 10_000, math.log(0.05) - 170 * math.log(2))


def test_corollary_a_1_adds_failures_and_counts_an_example_once() -> None:
    failing = replace(CODED, failed=90, unsure_or_failed=250)
    plain, rows = theorem_2_1(CODED), corollary_a_1(failing)
    for at in range(3):
        assert value(rows[at]) == pytest.approx(value(plain[at]) + 0.009, abs=2e-6)
    whole = binomial_inverse(250, 10_000, math.log(0.05) - 170 * math.log(2))
    assert value(rows[3]) == pytest.approx(whole, abs=1e-6)
    assert value(rows[3]) >= whole
    assert value(rows[3]) < binomial_inverse(290, 10_000, math.log(0.05) - 170 * math.log(2))
    refused = theorem_2_1(failing)
    assert all(row.abstains for row in refused)
    assert all("90 of 10000" in row.meaning for row in refused)
    assert [value(row) for row in corollary_a_1(CODED)] == [value(row) for row in plain]


def test_theorem_2_1_without_a_margin_or_a_coder() -> None:
    for rows in (theorem_2_1(replace(CODED, gamma=0.0)), corollary_a_1(replace(CODED, gamma=-1.0))):
        assert len(rows) == 4
        assert all(row.abstains and "not positive" in row.meaning for row in rows)
    measured = theorem_2_1(replace(CODED, bits=None))
    assert [row.abstains for row in measured] == [False, False, True, True]
    assert "γ or" in theorem_2_1(replace(CODED, norm="l2"))[2].meaning
    assert "2γ or" in theorem_2_1(CODED)[2].meaning


def test_a_score_within_gamma_moves_a_margin_by_two_gamma() -> None:
    """Erratum (a): f is right by 1.5γ, every score moves by at most γ, and g is wrong; in ℓ2 γ/√2
    is the limit.
    """
    gamma, f = 0.2, np.array([0.3, 0.0])
    g = f + gamma * np.array([-1.0, 1.0])
    assert f[0] - f[1] > gamma
    assert np.abs(f - g).max() <= gamma
    assert g[0] < g[1]
    rng = np.random.default_rng(1)
    for moved, most in (
        (rng.uniform(-gamma, gamma, (9999, 5)), 2 * gamma),
        (rng.normal(size=(9999, 5)), gamma),
    ):
        if most == gamma:
            moved *= gamma / math.sqrt(2) / np.linalg.norm(moved, axis=1, keepdims=True)
        change = moved[:, 0] - moved[:, 1]
        assert 0.8 * most < np.abs(change).max() <= most * (1 + 1e-12)


def test_theorem_2_1_covers_thresholds_that_were_fitted_to_noise() -> None:
    """Labels are coin flips, so every classifier errs on half; 64 thresholds, 7 bits (6 and the
    direction).
    """
    rng = np.random.default_rng(2)
    m, delta, runs, broken, naive = 60, 0.2, 1500, 0, 0
    grid = (np.arange(64) + 0.5) / 64
    bounds = {}
    for _ in range(runs):
        x, y = rng.uniform(size=m), rng.choice([-1, 1], m)
        wrong = ((x[:, None] > grid) * 2 - 1 != y[:, None]).sum(0)
        fewest = int(min(wrong.min(), (m - wrong).min()))
        if fewest not in bounds:
            base = replace(
                CODED, m=m, delta=delta, unsure=fewest, unsure_or_failed=fewest, below_gamma=fewest
            )
            bounds[fewest] = [value(theorem_2_1(replace(base, bits=bits))[3]) for bits in (7, 0)]
        broken += bounds[fewest][0] < 0.5
        naive += bounds[fewest][1] < 0.5
    spread = math.sqrt(delta * (1 - delta) / runs)
    assert broken / runs <= delta + 3 * spread
    assert naive / runs > delta + 10 * spread  # without the bits the search would have been free


def low_rank_by_hand(
    net: NetFacts, weights: list[Matrix], biases: list[Matrix] | None
) -> tuple[float, float]:
    """(bits of the message, numbers): the derivation in ordinary floats, ranks from Lemma 1."""
    d, biased = len(weights), biases is not None
    j = math.floor(math.log(net.margin) / math.log(1.02) + 1e-9)
    gamma = 1.02**j / 2
    norms = [np.linalg.norm(a, 2) * (1 + 1e-9) for a in weights]
    if biases is not None:
        blocks = [
            [[s, np.linalg.norm(b)]] + ([] if at == d - 1 else [[0.0, 1.0]])
            for at, (s, b) in enumerate(zip(norms, biases, strict=True))
        ]
        lifted = [np.linalg.norm(np.array(block), 2) for block in blocks]
    else:
        lifted = norms
    relative = min(
        1 / d,
        gamma / (math.sqrt(2) * math.e * math.hypot(net.radius, biased) * d * math.prod(lifted)),
    )
    bits, numbers = -math.log2(p(j)), 0
    for at, (a, s, wide) in enumerate(zip(weights, norms, lifted, strict=True)):
        h1, h2 = a.shape
        allowed = relative * wide
        b = np.zeros(h1) if biases is None else biases[at]
        rank = min(h1, h2, math.floor(np.linalg.norm(a) ** 2 / (allowed / 2) ** 2))
        line = math.sqrt(s * rank) * (math.sqrt(h1) + math.sqrt(h2)) + biased * math.sqrt(h1)
        square = rank * math.sqrt(h1 * h2)
        t = (-line + math.sqrt(line**2 + 2 * square * allowed)) / (2 * square)
        choices = []
        for count, off, largest, head in (
            ((h1 + h2) * rank + biased * h1, t, math.sqrt(s), -math.log2(p(rank))),
            (a.size + biased * h1, allowed / math.sqrt(h1 * (h2 + biased)), s, 0.0),
        ):
            e = math.floor(math.log2(2 * off) + 1e-9)
            width = math.ceil(math.log2(2 * max(largest, np.abs(b).max()) / 2.0**e + 2))
            choices.append(
                (count * width + head + 1 - math.log2(p(e)) - math.log2(p(width)), count)
            )
        bits, numbers = bits + min(choices)[0], numbers + min(choices)[1]
    return bits, numbers


def nearly_rank_one(sizes: list[int], seed: int) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    pairs = list(zip(sizes[1:], sizes, strict=False))
    return [np.outer(rng.normal(size=a), rng.normal(size=b)) / math.sqrt(a * b) for a, b in pairs]


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("margin", [0.01, 3.0, 200.0])
def test_theorem_2_2_by_its_formula(biased: bool, margin: float) -> None:
    ranks_were_low = False
    for weights in (random_net([6, 9, 7, 3], 1)[0], nearly_rank_one([80, 90, 70], 2)):
        biases = [0.1 * np.ones(len(a)) for a in weights] if biased else None
        layers = [layer(a, None if biases is None else biases[at]) for at, a in enumerate(weights)]
        x = np.random.default_rng(0).uniform(0, 1, (200, weights[0].shape[1]))
        net = facts(layers, x, margin=margin)
        printed, corrected = theorem_2_2(net)
        bits, numbers = low_rank_by_hand(net, weights, biases)
        assert corrected.factors is not None
        assert corrected.factors["bits"] == pytest.approx(bits)
        assert corrected.factors["numbers"] == numbers
        ranks_were_low |= numbers < sum(one.parameters for one in layers)
        nats = bits * math.log(2) + math.log(1 / 0.05)
        assert corrected.value == pytest.approx(0.05 + math.sqrt(nats / 400))
        norms = [np.linalg.norm(a, 2) * (1 + 1e-9) for a in weights]
        ranks = sum((np.linalg.norm(a) / s) ** 2 for a, s in zip(weights, norms, strict=True))
        capacity = (
            max(map(len, weights))
            * len(weights) ** 2
            * net.radius
            * math.prod(norms) ** 2
            * ranks
            / margin**2
        )
        assert printed.value == pytest.approx(0.05 + math.sqrt(capacity / 200))
        assert printed.about == corrected.about == "f"
        assert printed.kind == corrected.kind == "measure"
    assert ranks_were_low == (margin == 200.0)  # both ways to store a layer were seen


def test_grids_to_a_few_per_cent() -> None:
    """At many scales some grid is near a power of two, where a small slip in the step would
    show.
    """
    (a,) = nearly_rank_one([80, 90], 4)
    x = np.random.default_rng(0).uniform(0, 1, (200, 80))
    weights, biases = random_net([2, 3], 5)
    for scale in np.geomspace(1, 4, 40):
        loose = facts(
            [layer(scale * a)], x, margin=1e6
        )  # the error is the largest that Lemma 9 allows
        small = facts([layer(weights[0], biases[0])], X[:, :2], margin=0.01 * scale)
        for net, by_hand, numbers in (
            (
                loose,
                low_rank_by_hand(loose, [scale * a], None),
                3 * 170,
            ),  # ‖A‖_F²/(½‖A‖₂)², a little below 4
            (small, low_rank_by_hand(small, weights, biases), 9),  # kept, with its biases
        ):
            found = theorem_2_2(net)[1].factors
            assert found is not None
            assert found["numbers"] == numbers
            assert found["bits"] == pytest.approx(by_hand[0])


def test_low_rank_layers_need_fewer_numbers_and_given_ranks_count() -> None:
    weights = nearly_rank_one([6, 60, 50, 3], 2)
    net = facts([layer(a) for a in weights], X, margin=3.0)
    _, whole = theorem_2_2(net)
    _, ranked = theorem_2_2(net, ranks=[1, 1, 1])
    assert ranked.factors is not None
    assert whole.factors is not None
    # 60×6, 50×60 and 3×50 as two factors of rank 1 are 66, 110 and 53 numbers.
    assert ranked.factors["numbers"] == 66 + 110 + 53
    assert ranked.factors["bits"] < whole.factors["bits"]
    _, none = theorem_2_2(net, ranks=[0, 0, 0])
    assert none.factors is not None
    assert none.factors["numbers"] == 0


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_a_net_within_the_stated_errors_stays_within_gamma(biased: bool, seed: int) -> None:
    """Lemma 9: the worst perturbation of the allowed spectral norms that a search finds moves no
    scores too far.
    """
    rng = np.random.default_rng(seed)
    sizes = [6, 5, 3] if seed % 2 else [6, 4, 5, 2]
    weights, biases = random_net(sizes, seed)
    biases = [b if biased else np.zeros_like(b) for b in biases]
    layers = [layer(a, b if biased else None) for a, b in zip(weights, biases, strict=True)]
    x = rng.normal(size=(300, 6))
    net = facts(
        layers, x / np.linalg.norm(x, axis=1, keepdims=True), margin=50.0 if seed < 4 else 1.0
    )
    allowed = [2 * math.exp(one) for one in truncation(net)]  # half for the cut, half for the grid
    limit = net.margin / 2 / math.sqrt(2)

    def distance(inputs: Matrix, deltas: list[Matrix]) -> Matrix:
        moved = [a + change for a, change in zip(weights, deltas, strict=True)]
        return np.linalg.norm(run(moved, biases, inputs) - run(weights, biases, inputs), axis=1)

    found = 0.0
    for _ in range(30):
        inputs = rng.normal(size=(200, 6))
        inputs *= net.radius / np.linalg.norm(inputs, axis=1, keepdims=True)
        deltas = []
        for a, size in zip(weights, allowed, strict=True):
            u, v = rng.normal(size=a.shape[0]), rng.normal(size=a.shape[1])
            u, v = (
                np.abs(u) if rng.random() < 0.5 else u,
                np.abs(v),
            )  # positive ones survive the ReLUs
            aligned = (
                size / np.linalg.norm(a, 2) * a if rng.random() < 0.5 else size * np.outer(u, v)
            )
            deltas.append(aligned * size / np.linalg.norm(aligned, 2))
        for _ in range(15):  # climb from the worst input by random steps on the sphere
            inputs = inputs[np.argmax(distance(inputs, deltas))] + 0.3 * net.radius * rng.normal(
                size=(40, 6)
            )
            inputs *= net.radius / np.linalg.norm(inputs, axis=1, keepdims=True)
            found = max(found, float(distance(inputs, deltas).max()))
    assert 0 < found <= limit
    # One layer, moved along its longest direction: the limit is reached but for the e of the lemma.
    single = facts([layer(weights[0])], x, margin=1e-3)
    reached = 2 * math.exp(truncation(single)[0]) * single.radius
    assert 0.98 * 1e-3 / 2 / math.sqrt(2) <= reached * math.e <= 1e-3 / 2 / math.sqrt(2)


def test_a_net_that_is_cut_off_and_rounded_as_stated_stays_within_gamma() -> None:
    """The whole of Theorem 2.2 on a net: ranks below Lemma 1's, half of each layer's error for the
    cut, half for t.
    """
    rng = np.random.default_rng(7)
    weights = [a + 1e-3 * rng.normal(size=a.shape) for a in nearly_rank_one([80, 90, 70], 3)]
    x = rng.normal(size=(400, 80))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    net = facts([layer(a) for a in weights], x, margin=0.4)
    moved, ranks = [], []
    for a, half in zip(weights, map(math.exp, truncation(net)), strict=True):
        u, s, vt = np.linalg.svd(a)
        rank = int((s > half).sum())
        assert rank <= np.linalg.norm(a) ** 2 / half**2
        ranks.append(rank)
        line, square = (
            math.sqrt(s[0] * rank) * (math.sqrt(len(u)) + math.sqrt(len(vt))),
            rank * math.sqrt(a.size),
        )
        step = 2.0 ** math.floor(
            math.log2((-line + math.sqrt(line**2 + 4 * square * half)) / square)
        )
        left, right = u[:, :rank] * np.sqrt(s[:rank]), np.sqrt(s[:rank])[:, None] * vt[:rank]
        moved.append((np.rint(left / step) * step) @ (np.rint(right / step) * step))
        assert np.linalg.norm(moved[-1] - a, 2) <= 2 * half
    none = [np.zeros(len(a)) for a in weights]
    assert np.linalg.norm(
        run(moved, none, x) - run(weights, none, x), axis=1
    ).max() <= 0.2 / math.sqrt(2)
    assert max(ranks) < 70
    counted = theorem_2_2(net, ranks)[1].factors
    assert counted is not None
    assert counted["numbers"] == 170 * ranks[0] + 160 * ranks[1]


def test_factors_rounded_on_the_stated_grid_stay_within_half_of_the_error() -> None:
    """The derivation behind the grid: entries of U√Σ and √ΣVᵀ off by t, adversarially signed,
    against the formula.
    """
    rng = np.random.default_rng(5)
    for h1, h2, rank in ((5, 4, 2), (8, 3, 3), (2, 9, 1)):
        u, s, vt = np.linalg.svd(rng.normal(size=(h1, h2)), full_matrices=False)
        left, right = u[:, :rank] * np.sqrt(s[:rank]), np.sqrt(s[:rank])[:, None] * vt[:rank]
        assert max(np.abs(left).max(), np.abs(right).max()) <= math.sqrt(s[0])
        for half in (1e-3, 0.3, 5.0):
            line, square = (
                math.sqrt(s[0] * rank) * (math.sqrt(h1) + math.sqrt(h2)),
                rank * math.sqrt(h1 * h2),
            )
            t = (-line + math.sqrt(line**2 + 4 * square * half)) / (2 * square)
            assert line * t + square * t * t == pytest.approx(half)
            for _ in range(200):
                off = (left + t * rng.choice([-1, 1], left.shape)) @ (
                    right + t * rng.choice([-1, 1], right.shape)
                )
                assert np.linalg.norm(off - left @ right, 2) <= half


def test_low_rank_rows_abstain_and_say_why() -> None:
    weights, _ = random_net([6, 9, 3], 3)
    net = facts([layer(a) for a in weights], X)
    cases = [
        (replace(net, margin=-0.1), "is not positive"),
        (replace(net, is_chain=False, not_a_chain_because="a is read twice"), "read twice"),
        (facts([layer(np.zeros((9, 6))), layer(np.ones((3, 9)))], X), "zero"),
        (
            facts(
                [replace(layer(np.ones((9, 6))), spectral_upper=math.inf), layer(np.ones((3, 9)))],
                X,
            ),
            "infinite",
        ),
    ]
    for one, words in cases:
        rows = theorem_2_2(one)
        assert [row.form for row in rows] == ["as printed", "corrected"]
        assert all(row.abstains and row.vacuous and words in row.meaning for row in rows)


def test_low_rank_rows_move_as_they_should_and_survive_beyond_floats() -> None:
    weights, biases = random_net([6, 9, 3], 3)
    net = facts([layer(a, b) for a, b in zip(weights, biases, strict=True)], X, margin=1.5)
    small = value(theorem_2_2(net)[1])
    assert value(theorem_2_2(replace(net, margin=15.0))[1]) < small
    assert value(theorem_2_2(replace(net, radius=100.0))[1]) > small
    pooled = replace(net, layers=(replace(net.layers[0], lipschitz=4.0), net.layers[1]))
    assert value(theorem_2_2(pooled)[1]) > small
    shrunk = replace(net, layers=(replace(net.layers[0], lipschitz=0.25), net.layers[1]))
    # biases: the constant input passes a pool unchanged
    assert value(theorem_2_2(shrunk)[1]) == small
    weights, _ = random_net([6, 6, 3], 8)
    huge = facts([layer(1e100 * weights[0])] * 8 + [layer(weights[1])], X)
    assert math.isfinite(value(theorem_2_2(huge)[1]))  # some thousand bits a number
    assert theorem_2_2(huge)[0].log10 > 700  # type: ignore[operator]


def test_numbers_on_the_grid_move_a_projected_layer_by_its_share_and_no_norm_is_kept() -> None:
    """‖Â - Ã‖_F ≤ (ν/2)√n for sign matrices, |⟨A, M⟩| ≤ √n‖A‖_F; E‖Ã‖_F² = (1 + (n - 1)/k)‖A‖_F²,
    not (1 + 1/d)².
    """
    rng = np.random.default_rng(4)
    a = rng.normal(size=30)
    norm, k, step = float(np.linalg.norm(a)), 6, 0.37
    squares = []
    for _ in range(4000):
        signs = rng.choice([-1.0, 1.0], (k, 30))
        numbers = signs @ a
        assert np.abs(numbers).max() <= math.sqrt(30) * norm
        change = signs.T @ (np.rint(numbers / step) * step - numbers) / k
        assert np.linalg.norm(change) <= step / 2 * math.sqrt(30)
        squares.append(float(((signs.T @ numbers / k) ** 2).sum()))
    exact = (1 + 29 / k) * norm**2
    assert np.mean(squares) == pytest.approx(
        exact, abs=5 * np.std(squares) / math.sqrt(len(squares))
    )
    assert exact > 2**2 * norm**2  # d = 1: the paper's β(1 + 1/d) is below even the mean
