"""Nets as files: safetensors with the spec in the metadata, and what else a NET may be.

Reading never runs code from a weights file: safetensors holds only numbers, `.pt` files go through
torch's restricted unpickler (`weights_only=True`), and a torch.export program needs `trust`.
`file.py:factory` runs the file that the user names.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from cushion.data.files import check_regular, write_whole
from cushion.errors import BadInput, Malformed
from cushion.nets.loading import checksums
from cushion.nets.loading.programs import plain_module
from cushion.nets.models import build_empty
from cushion.nets.specs import Shape, Spec, parse, write_shape

FORMAT = "cushion-net-1"
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
    """

    module: nn.Module
    spec: Spec | None
    meta: dict[str, Any]
    init: nn.Module | None = None


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
    _check_exists(path, "a weights file, a RUN folder or file.py:factory")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            # clone: memory that torch allocated is aligned, whatever the file's layout
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return tensors, checksums.check(path, tensors, file.metadata() or {})
    except (SafetensorError, OSError) as error:
        said = f"{path} is not a complete safetensors file ({_first_line(error)})"
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
) -> LoadedNet:
    """Load a NET: a cushion weights file, a RUN folder, `file.py:factory`, or a `.pt2` program.

    `weights` (a safetensors or `.pt` state dict) goes with `file.py:factory` only. With
    `input_shape` and `classes` the net is also checked to read such examples and give that many
    scores.
    """
    text = os.fspath(reference)
    file, colon, factory = text.rpartition(":")
    if colon and file.endswith(".py"):
        module = _call_factory(Path(file), factory)
        if weights is not None:
            _fill(module, _read_state(Path(weights)), str(weights))
        net = LoadedNet(module, None, {})
    elif weights is not None:
        way = f"write {text}:FACTORY" if text.endswith(".py") else "leave it out"
        raise BadInput(f"`weights` goes with file.py:factory, but the net is {text}; {way}")
    elif text.endswith(".pt2"):
        net = LoadedNet(_load_program(Path(text), trust), None, {})
    else:
        net = _load_cushion_net(Path(text))
    source = text if weights is None else str(weights)
    for name, tensor in net.module.state_dict().items():
        numbers = isinstance(tensor, Tensor) and tensor.is_floating_point()
        if numbers and not bool(torch.isfinite(tensor).all()):
            said = f"{source}: tensor {name} holds NaN or infinite values"
            raise BadInput(f"{said}; train the net again or repair it")
    if input_shape is not None:
        _check_data(net, text, input_shape, classes)
    return net


def _load_cushion_net(path: Path) -> LoadedNet:
    if path.suffix == ".py":
        fix = f"write {path}:FUNCTION, a function that returns the nn.Module"
        raise BadInput(f"{path} names no factory; {fix}")
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
    if path.suffix in (".pt", ".pth", ".bin", ".pkl"):
        raise BadInput(f"{path} holds weights without a net; {_factory_for(path)}")
    module, spec, meta = _read_cushion_net(path)
    init = None
    beside = path.with_name(INIT_FILE)
    if beside != path and beside.exists():
        start, start_spec, start_meta = _read_cushion_net(beside)
        same = ("seed", "recipe", "data_fingerprint")
        if start_spec == spec and all(start_meta.get(key) == meta.get(key) for key in same):
            init = start
    return LoadedNet(module, spec, meta, init)


def _read_cushion_net(path: Path) -> tuple[nn.Module, Spec, dict[str, Any]]:
    tensors, metadata = read_tensors(path)
    kind = metadata.pop("format", None)
    if (kind or "").startswith("cushion-compressed"):
        raise BadInput(f"{path} is a compressed net; read it with cushion.load_compressed")
    if "spec" not in metadata:
        said = "was not written by cushion (no spec inside)"
        raise BadInput(f"{path} {said}; {_factory_for(path)}")
    if kind != FORMAT:
        raise BadInput(f"{path} has format {kind!r}, but this version reads {FORMAT!r}")
    try:
        spec = parse(metadata.pop("spec"))
        meta = {key: v if key in _TEXT_KEYS else json.loads(v) for key, v in metadata.items()}
    except (BadInput, ValueError, RecursionError) as error:
        raise Malformed(f"{path} has damaged metadata: {_first_line(error)}") from None
    module = build_empty(spec)
    _check_keys(module, tensors, str(path))
    module = module.to_empty(device="cpu")
    _fill(module, tensors, str(path))
    return module, spec, meta


def _check_keys(module: nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    wanted = module.state_dict()
    problems = [f"lacks {name}" for name in wanted if name not in tensors]
    problems += [f"has an unexpected {name}" for name in tensors if name not in wanted]
    for name, tensor in tensors.items():
        expected = wanted.get(name)
        if expected is not None and (tensor.shape != expected.shape or tensor.is_complex()):
            shapes = f"{list(tensor.shape)} where the net needs {list(expected.shape)}"
            problems.append(f"has {name} of shape {shapes}")
    if problems:
        said = ", ".join(problems[:5])
        said += f" and {len(problems) - 5} more misfits" if len(problems) > 5 else ""
        raise BadInput(f"{source} does not fit the net: it {said}; use the weights of this net")


def _fill(module: nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    _check_keys(module, tensors, source)
    module.load_state_dict(dict(tensors))
    module.eval()


def _check_data(net: LoadedNet, source: str, input_shape: Shape, classes: int | None) -> None:
    shape = write_shape(input_shape)
    if net.spec is not None:
        reads, gives = net.spec.input_shape, net.spec.classes
        if reads != tuple(input_shape):
            said = f"{source} reads {write_shape(reads)}, but the data are {shape}"
            raise BadInput(f"{said}; use data of its shape")
    else:
        numbers = (p.dtype for p in net.module.parameters() if p.is_floating_point())
        x = torch.zeros(2, *input_shape, dtype=next(numbers, torch.float32))
        with torch.no_grad(), _refusing(f"{source} cannot read examples of shape {shape}:"):
            scores = net.module(x)
        if not isinstance(scores, Tensor) or scores.ndim != 2 or len(scores) != 2:
            raise BadInput(f"{source} must return one row of class scores for each example")
        gives = scores.shape[1]
    if classes is not None and gives < classes:
        said = f"{source} gives {gives} scores, but the data have {classes} classes"
        raise BadInput(f"{said}; use data of its classes")


def _call_factory(path: Path, name: str) -> nn.Module:
    _check_exists(path, "file.py:factory with the file's path")
    found = importlib.util.spec_from_file_location(f"cushion_user_{path.stem}", path)
    assert found is not None
    assert found.loader is not None
    code = importlib.util.module_from_spec(found)
    sys.modules[found.name] = code  # dataclasses and fx look their module up there
    try:
        with _refusing(f"{path} could not be imported:", named=True):
            found.loader.exec_module(code)
    except BadInput:
        del sys.modules[found.name]
        raise
    factory = getattr(code, name, None)
    if not callable(factory):
        fix = "give file.py:factory with a function that the file defines"
        raise BadInput(f"{path} has no function '{name}'; {fix}")
    with _refusing(f"{path}:{name}() raised", named=True), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a net without weights of its own is the same one every time
        module = factory()
    if not isinstance(module, nn.Module):
        returned = type(module).__name__
        raise BadInput(f"{path}:{name}() returned {returned}; it must return an nn.Module")
    return module.eval()


def _read_state(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        return read_tensors(path)[0]
    _check_exists(path, "`weights` a .safetensors or .pt file")
    try:
        # torch warns of a pickle's age before it refuses it
        with warnings.catch_warnings(action="ignore"):
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:
        # torch's own message tells the reader to switch the protection off: not repeated here
        raise BadInput(
            f"{path} is not a plain state dict (it is damaged, or a pickle with code in it, which "
            "is never run); save it again with torch.save(net.state_dict(), ...)"
        ) from None
    if not isinstance(state, dict) or not all(isinstance(one, Tensor) for one in state.values()):
        fix = "save it with torch.save(net.state_dict(), ...)"
        raise BadInput(f"{path} holds no state dict; {fix}")
    return state


def _load_program(path: Path, trust: bool) -> nn.Module:
    if not trust:
        said = f"{path} is a torch.export program, whose loading can run code from it"
        raise BadInput(f"{said}; add `trust` if you trust it")
    _check_exists(path, "the .pt2 file that torch.export.save wrote")
    with _refusing(f"{path} is not a torch.export program:"):
        program = torch.export.load(path)
    return plain_module(program)


def _check_exists(path: Path, instead: str) -> None:
    if not check_regular(path).is_file():
        raise BadInput(f"{path} does not exist; give {instead}")


def _factory_for(path: Path) -> str:
    return f"give file.py:factory with `weights` = {path}"


@contextmanager
def _refusing(said: str, *, named: bool = False) -> Iterator[None]:
    """Whatever somebody else's code raises inside becomes one sentence."""
    try:
        yield
    except (Exception, SystemExit) as error:
        kind = f"{type(error).__name__}: " if named else ""
        raise BadInput(f"{said} {kind}{_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__
