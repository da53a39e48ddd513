"""Measures of compressed nets, whose maps may be no convolutions any more: they must agree with the
plain net's.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import cushion
from cushion.data.dataset import Dataset
from cushion.nets.network import Network, NetworkModule
from cushion.nets.operators import Conv2d, FlatMap, LocalConv2d


def conv_net() -> Network:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 3),
    )
    return cushion.trace(module.eval(), (2, 6, 6))


def in_disguise(net: Network, kind: type) -> Network:
    """The same net with its convolutions written as another kind of map."""
    changes = {}
    for node in net.affine_layers:
        operator = node.affine.operator
        if isinstance(operator, Conv2d):
            if kind is LocalConv2d:
                other = LocalConv2d.of(operator)
            else:
                other = FlatMap(operator.dense(), operator.input_shape, operator.output_shape)
            changes[node.index] = type(node.affine)(other, node.affine.bias, node.affine.kind)
    return net.with_affine(changes)


def sample() -> Dataset:
    rng = np.random.default_rng(0)
    return Dataset(
        "noise", rng.normal(size=(12, 2, 6, 6)).astype(np.float32), rng.integers(0, 3, 12), 3
    )


@pytest.mark.parametrize("kind", [LocalConv2d, FlatMap])
def test_a_map_in_another_form_has_the_same_norms_paths_and_margins(kind: type) -> None:
    net = conv_net()
    plain = cushion.measure(net, sample(), only=["norms", "paths", "margins"], spectra=False)
    other = cushion.measure(
        in_disguise(net, kind), sample(), only=["norms", "paths", "margins"], spectra=False
    )
    for mine, theirs in zip(plain.layers, other.layers, strict=True):
        assert theirs.operator_frobenius == pytest.approx(mine.operator_frobenius, rel=1e-6)
        assert theirs.spectral == pytest.approx(mine.spectral, rel=1e-5)
        if kind is LocalConv2d:  # the filters are all the kernel, so their typical norm is its norm
            assert theirs.frobenius == pytest.approx(mine.frobenius, rel=1e-6)
    for mine_path, their_path in zip(plain.net.path_norms, other.net.path_norms, strict=True):
        assert their_path.log10 == pytest.approx(mine_path.log10, rel=1e-6)
    assert other.net.margins is not None
    assert plain.net.margins is not None
    assert other.net.margins.value == pytest.approx(plain.net.margins.value, rel=1e-5)


def test_a_network_as_a_module_is_measured_as_itself() -> None:
    net = conv_net()
    module = NetworkModule(net).eval()
    x = torch.from_numpy(sample().x)
    assert torch.equal(module(x), net.forward(x))
    assert len(list(module.buffers())) == 2 * len(net.affine_layers)
    assert np.array_equal(cushion.margins(module, sample()), cushion.margins(net, sample()))


def test_a_net_of_another_input_shape_is_refused_in_one_sentence() -> None:
    wrong = Dataset("small", np.zeros((3, 2, 5, 5), dtype=np.float32), np.array([0, 1, 2]), 3)
    with pytest.raises(
        cushion.BadInput, match=r"reads examples of shape \(2, 6, 6\), but small has \(2, 5, 5\)"
    ):
        cushion.measure(conv_net(), wrong, only="margins")
