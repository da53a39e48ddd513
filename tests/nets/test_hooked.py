"""What hooks see of a net: the same layers, numbers and derivatives as the trace, and more nets."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from tests.cases import CASES, Case
from torch import Tensor, nn
from torch.autograd.functional import jacobian
from torch.nn import functional as F

from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.measures.one_pass import one_pass
from cushion.measures.stability.blocks import block_squares
from cushion.nets.hooked.net import HookedNet
from cushion.nets.linearisation import Activations
from cushion.nets.network import Node

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def hooked(case: Case) -> HookedNet:
    return HookedNet(case.module(), case.inputs(2))


def sample(case: Case, m: int = 6) -> Dataset:
    labels = np.arange(m) % case.network().classes
    return Dataset("rows", case.inputs(m).numpy(), labels, case.network().classes)


@each_case
def test_both_ways_see_the_same_layers_with_the_same_maps(case: Case) -> None:
    net, seen = case.network(), hooked(case)
    functional = {node.name for node in net.affine_layers} - {node.name for node in seen.seen}
    modules = dict(case.module().named_modules())
    assert not functional & set(modules)  # only what is written as a function is missed
    for node in seen.seen:
        twin = next(one for one in net.affine_layers if one.name == node.name)
        x = torch.randn(3, *twin.affine.operator.input_shape)
        expected, found = twin.affine(x), node.affine(x)
        assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5)
        assert node.shape == twin.shape


@each_case
def test_both_ways_give_the_same_norms_and_margins(case: Case) -> None:
    net, seen, data = case.network(), hooked(case), sample(case)
    one, two = (one_pass(view, data, 4, norms=True, margins=True) for view in (net, seen))
    assert np.allclose(one["margins"], two["margins"], rtol=1e-4, atol=1e-4)
    names = {node.name: node.index for node in net.affine_layers}
    for node in seen.seen:
        for stage in ("input", "linear", "output"):
            first, second = one[names[node.name], stage], two[node.index, stage]
            assert np.allclose(first, second, rtol=2e-3, atol=2e-3), (node.name, stage)


@each_case
def test_noise_in_a_layers_input_reaches_later_layers_as_in_the_trace(case: Case) -> None:
    net, seen, x = case.network(), hooked(case), case.inputs(3)
    if len(seen.seen) != len(net.affine_layers):
        pytest.skip("some layers are functions")
    for source in seen.seen:
        twin = next(one for one in net.affine_layers if one.name == source.name)
        clean = Activations(net, x)
        before = clean.values[twin.inputs[0]]
        noise = torch.randn(before.shape, generator=torch.Generator().manual_seed(1))
        expected: dict[str, Tensor] = {}
        noisy = twin.affine(before + noise)
        expected[twin.name] = noisy
        clean.rerun(twin, noisy, lambda node, t, kept=expected: kept.update({node.name: t}))
        found: dict[str, Tensor] = {}

        def visit(node: Node, t: Tensor, kept: dict[str, Tensor] = found) -> None:
            kept[node.name] = t.clone()

        seen.rerun(x, source, lambda given, noise=noise: given + noise, visit)
        assert set(found) == set(expected)
        for name, value in expected.items():
            assert torch.allclose(found[name], value, rtol=2e-3, atol=2e-3), (source.name, name)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x + self.two(torch.tanh(self.one(x))))


class Blocky(nn.Module):
    """Two residual blocks between dense layers, with an activation that writes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = nn.Linear(5, 6), nn.ReLU(inplace=True)
        self.body = nn.Sequential(Residual(), Residual())
        self.norm, self.last = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(self.body(self.act(self.first(x)))))  # type: ignore[no-any-return]


def blocky() -> tuple[nn.Module, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return Blocky().eval(), torch.randn(4, 5)


def test_a_residual_block_is_one_layer_of_the_chain() -> None:
    module, x = blocky()
    assert [block.name for block in HookedNet(module, x).blocks] == [
        "first",
        "body.0",
        "body.1",
        "last",
    ]


def rest(module: nn.Module, start: str) -> nn.Module:
    """What follows a block of `Blocky`."""
    parts = {
        "first": [module.act, module.body[0], module.body[1], module.norm, module.last],
        "body.0": [module.body[1], module.norm, module.last],
        "body.1": [module.norm, module.last],
    }
    return nn.Sequential(*map(copy.deepcopy, parts[start]))


def test_derivatives_between_blocks_are_those_of_the_part_between_them() -> None:
    module, x = blocky()
    net = HookedNet(module, x)
    values = [value.detach() for value in net.chain.outputs(x)]
    squares = block_squares(net, x, probes=3, seed=0)
    for source in net.blocks[:-1]:
        part = rest(module, source.name)
        pushed = net.chain.jvp(x, source, lambda value: value.clone())[-1]
        for row in range(len(x)):
            own = values[source.index][row]
            whole = jacobian(lambda t, part=part: part(t.clone()[None])[0], own)
            assert pushed is not None
            assert torch.allclose(pushed[row], whole @ own, rtol=1e-4, atol=1e-5)
            squared, error = squares[source.index, len(net.blocks) - 1]
            assert error is None  # three scores: every unit vector was used
            assert math.isclose(float(squared[row]), float(whole.square().sum()), rel_tol=1e-4)


def test_probes_of_a_pair_of_blocks_are_unbiased_within_their_error() -> None:
    module, x = blocky()
    net = HookedNet(module, x)
    exact = block_squares(net, x, probes=100, seed=0)[0, 2][0]  # 6 numbers: all unit vectors
    # below the size of the block, so that probes are drawn
    drawn = [block_squares(net, x, probes=5, seed=seed)[0, 2] for seed in range(200)]
    means = torch.stack([squared for squared, _ in drawn])
    deviation = (means.mean(0) - exact) / (means.std(0) / math.sqrt(len(drawn)))
    assert float(deviation.abs().max()) < 4
    stated = torch.stack([error for _, error in drawn if error is not None]).square().mean(0).sqrt()
    assert torch.allclose(stated, means.std(0), rtol=0.25)


def test_the_module_is_left_as_it_was() -> None:
    module, x = blocky()
    module.train()
    module.last.weight.requires_grad_(False)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    state = torch.random.get_rng_state()
    net = HookedNet(module, x)
    net.run(x, lambda *_: None)
    net.chain.jvp(x, net.blocks[0], lambda value: value.clone())
    block_squares(net, x, 2, 0)
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(part.training for part in module.modules())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    assert not module.last.weight.requires_grad
    assert module.first.weight.requires_grad
    assert module.first.weight.grad is None
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_weights_inside_attention_embeddings_and_recurrent_layers_are_seen() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
            self.recur = nn.GRU(8, 5, batch_first=True)
            self.last = nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            h = self.embed(x)
            h = self.attend(h, h, h)[0]
            return self.last(self.recur(h)[0][:, -1])  # type: ignore[no-any-return]

    net = HookedNet(Words().eval(), torch.randint(0, 11, (2, 4)))
    kinds = {
        node.name: (node.affine.kind, node.affine.operator.weight.shape)
        for node in net.affine_layers
    }
    assert kinds["embed"] == ("embedding", (8, 11))
    assert kinds["attend.q_proj"] == ("attention", (8, 8))
    assert kinds["attend.out_proj"] == ("attention", (8, 8))
    assert kinds["recur.weight_hh_l0"] == ("recurrent", (15, 5))
    assert [node.name for node in net.seen] == ["last"]


def test_numbers_that_are_none_are_refused_by_name() -> None:
    module, x = blocky()
    with torch.no_grad():
        module.last.weight[0, 0] = torch.nan
    with pytest.raises(BadInput, match=r"parameter last\.weight"):
        HookedNet(module, x)


class Same(nn.Conv2d):
    """Pads in its forward, more behind than before, as nets from elsewhere do."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (0, 1, 0, 1)))


class Standardised(nn.Linear):
    """Computes with another weight than the one it keeps."""

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight / self.weight.norm(), self.bias)


def test_a_layer_is_the_map_that_it_computes_and_not_what_its_attributes_say() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        flat = nn.Flatten()
        net = nn.Sequential(Same(2, 3, 2), nn.BatchNorm2d(3), flat, Standardised(48, 5), nn.ReLU())
        x = torch.randn(2, 2, 4, 4)
    seen = HookedNet(nn.Sequential(*net, nn.Linear(5, 3)).eval(), x)
    assert [node.name for node in seen.seen] == ["0", "5"]
    assert seen.not_seen == ("3",)
    expected = F.conv2d(F.pad(x, (0, 1, 0, 1)), net[0].weight, net[0].bias)
    assert torch.allclose(seen.seen[0].affine(x), net[1].eval()(expected), atol=1e-5)


def test_a_batch_norm_is_not_folded_into_a_layer_that_does_not_scale_with_its_weight() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        net = nn.Sequential(Standardised(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).eval()
        net[1].weight.data.uniform_(1, 3)
        x = torch.randn(4, 6)
    seen = HookedNet(net, x[:2])
    assert torch.allclose(seen.forward(x), net(x), atol=1e-5)
    assert [node.name for node in seen.seen] == ["1", "2"]
