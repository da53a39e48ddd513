"""How operations are read from a module: rules for torch's modules, functions and methods.

A rule gets the arguments of the call, with a `Feature` for each tensor that depends on the net's
input, and returns the `Step` that the net takes. One that reads a module gets the module's
attributes under the names of its own parameters: `nn.Conv2d` has a `stride`, and so has F.conv2d.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn.utils import parametrize

from cushion.nets.operations.operation import Operation, Shape

# what a forward sees as its batch size while its shapes are followed: a prime that no layer has
BATCH = 7919

# Which rule reads which module, function or method of torch.
MODULES: dict[type, Callable[..., Result]] = {}
FUNCTIONS: dict[Any, Callable[..., Result]] = {}
METHODS: dict[str, Callable[..., Result]] = {}

Rule = TypeVar("Rule", bound="Callable[..., Result]")


def traces(*calls: Any) -> Callable[[Rule], Rule]:
    """Registers a rule for classes of modules, functions, and methods by their names."""

    def register(rule: Rule) -> Rule:
        for call in calls:
            if isinstance(call, type):
                MODULES[call] = rule
            else:
                (METHODS if isinstance(call, str) else FUNCTIONS)[call] = rule
        return rule

    return register


def options_of(module: nn.Module) -> dict[str, Any]:
    """What the rule for a module reads from it."""
    names = list(inspect.signature(MODULES[plain_type(module)]).parameters)[1:]
    return {name: getattr(module, name) for name in names if hasattr(module, name)}


def plain_type(module: nn.Module) -> type[nn.Module]:
    """The module's class; of a parametrized one (weight_norm, ...) the class it was before."""
    return type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module)


class Refused(Exception):
    """This use of an operation is not understood; the assembly adds where it stands."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix


@dataclass(frozen=True, eq=False)
class Feature:
    """A batch of feature maps on its way through the net: the output of draft `index`."""

    index: int
    shape: Shape | None  # of one example; None where it is not known
    known: bool = True  # False after an operation that is not understood


@dataclass(frozen=True, eq=False)
class Step:
    """One operation to add: `build` makes it from the input shapes."""

    role: str
    inputs: tuple[Feature, ...]
    build: Callable[..., Operation]
    # a second operation that reads this one's output; its own `inputs` are empty
    then: Step | None = None
    in_place: bool = False  # whether later readers of the first input see the result instead


Result = Feature | Step  # a rule returns its input itself for an operation that changes nothing


def pair(value: Any) -> tuple[int, int]:
    """torch's int-or-pair options as a pair (vertical, horizontal)."""
    numbers = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
    if len(numbers) not in (1, 2):
        reason = f"its option {numbers} does not describe two dimensions"
        raise Refused(reason, "use two-dimensional layers")
    return numbers[0], numbers[-1]


def feature(x: Any) -> Feature:
    """The operand, if it depends on the net's input."""
    if not isinstance(x, Feature):
        fix = "fold the constant into the layer before it, or into the data"
        raise Refused("it combines a feature map with a constant", fix)
    return x


def tensor(value: Any) -> Tensor:
    """A weight: fixed numbers, not something computed from the input."""
    if not isinstance(value, Tensor):
        raise Refused("its weights are computed from the input", "use layers with fixed weights")
    return value
