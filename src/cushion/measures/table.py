"""measure(): from a net and its sample to one table of diagnostics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from cushion.data import AnyData, Dataset, as_dataset
from cushion.data.doubts import doubts_about_error
from cushion.errors import BadInput, Unsupported, remark
from cushion.measures.families import FAMILIES
from cushion.measures.family import Context, Family, Found
from cushion.measures.margins import MarginOptions
from cushion.measures.one_pass import one_pass
from cushion.measures.records import LayerMeasures, LeftOut, MeasureTable, NetMeasures
from cushion.measures.sight import look, look_at_rest, noise
from cushion.measures.stability.comparison import check_alike, random_like, scaled_to_match
from cushion.measures.stability.family import StabilityOptions
from cushion.measures.stability.noise import Draw, measure_sensitivity
from cushion.measures.stability.records import NoiseSensitivity
from cushion.nets.batch_size import batches, rows_at_a_time
from cushion.nets.classifier import behind
from cushion.nets.devices import placed
from cushion.nets.hooked.net import check_same_layers
from cushion.nets.network import Network, Node
from cushion.nets.normalise import Constants
from cushion.nets.view import WAYS, View, Way, see, see_at_rest, way_of
from cushion.nets.weighted import WeightsNet
from cushion.progress import plan, working
from cushion.records import Options, Record

INTERRUPTED = "interrupted before it was measured"
Row = TypeVar("Row", LayerMeasures, NetMeasures)


def measure(
    model: Any,
    data: AnyData | None = None,
    *,
    only: str | Sequence[str] | None = None,
    shape: Sequence[int] | None = None,
    batch: int | None = None,
    epsilon: float = MarginOptions.epsilon,
    init: nn.Module | Network | None = None,
    beside: Literal["init", "random"] | None = None,
    spectra: bool = True,
    way: Way | None = None,
    normalise: tuple[Constants, Constants] | None = None,
    device: str | None = None,
    stated_error: float | None = None,
    **options: Options | None,
) -> MeasureTable:
    """Measure a net on its training set: every family of measures, or those that `only` names.

    options: how a family measures, under its name, such as stability=StabilityOptions(probes=32);
    sharpness, conditions and tails have options as well. γ is the margin that all but a fraction
    `epsilon` of the examples exceed; `init`, the net at its initialisation, adds the versions from
    initialisation. `spectra=False` leaves the singular values out. `beside`
    measures a second net in the same way: the initialisation scaled to match the net's layers (the
    conditions of Theorem 1: as it was), or random weights of the same norms. The model is not
    changed.

    The net is traced where a family needs it and it can be; else hooks see it, or its answers alone
    (`way` asks for one of them). Families that cannot see it are in `left_out` with the
    reason, or refused if `only` names them. `normalise` = (mean, std) are constants that the net
    was trained behind: one number, or one a channel. A net that errs far more than `stated_error`,
    or as guessing would, is doubted in a warning.

    Without data there are norms, singular values and tails of its weights; with the `shape` of an
    example those of the true maps, and path norms.
    """
    families = _families(only, spectra)
    if way not in (None, *WAYS):
        raise BadInput(f"`way` must be {', '.join(WAYS[:-1])} or {WAYS[-1]}, not {way}")
    if beside not in (None, "init", "random"):
        raise BadInput(f"`beside` must be init or random, not {beside}")
    chosen = _options({"margins": MarginOptions(epsilon), **options})
    stability = chosen["stability"]
    assert isinstance(stability, StabilityOptions)
    sample = None if data is None else _sample(model, data)
    if sample is not None and shape is not None:
        raise BadInput("`shape` is for nets without data, and the data have theirs; leave it out")
    if sample is None and normalise is not None:
        raise BadInput("`normalise` says how the net reads data, and none were given; leave it out")
    if sample is not None:
        model = behind(model, normalise, sample.shape)
        init = None if init is None else behind(init, normalise, sample.shape)
    model, init = placed(model, device), placed(init, device)
    with batches(batch), torch.inference_mode(False):
        how_to: Any = {"named": only is not None, "pair": init is not None or beside is not None}
        if sample is None:
            net, families, left = look_at_rest(model, shape, families, way, **how_to)
        else:
            net, families, left = look(model, sample, families, way, **how_to)
        initial = None if init is None else _alike(init, net, sample)
        how = Context(net, sample, None, initial, singular_values=spectra, seed=stability.seed)
        table = _table(how, families, chosen, left, named=only is not None)
        if beside is not None:
            twin = _table(_beside(how, beside), families, chosen, left, named=only is not None)
            claims = [
                family.claims(table, twin) for family in families if family.claims is not None
            ]
            table = replace(table, beside=twin, claims=tuple(chain.from_iterable(claims)))
    if sample is not None and table.net.error_rate is not None:
        remark(*doubts_about_error(table.net.error_rate, sample.classes, stated_error))
    return table


def _beside(how: Context, beside: Literal["init", "random"]) -> Context:
    """Another net to measure in the same way: the initialisation or random weights, scaled."""
    if not isinstance(how.net, Network):
        raise BadInput("`beside` needs the trace of a net, and this one has none; leave it out")
    if beside == "random":
        return replace(how, net=random_like(how.net, how.seed), initial=None, weights="random")
    if how.initial is None:
        known = "give a RUN folder, or use `beside` random"
        raise BadInput(f"`beside` = init needs the net's initialisation: {known}")
    scaled = scaled_to_match(how.net, how.initial)
    return replace(how, net=scaled, initial=None, weights="initial", unscaled=how.initial)


def margins(
    model: Any,
    data: AnyData,
    *,
    batch: int | None = None,
    normalise: tuple[Constants, Constants] | None = None,
    device: str | None = None,
) -> NDArray[np.float64]:
    """The margin f(x)[y] - max_{j≠y} f(x)[j] of every example; at most 0 where the net errs."""
    sample = _sample(model, data)
    model = placed(behind(model, normalise, sample.shape), device)
    with batches(batch), torch.inference_mode(False):
        net = see(model, sample, WAYS[-1:]).net
        return one_pass(net, sample, rows_at_a_time(), norms=False, margins=True)["margins"]


def noise_sensitivity(
    model: nn.Module | Network,
    data: AnyData,
    start: str,
    end: str,
    *,
    noise: str | Draw = "gaussian",
    scale: float = 1.0,
    draws: int = 20,
    seed: int = 0,
) -> NoiseSensitivity:
    """The noise sensitivity from the input of layer `start` to the output of layer `end`.

    `noise` is "gaussian" (N(0, I) as in Proposition 3.1), "sphere", "signs", or a function that
    draws [B, *shape] from a torch.Generator; `scale` multiplies it (sphere with scale 0.1: noise of
    10 %). Names are those of `table.layers`.
    """
    net, sample = subject(model, data)
    return measure_sensitivity(net, sample, start, end, noise, scale=scale, draws=draws, seed=seed)


def subject(model: nn.Module | Network, data: AnyData) -> tuple[Network, Dataset]:
    """The traced net and its sample."""
    sample = _sample(model, data)
    return traced(model, sample), sample


def _sample(model: Any, data: Any) -> Dataset:
    if isinstance(data, nn.Module | Network):
        raise BadInput("the net comes first and the data second: swap the two")
    del model
    return as_dataset(data)


def traced(model: nn.Module | Network, data: Dataset) -> Network:
    """The model as a net that reads these data and has a score for each of their classes."""
    net: Network = see(model, data, WAYS[:1]).net
    return net


def _alike(init: Any, net: View, sample: Dataset | None) -> Any:
    """The initialisation, seen as the net was; BadInput if it has other layers."""
    if sample is None and isinstance(net, WeightsNet):
        found: Any = see_at_rest(init)
    else:
        rows = noise(net.input_shape) if sample is None else sample
        found = see(init, rows, (way_of(net),)).net
    if isinstance(net, Network):
        check_alike(net, found, "the initialisation")
    else:
        check_same_layers(net, found)
    return found


def _table(
    context: Context,
    families: Sequence[Family],
    options: Mapping[str, Options],
    left: tuple[LeftOut, ...],
    *,
    named: bool,
) -> MeasureTable:
    """What the families find on one net; on an interrupt, what they have found so far. A family
    that cannot go on is left out with the reason, or refused if it was asked for by name.
    """
    net, data = context.net, context.data
    found: dict[str, Found] = {}
    sees = {part for family in families for part in family.sees}
    runs = way_of(net) in ("trace", "hooks")
    norms, margins = "norms" in sees and runs, "margins" in sees
    with plan({family.name: family.effort for family in families}):
        with working("one pass over the data", 1):
            try:
                passed = one_pass(net, data, rows_at_a_time(), norms=norms, margins=margins)
            except Unsupported as refused:  # what hooks cannot follow on all of the data
                if named:
                    raise
                deaf = [family for family in families if "norms" in family.sees]
                left += tuple(LeftOut(family.name, str(refused)) for family in deaf)
                families = [family for family in families if family not in deaf]
                passed = one_pass(net, data, rows_at_a_time(), norms=False, margins=margins)
        for family in sorted(families, key=attrgetter("effort")):
            own = replace(context, passed=passed, options=options.get(family.name))
            try:
                with working(family.name, 1):
                    found[family.name] = family.measure(own)
            except Unsupported as refused:
                if named:
                    raise
                left += (LeftOut(family.name, str(refused)),)
            except KeyboardInterrupt:
                if not found:
                    raise
                told = {one.family for one in left} | set(found)
                rest = [one.name for one in families if one.name not in told]
                left += tuple(LeftOut(name, INTERRUPTED) for name in rest)
                break
    parts = [found[family.name] for family in families if family.name in found]
    layers = tuple(
        _with_all(_layer(node), [part.layers.get(node.index) for part in parts])
        for node in net.affine_layers
    )
    whole = _with_all(_net(net, data), [part.net for part in parts])
    return MeasureTable(layers, whole, left_out=left)


def _families(only: str | Sequence[str] | None, spectra: bool) -> tuple[Family, ...]:
    """Those asked for and what they bring along, in the order of the table."""
    known = {family.name: family for family in FAMILIES}
    asked = known if only is None else only.split(",") if isinstance(only, str) else only
    for name in asked:
        if name not in known:
            choice = f"choose from {', '.join(known)}"
            raise BadInput(f"`only` = {name}: there is no family of measures called so; {choice}")
    wanted = {*asked, *(more for name in asked for more in known[name].brings)}
    wanted -= set() if spectra else {"spectra"}
    if not wanted:
        raise BadInput(f"nothing is left to measure; choose from {', '.join(known)}")
    return tuple(family for family in FAMILIES if family.name in wanted)


def _options(given: Mapping[str, Options | None]) -> dict[str, Options]:
    """Every family's options, by its name: those given, or its defaults."""
    kinds = {family.name: family.options for family in FAMILIES if family.options is not None}
    for name, chosen in given.items():
        kind = kinds.get(name)
        if kind is None:
            known = f"families with options are {', '.join(kinds)}"
            raise TypeError(f"measure() got an unexpected keyword argument {name!r}; {known}")
        if not isinstance(chosen, kind | None):
            raise BadInput(f"`{name}` must be {kind.__name__}(...), not {chosen!r}")
    return {name: given.get(name) or kind() for name, kind in kinds.items()}


def _with_all(row: Row, parts: Sequence[Record | None]) -> Row:
    """The row with what every family found."""
    found = [vars(part) for part in parts if part is not None]
    return replace(row, **{name: value for part in found for name, value in part.items()})


def _layer(node: Node) -> LayerMeasures:
    operator = node.affine.operator
    return LayerMeasures(
        name=node.name,
        kind=node.affine.kind,
        shape=tuple(operator.weight.shape),
        input_shape=tuple(operator.input_shape),
        output_shape=tuple(operator.output_shape),
        parameters=node.affine.parameters,
    )


def _net(net: View, data: Dataset | None) -> NetMeasures:
    return NetMeasures(
        m=0 if data is None else len(data),
        classes=net.classes,
        parameters=net.parameters,
        depth=len(net.affine_layers),
        is_chain=net.is_chain,
        not_a_chain_because=net.not_a_chain_because,
        data="" if data is None else data.name,
        data_fingerprint="" if data is None else data.fingerprint,
        way=way_of(net),
        not_seen=getattr(net, "not_seen", ()),
        apart=getattr(net, "apart", ()),
    )
