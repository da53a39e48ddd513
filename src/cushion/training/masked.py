"""Fine-tuning of a traced net with a mask: what was pruned stays zero while the rest learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets.network import Network
from cushion.nets.operations import Affine
from cushion.progress import working
from cushion.training.epochs import batch_bounds, batches


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
        raise BadInput(
            f"fine-tuning takes epochs >= 0, batch >= 1 and lr > 0, not {epochs}, {batch} and "
            f"{lr:g}"
        )
    if len(masks) != len(layers):
        raise BadInput(
            f"the net has {len(layers)} affine layers, but {len(masks)} masks were given; give one "
            "a layer"
        )
    changes: dict[int, Affine] = {}
    pruned: list[tuple[Tensor, Tensor]] = []
    for node, mask in zip(layers, masks, strict=True):
        affine = node.affine
        weight = affine.operator.weight.detach().clone()
        if mask.shape != weight.shape:
            raise BadInput(
                f"the mask of {node.name} is {list(mask.shape)}, its weight {list(weight.shape)}"
            )
        if affine.kind != "batchnorm":
            gone = ~mask.to(device=weight.device, dtype=torch.bool)
            weight.masked_fill_(gone, 0.0)
            pruned.append((weight, gone))
        bias = None if affine.bias is None else affine.bias.detach().clone().requires_grad_()
        changes[node.index] = replace(
            affine, operator=affine.operator.with_weight(weight.requires_grad_()), bias=bias
        )
    _train(net.with_affine(changes), changes, pruned, data, epochs, seed, lr, batch, progress)
    return net.with_affine({index: _detached(affine) for index, affine in changes.items()})


def _train(
    net: Network,
    changes: dict[int, Affine],
    pruned: list[tuple[Tensor, Tensor]],
    data: Dataset,
    epochs: int,
    seed: int,
    lr: float,
    batch: int,
    progress: bool,
) -> None:
    """Update `changes` in place; masked gradients keep Adam's state, and the weight, at zero."""
    tensors = [
        tensor
        for one in changes.values()
        for tensor in (one.operator.weight, one.bias)
        if tensor is not None
    ]
    optimiser = torch.optim.Adam(tensors, lr=lr, fused=True)
    total = epochs * len(batch_bounds(len(data), batch))
    with (
        torch.enable_grad(),
        working("fine-tuning", total, "batch", hidden=not progress) as bar,
    ):
        for epoch in range(epochs):
            for x, y in batches(data, batch, seed, epoch):
                scores = net.evaluate(x.to(device=net.device, dtype=net.dtype))
                loss = F.cross_entropy(scores, y.to(net.device))
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                for weight, gone in pruned:
                    if weight.grad is not None:  # None: no path leads from this layer to the scores
                        weight.grad.masked_fill_(gone, 0.0)
                optimiser.step()
                bar.advance()
            if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
                raise BadInput(
                    f"fine-tuning diverged in epoch {epoch + 1} (a weight is not finite); lower lr "
                    f"{lr:g}"
                )


def _detached(affine: Affine) -> Affine:
    operator = affine.operator.with_weight(affine.operator.weight.detach())
    return replace(
        affine, operator=operator, bias=None if affine.bias is None else affine.bias.detach()
    )
