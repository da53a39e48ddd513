"""Compressed nets as files from anywhere: one sentence for every damage; no code is run, no memory
or time wasted.
"""

from __future__ import annotations

import json
import math
import pickle
import resource
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.cases import Case
from tests.compressed_cases import compressed, moved, network

import cushion
from cushion.certificates.format.number_stream import encode_numbers
from cushion.compressors.container import _DICTIONARY, MAGIC, Contents, _length, pack, unpack
from cushion.compressors.file import (
    CompressedNet,
    describe_graph,
    is_compressed,
    read_compressed,
    rebuild_graph,
)
from cushion.compressors.projection.low_rank import LowRank
from cushion.compressors.storage.stored import Numbers
from cushion.compressors.storage.stored_net import StoredNet, read_stored
from cushion.errors import BadInput, CushionError, Malformed


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    net = network("conv")
    return (
        compressed(net, "signs", moved(net))
        .save(tmp_path_factory.mktemp("saved") / "net")
        .read_bytes()
    )


def rewritten(content: bytes, path: Path, edit: Callable[[dict[str, Any]], Any]) -> Path:
    """A file with other parts, summed up again, as whoever damages it on purpose can do."""
    parts = dict(vars(unpack(content, "here")))
    parts["start"] = dict(parts["start"])
    edit(parts)
    path.write_bytes(pack(Contents(**parts)))
    return path


def with_head(content: bytes, path: Path, said: bytes) -> Path:
    """A file whose head is these bytes, deflated or not."""
    contents = unpack(content, "here")
    body = _length(len(said)) + said + _length(contents.bits) + contents.message
    path.write_bytes(MAGIC + zlib.crc32(body).to_bytes(4, "little") + body)
    return path


def deflated(said: bytes) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY)
    return deflate.compress(said) + deflate.flush()


def refused(path: Path, words: str = ".") -> None:
    """One sentence of ours, quickly, and without much memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CushionError, match=words) as caught:
        read_compressed(path)
    assert type(caught.value) in (Malformed, BadInput)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


def message(data: bytes, bits: int) -> Callable[[dict[str, Any]], None]:
    return lambda parts: parts.update(message=data, bits=bits)


def head(**said: Any) -> Callable[[dict[str, Any]], None]:
    return lambda parts: parts.update(head={**parts["head"], **said})


def start(**tensors: Any) -> Callable[[dict[str, Any]], None]:
    def edit(parts: dict[str, Any]) -> None:
        for name, tensor in tensors.items():
            parts["start"][name.replace("_", ".")] = tensor

    return edit


EDITS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no graph": (lambda p: p.update(head={"notes": {}}), "lacks"),
    "no notes": (lambda p: p.update(head={"graph": p["head"]["graph"]}), "lacks"),
    "notes that are a list": (head(notes=[1]), "lacks"),
    "a head that is a list": (lambda p: p.update(head=[1]), "lacks"),
    "a graph of a list": (head(graph=[[[1]]]), "describes no net"),
    "a graph of text": (head(graph="conv"), "describes no net"),
    "no nodes": (head(graph={"dtype": "float32", "nodes": []}), "describes no net"),
    "more bits": (lambda p: p.update(bits=p["bits"] + 8), "damaged"),
    "fewer bits": (lambda p: p.update(bits=1), "damaged"),
    "bits without end": (lambda p: p.update(bits=2**55), "lacks"),
    "an empty message": (lambda p: p.update(message=b"", bits=0, start={}), "too early"),
    "zeros": (message(bytes(100), 800), "absurdly long"),
    "ones": (message(b"\xff" * 100, 800), "damaged"),
    "a start without a weight": (lambda p: p["start"].pop("start.2.weight"), "initialisation"),
    "a start without a bias": (lambda p: p["start"].pop("start.1.bias"), "initialisation"),
    "a start of another shape": (start(start_1_weight=torch.zeros(6, 4, 3, 4)), "initialisation"),
    "a bias of another shape": (start(start_1_bias=torch.zeros(1)), "initialisation"),
    "a start of integers": (start(start_2_bias=torch.zeros(3, dtype=torch.int64)), "dtype"),
    "a start of doubles": (start(start_2_bias=torch.zeros(3, dtype=torch.float64)), "dtype"),
    "a start with NaN": (
        lambda p: p["start"]["start.1.weight"].view(-1).__setitem__(3, math.nan),
        "not a number",
    ),
    "an infinite start": (
        lambda p: p["start"]["start.2.bias"].__setitem__(0, math.inf),
        "infinite",
    ),
    "a start of a third layer": (start(start_3_weight=torch.zeros(2)), "start.3.weight"),
    "another tensor": (start(extra=torch.zeros(2)), "extra"),
}
HEADS = {
    "nothing": b"",
    "no deflated bytes": b"{}",
    "cut short": deflated(b'{"graph":1,"notes":{}}')[:-2],
    "bytes behind it": deflated(b'{"graph":1,"notes":{}}') + b"0",
    "no JSON": deflated(b"{"),
    "no text": deflated(b"\xff"),
    "deep": deflated(b"[" * 100_000 + b"]" * 100_000),
    "a number of too many digits": deflated(b'{"graph":' + b"9" * 10_000 + b"}"),
    "a bomb": deflated(b" " * (1 << 28)),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_damaged_file_gets_one_sentence(name: str, saved: bytes, tmp_path: Path) -> None:
    edit, words = EDITS[name]
    read_compressed(rewritten(saved, tmp_path / "net", lambda parts: None))
    refused(rewritten(saved, tmp_path / "net", edit), words)


@pytest.mark.parametrize("name", HEADS)
def test_a_damaged_head_gets_one_sentence(name: str, saved: bytes, tmp_path: Path) -> None:
    refused(with_head(saved, tmp_path / "net", HEADS[name]), "lacks")


def test_a_shortened_file_is_refused_wherever_it_ends(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net"
    for length in [*range(0, 40), *range(40, len(saved), 97), len(saved) - 1]:
        path.write_bytes(saved[:length])
        refused(path)
        assert is_compressed(path) is (length >= 4)
    path.write_bytes(saved + b"\0")
    refused(path)


def test_other_files_are_refused_and_never_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "it ran",)

    for number, content in enumerate((pickle.dumps(Bomb()), b"", b"import os", b"{}" * 50)):
        path = tmp_path / f"{number}.net"
        path.write_bytes(content)
        refused(path)
        assert not is_compressed(path)
    torch.save({"a": Bomb()}, tmp_path / "bomb.pt")
    refused(tmp_path / "bomb.pt")
    (tmp_path / "factory.py").write_text(f"open({str(tmp_path / 'it ran')!r}, 'w')")
    refused(tmp_path / "factory.py")
    assert not is_compressed(tmp_path / "factory.py")
    with pytest.raises(BadInput, match="does not exist"):
        read_compressed(tmp_path / "nothing")
    refused(tmp_path)
    assert not (tmp_path / "it ran").exists()


def test_a_flipped_bit_is_refused_or_another_net(tmp_path: Path) -> None:
    """Signs, bits below the leading ones, seeds and grids may change to others; then the message is
    another one.
    """
    case = Case("linear", lambda: torch.nn.Linear(4, 3), (4,), "l")
    net = cushion.trace(case.module(), (4,))
    original = compressed(net, "signs")
    coded = original.stored.coded
    content = original.save(tmp_path / "net").read_bytes()
    read = 0
    for at in range(coded.bits):
        data = bytearray(coded.data)
        data[at // 8] ^= 128 >> at % 8
        path = rewritten(content, tmp_path / "net", message(bytes(data), coded.bits))
        try:
            found = read_compressed(path)
        except Malformed:
            continue
        read += 1
        assert found.stored.coded.data == bytes(data)
        assert torch.isfinite(found.network.affine_layers[0].affine.operator.weight).all()
    assert 10 < read < coded.bits


def test_a_flipped_bit_that_nobody_summed_up_again_is_always_refused(
    saved: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "flipped"
    for at in range(32, 8 * len(saved), 61):
        content = bytearray(saved)
        content[at // 8] ^= 1 << at % 8
        path.write_bytes(content)
        refused(path, "not those that were written")


def test_a_small_net_is_a_small_file(tmp_path: Path) -> None:
    """What is no message: its graph, its notes, magic, checksum and lengths."""
    net = cushion.trace(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)), (4,))
    found = compressed(net, "signs")
    beside = len(found.save(tmp_path / "net").read_bytes()) - (found.stored.bits + 7) // 8
    assert beside < 70 + len(json.dumps(found.notes))


def crafted(fields: list[int], arrays: list[np.ndarray], name: str = "conv") -> StoredNet:
    coded = encode_numbers(fields, arrays)
    return read_stored(coded.data, coded.bits, network(name))


KEPT, LOW_RANK, LOW_RANK_MAP, PROJECTED, LOCATED, SPARSE, ROWS = range(7)


@pytest.mark.parametrize(
    ("head", "sizes", "words"),
    [
        ([LOW_RANK, 0], [(6, 0), (0, 36)], "rank 0"),
        ([LOW_RANK, 7], [(6, 7), (7, 36)], "rank 7"),
        ([LOW_RANK, 2**40 - 1], [], "rank"),
        ([LOW_RANK_MAP, 1, 120, 167], [(120, 1), (1, 167)], "not this layer's"),
        ([LOW_RANK_MAP, 1, 168, 120], [(168, 1), (1, 120)], "not this layer's"),
        ([LOW_RANK_MAP, 1, 10**5, 10**5], [(10**5, 1), (1, 10**5)], "rank 1"),
        ([LOW_RANK_MAP, 0, 120, 168], [(120, 0), (0, 168)], "rank 0"),
        ([PROJECTED, 3, 5], [(5,)], "helper number 3"),
        ([PROJECTED, 0, 0], [(0,)], "0 coefficients"),
        ([PROJECTED, 0, 2**40 - 1], [(5,)], "longer than any real net"),
        ([LOCATED, 2, 1, 1, 2**39], [(1,)], "places"),
        ([LOCATED, 2, 1, 1, 19], [(1,)], "19 places"),
        ([LOCATED, 0, 1, 1, 20], [(1,)], "helper number 0"),
        ([LOCATED, 2, 2**39, 2**39, 20], [], "more than the kernel"),
        ([SPARSE, 1], [(6, 5)], "linear classifier"),
        ([ROWS, 0, 3, 1], [(6, 3)], "linear classifier"),
        ([11], [], "limit"),
    ],
)
def test_sizes_that_are_not_the_architectures_are_refused(
    head: list[int], sizes: list[Any], words: str
) -> None:
    """conv: a kernel [6, 4, 3, 3] on (4, 6, 7), 4 x 5 places, then a dense layer [3, 24]; both with
    a bias. But for the sizes the message is as it should be, so that only a check of the sizes can
    refuse it.
    """
    shapes = [*sizes, (6,), (3, 24), (3,)]
    grids = [1100] * len(sizes)
    arrays = [np.zeros(shape, dtype=np.int64) for shape in shapes]
    with pytest.raises(Malformed, match=words):
        crafted([7, *head, *grids, 1100, KEPT, 1100, 1100], arrays)


def test_a_crafted_message_of_the_right_sizes_is_read() -> None:
    arrays = [np.ones(shape, dtype=np.int64) for shape in ((120, 1), (1, 168), (6,), (3, 24), (3,))]
    found = crafted([7, LOW_RANK_MAP, 1, 120, 168, 1100, 1100, 1101, KEPT, 1100, 1099], arrays)
    assert found.seed == 7
    assert found.layers[0].weight(0).sum() == 120 * 168
    assert [bias.values.tolist() for bias in found.biases if bias is not None] == [
        [2.0] * 6,
        [0.5] * 3,
    ]


@pytest.mark.parametrize(("kind", "flag"), [(5, [0]), (5, [2]), (6, [0, 3, 0])])
def test_vectors_of_a_classifier_with_a_bias_have_one(kind: int, flag: list[int]) -> None:
    with pytest.raises(Malformed, match="bias"):
        crafted([7, kind, *flag, 1100], [np.zeros((3, 5), dtype=np.int64)], "linear-only")


@pytest.mark.parametrize(
    ("exponent", "words"), [(2201, "limit"), (2200, "infinite"), (1100 + 127, "infinite")]
)
def test_grids_out_of_range_are_refused(exponent: int, words: str, tmp_path: Path) -> None:
    net = network("linear-only")  # float32: 2 · 2^127 is infinite in it
    fields, arrays = [7, 0, exponent, 1100], [np.full((3, 5), 2), np.zeros(3, dtype=np.int64)]
    coded = encode_numbers(fields, arrays)
    good = compressed(net, "rank").save(tmp_path / "good").read_bytes()
    refused(rewritten(good, tmp_path / "net", message(coded.data, coded.bits)), words)
    coded = encode_numbers([7, 0, 1100 + 126, 1100], arrays)
    found = read_compressed(rewritten(good, tmp_path / "net", message(coded.data, coded.bits)))
    assert float(found.network.affine_layers[0].affine.operator.weight[0, 0]) == 2.0**127


def test_a_product_that_overflows_is_refused(tmp_path: Path) -> None:
    net = network("linear-only").double()
    stored = StoredNet(
        0,
        (LowRank(Numbers(np.full((3, 1), 9), 1000), Numbers(np.full((1, 5), 9), 1000), (3, 5)),),
        (None,),
    )
    with np.errstate(over="ignore"):
        path = CompressedNet(
            StoredNet(0, stored.layers, (Numbers(np.zeros(3, dtype=np.int64), 0),)), net, {}
        ).save(tmp_path / "net")
    refused(path, "infinite")


def test_the_graph_in_the_file_is_checked(saved: bytes, tmp_path: Path) -> None:
    graph = json.loads(json.dumps(describe_graph(network("conv"))))
    for edit in (
        {"stride": [0, 1]},
        {"weight": [2**20, 4, 2**20, 3]},
        {"weight": [6, 5, 3, 3]},
        {"op": "eval"},
        {"kind": "eval"},
        {"inputs": [4]},
        {"inputs": "0"},
        {"inputs": [0, 0]},
        {"name": 3},
    ):
        other = json.loads(json.dumps(graph))
        other["nodes"][1] |= edit
        refused(rewritten(saved, tmp_path / "net", head(graph=other)), "describes no net")
    other = describe_graph(network("mlp"))
    refused(rewritten(saved, tmp_path / "net", head(graph=other)), "damaged")


def test_a_graph_says_what_does_not_follow(tmp_path: Path) -> None:
    """Nodes that read others than the one before, and the input's shape."""
    net = network("residual")
    said = describe_graph(net)["nodes"]
    assert [("inputs" in node, "shape" in node) for node in said[:2]] == [
        (False, True),
        (False, False),
    ]
    assert any("inputs" in node for node in said)
    again = rebuild_graph(json.loads(json.dumps(describe_graph(net))), "here")
    assert [(n.inputs, n.shape, n.name) for n in again.nodes] == [
        (n.inputs, n.shape, n.name) for n in net.nodes
    ]
