"""nn.Module -> Network: torch.fx, exact batch-norm folding, coverage proved or Unsupported."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from cushion.errors import BadInput, Unsupported
from cushion.network import Affine, Network, Node, Shape
from cushion.records import SupportReport
from cushion.tracing.assembly import Assembly
from cushion.tracing.capture import CaptureFailed, capture, check_state, replicate
from cushion.tracing.folding import fold, live
from cushion.tracing.report import report, refusals, unread

__all__ = ["support", "trace"]

_TOLERANCE = 1e-9  # of the largest logit, in float64: far above rounding, far below any wrong rule


def trace(model: nn.Module, input_shape: Sequence[int] | Tensor) -> Network:
    """The net that `model` computes in eval mode on examples of `input_shape` (or on those of an example batch).

    Guarantee: every parameter and buffer of `model` is used by an understood layer, and the traced net equals
    the module in float64 on seeded random inputs; anything else raises Unsupported, naming all offending
    modules, or BadInput. `model` stays as it is: tracing works on a copy, and the random state of torch is
    restored. Weights are float32 (float64 if the module's are; half precision widens without loss).
    """
    shape = _example_shape(model, input_shape)
    check_state(model)
    state = torch.get_rng_state()
    try:
        with torch.no_grad():
            return _trace(model, shape)
    finally:
        torch.set_rng_state(state)


def support(model: nn.Module, input_shape: Sequence[int] | Tensor | None = None) -> SupportReport:
    """Names every module and operation of `model`, understood or not, and why not; never raises for one.

    Without an input shape, what depends on shapes (a Linear layer on an image, say) is left to `trace`.
    """
    shape = None if input_shape is None else _example_shape(model, input_shape)
    state = torch.get_rng_state()
    try:
        with torch.no_grad():
            replica = replicate(model)
            assembly = Assembly(replica, shape)
            try:
                assembly.walk(capture(replica))
            except CaptureFailed as failure:
                return report(assembly, {}, failure)
            into = fold(assembly.drafts, assembly.output) if assembly.output >= 0 else {}
            return report(assembly, into, None)
    finally:
        torch.set_rng_state(state)


def _example_shape(model: nn.Module, given: Sequence[int] | Tensor) -> Shape:
    if not isinstance(model, nn.Module):
        raise BadInput(f"the net must be a torch.nn.Module, not {type(model).__name__}")
    sizes = given.shape[1:] if isinstance(given, Tensor) else given
    shape = tuple(int(size) for size in sizes)
    if not shape or min(shape) < 1:
        raise BadInput(
            f"the input shape {shape} must be that of one example, such as (784,) or (3, 32, 32), without the batch"
        )
    return shape


def _trace(model: nn.Module, shape: Shape) -> Network:
    replica = replicate(model)
    assembly = Assembly(replica, shape)
    try:
        assembly.walk(capture(replica))
    except CaptureFailed as failure:
        raise Unsupported(f"cushion cannot trace this net: {refusals(assembly, failure)}") from failure
    if any(draft.refused for draft in assembly.drafts):
        raise Unsupported(f"cushion cannot trace this net: {refusals(assembly, None)}")
    into = fold(assembly.drafts, assembly.output)
    alive = live(assembly.drafts, assembly.output)
    idle = unread(assembly, alive)
    if idle:
        raise Unsupported(
            f"cushion cannot account for {', '.join(idle)}: the logits do not depend on "
            f"{'them' if len(idle) > 1 else 'it'}; delete unused parts of the net, or return what they compute"
        )
    network = _build(assembly, alive, into)
    if not network.affine_layers:
        raise Unsupported("the net has no affine layer, so there is nothing to measure; give it Linear or Conv2d layers")
    _check(replica, network)
    wide = any(p.dtype == torch.float64 for p in model.parameters())
    return network if wide else network.to(torch.float32)


def _build(assembly: Assembly, alive: set[int], into: dict[int, int]) -> Network:
    nodes: list[Node] = []
    place: dict[int, int] = {}
    for index in sorted(alive | {0}):
        draft = assembly.drafts[index]
        if index in into:
            place[index] = place[into[index]]
            continue
        assert draft.op is not None
        assert draft.shape is not None
        op = draft.op
        if isinstance(op, Affine):
            op = Affine(op.operator.own(), None if op.bias is None else op.bias.detach().clone(), op.kind)
        place[index] = len(nodes)
        nodes.append(Node(len(nodes), draft.name, op, tuple(place[i] for i in draft.inputs), draft.shape))
    if nodes[-1].index != place[assembly.output]:
        raise Unsupported("bug")
    return Network(tuple(nodes))


def _check(replica: nn.Module, network: Network) -> None:
    generator = torch.Generator().manual_seed(0)
    for batch in (2, 1):
        x = torch.rand(batch, *network.input_shape, generator=generator, dtype=torch.float64)
        x[0] = torch.randn(network.input_shape, generator=generator, dtype=torch.float64)
        x = x.to(network.device)
        expected = replica(x.clone())
        gap = float((network.forward(x) - expected).abs().max())
        if not gap <= _TOLERANCE * max(1.0, float(expected.abs().max())):
            raise Unsupported(
                f"the traced net differs from the module by {gap:.3g} on random inputs, so some operation acts "
                "differently from its usual meaning; report which layers the net has"
            )
