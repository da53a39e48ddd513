"""What a stored net is in a certificate: its layers as the format knows them (or one sentence about
why they are none), and a layer's integers as a source of exact weights with their scale.

The format has a ReLU behind every layer but the last, which is dense; square windows side by side
for pooling; square kernels with equal strides and paddings for convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from cushion.certificates.format.arithmetic import bias_length, grid_length
from cushion.certificates.format.layers import Conv, Dense, Pool
from cushion.certificates.format.sources import Grid, Integers, Source, Values
from cushion.errors import Unsupported
from cushion.nets import operations
from cushion.nets.network import Network, Node
from cushion.nets.operators import Conv2d, Diagonal, Linear

Image = tuple[int, int, int]
_MOST_LEVELS = 127  # of a grid
_WIDE_FLAGS = 2  # bits that `bias_length` counts beside the numbers themselves


@dataclass(frozen=True)
class Pooling:
    """The float net's pooling is the integer one over `divisor` (1 for maxima)."""

    pool: Pool
    divisor: int


@dataclass(frozen=True, eq=False)
class Weighted:
    """An affine layer: its shape in the format, and a convolution's stride, padding and groups."""

    node: Node
    shape: tuple[int, ...]
    window: tuple[int, int, int] | None = None

    @property
    def padded(self) -> bool:
        return self.window is not None and self.window[1] > 0

    def layer(
        self, source: Source, bias: Integers | None, bias_shift: int, shift: int
    ) -> Dense | Conv:
        """The integer layer with these numbers."""
        if self.window is None:
            return Dense(source, bias, bias_shift, shift)
        return Conv(source, bias, bias_shift, shift, *self.window)


Step = Pooling | Weighted


def steps_of(net: Network, *, nonnegative: bool) -> tuple[Image, tuple[Step, ...]]:
    """The input as channels, rows and columns, and the layers; nonnegative: whether no input is
    below 0.

    Unsupported for what the format cannot hold. ReLU and a maximum may change places, since a
    maximum keeps order.
    """
    net.chain()  # a fork or a join is refused here
    shape = net.input_shape
    steps: list[Step] = []
    open_: Node | None = None  # the affine layer whose ReLU is still to come
    for node in net.nodes[1:]:
        op = node.op
        if isinstance(op, operations.Affine):
            if open_ is not None:
                pair = f"{open_.name} and {node.name}"
                raise Unsupported(f"{pair} have no ReLU between them, as a certificate's layers do")
            open_ = node
            steps.append(_weighted(node))
        elif isinstance(op, operations.ReLU):
            if not nonnegative and not any(isinstance(step, Weighted) for step in steps):
                raise Unsupported(f"layer {node.name} rectifies inputs that may be negative")
            open_ = None
        elif isinstance(op, operations.Unflatten):
            if steps:
                raise Unsupported(f"layer {node.name} reshapes, as no layer of a certificate does")
            shape = node.shape
        elif not isinstance(op, operations.Flatten):
            pooling = _pooling(node, net.nodes[node.inputs[0]].shape)
            if pooling is not None and pooling.pool.kind == "sum" and open_ is not None:
                raise Unsupported(f"layer {node.name} averages before the ReLU of {open_.name}")
            steps += [] if pooling is None else [pooling]
    end, final = net.nodes[-1].name, steps[-1]
    if open_ is None or not (isinstance(final, Weighted) and final.window is None):
        raise Unsupported(f"{end}: a certificate's last layer is a dense one without ReLU")
    flat = (math.prod(shape),) if len(shape) > 3 else shape
    channels, height, width = (1, 1, 1, *flat)[-3:]
    return (channels, height, width), tuple(steps)


def _weighted(node: Node) -> Weighted:
    operator = node.affine.operator
    if isinstance(operator, Linear):
        return Weighted(node, tuple(operator.weight.shape))
    if isinstance(operator, Diagonal) and len(operator.input_shape) == 3:
        # a depthwise convolution of side 1
        return Weighted(node, (operator.weight.shape[0], 1, 1, 1), (1, 0, 0))
    if not isinstance(operator, Conv2d):
        raise Unsupported(f"layer {node.name}: a certificate has no batch-norm of single numbers")
    out, _, height, width = operator.weight.shape
    padding, stride, groups = operator.padding[0], operator.stride[0], operator.groups
    plain = operator.dilation == (1, 1) or height == 1
    for refused, what in (
        (height != width, f"its kernel is {height}x{width}, and a certificate's are square"),
        (operator.stride != (stride, stride), "its strides differ, and a certificate has one"),
        (set(operator.padding) != {padding}, "its paddings differ, and a certificate has one"),
        (not plain, "its kernel is dilated, and a certificate's are not"),
        (padding >= height, f"its padding of {padding} is not smaller than its kernel"),
    ):
        if refused:
            raise Unsupported(f"layer {node.name}: {what}")
    depthwise = groups == operator.input_shape[0] == out and groups > 1
    window = stride, padding, 0 if depthwise else groups
    return Weighted(node, tuple(operator.weight.shape), window)


def _pooling(node: Node, before: tuple[int, ...]) -> Pooling | None:
    """None where pooling changes nothing."""
    op, size = node.op, 0
    if isinstance(op, operations.AdaptiveAvgPool | operations.AdaptiveMaxPool):
        sides = {Fraction(*pair) for pair in zip(before[1:], op.output, strict=True)}
        size = int(min(sides)) if len(sides) == 1 and min(sides).denominator == 1 else 0
        kind = "sum" if isinstance(op, operations.AdaptiveAvgPool) else "max"
    elif isinstance(op, operations.MaxPool | operations.AvgPool):
        plain = op.kernel == op.stride and op.kernel[0] == op.kernel[1] and op.padding == (0, 0)
        plain &= not isinstance(op, operations.MaxPool) or op.dilation == (1, 1)
        plain &= not op.ceil_mode or all(side % op.kernel[0] == 0 for side in before[1:])
        size = op.kernel[0] if plain else 0
        kind = "sum" if isinstance(op, operations.AvgPool) else "max"
    else:
        raise Unsupported(f"layer {node.name}: a certificate has no {type(op).__name__}")
    if not size:
        raise Unsupported(f"layer {node.name}: its windows are no squares side by side, unpadded")
    mean = size**2 if kind == "sum" else 1
    divisor = (op.divisor or mean) if isinstance(op, operations.AvgPool) else mean
    return None if size == divisor == 1 else Pooling(Pool(kind, size), divisor)


@dataclass(frozen=True, eq=False)
class ExactWeight:
    """source(shift) gives ⌊numbers / 2^shift⌋, where source(0) gives the numbers: the layer's
    weight over `unit`.

    Where the integers stand in the message themselves, nothing can be shifted (`fixed`) and source
    ignores the shift. only_last: why the layer must be the last one, "" where it need not: there
    answers compare rows, so that a number may be left out of all weights alike.
    """

    source: Callable[[int], Source]
    unit: Fraction
    fixed: bool = False
    only_last: str = ""


def as_they_are(integers: Integers, exponent: int) -> ExactWeight:
    """integers · 2^exponent, the integers one by one in the code that is shorter for them."""
    levels = max(1, int(np.abs(integers).max(initial=0)))
    source: Source = Values(integers)
    if (
        levels <= _MOST_LEVELS
        and grid_length(integers, levels) <= bias_length(integers.reshape(-1), 0) - _WIDE_FLAGS
    ):
        source = Grid(integers, levels)
    return ExactWeight(lambda _: source, Fraction(2) ** exponent, fixed=True)


def check_place(mine: int, place: int) -> None:
    """Unsupported unless the layer's helper string is that of its place in the integer net."""
    if mine != place:
        raise Unsupported(
            f"its helper string is that of layer {mine}, and in a certificate it is layer {place}; "
            "leave out poolings that change nothing, and compress again"
        )


def coded_decisions(numbers: Integers, *, grid: bool) -> int:
    """How many decisions the coded stream takes for these numbers (FORMAT.md, section 3.2)."""
    sizes = np.abs(numbers.reshape(-1))
    used = int(np.count_nonzero(sizes))
    if grid:  # zero or not, the sign, the magnitude in unary
        return sizes.size + used + int(sizes.sum())
    widths = sum(math.frexp(size)[1] for size in sizes[sizes > 0].tolist())
    # zero or not; the sign, a width w in unary and w - 1 bits make 2w
    return sizes.size + 2 * widths
