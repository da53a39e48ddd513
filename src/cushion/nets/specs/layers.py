"""The layers a spec is made of and the shapes that pass through them; no torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from math import prod
from typing import Literal, NoReturn, TypeAlias

from cushion.errors import BadInput

Shape: TypeAlias = tuple[int, ...]
Initialisation: TypeAlias = Literal["he", "torch", "centred"]  # what they are: models.build

MAX_PARAMETERS = 10**9
MAX_FEATURES = 10**9


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


class Layer(Token):
    @abstractmethod
    def after(self, shape: Shape) -> Shape:
        """The shape that it makes of `shape`, or one sentence if it cannot read that."""

    def parameters(self, shape: Shape) -> int:  # noqa: ARG002
        """Trainable numbers of the layer when it reads `shape`."""
        return 0

    @property
    def name(self) -> str:
        """The letters that the token begins with: conv, maxpool, ..."""
        return "".join(takewhile(str.isalpha, str(self)))

    def sides(self, shape: Shape) -> list[int]:
        """Height and width of an image."""
        if len(shape) != 3:
            self.refuse(f"reads channels x height x width but gets {write_shape(shape)}")
        return list(shape[1:])


@dataclass(frozen=True)
class Conv(Layer):
    """`channels` filters of kernel x kernel; weight [channels, in / groups, kernel, kernel]."""

    channels: int
    kernel: int = 3
    stride: int = 1
    padding: int = 0
    groups: int = 1
    dilation: int = 1
    bias: bool = True

    def __str__(self) -> str:
        values = (self.stride, self.padding, self.groups, self.dilation)
        options = zip("spgd", values, (1, 0, 1, 1), strict=True)
        shown = "".join(f"{name}{value}" for name, value, default in options if value != default)
        return f"conv{self.channels}k{self.kernel}{shown}{'' if self.bias else 'nobias'}"

    def after(self, shape: Shape) -> Shape:
        sides, groups = self.sides(shape), self.groups
        if shape[0] % groups or self.channels % groups:
            rule = f"must divide its {shape[0]} input channels and itself"
            self.refuse(f"has {groups} groups, which {rule}")
        return (self.channels, *_slide(self, sides, self.dilation * (self.kernel - 1) + 1))

    def parameters(self, shape: Shape) -> int:
        return self.channels * (shape[0] // self.groups * self.kernel**2 + self.bias)


@dataclass(frozen=True)
class Dense(Layer):
    """A fully connected layer; weight [width, in]."""

    width: int
    bias: bool = True

    def __str__(self) -> str:
        return f"fc{self.width}{'' if self.bias else 'nobias'}"

    def after(self, shape: Shape) -> Shape:
        if len(shape) != 1:
            self.refuse(f"reads a vector but gets {write_shape(shape)}; put flatten before it")
        return (self.width,)

    def parameters(self, shape: Shape) -> int:
        return self.width * (shape[0] + self.bias)


@dataclass(frozen=True)
class Pool(Layer):
    """Pooling over window x window; padding of an average counts as zeros."""

    kind: Literal["max", "avg"]
    window: int
    stride: int
    padding: int = 0

    def __str__(self) -> str:
        stride = f"s{self.stride}" if self.stride != self.window else ""
        return f"{self.kind}pool{self.window}{stride}{f'p{self.padding}' if self.padding else ''}"

    def after(self, shape: Shape) -> Shape:
        return (shape[0], *_slide(self, self.sides(shape), self.window))


@dataclass(frozen=True)
class Dropout(Layer):
    """Dropout; the identity in evaluation mode."""

    probability: float

    def __str__(self) -> str:
        decimals = f"{self.probability:.9f}".rstrip("0").rstrip(".")
        return f"drop{decimals}"

    def after(self, shape: Shape) -> Shape:
        return shape


@dataclass(frozen=True)
class Plain(Layer):
    """A layer without options."""

    kind: Literal["bn", "relu", "flatten", "gap"]

    def __str__(self) -> str:
        return self.kind

    def after(self, shape: Shape) -> Shape:
        if self.kind == "gap":
            self.sides(shape)
            return (shape[0], 1, 1)
        if self.kind == "bn" and len(shape) not in (1, 3):
            gets = write_shape(shape)
            self.refuse(f"reads a vector or channels x height x width but gets {gets}")
        return (prod(shape),) if self.kind == "flatten" else shape

    def parameters(self, shape: Shape) -> int:
        return 2 * shape[0] if self.kind == "bn" else 0


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


def _slide(layer: Conv | Pool, sides: list[int], reach: int) -> Iterator[int]:
    for side in sides:
        if side + 2 * layer.padding < reach:
            gets = "x".join(map(str, sides))
            gets += f" with padding {layer.padding}" if layer.padding else ""
            reason = "the net is too deep for such small images"
            layer.refuse(f"needs at least {reach}x{reach} but gets {gets}; {reason}")
        yield (side + 2 * layer.padding - reach) // layer.stride + 1
