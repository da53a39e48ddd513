"""Nets in other libraries' files: what is read, what needs trust, what is never opened and why."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cushion.errors import BadInput
from cushion.nets.loading.programs import plain_module
from cushion.nets.loading.refusals import check_exists, factory_for, refusing
from cushion.nets.loading.states import read_checkpoint
from cushion.nets.onnx_net import OnnxNet

WEIGHTS = (".pt", ".pth", ".bin", ".ckpt")  # state dicts; a TorchScript program has these names too
_SCRIPTS = (".ts", ".jit", ".torchscript")
_PICKLES = (".pkl", ".pickle", ".joblib", ".skops")
_OTHERS = (".h5", ".keras", ".tflite", ".pb", ".mlmodel")
PROGRAMS = (".pt2", *_SCRIPTS, *WEIGHTS)  # what `trust` may be about


def load_foreign(path: Path, trust: bool) -> nn.Module | None:
    """The net in a file of torch or onnx; BadInput for what is no net; None: not such a file."""
    kind = path.suffix.lower()
    if kind in _PICKLES:
        said = f"{path} is a pickle, which may run code when it is read, so it is never read here"
        way = "pass the fitted object itself in Python, or write a file.py whose function loads it"
        raise BadInput(f"{said}; {way}, and give file.py:function")
    if kind in _OTHERS:
        raise BadInput(f"{path} is a net of another library; export it to .onnx and give that")
    if kind not in (".onnx", *PROGRAMS):
        return None
    check_exists(path, "the net's file")
    if kind == ".onnx":
        return OnnxNet(path)
    if kind == ".pt2":
        _check_trust(path, "a torch.export program", trust)
        with refusing(f"{path} is not a torch.export program:"):
            program = torch.export.load(path)
        return plain_module(program)
    if kind in _SCRIPTS or is_script(path):
        _check_trust(path, "a TorchScript program", trust)
        with refusing(f"{path} is not a TorchScript program:"):
            load: Any = torch.jit.load
            script: nn.Module = load(path, map_location="cpu")
        return script.eval()
    try:
        read_checkpoint(path)
    except BadInput as problem:  # not even weights; most often a whole net, pickled
        raise BadInput(f"{problem}, and {factory_for(path)}") from None
    raise BadInput(f"{path} holds weights without a net; {factory_for(path)}")


def refuse_program(path: Path) -> None:
    """BadInput where `weights` is not a state dict but a whole net in a file."""
    kind = path.suffix.lower()
    if kind in WEIGHTS:
        check_exists(path, "the file of weights")
    if kind in (".onnx", ".pt2", *_SCRIPTS) or (kind in WEIGHTS and is_script(path)):
        trust = "" if kind == ".onnx" else ", and with `trust`"
        said = f"{path} is a whole net and no state dict"
        raise BadInput(f"{said}; give it as NET, without `weights`{trust}")


def is_script(path: Path) -> bool:
    """Whether torch.jit.save wrote the file: an archive with code in it. Nothing of it runs."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return False
    return any(name.endswith("/constants.pkl") for name in names)


def _check_trust(path: Path, kind: str, trust: bool) -> None:
    if not trust:
        said = f"{path} is {kind}, whose loading can run code from it"
        raise BadInput(f"{said}; add `trust` if you trust it")
