"""Interlayer cushions, β and bias gaps of all pairs against brute-force Jacobians and the
definitions themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from tests.cases import CASES, Case
from tests.jacobian_cases import activations, brute_jacobian, pairs, traced
from torch import Tensor, nn

from cushion.data import Dataset
from cushion.measures.stability.interlayer import Pairs, measure_pairs, sampled_spreads
from cushion.measures.stability.jacobians import PairSquares, pair_squares, plan_jacobians
from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Network, Node
from cushion.nets.tracing import trace

NETS = [case for case in CASES if len(case.layers) > 1]
CHAINS = [case for case in NETS if case.chain]
each_net = pytest.mark.parametrize("case", NETS, ids=lambda case: case.name)
each_chain = pytest.mark.parametrize("case", CHAINS, ids=lambda case: case.name)
MODULE = "cushion.measures.probing"


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def sample(x: Tensor) -> Dataset:
    return Dataset("noise", x.float().numpy(), np.arange(len(x)) % 2, 2)


@pytest.fixture(autouse=True)
def _in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are float32 in a sample; here the arithmetic after them is float64, so that rounding
    hides nothing.
    """
    monkeypatch.setattr(f"{MODULE}.as_batch", lambda x: torch.from_numpy(np.array(x)).double())


def measured(net: Network, x: Tensor, batch: int = 100, places: int = 0, seed: int = 0) -> Pairs:
    return measure_pairs(
        net, sample(x), plan_jacobians(net, 0, "exact"), places=places, seed=seed, batch=batch
    )


def batch_of(case: Case, m: int) -> Tensor:
    return case.inputs(m).double()


def by_definition(
    net: Network, x: Tensor, i: Node, j: Node
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """J, x^i and x^j of every example."""
    for b in range(len(x)):
        values = activations(net, x[b : b + 1])
        yield (
            brute_jacobian(net, x[b : b + 1], i, j),
            values[i.index].flatten(),
            values[j.index].flatten(),
        )


@each_net
def test_every_pair_is_definitions_5_8_and_9(case: Case) -> None:
    net, x = traced(case), batch_of(case, 3)
    found = measured(net, x)
    later: dict[int, list[list[float]]] = {}
    for i, j in pairs(net):
        area = math.prod(i.shape[1:])
        each = list(by_definition(net, x, i, j))
        if not any(jacobian.any() for jacobian, _, _ in each):
            assert (i.index, j.index) not in found.cushions or np.isnan(
                found.cushions[i.index, j.index]
            ).all()
            continue
        ratios, gaps, betas = [], [], []
        for jacobian, own, after in each:
            image = float((jacobian @ own).norm())
            frobenius = float(jacobian.norm())
            ratios.append(
                image * math.sqrt(area) / (frobenius * float(own.norm())) if frobenius else math.nan
            )
            gaps.append(abs(image - float(after.norm())) / float(after.norm()))
            places = jacobian.reshape(-1, i.shape[0], area).square().sum((0, 1)).sqrt()
            betas.append(
                float(places.max()) * math.sqrt(area) / frobenius if frobenius else math.nan
            )
        key = i.index, j.index
        assert np.allclose(found.cushions[key], ratios, rtol=1e-8, atol=1e-12, equal_nan=True), (
            i.name,
            j.name,
        )
        assert np.allclose(found.gaps[key], gaps, rtol=1e-7, atol=1e-9), (i.name, j.name)
        alive = np.isfinite(betas)
        assert np.allclose(found.betas[key][alive], np.array(betas)[alive], rtol=1e-8), (
            i.name,
            j.name,
        )
        assert key not in found.errors
        later.setdefault(i.index, []).append(ratios)
    for i in net.affine_layers:
        clip = 1 / math.sqrt(i.shape[0])
        minimal = found.minimal(i)
        assert minimal.clip == pytest.approx(clip)
        smallest = np.nanmin(later[i.index]) if i.index in later else math.inf
        assert minimal.value == pytest.approx(min(clip, smallest), rel=1e-8)
        if i.index in later:
            own = np.fmin.reduce(np.array(later[i.index]))
            assert np.allclose(found.unclipped(i), own, rtol=1e-8, equal_nan=True)  # type: ignore[arg-type]
            assert minimal.unclipped is not None
            assert minimal.unclipped.value == pytest.approx(smallest, rel=1e-8)
            record = found.interlayer(i)
            assert record is not None
            assert record.value == pytest.approx(smallest, rel=1e-8)
            assert all(pair.exact and pair.standard_error is None for pair in record.pairs)
        else:
            assert found.interlayer(i) is None
            assert minimal.unclipped is None
    if case.chain:
        assert all(found.minimal(i).all_pairs for i in net.affine_layers)


@each_chain
def test_the_inequality_holds_on_all_of_s_with_equality_somewhere(case: Case) -> None:
    net, x = traced(case), batch_of(case, 4)
    found = measured(net, x)
    for i in net.affine_layers[:-1]:
        record = found.interlayer(i)
        assert record is not None
        by_name = {pair.to: pair for pair in record.pairs}
        later = [j for source, j in pairs(net) if source is i]
        assert by_name.keys() == {j.name for j in later}
        for j in later:
            pair, slack = by_name[j.name], []
            for jacobian, own, _ in by_definition(net, x, i, j):
                bound = (
                    pair.value
                    / math.sqrt(math.prod(i.shape[1:]))
                    * float(jacobian.norm() * own.norm())
                )
                slack.append(float((jacobian @ own).norm()) - bound)
                assert slack[-1] >= -1e-9 * max(bound, 1e-30)
            assert min(slack) <= 1e-8 * max(pair.value, 1e-3)


@each_net
def test_beta_of_a_layer_is_the_worst_of_its_pairs_and_at_least_one(case: Case) -> None:
    net, x = traced(case), batch_of(case, 3)
    found = measured(net, x)
    for i in net.affine_layers:
        own = {j: values for (source, j), values in found.betas.items() if source == i.index}
        record = found.beta(i)
        if not own:
            assert i is net.affine_layers[-1] or record is None
            assert record is None or record.value == 1.0
            continue
        assert record is not None
        assert record.value == pytest.approx(
            max(np.nanmax(values) for values in own.values()), rel=1e-12
        )
        assert record.to == tuple(net.nodes[j].name for j in sorted(own))
        area = math.prod(i.shape[1:])
        for values in own.values():
            alive = values[np.isfinite(values)]
            assert (alive >= 1 - 1e-9).all()
            assert (alive <= math.sqrt(area) * (1 + 1e-9)).all()
            if len(i.shape) == 1:
                assert (alive == 1.0).all()


def test_linear_dense_nets_in_closed_form() -> None:
    """Without ReLU J^{i,j} is the product of the matrices, the same at every example."""
    generator = torch.Generator().manual_seed(3)
    sizes = [5, 6, 4, 7, 3]
    weights = [torch.randn(b, a, generator=generator) for a, b in pairwise(sizes)]
    module = nn.Sequential(*(nn.Linear(w.shape[1], w.shape[0], bias=False) for w in weights))
    with torch.no_grad():
        for layer, w in zip(module, weights, strict=True):
            layer.weight.copy_(w)
    net, x = trace(module, (5,)).double(), torch.randn(6, 5, generator=generator)
    found = measured(net, x)
    for a in range(4):
        own = x.double()
        for w in weights[: a + 1]:
            own = own @ w.double().T
        for b in range(a + 1, 4):
            product = torch.eye(sizes[a + 1], dtype=torch.float64)
            for w in weights[a + 1 : b + 1]:
                product = w.double() @ product
            expected = (own @ product.T).norm(dim=1) / (product.norm() * own.norm(dim=1))
            key = net.affine_layers[a].index, net.affine_layers[b].index
            assert np.allclose(found.cushions[key], expected.numpy(), rtol=1e-9)
            assert np.allclose(found.gaps[key], 0, atol=1e-12)


def test_pointwise_convolutions_in_closed_form() -> None:
    """A 1x1 convolution acts place by place: √(n₁n₂) cancels, and every place has the same share,
    so β = 1.
    """
    generator = torch.Generator().manual_seed(4)
    module = nn.Sequential(nn.Conv2d(2, 3, 1, bias=False), nn.Conv2d(3, 4, 1, bias=False))
    weights = [torch.randn(layer.weight.shape, generator=generator) for layer in module]
    with torch.no_grad():
        for layer, w in zip(module, weights, strict=True):
            layer.weight.copy_(w)
    net = trace(nn.Sequential(*module, nn.Flatten()), (2, 3, 5)).double()
    x = torch.randn(4, 2, 3, 5, generator=generator).double()
    found = measured(net, x)
    first, second = (w.double()[:, :, 0, 0] for w in weights)
    own = torch.einsum("oc,bchw->bohw", first, x)
    expected = torch.einsum("oc,bchw->bohw", second, own).flatten(1).norm(dim=1)
    expected = expected / (second.norm() * own.flatten(1).norm(dim=1))
    key = tuple(node.index for node in net.affine_layers)
    assert np.allclose(found.cushions[key], expected.numpy(), rtol=1e-9)  # type: ignore[index]
    assert np.allclose(found.betas[key], 1.0, rtol=1e-9)  # type: ignore[index]
    assert found.minimal(net.affine_layers[0]).clip == pytest.approx(1 / math.sqrt(3))


@each_chain
def test_rescaled_layers_have_the_same_cushions(case: Case) -> None:
    """Weights times a_l, biases times a_1 ... a_l: every x^l grows by a_1 ... a_l, and no cushion
    changes.
    """
    net, x = traced(case), batch_of(case, 3)
    changes, product = {}, 1.0
    for at, node in enumerate(net.affine_layers):
        factor = (0.2, 3.0, 11.0)[at % 3]
        product *= factor
        operator, bias = node.affine.operator, node.affine.bias
        changes[node.index] = replace(
            node.affine,
            operator=operator.with_weight(operator.weight * factor),
            bias=None if bias is None else bias * product,
        )
    before, after = measured(net, x), measured(net.with_affine(changes), x)
    assert before.cushions.keys() == after.cushions.keys()
    for kind in ("cushions", "gaps", "betas"):
        for key, values in getattr(before, kind).items():
            assert np.allclose(
                getattr(after, kind)[key], values, rtol=1e-7, atol=1e-9, equal_nan=True
            ), (kind, key)


@pytest.mark.parametrize("name", ["residual", "vgg-tiny", "conv-overlapping", "dense"])
def test_sampled_places_never_exceed_the_full_beta(name: str) -> None:
    case = named(name)
    net, x = traced(case), batch_of(case, 3)
    line = Linearisation(net, x)
    exact = pair_squares(line, plan_jacobians(net, 0, "exact"), 0)
    hidden = {key: PairSquares(answer.squared, image=answer.image) for key, answer in exact.items()}
    maps = {key for key in hidden if len(net.nodes[key[0]].shape) == 3}
    found = {count: sampled_spreads(line, hidden, count, 5) for count in (1, 3, 10**6)}
    for key in maps:
        i, j = (net.nodes[index] for index in key)
        full = exact[key].spread
        assert full is not None
        assert torch.allclose(found[10**6][key], full, rtol=1e-9, equal_nan=True)
        assert (found[1][key] <= found[3][key] * (1 + 1e-12)).all()
        assert (found[3][key] <= full * (1 + 1e-9)).all()
        for b in range(
            3
        ):  # one sampled place is the share of some place, the same for all examples
            jacobian = brute_jacobian(net, x[b : b + 1], i, j)
            shares = jacobian.reshape(-1, i.shape[0], math.prod(i.shape[1:])).square().sum((0, 1))
            shares = shares * shares.numel() / shares.sum()
            assert float((shares - found[1][key][b]).abs().min()) < 1e-8
    assert found[3].keys() == maps
    assert any((found[1][key] < exact[key].spread * (1 - 1e-6)).any() for key in maps)  # type: ignore[operator]
    assert all(
        torch.equal(values, found[3][key])
        for key, values in sampled_spreads(line, hidden, 3, 5).items()
    )
    others = [sampled_spreads(line, hidden, 1, seed) for seed in range(6, 10)]
    assert any(not torch.equal(other[key], found[1][key]) for other in others for key in maps)


def test_sampled_places_enter_beta_and_are_named() -> None:
    case = named("residual")
    net, x = traced(case), batch_of(case, 3)
    plan = plan_jacobians(net, 2, "probes")
    found = measure_pairs(net, sample(x), plan, places=4, seed=1, batch=100)
    without = measure_pairs(net, sample(x), plan, places=0, seed=1, batch=100)
    assert found.sampled
    assert not without.sampled
    first = net.affine_layers[0]
    record, bare = found.beta(first), without.beta(first)
    assert record is not None
    assert bare is not None
    assert record.places == 4
    assert record.sampled_to
    assert not set(record.sampled_to) & set(record.to)
    assert bare.sampled_to == ()
    parts = [v for (i, _), v in (*found.sampled.items(), *found.betas.items()) if i == first.index]
    assert record.value == pytest.approx(np.nanmax(parts), rel=1e-12)
    exact = measured(net, x)
    for key, values in found.sampled.items():  # β by sampled places of J, over an estimate of ‖J‖
        ratio = found.cushions[key] / exact.cushions[key]  # ‖J‖ / its estimate
        assert (values <= exact.betas[key] * ratio * (1 + 1e-9)).all()


def test_probes_are_unbiased_with_the_stated_relative_error() -> None:
    case = named("residual")
    net, x = traced(case), batch_of(case, 2)
    plan = plan_jacobians(net, 8, "probes")
    exact = measured(net, x)
    runs = [
        measure_pairs(net, sample(x), plan, places=0, seed=seed, batch=100) for seed in range(150)
    ]
    assert runs[0].errors
    for key in runs[0].cushions:
        if key not in runs[0].errors:
            assert np.allclose(
                runs[0].cushions[key], exact.cushions[key], rtol=1e-9, equal_nan=True
            )
            continue
        draws = np.stack([run.cushions[key] for run in runs])
        squares = draws**-2.0  # ‖J‖² up to a factor: unbiased, unlike μ itself
        z = (squares.mean(0) - exact.cushions[key] ** -2.0) / (
            squares.std(0, ddof=1) / math.sqrt(len(runs))
        )
        assert np.abs(z).max() < 5.5, key
        stated = np.sqrt(np.mean([run.errors[key] ** 2 for run in runs], axis=0))
        # the relative error of a square is twice that of its root
        seen = squares.std(0, ddof=1) / squares.mean(0) / 2
        assert np.allclose(stated / seen, 1.0, atol=0.5), key
        assert not np.allclose(stated / seen, 2.0, atol=0.45), key
    record = runs[0].interlayer(net.affine_layers[0])
    assert record is not None
    probed = [pair for pair in record.pairs if not pair.exact]
    assert probed
    for pair in probed:
        j = next(node for node in net.affine_layers if node.name == pair.to)
        own = runs[0].errors[net.affine_layers[0].index, j.index]
        assert pair.standard_error == pytest.approx(float(np.nanmean(own)))


def shuffled(order: Callable[[list[slice]], list[slice]]) -> Callable[..., dict[str, Any]]:
    """map_shards with the shards in another order, merged the other way round."""

    def run(
        rows: int, size: int, work: Callable[[slice], Any], *, describe: str = ""
    ) -> dict[str, Any]:
        shards = [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
        parts = [work(shard) for shard in order(shards)]
        merged = parts[-1]
        for part in reversed(parts[:-1]):
            for key, accumulator in part.items():
                accumulator.merge(merged[key])
            merged = part
        return dict(merged)

    return run


@pytest.mark.parametrize("name", ["vgg-tiny", "residual"])
@pytest.mark.parametrize("probes", [0, 2])
def test_the_order_of_merging_shards_changes_nothing(
    name: str, probes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = named(name)
    net, x = traced(case), batch_of(case, 7)
    plan = plan_jacobians(net, probes, "probes" if probes else "exact")
    answers = [measure_pairs(net, sample(x), plan, places=2, seed=3, batch=2)]
    for order in (lambda s: s[::-1], lambda s: [s[2], s[0], s[3], s[1]]):
        monkeypatch.setattr(f"{MODULE}.map_shards", shuffled(order))
        answers.append(measure_pairs(net, sample(x), plan, places=2, seed=3, batch=2))
    for other in answers[1:]:
        for kind in ("cushions", "errors", "gaps", "betas", "sampled"):
            mine, theirs = getattr(answers[0], kind), getattr(other, kind)
            assert mine.keys() == theirs.keys()
            assert all(np.array_equal(mine[key], theirs[key], equal_nan=True) for key in mine)


@pytest.mark.parametrize("name", ["vgg-tiny", "mlp-deep", "residual"])
def test_exact_norms_do_not_depend_on_the_shards(name: str) -> None:
    case = named(name)
    net, x = traced(case), batch_of(case, 7)
    whole = measured(net, x)
    for batch in (1, 3, 7):
        parts = measured(net, x, batch)
        for key, values in whole.cushions.items():
            assert len(values) == 7
            assert np.allclose(parts.cushions[key], values, rtol=1e-11, equal_nan=True)
            assert np.allclose(parts.betas[key], whole.betas[key], rtol=1e-11, equal_nan=True)


def test_probes_of_a_shard_depend_on_its_first_row() -> None:
    """As documented: the same rows in the same shards give the same numbers; other shards have
    other probes.
    """
    case = named("residual")
    net, x = traced(case), batch_of(case, 6)
    plan = plan_jacobians(net, 2, "probes")
    a, b, c = (
        measure_pairs(net, sample(x), plan, places=0, seed=3, batch=batch) for batch in (3, 3, 2)
    )
    key = next(iter(a.errors))
    assert np.array_equal(a.cushions[key], b.cushions[key])
    assert np.allclose(a.cushions[key][:2], c.cushions[key][:2], rtol=1e-12)  # both start at row 0
    assert not np.allclose(a.cushions[key][2:], c.cushions[key][2:], rtol=1e-6)


def test_dead_examples_say_nothing() -> None:
    case = named("mlp-no-bias")
    net = traced(case)
    x = torch.cat([torch.zeros(1, *case.input_shape), case.inputs(2)]).double()
    found = measured(net, x)
    ((_, values),) = found.cushions.items()
    assert np.isnan(values[0])
    assert np.isfinite(values[1:]).all()
    record = found.interlayer(net.affine_layers[0])
    assert record is not None
    assert record.pairs[0].spread.count == 2
    nothing = measured(net, torch.zeros(2, *case.input_shape))
    assert nothing.interlayer(net.affine_layers[0]) is None
    assert nothing.minimal(net.affine_layers[0]).value == pytest.approx(1 / 3)


def test_a_single_layer_has_only_its_clip() -> None:
    case = named("linear-only")
    net = traced(case)
    found = measured(net, batch_of(case, 3))
    (only,) = net.affine_layers
    assert found.interlayer(only) is None
    assert found.minimal(only).value == found.minimal(only).clip == pytest.approx(1 / math.sqrt(3))
    assert found.minimal(only).unclipped is None
    beta = found.beta(only)
    assert beta is not None
    assert beta.value == 1.0
