"""Where a net runs: the CPU, a CUDA card, or Apple's GPU (MPS).

Whatever is computed follows the net: batches are moved to where its weights are (calling.py), and
what comes back is numpy on the CPU. Random numbers are drawn on the CPU and then moved, so a seed
means the same numbers on every device. MPS knows no float64: there a net answers and is trained,
and what looks inside it holds a copy on the CPU.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from cushion.errors import BadInput, remark

NAMES = "cpu, cuda, cuda:1, mps, or auto (the fastest that is there)"

_NARROW = frozenset({"mps"})  # devices without float64
_AT_HOME = (
    "{} knows no float64, so what looks inside the net computes on a copy of it on the CPU; "
    "answers and training stay where it is"
)


def find_device(name: str | torch.device) -> torch.device:
    """The device of that name, if this machine has it; else a sentence.

    "auto" is a CUDA card where there is one, else MPS, else the CPU.
    """
    if name == "auto":
        first = "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device("cuda" if torch.cuda.is_available() else first)
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise BadInput(f"device '{name}' is not known; use {NAMES}") from None
    if device.type not in ("cpu", "cuda", "mps"):
        raise BadInput(f"device '{name}' is not supported; use {NAMES}")
    there = {
        "cpu": 1,
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
    }[device.type]
    if not there:
        raise BadInput(f"device '{name}' is not available on this machine; use `device` = cpu")
    if device.index is not None and device.index >= there:
        last = f"{device.type}:{there - 1}"
        raise BadInput(f"device '{name}' is not there, the last one is {last}; use that or auto")
    return device


def placed(module: Any, device: str | torch.device | None) -> Any:
    """The module on that device: itself if it is there already (or None is given), else a copy.

    What is no module, such as a fitted classifier or no model at all, has one place and stays.
    """
    if device is None:
        return module
    target = find_device(device)
    if not isinstance(module, nn.Module):
        return module
    if all(one.device == _settled(target) for one in (*module.parameters(), *module.buffers())):
        return module
    return copy.deepcopy(module).to(target)


def with_float64(module: nn.Module) -> nn.Module:
    """The module where float64 is known: itself, or, of a net on MPS, a copy on the CPU, and a
    remark that says so. Norms, spectra, Jacobians and the trace's own proof need float64.
    """
    tensors = (*module.parameters(), *module.buffers())
    narrow = {one.device.type for one in tensors} & _NARROW
    if not narrow:
        return module
    remark(_AT_HOME.format(min(narrow).upper()))
    return copy.deepcopy(module).to("cpu")


def _settled(device: torch.device) -> torch.device:
    """With its number: "cuda" is the current card."""
    if str(device) == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("mps", 0) if device.type == "mps" else device
