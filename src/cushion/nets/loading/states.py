"""Weights for a net: a state dict, or a checkpoint that holds one, under the net's own names.

Nothing in a file is run: `.pt` and `.ckpt` files go through torch's restricted unpickler.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cushion.errors import BadInput
from cushion.nets.loading.refusals import check_exists

# where training scripts keep the weights in a checkpoint, in the order in which they are looked for
_KEYS = ("state_dict", "model_state_dict", "model", "net", "module", "weights", "params")
# what wrappers put before every name: DataParallel, LightningModule, torch.compile
_PREFIXES = ("module.", "model.", "_orig_mod.", "net.")
_DEEPEST = 3
_FOREIGN = re.compile(r"GLOBAL ([\w.]{1,80}) was not an allowed global")


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """The state dict in a `.pt`, `.pth`, `.bin` or `.ckpt` file, or BadInput."""
    check_exists(path, "`weights` a .safetensors or .pt file")
    try:
        # torch warns of a pickle's age before it refuses it
        with warnings.catch_warnings(action="ignore"):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch's own message tells the reader to switch the protection off: not repeated here
        foreign = _FOREIGN.search(str(error))
        held = f"it holds {foreign[1]}: a whole net" if foreign else "it is damaged"
        raise BadInput(
            f"{path} is not a plain state dict ({held}, or a pickle with code in it, which is "
            "never run); save it again with torch.save(net.state_dict(), ...)"
        ) from None
    return state_in(content, path)


def state_in(content: Any, path: Path) -> dict[str, Tensor]:
    """The state dict in what a file holds: all of it, or the part that scripts keep it under."""
    for _ in range(_DEEPEST):
        if not isinstance(content, Mapping):
            break
        if content and all(isinstance(one, Tensor) for one in content.values()):
            return {str(name): one for name, one in content.items()}
        inside = {str(key): part for key, part in content.items() if isinstance(part, Mapping)}
        found = next((inside[key] for key in _KEYS if key in inside), None)
        content = content if found is None else found
    fix = "save it with torch.save(net.state_dict(), ...)"
    if isinstance(content, Mapping) and content:
        shown = ", ".join(str(key) for key in list(content)[:6])
        fix = f"it has {shown}; {fix}"
    raise BadInput(f"{path} holds no state dict; {fix}")


def fit_names(tensors: Mapping[str, Tensor], wanted: Collection[str]) -> dict[str, Tensor]:
    """The tensors under the names that the net wants, where a wrapper's prefix is all that differs.

    A prefix is taken off only if every name then fits; names without it are what the wrapper kept
    for itself, such as a loss. Otherwise they come back as they are.
    """
    tried = [dict(tensors)]
    for _ in range(_DEEPEST):
        for one in tried:
            if one.keys() == set(wanted):
                return one
        tried = [shorter for one in tried for p in _PREFIXES if (shorter := _without(one, p))]
    return next((one for one in tried if one.keys() == set(wanted)), dict(tensors))


def _without(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    if prefix == "_orig_mod.":  # a compiled part may stand anywhere
        if not any(prefix in name for name in tensors):
            return {}
        return {name.replace(prefix, ""): tensor for name, tensor in tensors.items()}
    size = len(prefix)
    return {name[size:]: one for name, one in tensors.items() if name.startswith(prefix)}


def fill(module: nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    """Put the tensors into the net, which ends in eval mode; BadInput unless they fit it."""
    fitting = fit_names(tensors, module.state_dict().keys())
    check_keys(module, fitting, source)
    module.load_state_dict(fitting)
    module.eval()


def check_keys(module: nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    """BadInput that names what is missing, unexpected or of another shape."""
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
