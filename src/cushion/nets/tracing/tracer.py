"""`trace` turns a module into a Network or says why not; `support` says it line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from cushion.errors import BadInput, Unsupported
from cushion.nets.classifier import answers_only, kind_of
from cushion.nets.network import Network, Node
from cushion.nets.operations.affine import KINDS, Affine, role
from cushion.nets.operations.operation import Shape
from cushion.nets.operators import Positionwise
from cushion.nets.tracing import report
from cushion.nets.tracing.assembly import Assembly, Draft
from cushion.nets.tracing.capture import (
    CaptureFailed,
    capture,
    check_state,
    drop_shift,
    first_line,
    replicate,
)

_EXACT = 1e-9  # of the largest logit, in float64: far above rounding, far below any wrong rule
_ROUNDED = 1e-3  # the same once the weights are float32: only an ill-conditioned net comes near


def trace(model: nn.Module, input_shape: Sequence[int] | Tensor) -> Network:
    """The net that `model` computes in eval mode on examples of `input_shape` (or of a batch).

    Guarantee: every parameter and buffer of `model` is used by an understood layer, or is part of a
    submodule that is not called in eval mode and of which nothing is read (the auxiliary heads of
    training: dropped, not counted, named by `support`); and the traced net equals the module in
    float64 on seeded random inputs, but for a log-softmax at its end, which is left out. Otherwise
    Unsupported, naming every offending module, or BadInput. `model` stays as it is: tracing works
    on a copy, and torch's random state is put back. The weights are float32, or float64 if any of
    the module's are; half precision widens without loss.
    """
    if isinstance(model, nn.Module) and answers_only(model):
        said = f"{kind_of(model)} gives answers only (no layers can be seen in it)"
        raise Unsupported(f"{said}; ask for margins, hold-out lines or a certificate")
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        assembly, into, lines, idle = _examine(model, _example_shape(model, input_shape))
        if not all(line.understood for line in lines):
            said = f"cushion cannot trace this net: {report.sentence(lines)}"
            raise Unsupported(f"{said} ({report.WITHOUT})")
        if idle:
            names = ", ".join(line.path for line in idle)
            said = f"the logits do not depend on {names}; {idle[0].fix}"
            raise Unsupported(f"cushion cannot account for every parameter: {said}")
        network = _build(assembly, into)
        wide = any(parameter.dtype == torch.float64 for parameter in model.parameters())
        rounded = network.to(torch.float64 if wide else torch.float32)
        return _checked(assembly.replica, network, rounded, shifted=assembly.shifted)


def support(
    model: nn.Module, input_shape: Sequence[int] | Tensor | None = None
) -> report.SupportReport:
    """Names every module and operation of `model`, understood or not, why not, and a remedy.

    Never raises for something not understood, only BadInput for weights that hold no numbers.
    Without an input shape, what depends on shapes (a Linear layer on an image) is left to `trace`.
    """
    shape = None if input_shape is None else _example_shape(model, input_shape)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        assembly, _, lines, idle = _examine(model, shape)
        rest = report.module_lines(assembly, {line.path for line in lines})
        return report.SupportReport((*lines, *rest, *idle))


def _examine(
    model: nn.Module, shape: Shape | None
) -> tuple[Assembly, dict[int, int], list[report.SupportLine], list[report.SupportLine]]:
    """Drafts, which batch-norm is folded into which layer, and a line for each call and for all
    that stopped the trace; then one for each parameter that nothing reads.
    """
    check_state(model)
    failures = report.hook_lines(model)
    assembly = Assembly(model if failures else replicate(model), shape)
    if not failures:
        try:
            graph, assembly.called = capture(assembly.replica, shape)
            assembly.shifted = drop_shift(graph, assembly.replica)
            assembly.walk(graph)
        except CaptureFailed as failure:
            failures = [report.refused(failure.path, failure.module, failure.refused)]
    into, idle = {}, []
    if assembly.output >= 0:
        into = _fold(assembly.drafts, assembly.output)
        idle = report.idle_lines(assembly, _live(assembly.drafts, assembly.output))
    return assembly, into, report.call_lines(assembly, into) + failures, idle


def _example_shape(model: nn.Module, given: Sequence[int] | Tensor) -> Shape:
    if not isinstance(model, nn.Module):
        raise BadInput(f"the net must be a torch.nn.Module, not a {type(model).__name__}")
    shape = tuple(int(size) for size in (given.shape[1:] if isinstance(given, Tensor) else given))
    if not shape or min(shape) < 1:
        rule = "that of one example, such as (784,) or (3, 32, 32), without the batch"
        raise BadInput(f"the input shape {shape} must be {rule}")
    return shape


def _live(drafts: list[Draft], output: int) -> set[int]:
    """The drafts that the output depends on."""
    reached, pending = set(), [output]
    while pending:
        index = pending.pop()
        if index not in reached:
            reached.add(index)
            pending.extend(drafts[index].inputs)
    return reached


def _fold(drafts: list[Draft], output: int) -> dict[int, int]:
    """Fold batch-norms in place; returns {folded draft: the draft that now does its work}.

    For y = s·(A x + b) + t with one s and t a channel, y = (diag(s) A) x + (s·b + t): the same
    function, in the float64 arithmetic of the trace. A batch-norm stays a layer of its own when its
    input is not affine or is also read by another operation, which needs the value before the
    normalisation.
    """
    alive = sorted(_live(drafts, output))
    readers = Counter(source for index in alive for source in drafts[index].inputs)
    into: dict[int, int] = {}
    for index in alive:
        draft = drafts[index]
        if draft.role not in (role("batchnorm"), role("scale")):
            continue
        source = draft.inputs[0]
        target = into.get(source, source)
        shared = readers[source] > 1 or source == output
        if shared or drafts[target].role not in map(role, KINDS):
            continue
        before, norm = drafts[target].op, draft.op
        if isinstance(before, Affine) and isinstance(before.operator, Positionwise):
            continue  # its channels are on the last axis, those of the factors on the first
        if any(op is not None and not isinstance(op, Affine) for op in (before, norm)):
            continue  # the reshapes around constants that differ from unit to unit
        into[index] = target
        if isinstance(before, Affine) and isinstance(norm, Affine):
            scale, shift = norm.operator.weight, norm.bias
            assert shift is not None
            bias = shift if before.bias is None else before.bias * scale + shift
            factors = scale if before.factors is None else before.factors * scale
            operator = before.operator.scaled(scale)
            drafts[target].op = replace(before, operator=operator, bias=bias, factors=factors)
        drafts[target].reads |= draft.reads
    return into


def _build(assembly: Assembly, into: dict[int, int]) -> Network:
    """The live drafts as nodes, in float64 and still sharing tensors with the replica."""
    nodes: list[Node] = []
    place: dict[int, int] = {}
    for index in sorted(_live(assembly.drafts, assembly.output) | {0}):
        draft = assembly.drafts[index]
        if index in into:
            place[index] = place[into[index]]
            continue
        assert draft.op is not None and draft.shape is not None  # noqa: PT018
        place[index] = len(nodes)
        inputs = tuple(place[i] for i in draft.inputs)
        nodes.append(Node(len(nodes), draft.name, draft.op, inputs, draft.shape))
    network = Network(tuple(nodes))
    if not network.affine_layers:
        said = "the net has no affine layer, so there is nothing to measure"
        raise Unsupported(f"{said}; give it Linear or Conv2d layers")
    if network.classes < 2:
        fix = "give it one logit per class, at least two"
        raise Unsupported(f"the net returns one number an example; {fix}")
    return network


def _checked(replica: nn.Module, exact: Network, network: Network, *, shifted: bool) -> Network:
    """`network`, once compared with the module on seeded random batches of two sizes, rows around
    their mean where a shift of all scores was left out.

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
        expected = _centred(expected) if shifted else expected
        scale = float(expected.abs().max())
        for traced, tolerance in ((exact, _EXACT), (network, _ROUNDED)):
            found = traced.forward(x.to(traced.dtype))
            gap = float(((_centred(found) if shifted else found) - expected).abs().max())
            if not gap <= tolerance * scale:
                raise Unsupported(
                    f"the traced net differs from the module by {gap:.3g} on random inputs (logits "
                    f"up to {scale:.3g}, {traced.dtype} arithmetic), so some operation does not do "
                    "what its name says, such as writing over a tensor that is used again; write "
                    "the forward without such side effects"
                )
    return network


def _centred(scores: Tensor) -> Tensor:
    return scores - scores.mean(dim=1, keepdim=True)
