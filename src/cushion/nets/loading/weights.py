"""Nets as files: safetensors with the spec in the metadata, and what else a NET may be.

Reading never runs code from a weights file: safetensors holds only numbers, `.pt` files go through
torch's restricted unpickler (`weights_only=True`), and programs need `trust`. `file.py:name` runs
the file that the user names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from cushion.data.files import write_whole
from cushion.errors import BadInput, Malformed
from cushion.nets.batches import Batch
from cushion.nets.calling import evaluating
from cushion.nets.classifier import as_module, behind, remarks
from cushion.nets.fitted import Fitted
from cushion.nets.loading import checksums
from cushion.nets.loading.factories import call_factory, refuse_without_name
from cushion.nets.loading.foreign import load_foreign, refuse_program
from cushion.nets.loading.refusals import check_exists, factory_for, first_line
from cushion.nets.loading.states import check_keys, fill, read_checkpoint
from cushion.nets.models import build_empty
from cushion.nets.normalise import Normalise
from cushion.nets.specs import Shape, Spec, parse, write_shape

FORMAT = "cushion-net-1"
COMPRESSED = b"csn2"  # how a compressed net's file begins
NET_FILE = "net.safetensors"
INIT_FILE = "init.safetensors"
RUN_FILE = "run.json"
IMP_FILE = "imp.json"  # of a folder whose levels are runs
# Metadata values are strings; these are kept as they are, every other value is JSON.
_TEXT_KEYS = frozenset({"recipe", "data", "data_fingerprint"})


@dataclass(frozen=True)
class LoadedNet:
    """A net in evaluation mode on the CPU.

    `spec` and `meta` (recipe, data, data_fingerprint, seed, metrics, ...) are there when cushion
    wrote the file; `init` is the same net at its initialisation, when that file lies beside it.
    `remarks`: what its scores on the data's first rows look like, where that needs saying.
    """

    module: nn.Module
    spec: Spec | None
    meta: dict[str, Any]
    init: nn.Module | None = None
    remarks: tuple[str, ...] = ()


def save_net(
    path: str | os.PathLike[str], module: nn.Module, spec: Spec, meta: Mapping[str, Any]
) -> None:
    """Write the module's weights and buffers (float32 or int64) with spec and meta, atomically."""
    written = {key: v if key in _TEXT_KEYS else json.dumps(v) for key, v in meta.items()}
    save_tensors(Path(path), module.state_dict(), {"format": FORMAT, "spec": str(spec), **written})


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file with its checksum, whole or not at all."""
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    content = save(plain, checksums.add(plain, metadata))
    write_whole(path, _in_order(content))


def _in_order(content: bytes) -> bytes:
    """The same file with sorted metadata, which safetensors shuffles: equal nets, equal files."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors (copies that share nothing with the file) and metadata of a safetensors file.

    Its checksum, where it has one, is checked and left out.
    """
    check_exists(path, "a weights file, a RUN folder or file.py:factory")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            # clone: memory that torch allocated is aligned, whatever the file's layout
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return tensors, checksums.check(path, tensors, file.metadata() or {})
    except (SafetensorError, OSError) as error:
        said = f"{path} is not a complete safetensors file ({first_line(error)})"
        raise Malformed(f"{said}; write it again") from None


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file, its tensors left unread; {} for any other file."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError):
        return {}


def load_net(
    reference: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    trust: bool = False,
    input_shape: Shape | None = None,
    classes: int | None = None,
    rows: Batch | None = None,
    labels: Sequence[int | str] | None = None,
    normalise: Normalise | None = None,
) -> LoadedNet:
    """Load a NET: a cushion weights file, a RUN folder, `file.py:name`, a `.pt2` or TorchScript
    program (with `trust`), or an `.onnx` file.

    `weights` (a safetensors or `.pt` state dict, or a checkpoint with one) goes with `file.py:name`
    only. With `input_shape` or `rows`, some examples, and `classes` the net is also checked to read
    them and give that many scores, and what it returns becomes rows of scores; `labels`: the data's
    own of these classes. `normalise`, a pair (mean, std), puts (x - mean) / std before it.
    """
    text = os.fspath(reference)
    net = _load(text, weights, trust)
    source = text if weights is None else str(weights)
    for name, tensor in net.module.state_dict().items():
        numbers = isinstance(tensor, Tensor) and tensor.is_floating_point()
        if numbers and not bool(torch.isfinite(tensor).all()):
            said = f"{source}: tensor {name} holds NaN or infinite values"
            raise BadInput(f"{said}; train the net again or repair it")
    if input_shape is None and isinstance(rows, Tensor):
        input_shape = tuple(rows.shape[1:])
    if normalise is not None:
        module = behind(net.module, normalise, input_shape or ())
        init = None if net.init is None else behind(net.init, normalise, input_shape or ())
        net = replace(net, module=module, init=init)
    if input_shape is None and rows is None:
        return net
    return _for_data(net, text, input_shape, classes, labels, rows)


def _load(text: str, weights: str | os.PathLike[str] | None, trust: bool) -> LoadedNet:
    file, colon, name = text.rpartition(":")
    if colon and file.endswith(".py"):
        if not name:
            raise refuse_without_name(Path(file))
        module = call_factory(Path(file), name)
        if weights is not None:
            if isinstance(module, Fitted):
                said = f"`weights` goes with a torch module, but {text} is fitted by scikit-learn"
                raise BadInput(f"{said}; leave it out")
            fill(module, _read_state(Path(weights)), str(weights))
        return LoadedNet(module, None, {})
    path = Path(text)
    if weights is not None:
        way = f"write {text}:FACTORY" if text.endswith(".py") else "leave it out"
        raise BadInput(f"`weights` goes with file.py:factory, but the net is {text}; {way}")
    if path.suffix == ".py":
        raise refuse_without_name(path)
    foreign = None if path.is_dir() else load_foreign(path, trust)
    return _load_cushion_net(path) if foreign is None else LoadedNet(foreign, None, {})


def _load_cushion_net(path: Path) -> LoadedNet:
    if path.is_dir():
        if not (path / NET_FILE).exists():
            said = f"is a folder without {NET_FILE}"
            if (path / IMP_FILE).exists():
                level = f"{path}/level-00"
                said = f"holds the levels of `prune` = imp; give one of them, such as {level}"
            elif (path / RUN_FILE).exists():
                said = "is an unfinished run; run cushion train again to finish it"
            raise BadInput(f"{path} {said}")
        path = path / NET_FILE
    module, spec, meta = _read_cushion_net(path)
    init = None
    beside = path.with_name(INIT_FILE)
    if beside != path and beside.exists():
        start, start_spec, start_meta = _read_cushion_net(beside)
        same = ("seed", "recipe", "data_fingerprint")
        if start_spec == spec and all(start_meta.get(key) == meta.get(key) for key in same):
            init = start
    return LoadedNet(module, spec, meta, init)


def is_compressed(path: str | Path) -> bool:
    """Whether the file says that it is a compressed net."""
    if not Path(path).is_file():
        return False
    with open(path, "rb") as stream:
        return stream.read(len(COMPRESSED)) == COMPRESSED


def _read_cushion_net(path: Path) -> tuple[nn.Module, Spec, dict[str, Any]]:
    if is_compressed(path):
        raise BadInput(f"{path} is a compressed net; read it with cushion.load_compressed")
    tensors, metadata = read_tensors(path)
    kind = metadata.pop("format", None)
    if "spec" not in metadata:
        said = "was not written by cushion (no spec inside)"
        raise BadInput(f"{path} {said}; {factory_for(path)}")
    if kind != FORMAT:
        raise BadInput(f"{path} has format {kind!r}, but this version reads {FORMAT!r}")
    try:
        spec = parse(metadata.pop("spec"))
        meta = {key: v if key in _TEXT_KEYS else json.loads(v) for key, v in metadata.items()}
    except (BadInput, ValueError, RecursionError) as error:
        raise Malformed(f"{path} has damaged metadata: {first_line(error)}") from None
    module = build_empty(spec)
    check_keys(module, tensors, str(path))
    module = module.to_empty(device="cpu")
    fill(module, tensors, str(path))
    return module, spec, meta


def _for_data(
    net: LoadedNet,
    source: str,
    input_shape: Shape | None,
    classes: int | None,
    labels: Sequence[int | str] | None,
    rows: Batch | None,
) -> LoadedNet:
    """The net as rows of scores on such data; BadInput if it cannot read them or tells too few
    classes apart.
    """
    if net.spec is not None and input_shape is not None:
        reads = net.spec.input_shape
        if reads != tuple(input_shape):
            shape = write_shape(input_shape)
            said = f"{source} reads {write_shape(reads)}, but the data are {shape}"
            raise BadInput(f"{said}; use data of its shape")
    if rows is None:
        rows = torch.zeros(2, *(input_shape or ()))
    try:
        module = as_module(net.module, rows, classes=classes, labels=labels)
    except BadInput as problem:
        raise BadInput(f"{source}: {problem}") from None
    with torch.no_grad(), torch.random.fork_rng(devices=[]), evaluating(module):
        scores = module(rows)
    if classes is not None and scores.shape[1] < classes:
        said = f"{source} gives {scores.shape[1]} scores, but the data have {classes} classes"
        raise BadInput(f"{said}; use data of its classes")
    return replace(net, module=module, remarks=remarks(scores, module))


def _read_state(path: Path) -> dict[str, Tensor]:
    refuse_program(path)
    return read_tensors(path)[0] if path.suffix == ".safetensors" else read_checkpoint(path)
