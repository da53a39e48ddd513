"""Pickled dictionaries of numbers (the CIFAR python batches), read without running anything.

A pickle is a program that may call any importable function. Here the only names it may call are
stand-ins that record their arguments; numpy itself is called afterwards, on checked values (numpy's
own `dtype.__setstate__` trusts its input, so allowing the real numpy names would not be safe).

A few bytes of pickle can also name an object with 2^n leaves, t = (t, t) n times, so nothing
unchecked is ever hashed, compared in depth or written into a message, and no step may copy more
than the file holds.
"""

from __future__ import annotations

import io
import math
import pickle
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cushion.data.files import check_regular
from cushion.errors import BadInput, Malformed

NUMBER_TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")
MOST_ARGUMENTS = 4  # of any call below
MOST_DIMENSIONS = 32
LARGEST_SIZE = 1 << 40
# No batch of numbers needs these.
_INSTANCES = (pickle.INST, pickle.OBJ, pickle.NEWOBJ, pickle.NEWOBJ_EX)
_SETS = (pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET)
_OUTSIDE = (pickle.PERSID, pickle.BINPERSID, pickle.EXT1, pickle.EXT2, pickle.EXT4)
_BUFFERS = (pickle.NEXT_BUFFER, pickle.READONLY_BUFFER)
_NEEDLESS = (*_INSTANCES, *_SETS, *_OUTSIDE, *_BUFFERS)


class _StandIn:
    """Keeps its arguments and does nothing; no pickle can set attributes of it."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: Any) -> None:
        self.state = state if isinstance(state, tuple) else ()


class _Dtype(_StandIn):
    """numpy.dtype(code, align, copy), then state (version, byte order, ...)."""

    def checked(self) -> np.dtype[Any]:
        code = _text(self.arguments[0])
        order = _text(self.state[1]) if len(self.state) > 1 else "|"
        if code not in NUMBER_TYPES or order not in ("|", "<", ">", "="):
            raise ValueError(f"an array of a type that is not one of {', '.join(NUMBER_TYPES)}")
        return np.dtype(cast(str, code)).newbyteorder(cast(Any, order))


class _Ndarray(_StandIn):
    """numpy.ndarray as an argument of _reconstruct, and the empty array that _reconstruct makes."""

    def checked(self) -> NDArray[Any]:
        _version, shape, dtype, column_major, data = self.state
        return _from_bytes(data, dtype, shape, "F" if column_major else "C")


class _Reconstruct(_StandIn):
    """numpy.core.multiarray._reconstruct(ndarray, (0,), b"b"); a state follows, the array's."""

    def __new__(cls, *_arguments: Any) -> Any:
        return _Ndarray()


class _FromBuffer(_StandIn):
    """numpy.core.numeric._frombuffer(data, dtype, shape, order): an array in pickle protocol 5."""

    def checked(self) -> NDArray[Any]:
        data, dtype, shape, order = self.arguments
        return _from_bytes(data, dtype, shape, order)


class _Encode(_StandIn):
    """_codecs.encode(text, "latin1"), how Python 3 writes bytes under the older protocols."""

    def __new__(cls, text: str, encoding: str) -> Any:
        if encoding != "latin1":
            raise ValueError("a text encoding other than latin1")
        return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], type[_StandIn]] = {
    ("numpy", "ndarray"): _Ndarray,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _FromBuffer,
    ("numpy._core.numeric", "_frombuffer"): _FromBuffer,
    ("_codecs", "encode"): _Encode,
}


class _RefusedError(Exception):
    """The name that the pickle wanted to call."""


_PythonUnpickler: Any = pickle._Unpickler  # its opcode methods are in no type stub


class _NumbersOnly(_PythonUnpickler):  # type: ignore[misc]
    """The unpickler in Python: the C one's memo allocates any index that a file names."""

    def __init__(self, content: bytes) -> None:
        # From memory, where a length that the file only claims to have is cut to what is there.
        super().__init__(io.BytesIO(content), encoding="bytes")
        self.left_to_encode = len(content)

    def load_needless(self) -> None:
        raise ValueError("it holds more than dictionaries, lists, arrays, numbers and text")

    def load_bytearray8(self) -> None:
        """Reads, then copies: the inherited one allocates whatever length the file claims."""
        (length,) = struct.unpack("<Q", self.read(8))
        data = bytearray(self.read(min(length, sys.maxsize)))
        if len(data) != length:
            raise EOFError("cut short")
        self.append(data)

    def load_reduce(self) -> None:
        """A call. Its arguments may be shared: without limits a few bytes copy them ever again."""
        function, arguments = self.stack[-2:]
        if type(arguments) is not tuple or len(arguments) > MOST_ARGUMENTS:
            raise ValueError(f"a call with more than {MOST_ARGUMENTS} arguments")
        if function is _Encode and arguments and isinstance(arguments[0], str):
            self.left_to_encode -= len(arguments[0])
            if self.left_to_encode < 0:
                raise ValueError("more text than the file holds")
        super().load_reduce()

    def load_put(self) -> None:
        """A memo index as text; beyond 32 bits it only serves to make the memo's hashes collide."""
        index = int(self.readline()[:-1])
        if not 0 <= index < 1 << 32:
            raise ValueError("a memo index out of range")
        self.memo[index] = self.stack[-1]

    def load_dict(self) -> None:
        _check_keys(self.stack[::2])
        super().load_dict()

    def load_setitem(self) -> None:
        _check_keys(self.stack[-2:-1])
        super().load_setitem()

    def load_setitems(self) -> None:
        _check_keys(self.stack[::2])
        super().load_setitems()

    dispatch: ClassVar[dict[int, Any]] = {
        **_PythonUnpickler.dispatch,
        **dict.fromkeys((opcode[0] for opcode in _NEEDLESS), load_needless),
        pickle.BYTEARRAY8[0]: load_bytearray8,
        pickle.REDUCE[0]: load_reduce,
        pickle.PUT[0]: load_put,
        pickle.DICT[0]: load_dict,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise _RefusedError(" ".join(f"{module}.{name}".split())[:80])
        return _ALLOWED[module, name]


def read(path: Path) -> dict[str, Any]:
    """The file's dictionary, text keys decoded, arrays of numbers as numpy arrays.

    What names anything but numpy's array constructors is refused before it is called.
    """
    try:
        content = _NumbersOnly(check_regular(path).read_bytes()).load()
        if not isinstance(content, dict):
            raise ValueError(f"a {type(content).__name__} where a dictionary belongs")
        return {_text(key): _value(value) for key, value in content.items()}
    except _RefusedError as refusal:
        fault = f"refused, since this pickle would call {refusal}"
        raise BadInput(f"{path}: {fault}; only arrays, numbers and text are read") from None
    except (OSError, BadInput):
        raise
    # a damaged pickle raises nearly anything: IndexError, KeyError, struct.error, ...
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        fault = f"not a readable pickle of numbers ({reason})"
        raise Malformed(f"{path}: {fault}; fetch the file again") from None


def _text(value: Any) -> Any:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _value(value: Any) -> Any:
    return value.checked() if isinstance(value, (_Ndarray, _FromBuffer)) else value


def _check_keys(keys: Iterable[Any]) -> None:
    """Before they are hashed: a file can steer the hashes of tuples and numbers, not of text."""
    if not all(type(key) in (str, bytes) for key in keys):
        raise ValueError("a dictionary whose keys are not text")


def _from_bytes(data: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    known = isinstance(dtype, _Dtype) and isinstance(data, (bytes, bytearray))
    if not known or order not in ("C", "F"):
        raise ValueError("an array in an unknown form")
    kind = dtype.checked()
    few = type(shape) is tuple and len(shape) <= MOST_DIMENSIONS
    if not (few and all(type(size) is int and 0 <= size < LARGEST_SIZE for size in shape)):
        raise ValueError("an array whose shape is not a tuple of sizes")
    if math.prod(shape) * kind.itemsize != len(data):
        raise ValueError(f"an array of shape {shape} with {len(data)} bytes")
    return np.frombuffer(data, dtype=kind).reshape(shape, order=order)
