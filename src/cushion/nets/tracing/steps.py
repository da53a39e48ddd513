"""What a rule makes: a step of the net, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from cushion.nets.network import Op, Shape

# what a forward sees as its batch size while its shapes are followed: a prime that no layer has
BATCH = 7919


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
    """One operation to add: `build` turns the input shapes into the operation and its output
    shape.
    """

    role: str
    inputs: tuple[Feature, ...]
    build: Callable[..., tuple[Op, Shape]]
    then: Step | None = (
        None  # a second operation that reads this one's output; its own `inputs` are empty
    )


Result = Feature | Step  # a rule returns its input itself for an operation that changes nothing


def pair(value: Any) -> tuple[int, int]:
    """torch's int-or-pair options as a pair (vertical, horizontal)."""
    if isinstance(value, int):
        return value, value
    numbers = tuple(int(v) for v in value)
    if len(numbers) == 1:
        return numbers[0], numbers[0]
    if len(numbers) != 2:
        raise Refused(
            f"its option {numbers} does not describe two dimensions", "use two-dimensional layers"
        )
    return numbers[0], numbers[1]


def feature(x: Any) -> Feature:
    """The operand, if it depends on the net's input."""
    if not isinstance(x, Feature):
        raise Refused(
            "it combines a feature map with a constant",
            "fold the constant into the layer before it, or into the data",
        )
    return x


def tensor(value: Any) -> Tensor:
    """A weight: fixed numbers, not something computed from the input."""
    if not isinstance(value, Tensor):
        raise Refused("its weights are computed from the input", "use layers with fixed weights")
    return value
