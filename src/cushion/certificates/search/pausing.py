"""A descent that can be left and taken up again: its parameters, their moments, its clock.

Nothing in here is trusted: a state that someone altered gives a worse net, or another one, and what
counts is still the message of what comes out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cushion.errors import Malformed

_NONE: Mapping[str, Tensor] = {}
_MOMENTS = ("exp_avg", "exp_avg_sq")
_EVERY = 5.0  # seconds between two states that are kept, and at least so many times what one takes
_SHARE = 50.0


@dataclass(frozen=True)
class Paused:
    """A descent as it was: tensors by name, the seconds and steps that it took, its mean error.

    Of a try of the integer search also its number, its phase, how long that is to be, and the
    seconds that went before it.
    """

    tensors: Mapping[str, Tensor]
    seconds: float
    steps: int
    error: float
    tries: int = 0
    phase: str = ""
    whole: float = 0.0
    before: float = 0.0

    def __post_init__(self) -> None:
        clock = (self.seconds, self.whole, self.before)
        if not all(0 <= part < math.inf for part in clock) or not 0 <= self.error <= 1:
            raise Malformed("a state of a search whose clock or error is no such number")
        if not (0 <= self.steps < 2**53 and 0 <= self.tries < 2**53):
            raise Malformed("a state of a search whose number of steps is no such number")


class Keeper:
    """Hands a state to `keep` every few seconds, so that keeping takes a fiftieth of the time."""

    def __init__(self, keep: Callable[[Paused], None] | None) -> None:
        self._keep, self._wait, self._last = keep, _EVERY, time.monotonic()

    def offer(self, make: Callable[[], Paused]) -> None:
        begin = time.monotonic()
        if self._keep is None or begin - self._last < self._wait:
            return
        self._keep(make())
        self._last = time.monotonic()
        self._wait = max(_EVERY, _SHARE * (self._last - begin))


def state_of(
    model: nn.Module, optimiser: torch.optim.Optimizer, also: Mapping[str, Tensor] = _NONE
) -> dict[str, Tensor]:
    """The parameters and their moments, copied, and what else the model remembers."""
    found = {f"also {name}": tensor.detach().clone() for name, tensor in also.items()}
    for name, parameter in model.named_parameters():
        moments = optimiser.state.get(parameter, {})
        if moments:
            found[name] = parameter.detach().clone()
            found |= {f"{name} {kind}": moments[kind].detach().clone() for kind in _MOMENTS}
    return found


def take_up(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    paused: Paused,
    also: Mapping[str, Tensor] = _NONE,
) -> None:
    """Put a state back, also into the tensors of `also`; Malformed unless it is one of such a
    descent, all its numbers finite.
    """
    trained = {id(one) for group in optimiser.param_groups for one in group["params"]}
    parts = {name: one for name, one in model.named_parameters() if id(one) in trained}
    names = {name for one in parts for name in (one, *(f"{one} {kind}" for kind in _MOMENTS))}
    besides = {f"also {name}": tensor for name, tensor in also.items()}
    if names | set(besides) != set(paused.tensors):
        raise Malformed("a state of a search with the numbers of another net")
    for name, tensor in paused.tensors.items():
        like = besides[name] if name in besides else parts[name.split(" ")[0]]
        if (tensor.shape, tensor.dtype) != (like.shape, like.dtype):
            raise Malformed(f"a state of a search whose {name} has another shape or type")
        if not bool(torch.isfinite(tensor).all()):
            raise Malformed(f"a state of a search whose {name} is not finite")
        if name.endswith(_MOMENTS[1]) and bool((tensor < 0).any()):
            raise Malformed(f"a state of a search whose {name} is negative")
    with torch.no_grad():
        for name, tensor in besides.items():
            tensor.copy_(paused.tensors[name])
        for name, parameter in parts.items():
            parameter.copy_(paused.tensors[name])
            moments = {kind: paused.tensors[f"{name} {kind}"].clone() for kind in _MOMENTS}
            optimiser.state[parameter] = {"step": torch.tensor(float(paused.steps)), **moments}
