"""Path norms against the enumeration of every path, against products of dense matrices, and in
closed form.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from tests.cases import CASES, Case, traced
from torch import nn

from cushion.errors import BadInput
from cushion.measures.norms.paths import path_norms
from cushion.measures.norms.records import PathNorm
from cushion.nets.network import Network, Node
from cushion.nets.operations import Affine, Input, MaxPool
from cushion.nets.operators import Linear, path_sums
from cushion.nets.tracing import trace

torch.set_num_threads(1)
_FEW = 120_000  # paths that a test may walk one by one
_NAMES = [case.name for case in CASES]
_MANY_PATHS = {"mlp-deep", "vgg-tiny", "residual"}  # more than that


def path_norm(net: Network, p: float) -> PathNorm:
    return path_norms(net, (p,))[0]


def _matrices(net: Network, node: Node) -> list[np.ndarray]:
    """The weights of a node's edges, one matrix [outputs, inputs] for each of its inputs: textbook,
    in float64.

    A unit vector through the operation itself shows the edges that leave its unit; that holds for
    max-pools as well, because a one among zeros wins in each window that contains it.
    """
    if isinstance(node.op, Affine):
        return [node.op.operator.to(torch.float64).dense().numpy()]
    shapes = [net.nodes[i].shape for i in node.inputs]
    found = []
    for position, shape in enumerate(shapes):
        size = math.prod(shape)
        batch = [torch.zeros(size, *each, dtype=torch.float64) for each in shapes]
        batch[position] = torch.eye(size, dtype=torch.float64).reshape(size, *shape)
        found.append(node.op(*batch).flatten(1).T.numpy())  # type: ignore[operator]
    return found


def _biases(node: Node) -> np.ndarray:
    """One number a unit of the node's output."""
    size, bias = math.prod(node.shape), node.op.bias if isinstance(node.op, Affine) else None
    return (
        np.zeros(size)
        if bias is None
        else bias.double().repeat_interleave(size // len(bias)).numpy()
    )


def _by_matrices(net: Network, p: float) -> tuple[float, float]:
    """Σ∏|w|^p without and with biases: forward, one dense matrix after the other."""
    sums = {0: (np.ones(math.prod(net.input_shape)), np.ones(math.prod(net.input_shape)))}
    for node in net.nodes[1:]:
        powers = [np.abs(matrix) ** p for matrix in _matrices(net, node)]
        plain, biased = (
            sum(matrix @ sums[i][kind] for matrix, i in zip(powers, node.inputs, strict=True))
            for kind in (0, 1)
        )
        sums[node.index] = (plain, biased + np.abs(_biases(node)) ** p)
    plain, biased = sums[net.nodes[-1].index]
    return float(plain.sum()), float(biased.sum())


def _walk(net: Network) -> Iterator[tuple[float, bool]]:
    """Every path whose weights are not zero: the product of its weights, and whether it starts at a
    bias.
    """
    edges: dict[tuple[int, int], list[tuple[int, int, float]]] = {}
    for node in net.nodes[1:]:
        for source, matrix in zip(node.inputs, _matrices(net, node), strict=True):
            for unit, before in zip(*np.nonzero(matrix), strict=True):
                edges.setdefault((node.index, int(unit)), []).append(
                    (source, int(before), float(matrix[unit, before]))
                )
    biases = {node.index: _biases(node) for node in net.nodes}
    last = net.nodes[-1].index
    open_ends = [(last, unit, 1.0) for unit in range(math.prod(net.nodes[-1].shape))]
    while open_ends:
        index, unit, product = open_ends.pop()
        if isinstance(net.nodes[index].op, Input):
            yield product, False
            continue
        if biases[index][unit] != 0:
            yield product * float(biases[index][unit]), True
        open_ends.extend(
            (source, before, product * weight)
            for source, before, weight in edges.get((index, unit), [])
        )


def _count(net: Network) -> float:
    sums = {0: np.ones(math.prod(net.input_shape))}
    for node in net.nodes[1:]:
        parts = zip(_matrices(net, node), node.inputs, strict=True)
        sums[node.index] = sum((matrix != 0) @ sums[i] for matrix, i in parts)
    return float(sums[net.nodes[-1].index].sum())


def _agrees(found: PathNorm, plain: float, biased: float) -> None:
    """Against Σ∏|w|^p without and with biases."""
    p = found.p
    assert found.value == pytest.approx(plain ** (1 / p), rel=1e-12)
    assert found.with_biases == pytest.approx(biased ** (1 / p), rel=1e-12)
    assert found.log10 == pytest.approx(math.log10(plain) / p, rel=1e-12, abs=1e-12)
    assert found.log10_with_biases == pytest.approx(math.log10(biased) / p, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("p", [1.0, 2.0, 1.5, 5.0])
def test_products_of_dense_matrices(name: str, p: float) -> None:
    net = traced(name)
    plain, biased = _by_matrices(net, p)
    _agrees(path_norm(net, p), plain, biased)
    _agrees(path_norm(net.double(), p), plain, biased)


_SMALL = [name for name in _NAMES if name not in _MANY_PATHS]


@pytest.mark.parametrize("name", _SMALL)
def test_every_path_one_by_one(name: str) -> None:
    net = traced(name)
    walked = list(_walk(net))
    for p in (1.0, 2.0, 3.5):
        plain = math.fsum(abs(product) ** p for product, from_bias in walked if not from_bias)
        biased = math.fsum(abs(product) ** p for product, _ in walked)
        _agrees(path_norm(net, p), plain, biased)


def test_enough_nets_are_small() -> None:
    assert {name for name in _NAMES if _count(traced(name)) > _FEW} == _MANY_PATHS
    kinds = {type(node.op).__name__ for name in _SMALL for node in traced(name).nodes}
    assert len(_SMALL) >= 30
    assert kinds == {type(node.op).__name__ for name in _NAMES for node in traced(name).nodes}


@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d((2, 3), (1, 2), padding=1),
        nn.MaxPool2d(3, 1, dilation=(2, 1), ceil_mode=True),
        nn.MaxPool2d(2, 3, ceil_mode=True),
        nn.MaxPool2d((3, 2), (2, 1), (1, 0), (2, 3)),
        nn.AvgPool2d((2, 3), (1, 2), padding=1),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        nn.AvgPool2d(4, 3, 2, ceil_mode=True),
        nn.AvgPool2d((3, 2), (2, 2), (1, 0), ceil_mode=True, divisor_override=5),
        nn.AdaptiveAvgPool2d((4, 5)),
        nn.AdaptiveMaxPool2d((3, 4)),
        nn.Sequential(
            nn.MaxPool2d(2, 1), nn.AvgPool2d(2, 2), nn.Conv2d(3, 2, 2, stride=2, padding=1)
        ),
        nn.Sequential(
            nn.AvgPool2d(2, 1),
            nn.Conv2d(3, 2, 3, dilation=2, padding=(2, 1)),
            nn.AdaptiveAvgPool2d(1),
        ),
    ],
    ids=str,
)
def test_pools_of_every_setting(pool: nn.Module) -> None:
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(3)
    left = pool(torch.zeros(1, 3, 7, 8)).flatten(1).shape[1]
    module = nn.Sequential(
        nn.Conv2d(1, 3, 2), nn.ReLU(), copy.deepcopy(pool), nn.Flatten(), nn.Linear(left, 2)
    ).eval()
    torch.random.set_rng_state(torch_state)
    net = trace(module, (1, 8, 9))
    for p in (1.0, 2.0, 2.5):
        _agrees(path_norm(net, p), *_by_matrices(net, p))


def test_blocks_of_any_size_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    nets = {name: traced(name) for name in _NAMES}
    whole = {name: path_norm(net, 2.0) for name, net in nets.items()}
    for block in (1, 17, 60):
        monkeypatch.setattr(path_sums, "_BLOCK", block)
        for name, net in nets.items():
            found = path_norm(net, 2.0)
            assert found.value == pytest.approx(whole[name].value, rel=1e-13)
            assert found.with_biases == pytest.approx(whole[name].with_biases, rel=1e-13)


def _linear_net(*weights: torch.Tensor, biases: list[torch.Tensor | None] | None = None) -> Network:
    """Dense layers with ReLUs between them; weights enter after the trace, which refuses nets whose
    logits overflow.
    """
    modules = [
        module
        for weight in weights
        for module in (nn.Linear(*reversed(weight.shape), bias=False), nn.ReLU())
    ]
    with torch.random.fork_rng(devices=[]):
        return _replaced(
            trace(nn.Sequential(*modules[:-1]), (weights[0].shape[1],)), weights, biases
        )


def _replaced(
    net: Network,
    weights: Sequence[torch.Tensor],
    biases: Sequence[torch.Tensor | None] | None = None,
) -> Network:
    """The net with other weights in its dense layers, in their order."""
    pairs = zip(weights, biases or [None] * len(weights), strict=True)
    layers = [Affine(Linear(weight), bias, "linear") for weight, bias in pairs]
    return net.with_affine(
        dict(zip((node.index for node in net.affine_layers), layers, strict=True))
    )


def test_closed_forms() -> None:
    one = path_norm(
        _linear_net(torch.tensor([[3.0, 0.0], [0.0, -4.0]]), biases=[torch.tensor([0.0, -12.0])]),
        2.0,
    )
    assert (one.value, one.with_biases) == (5.0, 13.0)
    assert one.log10 == pytest.approx(math.log10(5))
    ones = [torch.ones(5, 3), torch.ones(7, 5), torch.ones(2, 7)]
    net = _linear_net(*ones, biases=[torch.ones(5), torch.ones(7), torch.ones(2)])
    assert (path_norm(net, 1.0).value, path_norm(net, 1.0).with_biases) == (
        210.0,
        210.0 + 70 + 14 + 2,
    )
    assert path_norm(net, 2.0).value == pytest.approx(math.sqrt(210), rel=1e-15)
    assert path_norm(net, 7.0).log10 == pytest.approx(math.log10(210) / 7, rel=1e-15)
    # An average over four places halves the l2 norm of its paths' products, a maximum doubles it.
    image = nn.Sequential(
        nn.AvgPool2d(2), nn.Conv2d(1, 4, 1, bias=False), nn.MaxPool2d(2), nn.Flatten()
    )
    image[1].weight.data.fill_(-3.0)
    pooled = trace(image, (1, 4, 4))
    assert path_norm(pooled, 1.0).value == 4 * 3.0 * 16 / 4
    assert path_norm(pooled, 2.0).value == 2 * 3.0 * math.sqrt(16) / 4
    assert [node.op for node in pooled.nodes if isinstance(node.op, MaxPool)]


def test_node_rescaling_changes_no_path() -> None:
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)
    ).double()
    conv = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 2, 2), nn.Flatten()
    ).double()
    torch.random.set_rng_state(torch_state)
    for model, first, second, shape in ((module, 0, 2, (5,)), (conv, 0, 3, (2, 8, 8))):
        before = trace(model, shape)
        scaled = copy.deepcopy(model)
        scaled[first].weight.data[1] *= 37.0
        scaled[first].bias.data[1] *= 37.0
        scaled[second].weight.data[:, 1] /= 37.0
        after = trace(scaled, shape)
        for p in (1.0, 2.0, 3.0):
            was, now = path_norm(before, p), path_norm(after, p)
            assert now.value == pytest.approx(was.value, rel=1e-13)
            assert now.with_biases == pytest.approx(was.with_biases, rel=1e-13)
        product, other = (
            math.prod(node.affine.operator.frobenius() for node in net.affine_layers)
            for net in (before, after)
        )
        assert abs(other / product - 1) > 0.1


@pytest.mark.parametrize("name", ["mlp-batchnorm", "conv-batchnorm", "batchnorm-last"])
def test_a_folded_batchnorm_counts_as_the_weights_it_makes(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    module = case.module().double()
    norms = [
        (i, layer)
        for i, layer in enumerate(module)
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)
    ]
    stripped = copy.deepcopy(module)
    factor = 1.0
    for (
        i,
        layer,
    ) in norms:  # the same factor in each channel, so that it leaves the sum of all paths
        layer.running_var.fill_(4.0 - layer.eps)
        layer.running_mean.zero_()
        if layer.weight is not None:
            layer.weight.data.fill_(-3.0)
        factor *= 0.5 if layer.weight is None else 1.5
        stripped[i] = nn.Identity()
    with_norms, without = trace(module, case.input_shape), trace(stripped, case.input_shape)
    for p in (1.0, 2.0):
        assert path_norm(with_norms, p).value == pytest.approx(
            factor * path_norm(without, p).value, rel=1e-12
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("weight", "width", "p"), [(1e30, 3, 1.0), (1e30, 3, 2.0), (1e-30, 2, 2.0), (1e30, 2, 12.5)]
)
def test_sixty_layers_leave_the_range_of_floats(
    weight: float, width: int, p: float, dtype: torch.dtype
) -> None:
    net = _linear_net(*[torch.full((width, width), weight, dtype=dtype) for _ in range(60)])
    exact = float(torch.tensor(weight, dtype=dtype))
    found = path_norm(net, p)
    assert found.log10 == pytest.approx(
        60 * math.log10(exact) + 61 * math.log10(width) / p, rel=1e-13
    )
    assert found.value == (math.inf if weight > 1 else 0.0)
    assert json.loads(found.dumps())["value"] == (None if weight > 1 else 0.0)


def test_branches_of_far_apart_scales_and_huge_weights() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.low, self.high, self.last = (nn.Linear(2, 2) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.relu(self.low(x)) + torch.relu(self.high(x)))

    with torch.random.fork_rng(devices=[]):
        traced = trace(Branches(), (2,))
    assert [node.name for node in traced.affine_layers] == ["low", "high", "last"]
    for low, high in ((1e-200, 1e200), (1e200, 1e-200), (3e80, 5e80), (0.0, 1e-150), (1e-150, 0.0)):
        weights = [torch.full((2, 2), value, dtype=torch.float64) for value in (low, high, 1e200)]
        net = _replaced(traced, weights, [None, None, torch.full((2,), 1e250, dtype=torch.float64)])
        for p in (1.0, 2.0):
            found = path_norm(net, p)
            both = low + high if p == 1 else math.hypot(low * 1e-100, high * 1e-100) * 1e100
            expected = 200 + math.log10(both) + math.log10(8) / p
            assert found.log10 == pytest.approx(expected, rel=1e-12)
            largest = max(expected, 250 + math.log10(2) / p)  # the other one is far smaller
            assert found.log10_with_biases == pytest.approx(largest, rel=1e-12)


def test_a_dead_branch_of_huge_weights_hides_nothing() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.huge, self.zero, self.small = (nn.Linear(2, 2) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.zero(torch.relu(self.huge(x))) + self.small(x)

    with torch.random.fork_rng(devices=[]):
        traced = trace(Branches(), (2,))
    assert [node.name for node in traced.affine_layers] == ["huge", "zero", "small"]
    net = _replaced(
        traced, [torch.full((2, 2), value, dtype=torch.float64) for value in (1e300, 0.0, 1e-300)]
    )
    assert path_norm(net, 2.0).value == pytest.approx(2e-300, rel=1e-12)
    assert path_norm(net, 1.0).log10 == pytest.approx(math.log10(4) - 300, rel=1e-13)


def test_zero_layers_and_dead_units() -> None:
    rows = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    assert path_norm(_linear_net(rows, torch.tensor([[0.0, 5.0], [0.0, 1.0]])), 1.0).value == 0.0
    dead = path_norm(_linear_net(torch.zeros(3, 2), torch.ones(2, 3)), 2.0)
    assert (dead.value, dead.log10, dead.with_biases, dead.log10_with_biases) == (
        0.0,
        None,
        0.0,
        None,
    )
    last = _linear_net(
        torch.ones(3, 2), torch.zeros(2, 3), biases=[torch.ones(3), torch.tensor([3.0, 4.0])]
    )
    assert (path_norm(last, 2.0).value, path_norm(last, 2.0).with_biases) == (0.0, 5.0)
    middle = _linear_net(
        torch.ones(3, 2),
        torch.zeros(2, 3),
        torch.ones(2, 2),
        biases=[torch.ones(3), torch.ones(2), None],
    )
    assert (path_norm(middle, 1.0).value, path_norm(middle, 1.0).with_biases) == (0.0, 4.0)


@pytest.mark.parametrize("p", [0.5, -1.0, math.nan, math.inf])
def test_p_below_one_is_refused(p: float) -> None:
    with pytest.raises(BadInput, match="finite p of at least 1"):
        path_norm(traced("mlp"), p)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name in ("vgg-tiny", "residual", "dense")], ids=lambda c: c.name
)
def test_nothing_is_changed(case: Case) -> None:
    net = trace(case.module(), case.input_shape)
    before = [node.affine.operator.weight.clone() for node in net.affine_layers]
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    first = path_norm(net, 2.0)
    assert first == path_norm(net, 2.0)
    assert all(
        torch.equal(w, node.affine.operator.weight)
        for w, node in zip(before, net.affine_layers, strict=True)
    )
    assert torch.equal(torch_state, torch.random.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])


def test_half_precision_weights_are_read_as_they_are() -> None:
    net = traced("vgg-tiny").to(torch.bfloat16)
    assert path_norm(net, 1.0).value == pytest.approx(path_norm(net.double(), 1.0).value, rel=1e-13)


@pytest.mark.parametrize("name", _NAMES)
def test_several_norms_in_one_pass_are_those_of_a_pass_each(name: str) -> None:
    for net in (traced(name), traced(name).double()):
        for exponents in ((1.0, 2.0), (2.0, 1.0, 1.0), (3.0, 1.0, 2.0, 1.5)):
            assert path_norms(net, exponents) == tuple(path_norm(net, p) for p in exponents)
