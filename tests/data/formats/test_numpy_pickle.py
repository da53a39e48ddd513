"""The restricted unpickler: reads what CIFAR's authors and today's numpy write, and runs
nothing.
"""

from __future__ import annotations

import pickle
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cushion.data.formats import numpy_pickle
from cushion.errors import BadInput, Malformed


def read(folder: Path, content: bytes) -> dict[str, Any]:
    path = folder / "batch"
    path.write_bytes(content)
    return numpy_pickle.read(path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", numpy_pickle.NUMBER_TYPES)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_arrays_of_every_number_type_survive(
    tmp_path: Path, protocol: int, kind: str, order: str, layout: str
) -> None:
    array = np.array(np.arange(-6, 6).reshape(3, 4).astype(order + kind), order=layout)  # type: ignore[call-overload]
    result = read(
        tmp_path, pickle.dumps({"data": array, "labels": [1, 2], "name": "x"}, protocol=protocol)
    )
    assert result["data"].dtype == array.dtype
    assert (result["data"] == array).all()
    assert result["labels"] == [1, 2]


def python_2_pickle(raw: bytes, shape: tuple[int, int], labels: list[int]) -> bytes:
    """What Python 2's cPickle wrote in 2009: protocol 2, byte strings, numpy.core."""
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R("
    dtype += b"K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    size = b"".join(b"M" + struct.pack("<H", n) for n in shape) + b"\x86"
    state = b"(K\x01" + size + dtype + b"\x89T" + struct.pack("<I", len(raw)) + raw + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(U\x04data" + array + state + b"U\x06labels" + listed + b"u."


def test_a_python_2_pickle(tmp_path: Path) -> None:
    result = read(tmp_path, python_2_pickle(b"\x00\xffabcd", (2, 3), [4, 5]))
    assert result["data"].tolist() == [[0, 255, 97], [98, 99, 100]]
    assert result["data"].dtype == np.uint8
    assert result["labels"] == [4, 5]


def hostile(target: Path) -> dict[str, bytes]:
    """Pickles that would create `target` if they ran."""
    command = f"open({str(target)!r}, 'w')"

    class Call:
        def __init__(self, function: Any, *arguments: Any) -> None:
            self.reduced = function, arguments

        def __reduce__(self) -> Any:
            return self.reduced

    text = command.encode()
    return {
        "open": pickle.dumps({"data": Call(open, str(target), "w")}),
        "eval": pickle.dumps({"data": Call(eval, command)}),
        "exec, protocol 0": pickle.dumps(Call(exec, command), protocol=0),
        "inst opcode": b"(S" + repr(command).encode() + b"\ni__builtin__\neval\n.",
        "obj opcode": b"(c__builtin__\neval\nV" + text + b"\no.",
        "in a key": b"\x80\x02}(c__builtin__\neval\nX"
        + struct.pack("<I", len(text))
        + text
        + b"\x85RK\x01u.",
        "dotted name": b"\x80\x04\x8c\x05numpy\x8c\x13f2py.os.system.a.b.c\x93.",
        "numpy function": b"\x80\x02cnumpy\nfromfile\n.",
        "the real codecs": b"\x80\x02c_codecs\ndecode\n.",
    }


@pytest.mark.parametrize("case", hostile(Path("x")))
def test_a_pickle_with_code_in_it_is_refused_without_running_it(tmp_path: Path, case: str) -> None:
    target = tmp_path / "ran"
    content = hostile(target)[case]
    with pytest.raises(
        (BadInput, Malformed),
        match=r"batch: (refused, since this pickle would call|not a readable)",
    ):
        read(tmp_path, content)
    assert not target.exists()


def test_the_hostile_cases_are_hostile(tmp_path: Path) -> None:
    """The same bytes do create the file under plain pickle: the test above can fail."""
    for case in ("open", "eval", "exec, protocol 0", "inst opcode", "obj opcode", "in a key"):
        target = tmp_path / case.replace(" ", "-")
        pickle.loads(hostile(target)[case], encoding="latin1")
        assert target.exists(), case


def test_the_refusal_names_the_call(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"would call (io|_io)\.open; only arrays, numbers and text are read$"
    ):
        read(tmp_path, hostile(tmp_path / "ran")["open"])


def test_an_object_array_is_refused(tmp_path: Path) -> None:
    content = pickle.dumps({"data": np.array([1, "a"], dtype=object)}, protocol=2)
    with pytest.raises(Malformed, match="an array in an unknown form"):
        read(tmp_path, content)


def test_an_array_whose_bytes_do_not_fit_its_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match=r"an array of shape \(2, 4\) with 6 bytes"):
        read(tmp_path, python_2_pickle(b"abcdef", (2, 4), []))


def test_another_text_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="a text encoding other than latin1"):
        read(tmp_path, b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.")


def test_a_huge_memo_index_costs_no_memory(tmp_path: Path) -> None:
    tracemalloc.start()
    assert read(tmp_path, b"\x80\x02}r\xff\xff\xff\xff.") == {}
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


DOUBLED = b"K\x01" + b"2\x86" * 60  # t = (t, t), sixty times: 2^60 leaves in 122 bytes
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"


def dtype_of(code: bytes, order: bytes = b"U\x01|") -> bytes:
    return b"cnumpy\ndtype\n" + code + b"K\x00K\x01\x87R(K\x03" + order + b"tb"


def array_of(shape: bytes, dtype: bytes = dtype_of(b"U\x02u1"), data: bytes = b"U\x01a") -> bytes:
    return b"\x80\x02}U\x04data" + ARRAY + b"(K\x01" + shape + dtype + b"\x89" + data + b"tbs."


NOT_TEXT = "a dictionary whose keys are not text"
NOT_SIZES = "an array whose shape is not a tuple of sizes"
NEEDLESS = "it holds more than dictionaries, lists, arrays, numbers and text"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\x80\x02}" + DOUBLED + b"Ns.", NOT_TEXT),
        (b"\x80\x02}(" + DOUBLED + b"Nu.", NOT_TEXT),
        (b"\x80\x02(" + DOUBLED + b"Nd.", NOT_TEXT),
        (b"\x80\x02}K\x01Ns.", NOT_TEXT),
        (b"\x80\x04\x8f(" + DOUBLED + b"\x90.", NEEDLESS),
        (b"\x80\x04(" + DOUBLED + b"\x91.", NEEDLESS),
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x06\x00\x00\x00latin1\x86\x81.", NEEDLESS),
        (array_of(DOUBLED), NOT_SIZES),
        (array_of(b"K\x01" + DOUBLED + b"\x86"), NOT_SIZES),
        (array_of(b"]K\x01a"), NOT_SIZES),
        (
            array_of(b"K\x00\x8a\x0d" + (10**30).to_bytes(13, "little") + b"\x86", data=b"U\x00"),
            NOT_SIZES,
        ),
        (array_of(b"(" + b"K\x01" * 33 + b"t"), NOT_SIZES),
        (array_of(b"K\x01\x85", dtype_of(DOUBLED)), "an array of a type that is not one of u1, i1"),
        (
            array_of(b"K\x01\x85", dtype_of(b"U\x02u1", DOUBLED)),
            "an array of a type that is not one of u1, i1",
        ),
        (array_of(b"K\x01\x85", DOUBLED), "an array in an unknown form"),
        (
            b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00a" + DOUBLED + b"\x86R.",
            "a text encoding other than",
        ),
        (b"\x80\x02cnumpy\ndtype\n(" + b"K\x01" * 5 + b"tR.", "a call with more than 4 arguments"),
        (b"\x80\x02cnumpy\ndtype\n]K\x01aR.", "a call with more than 4 arguments"),
        (b"}p" + str(2**61 - 1).encode() + b"\n.", "a memo index out of range"),
        (b"}p-1\n.", "a memo index out of range"),
    ],
)
def test_objects_with_too_many_leaves_are_refused_unread(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    with pytest.raises(Malformed, match=rf"not a readable pickle of numbers \({sentence}"):
        read(tmp_path, content)


def test_the_arrays_above_are_read_when_nothing_is_wrong_with_them(tmp_path: Path) -> None:
    assert read(tmp_path, array_of(b"K\x01\x85"))["data"].tolist() == [97]


@pytest.mark.parametrize("length", [1 << 30, 1 << 40, (1 << 64) - 1, 4])
def test_a_byte_array_that_claims_more_than_is_there_costs_no_memory(
    tmp_path: Path, length: int
) -> None:
    tracemalloc.start()
    with pytest.raises(Malformed, match=r"\(cut short\)"):
        read(tmp_path, b"\x80\x05\x96" + struct.pack("<Q", length) + b"ab.")
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


def test_text_is_not_encoded_over_and_over(tmp_path: Path) -> None:
    text = b"X" + struct.pack("<I", 100_000) + b"a" * 100_000 + b"q\x01"
    again = b"h\x00h\x01X\x06\x00\x00\x00latin1\x86R"
    content = b"\x80\x02c_codecs\nencode\nq\x00" + text + b"](" + again * 1000 + b"e."
    tracemalloc.start()
    with pytest.raises(Malformed, match="more text than the file holds"):
        read(tmp_path, content)
    assert tracemalloc.get_traced_memory()[1] < 3_000_000
    tracemalloc.stop()


def test_a_refused_name_stays_one_short_sentence(tmp_path: Path) -> None:
    name = b"a\n" * 5000
    with pytest.raises(BadInput) as caught:
        read(tmp_path, b"\x80\x04\x8c\x02osX" + struct.pack("<I", len(name)) + name + b"\x93.")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02]."], ids=["empty", "text", "a list"])
def test_what_is_no_dictionary_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(Malformed, match="not a readable pickle of numbers"):
        read(tmp_path, content)


def test_every_cut_and_many_flips_are_refused_or_read_but_never_crash(tmp_path: Path) -> None:
    whole = python_2_pickle(b"abcdef", (2, 3), [1, 2])
    for length in range(len(whole)):
        with pytest.raises((Malformed, BadInput)):
            read(tmp_path, whole[:length])
    rng = np.random.default_rng(0)
    for _ in range(2000):
        flipped = bytearray(whole)
        flipped[rng.integers(len(whole))] = rng.integers(256)
        with suppress(Malformed, BadInput):
            read(tmp_path, bytes(flipped))
