"""Pruned weights as gaps and values: the same net back from its message, hostile messages refused,
bits as counted.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.compressed_cases import NAMED, network
from tests.compressors.test_pruning import normal

import cushion
from cushion.certificates.format.number_stream import encode_numbers
from cushion.compressors.pruning.masks import apply_masks, masks_for
from cushion.compressors.storage.pruned import Grid, Pruned, fitted, store_pruned
from cushion.compressors.storage.stored import Numbers, StoredLayer
from cushion.compressors.storage.stored_net import StoredNet, read_stored
from cushion.errors import BadInput, Malformed
from cushion.nets.network import Network

EXPONENTS = 1100  # what a message adds to an exponent


def grid(integers: list[int] | np.ndarray, exponent: int = 0) -> Numbers:
    return Numbers(np.array(integers, dtype=np.int64), exponent)


def stored(net: Network, sparsity: float, bits: int = 6, seed: int = 3) -> StoredNet:
    masks = masks_for(net, "layer", d=None, sparsity=sparsity, seed=0)
    layers: list[StoredLayer] = []
    biases: list[Numbers | None] = []
    for node, mask in zip(net.affine_layers, masks, strict=True):
        layers.append(Pruned.of(fitted(node.affine.operator.weight, mask, bits)))
        bias = node.affine.bias
        biases.append(None if bias is None else Numbers.fitted(bias.double().numpy(), 16))
    return StoredNet(seed, tuple(layers), tuple(biases))


@pytest.mark.parametrize(
    "name", ["mlp", "mlp-no-bias", "conv-groups", "vgg-tiny", "dense", "batchnorm-first"]
)
@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.9, 0.999])
def test_the_net_comes_back_from_its_message(name: str, sparsity: float) -> None:
    net = network(name)
    before = stored(net, sparsity)
    again = read_stored(before.coded.data, before.bits, net)
    assert again.seed == 3
    x = NAMED[name].inputs()
    assert torch.equal(again.network(net).forward(x), before.network(net).forward(x))
    for old, new, node in zip(before.layers, again.layers, net.affine_layers, strict=True):
        assert isinstance(old, Pruned)
        assert isinstance(new, Pruned)
        assert np.array_equal(new.integers, old.integers)
        assert new.shape == tuple(node.affine.operator.weight.shape)
        assert new.parameters == np.count_nonzero(old.integers)
    assert before.parameters == sum(layer.parameters for layer in before.layers) + sum(
        0 if bias is None else bias.integers.size for bias in before.biases
    )


def test_the_weight_is_what_was_rounded() -> None:
    net = network("vgg-tiny")
    masks = masks_for(net, "bernoulli", d=1.0, sparsity=None, seed=0)
    pruned = apply_masks(net, masks)
    for node, mask in zip(pruned.affine_layers, masks, strict=True):
        numbers = fitted(node.affine.operator.weight, mask, 8)
        weight = Pruned.of(numbers).weight(0)
        assert np.array_equal(weight, numbers.values)
        assert (
            np.abs(weight - node.affine.operator.weight.double().numpy()).max() <= numbers.step / 2
        )
        assert not weight[~mask.numpy()].any()


def test_gaps_count_from_before_the_weight() -> None:
    layer = Pruned.of(grid([[0, 5, 0], [-1, 0, 0], [0, 0, 2]], -3))
    assert layer.gaps.integers.tolist() == [2, 2, 5]
    assert layer.numbers[0].integers.tolist() == [-1, -1, 2]  # 1, 2, 3, 4, 5 go as 0, -1, 1, -2, 2
    assert layer.values.integers.tolist() == [5, -1, 2]
    assert (layer.fields, layer.parameters, layer.values.exponent) == ((3,), 3, -3)
    assert layer.weight(0).tolist() == [[0.0, 0.625, 0.0], [-0.125, 0.0, 0.0], [0.0, 0.0, 0.25]]
    empty = Pruned.of(grid([[0, 0]]))
    assert (empty.parameters, empty.weight(0).tolist()) == (0, [[0.0, 0.0]])


@pytest.mark.parametrize(
    ("gaps", "values", "complaint"),
    [
        ([1, -2], [1, 1], "gaps"),  # 3 and 4: beyond the end
        ([0, 3], [1, 1], "gaps"),  # 1 and 7
        ([-(2**39), 2**39], [1, 1], "gaps"),
        ([0, -1], [1, 0], "zero"),  # a non-zero that is none: the same net under two messages
    ],
)
def test_gaps_and_values_that_fit_no_weight_are_refused(
    gaps: list[int], values: list[int], complaint: str
) -> None:
    shape = (2, 3)
    with pytest.raises(BadInput, match=complaint):
        Pruned.restore(shape, 1, (2,), (grid(gaps), grid(values)))
    with pytest.raises(BadInput, match="gaps"):
        Pruned.restore(shape, 1, (2,), (grid([0, -1], 1), grid([1, 1])))  # gaps on a grid of 2
    # the same numbers in a message: one sentence that names the layer
    net = torch.nn.Sequential(torch.nn.Linear(3, 2, bias=False)).eval()
    frame = cushion.trace(net, (3,))
    head = [0, Pruned.number, 2, EXPONENTS, EXPONENTS]
    coded = encode_numbers(head, [grid(gaps).integers, grid(values).integers])
    with pytest.raises(Malformed, match=f"^layer {frame.affine_layers[0].name}: .*{complaint}"):
        read_stored(coded.data, coded.bits, frame)
    good = encode_numbers(head, [grid([-1, -2]).integers, grid([3, -3]).integers])
    (layer,) = read_stored(good.data, good.bits, frame).layers
    assert layer.weight(0).tolist() == [[0.0, 3.0, 0.0], [0.0, 0.0, -3.0]]
    for count in (7, 2**39):  # more non-zeros than numbers: refused before anything is allocated
        many = encode_numbers([0, Pruned.number, count, EXPONENTS, EXPONENTS], [])
        with pytest.raises(Malformed, match="non-zeros"):
            read_stored(many.data, many.bits, frame)


def test_damaged_messages_never_pass_for_the_net() -> None:
    """Every flipped bit gives Malformed or another net, never the same one; and nothing but
    Malformed is raised.
    """
    net = network("mlp")
    message = stored(net, 0.6)
    data, bits = bytearray(message.coded.data), message.bits
    weights = [layer.weight(0) for layer in message.layers]
    for at in range(bits):
        data[at // 8] ^= 0x80 >> at % 8
        try:
            other = read_stored(bytes(data), bits, net)
        except Malformed:
            pass
        else:
            same = other.seed == message.seed and all(
                np.array_equal(a.weight(0), b) for a, b in zip(other.layers, weights, strict=True)
            )
            same = same and all(
                a is b is None
                or (a is not None and b is not None and np.array_equal(a.values, b.values))
                for a, b in zip(other.biases, message.biases, strict=True)
            )
            assert not same
        data[at // 8] ^= 0x80 >> at % 8
    assert read_stored(bytes(data), bits, net).bits == bits


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2, 0.5])
def test_positions_cost_about_what_naming_the_mask_does(share: float) -> None:
    """log2 C(N, J) bits for the gaps, and for the values about their entropy on the grid, each
    within a tenth.
    """
    rows, columns, bits = 400, 300, 5
    weight = normal(rows, columns)
    mask = torch.rand(rows, columns, generator=torch.Generator().manual_seed(1)) < share
    layer = Pruned.of(fitted(weight, mask, bits))
    n, j = rows * columns, layer.parameters
    mask_bits = (math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1)) / math.log(2)
    coded = encode_numbers([], [part.integers for part in layer.numbers])
    gap_bits, value_bits = coded.arrays
    _, counts = np.unique(layer.values.integers, return_counts=True)
    entropy = float(-(counts * np.log2(counts / j)).sum())
    assert mask_bits < gap_bits < 1.1 * mask_bits + 64
    assert 0.98 * entropy < value_bits < 1.1 * entropy + 64
    assert coded.bits < n * bits / 2 or share > 0.3  # far below the dense weight


def test_the_code_pays_for_what_is_kept_and_nothing_else() -> None:
    net = network("vgg-tiny")
    lengths = [stored(net, sparsity).bits for sparsity in (0.0, 0.5, 0.9)]
    assert lengths == sorted(lengths, reverse=True)
    one = stored(net, 0.5)
    assert one.bits > sum(one.layer_bits)
    renamed = replace(one, seed=4)
    assert renamed.layer_bits == one.layer_bits


def test_a_layer_that_is_larger_than_any_real_one_is_refused_before_it_is_made() -> None:
    with pytest.raises(BadInput, match="larger than any that is read"):
        Pruned.sizes((2**14, 2**14), (0,))
    assert Pruned.sizes((2**13, 2**14), (0,)) == ((0,), (0,))


def test_a_layer_without_weights_keeps_its_biases() -> None:
    """Its grid says nothing of their size: rounded to halves all of them would be zero."""
    net = network("mlp")
    masks = [
        torch.ones_like(node.affine.operator.weight, dtype=torch.bool) for node in net.affine_layers
    ]
    masks[-1] = torch.zeros_like(masks[-1])
    last = net.affine_layers[-1]
    assert last.affine.bias is not None
    small = replace(
        last.affine,
        bias=0.03 * torch.sign(last.affine.bias) + 0.001 * torch.arange(last.affine.bias.numel()),
    )
    found = store_pruned(net.with_affine({last.index: small}), masks, Grid(8), 0, faithful=False)
    assert found.biases[-1] is not None
    np.testing.assert_allclose(
        found.biases[-1].values, small.bias.double().numpy(), rtol=2e-3, atol=1e-5
    )
