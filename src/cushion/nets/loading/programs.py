"""A torch.export program as a plain module whose calls the trace understands.

A program's graph is written in ATen calls and guarded to the batch size of its example. Here each
understood call is replaced by the torch function it stands for, and the guards are dropped, so the
net reads batches of any size. An ATen call without such a function stays as it is: the trace then
names it and refuses.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.nn import functional as F

from cushion.errors import Unsupported

_ATEN = torch.ops.aten
_SAME_NAME = (
    "linear conv2d relu max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d dropout"
)
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    **{getattr(_ATEN, name).default: getattr(F, name) for name in _SAME_NAME.split()},
    _ATEN.conv2d.padding: F.conv2d,
    _ATEN.relu_.default: torch.relu_,
    _ATEN.feature_dropout.default: F.dropout2d,
    _ATEN.flatten.using_ints: torch.flatten,
    _ATEN.unflatten.int: torch.unflatten,
    _ATEN.squeeze.dim: torch.squeeze,
    _ATEN.unsqueeze.default: torch.unsqueeze,
    _ATEN.add.Tensor: torch.add,
    _ATEN.add_.Tensor: operator.iadd,
    _ATEN.cat.default: torch.cat,
    _ATEN.mean.dim: torch.mean,
}


def plain_module(program: ExportedProgram) -> nn.Module:
    """The program's net in evaluation mode, on any batch; checked against it on its example."""
    guarded = program.module()
    assert isinstance(guarded, fx.GraphModule)
    graph: fx.Graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in guarded.graph.nodes:
        if node.op != "output" and not node.users:
            continue  # the guards, and parts of a result that nothing reads
        getitem = node.target is operator.getitem
        if getitem and node.args[0].target is _ATEN.adaptive_max_pool2d.default:
            # ATen returns the indices too, the torch function does not
            copies[node] = copies[node.args[0]]
            continue
        if node.target in (_ATEN.view.default, _ATEN.reshape.default):
            copies[node] = _reshape(graph, copies, node)
            continue
        copies[node] = graph.node_copy(node, copies.__getitem__)
        _translate(node, copies[node])
    module = fx.GraphModule(guarded, graph).eval()
    _check(guarded, module, program)
    return module


def _translate(node: fx.Node, copy: fx.Node) -> None:
    if node.target in _FUNCTIONS:
        copy.target = _FUNCTIONS[node.target]
    elif node.target is _ATEN.sym_size.int:
        copy.op, copy.target = "call_method", "size"
    elif node.target is _ATEN.batch_norm.default:
        # ATen has weight and bias before the statistics, and a last flag of no effect here.
        x, weight, bias, mean, var, training, momentum, eps, _ = copy.args
        copy.target = F.batch_norm
        copy.args = (x, mean, var, weight, bias, training, momentum, eps)
    elif node.op == "output" and isinstance(copy.args[0], tuple) and len(copy.args[0]) == 1:
        copy.args = (copy.args[0][0],)


def _reshape(graph: fx.Graph, copies: dict[fx.Node, fx.Node], node: fx.Node) -> fx.Node:
    """Export writes the example's batch size into shapes; here the net asks for it."""
    before: Any = node.args[0]
    wanted: Any = node.args[1]
    x, sizes = copies[before], [copies.get(size, size) for size in wanted]
    example = before.meta.get("val")
    if example is not None and isinstance(sizes[0], int) and sizes[0] == example.shape[0]:
        sizes[0] = graph.call_method("size", (x, 0))
    return graph.call_function(torch.reshape, (x, tuple(sizes)))


def _check(guarded: fx.GraphModule, module: nn.Module, program: ExportedProgram) -> None:
    if program.example_inputs is None:
        return
    args, kwargs = program.example_inputs
    with torch.no_grad():
        expected, found = guarded(*args, **kwargs), module(*args, **kwargs)
    if not torch.allclose(expected, found, rtol=1e-4, atol=1e-5):
        raise Unsupported(
            "the torch.export program computes something else than its calls read as torch "
            "functions; export it in evaluation mode, with model.eval()"
        )
