"""support(): what the trace understands of a net, and how each family of measures sees it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from cushion.data import Dataset
from cushion.errors import BadInput, CushionError, Remark
from cushion.measures.families import FAMILIES
from cushion.measures.family import Family
from cushion.measures.sight import look, noise
from cushion.nets import tracing
from cushion.nets.batches import as_batch
from cushion.nets.classifier import answers_only, as_module, kind_of
from cushion.nets.hooked.probe import shown
from cushion.nets.tracing.report import FamilyWay, SupportLine, SupportReport
from cushion.nets.view import plain, way_of

_ROWS = 2


def support(model: Any, input_shape: Sequence[int] | Tensor | None = None) -> SupportReport:
    """How each family of measures sees the model, and what the trace understands of it.

    model: anything that `measure` takes. `lines` name every module and operation, understood by the
    trace or not, and a remedy; none for a net that gives answers only. With the shape of an
    example, or a batch of them, `ways` says by family which way the net is seen, or why it is not.
    The model is not changed.
    """
    sample = None if input_shape is None else _sample(input_shape)
    try:
        rows = None if sample is None else as_batch(sample.x)
        module = plain(as_module(model, rows, classes=None if sample is None else sample.classes))
    except BadInput:
        if not isinstance(model, nn.Module):
            raise
        module = model  # what it cannot read is said below, family by family
    lines: tuple[SupportLine, ...] = ()
    if not answers_only(module):
        known = tracing.support(module, input_shape).lines
        lines = tuple(replace(line, path=shown(line.path)) for line in known)
    ways = () if sample is None else tuple(_way(model, sample, family) for family in FAMILIES)
    return SupportReport(lines, ways, "" if lines else f"{kind_of(module)} gives answers only")


def _way(model: Any, sample: Dataset, family: Family) -> FamilyWay:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Remark)  # the rows are noise
            seen = look(model, sample, (family,), named=True)
    except CushionError as refused:
        return FamilyWay(family.name, "", str(refused))
    return FamilyWay(family.name, way_of(seen.net))


def _sample(given: Sequence[int] | Tensor) -> Dataset:
    if isinstance(given, Tensor):
        x = given[:_ROWS].detach().cpu().numpy()
        x = x.astype(np.float32 if x.dtype.kind == "f" else np.int64)
    else:
        return noise(given)
    return Dataset(x, np.arange(len(x)) % 2)
