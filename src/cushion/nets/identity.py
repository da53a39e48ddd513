"""The numbers that make a net the net it is, whatever kind of net: what a fingerprint reads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from cushion.nets.classifier import Logits, answers_only, is_program, is_quantised, unwrapped
from cushion.nets.normalise import Normalised


def numbers_of(model: Any) -> dict[str, Tensor]:
    """Every parameter and buffer of the net by name, a shared one under each of its names.

    Of a net that shows none of its numbers, those that it was made of: what a scikit-learn
    classifier learned, the bytes of an .onnx file, the whole numbers of a quantised layer, the
    constants of a frozen program. `Logits` around a net changes nothing.
    """
    module = unwrapped(model)
    if isinstance(module, Logits):
        module = module.inner
    if (own := getattr(module, "numbers", None)) is not None and answers_only(module):
        return dict(own())
    if isinstance(module, Normalised):
        inner = {f"inner.{name}": tensor for name, tensor in numbers_of(module.inner).items()}
        return {"mean": module.mean, "std": module.std, **inner}
    named: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    named |= dict(module.named_buffers(remove_duplicate=False))
    if is_program(module):
        return named | _constants(module)
    return named | _packed(module)


def _constants(program: Any) -> dict[str, Tensor]:
    """The tensors in a program's graph; freezing turns parameters into them."""
    graph = program.inlined_graph  # kept, because its nodes live in it
    nodes = graph.findAllNodes("prim::Constant")
    kept = (one for one in nodes if one.hasAttribute("value") and one.kindOf("value") == "t")
    return {f"constant.{at}": one.t("value") for at, one in enumerate(kept)}


def _packed(module: nn.Module) -> dict[str, Tensor]:
    """The whole numbers, scales and zero points inside quantised layers, which no list names."""
    found: dict[str, Tensor] = {}
    for path, layer in module.named_modules():
        if not is_quantised(layer) or not callable(weight_of := getattr(layer, "weight", None)):
            continue
        weight, bias = weight_of(), layer.bias()
        found[f"{path}.weight"] = weight.int_repr()
        if weight.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            found[f"{path}.scale"] = torch.tensor(weight.q_scale(), dtype=torch.float64)
        else:
            found[f"{path}.scale"] = weight.q_per_channel_scales()
        if bias is not None:
            found[f"{path}.bias"] = bias
    return found
