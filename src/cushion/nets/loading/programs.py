"""A torch.export program as a plain module whose calls the trace understands.

A program's graph is written in ATen calls and guarded to the batch size of its example. Here each
understood call is replaced by the torch function it stands for, and the guards are dropped, so the
net reads batches of any size. An ATen call without such a function stays as it is: the module still
answers, and the trace names the call and refuses. A program that needs its example's batch size
after all (it wrote that number into its calls) is run on batches of that size, the last one filled
up.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from cushion.errors import Unsupported
from cushion.nets.loading import aten
from cushion.nets.loading.layer_calls import layers_for_calls


def plain_module(program: ExportedProgram) -> nn.Module:
    """The program's net in evaluation mode, on any batch; checked against it on its example."""
    guarded = program.module()
    assert isinstance(guarded, fx.GraphModule)
    module = fx.GraphModule(guarded, _copy(guarded.graph)).eval()
    layers_for_calls(module)
    if program.example_inputs is None:
        return module
    args, kwargs = program.example_inputs
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        expected = _numbers(guarded(*args, **kwargs))
        try:  # a GraphModule's __call__ would print the failure
            found = _numbers(module.forward(*args, **kwargs))
        except Exception:  # inputs in a shape of their own, such as a dict of tensors
            return guarded
        if not _close(expected, found):
            raise Unsupported(
                "the torch.export program computes something else than its calls read as torch "
                "functions; export it in evaluation mode, with model.eval()"
            )
        one = len(args) == 1 and not kwargs and isinstance(args[0], Tensor) and len(expected) == 1
        if one and not _takes_more(module, args[0], expected[0]):
            return FixedBatch(module, len(args[0]))
    return module


class FixedBatch(nn.Module):
    """A net that reads batches of `rows` examples only, on a batch of any size."""

    def __init__(self, inner: nn.Module, rows: int) -> None:
        super().__init__()
        self.inner, self.rows = inner, rows

    def forward(self, x: Tensor) -> Tensor:
        answers = []
        parts: Any = torch.split(x, self.rows)
        for part in parts:
            filling = part[-1:].expand(self.rows - len(part), *part.shape[1:])
            answers.append(self.inner(torch.cat([part, filling]))[: len(part)])
        return torch.cat(answers)


def _copy(program: fx.Graph) -> fx.Graph:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in program.nodes:
        if node.op != "output" and not node.users and not aten.writes(node):
            continue  # the guards, and parts of a result that nothing reads
        if node.target is operator.getitem and aten.has_indices(node.args[0]):
            # ATen returns the indices too, the torch function does not
            copies[node] = copies[node.args[0]]
            continue
        if node.target in aten.VIEWS:
            copies[node] = _reshape(graph, copies, node)
            continue
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if node.op == "output":
            result: Any = copies[node].args[0]
            if isinstance(result, tuple) and len(result) == 1:
                copies[node].args = result
        else:
            aten.translate(copies[node])
    return graph


def _reshape(graph: fx.Graph, copies: dict[fx.Node, fx.Node], node: fx.Node) -> fx.Node:
    """Export writes the example's batch size into shapes; here the net asks for it."""
    before: Any = node.args[0]
    wanted: Any = node.args[1]
    x, sizes = copies[before], [copies.get(size, size) for size in wanted]
    example = before.meta.get("val")
    if example is not None and isinstance(sizes[0], int) and sizes[0] == example.shape[0]:
        sizes[0] = graph.call_method("size", (x, 0))
    return graph.call_function(torch.reshape, (x, tuple(sizes)))


def _takes_more(module: nn.Module, x: Tensor, expected: Tensor) -> bool:
    """Whether a batch with one example more gets the answers that its examples have."""
    try:
        found = _numbers(module.forward(torch.cat([x, x[:1]])))
    except Exception:
        return False
    return _close([torch.cat([expected, expected[:1]])], found)


def _close(expected: list[Tensor], found: list[Tensor]) -> bool:
    return len(expected) == len(found) and all(
        one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-5)
        for one, other in zip(expected, found, strict=True)
    )


def _numbers(answers: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(answers) if isinstance(leaf, Tensor)]
