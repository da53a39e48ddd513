"""Compressed nets as files from anywhere: one sentence for every damage; no code is run, no memory
or time wasted.
"""

from __future__ import annotations

import json
import math
import pickle
import resource
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from tests.cases import Case
from tests.compressed_cases import compressed, moved, network

import cushion
from cushion.certificates.format.number_stream import encode_numbers
from cushion.compressors.file import (
    FORMAT,
    CompressedNet,
    _digest,
    describe_graph,
    is_compressed,
    load_compressed,
)
from cushion.compressors.projection.low_rank import LowRank
from cushion.compressors.storage.stored import Numbers
from cushion.compressors.storage.stored_net import StoredNet, read_stored
from cushion.errors import BadInput, CushionError, Malformed
from cushion.nets.loading.weights import read_tensors


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    net = network("conv")
    return (
        compressed(net, "signs", moved(net))
        .save(tmp_path_factory.mktemp("saved") / "net")
        .read_bytes()
    )


def rewritten(
    content: bytes, path: Path, edit: Callable[[dict[str, torch.Tensor], dict[str, str]], Any]
) -> Path:
    path.write_bytes(content)
    tensors, metadata = load(content), dict(read_tensors(path)[1])
    known = metadata["sha256"]
    edit(tensors, metadata)
    if metadata.get("sha256") == known:  # whoever damages a file on purpose can sum it up again
        metadata["sha256"] = _digest(tensors, {"bits": "", "graph": "", "notes": "", **metadata})
    path.write_bytes(save(tensors, metadata))
    return path


def refused(path: Path, words: str = ".") -> None:
    """One sentence of ours, quickly, and without much memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CushionError, match=words) as caught:
        load_compressed(path)
    assert type(caught.value) in (Malformed, BadInput)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


def message(data: bytes, bits: int) -> Callable[[dict[str, torch.Tensor], dict[str, str]], None]:
    def edit(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
        tensors["message"] = torch.tensor(list(data), dtype=torch.uint8)
        metadata["bits"] = str(bits)

    return edit


def deep(depth: int) -> str:
    return "[" * depth + "]" * depth


EDITS: dict[str, tuple[Callable[[dict[str, torch.Tensor], dict[str, str]], Any], str]] = {
    "another format": (
        lambda t, m: m.update(format="cushion-compressed-2"),
        "not a compressed net",
    ),
    "no format": (lambda t, m: m.pop("format"), "not a compressed net"),
    "no message": (lambda t, m: t.pop("message"), "lacks"),
    "no bits": (lambda t, m: m.pop("bits"), "lacks"),
    "no graph": (lambda t, m: m.pop("graph"), "lacks"),
    "no notes": (lambda t, m: m.pop("notes"), "lacks"),
    "notes that are a list": (lambda t, m: m.update(notes="[1]"), "lacks"),
    "notes that are no JSON": (lambda t, m: m.update(notes="{"), "lacks"),
    "deep notes": (lambda t, m: m.update(notes=deep(100_000)), "lacks"),
    "a deep graph": (lambda t, m: m.update(graph=deep(100_000)), "lacks"),
    "a graph of a list": (lambda t, m: m.update(graph=deep(50)), "describes no net"),
    "a number of too many digits": (lambda t, m: m.update(graph="9" * 10_000), "lacks"),
    "bits of text": (lambda t, m: m.update(bits="many"), "lacks"),
    "negative bits": (lambda t, m: m.update(bits="-5"), "lacks"),
    "bits with an underscore": (lambda t, m: m.update(bits="1_0"), "lacks"),
    "huge bits": (lambda t, m: m.update(bits="9" * 5000), "lacks"),
    "more bits": (lambda t, m: m.update(bits=str(int(m["bits"]) + 8)), "bits fill"),
    "fewer bits": (lambda t, m: m.update(bits="1"), "bits fill"),
    "an empty message": (message(b"", 0), "too early"),
    "a message of floats": (lambda t, m: t.update(message=t["message"].float()), "lacks"),
    "a message in two rows": (
        lambda t, m: t.update(message=torch.zeros(2, 4, dtype=torch.uint8)),
        "lacks",
    ),
    "a message of signed bytes": (
        lambda t, m: t.update(message=t["message"].to(torch.int8)),
        "lacks",
    ),
    "zeros": (message(bytes(100), 800), "absurdly long"),
    "ones": (message(b"\xff" * 100, 800), "damaged"),
    "a start without a weight": (lambda t, m: t.pop("start.2.weight"), "initialisation"),
    "a start without a bias": (lambda t, m: t.pop("start.1.bias"), "initialisation"),
    "a start of another shape": (
        lambda t, m: t.update({"start.1.weight": torch.zeros(6, 4, 3, 4)}),
        "initialisation",
    ),
    "a bias of another shape": (
        lambda t, m: t.update({"start.1.bias": torch.zeros(1)}),
        "initialisation",
    ),
    "a start of integers": (
        lambda t, m: t.update({"start.2.bias": torch.zeros(3, dtype=torch.int64)}),
        "dtype",
    ),
    "a start of doubles": (
        lambda t, m: t.update({"start.2.bias": torch.zeros(3, dtype=torch.float64)}),
        "dtype",
    ),
    "a start with NaN": (
        lambda t, m: t["start.1.weight"].view(-1).__setitem__(3, math.nan),
        "not a number",
    ),
    "an infinite start": (lambda t, m: t["start.2.bias"].__setitem__(0, math.inf), "infinite"),
    "a start of a third layer": (
        lambda t, m: t.update({"start.3.weight": torch.zeros(2)}),
        "start.3.weight",
    ),
    "another tensor": (lambda t, m: t.update(extra=torch.zeros(2)), "extra"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_damaged_file_gets_one_sentence(name: str, saved: bytes, tmp_path: Path) -> None:
    edit, words = EDITS[name]
    load_compressed(rewritten(saved, tmp_path / "net", lambda t, m: None))
    refused(rewritten(saved, tmp_path / "net", edit), words)


def test_a_shortened_file_is_refused_wherever_it_ends(saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net"
    for length in [*range(0, 40), *range(40, len(saved), 97), len(saved) - 1]:
        path.write_bytes(saved[:length])
        refused(path)
        assert not is_compressed(path)
    path.write_bytes(saved + b"\0")
    refused(path)
    path.write_bytes(struct.pack("<Q", 2**62) + saved[8:])
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
        load_compressed(tmp_path / "nothing")
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
            found = load_compressed(path)
        except Malformed:
            continue
        read += 1
        assert found.stored.coded.data == bytes(data)
        assert torch.isfinite(found.network.affine_layers[0].affine.operator.weight).all()
    assert 10 < read < coded.bits


def test_a_flipped_bit_that_nobody_summed_up_again_is_always_refused(
    saved: bytes, tmp_path: Path
) -> None:
    for name in ("message", "start.1.weight"):
        tensors = load(saved)
        raw = tensors[name].reshape(-1).view(torch.uint8)
        raw[len(raw) // 2] ^= 1
        path = tmp_path / "flipped"
        path.write_bytes(saved)
        metadata = read_tensors(path)[1]
        path.write_bytes(save(tensors, metadata))
        refused(path, "not those that were written")


def test_a_changed_graph_or_note_that_nobody_summed_up_again_is_refused(
    saved: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "changed"
    path.write_bytes(saved)
    metadata = read_tensors(path)[1]
    for key in ("graph", "notes", "bits"):
        text = metadata[key]
        for at in range(0, len(text), max(1, len(text) // 40)):
            other = text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]
            path.write_bytes(save(load(saved), {**metadata, key: other}))
            refused(path)


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
        ([10], [], "limit"),
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
    found = load_compressed(rewritten(good, tmp_path / "net", message(coded.data, coded.bits)))
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
        {"op": "eval"},
        {"inputs": [4]},
    ):
        other = json.loads(json.dumps(graph))
        other["nodes"][1] |= edit
        refused(
            rewritten(
                saved, tmp_path / "net", lambda t, m, other=other: m.update(graph=json.dumps(other))
            ),
            "describes no net",
        )
    refused(
        rewritten(
            saved,
            tmp_path / "net",
            lambda t, m: m.update(graph=json.dumps(describe_graph(network("mlp")))),
        ),
        "damaged",
    )
    assert FORMAT == "cushion-compressed-1"
