"""The checksum that every safetensors file of cushion carries in its metadata.

It is over every tensor's name, dtype, shape and bytes and over the other metadata, so a file that
is whole but has a flipped bit anywhere is told from what was written. Files without one, which
older versions and other programs write, are taken as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from cushion.errors import Malformed

KEY = "checksum"


class Damaged(Malformed):
    """A file that is whole, but not what was written."""


def digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """sha256, the same whatever the order of tensors and metadata."""
    said = {key: value for key, value in metadata.items() if key != KEY}
    found = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        found.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        plain = tensor.detach().cpu().contiguous().reshape(-1)
        found.update(plain.view(torch.uint8).numpy().data)
    return found.hexdigest()


def add(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata with the checksum; a compressed net brings its own, in `sha256`."""
    own = {} if "sha256" in metadata else {KEY: digest(tensors, metadata)}
    return {**metadata, **own}


def check(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata without the checksum; Damaged if the file has one that is not its own."""
    said = dict(metadata)
    stated = said.pop(KEY, None)
    if stated is not None and stated != digest(tensors, said):
        fault = "its contents are not those that were written"
        how = "take a copy of it, or delete it and run what wrote it again"
        raise Damaged(f"{path} is damaged: {fault}; {how}")
    return said
