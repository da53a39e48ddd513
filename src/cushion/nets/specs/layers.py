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


def _position() -> int:
    # Where the token stands in its text; two specs are equal wherever their tokens stood.
    return field(default=0, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Conv:
    """`channels` filters of kernel x kernel; weight [channels, in / groups, kernel, kernel]."""

    channels: int
    kernel: int = 3
    stride: int = 1
    padding: int = 0
    groups: int = 1
    dilation: int = 1
    bias: bool = True
    position: int = _position()

    def __str__(self) -> str:
        options = (
            ("s", self.stride, 1),
            ("p", self.padding, 0),
            ("g", self.groups, 1),
            ("d", self.dilation, 1),
        )
        shown = "".join(
            f"{letter}{value}" for letter, value, default in options if value != default
        )
        return f"conv{self.channels}k{self.kernel}{shown}{'' if self.bias else 'nobias'}"


@dataclass(frozen=True)
class Dense:
    """A fully connected layer; weight [width, in]."""

    width: int
    bias: bool = True
    position: int = _position()

    def __str__(self) -> str:
        return f"fc{self.width}{'' if self.bias else 'nobias'}"


@dataclass(frozen=True)
class Pool:
    """Pooling over window x window; padding of an average counts as zeros."""

    kind: Literal["max", "avg"]
    window: int
    stride: int
    padding: int = 0
    position: int = _position()

    def __str__(self) -> str:
        stride = f"s{self.stride}" if self.stride != self.window else ""
        return f"{self.kind}pool{self.window}{stride}{f'p{self.padding}' if self.padding else ''}"


@dataclass(frozen=True)
class Dropout:
    """Dropout; the identity in evaluation mode."""

    probability: float
    position: int = _position()

    def __str__(self) -> str:
        decimals = f"{self.probability:.9f}".rstrip("0").rstrip(".")
        return f"drop{decimals}"


@dataclass(frozen=True)
class Plain:
    """A layer without options."""

    kind: Literal["bn", "relu", "flatten", "gap"]
    position: int = _position()

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True)
class Repeat:
    """`body` `count` times, with fresh weights each time."""

    count: int
    body: tuple[Item, ...]
    position: int = _position()

    def __str__(self) -> str:
        return f"{self.count}*[{write(self.body)}]"


@dataclass(frozen=True)
class Join:
    """Parallel branches from one input, added, or concatenated along the channels."""

    kind: Literal["add", "cat"]
    branches: tuple[tuple[Item, ...], ...]
    position: int = _position()

    def __str__(self) -> str:
        return f"{self.kind}[{' | '.join(write(branch) for branch in self.branches)}]"


Layer: TypeAlias = Conv | Dense | Pool | Dropout | Plain
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
            weights += count_parameters(layer, before)
            if weights > MAX_PARAMETERS:
                refuse(
                    layer, f"brings the net past {MAX_PARAMETERS:,} parameters; use smaller widths"
                )
            if prod(after) > MAX_FEATURES:
                refuse(
                    layer,
                    f"makes a feature map of {write_shape(after)} numbers; use a smaller net or "
                    "input",
                )

        if prod(self.input_shape) > MAX_FEATURES:
            raise BadInput(
                f"spec input shape {write_shape(self.input_shape)} is absurdly large; use a "
                "smaller one"
            )
        shape = walk(self.items, self.input_shape, count)
        if not weights:
            raise BadInput(
                f"spec '{self}' has no layer with weights; it needs at least one conv or fc"
            )
        if len(shape) != 1 or shape[0] < 2:
            refuse(
                self.items[-1],
                f"leaves {write_shape(shape)}, but a classifier ends in a vector of 2 or more "
                "scores",
            )
        return shape

    @property
    def classes(self) -> int:
        """How many scores the net gives."""
        return self.check()[0]


def write(items: tuple[Item, ...]) -> str:
    """Items as canonical text."""
    return " ".join(str(item) for item in items)


def write_shape(shape: Shape) -> str:
    """(3, 32, 32) as 3x32x32."""
    return "x".join(map(str, shape))


def refuse(item: Item, reason: str) -> NoReturn:
    """Raise the one sentence about a token: what it is, where it stands, and what is wrong."""
    raise BadInput(f"spec token '{item}' at position {item.position} {reason}")


def count_parameters(layer: Layer, shape: Shape) -> int:
    """Trainable numbers of a layer that reads `shape`."""
    match layer:
        case Conv():
            return layer.channels * (shape[0] // layer.groups * layer.kernel**2 + layer.bias)
        case Dense():
            return layer.width * (shape[0] + layer.bias)
        case Plain(kind="bn"):
            return 2 * shape[0]
    return 0


def walk(
    items: tuple[Item, ...], shape: Shape, visit: Callable[[Layer, Shape, Shape], None]
) -> Shape:
    """Visit every layer in order, unrolled, with the shapes around it; return the last shape."""
    for item in items:
        match item:
            case Repeat():
                for _ in range(item.count):
                    shape = walk(item.body, shape, visit)
            case Join():
                shape = join_shapes(item, [walk(branch, shape, visit) for branch in item.branches])
            case _:
                after = _after(item, shape)
                visit(item, shape, after)
                shape = after
    return shape


def join_shapes(join: Join, shapes: list[Shape]) -> Shape:
    """The shape of joined branches, refused past MAX_FEATURES: nested cats double it each time."""
    listed = " and ".join(write_shape(shape) for shape in dict.fromkeys(shapes))
    if join.kind == "add":
        if len(set(shapes)) > 1:
            refuse(join, f"adds branches of shapes {listed}; make them equal")
        return shapes[0]
    if len({shape[1:] for shape in shapes}) > 1:
        refuse(join, f"concatenates branches of shapes {listed}; only the first number may differ")
    after = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    if prod(after) > MAX_FEATURES:
        refuse(
            join, f"makes a feature map of {write_shape(after)} numbers; use a smaller net or input"
        )
    return after


def _after(layer: Layer, shape: Shape) -> Shape:
    match layer:
        case Plain(kind="relu") | Dropout():
            return shape
        case Plain(kind="flatten"):
            return (prod(shape),)
        case Dense():
            if len(shape) != 1:
                refuse(
                    layer, f"reads a vector but gets {write_shape(shape)}; put flatten before it"
                )
            return (layer.width,)
        case Plain(kind="bn"):
            if len(shape) not in (1, 3):
                refuse(
                    layer,
                    f"reads a vector or channels x height x width but gets {write_shape(shape)}",
                )
            return shape
    if len(shape) != 3:
        refuse(layer, f"reads channels x height x width but gets {write_shape(shape)}")
    channels, *sides = shape
    match layer:
        case Conv():
            if channels % layer.groups or layer.channels % layer.groups:
                refuse(
                    layer,
                    f"has {layer.groups} groups, which must divide its {channels} input channels "
                    "and itself",
                )
            reach = layer.dilation * (layer.kernel - 1) + 1
            return (layer.channels, *_slide(layer, sides, reach, layer.stride, layer.padding))
        case Pool():
            return (channels, *_slide(layer, sides, layer.window, layer.stride, layer.padding))
    return (channels, 1, 1)  # gap


def _slide(
    layer: Conv | Pool, sides: list[int], reach: int, stride: int, padding: int
) -> Iterator[int]:
    for side in sides:
        if side + 2 * padding < reach:
            refuse(
                layer,
                f"needs at least {reach}x{reach} but gets "
                f"{write_shape(tuple(sides))}{f' with padding {padding}' if padding else ''}; the "
                "net is too deep for such small images",
            )
        yield (side + 2 * padding - reach) // stride + 1
