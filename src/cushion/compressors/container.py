"""The bytes of a compressed net's file: what is said about it, packed, and its message as it is.

magic    4 bytes
crc32    4 bytes, of all that follows
head     a length, then that many bytes: JSON, deflated with a dictionary of what graphs say
message  its length in bits, then its bytes, the last padded with zeros
start    what is left: the initialisation as a safetensors file, where the net is made of one

Lengths are LEB128. Nothing in it is trusted: a head is inflated up to a limit only.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from cushion.errors import Malformed
from cushion.nets.loading.weights import COMPRESSED as MAGIC

_MOST_HEAD = 1 << 24
_MOST_LENGTH = 8  # bytes of a LEB128 number
# deflate looks here first, and finds what is near the end at the least cost
_DICTIONARY = (
    b'"ceil_mode":true,"dilation":[2,2],"kind":"batchnorm","name":"downsample.1","op":"LeakyReLU",'
    b'"slope":[0.01]},{"name":"features.classifier.","op":"Tanh"},{"name":"sigmoid","op":"Sigmoid"}'
    b',"groups":2,"bias":false,"inputs":[1,2],"divisor":null,"count_include_pad":true,"float64"'
    b',"op":"Cat"},{"kernel":[3,3],"name":"avg_pool2d_1","op":"AvgPool","padding":[1,1],'
    b'{"inputs":[3,1],"name":"add","op":"Add"},{"kind":"scale","op":"AdaptiveAvgPool","output":[1,1]'
    b'},{"kind":"conv2d","name":"layer1.0.conv2","op":"Affine","padding":[1,1,1,1],"weight":[64,64,3'
    b',3]},{"name":"relu_1","op":"ReLU"},{"kind":"conv2d","name":"layer1.0.conv1","op":"Affine",'
    b'"padding":[1,1,1,1],"stride":[2,2],"weight":[32,16,3,3]},'
    b'{"graph":{"dtype":"float32","nodes":[{"name":"input","op":"Input","shape":[1,28,28]},'
    b'{"kind":"conv2d","name":"0","op":"Affine","weight":[20,1,5,5]},'
    b'{"kernel":[2,2],"name":"1","op":"MaxPool","stride":[2,2]},'
    b'{"kind":"conv2d","name":"2","op":"Affine","weight":[50,20,5,5]},'
    b'{"kernel":[2,2],"name":"max_pool2d","op":"MaxPool","stride":[2,2]},'
    b'{"name":"flatten","op":"Flatten"},{"name":"4","op":"Flatten"},'
    b'{"kind":"linear","name":"fc1","op":"Affine","weight":[500,800]},'
    b'{"name":"relu","op":"ReLU"},{"name":"6","op":"ReLU"},'
    b'{"kind":"linear","name":"fc2","op":"Affine","weight":[10,500]},'
    b'{"kind":"linear","name":"5","op":"Affine","weight":[300,784]}]},"notes":{"method":"rate"}}'
)


@dataclass(frozen=True, eq=False)
class Contents:
    """head: JSON. message: of `bits` bits. start: tensors by name, none for most nets."""

    head: Mapping[str, Any]
    message: bytes
    bits: int
    start: Mapping[str, Tensor]


def pack(contents: Contents) -> bytes:
    said = json.dumps(contents.head, separators=(",", ":"), sort_keys=True).encode()
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY)
    head = deflate.compress(said) + deflate.flush()
    body = _length(len(head)) + head + _length(contents.bits) + contents.message
    if contents.start:
        plain = {name: one.detach().cpu().contiguous() for name, one in contents.start.items()}
        body += save(dict(sorted(plain.items())))
    whole: bytes = MAGIC + zlib.crc32(body).to_bytes(4, "little") + body
    return whole


def unpack(content: bytes, where: str) -> Contents:
    """Malformed, naming `where`, for what `pack` did not write."""
    body = content[8:]
    if content[:4] != MAGIC or zlib.crc32(body) != int.from_bytes(content[4:8], "little"):
        said = "its contents are not those that were written"
        raise Malformed(f"{where} is damaged or cut short: {said}")
    try:
        length, at = _read_length(body, 0)
        inflate = zlib.decompressobj(-15, _DICTIONARY)
        said_bytes = inflate.decompress(body[at : at + length], _MOST_HEAD)
        if not inflate.eof or inflate.unused_data:
            raise ValueError("a head that ends elsewhere")
        head = json.loads(said_bytes)
        bits, at = _read_length(body, at + length)
        end = at + (bits + 7) // 8
        if end > len(body) or not isinstance(head, dict):
            raise ValueError("no message")
        start = load(body[end:]) if end < len(body) else {}
    except (zlib.error, ValueError, RecursionError, SafetensorError):
        said = "it lacks the graph, notes or message of a compressed net"
        raise Malformed(f"{where} is damaged: {said}") from None
    return Contents(head, body[at:end], bits, start)


def _length(value: int) -> bytes:
    found = bytearray()
    while value >= 128:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _read_length(body: bytes, at: int) -> tuple[int, int]:
    """A length, and where it ends; ValueError where none is, or one that could be shorter."""
    value = 0
    for place in range(_MOST_LENGTH):
        if at + place >= len(body):
            break
        byte = body[at + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            if byte == 0 and place:
                break
            return value, at + place + 1
    raise ValueError("no length")
