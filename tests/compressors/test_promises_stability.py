"""What Lemmas 3 and 14 are given: cushions, contraction, β and ρ against cushion.measure and by
brute force.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.cases import CASES
from tests.jacobian_cases import activations, brute_jacobian, traced
from torch import nn

import cushion
from cushion.compressors import subject
from cushion.compressors.perturbations import overlap
from cushion.compressors.subject import Subject
from cushion.data.dataset import Dataset
from cushion.data.samples import permutation
from cushion.measures.one_pass import one_pass
from cushion.measures.stability.effective import effective_parameters, kept_rows
from cushion.measures.stability.family import StabilityOptions
from cushion.measures.stability.measurement import measure_terms
from cushion.measures.stability.smoothness import measure_smoothness
from cushion.nets.network import Network
from cushion.nets.tracing import trace
from cushion.theorems.noise_stability import StabilityFacts

NAMED = {case.name: case for case in CASES}
NETS = ["mlp", "mlp-deep", "vgg-tiny", "conv-overlapping", "conv-stride"]


def sample(name: str, rows: int = 9) -> Dataset:
    return Dataset(name, NAMED[name].inputs(rows).numpy(), np.zeros(rows, dtype=np.int64), 3)


def facts_of(net: Network, data: Dataset, **changes: Any) -> StabilityFacts:
    found = subject_of(net, data, **changes).stability
    assert found is not None
    return found


def subject_of(
    net: Network,
    data: Dataset,
    *,
    initial: Network | None = None,
    shared: bool = False,
    seed: int = 0,
    **options: Any,
) -> Subject:
    asked = SimpleNamespace(**{"examples": 50, "zeta": 0.0, **options})
    found = Subject(net, initial, data, "any", asked, 0.1, seed)
    found.shared_kernels = shared
    return found


@pytest.mark.parametrize("name", NETS)
def test_all_numbers_are_those_of_measure(name: str) -> None:
    case, data = NAMED[name], sample(name)
    net = trace(case.module(), case.input_shape)
    found = facts_of(net, data)
    options = StabilityOptions(examples=9, draws=4, attenuation_draws=0, delta=0.0)
    table = cushion.measure(case.module(), data, only="stability", stability=options)
    for mine, theirs in zip(found.layers, table.layers, strict=True):
        assert (mine.name, mine.weights) == (theirs.name, math.prod(theirs.shape))
        assert mine.cushion == pytest.approx(theirs.layer_cushion.value, rel=1e-6)
        assert mine.interlayer == pytest.approx(theirs.minimal_interlayer_cushion.value, rel=1e-6)
        assert mine.beta == pytest.approx(
            1.0 if theirs.jacobian_beta is None else theirs.jacobian_beta.value, rel=1e-6
        )
        assert mine.frobenius > 0
    net_stability = table.net.stability
    assert net_stability is not None
    assert found.contraction == pytest.approx(net_stability.activation_contraction, rel=1e-6)
    scaled = next(
        one
        for one in net_stability.interlayer_smoothness
        if one.kind == "sign-projection" and one.level
    )
    assert scaled.level == 0.1
    assert found.smoothness == (
        math.inf if scaled.value is None else pytest.approx(scaled.value, rel=1e-4)
    )
    assert (found.m, found.delta, found.depth) == (9, 0.1, len(net.affine_layers))
    assert found.width == max(node.affine.operator.output_size for node in net.affine_layers)


@pytest.mark.parametrize("name", ["mlp-deep", "vgg-tiny", "conv-overlapping"])
@pytest.mark.parametrize("shared", [False, True])
def test_all_numbers_by_brute_force(name: str, shared: bool) -> None:
    """μ, μ_→, c and β from whole activations and Jacobians by automatic differentiation.

    `shared` (one kernel at every place): Lemma 3's chain of inequalities, line by line, for layer i
    with n places and a factor w = ⌈κ/s⌉ that Lemma 2 loses for a kernel that is shared, ‖A‖_F the
    kernel's norm:

        ‖J Δ φ(x̂)‖ ≤ ε_i·w·‖J‖_F·‖A‖_F·‖φ(x̂)‖    (Lemma 2 with ‖B‖_F ≤ w‖u‖‖v‖, row by row of J)
                   ≤ ε_i·w·‖J‖_F·‖A‖_F·2c·‖φ(x)‖  (induction hypothesis and contraction)
                   ≤ ε_i·w·‖J‖_F·2c·‖x^i‖/μ_i     (layer cushion, defined with the same ‖A‖_F)
                   = ε_i·w·2c/μ_i · √n·‖J x^i‖/μ_{i,j}
                        (Definition 8: μ_{i,j} = √n·‖J x^i‖/(‖J‖_F‖x^i‖))
                   = 2c·ε_i/(μ_i·μ') · ‖x^j‖  with μ' = μ_{i,j}/(√n·w), ‖J x^i‖ = ‖x^j‖.

    That is the dense chain with μ' for μ_{i→}, so ε_i = ε μ_i μ'/(6cd) makes it ε/(3d)·‖x^j‖. The
    clip 1/√h^i, h^i the channels, becomes 1/(√(h^i n)·w): J^{i,i} is the identity on h^i·n numbers.
    β does not enter.
    """
    net, data = traced(NAMED[name]), sample(name, 5)
    found = facts_of(net, data, shared=shared)
    layers, contraction = net.affine_layers, 0.0
    for i, node in enumerate(layers):
        operator = node.affine.operator
        cushions, onwards, betas = [], [], [1.0]
        places = math.prod(node.shape[1:])
        factor = math.sqrt(places * overlap(operator)) if shared else 1.0
        for row in range(5):
            x = torch.from_numpy(data.x[row : row + 1]).double()
            values = activations(net, x)
            own, before = values[node.index], values[node.inputs[0]]
            linear = operator.apply(before)
            cushions.append(float(linear.norm() / (operator.weight.norm() * before.norm())))
            onwards.append(1 / math.sqrt(node.shape[0]))  # J^{i,i}: √n‖x‖/(√(h n)‖x‖)
            if node is not layers[-1]:
                after = values[layers[i + 1].inputs[0]]
                contraction = max(contraction, float(own.norm() / after.norm()))
            for later in layers[i + 1 :]:
                jacobian = brute_jacobian(net, x, node, later)
                image = jacobian @ own.flatten()
                onwards.append(
                    float(math.sqrt(places) * image.norm() / (jacobian.norm() * own.norm()))
                )
                shares = (
                    jacobian.square().reshape(len(jacobian), -1, places).sum((0, 1))
                    / jacobian.square().sum()
                )
                betas.append(math.sqrt(places * float(shares.max())))
        mine = found.layers[i]
        assert mine.cushion == pytest.approx(min(cushions), rel=1e-7)
        assert mine.interlayer == pytest.approx(np.nanmin(onwards) / factor, rel=1e-7)
        assert mine.beta == pytest.approx(max(betas), rel=1e-7)
        assert (mine.overlap, mine.places) == (overlap(operator), places)
        assert mine.frobenius == pytest.approx(float(operator.weight.norm()))
    assert found.contraction == pytest.approx(max(1.0, contraction), rel=1e-7)


def test_a_dense_net_is_the_same_whether_kernels_are_shared_or_not() -> None:
    net, data = traced(NAMED["mlp-deep"]), sample("mlp-deep")
    assert facts_of(net, data, shared=True) == facts_of(net, data)
    conv, data = traced(NAMED["vgg-tiny"]), sample("vgg-tiny")
    one, other = facts_of(conv, data), facts_of(conv, data, shared=True)
    for at in (0, 1):  # 3 x 3 at stride 1: a factor 3 beside √places
        ratio = one.layers[at].interlayer / other.layers[at].interlayer
        assert ratio == pytest.approx(3 * math.sqrt(8 * 9))
    assert one.layers[2].interlayer / other.layers[2].interlayer == pytest.approx(
        2 * math.sqrt(4)
    )  # stride 2, 2 x 2


@pytest.mark.parametrize("zeta", [0.0, 0.2, 0.29])
def test_zeta_drops_the_examples_of_the_effective_parameters(zeta: float) -> None:
    net, data = traced(NAMED["mlp-deep"]), sample("mlp-deep", 20)
    norms = one_pass(net, data, 256, norms=True, margins=False)
    options = StabilityOptions(examples=20, draws=0, attenuation_draws=0)
    terms, rows = measure_terms(net, data, norms, options)  # type: ignore[arg-type]
    assert rows.tolist() == list(range(20))
    kept = kept_rows(terms, zeta)
    dropped = math.floor(zeta * 20 + 1e-9)
    assert kept.sum() == 20 - dropped
    total = sum(term.each() for term in terms)
    assert sorted(total[~kept]) == sorted(
        sorted(total)[20 - dropped :]
    )  # the worst for the sum over layers
    for term, record in zip(terms, effective_parameters(terms, zeta), strict=True):
        assert record.zeta_value == term.count(kept)
    found = facts_of(net, data, zeta=zeta)
    for mine, term in zip(found.layers, terms, strict=True):
        assert mine.cushion == pytest.approx(np.nanmin(term.cushion[kept]))
        assert mine.interlayer == pytest.approx(np.nanmin(term.minimal[kept]))
        assert mine.beta == pytest.approx(np.nanmax(term.beta[kept]))
    assert found.contraction == pytest.approx(
        max(np.nanmax(term.contraction[kept]) for term in terms)
    )
    if zeta:  # without its worst examples a net is more stable
        assert math.prod(layer.cushion * layer.interlayer for layer in found.layers) > math.prod(
            layer.cushion * layer.interlayer for layer in facts_of(net, data).layers
        )


def test_some_rows_only_but_cushions_and_contraction_of_all() -> None:
    net, data = traced(NAMED["mlp-deep"]), sample("mlp-deep", 30)
    found, all_of_it = facts_of(net, data, examples=4, seed=3), facts_of(net, data)
    # one of the 30 is blocked by all units of a layer
    assert found.contraction == all_of_it.contraction == math.inf
    assert [layer.cushion for layer in found.layers] == [
        layer.cushion for layer in all_of_it.layers
    ]
    assert found.m == 30  # the lemma's union bound is over the sample
    rows = np.sort(permutation(30, 3)[:4])
    alone = facts_of(net, data.select(rows, "4"))
    assert [layer.interlayer for layer in found.layers] == pytest.approx(
        [layer.interlayer for layer in alone.layers]
    )
    kept = facts_of(net, data, examples=4, seed=3, zeta=0.25)  # with ζ only what was kept has a say
    assert kept.contraction <= alone.contraction


def test_from_the_initialisation_cushions_are_those_of_the_distance() -> None:
    net, data = traced(NAMED["mlp-deep"]), sample("mlp-deep")
    start = net.with_affine(
        {
            node.index: type(node.affine)(
                node.affine.operator.with_weight(0.9 * node.affine.operator.weight),
                node.affine.bias,
                node.affine.kind,
            )
            for node in net.affine_layers
        }
    )
    far, near = facts_of(net, data), facts_of(net, data, initial=start)
    for one, other in zip(far.layers, near.layers, strict=True):
        assert other.frobenius == pytest.approx(0.1 * one.frobenius)
        assert other.cushion == pytest.approx(10 * one.cushion)
        assert other.interlayer == one.interlayer


def test_rho_is_measured_on_the_rows_that_are_kept_with_the_noise_of_the_method(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def record(net: Network, data: Dataset, noises: Any, **options: Any) -> Any:
        seen.append((len(data), noises[0].kind, noises[0].level))
        return measure_smoothness(net, data, noises, **options)

    monkeypatch.setattr(subject, "measure_smoothness", record)
    net, data = traced(NAMED["mlp-deep"]), sample("mlp-deep", 10)
    facts_of(net, data, zeta=0.3)
    facts_of(net, data, initial=traced(NAMED["mlp-deep"]).with_affine(_half(net)))
    assert seen == [(7, "sign-projection", 0.1), (10, "from-initialisation", 0.1)]


def _half(net: Network) -> dict[int, Any]:
    return {
        node.index: type(node.affine)(
            node.affine.operator.with_weight(node.affine.operator.weight / 2),
            node.affine.bias,
            node.affine.kind,
        )
        for node in net.affine_layers
    }


def test_what_has_no_cushions() -> None:
    residual, data = traced(NAMED["residual"]), sample("residual")
    assert subject_of(residual, data, examples=9).stability is None
    linear = traced(NAMED["linear-only"])
    one = facts_of(linear, sample("linear-only"))
    assert (one.depth, one.smoothness, one.contraction, one.why_not) == (1, None, 1.0, "")
    torch.manual_seed(0)
    straight = nn.Sequential(nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 3, bias=False))
    for part in straight.parameters():
        part.data.uniform_(0.5, 1.0)
    x = np.random.default_rng(0).uniform(0.1, 1, (6, 4)).astype(np.float32)
    never = facts_of(trace(straight, (4,)), Dataset("positive", x, np.zeros(6, dtype=np.int64), 3))
    assert (never.smoothness, never.contraction) == (math.inf, 1.0)  # no unit ever switches
