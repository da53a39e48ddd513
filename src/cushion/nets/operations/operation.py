"""What every operation of a net knows about itself. One file of this folder holds one operation.

A new operation is a new file with a frozen dataclass below `Operation` and the rules that make it
from torch's modules, functions and methods (`vocabulary.traces`), and one line in `__init__.py`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import torch
from torch import Tensor

from cushion.nets.operators.path_sums import PathSums

Shape: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[int, int]

OPERATIONS: dict[str, type[Operation]] = {}  # by the name that a stored graph gives them


class Operation(ABC):
    """One operation of a net, applied to a batch; a shape is that of one example.

    Its premises are what measures and theorems may rely on; they ask for them by name
    (`Network.require`). All operations are continuous. A subclass is known by its name.
    """

    # f(c x) = c f(x) for c > 0
    homogeneous: ClassVar[bool] = True
    # linear on each of finitely many regions that signs of linear functions tell apart
    piecewise_linear: ClassVar[bool] = True

    # whether each output is its own input or, continuously, 0: units never meet
    unitwise: ClassVar[bool] = False
    linear: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        OPERATIONS[cls.__name__] = cls

    # `**_: Any` lets a subclass name its inputs, as many as it has.
    @abstractmethod
    def __call__(self, *x: Any, **_: Any) -> Tensor:
        """The output for a batch: [B, *shape] for each input -> [B, *output_shape]."""

    def output_shape(self, *shapes: Any, **_: Any) -> Shape:
        """The output's shape; Refused or BadInput where it cannot read such inputs."""
        (shape,) = shapes
        return tuple(shape)

    def path_sums(self, sums: PathSums, shapes: Sequence[Shape], p: float) -> list[PathSums | None]:
        """What each input receives from the output's sums over paths; None where that is zero."""
        if not self.unitwise:
            raise NotImplementedError(f"{type(self).__name__} hands no sums over paths on")
        return [sums]

    def linearise(self, x: Tensor) -> tuple[Tensor, Derivative]:
        """The output for a batch, and the derivative there."""
        return self(x), Unchanging(self, tuple(x.shape[1:]))

    def adjoint(self, t: Tensor, shape: Shape) -> Tensor:
        """The transpose of a linear operation on inputs of this shape: [B, *shape]."""
        raise NotImplementedError(f"{type(self).__name__} has no transpose")

    @property
    def selects(self) -> bool:
        """Whether each output is one of the inputs or 0."""
        return self.unitwise

    @property
    def rectifies(self) -> bool:
        """Whether it is linear, or each output is one of the inputs or 0, as with ReLU."""
        return self.linear or self.selects

    @property
    def contracts(self) -> bool:
        """Whether |f(x)| ≤ |x| number by number and f(c x) = c f(x), c > 0: sums over paths of ∏|w|
        then bound the outputs, and weights may be rescaled from layer to layer.
        """
        return self.homogeneous

    def feeds_one(self, shape: Shape) -> bool:
        """Whether each input number feeds at most one output: the derivative has `pull_energy`."""
        return self.unitwise

    def lipschitz(self, shape: Shape) -> tuple[float, float]:
        """Lipschitz constants in ℓ2 and ℓ∞ on inputs of this shape (of a join: on one branch)."""
        if not self.unitwise:
            raise NotImplementedError(f"no Lipschitz constant of {type(self).__name__} is known")
        return 1.0, 1.0

    def decisions(self, shape: Shape) -> int:
        """How many signs decide what it computes on inputs of this shape: 0 for a linear map."""
        if not self.linear:
            raise NotImplementedError(f"no count of {type(self).__name__}'s decisions is known")
        return 0

    def to(self, dtype: torch.dtype) -> Self:
        """The same operation with numbers of its own, if it has any, in `dtype`."""
        return self

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same operation with its tensors, if it has any, changed."""
        return self

    def describe(self) -> dict[str, Any]:
        """All but the weights, JSON-ready: "op" is the name, the rest what `rebuild` reads."""
        return {"op": type(self).__name__, **dataclasses.asdict(self)}  # type: ignore[call-overload]

    @classmethod
    def rebuild(cls, entry: dict[str, Any], dtype: torch.dtype) -> Operation:
        """From a description, which is not trusted; weights are zeros that take no memory."""
        return cls()


class Join(Operation):
    """An operation on several inputs, and linear in them."""

    linear: ClassVar[bool] = True

    def lipschitz(self, shape: Shape) -> tuple[float, float]:
        return 1.0, 1.0

    @abstractmethod
    def push(self, parts: Sequence[Tensor | None], shapes: Sequence[Shape]) -> Tensor:
        """The join of vectors [P, B, *shape], where None stands for zeros; not all are."""

    @abstractmethod
    def pull(self, t: Tensor, shapes: Sequence[Shape]) -> list[Tensor]:
        """The transpose: a part for each input."""


class Derivative(Protocol):
    """Q, an operation linearised at a batch, on vectors [P, B or 1, *shape] that it may change."""

    def push(self, t: Tensor) -> Tensor:
        """Q t."""

    def pull(self, t: Tensor) -> Tensor:
        """Qᵀ t."""

    def pull_energy(self, t: Tensor) -> Tensor:
        """(Q∘Q)ᵀ t, the columns' squared lengths weighted by t, if the operation `feeds_one`."""


class Masked:
    """Some units pass, the others are 0. The mask has the vectors' dtype: no conversions."""

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def push(self, t: Tensor) -> Tensor:
        # In place where vectors are not shared: an allocation costs several times the product.
        return t.mul_(self.mask) if t.shape[1] == len(self.mask) else t * self.mask

    pull = push
    pull_energy = push


class Scaled(Masked):
    """Every unit is multiplied by its own slope."""

    def pull_energy(self, t: Tensor) -> Tensor:
        return t * self.mask.square()


class Unchanging:
    """The derivative of a linear operation: itself."""

    def __init__(self, op: Operation, shape: Shape) -> None:
        self.op, self.shape = op, shape

    def push(self, t: Tensor) -> Tensor:
        return each(self.op, t)

    def pull(self, t: Tensor) -> Tensor:
        return each(lambda y: self.op.adjoint(y, self.shape), t)

    def pull_energy(self, t: Tensor) -> Tensor:
        """Each input feeds one output, with the weight that a one there pulls back."""
        return self.pull(t) * self.pull(torch.ones_like(t))


def each(apply: Callable[[Tensor], Tensor], t: Tensor) -> Tensor:
    """A batched map on [P, B, ...]."""
    out = apply(t.flatten(0, 1))
    return out.view(*t.shape[:2], *out.shape[1:])
