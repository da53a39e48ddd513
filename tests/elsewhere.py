"""A second device for tests on the CPU: tensors that say they are on "meta" but hold numbers.

As with a card, an operation on tensors of two places is refused (single numbers may be mixed in),
numpy cannot see them, and only `.to` or `.cpu` brings them back. Factories that are asked for the
device make such tensors; those that are not make tensors of the CPU, and mixing tells on them.
With `narrow` its numbers cannot become float64 there, as on MPS. (Tracing follows shapes with empty
float64 tensors on the real "meta", so what is float64 from the beginning may be.)
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

PLACE = torch.device("meta")
_WIDE = (torch.float64, torch.complex128)
_narrow = False


class ElsewhereTensor(Tensor):
    """What it holds is a tensor of the CPU."""

    inner: Tensor
    is_meta = False  # it has values

    @staticmethod
    def __new__(cls, inner: Tensor) -> ElsewhereTensor:
        made: ElsewhereTensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=PLACE,
            requires_grad=False,
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class Elsewhere(TorchDispatchMode):
    """While it is on, "meta" is that device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


@contextmanager
def narrow() -> Iterator[None]:
    """Inside, that device knows no float64."""
    global _narrow
    _narrow = True
    try:
        yield
    finally:
        _narrow = False


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func._schema.name
    indexing = name in ("aten::index", "aten::index_put_")  # the indices may be on the CPU
    seen: list[Tensor] = []
    checked = (args[0], args[2:]) if indexing else (args, kwargs)
    tree_map_only(Tensor, lambda t: seen.append(t), checked)
    away = any(isinstance(t, ElsewhereTensor) for t in seen)
    home = any(not isinstance(t, ElsewhereTensor) and t.ndim for t in seen)
    if away and home and name not in ("aten::_to_copy", "aten::copy_"):
        raise RuntimeError(f"{name}: tensors on {PLACE} and on the CPU")
    inside = tree_map_only(ElsewhereTensor, lambda t: t.inner, (args, kwargs))
    asked = kwargs.get("device")
    if asked is not None:
        inside[1]["device"] = torch.device("cpu")
    found = func(*inside[0], **inside[1])
    if name.endswith("_") and args and isinstance(args[0], Tensor):
        return args[0]
    there = away if asked is None else torch.device(asked) == PLACE
    if _narrow and there:
        floats = [t for t in seen if isinstance(t, ElsewhereTensor) and t.is_floating_point()]
        made: list[Tensor] = [t for t in floats if t.dtype in _WIDE]
        tree_map_only(Tensor, lambda t: made.append(t) if t.dtype in _WIDE else None, found)
        if made and any(t.dtype not in _WIDE for t in floats):
            raise TypeError(f"{name}: {PLACE} does not support {made[0].dtype}")
    return tree_map_only(Tensor, ElsewhereTensor, found) if there else found


def moved(module: nn.Module) -> nn.Module:
    """A copy of the module elsewhere."""
    there = copy.deepcopy(module)
    for part in there.modules():
        for name, one in part._parameters.items():
            if one is not None:
                part._parameters[name] = nn.Parameter(ElsewhereTensor(one.detach().clone()))
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = ElsewhereTensor(buffer.detach().clone())
    return there
