"""Ways to see a net, from the least that it must allow to the most.

answers: a pass gives scores. weights: the numbers of its modules, and its answers. hooks: modules
with weights are seen as they run, with their true maps, and what lies between them is
differentiated. trace: the whole graph of operations is known and proved complete. A measure names
the ways that it can go; the first that the net allows is taken.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

from torch import nn

from cushion.data import Dataset
from cushion.errors import BadInput, Unsupported, remark
from cushion.nets.batches import Batch, as_batch
from cushion.nets.calling import fitted
from cushion.nets.classifier import Logits, as_module, kind_of, remarks, unwrapped
from cushion.nets.devices import with_float64
from cushion.nets.hooked.net import HookedNet
from cushion.nets.hooked.probe import shown
from cushion.nets.loading.programs import FixedBatch
from cushion.nets.network import Network, NetworkModule
from cushion.nets.outputs import Reading
from cushion.nets.scored import ScoredNet
from cushion.nets.steady import check_steady
from cushion.nets.tracing import trace
from cushion.nets.weighted import WeightsNet

Way: TypeAlias = Literal["answers", "weights", "hooks", "trace"]
WAYS: tuple[Way, ...] = ("trace", "hooks", "weights", "answers")  # the fullest first
View: TypeAlias = Network | HookedNet | ScoredNet
_ROWS = 2


def way_of(net: View) -> Way:
    """How this net is seen."""
    if isinstance(net, Network):
        return "trace"
    if isinstance(net, HookedNet):
        return "hooks"
    return "weights" if isinstance(net, WeightsNet) else "answers"


class Seen(NamedTuple):
    """A net by one way, and why it could not be traced, where that was tried."""

    net: Any
    untraced: str = ""


def see(model: Any, data: Dataset, ways: Collection[Way]) -> Seen:
    """The model by the most of `ways` that it allows; a Network as it is.

    Unsupported, with the reason of the first way that was tried, where it allows none.
    """
    known = model.network if isinstance(model, NetworkModule) else model
    if isinstance(known, Network):
        return Seen(_checked(known, data))
    rows: Batch = as_batch(data.x[:_ROWS])
    module = as_module(known, rows, classes=data.classes, labels=data.labels)
    few: Batch = as_batch(data.x[: 2 * _ROWS])
    remark(*remarks(check_steady(module, fitted(module, few)).cpu(), module))
    problem = ""
    if getattr(module, "answers_only", False):
        gives, of = "answers", "margins"
        if WeightsNet(module).affine_layers:
            gives, of = "answers and weights", "margins, norms, spectra and tails"
        problem = f"{kind_of(module)} gives {gives} only; of such a net there are {of}"
        ways = [way for way in ways if way in ("weights", "answers")]
    if "trace" in ways:
        try:
            return Seen(_checked(_traced(module, data), data))
        except Unsupported as refused:
            problem = str(refused)
    if "hooks" in ways:
        try:
            return Seen(_checked(_hooked(module, rows), data), problem)
        except Unsupported as refused:
            problem = f"{problem}; and by hooks: {refused}" if problem else str(refused)
    if "weights" in ways and (net := WeightsNet(module, rows)).affine_layers:
        return Seen(_checked(net, data), problem)
    if "answers" in ways:
        return Seen(_checked(ScoredNet(module, rows), data), problem)
    raise Unsupported(problem or "the net has no module with weights that can be read")


def see_at_rest(model: Any) -> WeightsNet:
    """The model's weights, where nothing is known of what it reads."""
    net = WeightsNet(unwrapped(model))
    if not net.affine_layers:
        why = "it has no dense layer, convolution, embedding or the like among its modules"
        raise Unsupported(f"there are no weights to measure in {kind_of(net.module)}: {why}")
    return net


def _traced(module: nn.Module, data: Dataset) -> Network:
    if data.x.dtype.names is not None or data.x.dtype.kind == "i":
        what = "tokens" if data.x.dtype.names is None else "several inputs"
        raise Unsupported(
            f"cushion cannot trace this net: the net ({kind_of(module).split()[-1]}) reads {what}, "
            "and a trace begins at one input of floats; hooks see it (path norms, conditions, "
            "exact pairs of layers and compressors need the trace)"
        )
    net = trace(plain(module), data.shape)
    return Network(tuple(replace(node, name=shown(node.name)) for node in net.nodes))


def plain(module: nn.Module) -> nn.Module:
    """The user's own module, where all that stands around it is a change of precision."""
    if isinstance(module, Logits) and module.reading == Reading(half=module.reading.half):
        return module.inner
    return module


def _hooked(module: nn.Module, rows: Batch) -> HookedNet:
    for part in module.modules():
        if isinstance(part, FixedBatch):
            said = f"the program reads batches of {part.rows} examples only, as it was exported"
            raise Unsupported(f"{said}; export it with a dynamic batch (dynamic_shapes) for hooks")
    module = with_float64(module)
    net = HookedNet(module, fitted(module, rows))
    if not net.parameters:
        raise Unsupported("the net has no affine layer, so hooks see nothing; use its margins")
    return net


def _checked(net: Any, data: Dataset) -> Any:
    if isinstance(net, Network) and net.input_shape != tuple(data.shape):
        shapes = f"of shape {net.input_shape}, but {data.name} has {tuple(data.shape)}"
        raise BadInput(f"the net reads examples {shapes}")
    if net.classes < data.classes:
        counts = f"{net.classes} scores, but {data.name} has {data.classes} classes"
        raise BadInput(f"the net gives {counts}; use its own data")
    return net
