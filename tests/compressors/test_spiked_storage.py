"""√t·G + B as it is stored: G's law, the net back from its message, hostile messages refused, exact
integer weights.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from tests.compressed_cases import NAMED, network
from tests.compressors.test_pruned_storage import EXPONENTS, grid

import cushion
from cushion.certificates.format.number_stream import encode_numbers
from cushion.certificates.format.sources import SeededNoise
from cushion.compressors.noise.candidates import replace_layer, spread, store_replaced
from cushion.compressors.noise.method import FORMS, Form
from cushion.compressors.noise.spiked import Spiked, bell_numbers, on_a_grid
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored_net import StoredNet, read_stored
from cushion.data.counter import stream
from cushion.errors import BadInput, Malformed, Unsupported
from cushion.nets.network import Network
from cushion.theorems.heavy_tails import failure

SEED = 5


def stored(
    net: Network, form: Form = "corrected", tau: float = 1.0, bits: int = 7, seed: int = SEED
) -> StoredNet:
    weights = [node.affine.operator.weight for node in net.affine_layers]
    replaced = [
        None if weight.ndim == 1 else replace_layer(weight, form, tau * spread(weight)[1], 1.0)
        for weight in weights
    ]
    return store_replaced(net, replaced, bits, seed)


def test_g_is_the_set_bits_of_a_word() -> None:
    """One word of the layer's stream a weight; the same numbers for ever, in any stretch."""
    words = stream("weights 3", 11, 70_000)
    naive = [(bin(int(word)).count("1") - 32) / 4 for word in words[:300]]
    found = bell_numbers(11, 3, 70_000)
    assert found[:300].tolist() == naive
    assert found.tolist()[:8] == [-0.75, 0.75, 1.25, -0.75, 0.0, -0.5, -0.5, 0.75]
    assert np.array_equal(
        found[65_530:65_540],
        [(bin(int(word)).count("1") - 32) / 4 for word in words[65_530:65_540]],
    )
    assert bell_numbers(11, 3, 0).size == 0
    assert not np.array_equal(bell_numbers(12, 3, 300), naive)
    assert not np.array_equal(bell_numbers(11, 4, 300), naive)


def law() -> list[tuple[Fraction, Fraction]]:
    """Values of g and their probabilities, exactly."""
    return [(Fraction(ones - 32, 4), Fraction(math.comb(64, ones), 2**64)) for ones in range(65)]


def test_the_law_of_g_is_symmetric_of_variance_one_and_sub_gaussian() -> None:
    moments = [sum((p * x**k for x, p in law()), Fraction(0)) for k in range(5)]
    assert moments[:4] == [1, 0, 1, 0]
    assert float(moments[4]) == pytest.approx(3 - 2 / 64)  # 3 for the normal law
    for strength in np.linspace(-30, 30, 241):
        logs = [float(x) * strength + math.log(p) for x, p in law()]
        top = max(logs)
        log_mgf = top + math.log(math.fsum(math.exp(one - top) for one in logs))
        assert log_mgf == pytest.approx(64 * math.log(math.cosh(strength / 8)), abs=1e-9)
        assert log_mgf <= strength**2 / 2 + 1e-12


def test_g_as_it_is_made_has_that_law() -> None:
    n = 400_000
    drawn = bell_numbers(0, 1, n)
    counts = np.bincount((4 * drawn + 32).astype(int), minlength=65)
    for (value, p), seen in zip(law(), counts, strict=True):
        expected = n * float(p)
        assert abs(seen - expected) <= 5 * math.sqrt(expected) + 5, value
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / math.sqrt(n)
    other = bell_numbers(1, 1, n)
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 5 / math.sqrt(n)


@pytest.mark.parametrize(("tau", "t"), [(0.4, 0.0), (0.4, 0.05), (0.0, 0.1)])
def test_proposition_1_1_holds_for_this_g(tau: float, t: float) -> None:
    """|uᵀ(A - √t·G)v| for fixed u, v, over random signs of A and seeds of G: no tail is heavier
    than the promise.
    """
    rng = np.random.default_rng(4)
    rows, columns, draws = 6, 8, 4000
    u, v = rng.normal(size=rows), rng.normal(size=columns)
    size = np.outer(u, v)
    magnitudes = tau * rng.uniform(0.7, 1.0, (rows, columns))  # near τ, the worst case
    signs = rng.choice([-1.0, 1.0], (draws, rows, columns))
    noise = np.stack(
        [bell_numbers(seed, 1, rows * columns).reshape(rows, columns) for seed in range(draws)]
    )
    seen = np.abs(
        ((signs * magnitudes - math.sqrt(t) * noise) * size).sum((1, 2))
    ) / np.linalg.norm(size)
    for epsilon in np.linspace(0.05, 2.0, 40):
        promised = failure(tau**2 + t, float(epsilon))
        share = float((seen > epsilon).mean())
        assert share <= promised + 4 * math.sqrt(promised * (1 - promised) / draws) + 1e-9
    assert np.median(seen) > 0.3 * math.sqrt(tau**2 + t)  # not loose by itself


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name", ["mlp", "mlp-no-bias", "conv-groups", "vgg-tiny", "dense", "batchnorm-first"]
)
@pytest.mark.parametrize("tau", [0.3, 1.0, 50.0])
def test_the_net_comes_back_from_its_message(name: str, form: Form, tau: float) -> None:
    net = network(name)
    before = stored(net, form, tau)
    again = read_stored(before.coded.data, before.bits, net)
    assert again.seed == SEED
    x = NAMED[name].inputs()
    assert torch.equal(again.network(net).forward(x), before.network(net).forward(x))
    for old, new, node in zip(before.layers, again.layers, net.affine_layers, strict=True):
        assert type(old) is type(new)
        if isinstance(old, Spiked) and isinstance(new, Spiked):
            assert np.array_equal(new.weight(SEED), old.weight(SEED))
            assert (new.everywhere, new.place, new.law.exponent) == (
                old.everywhere,
                old.place,
                old.law.exponent,
            )
            assert new.everywhere == (form != "appendix")
            assert new.shape == tuple(node.affine.operator.weight.shape)
            assert new.parameters == np.count_nonzero(old.kept.integers) + (
                1 if new.everywhere else 2
            )
    assert any(isinstance(layer, Spiked) for layer in before.layers)


def test_the_seed_makes_the_noise_and_is_paid() -> None:
    net = network("mlp")
    one = stored(net, seed=0)
    other = replace(one, seed=10**6)
    assert other.bits - one.bits == 2 * 19  # the gamma words of 1 and of 10^6 + 1
    assert other.layer_bits == one.layer_bits
    for layer in one.layers:
        assert not np.array_equal(layer.weight(0), layer.weight(10**6))
    first, second = one.layers
    assert isinstance(first, Spiked)
    assert isinstance(second, Spiked)
    assert first.place != second.place  # layers share no noise


def test_a_weight_by_hand() -> None:
    kept = Pruned.of(grid([[0, 6, 0], [-3, 0, 0]], -2))
    noise = bell_numbers(7, 2, 6).reshape(2, 3)
    added = Spiked(kept, grid([5], -3), 2)
    assert added.weight(7).tolist() == (kept.weight(7) + 0.625 * noise).tolist()
    assert (added.fields, added.parameters, added.deviation, added.mean) == ((2, 0), 3, 0.625, 0.0)
    drawn = Spiked(kept, grid([5, -2], -3), 2)
    wanted = -0.25 + 0.625 * noise
    wanted[0, 1], wanted[1, 0] = 1.5, -0.75
    assert drawn.weight(7).tolist() == wanted.tolist()
    assert (drawn.fields, drawn.parameters, drawn.deviation, drawn.mean) == (
        (2, 1),
        4,
        0.625,
        -0.25,
    )


def test_the_law_on_its_grid() -> None:
    for value in (1.0, 0.3, 1e-5, 7e9):
        found = on_a_grid(np.array([value]), 10)
        assert found.integers[0] % 2 == 1
        assert found.integers[0] < 2**9
        assert found.values[0] == pytest.approx(value, rel=2.0**-7)
    pair = on_a_grid(np.array([0.5, -0.01]), 16)
    assert pair.integers[0] % 2 == 1
    assert pair.values == pytest.approx([0.5, -0.01], abs=2.0**-14)
    # never zero, however far the mean is
    assert on_a_grid(np.array([1e-12, 5.0]), 8).integers[0] == 1


def craft(fields: list[int], arrays: list[list[int]]) -> StoredNet:
    """A message for one dense layer [2, 3] without a bias."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 2, bias=False)).eval()
    coded = encode_numbers(fields, [np.array(part, dtype=np.int64) for part in arrays])
    return read_stored(coded.data, coded.bits, cushion.trace(net, (3,)))


@pytest.mark.parametrize(
    ("fields", "arrays", "words"),
    [
        ([1, 2], [[0], [1], [5]], "noise of the kind 2"),
        ([1, 2**39], [[0], [1], [5]], "noise of the kind"),
        ([7, 0], [[0] * 7, [1] * 7, [5]], "no 7 non-zeros"),
        ([2**39, 0], [], "non-zeros"),
        ([1, 0], [[0], [1], [0]], "must be above 0"),
        ([1, 0], [[0], [1], [-3]], "must be above 0"),
        ([1, 1], [[0], [1], [0, 4]], "must be above 0"),
        ([1, 0], [[0], [0], [5]], "a stored non-zero is zero"),
        ([2, 0], [[1, -2], [1, 1], [5]], "gaps"),
    ],
)
def test_hostile_messages_are_refused(
    fields: list[int], arrays: list[list[int]], words: str
) -> None:
    head = [0, Spiked.number, *fields, EXPONENTS, EXPONENTS, EXPONENTS - 2]
    with pytest.raises(Malformed, match=f"^layer 0: .*{words}"):
        craft(head, arrays)
    good = craft([0, Spiked.number, 1, 0, EXPONENTS, EXPONENTS, EXPONENTS - 2], [[-1], [3], [5]])
    noise = bell_numbers(0, 1, 6).reshape(2, 3)
    assert (
        good.layers[0].weight(0).tolist()
        == (np.array([[0, 3, 0], [0, 0, 0]]) + 1.25 * noise).tolist()
    )


def test_a_layer_larger_than_any_real_one_is_refused_before_it_is_made() -> None:
    with pytest.raises(BadInput, match="larger than any that is read"):
        Spiked.sizes((2**14, 2**14), (0, 0))
    assert Spiked.sizes((2**13, 2**14), (0, 1)) == ((0,), (0,), (2,))
    assert Spiked.work((0, 0), 1000) > 0  # what a loader counts before it makes a number


def test_damaged_messages_never_pass_for_the_net() -> None:
    net = network("mlp-no-bias")
    message = stored(net, tau=1.5)
    data, bits = bytearray(message.coded.data), message.bits
    weights = [layer.weight(SEED) for layer in message.layers]
    for at in range(bits):
        data[at // 8] ^= 0x80 >> at % 8
        try:
            other = read_stored(bytes(data), bits, net)
        except Malformed:
            pass
        else:
            made = zip(other.layers, weights, strict=True)
            assert not all(
                np.array_equal(layer.weight(other.seed), weight) for layer, weight in made
            )
        data[at // 8] ^= 0x80 >> at % 8
    assert read_stored(bytes(data), bits, net).bits == bits


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("bits", "tau"), [(3, 1.0), (7, 0.5), (16, 2.0), (8, 60.0)])
def test_a_certificate_makes_the_same_numbers(form: Form, bits: int, tau: float) -> None:
    """SeededNoise times the unit is the weight, exactly; of draws with a mean, less the mean in
    every number.
    """
    for name in ("mlp", "vgg-tiny"):
        net = network(name)
        for layer in stored(net, form, tau, bits).layers:
            assert isinstance(layer, Spiked)
            exact = layer.exact(layer.shape, SEED, layer.place)
            source = exact.source(3)
            assert isinstance(source, SeededNoise)
            assert exact.fixed
            assert (source.seed, source.layer) == (SEED, layer.place)
            assert source.numbers.dtype == np.int64
            made = source.numbers.astype(np.float64) * float(exact.unit)
            wanted = layer.weight(SEED) - layer.mean
            assert np.abs(made - wanted).max() <= 1e-12 * np.abs(wanted).max()
            assert np.count_nonzero(source.coded) == layer.kept.parameters


def test_what_a_certificate_cannot_hold() -> None:
    kept = Pruned.of(grid([[0, 6, 0], [-3, 0, 0]], -2))
    layer = Spiked(kept, grid([5], -3), 2)
    with pytest.raises(
        Unsupported, match="helper string is that of layer 2, and in a certificate it is layer 1"
    ):
        layer.exact((2, 3), 7, 1)
    for exponent in (30, -60):  # noise far above the weights, and far below
        with pytest.raises(Unsupported, match="too far apart in size"):
            Spiked(kept, grid([5], exponent), 2).exact((2, 3), 7, 2)
    drawn = 4 * bell_numbers(7, 2, 6)
    at = int(np.flatnonzero(drawn)[0])
    values = np.zeros(6, dtype=np.int64)
    values[at] = -int(drawn[at])
    cancels = Spiked(Pruned.of(grid(values.reshape(2, 3), 0)), grid([1], 2), 2)
    assert cancels.weight(7).reshape(-1)[at] == 0.0
    with pytest.raises(Unsupported, match="cancel to an exact zero"):
        cancels.exact((2, 3), 7, 2)
    mean = Spiked(Pruned.of(grid([[0, 6, 0]], 0)), grid([1, 6], 0), 2)
    with pytest.raises(Unsupported, match="cancel"):
        mean.exact((1, 3), 7, 2)
