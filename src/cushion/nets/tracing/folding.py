"""Batch-norms in eval mode are affine: each is folded into the affine layer before it, exactly."""

from __future__ import annotations

from dataclasses import replace

from cushion.nets.operations.affine import KINDS, Affine, role
from cushion.nets.tracing.assembly import Draft


def live(drafts: list[Draft], output: int) -> set[int]:
    """The drafts that the output depends on."""
    reached, pending = set(), [output]
    while pending:
        index = pending.pop()
        if index not in reached:
            reached.add(index)
            pending.extend(drafts[index].inputs)
    return reached


def fold(drafts: list[Draft], output: int) -> dict[int, int]:
    """Fold in place and return {folded draft: the draft that now does its work}.

    For y = s·(A x + b) + t with one s and t a channel, y = (diag(s) A) x + (s·b + t): the same
    function, in the float64 arithmetic of the trace. A batch-norm stays a layer of its own when its
    input is not affine or is also read by another operation, which needs the value before the
    normalisation.
    """
    alive = live(drafts, output)
    readers: dict[int, list[int]] = {index: [] for index in alive}
    for index in sorted(alive):
        for source in drafts[index].inputs:
            readers[source].append(index)
    into: dict[int, int] = {}
    for index in sorted(alive):
        draft = drafts[index]
        if draft.role != role("batchnorm"):
            continue
        source = draft.inputs[0]
        if readers[source] != [index] or source == output:
            continue
        target = into.get(source, source)
        if drafts[target].role not in map(role, KINDS):
            continue
        into[index] = target
        before, norm = drafts[target].op, draft.op
        if isinstance(before, Affine) and isinstance(norm, Affine):
            scale, shift = norm.operator.weight, norm.bias
            assert shift is not None
            bias = shift if before.bias is None else before.bias * scale + shift
            drafts[target].op = replace(before, operator=before.operator.scaled(scale), bias=bias)
        drafts[target].reads |= draft.reads
    return into
