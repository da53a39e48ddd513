"""The layers a spec is made of and the shapes that pass through them; no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Literal, NoReturn, TypeAlias

from cushion.errors import BadInput

Shape: TypeAlias = tuple[int, ...]
Initialisation: TypeAlias = Literal["he", "torch", "centred"]  # what they are: models.build

MAX_PARAMETERS = 10**9
MAX_FEATURES = 10**9

WEIGHTED = ("conv", "fc")
# kind -> the letters of its options, in order; the others (bn, relu, flatten, gap, drop) have none
OPTIONS = {"conv": "kspgd", "fc": "", "maxpool": "sp", "avgpool": "sp"}
FIELDS = {"k": "kernel", "s": "stride", "p": "padding", "g": "groups", "d": "dilation"}


@dataclass(frozen=True)
class Token:
    """`position`: where it stands in its text; specs are equal wherever their tokens stood."""

    position: int = field(default=0, compare=False, repr=False, kw_only=True)

    def refuse(self, reason: str) -> NoReturn:
        """Raise the one sentence about a token: what it is, where it stands, what is wrong."""
        raise BadInput(f"spec token '{self}' at position {self.position} {reason}")

    def check_size(self, after: Shape) -> None:
        """Nested cats double it each time."""
        if prod(after) > MAX_FEATURES:
            size = write_shape(after)
            self.refuse(f"makes a feature map of {size} numbers; use a smaller net or input")


@dataclass(frozen=True)
class Layer(Token):
    """All but brackets; weight [size, in / groups, kernel, kernel] of a conv, [size, in] of an fc.

    Padding of an average pool counts as zeros; dropout is the identity in evaluation mode.
    """

    kind: str
    size: int = 1  # channels of a conv, outputs of an fc, window of a pool
    kernel: int = 3
    stride: int = 1
    padding: int = 0
    groups: int = 1
    dilation: int = 1
    bias: bool = True
    probability: float = 0.0  # of dropout

    @property
    def weighted(self) -> bool:
        return self.kind in WEIGHTED

    def __str__(self) -> str:
        if self.kind == "drop":
            return f"drop{self.probability:.9f}".rstrip("0").rstrip(".")
        if self.kind not in OPTIONS:
            return self.kind
        usual = {"k": None, "s": 1 if self.weighted else self.size, "p": 0}
        given = ((letter, getattr(self, FIELDS[letter])) for letter in OPTIONS[self.kind])
        shown = "".join(f"{letter}{n}" for letter, n in given if n != usual.get(letter, 1))
        return f"{self.kind}{self.size}{shown}{'' if self.bias else 'nobias'}"

    def after(self, shape: Shape) -> Shape:
        """The shape that it makes of `shape`, or one sentence if it cannot read that."""
        gets, sides = write_shape(shape), len(shape)
        if self.kind == "fc" and sides != 1:
            self.refuse(f"reads a vector but gets {gets}; put flatten before it")
        if self.kind == "bn" and sides not in (1, 3):
            self.refuse(f"reads a vector or channels x height x width but gets {gets}")
        if self.kind in ("conv", "maxpool", "avgpool", "gap") and sides != 3:
            self.refuse(f"reads channels x height x width but gets {gets}")
        match self.kind:
            case "fc":
                return (self.size,)
            case "flatten":
                return (prod(shape),)
            case "gap":
                return (shape[0], 1, 1)
            case "maxpool" | "avgpool":
                return (shape[0], *self._slide(shape[1:], self.size))
            case "conv":
                if shape[0] % self.groups or self.size % self.groups:
                    rule = f"must divide its {shape[0]} input channels and itself"
                    self.refuse(f"has {self.groups} groups, which {rule}")
                reach = self.dilation * (self.kernel - 1) + 1
                return (self.size, *self._slide(shape[1:], reach))
        return shape

    def _slide(self, sides: Shape, reach: int) -> Iterator[int]:
        for side in sides:
            if side + 2 * self.padding < reach:
                gets = write_shape(sides)
                gets += f" with padding {self.padding}" if self.padding else ""
                reason = "the net is too deep for such small images"
                self.refuse(f"needs at least {reach}x{reach} but gets {gets}; {reason}")
            yield (side + 2 * self.padding - reach) // self.stride + 1

    def parameters(self, shape: Shape) -> int:
        """Trainable numbers of the layer when it reads `shape`."""
        if self.kind == "bn":
            return 2 * shape[0]
        taps = shape[0] // self.groups * self.kernel**2 if self.kind == "conv" else shape[0]
        return self.size * (taps + self.bias) if self.weighted else 0


@dataclass(frozen=True)
class Repeat(Token):
    """`body` `count` times, with fresh weights each time."""

    count: int
    body: tuple[Item, ...]

    def __str__(self) -> str:
        return f"{self.count}*[{write(self.body)}]"


@dataclass(frozen=True)
class Join(Token):
    """Parallel branches from one input, added, or concatenated along the channels."""

    kind: Literal["add", "cat"]
    branches: tuple[tuple[Item, ...], ...]

    def __str__(self) -> str:
        return f"{self.kind}[{' | '.join(map(write, self.branches))}]"

    def after(self, shapes: list[Shape]) -> Shape:
        """The shape of the joined branches."""
        listed = " and ".join(write_shape(shape) for shape in dict.fromkeys(shapes))
        if self.kind == "add":
            if len(set(shapes)) > 1:
                self.refuse(f"adds branches of shapes {listed}; make them equal")
            return shapes[0]
        if len({shape[1:] for shape in shapes}) > 1:
            rule = "only the first number may differ"
            self.refuse(f"concatenates branches of shapes {listed}; {rule}")
        after = (sum(shape[0] for shape in shapes), *shapes[0][1:])
        self.check_size(after)
        return after


Item: TypeAlias = Layer | Repeat | Join


@dataclass(frozen=True)
class Spec:
    """A net: the shape of one example and the items it passes."""

    input_shape: Shape
    items: tuple[Item, ...]

    def __str__(self) -> str:
        return f"{write_shape(self.input_shape)}: {write(self.items)}"

    def check(self) -> Shape:
        """The output shape, (classes,); a misfit is one BadInput naming token and position."""
        weights = 0

        def count(layer: Layer, before: Shape, after: Shape) -> None:
            nonlocal weights
            weights += layer.parameters(before)
            if weights > MAX_PARAMETERS:
                most = f"{MAX_PARAMETERS:,} parameters"
                layer.refuse(f"brings the net past {most}; use smaller widths")
            layer.check_size(after)

        if prod(self.input_shape) > MAX_FEATURES:
            size = write_shape(self.input_shape)
            raise BadInput(f"spec input shape {size} is absurdly large; use a smaller one")
        shape = walk(self.items, self.input_shape, count)
        if not weights:
            raise weightless(str(self))
        if len(shape) != 1 or shape[0] < 2:
            rule = "but a classifier ends in a vector of 2 or more scores"
            self.items[-1].refuse(f"leaves {write_shape(shape)}, {rule}")
        return shape

    @property
    def classes(self) -> int:
        return self.check()[0]


def write(items: tuple[Item, ...]) -> str:
    """Items as canonical text."""
    return " ".join(map(str, items))


def write_shape(shape: Shape) -> str:
    """(3, 32, 32) as 3x32x32."""
    return "x".join(map(str, shape))


def weightless(text: str) -> BadInput:
    """The sentence about a net in which nothing can be learnt."""
    return BadInput(f"spec '{text}' has no layer with weights; it needs at least one conv or fc")


def unrolled(items: tuple[Item, ...]) -> Iterator[Layer | Join]:
    """The items with repetitions written out."""
    for item in items:
        if isinstance(item, Repeat):
            for _ in range(item.count):
                yield from unrolled(item.body)
        else:
            yield item


def walk(
    items: tuple[Item, ...],
    shape: Shape,
    visit: Callable[[Layer, Shape, Shape], None] = lambda *_: None,
) -> Shape:
    """Visit every layer in order, unrolled, with the shapes around it; return the last shape."""
    for item in unrolled(items):
        if isinstance(item, Join):
            shape = item.after([walk(branch, shape, visit) for branch in item.branches])
        else:
            before, shape = shape, item.after(shape)
            visit(item, before, shape)
    return shape
