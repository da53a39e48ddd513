"""Fine-tuning of a traced net with a mask: what was pruned stays zero while the rest learns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.nets.network import Network
from cushion.progress import working
from cushion.training.epochs import batch_bounds, batches, learn


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
