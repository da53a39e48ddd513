"""An .onnx file as a module that gives answers, computed by onnxruntime (an optional extra)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.errors import BadInput, Malformed

# a tensor's note of where it lies: the key "location", then the length of a name
_LOCATION = re.compile(rb"\x0a\x08location\x12(.)", re.DOTALL)
_KINDS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}


class OnnxNet(nn.Module):
    """The net of an .onnx file; its forward returns what the file calls its outputs, by name.

    A file that fixes the number of rows is fed that many at a time.
    """

    answers_only = True

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            import onnxruntime
        except ImportError:
            how = 'pip install "cushion[onnx]"'
            raise BadInput(f"{path} is an .onnx net, which needs onnxruntime: {how}") from None
        self.files = _files(path)
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 4
        try:
            # from the path: weights may lie in a second file beside it
            self.session = onnxruntime.InferenceSession(
                str(path), quiet, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            said = next(iter(str(error).strip().splitlines()), "unreadable")
            raise Malformed(f"{path} is not an .onnx net that onnxruntime reads: {said}") from None
        for one in self.session.get_inputs():
            if one.type not in _KINDS:
                raise BadInput(f"{path}: its input {one.name} is {one.type}; export it with floats")

    def forward(self, x: Tensor | None = None, **parts: Tensor) -> dict[str, Any]:
        wanted = self.session.get_inputs()
        given = parts if x is None else {wanted[0].name: x}
        lacking = [one.name for one in wanted if one.name not in given]
        if lacking:
            raise ValueError(f"the net also reads {', '.join(lacking)}")
        feed = {one.name: _array(given[one.name], one.type) for one in wanted}
        fixed = wanted[0].shape[0] if wanted[0].shape else None
        found = [self.session.run(None, part) for part in _pieces(feed, fixed)]
        rows = len(feed[wanted[0].name])
        names = [one.name for one in self.session.get_outputs()]
        return {name: _joined([one[at] for one in found], rows) for at, name in enumerate(names)}

    def numbers(self) -> dict[str, Tensor]:
        """The bytes of the file, and of those beside it that hold its weights."""
        read = ((name, bytearray(file.read_bytes())) for name, file in self.files.items())
        return {name: torch.frombuffer(one, dtype=torch.uint8) for name, one in read if one}


def _files(path: Path) -> dict[str, Path]:
    """The net's file as "onnx", and the files beside it that it says its weights lie in."""
    content = path.read_bytes()
    found = {"onnx": path}
    for match in _LOCATION.finditer(content):
        start, size = match.end(), match[1][0]
        if size > 127:  # the length of the name is a varint, seven bits a byte
            start, size = start + 1, size - 128 + 128 * content[start]
        name = content[start : start + size].decode("utf-8", "replace")
        if "\0" not in name and (path.parent / name).is_file():
            found[f"onnx.{name}"] = path.parent / name
    return found


def _array(x: Tensor, kind: str) -> NDArray[Any]:
    return x.detach().cpu().numpy().astype(_KINDS[kind], copy=False)


def _pieces(feed: dict[str, NDArray[Any]], size: Any) -> Iterator[dict[str, NDArray[Any]]]:
    """The rows, `size` at a time where that is a number; the last ones are filled up."""
    rows = len(next(iter(feed.values())))
    if not isinstance(size, int) or size == rows:
        yield feed
        return
    for start in range(0, rows, size):
        at = np.minimum(np.arange(start, start + size), rows - 1)
        yield {name: part[at] for name, part in feed.items()}


def _joined(parts: list[Any], rows: int) -> Any:
    if not all(isinstance(part, np.ndarray) and part.ndim for part in parts):
        return parts  # such as scikit-learn's list of dicts; no scores
    return torch.from_numpy(np.concatenate(parts)[:rows].copy())
