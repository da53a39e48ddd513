"""How a net is called: in eval mode, in its own precision and place, and left as it was."""

from __future__ import annotations

import inspect
import math
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from cushion.errors import BadInput, CushionError
from cushion.nets.batches import Batch
from cushion.nets.specs import write_shape

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_CALL = "_call_impl"  # of nn.Module: every call of a module passes through it


class NetFailed(BadInput):
    """The net's own code raised on some rows: which, and in its own words."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for every module inside, and each one's own mode again behind."""
    modes = [(module, module.training) for module in model.modules() if hasattr(module, "training")]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def precision(model: nn.Module) -> torch.dtype:
    """What the net reads: as its first floating-point parameter or buffer, its own before those of
    the modules inside; float32 for a net without any.
    """
    numbers = (t.dtype for t in _state(model) if t.is_floating_point())
    return next(numbers, torch.float32)


def place(model: nn.Module) -> torch.device:
    """The device of the net's first parameter or buffer."""
    return next((t.device for t in _state(model)), torch.device("cpu"))


def _state(model: nn.Module) -> Iterator[Tensor]:
    for own in (model.parameters(recurse=False), model.buffers(recurse=False)):
        yield from own
    yield from model.parameters()
    yield from model.buffers()


def fitted(model: nn.Module, rows: Batch) -> Batch:
    """A batch as `suited` makes it, each of several inputs by itself."""
    if isinstance(rows, dict):
        return {name: suited(model, part) for name, part in rows.items()}
    return suited(model, rows)  # type: ignore[no-any-return]


def suited(model: nn.Module, x: Any) -> Any:
    """x where the net is, floats in the net's precision; whole numbers (tokens) keep their type.

    A trace sees nothing of it: it follows the net in float64 throughout.
    """
    if not isinstance(x, Tensor):
        return x
    return x.to(place(model), precision(model) if x.is_floating_point() else x.dtype)


def call(model: nn.Module, x: Any) -> Any:
    """What the net returns on a batch: named parts are passed as keywords, or as one dict to a net
    that takes one argument and none of their names; one tensor as the argument that the net itself
    calls its main input (Hugging Face), or as the first one.
    """
    if isinstance(x, Mapping):
        parts = {name: suited(model, part) for name, part in x.items()}
        return model(parts) if _takes_a_dict(model, parts) else model(**parts)
    main = getattr(model, "main_input_name", None)
    if isinstance(main, str) and main in inspect.signature(model.forward).parameters:
        return model(**{main: suited(model, x)})
    return model(suited(model, x))


def _takes_a_dict(model: nn.Module, names: Collection[str]) -> bool:
    """Whether its forward has exactly one argument that it needs, and takes none of the names."""
    try:
        taken = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):  # some callables of C do not say
        return False
    if any(one.kind is one.VAR_KEYWORD or one.name in names for one in taken):
        return False
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [
        one for one in taken if one.default is one.empty and one.kind is not one.VAR_POSITIONAL
    ]
    return len(needed) == 1 and needed[0].kind in by_place


@contextmanager
def refusing_misfits(model: nn.Module, rows: Batch) -> Iterator[None]:
    """What the net's own code raises becomes one sentence, with a guess at the cause."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        text = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        if "not implemented for" in text:
            kind = str(precision(model)).removeprefix("torch.")
            said = f"torch cannot run this net in {kind} here ({text})"
            raise BadInput(f"{said}; convert it with net.float()") from None
        said = f"the net cannot read examples of {_kind(rows)}: {text.rstrip('.')}"
        raise BadInput(f"{said}{_reads(model)}; {_guess(model, rows)}") from None


def words_of_net(problem: BaseException) -> str:
    """What a net said that raised in its own code; "" for any other error, cushion's own included.

    It is the net's own where a call of a module passed it on, and cushion did not raise it.
    """
    if isinstance(problem, CushionError):
        return str(problem) if isinstance(problem, NetFailed) else ""
    frames = [frame for frame, _ in traceback.walk_tb(problem.__traceback__)]
    called = any(frame.f_code.co_name == _CALL for frame in frames)
    if not called or frames[-1].f_globals.get("__name__", "").partition(".")[0] == "cushion":
        return ""
    return traceback.format_exception_only(problem)[0].strip().splitlines()[0].rstrip(".")


def _kind(rows: Batch) -> str:
    if isinstance(rows, Mapping):
        return "parts " + ", ".join(f"{name} {_kind(part)}" for name, part in rows.items())
    kind = str(rows.dtype).removeprefix("torch.")
    return f"shape {write_shape(tuple(rows.shape[1:])) or 'one number'} ({kind})"


def _first_layer(model: nn.Module) -> tuple[str, nn.Module | None]:
    known = (*_CONVOLUTIONS, nn.Linear, nn.Embedding)
    named = (one for one in model.named_modules() if isinstance(one[1], known))
    return next(named, ("", None))


def _reads(model: nn.Module) -> str:
    """What the net's first layer reads, as far as one can see without running it."""
    name, layer = _first_layer(model)
    if isinstance(layer, _CONVOLUTIONS):
        axes = len(layer.kernel_size)
        return f" (its first layer {name} reads {layer.in_channels} channels and {axes} axes)"
    if isinstance(layer, nn.Linear):
        return f" (its first layer {name} reads {layer.in_features} numbers)"
    if isinstance(layer, nn.Embedding):
        return f" (its first layer {name} reads whole numbers below {layer.num_embeddings})"
    return ""


def _guess(model: nn.Module, rows: Batch) -> str:
    """The likeliest mistake, as the thing to do about it."""
    _, layer = _first_layer(model)
    if isinstance(rows, Mapping):
        taken = list(inspect.signature(model.forward).parameters)
        return f"name the parts as its forward does ({', '.join(taken)})"
    shape = tuple(rows.shape[1:])
    if isinstance(layer, nn.Embedding):
        if rows.is_floating_point():
            return "are these token ids kept as floats? keep them as int64"
        largest = int(rows.max()) if rows.numel() else 0
        if largest >= layer.num_embeddings:
            return f"the rows hold the token {largest}; use the tokeniser of this net"
    elif not rows.is_floating_point():
        return "whole numbers are read as tokens; convert the inputs to float32"
    if isinstance(layer, _CONVOLUTIONS):
        channels, axes = layer.in_channels, len(layer.kernel_size)
        if len(shape) == axes and channels == 1:
            return "the channel axis is missing: give x[:, None]"
        if len(shape) == axes + 1 and shape[-1] == channels != shape[0]:
            return f"the channels come last: move them to the front with {_to_front(axes)}"
        if len(shape) == 1 and shape[0] % channels == 0:
            return f"the examples are flat: reshape them to {channels} channels and their sides"
        if len(shape) == axes + 1 and shape[0] != channels:
            return f"give examples of {channels} channels instead of {shape[0]}"
    if isinstance(layer, nn.Linear) and len(shape) > 1 and math.prod(shape) == layer.in_features:
        return f"flatten the examples to {layer.in_features} numbers, or begin with nn.Flatten()"
    return "give examples of the shape and type that it was trained on"


def _to_front(axes: int) -> str:
    order = ", ".join(map(str, (0, axes + 1, *range(1, axes + 1))))
    return f"x.transpose({order})"
