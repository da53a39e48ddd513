"""Other versions of a spec: narrower or wider, or for other data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from cushion.errors import BadInput
from cushion.nets.specs import layers
from cushion.nets.specs.grammar import parse
from cushion.nets.specs.layers import Item, Join, Layer, Repeat, Shape, Spec, unrolled, walk

MAX_FACTOR = 1000
Items: TypeAlias = tuple[Item, ...]


def scale_width(spec: Spec, factor: float) -> Spec:
    """The same net with hidden widths times `factor`, rounded, at least 1; the last layer stays.

    Convolution channels and dense widths scale. With grouped convolutions all widths become
    multiples of the groups; a depthwise convolution stays depthwise. The branches of an `add` are
    kept equal by setting the last layer of those that would differ. Repetitions whose turns come
    out differently are written out.
    """
    if not (math.isfinite(factor) and 0 < factor <= MAX_FACTOR):
        rule = f"must be above 0 and at most {MAX_FACTOR}"
        raise BadInput(f"width {factor} {rule}; 1 keeps the net as it is")
    if factor == 1:
        return spec
    before, head, rest = split_head(spec.items)
    unit = 1

    def note_groups(layer: Layer, shape: Shape, _: Shape) -> None:
        nonlocal unit
        if not _is_depthwise(layer, shape):
            unit = math.lcm(unit, layer.groups)

    def width(old: int) -> int:
        return unit * max(1, round(old * factor / unit))

    walk(spec.items, spec.input_shape, note_groups)
    items, _, _ = _scale(before, spec.input_shape, spec.input_shape, width)
    return parse(str(Spec(spec.input_shape, (*items, head, *rest))))  # fresh positions


def fit_data(spec: Spec, input_shape: Shape, classes: int) -> Spec:
    """The same net for other data: another input shape, its last layer as wide as the classes."""
    before, head, rest = split_head(spec.items)
    return parse(str(Spec(input_shape, (*before, replace(head, size=classes), *rest))))


def split_head(items: Items) -> tuple[Items, Layer, Items]:
    """Split off the head, the last layer with weights; a repetition around it is opened."""
    for at in range(len(items) - 1, -1, -1):
        match item := items[at]:
            case Layer(weighted=True):
                return items[:at], item, items[at + 1 :]
            case Join():
                fix = "end the net in an fc or conv outside it so that this layer can be set"
                item.refuse(f"makes the scores; {fix}")
            case Repeat() if _weighted(item.body):
                before, head, rest = split_head(item.body)
                earlier = (replace(item, count=item.count - 1),) if item.count > 1 else ()
                return (*items[:at], *earlier, *before), head, (*rest, *items[at + 1 :])
    raise layers.weightless(layers.write(items))


def _scale(
    items: Items, old: Shape, new: Shape, width: Callable[[int], int]
) -> tuple[Items, Shape, Shape]:
    """The scaled items and the old and new shapes after them: both nets are walked side by side,
    because what a width becomes depends on what it reads.
    """
    scaled: list[Item] = []
    for item in items:
        if isinstance(item, Repeat):
            turns = []
            for _ in range(item.count):
                turn, old, new = _scale(item.body, old, new, width)
                turns.append(turn)
            equal = all(turn == turns[0] for turn in turns)
            scaled += [replace(item, body=turns[0])] if equal else chain(*turns)
            continue
        made = item
        match item:
            case Join():
                made = _scale_join(item, old, new, width)
            case Layer() if _is_depthwise(item, old):
                made = replace(item, size=item.size // old[0] * new[0], groups=new[0])
            case Layer(weighted=True):
                made = replace(item, size=width(item.size))
        scaled.append(made)
        old, new = walk((item,), old), walk((made,), new)
    return tuple(scaled), old, new


def _scale_join(join: Join, old: Shape, new: Shape, width: Callable[[int], int]) -> Join:
    results = [_scale(branch, old, new, width) for branch in join.branches]
    branches, shapes = [items for items, _, _ in results], [shape for _, _, shape in results]
    if join.kind == "add" and len(set(shapes)) > 1:
        # A branch whose width comes from outside (the identity, a cat) decides for the others.
        settable = [_settable(items) for items in branches]
        leader = shapes[settable.index(False) if False in settable else 0]
        for at, items in enumerate(branches):
            if shapes[at] != leader and settable[at]:
                before, last, rest = split_head(items)
                branches[at] = (*before, replace(last, size=leader[0]), *rest)
    return replace(join, branches=tuple(branches))


def _is_depthwise(layer: Layer, shape: Shape) -> bool:
    return layer.groups > 1 and layer.groups == shape[0]


def _weighted(items: Items) -> list[Layer | Join]:
    """The items that hold weights, or may hold them."""
    return [item for item in unrolled(items) if isinstance(item, Join) or item.weighted]


def _settable(items: Items) -> bool:
    """Whether the last layer's width may be set."""
    last = _weighted(items)[-1:]
    return isinstance(last[0], Layer) and last[0].groups == 1 if last else False
