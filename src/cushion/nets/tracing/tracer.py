"""`trace` turns a module into a Network or says why not; `support` says it line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from cushion.errors import BadInput, Unsupported
from cushion.nets.network import Network, Node
from cushion.nets.operations.operation import Shape
from cushion.nets.tracing import report
from cushion.nets.tracing.assembly import Assembly
from cushion.nets.tracing.capture import (
    CaptureFailed,
    capture,
    check_state,
    first_line,
    hooked,
    replicate,
)
from cushion.nets.tracing.folding import fold, live

_EXACT = 1e-9  # of the largest logit, in float64: far above rounding, far below any wrong rule
_ROUNDED = 1e-3  # the same once the weights are float32: only an ill-conditioned net comes near


def trace(model: nn.Module, input_shape: Sequence[int] | Tensor) -> Network:
    """The net that `model` computes in eval mode on examples of `input_shape` (or of a batch).

    Guarantee: every parameter and buffer of `model` is used by an understood layer, and the traced
    net equals the module in float64 on seeded random inputs; otherwise Unsupported, naming every
    offending module, or BadInput. `model` stays as it is: tracing works on a copy, and torch's
    random state is put back. The weights are float32, or float64 if any of the module's are; half
    precision widens without loss.
    """
    shape = _example_shape(model, input_shape)
    check_state(model)
    hooks = hooked(model)
    if hooks:
        lines = report.failure_lines(model, hooks, None)
        raise Unsupported(f"cushion cannot trace this net: {report.sentence(lines)}")
    with _undisturbed():
        assembly = Assembly(replicate(model), shape)
        try:
            assembly.walk(capture(assembly.replica))
        except CaptureFailed as failure:
            lines = report.call_lines(assembly, {}) + report.failure_lines(model, [], failure)
            raise Unsupported(
                f"cushion cannot trace this net: {report.sentence(lines)}"
            ) from failure
        if any(draft.refused for draft in assembly.drafts):
            raise Unsupported(
                f"cushion cannot trace this net: {report.sentence(report.call_lines(assembly, {}))}"
            )
        into = fold(assembly.drafts, assembly.output)
        alive = live(assembly.drafts, assembly.output)
        idle = report.idle_lines(report.unread(assembly, alive))
        if idle:
            raise Unsupported(
                f"cushion cannot account for every parameter: the logits do not depend on "
                f"{', '.join(line.path for line in idle)}; {idle[0].fix}"
            )
        network = _build(assembly, alive, into)
        wide = any(parameter.dtype == torch.float64 for parameter in model.parameters())
        return _checked(
            assembly.replica, network, network.to(torch.float64 if wide else torch.float32)
        )


def support(
    model: nn.Module, input_shape: Sequence[int] | Tensor | None = None
) -> report.SupportReport:
    """Names every module and operation of `model`, understood or not, why not, and a remedy.

    Never raises for something not understood, only BadInput for weights that hold no numbers.
    Without an input shape, what depends on shapes (a Linear layer that reads an image, say) is left
    to `trace`.
    """
    shape = None if input_shape is None else _example_shape(model, input_shape)
    check_state(model)
    hooks = hooked(model)
    failure: CaptureFailed | None = None
    with _undisturbed():
        assembly = Assembly(model, shape)
        into: dict[int, int] = {}
        idle: list[str] = []
        if not hooks:
            try:
                assembly.replica = replicate(model)
                assembly.walk(capture(assembly.replica))
            except CaptureFailed as failed:
                failure = failed
            if assembly.output >= 0:
                into = fold(assembly.drafts, assembly.output)
                idle = report.unread(assembly, live(assembly.drafts, assembly.output))
        lines = report.call_lines(assembly, into) + report.failure_lines(model, hooks, failure)
        lines += report.module_lines(
            model, {line.path for line in lines}, followed=not hooks and failure is None
        )
        return report.SupportReport(tuple(lines + report.idle_lines(idle)))


def _example_shape(model: nn.Module, given: Sequence[int] | Tensor) -> Shape:
    if not isinstance(model, nn.Module):
        raise BadInput(f"the net must be a torch.nn.Module, not a {type(model).__name__}")
    shape = tuple(int(size) for size in (given.shape[1:] if isinstance(given, Tensor) else given))
    if not shape or min(shape) < 1:
        raise BadInput(
            f"the input shape {shape} must be that of one example, such as (784,) or (3, 32, 32), "
            "without the batch"
        )
    return shape


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No gradients inside, and torch's random state afterwards as before."""
    state = torch.get_rng_state()
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_rng_state(state)


def _build(assembly: Assembly, alive: set[int], into: dict[int, int]) -> Network:
    """The live drafts as nodes, in float64 and still sharing tensors with the replica."""
    nodes: list[Node] = []
    place: dict[int, int] = {}
    for index in sorted(alive | {0}):
        draft = assembly.drafts[index]
        if index in into:
            place[index] = place[into[index]]
            continue
        assert draft.op is not None and draft.shape is not None  # noqa: PT018
        place[index] = len(nodes)
        nodes.append(
            Node(
                len(nodes), draft.name, draft.op, tuple(place[i] for i in draft.inputs), draft.shape
            )
        )
    network = Network(tuple(nodes))
    if not network.affine_layers:
        raise Unsupported(
            "the net has no affine layer, so there is nothing to measure; give it Linear or Conv2d "
            "layers"
        )
    if network.classes < 2:
        raise Unsupported(
            "the net returns one number an example; give it one logit per class, at least two"
        )
    return network


def _checked(replica: nn.Module, exact: Network, network: Network) -> Network:
    """`network`, once compared with the module on seeded random batches of two sizes.

    `exact` is the same net in float64, where a wrong rule cannot hide behind rounding.
    """
    generator = torch.Generator().manual_seed(0)
    for batch in (2, 1):
        x = torch.randn(batch, *exact.input_shape, generator=generator, dtype=torch.float64)
        x[1:] = torch.rand(batch - 1, *exact.input_shape, generator=generator, dtype=torch.float64)
        x = x.to(exact.device)
        try:
            expected = replica(x.clone())
        except Exception as error:
            raise Unsupported(
                f"the net fails on a batch of shape {tuple(x.shape)} ({first_line(error)}); its "
                "forward must work for any batch size, in float64"
            ) from error
        scale = float(expected.abs().max())
        for traced, tolerance in ((exact, _EXACT), (network, _ROUNDED)):
            gap = float((traced.forward(x.to(traced.dtype)) - expected).abs().max())
            if not gap <= tolerance * scale:
                raise Unsupported(
                    f"the traced net differs from the module by {gap:.3g} on random inputs (logits "
                    f"up to {scale:.3g}, {traced.dtype} arithmetic), so some operation does not do "
                    "what its name says, such as writing over a tensor that is used again; write "
                    "the forward without such side effects"
                )
    return network
