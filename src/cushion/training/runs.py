"""The RUN folder: what training leaves on disk; kill -9 at any time loses at most one epoch.

run.json                recipe, spec, options and data (written first; never changed)
init.safetensors        the net at its initialisation
checkpoint.safetensors  the last finished epoch: weights, optimiser, history
history.jsonl           one line an epoch, rewritten from the checkpoint
rewind.safetensors      the checkpoint to which pruned runs go back, where there are any (imp.py)
epoch-NNNN.safetensors  the net after an epoch that was asked for, where any was
net.safetensors         the trained net with its metrics: there if and only if the run is finished

Every file is written under a temporary name and renamed. One process at a time holds a lock on the
folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from cushion.data.files import write_whole
from cushion.errors import Malformed
from cushion.nets.loading import weights as stored
from cushion.nets.loading.checksums import Damaged
from cushion.training.plans import CHECKPOINT_FILE, Setting

CHECKPOINT_FORMAT = "cushion-checkpoint-1"
HISTORY_FILE = "history.jsonl"
REWIND_FILE = "rewind.safetensors"

Status: TypeAlias = Literal["trained", "resumed", "already done"]


class Run:
    """A RUN folder that is held open (plans.py) and belongs to this very setting."""

    def __init__(self, folder: Path, setting: Setting) -> None:
        self.folder, self.setting = folder, setting
        self.history: list[dict[str, Any]] = []
        self.stopped = False
        self.keep: int | None = None  # the epoch whose checkpoint stays, as REWIND_FILE
        self.net_path = folder / stored.NET_FILE

    def _save(self, file: str, module: nn.Module, metrics: dict[str, Any] | None = None) -> None:
        """Write the net as it is now."""
        setting = self.setting
        meta = {
            "recipe": setting.recipe.name,
            "data": setting.sample.name,
            "data_fingerprint": setting.sample.fingerprint,
            "data_history": list(setting.sample.history),
            "seed": setting.seed,
            "width": setting.width,
            "metrics": {"epochs": len(self.history)} if metrics is None else metrics,
        }
        stored.save_net(self.folder / file, module, setting.spec, meta)

    def finished(self) -> dict[str, Any] | None:
        """The metrics of a finished run, else None."""
        if not self.net_path.exists():
            return None
        metrics: dict[str, Any] = stored.load_net(self.net_path).meta.get("metrics", {})
        if not _holds_numbers(metrics) or type(metrics.get("epochs")) is not int:
            said = f"{self.net_path} holds no metrics of a run"
            raise Malformed(f"{said}; delete it to finish the run again")
        return metrics

    def restore(self, module: nn.Module, optimiser: torch.optim.Optimizer) -> Status:
        """Save the module as the run starts from it, then load the last checkpoint, if any."""
        if not (self.folder / stored.INIT_FILE).exists():
            self._save(stored.INIT_FILE, module)
        path = self.folder / CHECKPOINT_FILE
        if not path.exists():
            return "trained"
        self.load(path, module, optimiser)
        self._write_history()
        return "resumed"

    def load(self, path: Path, module: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Take over the weights, the optimiser's state and the history of a checkpoint."""
        try:
            tensors, metadata = stored.read_tensors(path)
            if metadata.get("format") != CHECKPOINT_FORMAT:
                raise ValueError(f"its format is not {CHECKPOINT_FORMAT}")
            history, stopped = _progress(metadata)
            state = {
                at: _optimiser_entries(optimiser, name, parameter, tensors)
                for at, (name, parameter) in enumerate(module.named_parameters())
            }
            weights = _entries(tensors, "model.")
            if len(tensors) != len(weights) + sum(map(len, state.values())):
                raise ValueError("it holds tensors that are not of this net")
            module.load_state_dict(weights)
            optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
        except (Malformed, ValueError, RuntimeError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(":")
            said = f"is damaged ({reason})"
            if isinstance(error, Damaged):
                said = "is damaged (its contents are not those that were written)"
            elif isinstance(error, Malformed):
                said = "is not a complete safetensors file"
            how = "delete it to start the run again"
            if path.name == REWIND_FILE:
                how = f"delete {path.parent}, and it is trained again"
            raise Malformed(f"{path} {said}; {how}") from None
        self.history, self.stopped = history, stopped

    def checkpoint(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, line: dict[str, Any], stop: bool
    ) -> None:
        """Record a finished epoch; `stop` says that the recipe's loss is reached."""
        self.history.append(line)
        self.stopped = stop
        tensors = {f"model.{name}": tensor for name, tensor in module.state_dict().items()}
        for name, parameter in module.named_parameters():
            for key, value in optimiser.state[parameter].items():
                if isinstance(value, Tensor):
                    tensors[f"optimiser.{name}.{key}"] = value
        metadata = {
            "format": CHECKPOINT_FORMAT,
            "epoch": str(len(self.history)),
            "history": json.dumps(self.history),
            "stopped": json.dumps(stop),
        }
        # First what stays: a run that is killed in between repeats the epoch.
        if len(self.history) == self.keep:
            stored.save_tensors(self.folder / REWIND_FILE, tensors, metadata)
        if len(self.history) in self.setting.snapshots:
            self._save(snapshot_file(len(self.history)), module)
        stored.save_tensors(self.folder / CHECKPOINT_FILE, tensors, metadata)
        self._write_history()

    def finish(self, module: nn.Module, metrics: dict[str, Any]) -> None:
        """Write the trained net; from now on the run is done."""
        self._save(stored.NET_FILE, module, metrics)

    def _write_history(self) -> None:
        lines = "".join(json.dumps(line) + "\n" for line in self.history)
        write_whole(self.folder / HISTORY_FILE, lines)


def snapshot_file(epoch: int) -> str:
    """The name of the file in a RUN folder that holds the net after an epoch that was asked for."""
    return f"epoch-{epoch:04d}.safetensors"


def _entries(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    whole = tensors.items()
    return {name[len(prefix) :]: tensor for name, tensor in whole if name.startswith(prefix)}


def _holds_numbers(record: Any) -> bool:
    return isinstance(record, dict) and {type(value) for value in record.values()} <= {int, float}


def _progress(metadata: dict[str, str]) -> tuple[list[dict[str, Any]], bool]:
    """The history and whether the recipe's loss was reached, from a checkpoint's metadata."""
    try:
        history, stopped = (json.loads(metadata.get(key, "")) for key in ("history", "stopped"))
    except (ValueError, RecursionError):
        raise ValueError("its history cannot be read") from None
    if not isinstance(history, list) or not history or not all(map(_holds_numbers, history)):
        raise ValueError("its history is not a list of epochs")
    epochs = [line.get("epoch") for line in history]
    if epochs != list(range(1, len(history) + 1)) or {type(epoch) for epoch in epochs} != {int}:
        raise ValueError("the epochs of its history are not numbered 1, 2, 3, ...")
    if not isinstance(stopped, bool):
        raise ValueError("it does not say whether training stopped")
    return history, stopped


def _optimiser_entries(
    optimiser: torch.optim.Optimizer, name: str, parameter: Tensor, tensors: dict[str, Tensor]
) -> dict[str, Tensor]:
    """What the optimiser remembers of a parameter, all of it: else no run resumes as it was."""
    shape = tuple(parameter.shape)
    shapes: dict[str, tuple[int, ...]] = {}
    if isinstance(optimiser, torch.optim.Adam):
        shapes = {"step": (), "exp_avg": shape, "exp_avg_sq": shape}
    elif optimiser.param_groups[0]["momentum"]:
        shapes = {"momentum_buffer": shape}
    found = _entries(tensors, f"optimiser.{name}.")
    kinds = {key: (tuple(tensor.shape), tensor.dtype) for key, tensor in found.items()}
    if kinds != {key: (shape, torch.float32) for key, shape in shapes.items()}:
        raise ValueError(f"the optimiser's state of {name} is missing or misshapen")
    return found
