"""Walks the graph of torch calls and drafts one operation of the net for each."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils import parametrize

from cushion.errors import BadInput
from cushion.nets.operations import Input, Operation, vocabulary
from cushion.nets.operations.operation import Shape
from cushion.nets.operations.vocabulary import (
    BATCH,
    Feature,
    Refused,
    Result,
    Step,
    plain_type,
    refusal,
)


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
    shifted: bool = False  # whether a log-softmax at the end was left out
    called: frozenset[int] = frozenset()  # id() of the submodules that the net calls in eval mode
    _values: dict[fx.Node, Any] = field(default_factory=dict)
    _sources: dict[fx.Node, frozenset[int]] = field(default_factory=dict)
    _names: Counter[str] = field(default_factory=Counter)

    def walk(self, graph: fx.Graph) -> None:
        """Draft every call; never raises for what is not understood (the draft says so)."""
        for node in graph.nodes:
            read = (self._sources[n] for n in node.all_input_nodes)
            self._sources[node] = frozenset().union(*read)
            if node.op == "placeholder":
                self._values[node] = self._placeholder(node)
            elif node.op == "get_attr":
                self._values[node] = self._attribute(node)
                self._sources[node] = frozenset({id(self._values[node])})
            elif node.op == "output":
                self._finish(node)
            elif self._features(node):
                self._values[node] = self._call(node)
            else:
                self._values[node] = self._constant(node)

    def _attribute(self, node: fx.Node) -> Any:
        value = attrgetter(str(node.target))(self.replica)
        if isinstance(value, fx.Proxy):  # what the forward wrote there while it was followed
            reason = "the forward writes to it, so the net changes with every call"
            return self._refuse(node, Refused(reason, "count calls outside of the net"))
        return value

    def _arguments(self, node: fx.Node) -> list[Any]:
        return list(_leaves(self._values[n] for n in node.all_input_nodes))

    def _features(self, node: fx.Node) -> list[Feature]:
        return [value for value in self._arguments(node) if isinstance(value, Feature)]

    def _placeholder(self, node: fx.Node) -> Any:
        if not self.drafts:
            self.drafts.append(Draft("input", "input", "input", Input(), (), self.input_shape))
            return Feature(0, self.input_shape)
        if node.args:
            return node.args[0]
        fix = "give it one tensor, the batch"
        return self._refuse(node, Refused("the net reads a second input", fix))

    def _constant(self, node: fx.Node) -> Any:
        """A value that does not depend on the input: computed here and now, in float64."""
        if any(isinstance(argument, _Unknown) for argument in self._arguments(node)):
            return _Unknown()
        args, kwargs = self._resolve(node)
        try:
            if node.op == "call_module":
                return self._module(node)(*args, **kwargs)
            if node.op == "call_method":
                return getattr(args[0], str(node.target))(*args[1:], **kwargs)
            return node.target(*args, **kwargs)  # type: ignore[operator]
        except Exception as error:
            return self._refuse(node, Refused(f"it fails ({error})", "check the net's forward"))

    def _call(self, node: fx.Node) -> Any:
        args, kwargs = self._resolve(node)
        if (parts := _part_of_several(node, args)) is not None:
            return parts
        if node.op != "call_module" and (sizes := self._shape_query(node, args)) is not None:
            return sizes
        try:
            result = self._apply_rule(node, args, kwargs)
        except Refused as refused:
            return self._refuse(node, refused)
        except TypeError as error:  # arguments that the rule does not have
            reason = f"its arguments are not understood ({error})"
            return self._refuse(node, Refused(reason, "use its basic options"))
        if isinstance(result, Feature):
            self._add(node, "does nothing in eval mode")
            return result
        if isinstance(result, tuple):
            return tuple(self._draft(node, step) for step in result)
        made = self._draft(node, result)
        if result.in_place:
            for other, value in self._values.items():
                if isinstance(value, Feature) and value is args[0]:
                    self._values[other] = made
        return made

    def _apply_rule(self, node: fx.Node, args: list[Any], kwargs: dict[str, Any]) -> Result:
        if "input" in kwargs:
            args = [kwargs.pop("input"), *args]
        if node.op == "call_module":
            module = self._module(node)
            rule = vocabulary.MODULES.get(kind := plain_type(module))
            if rule is None:
                raise refusal(kind.__name__)
            return rule(*args, **kwargs, **vocabulary.options_of(module))
        method = node.op == "call_method"
        table: dict[Any, Any] = vocabulary.METHODS if method else vocabulary.FUNCTIONS
        rule = table.get(node.target) or vocabulary.WRAPPED.get(_function_name(node))
        if rule is None:
            raise refusal(_function_name(node))
        return rule(*args, **kwargs)

    def _draft(self, node: fx.Node, step: Step) -> Feature:
        shapes = [x.shape for x in step.inputs]
        draft = self._add(node, step.role, tuple(x.index for x in step.inputs))
        draft.reads = self._sources[node] | self._module_state(node)
        if all(shape is not None for shape in shapes):
            try:
                draft.op = step.build(*shapes)
                draft.shape = draft.op.output_shape(*shapes)
            except Refused as refused:
                draft.refused = refused
            except BadInput as error:
                raise BadInput(f"layer {draft.name}: {error}") from error
        made = Feature(len(self.drafts) - 1, draft.shape, draft.refused is None)
        return made if step.then is None else self._draft(node, replace(step.then, inputs=(made,)))

    def _add(self, node: fx.Node, role: str, inputs: tuple[int, ...] = ()) -> Draft:
        whole = node.op == "call_module"
        kind = type(self._module(node)).__name__ if whole else _function_name(node)
        self.drafts.append(Draft(self._name(node), kind, role, inputs=inputs))
        return self.drafts[-1]

    def _refuse(self, node: fx.Node, refused: Refused) -> Feature:
        features = self._features(node)
        part = _function_name(node) in ("getitem", "getattr")
        if part and not all(feature.known for feature in features):
            return features[0]  # the parts of an output that is already refused
        draft = self._add(node, "", tuple(feature.index for feature in features))
        draft.refused, draft.reads = refused, self._sources[node]
        # one line about the module says it all: its parameters are not idle
        if node.op == "call_module":
            draft.reads |= _state(self._module(node))
        return Feature(len(self.drafts) - 1, None, known=False)

    def _shape_query(self, node: fx.Node, args: list[Any]) -> Any:
        """The answer to x.size(), x.shape, x.dim(), ... or None if `node` is another call."""
        name = _function_name(node)
        if name == "getattr" and args[1] in ("shape", "ndim"):
            name, args = {"shape": "size", "ndim": "dim"}[args[1]], args[:1]
        x = args[0]
        if name not in ("size", "dim", "ndimension", "len") or not isinstance(x, Feature):
            return None
        self._add(node, "shape only")
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
                said = f"the net returns {result.shape} for each example and not one logit a class"
                fix = "flatten or pool the feature map before the last layer"
                self.drafts[result.index].refused = Refused(said, fix)
        else:
            reason = f"the net returns a {type(result).__name__}"
            self._refuse(node, Refused(reason, "return the logits alone"))

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
        self._names[base] += 1
        return base if self._names[base] == 1 else f"{base}#{self._names[base]}"

    def _module(self, node: fx.Node) -> nn.Module:
        return self.replica.get_submodule(str(node.target))

    def _module_state(self, node: fx.Node) -> frozenset[int]:
        """id() of the tensors that a rule reads from a module, and of what makes them."""
        if node.op != "call_module":
            return frozenset()
        module = self._module(node)
        read: set[int] = set()
        for name, value in vocabulary.options_of(module).items():
            if parametrize.is_parametrized(module, name):
                read |= _state(module.get_submodule(f"parametrizations.{name}"))
            elif isinstance(value, Tensor):
                read.add(id(value))
        return frozenset(read)


def _part_of_several(node: fx.Node, args: list[Any]) -> Any:
    """One of the features that chunk, split or max gave, or None if `node` is another call."""
    if not args or not isinstance(args[0], (tuple, list)):
        return None
    if node.target is operator.getitem:
        return args[0][args[1]]
    return args[0][0] if node.target is getattr and args[1] == "values" else None


def _function_name(node: fx.Node) -> str:
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverload):  # a call of a torch.export program
        return str(target.overloadpacket.__name__)
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def _state(module: nn.Module) -> frozenset[int]:
    return frozenset(id(t) for t in (*module.parameters(), *module.buffers()))


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _leaves(value)
        else:
            yield value
