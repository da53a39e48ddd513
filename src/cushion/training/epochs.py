"""What passes through the net: seeded batches, a step of learning, evaluation, fine-tuning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets.batches import as_floats, mix_seed
from cushion.nets.network import Network
from cushion.progress import progress as shown
from cushion.progress import working

EVALUATION_BATCH = 1024
PAD = 4  # zeros on each side of an image before it is cropped


def batches(
    data: Dataset, batch: int, seed: int, epoch: int, *, augment: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """The inputs and labels of an epoch's batches, a function of (seed, epoch) alone."""
    m = len(data)
    generator = torch.Generator().manual_seed(mix_seed(seed, epoch, "order"))
    order = torch.randperm(m, generator=generator).numpy()
    views = draw_views(m, generator) if augment else None
    for start, stop in batch_bounds(m, batch):
        rows = order[start:stop]
        x = data.x[rows] if views is None else crop_and_mirror(data.x[rows], views[rows])
        yield as_floats(x), torch.from_numpy(data.y[rows])


def batch_bounds(m: int, batch: int) -> list[tuple[int, int]]:
    """Consecutive batches; a last single example joins the one before (batch-norm needs two)."""
    starts = list(range(0, m, batch))
    if len(starts) > 1 and m - starts[-1] == 1 and batch > 1:
        starts.pop()
    return list(zip(starts, [*starts[1:], m], strict=True))


def draw_views(m: int, generator: torch.Generator) -> NDArray[np.int64]:
    """[m, 3]: the crop's row and column in each padded image, and whether it is mirrored."""
    corners = torch.randint(0, 2 * PAD + 1, (m, 2), generator=generator)
    mirrored = torch.randint(0, 2, (m, 1), generator=generator)
    return torch.cat([corners, mirrored], dim=1).numpy()


def crop_and_mirror(x: NDArray[Any], views: NDArray[np.int64]) -> NDArray[Any]:
    """Images [b, C, H, W] zero-padded by 4, cropped and mirrored by their views."""
    height, width = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)))
    rows = views[:, :1] + np.arange(height)
    columns = views[:, 1:2] + np.where(views[:, 2:] == 1, np.arange(width)[::-1], np.arange(width))
    examples = np.arange(len(x))[:, None, None, None]
    channels = np.arange(x.shape[1])[:, None, None]
    places = (examples, channels, rows[:, None, :, None], columns[:, None, None, :])
    cropped: NDArray[Any] = padded[places]
    return cropped


def learn(
    optimiser: torch.optim.Optimizer, loss: Tensor, pruned: Iterable[tuple[Tensor, Tensor]]
) -> None:
    """One step down the loss; of each pruned weight, where its mask is set nothing moves.

    Gradients of zero keep the optimiser's state, and with it the weight, at zero.
    """
    optimiser.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    for weight, gone in pruned:
        if weight.grad is not None:  # None: no path leads from this layer to the scores
            weight.grad.masked_fill_(gone, 0.0)
    optimiser.step()


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
            for start in shown(starts, "evaluating", "batch"):
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


def fine_tune(
    net: Network,
    masks: Sequence[Tensor],
    data: Dataset,
    *,
    epochs: int,
    seed: int = 0,
    lr: float = 1e-3,
    batch: int = 128,
    progress: bool = True,
) -> Network:
    """The net with its weights and biases trained on (Adam, cross-entropy), pruned ones zero.

    masks: one per `net.affine_layers`, shaped as the layer's weight, True where it stays. A
    batch-norm that no layer took in is trained but never masked, biases likewise. The order of an
    epoch's examples follows from (seed, epoch) as in training.py, and nothing else is random. `net`
    and the caller's random state are left as they are. A layer that the module calls twice is two
    layers here.
    """
    layers = net.affine_layers
    if epochs < 0 or batch < 1 or not lr > 0:
        given = f"{epochs}, {batch} and {lr:g}"
        raise BadInput(f"fine-tuning takes epochs >= 0, batch >= 1 and lr > 0, not {given}")
    if len(masks) != len(layers):
        said = f"the net has {len(layers)} affine layers, but {len(masks)} masks were given"
        raise BadInput(f"{said}; give one a layer")
    learnt = {node.index: node.affine.to(net.dtype) for node in layers}
    pruned: list[tuple[Tensor, Tensor]] = []
    for node, mask in zip(layers, masks, strict=True):
        weight = learnt[node.index].operator.weight
        if mask.shape != weight.shape:
            shapes = f"{list(mask.shape)}, its weight {list(weight.shape)}"
            raise BadInput(f"the mask of {node.name} is {shapes}")
        if node.affine.kind != "batchnorm":
            pruned.append((weight, ~mask.to(device=weight.device, dtype=torch.bool)))
            weight.masked_fill_(pruned[-1][1], 0.0)
    both = [tensor for one in learnt.values() for tensor in (one.operator.weight, one.bias)]
    tensors = [tensor.requires_grad_() for tensor in both if tensor is not None]
    optimiser = torch.optim.Adam(tensors, lr=lr, fused=True)
    learning = net.with_affine(learnt)
    total = epochs * len(batch_bounds(len(data), batch))
    with torch.enable_grad(), working("fine-tuning", total, "batch", hidden=not progress) as bar:
        for epoch in range(epochs):
            for x, y in batches(data, batch, seed, epoch):
                scores = learning.evaluate(x.to(device=net.device, dtype=net.dtype))
                learn(optimiser, F.cross_entropy(scores, y.to(net.device)), pruned)
                bar.advance()
            if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
                said = f"fine-tuning diverged in epoch {epoch + 1} (a weight is not finite)"
                raise BadInput(f"{said}; lower lr {lr:g}")
    return net.with_affine({index: affine.to(net.dtype) for index, affine in learnt.items()})
