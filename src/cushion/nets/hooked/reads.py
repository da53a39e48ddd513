"""What a pass reads, below autograd: whose results each number depends on, also where gradients do
not flow; and which numbers come neither from the data nor from where they should.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_NOTHING: frozenset[int] = frozenset()
_DETACH = (Tensor.detach, Tensor.detach_, torch.detach)


class Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches the passes that run inside it.

    own: tensors that a pass may read: the data, and a module's numbers. `foreign` are all others
    that no operation of the pass made. A Python number, or one made into a tensor where it is used,
    is a part of the code.
    Marks, such as "made by layer 3", pass on to whatever is computed from a marked tensor, through
    views and writes in place too.
    """

    def __init__(self, own: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._kept: list[Tensor] = list(own)  # alive, so that no other tensor gets their identity
        self._known = {id(one) for one in self._kept}
        self._marks: dict[int, frozenset[int]] = {}
        self.foreign: list[Tensor] = []
        self.paused = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        if self.paused:
            return found
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        written = func is torch.ops.aten.lift_fresh.default and given[0].numel() == 1
        for one in given:
            if id(one) not in self._known and not written:
                self.foreign.append(one)
            self._keep(one)
        marks = _NOTHING.union(*map(self.marks, given))
        for one in tree_leaves(found):
            if isinstance(one, Tensor):
                self._keep(one)
                self._add(one, marks)
        return found

    def marks(self, value: Any) -> frozenset[int]:
        """What the tensors in `value` depend on."""
        tensors = [one for one in tree_leaves(value) if isinstance(one, Tensor)]
        return _NOTHING.union(*(self._marks.get(_memory(one), _NOTHING) for one in tensors))

    def mark(self, value: Any, number: int) -> None:
        """Say of the tensors in `value` that they carry this mark."""
        for one in tree_leaves(value):
            if isinstance(one, Tensor):
                self._add(one, frozenset({number}))

    def _add(self, one: Tensor, marks: frozenset[int]) -> None:
        if marks:
            self._marks[_memory(one)] = self._marks.get(_memory(one), _NOTHING) | marks

    def _keep(self, one: Tensor) -> None:
        if id(one) not in self._known:
            self._known.add(id(one))
            self._kept.append(one)


class Detaching(TorchFunctionMode):
    """Whether the passes inside it cut a result off from its gradient, with `detach`."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False
        self.paused = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _DETACH and not self.paused:
            self.found |= bool(args[0].requires_grad)
        return func(*args, **(kwargs or {}))


def _memory(one: Tensor) -> int:
    """The memory that a tensor lies in, which its views share."""
    try:
        return one.untyped_storage().data_ptr() or id(one)
    except (NotImplementedError, RuntimeError):  # sparse, or inside a transform such as vmap
        return id(one)
