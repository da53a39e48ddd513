"""support(): what the trace understands of a net, and how each family of measures sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from cushion.data import Dataset
from cushion.errors import CushionError
from cushion.measures.families import FAMILIES
from cushion.measures.family import Family
from cushion.measures.sight import look, noise
from cushion.nets import tracing
from cushion.nets.tracing.report import FamilyWay, SupportReport
from cushion.nets.view import way_of

_ROWS = 2


def support(model: nn.Module, input_shape: Sequence[int] | Tensor | None = None) -> SupportReport:
    """Names every module and operation of `model`, understood by the trace or not, and a remedy.

    With the shape of an example, or a batch of them, `ways` says by family which way the net is
    seen, or why it is not. The model is not changed.
    """
    report = tracing.support(model, input_shape)
    if input_shape is None:
        return report
    sample = _sample(input_shape)
    return replace(report, ways=tuple(_way(model, sample, family) for family in FAMILIES))


def _way(model: Any, sample: Dataset, family: Family) -> FamilyWay:
    try:
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
