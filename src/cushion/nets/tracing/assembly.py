"""Walks the graph of torch calls and drafts one operation of the net for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils import parametrize

from cushion.errors import BadInput
from cushion.nets.operations import Input, Operation
from cushion.nets.operations.operation import Shape
from cushion.nets.operations.vocabulary import (
    BATCH,
    FUNCTIONS,
    METHODS,
    MODULES,
    Feature,
    Refused,
    Step,
    options_of,
    plain_type,
)
from cushion.nets.tracing.refusals import refusal


@dataclass(eq=False)
class Draft:
    """One call of the module: what it becomes, or why it is not understood."""

    name: str
    module: str
    role: str = ""
    op: Operation | None = None  # None where not understood, or where the shapes are not known
    inputs: tuple[int, ...] = ()
    shape: Shape | None = None
    # id() of every parameter and buffer that its numbers come from
    reads: frozenset[int] = frozenset()
    refused: Refused | None = None


class _Unknown:
    """A size that is not known because the input shape is not."""


@dataclass(eq=False)
class Assembly:
    """Drafts in the order of the calls; `output` is the draft of the logits, -1 without one."""

    replica: nn.Module
    input_shape: Shape | None
    drafts: list[Draft] = field(default_factory=list)
    output: int = -1
    _values: dict[fx.Node, Any] = field(default_factory=dict)
    _sources: dict[fx.Node, frozenset[int]] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def walk(self, graph: fx.Graph) -> None:
        """Draft every call; never raises for what is not understood (the draft says so)."""
        for node in graph.nodes:
            arguments = [self._values[n] for n in node.all_input_nodes]
            self._sources[node] = frozenset().union(
                *(self._sources[n] for n in node.all_input_nodes)
            )
            if node.op == "placeholder":
                self._values[node] = self._placeholder(node)
            elif node.op == "get_attr":
                self._values[node] = self._attribute(str(node.target))
                self._sources[node] = frozenset({id(self._values[node])})
            elif node.op == "output":
                self._finish(node)
            elif any(isinstance(a, Feature) for a in _leaves(arguments)):
                self._values[node] = self._call(node)
            else:
                self._values[node] = self._constant(node, arguments)

    def _placeholder(self, node: fx.Node) -> Any:
        if not self.drafts:
            self.drafts.append(Draft("input", "input", "input", Input(), (), self.input_shape))
            return Feature(0, self.input_shape)
        if node.args:
            return node.args[0]
        return self._refuse(
            node, Refused("the net reads a second input", "give it one tensor, the batch")
        )

    def _attribute(self, path: str) -> Any:
        value: Any = self.replica
        for part in path.split("."):
            value = getattr(value, part)
        return value

    def _constant(self, node: fx.Node, arguments: list[Any]) -> Any:
        """A value that does not depend on the input: computed here and now, in float64."""
        if any(isinstance(a, _Unknown) for a in _leaves(arguments)):
            return _Unknown()
        args, kwargs = self._resolve(node)
        try:
            if node.op == "call_module":
                return self.replica.get_submodule(str(node.target))(*args, **kwargs)
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            return node.target(*args, **kwargs)  # type: ignore[operator]
        except Exception as error:
            return self._refuse(node, Refused(f"it fails ({error})", "check the net's forward"))

    def _call(self, node: fx.Node) -> Any:
        args, kwargs = self._resolve(node)
        if not isinstance(node.target, str) or node.op == "call_method":
            sizes = self._shape_query(node, args)
            if sizes is not None:
                return sizes
        try:
            result = self._apply_rule(node, args, kwargs)
        except Refused as refused:
            return self._refuse(node, refused)
        except TypeError as error:  # arguments that the rule does not have
            return self._refuse(
                node,
                Refused(f"its arguments are not understood ({error})", "use its basic options"),
            )
        if isinstance(result, Feature):
            self._note(node, "does nothing in eval mode")
            return result
        made = self._draft(node, result)
        if result.in_place:
            for other, value in self._values.items():
                if isinstance(value, Feature) and value is args[0]:
                    self._values[other] = made
        return made

    def _apply_rule(self, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Feature | Step:
        if "input" in kwargs:
            args = [kwargs.pop("input"), *args]
        if node.op == "call_module":
            module = self.replica.get_submodule(str(node.target))
            rule = MODULES.get(plain_type(module))
            if rule is None:
                raise refusal(plain_type(module).__name__)
            return rule(*args, **kwargs, **options_of(module))
        table: dict[Any, Any] = METHODS if node.op == "call_method" else FUNCTIONS
        if node.target not in table:
            raise refusal(_function_name(node))
        return table[node.target](*args, **kwargs)  # type: ignore[no-any-return]

    def _draft(self, node: fx.Node, step: Step) -> Feature:
        inputs, shapes = tuple(x.index for x in step.inputs), [x.shape for x in step.inputs]
        made = None
        following: Step | None = step
        while following is not None:
            draft = Draft(self._name(node), self._module_name(node), following.role, None, inputs)
            draft.reads = self._sources[node] | self._module_state(node)
            self.drafts.append(draft)
            if all(shape is not None for shape in shapes):
                try:
                    draft.op = following.build(*shapes)
                    draft.shape = draft.op.output_shape(*shapes)
                except Refused as refused:
                    draft.refused = refused
                except BadInput as error:
                    raise BadInput(f"layer {draft.name}: {error}") from error
            made = Feature(len(self.drafts) - 1, draft.shape, draft.refused is None)
            inputs, shapes, following = (made.index,), [made.shape], following.then
        assert made is not None
        return made

    def _refuse(self, node: fx.Node, refused: Refused) -> Feature:
        features = [
            v
            for n in node.all_input_nodes
            for v in _leaves([self._values[n]])
            if isinstance(v, Feature)
        ]
        if (
            features
            and not all(f.known for f in features)
            and _function_name(node) in ("getitem", "getattr")
        ):
            return features[0]  # the parts of an output that is already refused
        reads = self._sources[node]
        # one line about the module says it all: its parameters are not idle
        if node.op == "call_module":
            module = self.replica.get_submodule(str(node.target))
            reads |= {id(t) for t in (*module.parameters(), *module.buffers())}
        inputs = tuple(f.index for f in features)
        self.drafts.append(
            Draft(self._name(node), self._module_name(node), "", None, inputs, None, reads, refused)
        )
        return Feature(len(self.drafts) - 1, None, known=False)

    def _note(self, node: fx.Node, role: str) -> None:
        self.drafts.append(Draft(self._name(node), self._module_name(node), role))

    def _shape_query(self, node: fx.Node, args: list[Any]) -> Any:
        """The answer to x.size(), x.shape, x.dim(), ... or None if `node` is another call."""
        name = _function_name(node)
        if name == "getattr" and args[1] in ("shape", "ndim"):
            name, args = {"shape": "size", "ndim": "dim"}[args[1]], args[:1]
        x = args[0]
        if name not in ("size", "dim", "ndimension", "len") or not isinstance(x, Feature):
            return None
        self._note(node, "shape only")
        if name == "len":
            return BATCH
        if x.shape is None:
            return BATCH if name == "size" and args[1:] == [0] else _Unknown()
        sizes = torch.Size((BATCH, *x.shape))
        return len(sizes) if name != "size" else sizes[args[1]] if len(args) > 1 else sizes

    def _finish(self, node: fx.Node) -> None:
        result = self._resolve(node)[0][0]
        if isinstance(result, Feature):
            self.output = result.index
            if result.shape is not None and len(result.shape) != 1:
                self.drafts[result.index].refused = Refused(
                    f"the net returns {result.shape} for each example and not one logit a class",
                    "flatten or pool the feature map before the last layer",
                )
        else:
            self._refuse(
                node,
                Refused(f"the net returns a {type(result).__name__}", "return the logits alone"),
            )

    def _resolve(self, node: fx.Node) -> tuple[list[Any], dict[str, Any]]:
        look_up = self._values.__getitem__
        args = fx.node.map_arg(node.args, look_up)
        return list(args), dict(fx.node.map_arg(node.kwargs, look_up))

    def _name(self, node: fx.Node) -> str:
        """The path of a module; for a function, its caller's path and its own name."""
        if node.op == "call_module":
            base = str(node.target)
        else:
            stack = node.meta.get("nn_module_stack") or {}
            caller = next(reversed(stack.values()))[0] if stack else ""
            base = f"{caller}.{node.name}" if caller else node.name
        name, count = base, 1
        while name in self._names:
            count += 1
            name = f"{base}#{count}"
        self._names.add(name)
        return name

    def _module_name(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return type(self.replica.get_submodule(str(node.target))).__name__
        return _function_name(node)

    def _module_state(self, node: fx.Node) -> frozenset[int]:
        """id() of the tensors that a rule reads from a module, and of what makes them."""
        if node.op != "call_module":
            return frozenset()
        module = self.replica.get_submodule(str(node.target))
        read: set[int] = set()
        for name, value in options_of(module).items():
            if parametrize.is_parametrized(module, name):
                made_from = module.get_submodule(f"parametrizations.{name}")
                read.update(id(t) for t in (*made_from.parameters(), *made_from.buffers()))
            elif isinstance(value, Tensor):
                read.add(id(value))
        return frozenset(read)


def _function_name(node: fx.Node) -> str:
    return (
        node.target
        if isinstance(node.target, str)
        else getattr(node.target, "__name__", str(node.target))
    )


def _leaves(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _leaves(value)
        else:
            yield value
