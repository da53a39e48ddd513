"""The induction of Lemmas 3 and 14 by brute force, and when its promise counts as made, held and
broken.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.cases import CASES
from tests.jacobian_cases import activations, traced

from cushion.compressors import lemmas
from cushion.compressors.lemmas import (
    LayerErrors,
    Lemma,
    follow_induction,
    induction_check,
    worst_kept,
)
from cushion.compressors.projection.checks import lemma_9, why_no_induction, within_margin
from cushion.compressors.records import PromiseCheck
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.measures.margins import sample_margins
from cushion.nets.network import Network
from cushion.theorems.noise_stability import LayerStabilityFacts, StabilityFacts, lemma_3, lemma_14

CHAINS = ["mlp", "mlp-deep", "conv-padding", "vgg-tiny", "batchnorm-first", "conv-batchnorm"]
NAMED = {case.name: case for case in CASES}
REST = ("gaps", "largest_gaps", "sizes", "margins")


def moved(net: Network, seed: int = 0) -> Network:
    """The net with every weight and bias off by some percent."""
    generator = torch.Generator().manual_seed(seed)
    changes = {}
    for node in net.affine_layers:
        weight, bias = node.affine.operator.weight, node.affine.bias
        noise = 0.05 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        shifted = (
            None
            if bias is None
            else bias + 0.02 * torch.randn(len(bias), generator=generator, dtype=bias.dtype)
        )
        changes[node.index] = replace(
            node.affine, operator=node.affine.operator.with_weight(weight + noise), bias=shifted
        )
    return net.with_affine(changes)


def sample(name: str, rows: int = 11) -> Dataset:
    case = NAMED[name]
    x = case.inputs(rows).numpy()
    classes = traced(case).classes
    return Dataset(name, x, np.arange(rows) % classes, classes)


def brute(net: Network, other: Network, x: torch.Tensor, first: int) -> dict[int, torch.Tensor]:
    """Every node's output in the net whose first so many layers are the other's, run whole."""
    mixed = net.with_affine(
        {node.index: other.nodes[node.index].affine for node in net.affine_layers[:first]}
    )
    return activations(mixed, x)


def norms(t: torch.Tensor) -> np.ndarray:
    return torch.linalg.vector_norm(t.flatten(1), dim=1).numpy()


@pytest.mark.parametrize("name", [*CHAINS, "residual", "dense", "methods"])
def test_every_error_is_that_of_the_net_with_its_first_layers_replaced(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lemmas, "_ACTIVATIONS", 1500)  # several shards
    net, data = traced(NAMED[name]), sample(name)
    other, x = moved(net), torch.from_numpy(data.x).double()
    found, clean = follow_induction(net, other, data), activations(net, x)
    layers = net.affine_layers
    for i, node in enumerate(layers):
        seen, before = brute(net, other, x, i + 1), brute(net, other, x, i)
        for j in range(i, len(layers)):
            at = layers[j].index
            if (i, j) in found.errors:
                expected = norms(seen[at] - clean[at]) / norms(clean[at])
                assert found.errors[i, j] == pytest.approx(expected, rel=1e-9)
                assert expected.max() > 1e-4
            else:  # layer j does not read layer i, so compressing it changes nothing there
                assert not net.is_chain
                assert at not in net.descendants(node.index)
                assert torch.equal(seen[at], before[at])
    if net.is_chain:
        assert set(found.errors) == {(i, j) for j in range(len(layers)) for i in range(j + 1)}
    scores, changed = clean[net.nodes[-1].index], other.forward(x)
    assert found.gaps == pytest.approx(norms(changed - scores), rel=1e-9)
    assert found.largest_gaps == pytest.approx((changed - scores).abs().amax(1).numpy(), rel=1e-9)
    assert found.sizes == pytest.approx(norms(scores), rel=1e-9)
    assert found.relative == pytest.approx(norms(changed - scores) / norms(scores), rel=1e-9)
    assert found.margins == pytest.approx(
        sample_margins(changed, torch.from_numpy(data.y)).numpy(), rel=1e-9
    )


@pytest.mark.parametrize("name", ["vgg-tiny", "residual"])
def test_without_the_layers_the_scores_are_the_same(name: str) -> None:
    net, data = traced(NAMED[name]), sample(name)
    other = moved(net)
    whole = follow_induction(net, other, data)
    last = follow_induction(net, other, data, scores=whole.scores)
    assert last.errors == {}
    for part in REST:
        assert getattr(whole, part) == pytest.approx(getattr(last, part), rel=1e-12)


def test_a_net_that_did_not_change_errs_nowhere() -> None:
    net, data = traced(NAMED["residual"]), sample("residual")
    found = follow_induction(net, net, data)
    assert all((values == 0).all() for values in found.errors.values())
    assert not found.gaps.any()


def test_where_the_output_is_zero_an_error_is_infinite_and_agreement_is_none() -> None:
    net = traced(NAMED["mlp-no-bias"])
    x = np.zeros((2, 3, 2, 2), dtype=np.float32)
    x[1] = 1.0
    data = Dataset("zero", x, np.array([0, 1]), 4)
    last = net.affine_layers[-1]
    shifted = replace(
        last.affine, bias=torch.full((4,), 0.5, dtype=torch.float64)
    )  # f(0) = 0 becomes 0.5
    found = follow_induction(net, net.with_affine({last.index: shifted}), data)
    assert found.errors[1, 1][0] == math.inf == found.relative[0]
    assert 0 < found.relative[1] < math.inf
    assert found.errors[0, 0].tolist() == [0.0, 0.0]  # 0 moved by 0
    assert found.sizes[0] == 0


def test_scores_that_are_not_finite_get_one_sentence() -> None:
    net, data = traced(NAMED["mlp"]), sample("mlp")
    huge = {  # 1e200 twice is beyond float64
        node.index: replace(
            node.affine,
            operator=node.affine.operator.with_weight(node.affine.operator.weight * 1e200),
        )
        for node in net.affine_layers
    }
    for scores in (None, np.zeros((len(data), net.classes))):
        with pytest.raises(BadInput, match="not finite near row 0"):
            follow_induction(net, net.with_affine(huge), data, scores=scores)


# ---- what counts as a promise


def test_the_worst_that_is_kept() -> None:
    ratios = np.array([0.5, 3.0, 0.1, 2.0])
    assert [worst_kept(ratios, zeta) for zeta in (0.0, 0.24, 0.25, 0.5, 0.99)] == [
        3.0,
        3.0,
        2.0,
        0.5,
        0.1,
    ]
    # an example without say never counts ...
    assert worst_kept(np.array([np.nan, 0.4, np.nan]), 0.0) == 0.4
    # ... but is one of the n of which ⌊ζn⌋ may fail
    assert worst_kept(np.array([np.nan, 0.4, 0.7]), 1 / 3) == 0.4
    assert worst_kept(np.array([np.inf, 0.4]), 0.0) == math.inf
    assert worst_kept(np.array([np.nan, np.nan]), 0.0) == 0.0
    hundred = np.arange(100.0)
    assert worst_kept(hundred, 0.29) == 70.0  # 0.29 · 100 is 28.999... in floating point


def errors_of(
    values: dict[tuple[int, int], list[float]], gaps: list[float] | None = None
) -> LayerErrors:
    n = len(next(iter(values.values())))
    one = np.ones(n)
    seen = {pair: np.array(part) for pair, part in values.items()}
    return LayerErrors(seen, one if gaps is None else np.array(gaps), one, one, one, one)


ERRORS = {(0, 0): [0.1, 0.2], (0, 1): [0.2, 0.1], (1, 1): [0.3, 0.5]}


def test_the_induction_is_held_to_i_over_d_times_epsilon() -> None:
    lemma = Lemma("Lemma 3", "Arora 2018")
    check = induction_check(lemma, errors_of(ERRORS), 0.4, "", 0.0)
    assert check.worst_ratio == pytest.approx(0.5 / 0.4)  # (1, 1): all of ε
    assert (check.held, check.cases, check.source) == (False, 6, "Arora 2018, Lemma 3")
    later = {**ERRORS, (0, 1): [0.45, 0.1]}
    check = induction_check(lemma, errors_of(later), 0.6, "", 0.0)
    assert check.worst_ratio == pytest.approx(0.45 / 0.3)  # (0, 1): half of ε, wherever it is seen
    check = induction_check(lemma, errors_of(later), 0.6, "", 0.5)
    assert check.held is True  # without its worst example
    assert check.worst_ratio == pytest.approx(0.5 / 0.6)
    assert induction_check(lemma, errors_of(ERRORS), 0.5, "", 0.0).held is True
    unproved = induction_check(lemma, errors_of(ERRORS), 0.4, "of something", 0.0)
    assert (unproved.held, unproved.worst_ratio) == (None, pytest.approx(1.25))
    assert "not promised here: of something" in unproved.meaning


def stability(smoothness: float | None = math.inf) -> StabilityFacts:
    layers = tuple(LayerStabilityFacts(name, 50, 1.0, 0.8, 0.5) for name in ("fc1", "fc2"))
    return StabilityFacts(layers, 1.2, 30, 10, smoothness, 0.05)


def test_why_there_is_no_induction() -> None:
    counts = lemma_3(stability(), 0.5)
    needed = [int(layer.projections) for layer in counts.layers]
    fine, shares = [0.01, 0.01], [0.02, 0.02]
    assert why_no_induction(counts, needed, fine, shares, "") == ""
    assert (
        why_no_induction(None, needed, fine, shares, "") == "cushions are not defined for this net"
    )
    assert why_no_induction(counts, needed, fine, shares, "biases") == "biases"
    one_less = why_no_induction(counts, [needed[0], needed[1] - 1], fine, shares, "")
    assert one_less == "fc2 got a smaller k than the lemma asks for"
    assert "`number_bits`" in why_no_induction(counts, needed, [0.01, 0.021], shares, "")
    assert "fc1" in why_no_induction(
        counts, needed, [math.nan, 0.01], shares, ""
    )  # what is unknown is no proof
    for rho in (5.99, None):  # below 3d = 6, or never measured
        assert "3d = 6" in why_no_induction(
            lemma_3(stability(rho), 0.5), needed, fine, shares, "biases"
        )
    assert why_no_induction(lemma_3(stability(6.0), 0.5), needed, fine, shares, "") == ""
    many = [10**12, 10**12]
    assert "Lemma 12" in why_no_induction(lemma_14(stability(), 0.5), many, fine, shares, "")


def test_the_scores_against_lemma_9_and_the_margin() -> None:
    errors = errors_of(ERRORS, gaps=[0.3, 0.0])
    held = lemma_9(np.array([0.4, 0.0]), errors, "why")
    assert (held.held, held.worst_ratio, held.cases) == (True, pytest.approx(0.75), 2)
    broken = lemma_9(np.array([0.2, 0.0]), errors, "why")
    assert (broken.held, broken.worst_ratio) == (False, pytest.approx(1.5))
    # nothing was allowed
    assert lemma_9(np.array([0.0, 0.0]), errors, "why").worst_ratio == math.inf
    silent: PromiseCheck = lemma_9(None, errors, "why")
    assert (silent.held, silent.worst_ratio, silent.meaning) == (None, None, "why")
    gamma = 0.3 * math.sqrt(2.0)
    assert within_margin(gamma * 1.001, errors).held is True
    assert within_margin(gamma * 0.999, errors).held is False
    assert within_margin(gamma * 0.5, errors).worst_ratio == pytest.approx(2.0)
