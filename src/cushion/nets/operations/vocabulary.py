"""How operations are read from a module: rules for torch's modules, functions and methods, and why
well-known ones have none.

A rule gets the arguments of the call, with a `Feature` for each tensor that depends on the net's
input, and returns the `Step` that the net takes. One that reads a module gets the module's
attributes under the names of its own parameters: `nn.Conv2d` has a `stride`, and so has F.conv2d.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn.utils import parametrize

from cushion.nets.operations.operation import Operation, Shape

# what a forward sees as its batch size while its shapes are followed: a prime that no layer has
BATCH = 7919

# Which rule reads which module, function or method of torch.
MODULES: dict[type, Callable[..., Result]] = {}
FUNCTIONS: dict[Any, Callable[..., Result]] = {}
METHODS: dict[str, Callable[..., Result]] = {}
WRAPPED: dict[str, Callable[..., Result]] = {}  # functions of other libraries, by their names

Rule = TypeVar("Rule", bound="Callable[..., Result]")


def traces(*calls: Any) -> Callable[[Rule], Rule]:
    """Registers a rule for classes of modules, functions, and methods by their names."""

    def register(rule: Rule) -> Rule:
        for call in calls:
            if isinstance(call, type):
                MODULES[call] = rule
            else:
                (METHODS if isinstance(call, str) else FUNCTIONS)[call] = rule
        return rule

    return register


def options_of(module: nn.Module) -> dict[str, Any]:
    """What the rule for a module reads from it."""
    names = list(inspect.signature(MODULES[plain_type(module)]).parameters)[1:]
    return {name: getattr(module, name) for name in names if hasattr(module, name)}


def plain_type(module: nn.Module) -> type[nn.Module]:
    """The module's class; of a parametrized one (weight_norm, ...) the class it was before."""
    return type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module)


class Refused(Exception):
    """This use of an operation is not understood; the assembly adds where it stands."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason, self.fix = reason, fix


@dataclass(frozen=True, eq=False)
class Feature:
    """A batch of feature maps on its way through the net: the output of draft `index`."""

    index: int
    shape: Shape | None  # of one example; None where it is not known
    known: bool = True  # False after an operation that is not understood


@dataclass(frozen=True, eq=False)
class Step:
    """One operation to add: `build` makes it from the input shapes."""

    role: str
    inputs: tuple[Feature, ...]
    build: Callable[..., Operation]
    # a second operation that reads this one's output; its own `inputs` are empty
    then: Step | None = None
    in_place: bool = False  # whether later readers of the first input see the result instead


def chained(role: str, x: Any, *builds: Callable[[Shape], Operation]) -> Step:
    """Operations one after the other, each made from the shape that the one before it leaves."""
    step = Step(role, (), builds[-1])
    for build in builds[-2::-1]:
        step = Step(role, (), build, then=step)
    return replace(step, inputs=(feature(x),))


# A rule returns its input itself for an operation that changes nothing, and as many as torch does.
Result = Feature | Step | tuple[Step, ...]


def pair(value: Any) -> tuple[int, int]:
    """torch's int-or-pair options as a pair (vertical, horizontal)."""
    numbers = (value,) if isinstance(value, int) else tuple(int(v) for v in value)
    if len(numbers) not in (1, 2):
        reason = f"its option {numbers} does not describe two dimensions"
        raise Refused(reason, "use two-dimensional layers")
    return numbers[0], numbers[-1]


def feature(x: Any) -> Feature:
    """The operand, if it depends on the net's input."""
    if not isinstance(x, Feature):
        fix = "fold the constant into the layer before it, or into the data"
        raise Refused("it combines a feature map with a constant", fix)
    return x


def tensor(value: Any) -> Tensor:
    """A weight: fixed numbers, not something computed from the input."""
    if not isinstance(value, Tensor):
        raise Refused("its weights are computed from the input", "use layers with fixed weights")
    return value


# (names of classes and functions in small letters without underscores, reason, fix)
_TABLE = (
    (
        "rrelu threshold abs exp log pow sqrt glu hardshrink softshrink tanhshrink",
        "its activation has no rule",
        "use ReLU or another supported activation",
    ),
    (
        "layernorm groupnorm instancenorm instancenorm1d instancenorm2d rmsnorm localresponsenorm "
        "normalize layernorm2d",
        "it normalises each example by its own statistics, which is no fixed affine map",
        "use BatchNorm2d or BatchNorm1d",
    ),
    (
        "rnn lstm gru rnncell lstmcell grucell",
        "it is recurrent: the same weights act once per time step",
        "use a feed-forward net",
    ),
    (
        "softmax logsoftmax softmax2d softmin",
        "softmax is not piecewise linear",
        "return the logits (a softmax at the end changes no predicted class; apply it outside)",
    ),
    (
        "mul imul multiply matmul bmm mm einsum baddbmm truediv div bilinear squeezeexcitation "
        "squeezeexcite semodule",
        "it multiplies or divides feature maps, which no affine layer does",
        "use additions and concatenations, and fold constant factors into weights or the data",
    ),
    (
        "multiheadattention transformerencoderlayer transformerencoder transformerdecoderlayer "
        "transformerdecoder transformer scaleddotproductattention multiheadattentionforward",
        "its attention weights are computed from the input",
        "use convolutions, linear layers and ReLU",
    ),
    ("embedding embeddingbag", "it reads words, not numbers", "start the net after the embedding"),
    ("syncbatchnorm", "batch-norm across processes is not understood", "convert it to BatchNorm2d"),
    ("item tolist numpy cpu", "it takes values out of the net", "keep the forward inside torch"),
    ("optimizedmodule", "it is compiled", "pass the module as it was before torch.compile"),
    ("recursivescriptmodule scriptmodule", "it is TorchScript", "pass the module it was made of"),
    (
        "fixedbatch",
        "its program reads batches of one size only",
        "export it with a free batch size (dynamic_shapes)",
    ),
    (
        "dataparallel distributeddataparallel",
        "it only distributes another net",
        "pass the net inside it: model.module",
    ),
)

_REASONS = {name: (reason, fix) for names, reason, fix in _TABLE for name in names.split()}

_GENERIC = (
    "there is no exact rule for it",
    "write it with supported layers (Linear, Conv2d, batch-norm, ReLU, pooling, flatten, add, cat)",
)


def refusal(name: str) -> Refused:
    """Why the class or function called `name` has no rule."""
    return Refused(*_REASONS.get(_plain(name), _GENERIC))


def has_refusal(name: str) -> bool:
    """Whether the table has a reason of its own for the class or function called `name`."""
    return _plain(name) in _REASONS


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
