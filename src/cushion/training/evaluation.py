"""Loss and errors of a module on a data set."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cushion.data.dataset import Dataset
from cushion.nets.batches import as_floats
from cushion.progress import progress

EVALUATION_BATCH = 1024


def evaluate(
    module: nn.Module, data: Dataset, device: str | torch.device = "cpu"
) -> tuple[float, int]:
    """Mean cross-entropy and errors in evaluation mode; a tie for the highest is an error."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    loss, errors = 0.0, 0
    try:
        with torch.inference_mode():
            starts = range(0, len(data), EVALUATION_BATCH)
            for start in progress(starts, "evaluating", "batch"):
                rows = np.arange(start, min(start + EVALUATION_BATCH, len(data)))
                y = torch.from_numpy(data.y[rows]).to(device)
                scores = module(as_floats(data.x[rows]).to(device))
                loss += float(F.cross_entropy(scores, y, reduction="sum"))
                errors += int(count_errors(scores, y))
    finally:
        for part, mode in modes.items():
            part.training = mode
    return loss / len(data), errors


def count_errors(scores: Tensor, y: Tensor) -> Tensor:
    """How many rows of [b, classes] do not put the label strictly first; NaN rows are errors."""
    return ((scores >= scores.gather(1, y[:, None])).sum(dim=1) != 1).sum()
