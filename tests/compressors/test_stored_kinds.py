"""Kinds of stored layers: each registers itself under its number, storage knows no family, and the
bytes of every kind stay what they are.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from tests.compressed_cases import compressed, network

from cushion.certificates.format.number_stream import encode_numbers
from cushion.compressors.file import CompressedNet, read_compressed
from cushion.compressors.noise.spiked import Spiked
from cushion.compressors.projection.conv_project import Located
from cushion.compressors.projection.low_rank import LowRank, LowRankMap
from cushion.compressors.projection.matrix_project import Projected, ProjectedRows, Sparse
from cushion.compressors.pruning.sketched import Sketched
from cushion.compressors.storage import stored
from cushion.compressors.storage.exact import to_integer_net
from cushion.compressors.storage.exact_layers import ExactWeight, as_they_are
from cushion.compressors.storage.matrix import Matrix
from cushion.compressors.storage.pruned import Pruned
from cushion.compressors.storage.stored import (
    KINDS,
    Fields,
    Kept,
    Numbers,
    Parts,
    Shape,
    StoredLayer,
    Values,
)
from cushion.compressors.storage.stored_net import StoredNet, read_stored
from cushion.data.dataset import Dataset
from cushion.errors import Malformed, Unsupported


def grid(values: object, exponent: int) -> Numbers:
    return Numbers(np.array(values, dtype=np.int64), exponent)


SHAPE = (2, 1, 2, 2)
PRUNED = Pruned.of(grid(np.arange(-4, 4).reshape(SHAPE), -3))
# a layer of each kind in the order of their numbers, and its message under the seed 5
MESSAGES: list[tuple[StoredLayer, int, str]] = [
    (Kept(grid(np.arange(8).reshape(SHAPE), -2)), 67, "3400896ddd35420a60"),
    (
        LowRank(grid([[1], [2]], -1), grid([[3, 4, -5, 6]], -4), SHAPE),
        83,
        "3240044c00224dc9804540",
    ),
    (
        LowRankMap(grid([[1], [2]], -1), grid([[3, 4, -5, 6]], -4), SHAPE),
        91,
        "334ca0044c00224dc9804540",
    ),
    (Projected(grid([5, -6, 7], -3), SHAPE, "srht", 2), 56, "3111000895d873"),
    (Located(grid([8, -9, 1, 0], -3), SHAPE, 2, 2, 9, "gaussian", 2), 70, "315b62800895eb9848"),
    (Sparse(grid([[0, 3, 0, -4]], -5), (2, 3), True), 51, "319001121cf180"),
    (ProjectedRows(grid([[1, -2, 3]], -5), (2, 3), True, "signs", 1), 53, "31e4400448b848"),
    (PRUNED, 99, "308100044d00225206f0de7420"),
    (Sketched(grid([[1, -7], [0, 3]], -2), SHAPE, 1, 123456, 2), 95, "3096d0000789040089774bba"),
    (Spiked(PRUNED, grid([9, -1], -7), 3), 135, "30a1080089a0044a00223206f0dffce846"),
    (Matrix(grid(np.arange(-4, 4).reshape(SHAPE), -3), SHAPE), 78, "30bc00895fe826559e1c"),
]


@pytest.mark.parametrize(
    ("number", "layer", "bits", "message"),
    [(at, *row) for at, row in enumerate(MESSAGES)],
    ids=[row[0].kind for row in MESSAGES],
)
def test_the_bytes_of_every_kind_stay(
    number: int, layer: StoredLayer, bits: int, message: str
) -> None:
    assert KINDS[number] is type(layer)
    assert layer.number == number
    assert len(layer.fields) == layer.field_count
    coded = StoredNet(5, (layer,), (None,)).coded
    assert (coded.bits, coded.data.hex()) == (bits, message)


def test_every_kind_is_among_them() -> None:
    assert sorted(KINDS) == list(range(len(MESSAGES)))
    assert len({kind.kind for kind in KINDS.values()}) == len(KINDS)


def test_storage_imports_no_family() -> None:
    folder = Path(stored.__file__).parent
    families = [p.name for p in folder.parent.iterdir() if p.is_dir() and p != folder]
    assert "projection" in families
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert not any(f"compressors.{one}" in str(node.module) for one in families)


def test_files_are_read_where_nothing_but_the_reader_is_imported(tmp_path: Path) -> None:
    paths = [
        str(compressed(network("conv"), way).save(tmp_path / way))
        for way in ("located", "accuracy", "signs")
    ]
    code = f"""
from cushion.compressors.file import read_compressed
for path in {paths!r}:
    print([layer.kind for layer in read_compressed(path).stored.layers])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    kinds = [str([one.kind for one in read_compressed(path).stored.layers]) for path in paths]
    assert result.stdout.split("\n")[:-1] == kinds


# A kind from elsewhere: this class is all that it takes.


@pytest.fixture
def toy() -> Iterator[type[StoredLayer]]:
    """Every weight of a layer is one number."""

    @dataclass(frozen=True, eq=False)
    class Constant(StoredLayer, kind="constant", number=12):
        value: Numbers  # [1]
        shape: Shape

        @property
        def fields(self) -> Fields:
            return ()

        @classmethod
        def sizes(cls, shape: Shape, fields: Fields) -> tuple[Shape, ...]:
            return ((1,),)

        @classmethod
        def restore(cls, shape: Shape, place: int, fields: Fields, numbers: Parts) -> Self:
            return cls(numbers[0], shape)

        def weight(self, seed: int) -> Values:
            return np.full(self.shape, self.value.values[0])

        def exact(self, shape: Shape, seed: int, place: int) -> ExactWeight:
            return as_they_are(np.full(shape, self.value.integers[0]), self.value.exponent)

    yield Constant
    del KINDS[Constant.number]


def test_a_new_kind_is_stored_read_and_certified(toy: type[StoredLayer], tmp_path: Path) -> None:
    net = network("mlp")
    layers = tuple(
        toy(grid([at + 1], -3), tuple(node.affine.operator.weight.shape))  # type: ignore[call-arg]
        for at, node in enumerate(net.affine_layers)
    )
    biases = tuple(
        grid(np.arange(len(node.affine.bias)), -2)  # type: ignore[arg-type]
        for node in net.affine_layers
    )
    made = CompressedNet(StoredNet(5, layers, biases), net, {})
    back = read_compressed(made.save(tmp_path / "net"))
    assert [layer.kind for layer in back.stored.layers] == ["constant"] * len(layers)
    for node, layer in zip(back.network.affine_layers, layers, strict=True):
        assert np.array_equal(node.affine.operator.weight.double().numpy(), layer.weight(5))
    x = np.random.default_rng(0).integers(0, 256, (30, *net.input_shape), dtype=np.uint8)
    sample = Dataset("inputs", x, np.zeros(30, dtype=np.int64), net.classes)
    integer = to_integer_net(back.network, back.stored.layers, back.stored.biases, 5, sample)
    assert len(integer.layers) == len(layers)
    # numbers below the highest that no kind has
    unknown = encode_numbers([5, 11], [])
    with pytest.raises(Malformed, match="kind number 11 are not known"):
        read_stored(unknown.data, unknown.bits, net)


def test_a_number_is_taken_once() -> None:
    with pytest.raises(TypeError, match="Kept"):
        type("Again", (StoredLayer,), {}, number=Kept.number)
    assert KINDS[Kept.number] is Kept
    before = dict(KINDS)
    type("Base", (StoredLayer,), {})  # without a number: a base of kinds
    assert before == KINDS


@pytest.mark.parametrize("layer", [row[0] for row in MESSAGES], ids=lambda layer: layer.kind)
def test_a_kind_is_exact_or_says_why_not(layer: StoredLayer) -> None:
    place = getattr(layer, "place", 1)
    if layer.not_exact:
        with pytest.raises(Unsupported, match=layer.not_exact[:20]):
            layer.exact(layer.shape, 5, place)
    elif isinstance(layer, Projected):  # srht
        with pytest.raises(Unsupported, match="Hadamard"):
            layer.exact(layer.shape, 5, place)
    else:
        exact = layer.exact(layer.shape, 5, place)
        made = exact.source(0).numbers * float(exact.unit)
        wanted = layer.weight(5)
        assert bool(exact.only_last) == isinstance(layer, Spiked)
        # but for what all rows have in common, which no answer of a last layer depends on
        np.testing.assert_allclose(made - made[:1], wanted - wanted[:1], atol=1e-12)
