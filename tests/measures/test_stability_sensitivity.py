"""cushion.noise_sensitivity: Definition 3 of any part of a net, against closed forms and a naive
loop.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.cases import CASES, Case
from tests.jacobian_cases import activations
from tests.simulations import few_and_many
from torch import Tensor

import cushion
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets.tracing import trace


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def sample(case: Case, m: int = 6) -> Dataset:
    rng = np.random.default_rng(1)
    return Dataset(
        "noise",
        rng.standard_normal((m, *case.input_shape)).astype(np.float32),
        np.zeros(m, np.int64),
        2,
    )


@pytest.mark.parametrize(
    ("law", "energy"), [("gaussian", "size"), ("signs", "size"), ("sphere", "one")]
)
@pytest.mark.parametrize("name", ["mlp", "vgg-tiny"])
@few_and_many("draws", 1000, 4000)
def test_one_layer_has_a_closed_form_for_every_law(
    draws: int, name: str, law: str, energy: str
) -> None:
    """Noise with covariance s²I gives s²‖A‖_F²‖x‖²/‖Ax + b‖²; the sphere's covariance is I/n."""
    case = named(name)
    data, net = sample(case), trace(case.module(), case.input_shape)
    first = net.affine_layers[0]
    x = torch.from_numpy(data.x)
    after = first.affine(x).flatten(1).double().norm(dim=1)
    closed = (
        0.5 * first.affine.operator.operator_frobenius() * x.flatten(1).double().norm(dim=1) / after
    ) ** 2
    closed = closed if energy == "size" else closed / first.affine.operator.input_size
    found = cushion.noise_sensitivity(
        case.module(), data, first.name, first.name, noise=law, scale=0.5, draws=draws, seed=3
    )
    assert found.standard_error is not None
    assert abs(found.value - float(closed.max())) < 5 * found.standard_error
    assert found.spread.mean == pytest.approx(float(closed.mean()), rel=0.1)
    assert (found.noise, found.scale, found.draws) == (law, 0.5, draws)


def test_a_part_of_the_net_and_a_law_of_ones_own() -> None:
    case = named("mlp-deep")
    data, net = sample(case), trace(case.module(), case.input_shape)
    second, fourth = net.affine_layers[1], net.affine_layers[3]

    def ones(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        assert isinstance(generator, torch.Generator)
        return torch.ones(shape)

    found = cushion.noise_sensitivity(
        net, data, second.name, fourth.name, noise=ones, scale=0.1, draws=2
    )
    x = torch.from_numpy(data.x)
    values = activations(net, x)
    before = values[second.inputs[0]]
    noisy = before + 0.1 * before.norm(dim=1, keepdim=True)
    for node in net.nodes[second.index : fourth.index + 1]:
        noisy = node.op(noisy)  # type: ignore[operator]
    expected = ((noisy - values[fourth.index]).norm(dim=1) / values[fourth.index].norm(dim=1)) ** 2
    assert found.value == pytest.approx(float(expected[torch.isfinite(expected)].max()), rel=1e-4)
    assert found.standard_error == pytest.approx(0.0, abs=1e-6)
    assert found.noise == "ones"


def test_the_seed_repeats_and_one_draw_has_no_error() -> None:
    case = named("mlp")
    data = sample(case)
    one, again, other = (
        cushion.noise_sensitivity(case.module(), data, "0", "2", draws=1, seed=seed)
        for seed in (1, 1, 2)
    )
    assert one == again
    assert one.value != other.value
    assert one.standard_error is None
    assert math.isfinite(one.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"start": "9"}, "there is no layer called '9'; the layers are 0, 2"),
        ({"start": "2", "end": "0"}, "layer 2 comes after 0"),
        ({"noise": "pink"}, "there is no law of noise called 'pink'"),
        ({"draws": 0}, "draws must be at least 1"),
        ({"scale": -1.0}, "scale above 0"),
    ],
)
def test_bad_input_gets_a_sentence(change: dict[str, object], sentence: str) -> None:
    case = named("mlp")
    given: dict[str, object] = {"start": "0", "end": "2", **change}
    with pytest.raises(BadInput, match=sentence):
        cushion.noise_sensitivity(case.module(), sample(case), **given)  # type: ignore[arg-type]


def test_layers_on_different_branches_are_refused() -> None:
    case = named("residual")
    net = trace(case.module(), case.input_shape)
    names = [node.name for node in net.affine_layers]
    down = next(node for node in net.affine_layers if "down" in node.name)
    other = next(
        node
        for node in net.affine_layers
        if (node.index > down.index and node.index not in net.descendants(down.index))
        or (node.index < down.index and down.index not in net.descendants(node.index))
    )
    first, last = sorted((down, other), key=lambda node: node.index)
    with pytest.raises(BadInput, match="does not depend on"):
        cushion.noise_sensitivity(net, sample(case), first.name, last.name)
    assert len(names) == 6
