"""The trace: equal to the module, complete, harmless, and clear about what it refuses."""

from __future__ import annotations

import copy
import re
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.cases import CASES, Case, Residual
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.errors import BadInput, Unsupported
from cushion.nets.models import build
from cushion.nets.network import Node
from cushion.nets.operations import Add
from cushion.nets.specs import parse, scale_width
from cushion.nets.tracing import support, trace
from cushion.training.recipes import RECIPES, Recipe

torch.set_num_threads(1)  # tiny nets: more threads only wait for each other

EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
KINDS = {"l": "linear", "c": "conv2d", "b": "batchnorm"}


# -- the traced net is the module
# ------------------------------------------------------------------------------


@EVERY_CASE
def test_traced_net_equals_module(case: Case) -> None:
    model = case.module()
    network = trace(model, case.input_shape)
    x = case.inputs()
    with torch.no_grad():
        torch.testing.assert_close(network.forward(x), model(x), rtol=2e-5, atol=2e-5)
        wide = copy.deepcopy(model).double()
        exact = trace(wide, case.input_shape)
        torch.testing.assert_close(
            exact.forward(x.double()), wide(x.double()), rtol=1e-11, atol=1e-11
        )
    assert exact.dtype == torch.float64
    assert network.dtype == torch.float32
    assert [node.affine.kind for node in network.affine_layers] == [
        KINDS[letter] for letter in case.layers
    ]
    assert network.is_chain == case.chain
    assert network.input_shape == case.input_shape
    assert network.classes == model(x).shape[1]


@EVERY_CASE
def test_node_shapes_names_and_order(case: Case) -> None:
    network = trace(case.module(), case.input_shape)
    assert len({node.name for node in network.nodes}) == len(network.nodes)
    alive = {0: case.inputs()}
    for place, node in enumerate(network.nodes):
        assert node.index == place
        assert all(i < place for i in node.inputs)
        if place:
            alive[place] = node.op(*(alive[i] for i in node.inputs))
        assert alive[place].shape[1:] == node.shape
    again = trace(case.module(), case.inputs())  # an example batch in place of the shape
    assert [node.name for node in again.nodes] == [node.name for node in network.nodes]
    torch.testing.assert_close(again.forward(case.inputs()), alive[len(alive) - 1], rtol=0, atol=0)


@EVERY_CASE
def test_support_understands_every_case(case: Case) -> None:
    for shape in (None, case.input_shape):
        report = support(case.module(), shape)
        assert report.understood, str(report)
        assert {path for path, m in case.module().named_modules() if path} <= {
            line.path for line in report.lines
        }


@EVERY_CASE
def test_run_shows_every_affine_layer(case: Case) -> None:
    network = trace(case.module(), case.input_shape)
    seen: list[tuple[Node, str]] = []
    last: dict[str, Tensor] = {}

    def observe(node: Node, stage: str, t: Tensor) -> None:
        seen.append((node, stage))
        last[stage] = t.clone()
        if stage == "linear":
            torch.testing.assert_close(node.affine.operator.apply(last["input"]), t)
        if stage == "output":
            torch.testing.assert_close(node.affine(last["input"]), t)

    logits = network.run(case.inputs(), observe)
    assert seen == [
        (node, stage) for node in network.affine_layers for stage in ("input", "linear", "output")
    ]
    torch.testing.assert_close(logits, network.forward(case.inputs()))
    assert all(not t.requires_grad for node in network.affine_layers for t in _tensors(node))
    torch.testing.assert_close(
        network.double().forward(case.inputs().double()).float(), logits, rtol=1e-4, atol=1e-5
    )


def _tensors(node: Node) -> list[Tensor]:
    affine = node.affine
    return [affine.operator.weight, *([] if affine.bias is None else [affine.bias])]


def test_activations_are_freed_after_their_last_use() -> None:
    network = trace(nn.Sequential(*(nn.Linear(4, 4) for _ in range(6))), (4,))
    outputs: list[weakref.ref[Tensor]] = []
    alive: list[int] = []

    def observe(node: Node, stage: str, t: Tensor) -> None:
        if stage == "output":
            outputs.append(weakref.ref(t))
        alive.append(sum(ref() is not None for ref in outputs))

    network.run(torch.randn(2, 4), observe)
    assert max(alive) == 2  # a layer's input and its output


def test_parameters_are_counted() -> None:
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3, bias=False)
    )
    network = trace(model, (2, 4, 4))
    assert network.parameters == 2 * 4 * 9 + 4 + 48


def test_half_precision_widens_without_loss() -> None:
    model = nn.Linear(5, 3).to(torch.bfloat16)
    network = trace(model, (5,))
    weight = network.affine_layers[0].affine.operator.weight
    assert weight.dtype == torch.float32
    assert torch.equal(weight.to(torch.bfloat16), model.weight)


def test_mean_and_variance_fold_with_eps() -> None:
    """Against the definition, written out; a forgotten eps of 1e-5 would show at 5e-6."""
    model = nn.Sequential(
        nn.Conv2d(1, 2, 1, bias=False), nn.BatchNorm2d(2, eps=1e-2), nn.Flatten()
    ).double()
    model[1].running_mean.copy_(torch.tensor([1.0, -2.0]))
    model[1].running_var.copy_(torch.tensor([0.0, 3.0]))
    model[1].weight.data.copy_(torch.tensor([2.0, 0.5]))
    model[1].bias.data.copy_(torch.tensor([0.1, 0.2]))
    affine = trace(model, (1, 1, 1)).affine_layers[0].affine
    scale = torch.tensor([2.0 / 0.01**0.5, 0.5 / 3.01**0.5], dtype=torch.float64)
    torch.testing.assert_close(affine.operator.weight.flatten(), model[0].weight.flatten() * scale)
    torch.testing.assert_close(
        affine.bias, torch.tensor([0.1, 0.2]).double() - torch.tensor([1.0, -2.0]).double() * scale
    )


def test_batchnorm_is_not_folded_into_a_layer_that_is_read_elsewhere() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.bn = nn.Linear(3, 3), nn.BatchNorm1d(3)

        def forward(self, x: Tensor) -> Tensor:
            y = self.fc(x)
            return self.bn(y) + y

    network = trace(Net(), (3,))
    assert [node.affine.kind for node in network.affine_layers] == ["linear", "batchnorm"]


def test_in_place_relu_is_seen_by_later_readers() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.same = nn.Linear(3, 3), nn.Identity()

        def forward(self, x: Tensor) -> Tensor:
            y = self.fc(x)
            z = F.relu(self.same(y), True)  # the identity hands on y itself, so this writes over y
            return z + y

    model, x = Net(), torch.randn(4, 3)
    torch.testing.assert_close(trace(model, (3,)).forward(x), 2 * F.relu(model.fc(x)))


def test_a_module_called_twice_becomes_two_layers() -> None:
    fc = nn.Linear(4, 4)
    network = trace(nn.Sequential(fc, nn.ReLU(), fc), (4,))
    assert [node.name for node in network.affine_layers] == ["0", "0#2"]


def test_weight_norm_is_read_through_its_parametrization() -> None:
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), nn.ReLU(), nn.Linear(5, 2)
    )
    model[0].parametrizations.weight.original0.data.mul_(3.0)
    network = trace(model, (4,))
    torch.testing.assert_close(network.affine_layers[0].affine.operator.weight, model[0].weight)


# -- why a net is not a chain
# ----------------------------------------------------------------------------------


def test_not_a_chain_names_fork_and_join() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), Residual(2, 2), nn.Flatten(), nn.Linear(32, 2))
    network = trace(model, (1, 6, 6))
    assert network.not_a_chain_because == (
        "the output of 0 is read by 1.conv1 and 1.add, and 1.add joins their branches, so between "
        "0 and 1.add no single vector x^i separates the net"
    )
    with pytest.raises(
        Unsupported,
        match=re.escape(f"the net is not a chain of layers: {network.not_a_chain_because}"),
    ):
        network.chain()


def test_a_value_joined_with_itself_is_no_chain() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            y = self.fc(x)
            return y + y

    network = trace(Net(), (3,))
    assert (
        network.not_a_chain_because == "add reads fc more than once, which no layer of a chain does"
    )


def test_chain_of_a_chain_is_its_layers() -> None:
    network = trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)), (3,))
    assert network.chain() == network.affine_layers
    assert network.not_a_chain_because == ""


def test_forward_refuses_another_shape() -> None:
    with pytest.raises(BadInput, match=r"reads examples of shape \(3,\), not \(4,\)"):
        trace(nn.Linear(3, 2), (3,)).forward(torch.zeros(1, 4))


# -- standard architectures
# ------------------------------------------------------------------------------------


class ResNet18(nn.Module):
    """The standard 18-layer residual net: a 7x7 stem, four stages of two blocks, global average,
    one linear layer.
    """

    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        sizes = [width, width, 2 * width, 4 * width, 8 * width]
        for stage in range(4):
            first = Residual(sizes[stage], sizes[stage + 1], stride=1 if stage == 0 else 2)
            setattr(
                self,
                f"layer{stage + 1}",
                nn.Sequential(first, Residual(sizes[stage + 1], sizes[stage + 1])),
            )
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class VGG16(nn.Module):
    """Thirteen 3x3 convolutions in five stacks, then three linear layers with dropout."""

    def __init__(
        self, width: int = 64, hidden: int = 4096, classes: int = 1000, norm: bool = False
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for factor, count in ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3)):
            for _ in range(count):
                layers.append(nn.Conv2d(channels, factor * width, 3, padding=1))
                layers += [nn.BatchNorm2d(factor * width)] if norm else []
                layers.append(nn.ReLU(inplace=True))
                channels = factor * width
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(channels * 49, hidden),
            nn.ReLU(True),
            nn.Dropout(),
            nn.Linear(hidden, hidden),
            nn.ReLU(True),
            nn.Dropout(),
            nn.Linear(hidden, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def test_resnet18() -> None:
    model = ResNet18(width=4, classes=5).train()
    network = trace(model, (3, 64, 64))
    # 17 convolutions, 3 projections, 1 linear layer; every norm is folded
    assert len(network.affine_layers) == 21
    assert sum(isinstance(node.op, Add) for node in network.nodes) == 8
    assert network.not_a_chain_because.startswith(
        "the output of maxpool is read by layer1.0.conv1 and layer1.0.add"
    )
    assert {"conv1", "layer1.0.conv1", "layer2.0.down.0", "fc"} <= {
        node.name for node in network.affine_layers
    }
    x = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(network.forward(x), model.eval()(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm", [False, True])
def test_vgg16(norm: bool) -> None:
    model = VGG16(width=4, hidden=32, classes=5, norm=norm)
    network = trace(model, (3, 32, 32))
    assert [node.affine.kind for node in network.chain()] == ["conv2d"] * 13 + ["linear"] * 3
    x = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(network.forward(x), model.eval()(x), rtol=1e-4, atol=1e-6)


def test_full_width_resnet18() -> None:
    with torch.device("meta"):
        model = ResNet18()
    model = model.to_empty(device="cpu")
    for tensor in model.state_dict().values():
        tensor.fill_(
            1e-3 if tensor.is_floating_point() else 0
        )  # a quick stand-in for trained weights
    network = trace(model, (3, 32, 32))
    # of the 9600 norm parameters, 4800 become the biases
    assert network.parameters == 11_689_512 - 4_800
    assert network.classes == 1000


@pytest.mark.full
def test_full_width_vgg16() -> None:
    assert trace(VGG16(), (3, 32, 32)).parameters == 138_357_544


# -- tracing changes nothing
# -----------------------------------------------------------------------------------


class Stateful(nn.Module):
    """Everything that a careless trace could disturb: mixed modes, buffers, gradients, counters,
    dropout.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout()
        self.fc = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.fc(self.drop(F.relu(self.norm(self.conv(x)))).flatten(1))


@pytest.mark.parametrize("run", [trace, support])
def test_the_module_stays_as_it_was(run: Callable[..., object]) -> None:
    torch.manual_seed(3)
    model = Stateful()
    model(torch.randn(4, 1, 4, 4)).sum().backward()
    model.norm.eval()
    model.conv.weight.requires_grad_(False)
    hook = model.register_full_backward_hook(lambda *_: None)
    state = {name: (t, t.clone()) for name, t in model.state_dict(keep_vars=True).items()}
    grads = {
        name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()
    }
    flags = {name: p.requires_grad for name, p in model.named_parameters()}
    modes = {name: m.training for name, m in model.named_modules()}
    attributes = {name: set(vars(m)) for name, m in model.named_modules()}
    classes = {name: type(m) for name, m in model.named_modules()}
    random, calls, threads = torch.get_rng_state(), model.calls, torch.is_grad_enabled()

    run(model, (1, 4, 4))

    assert torch.equal(torch.get_rng_state(), random)
    assert torch.is_grad_enabled() == threads
    assert model.calls == calls
    after = model.state_dict(keep_vars=True)
    assert list(after) == list(state)
    for name, (tensor, values) in state.items():
        assert after[name] is tensor
        assert torch.equal(tensor, values)
    for name, p in model.named_parameters():
        assert (p.grad is None) == (grads[name] is None)
        assert p.grad is None or torch.equal(p.grad, grads[name])
    assert {name: p.requires_grad for name, p in model.named_parameters()} == flags
    assert {name: m.training for name, m in model.named_modules()} == modes
    assert {name: set(vars(m)) for name, m in model.named_modules()} == attributes
    assert {name: type(m) for name, m in model.named_modules()} == classes
    assert list(model._backward_hooks) == [hook.id]


def test_the_network_shares_nothing_with_the_module() -> None:
    for dtype in (torch.float32, torch.float64):
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)).to(dtype)
        network, x = trace(model, (3,)), torch.randn(4, 3, dtype=dtype)
        before = network.forward(x)
        for parameter in model.parameters():
            parameter.data.zero_()
        assert torch.equal(network.forward(x), before)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_every_recipe_traces(recipe: Recipe) -> None:
    spec = scale_width(parse(recipe.spec), 0.05)
    net = build(spec, 0, init=recipe.init)
    assert trace(net, spec.input_shape).classes == spec.classes


class AuxiliaryHead(nn.Module):
    """A net with a second head, in a list, that takes part in training only."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.out = nn.Linear(4, 5), nn.Linear(5, 3)
        head = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.LSTM(4, 3))
        self.heads = nn.ModuleList([head])

    def forward(self, x: Tensor) -> Any:
        x = torch.relu(self.body(x))
        return (self.out(x), self.heads[0](x)) if self.training else self.out(x)


def test_a_head_that_is_not_called_in_eval_mode_is_dropped_and_named() -> None:
    torch.manual_seed(0)
    module, x = AuxiliaryHead().train(), torch.randn(3, 4)
    net = trace(module, (4,))
    assert [node.name for node in net.affine_layers] == ["body", "out"]
    assert net.parameters == 4 * 5 + 5 + 5 * 3 + 3
    with torch.no_grad():
        assert torch.allclose(net.forward(x), copy.deepcopy(module).eval()(x), atol=1e-6)
    assert module.training
    report = support(module, (4,))
    assert report.understood
    roles = {line.path: line.role for line in report.lines}
    paths = ("heads", "heads.0", "heads.0.0", "heads.0.1", "heads.0.2")
    assert {roles[path] for path in paths} == {"not called in eval mode"}
    assert [path for path, role in roles.items() if role.startswith("not")] == list(paths)
