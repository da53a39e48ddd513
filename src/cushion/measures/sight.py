"""How the families of measures see a net: the fullest way that they need and the net allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cushion.data import Dataset
from cushion.errors import BadInput, Unsupported
from cushion.measures.family import Family
from cushion.measures.records import LeftOut
from cushion.nets.hooked.net import HookedNet
from cushion.nets.network import Network, NetworkModule
from cushion.nets.view import WAYS, View, Way, see, see_at_rest, way_of

_LIGHT = frozenset({"norms", "spectra", "tails", "margins"})  # weights and answers: no trace needed
_NO_DATA = "it is about what the net does with data, and none were given"


class Sight(NamedTuple):
    """A net as the families see it, those that can, and why the others cannot."""

    net: View
    families: tuple[Family, ...]
    left_out: tuple[LeftOut, ...] = ()


def look(
    model: Any,
    sample: Dataset,
    families: tuple[Family, ...],
    way: Way | None = None,
    *,
    named: bool = False,
    pair: bool = False,
) -> Sight:
    """The net by the first way that the families can go.

    named: what cannot see it is refused, not left out. pair: it will be compared with another net,
    layer by layer, which the trace does best.
    """
    ways: tuple[Way, ...] = (way,) if way else WAYS
    if way is None and not pair and all(family.name in _LIGHT for family in families):
        ways = ("answers",) if {family.name for family in families} == {"margins"} else WAYS[1:]
    if named:
        ways = tuple(one for one in ways if all(one in family.ways for family in families))
    net, untraced = see(model, sample, ways or WAYS[:1])
    able = tuple(family for family in families if way_of(net) in family.ways)
    why = untraced or f"it cannot see a net by its {way_of(net)}"
    left = tuple(LeftOut(one.name, why) for one in families if one not in able)
    lacking = {one.name: _lacking(net, one) for one in able}
    able_by_hooks = all("hooks" in one.ways for one in able if named or not lacking[one.name])
    traced = way_of(net) == "trace"
    if any(lacking.values()) and traced and way is None and not pair and able_by_hooks:
        # what the trace could serve, hooks can too, and more of it
        net, able, left = look(model, sample, families, "hooks", named=named, pair=pair)
        left = tuple(replace(o, why=lacking.get(o.family) or o.why) for o in left)
        return Sight(net, able, left)
    if named and (said := next(filter(None, lacking.values()), "")):
        raise Unsupported(said)
    left += tuple(LeftOut(name, said) for name, said in lacking.items() if said)
    return Sight(net, tuple(one for one in able if not lacking[one.name]), left)


def look_at_rest(
    model: Any,
    shape: Sequence[int] | None,
    families: tuple[Family, ...],
    way: Way | None = None,
    *,
    named: bool = False,
    pair: bool = False,
) -> Sight:
    """The net without data: by its weights; with the shape of an example also by the true maps of
    its layers, on rows of noise that show the layers' shapes and enter no number.
    """
    resting = tuple(family for family in families if family.at_rest)
    moving = [family.name for family in families if not family.at_rest]
    if moving and (named or not resting):
        raise BadInput(f"{', '.join(moving)}: {_NO_DATA}; give `data`")
    known = model.network if isinstance(model, NetworkModule) else model
    if shape is None and isinstance(known, Network):
        shape = known.input_shape
    if shape is not None:
        whole = isinstance(shape, Sequence) and not isinstance(shape, str)
        if not whole or not all(isinstance(n, int) and 0 < n < 2**31 for n in shape):
            raise BadInput(
                f"`shape` must be that of one example, such as (3, 32, 32), not {shape!r}"
            )
        seen = look(model, noise(shape), resting, way, named=named, pair=pair)
    elif way not in (None, "weights"):
        raise BadInput(f"`way` = {way} looks at a net that runs; give `data` or the `shape` of one")
    else:
        net = see_at_rest(model)
        able = tuple(one for one in resting if "weights" in one.ways)
        if named and (unable := [one.name for one in resting if one not in able]):
            raise BadInput(f"{', '.join(unable)} needs the `shape` of an example, or `data`")
        why = "it needs the trace of a net, and that the `shape` of an example"
        left = tuple(LeftOut(one.name, why) for one in resting if one not in able)
        seen = Sight(net, able, left)
    left_out = (*seen.left_out, *(LeftOut(name, _NO_DATA) for name in moving))
    return seen._replace(left_out=left_out)


def noise(shape: Sequence[int]) -> Dataset:
    """Two rows of seeded noise: they show what reads what."""
    rows = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    return Dataset("noise", rows, np.arange(2), 2)


def _lacking(net: View, family: Family) -> str:
    """What the family asks for that the net lacks, and where; "" if nothing."""
    if isinstance(net, HookedNet) and family.layer is not None and not net.affine_layers:
        none = "hooks see no module with weights: the net calls functions with its parameters"
        return f"{none}; its margins and sharpness can be measured"
    if not isinstance(net, Network):
        return ""
    said = (net.lacks(premise, f"the family {family.name}") for premise in family.premises)
    why = next(filter(None, said), "")
    seen_by_hooks = why and "hooks" in family.ways
    return f"{why}; `way` = hooks measures it between blocks" if seen_by_hooks else why
