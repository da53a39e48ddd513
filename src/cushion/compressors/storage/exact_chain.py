"""A traced net as the layers that the format of certificates knows, or one sentence about why it is
none of them.

The format has a ReLU behind every layer but the last, which is dense; square windows side by side
for pooling; square kernels with equal strides and paddings for convolutions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from cushion.certificates.format.layers import Conv, Dense, Pool
from cushion.certificates.format.sources import Integers, Source
from cushion.errors import Unsupported
from cushion.nets.network import Network, Node
from cushion.nets.operations import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    Affine,
    AvgPool,
    Flatten,
    MaxPool,
    ReLU,
)
from cushion.nets.operations import Unflatten as Reshape
from cushion.nets.operators import Conv2d, Diagonal, Linear

Image = tuple[int, int, int]


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
        if isinstance(op, Affine):
            if open_ is not None:
                raise Unsupported(
                    f"{open_.name} and {node.name} have no ReLU between them, and in a certificate "
                    "every layer but the last has one"
                )
            open_ = node
            steps.append(_weighted(node))
        elif isinstance(op, ReLU):
            if not nonnegative and not any(isinstance(step, Weighted) for step in steps):
                raise Unsupported(
                    f"{node.name} rectifies inputs that may be negative, which no layer of a "
                    "certificate does"
                )
            open_ = None
        elif isinstance(op, Reshape):
            if steps:
                raise Unsupported(
                    f"{node.name} reshapes what is between layers, which no layer of a certificate "
                    "does"
                )
            shape = node.shape
        elif not isinstance(op, Flatten):
            pooling = _pooling(node, net.nodes[node.inputs[0]].shape)
            if pooling is not None and pooling.pool.kind == "sum" and open_ is not None:
                raise Unsupported(
                    f"{node.name} averages before the ReLU of {open_.name}, and a certificate's "
                    "layers rectify"
                )
            steps += [] if pooling is None else [pooling]
    end = steps[-1]
    if (
        open_ is None
        or not isinstance(end, Weighted)
        or not isinstance(end.node.affine.operator, Linear)
    ):
        raise Unsupported(
            f"the net ends in {net.nodes[-1].name}, and a certificate's last layer is a dense one "
            "without ReLU"
        )
    return _image(shape), tuple(steps)


def _image(shape: tuple[int, ...]) -> Image:
    if len(shape) > 3:
        return 1, 1, math.prod(shape)
    channels, height, width = (1, 1, 1, *shape)[-3:]
    return channels, height, width


def _weighted(node: Node) -> Weighted:
    operator = node.affine.operator
    if isinstance(operator, Linear):
        return Weighted(node, tuple(operator.weight.shape))
    if isinstance(operator, Diagonal) and len(operator.input_shape) == 3:
        # a depthwise convolution of side 1
        return Weighted(node, (operator.weight.shape[0], 1, 1, 1), (1, 0, 0))
    if not isinstance(operator, Conv2d):
        raise Unsupported(
            f"{node.name}: a batch-norm of single numbers that no layer took up cannot stand in a "
            "certificate"
        )
    out, _, height, width = operator.weight.shape
    padding, stride = operator.padding[0], operator.stride[0]
    for holds, what in (
        (height == width, f"its kernel is {height}x{width}, and a certificate's are square"),
        (
            operator.stride == (stride, stride),
            "its strides differ, and a certificate has one for both directions",
        ),
        (
            set(operator.padding) == {padding},
            "its paddings differ, and a certificate has one for all sides",
        ),
        (
            operator.dilation == (1, 1) or height == 1,
            "its kernel is dilated, and a certificate's are not",
        ),
        (
            padding < height,
            f"its padding of {padding} is not smaller than its kernel, as a certificate's is",
        ),
    ):
        if not holds:
            raise Unsupported(f"{node.name}: {what}")
    depthwise = operator.groups == operator.input_shape[0] == out and operator.groups > 1
    return Weighted(
        node, tuple(operator.weight.shape), (stride, padding, 0 if depthwise else operator.groups)
    )


def _pooling(node: Node, before: tuple[int, ...]) -> Pooling | None:
    """None where pooling changes nothing."""
    op, size = node.op, 0
    if isinstance(op, AdaptiveAvgPool | AdaptiveMaxPool):
        high, wide = (
            Fraction(side, parts) for side, parts in zip(before[1:], op.output, strict=True)
        )
        size = int(high) if high == wide and high.denominator == 1 else 0
        kind = "sum" if isinstance(op, AdaptiveAvgPool) else "max"
    elif isinstance(op, MaxPool | AvgPool):
        plain = op.kernel == op.stride and op.kernel[0] == op.kernel[1] and op.padding == (0, 0)
        plain &= not isinstance(op, MaxPool) or op.dilation == (1, 1)
        plain &= not op.ceil_mode or all(side % op.kernel[0] == 0 for side in before[1:])
        size = op.kernel[0] if plain else 0
        kind = "sum" if isinstance(op, AvgPool) else "max"
    else:
        raise Unsupported(
            f"{node.name}: a certificate's layers are a chain without {type(op).__name__}"
        )
    if not size:
        raise Unsupported(
            f"{node.name}: its windows are not squares side by side without padding, and a "
            "certificate pools no others"
        )
    mean = size**2 if kind == "sum" else 1
    divisor = (op.divisor or mean) if isinstance(op, AvgPool) else mean
    return None if size == divisor == 1 else Pooling(Pool(kind, size), divisor)
