"""Pickled dictionaries of numbers (the CIFAR python batches), read without running anything from the file.

A pickle is a program that may call any importable function. Here the only names it may call are stand-ins
that record their arguments; numpy itself is called afterwards, on checked values (numpy's own
`dtype.__setstate__` trusts its input, so allowing the real numpy names would not be safe).
"""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput, Malformed

NUMBER_TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")


class _StandIn:
    """Keeps its arguments and does nothing; with `__setstate__` here a pickle cannot set attributes."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: Any) -> None:
        self.state = state if isinstance(state, tuple) else ()


class _Dtype(_StandIn):
    """numpy.dtype(code, align, copy), then state (version, byte order, ...)."""

    def checked(self) -> np.dtype[Any]:
        code = self.arguments[0]
        code = code.decode("ascii") if isinstance(code, bytes) else code
        order = self.state[1] if len(self.state) > 1 else "|"
        order = order.decode("ascii") if isinstance(order, bytes) else order
        if code not in NUMBER_TYPES or order not in ("|", "<", ">", "="):
            raise ValueError(f"an array of type {code!r}")
        return np.dtype(code).newbyteorder(cast(Any, order))


class _Ndarray(_StandIn):
    """numpy.ndarray as an argument of _reconstruct, and the empty array that _reconstruct makes."""

    def checked(self) -> NDArray[Any]:
        _version, shape, dtype, column_major, data = self.state
        return _from_bytes(data, dtype, shape, "F" if column_major else "C")


class _Reconstruct(_StandIn):
    """numpy.core.multiarray._reconstruct(ndarray, (0,), b"b"); the state that follows fills the array."""

    def __new__(cls, *_arguments: Any) -> Any:
        return _Ndarray()


class _FromBuffer(_StandIn):
    """numpy.core.numeric._frombuffer(data, dtype, shape, order), how pickle protocol 5 writes an array."""

    def checked(self) -> NDArray[Any]:
        data, dtype, shape, order = self.arguments
        return _from_bytes(data, dtype, shape, order)


class _Encode(_StandIn):
    """_codecs.encode(text, "latin1"), how Python 3 writes bytes under the older protocols."""

    def __new__(cls, text: str, encoding: str) -> Any:
        if encoding != "latin1":
            raise ValueError(f"the text encoding {encoding!r}")
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


class _NumbersOnly(pickle._Unpickler):
    """The unpickler in Python: its memo is a dictionary, where the C one allocates any index a file names."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise _RefusedError(f"{module}.{name}")
        return _ALLOWED[module, name]


def read(path: Path) -> dict[str, Any]:
    """The dictionary in the file, text keys decoded, arrays of numbers as numpy arrays, the rest as it is.

    A file that names anything but numpy's array constructors is refused with BadInput before it is called.
    """
    try:
        # From memory, where a length that the file only claims to have is cut to what is there.
        content = _NumbersOnly(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        if not isinstance(content, dict):
            raise ValueError(f"a {type(content).__name__} where a dictionary belongs")
        return {_text(key): _value(value) for key, value in content.items()}
    except _RefusedError as refusal:
        raise BadInput(
            f"{path}: refused, since this pickle would call {refusal}; only arrays, numbers and text are read"
        ) from None
    except OSError:
        raise
    except Exception as error:  # a damaged pickle raises nearly anything: IndexError, KeyError, struct.error, ...
        raise Malformed(f"{path}: not a readable pickle of numbers ({error}); fetch the file again") from None


def _text(key: Any) -> str:
    return key.decode("utf-8") if isinstance(key, bytes) else str(key)


def _value(value: Any) -> Any:
    return value.checked() if isinstance(value, (_Ndarray, _FromBuffer)) else value


def _from_bytes(data: Any, dtype: Any, shape: Any, order: Any) -> NDArray[Any]:
    if not isinstance(dtype, _Dtype) or not isinstance(data, (bytes, bytearray)) or order not in ("C", "F"):
        raise ValueError("an array in an unknown form")
    kind = dtype.checked()
    if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) * kind.itemsize != len(data):
        raise ValueError(f"an array of shape {shape} with {len(data)} bytes")
    return np.frombuffer(data, dtype=kind).reshape(shape, order=order)
