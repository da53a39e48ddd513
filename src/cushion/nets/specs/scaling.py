"""Other versions of a spec: narrower or wider, or for other data."""

from __future__ import annotations

import math
from dataclasses import replace

from cushion.errors import BadInput
from cushion.nets.specs.grammar import read
from cushion.nets.specs.layers import (
    Conv,
    Dense,
    Item,
    Join,
    Repeat,
    Shape,
    Spec,
    join_shapes,
    refuse,
    walk,
)

MAX_FACTOR = 1000


def scale_width(spec: Spec, factor: float) -> Spec:
    """The same net with hidden widths times `factor`, rounded, at least 1; the last layer stays.

    Convolution channels and dense widths scale. With grouped convolutions all widths become
    multiples of the groups; a depthwise convolution stays depthwise. The branches of an `add` are
    kept equal by setting the last layer of those that would differ. Repetitions whose turns come
    out differently are written out.
    """
    if not (math.isfinite(factor) and 0 < factor <= MAX_FACTOR):
        raise BadInput(
            f"width {factor} must be above 0 and at most {MAX_FACTOR}; 1 keeps the net as it is"
        )
    if factor == 1:
        return spec
    before, head, rest = split_head(spec.items)
    groups: list[int] = []

    def note_groups(layer: Item, shape: Shape, _: Shape) -> None:
        if isinstance(layer, Conv) and not _is_depthwise(layer, shape):
            groups.append(layer.groups)

    walk(spec.items, spec.input_shape, note_groups)
    scaler = _Scaler(factor, math.lcm(*groups))
    items, _, _ = scaler.scale(before, spec.input_shape, spec.input_shape)
    scaled = read(str(Spec(spec.input_shape, (*items, head, *rest))))  # fresh positions
    scaled.check()
    return scaled


def fit_data(spec: Spec, input_shape: Shape, classes: int) -> Spec:
    """The same net for other data: another input shape, its last layer as wide as the classes."""
    before, head, rest = split_head(spec.items)
    fitted = read(str(Spec(input_shape, (*before, _with_width(head, classes), *rest))))
    fitted.check()
    return fitted


def split_head(items: tuple[Item, ...]) -> tuple[tuple[Item, ...], Conv | Dense, tuple[Item, ...]]:
    """Split off the head, the last layer with weights; a repetition around it is opened."""
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        match item:
            case Conv() | Dense():
                return items[:at], item, items[at + 1 :]
            case Join():
                refuse(
                    item,
                    "makes the scores; end the net in an fc or conv outside it so that this layer "
                    "can be set",
                )
            case Repeat():
                if not _has_weights(item):
                    continue
                before, head, rest = split_head(item.body)
                earlier = (replace(item, count=item.count - 1),) if item.count > 1 else ()
                return (*items[:at], *earlier, *before), head, (*rest, *items[at + 1 :])
    raise BadInput(
        f"spec '{' '.join(map(str, items))}' has no layer with weights; it needs at least one conv "
        "or fc"
    )


class _Scaler:
    """Walks old and new net side by side: what a width becomes depends on what it reads."""

    def __init__(self, factor: float, unit: int) -> None:
        self.factor, self.unit = factor, unit

    def width(self, width: int) -> int:
        return self.unit * max(1, round(width * self.factor / self.unit))

    def scale(
        self, items: tuple[Item, ...], old: Shape, new: Shape
    ) -> tuple[tuple[Item, ...], Shape, Shape]:
        """Return the scaled items and the old and new shapes after them."""
        scaled: list[Item] = []
        for item in items:
            match item:
                case Repeat():
                    turns = []
                    for _ in range(item.count):
                        turn, old, new = self.scale(item.body, old, new)
                        turns.append(turn)
                    if all(turn == turns[0] for turn in turns):
                        scaled.append(replace(item, body=turns[0]))
                    else:
                        scaled.extend(inner for turn in turns for inner in turn)
                    continue
                case Join():
                    replacement, old, new = self.join(item, old, new)
                    scaled.append(replacement)
                    continue
                case Conv() if _is_depthwise(item, old):
                    made: Item = replace(
                        item, channels=item.channels // old[0] * new[0], groups=new[0]
                    )
                case Conv():
                    made = replace(item, channels=self.width(item.channels))
                case Dense():
                    made = replace(item, width=self.width(item.width))
                case _:
                    made = item
            scaled.append(made)
            old, new = walk((item,), old, _ignore), walk((made,), new, _ignore)
        return tuple(scaled), old, new

    def join(self, join: Join, old: Shape, new: Shape) -> tuple[Join, Shape, Shape]:
        results = [self.scale(branch, old, new) for branch in join.branches]
        branches = [items for items, _, _ in results]
        shapes = [shape for _, _, shape in results]
        if join.kind == "add" and len(set(shapes)) > 1:
            # A branch whose width comes from outside (the identity, a cat) decides for the others.
            leader = next(
                (
                    shape
                    for items, shape in zip(branches, shapes, strict=True)
                    if not _settable(items)
                ),
                shapes[0],
            )
            for at, items in enumerate(branches):
                if shapes[at] != leader and _settable(items):
                    before, last, rest = split_head(items)
                    branches[at] = (*before, _with_width(last, leader[0]), *rest)
                    shapes[at] = walk(branches[at], new, _ignore)
        after = join_shapes(join, [shape for _, shape, _ in results])
        return replace(join, branches=tuple(branches)), after, join_shapes(join, shapes)


def _is_depthwise(layer: Conv, shape: Shape) -> bool:
    return layer.groups > 1 and layer.groups == shape[0]


def _settable(items: tuple[Item, ...]) -> bool:
    last = next((item for item in reversed(items) if _has_weights(item)), None)
    while isinstance(last, Repeat):
        last = next(item for item in reversed(last.body) if _has_weights(item))
    return isinstance(last, Dense) or (isinstance(last, Conv) and last.groups == 1)


def _has_weights(item: Item) -> bool:
    match item:
        case Repeat():
            return any(map(_has_weights, item.body))
        case Conv() | Dense() | Join():
            return True
    return False


def _with_width(layer: Conv | Dense, width: int) -> Conv | Dense:
    return (
        replace(layer, channels=width) if isinstance(layer, Conv) else replace(layer, width=width)
    )


def _ignore(*_: object) -> None:
    return None
