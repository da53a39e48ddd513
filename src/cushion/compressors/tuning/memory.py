"""Rungs that were climbed, in a folder beside the file: a command that is killed goes on from them.

Each is the state at the end of its last epoch, written whole; `which.json` says of which run they
are, and another run begins anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cushion.compressors.file import describe_graph, rebuild_graph
from cushion.compressors.tuning.learner import State
from cushion.data.files import write_whole
from cushion.errors import BadInput, CushionError, Malformed
from cushion.nets.loading.weights import read_tensors, save_tensors
from cushion.nets.network import Network
from cushion.nets.operations import Affine

_WHICH = "which.json"
_OURS = "run of cushion compress"


class Forgetful:
    """Keeps nothing."""

    def recall(self, rung: int) -> tuple[int, State] | None:  # noqa: ARG002
        return None

    def keep(self, rung: int, epochs: int, state: State) -> None:
        pass

    def forget(self) -> None:
        pass


@dataclass
class Folder:
    """identity: sha256 of all that decides what a rung does."""

    path: Path
    identity: str

    @classmethod
    def of(cls, path: Path, **what: Any) -> Folder:
        """The folder, empty unless it is of the same run; BadInput where something else lies."""
        said = json.dumps(what, sort_keys=True, default=str).encode()
        found = cls(path, hashlib.sha256(said).hexdigest())
        if path.is_symlink() or (path.exists() and not found._which()):
            raise BadInput(f"{path} is in the way: move it, or give another -o")
        if path.exists() and found._which() != found.identity:
            found._empty()
        path.mkdir(parents=True, exist_ok=True)
        write_whole(path / _WHICH, json.dumps({_OURS: found.identity}) + "\n")
        return found

    def _which(self) -> Any:
        """Of which run it is; None for a folder of somebody else's."""
        try:
            return json.loads((self.path / _WHICH).read_text(encoding="utf-8"))[_OURS]
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def _empty(self) -> None:
        """Without what runs write; whatever else lies there stays."""
        for file in self.path.glob("rung-*.safetensors"):
            if file.is_file():
                file.unlink()
        (self.path / _WHICH).unlink(missing_ok=True)

    def recall(self, rung: int) -> tuple[int, State] | None:
        """What is damaged is trained again."""
        file = self._file(rung)
        if not file.is_file():
            return None
        try:
            tensors, said = read_tensors(file)
            frame = rebuild_graph(json.loads(said["graph"]), str(file))
            nets = {name: _filled(frame, name, tensors) for name in json.loads(said["nets"])}
            exponents = {int(at): int(e) for at, e in json.loads(said["exponents"]).items()}
            state = State(nets.pop("net"), exponents, nets, int(said["steps"]))
            return int(said["epochs"]), state
        except (CushionError, LookupError, ValueError):
            return None

    def keep(self, rung: int, epochs: int, state: State) -> None:
        nets = {"net": state.net, **state.moments}
        tensors: dict[str, Tensor] = {}
        for name, net in nets.items():
            for node in net.affine_layers:
                for part, tensor in _parts(node.affine).items():
                    tensors[f"{name}.{node.index}.{part}"] = tensor
        said = {
            "graph": json.dumps(describe_graph(state.net)),
            "nets": json.dumps(list(nets)),
            "exponents": json.dumps(state.exponents),
            "steps": str(state.steps),
            "epochs": str(epochs),
        }
        save_tensors(self._file(rung), tensors, said)

    def forget(self) -> None:
        self._empty()
        with suppress(OSError):  # something else lies there
            self.path.rmdir()

    def _file(self, rung: int) -> Path:
        return self.path / f"rung-{rung}.safetensors"


def _parts(affine: Affine) -> dict[str, Tensor]:
    bias = {} if affine.bias is None else {"bias": affine.bias}
    return {"weight": affine.operator.weight, **bias}


def _filled(frame: Network, name: str, tensors: Mapping[str, Tensor]) -> Network:
    """The frame with these numbers; Malformed where they do not fit it."""
    changes = {}
    for node in frame.affine_layers:
        own = {part: tensors[f"{name}.{node.index}.{part}"] for part in _parts(node.affine)}
        for part, tensor in _parts(node.affine).items():
            if own[part].shape != tensor.shape or own[part].dtype != torch.float32:
                raise Malformed("a state of other layers")
        operator = node.affine.operator.with_weight(own["weight"])
        changes[node.index] = Affine(operator, own.get("bias"), node.affine.kind)
    return frame.with_affine(changes)
