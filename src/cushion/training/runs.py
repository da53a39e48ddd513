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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from cushion.data.dataset import Dataset
from cushion.data.files import write_whole
from cushion.errors import Malformed
from cushion.nets.loading.weights import (
    INIT_FILE,
    NET_FILE,
    RUN_FILE,
    load_net,
    read_tensors,
    save_net,
    save_tensors,
)
from cushion.nets.specs import Spec
from cushion.training.plans import CHECKPOINT_FILE, open_folder

CHECKPOINT_FORMAT = "cushion-checkpoint-1"
HISTORY_FILE = "history.jsonl"
REWIND_FILE = "rewind.safetensors"

Status: TypeAlias = Literal["trained", "resumed", "already done"]


class Run:
    """One open RUN folder; `Run.open` checks that it belongs to these very options."""

    def __init__(self, folder: Path, spec: Spec, meta: dict[str, Any]) -> None:
        self.folder, self.spec, self.meta = folder, spec, meta
        self.history: list[dict[str, Any]] = []
        self.stopped = False
        self.keep: int | None = None  # the epoch whose checkpoint stays, as REWIND_FILE
        self.snapshots: tuple[int, ...] = ()  # the epochs whose nets stay, as snapshot_file says
        self.net_path = folder / NET_FILE

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: Path,
        spec: Spec,
        sample: Dataset,
        test: Dataset | None,
        options: dict[str, Any],
    ) -> Iterator[Run]:
        """Create or reopen the folder; another run's is refused with the first difference."""
        with open_folder(folder, RUN_FILE, spec, sample, test, options):
            meta = {
                "recipe": options["recipe"].name,
                "data": sample.name,
                "data_fingerprint": sample.fingerprint,
                "data_history": list(sample.history),
                "seed": options["seed"],
                "width": options["width"],
            }
            yield cls(folder, spec, meta)

    def finished(self) -> dict[str, Any] | None:
        """The metrics of a finished run, else None."""
        if not self.net_path.exists():
            return None
        metrics = load_net(self.net_path).meta.get("metrics")
        if (
            not isinstance(metrics, dict)
            or type(metrics.get("epochs")) is not int
            or not _holds_numbers(metrics)
        ):
            raise Malformed(
                f"{self.net_path} holds no metrics of a run; delete it to finish the run again"
            )
        return metrics

    def restore(self, module: nn.Module, optimiser: torch.optim.Optimizer) -> Status:
        """Save the module as the run starts from it, then load the last checkpoint, if any."""
        if not (self.folder / INIT_FILE).exists():
            metrics = {"epochs": len(self.history)}
            save_net(self.folder / INIT_FILE, module, self.spec, {**self.meta, "metrics": metrics})
        path = self.folder / CHECKPOINT_FILE
        if not path.exists():
            return "trained"
        self.load(path, module, optimiser)
        self._write_history()
        return "resumed"

    def load(self, path: Path, module: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Take over the weights, the optimiser's state and the history of a checkpoint."""
        try:
            tensors, metadata = read_tensors(path)
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
            optimiser.load_state_dict(
                {"state": state, "param_groups": optimiser.state_dict()["param_groups"]}
            )
        except Malformed:
            raise Malformed(
                f"{path} is not a complete safetensors file; delete it to start the run again"
            ) from None
        except (ValueError, RuntimeError) as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(":")
            raise Malformed(
                f"{path} is damaged ({reason}); delete it to start the run again"
            ) from None
        self.history, self.stopped = history, stopped

    def checkpoint(
        self, module: nn.Module, optimiser: torch.optim.Optimizer, line: dict[str, Any], stop: bool
    ) -> None:
        """Record a finished epoch; `stop` says that the recipe's loss is reached."""
        self.history.append(line)
        self.stopped = stop
        tensors: dict[str, Tensor] = {
            f"model.{name}": tensor for name, tensor in module.state_dict().items()
        }
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
            save_tensors(self.folder / REWIND_FILE, tensors, metadata)
        if len(self.history) in self.snapshots:
            metrics = {"epochs": len(self.history)}
            path = self.folder / snapshot_file(len(self.history))
            save_net(path, module, self.spec, {**self.meta, "metrics": metrics})
        save_tensors(self.folder / CHECKPOINT_FILE, tensors, metadata)
        self._write_history()

    def finish(self, module: nn.Module, metrics: dict[str, Any]) -> None:
        """Write the trained net; from now on the run is done."""
        save_net(self.net_path, module, self.spec, {**self.meta, "metrics": metrics})

    def _write_history(self) -> None:
        write_whole(
            self.folder / HISTORY_FILE, "".join(json.dumps(line) + "\n" for line in self.history)
        )


def snapshot_file(epoch: int) -> str:
    """The name of the file in a RUN folder that holds the net after an epoch that was asked for."""
    return f"epoch-{epoch:04d}.safetensors"


def _entries(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)
    }


def _holds_numbers(record: Any) -> bool:
    return isinstance(record, dict) and all(
        type(value) in (int, float) for value in record.values()
    )


def _progress(metadata: dict[str, str]) -> tuple[list[dict[str, Any]], bool]:
    """The history and whether the recipe's loss was reached, from a checkpoint's metadata."""
    try:
        history, stopped = (
            json.loads(metadata.get("history", "")),
            json.loads(metadata.get("stopped", "")),
        )
    except (ValueError, RecursionError):
        raise ValueError("its history cannot be read") from None
    if not isinstance(history, list) or not history or not all(map(_holds_numbers, history)):
        raise ValueError("its history is not a list of epochs")
    if any(
        type(line.get("epoch")) is not int or line["epoch"] != at
        for at, line in enumerate(history, 1)
    ):
        raise ValueError("the epochs of its history are not numbered 1, 2, 3, ...")
    if not isinstance(stopped, bool):
        raise ValueError("it does not say whether training stopped")
    return history, stopped


def _optimiser_entries(
    optimiser: torch.optim.Optimizer, name: str, parameter: Tensor, tensors: dict[str, Tensor]
) -> dict[str, Tensor]:
    """What the optimiser remembers of a parameter, all of it: else no run resumes as it was."""
    if isinstance(optimiser, torch.optim.Adam):
        shapes = {
            "step": (),
            "exp_avg": tuple(parameter.shape),
            "exp_avg_sq": tuple(parameter.shape),
        }
    else:
        shapes = (
            {"momentum_buffer": tuple(parameter.shape)}
            if optimiser.param_groups[0]["momentum"]
            else {}
        )
    found = _entries(tensors, f"optimiser.{name}.")
    if {key: (tuple(tensor.shape), tensor.dtype) for key, tensor in found.items()} != {
        key: (shape, torch.float32) for key, shape in shapes.items()
    }:
        raise ValueError(f"the optimiser's state of {name} is missing or misshapen")
    return found
