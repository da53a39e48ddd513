"""Errata d, e, f, g and i of Guha 2023 and its printed counts, each as a test: what is printed is
wrong, ours holds.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.theorems.test_pruning_bounds import FACTS, SAMPLE, rows_of
from torch import nn

from cushion.compressors.pruning.method import PruneOptions
from cushion.compressors.run import compress_model
from cushion.data.dataset import Dataset
from cushion.theorems.pruning import keep_probability
from cushion.theorems.pruning_bounds import (
    PrunedFacts,
    PrunedLayerFacts,
    naive_nats,
    naive_nats_printed,
    sketch_nats_printed,
    sketch_numbers,
)

# Guha 2023, Table 1: "Ours", by the width of the four hidden layers.
TABLE_1 = {500: 3.36, 784: 3.77, 1000: 4.00, 1500: 4.40, 2000: 4.73, 2500: 4.96}


def mlp(width: int, rho: float) -> PrunedFacts:
    shapes = [(width, 784), *[(width, width)] * 3, (10, width)]
    layers = tuple(
        PrunedLayerFacts(r, c, r * c // 2, keep_probability(1.0), rho, 2, c // 2, r // 2, 1.0)
        for r, c in shapes
    )
    exact = replace(SAMPLE, below_gamma=0, unsure=0, failed=0, unsure_or_failed=0)
    return PrunedFacts(exact, layers, measured=False, gamma_needed=None)


def test_i_the_tables_hold_natural_logarithms() -> None:
    # The width alone decides how the formula grows; d and ρ are one common factor. Its natural
    # logarithm follows the table over five times the width, its logarithm to base 10 does not.
    values = {
        width: rows_of(mlp(width, 0.5))["sketch count", "as plotted"].value for width in TABLE_1
    }
    factor = math.exp(np.mean([TABLE_1[width] - math.log(values[width]) for width in TABLE_1]))
    for width, printed in TABLE_1.items():
        assert math.log(factor * values[width]) == pytest.approx(printed, abs=0.05)
    grown = values[2500] / values[500]
    assert math.log10(grown) < 0.5 * (TABLE_1[2500] - TABLE_1[500])
    assert math.exp(TABLE_1[500]) > 1  # and so every one of them is vacuous
    # The common factor is a plausible one: χ·ln(1/ρ) ≈ 0.34 in place of ours.
    assert 0.5 < factor < 2


def one_layer(weight: float, x: float) -> tuple[nn.Module, Dataset]:
    net = nn.Sequential(nn.Linear(1, 2, bias=False)).eval()
    net[0].weight.data = torch.tensor([[weight], [-0.01 * weight]])
    return net, Dataset(
        "one number", np.full((4, 1), x, dtype=np.float32), np.zeros(4, dtype=np.int64), 2
    )


def test_d_the_printed_dimension_stands_for_the_length_of_the_longest_input() -> None:
    # One number as input: d_1^0 = 1, and x = 10. The output moves by ‖Δ‖₂·10, more than the printed
    # e·1·‖Δ‖₂.
    net, data = one_layer(1.0, 10.0)
    found = compress_model(
        net, data, method="magnitude", options=PruneOptions(sparsity=(0.5,), grid="16", gamma=1.0)
    )
    layer = found.summary.layers[0]
    assert layer.shift == pytest.approx(0.01)
    moved = found.summary.output_error
    assert moved == pytest.approx(0.1, rel=1e-2)
    assert moved > math.e * 1 * layer.shift  # the bound as printed, with one layer
    check = next(one for one in found.summary.promises if one.name == "Lemma 4.3")
    assert check.held  # with max‖x‖ = 10
    assert check.worst_ratio == pytest.approx(1 / math.e, rel=1e-3)


def test_e_rounding_moves_a_layer_by_half_a_step_times_the_root_of_its_weights() -> None:
    generator = torch.Generator().manual_seed(2)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 40, bias=False)).eval()
    net[1].weight.data = torch.randn(40, 64, generator=generator)
    x = np.random.default_rng(0).uniform(0, 1, (9, 1, 8, 8)).astype(np.float32)
    data = Dataset("noise", x, np.arange(9) % 3, 3)
    options = PruneOptions(sparsity=(0.5,), grid="4", gamma=1.0)
    layer = compress_model(net, data, method="magnitude", options=options).summary.layers[0]
    assert layer.rounding <= layer.rounding_limit
    assert layer.rounding_limit == pytest.approx(layer.rho / 2 * math.sqrt(layer.kept))
    # far too much, which is safe but says nothing
    assert layer.rounding_printed == layer.rho * layer.kept
    assert layer.rounding_printed / layer.rounding_limit == pytest.approx(2 * math.sqrt(layer.kept))


def test_the_printed_logarithm_of_one_over_rho_is_no_count_of_values() -> None:
    # Weights up to 2 on a grid of ½ have 8 non-zero values each, and 1/ρ = 2: more matrices than
    # the lemma counts.
    layer = PrunedLayerFacts(1, 4, 3, 0.5, 0.5, 8, 3, 1, 1.0)
    values = [step / 2 for step in range(-4, 5)]
    listed = sum(sum(v != 0 for v in one) == 3 for one in itertools.product(values, repeat=4))
    assert math.exp(naive_nats_printed(layer)) < listed / 50
    assert math.exp(naive_nats(layer)) == pytest.approx(listed)


def test_f_a_sketch_of_a_flat_matrix_has_more_numbers_than_the_printed_product_of_sides() -> None:
    # 10 x 784 with χ·784 non-zeros in each row, as expected of Algorithm 1: j·p is about χ·784²,
    # and the theorem has 3χ·10·784 (λ = 1): it puts d_1·d_2 where its own Lemma 5.1 has max(d_1,
    # d_2)².
    chi = keep_probability(1.0)
    j = round(784 * chi)
    layer = PrunedLayerFacts(10, 784, 10 * j, chi, math.exp(-1), 2, j, 10, 1.0)
    printed = sketch_nats_printed(layer, 1.0)  # ln(1/ρ) = 1, so it is a number of numbers
    assert sketch_numbers(layer) > 25 * printed


@pytest.mark.parametrize("bits", [6, 8])
def test_g_at_784x784_the_sketch_counts_far_more_than_what_it_replaces(bits: int) -> None:
    chi = keep_probability(1.0)
    layer = PrunedLayerFacts(
        784, 784, round(784 * 784 * chi), chi, 2.0**-bits, 2**bits, 380, 380, 1.0
    )
    rows = rows_of(replace(FACTS, layers=(layer,)))
    assert 70 < rows["sketch count", "as plotted"].factors["over_naive"] < 120
    # with j as measured in place of 3χp
    assert rows["sketch count", "corrected"].factors["over_naive"] > 20
    assert rows["sketch count", "corrected"].value > 4 * rows["naive count", "corrected"].value
