"""A try of the integer search under way: kept every few seconds, and taken up after a kill.

A try on images takes most of a search, minutes to an hour. Its two long phases are kept: learning
with real weights, and settling on the grid. Short tries (tables, small images) and the polishing of
the last layer are not: what they lose is said in docs/trust.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from cushion.certificates.search.integer.trainable import TrainableIntegerNet
from cushion.certificates.search.integer.warm_start import FloatTwin
from cushion.certificates.search.pausing import Keeper, Paused, state_of, take_up
from cushion.certificates.search.sample import Sample
from cushion.data.counter import stream
from cushion.errors import Malformed

LEARNING, SETTLING = "learning", "settling"
_MOST_SHIFT = 62


@dataclass
class Course:
    """One try: its number, where it was left (None: at its beginning), and who keeps its states."""

    tries: int = 0
    start: Paused | None = None
    keeper: Keeper = field(default_factory=lambda: Keeper(None))
    _begin: float = field(default_factory=lambda: time.monotonic())
    _phase: str = ""
    _whole: float = 0.0
    _phase_begin: float = 0.0
    _first: int = 0

    def __post_init__(self) -> None:
        if self.start is not None:
            self._begin -= self.start.before + self.start.seconds

    @property
    def spent(self) -> float:
        """Seconds of this try, with those before it was killed."""
        return time.monotonic() - self._begin

    def is_past(self, phase: str) -> bool:
        """Whether the try was left after this phase."""
        return self.start is not None and phase == LEARNING and self.start.phase == SETTLING

    def left_in(self, phase: str) -> Paused | None:
        return self.start if self.start is not None and self.start.phase == phase else None

    def through(self, phase: str, steps: float, seconds: float) -> Iterator[tuple[int, float]]:
        """(step, progress up to 1.0) of a phase, through its steps, or through its seconds if those
        end sooner; from where it was left.
        """
        left = self.left_in(phase)
        self._phase, self._whole = phase, seconds if left is None else left.whole
        self._first = step = 0 if left is None else left.steps
        self._phase_begin = time.monotonic() - (0.0 if left is None else left.seconds)
        progress = 0.0
        while progress < 1.0:
            spent = (time.monotonic() - self._phase_begin) / max(self._whole, 1e-9)
            progress = min(1.0, max((step + 1) / steps, spent))
            yield step, progress
            step += 1

    def take_up(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        sample: Sample,
        also: Mapping[str, Tensor],
    ) -> float:
        """Put back where the phase was left; its mean error."""
        if self.start is None:
            return 0.5
        take_up(model, optimiser, self.start, also)
        # other batches than those that it has seen
        other = stream("a try taken up", self.tries, 1, self.start.steps)[0] >> 1
        sample.generator.manual_seed(int(other))
        return self.start.error

    def offer(self, step: int, error: float, make: Callable[[], dict[str, Tensor]]) -> None:
        """Have the state kept, if it is time for it."""
        if step <= self._first:  # without moments
            return

        def paused() -> Paused:
            spent = time.monotonic() - self._phase_begin
            before = max(0.0, self.spent - spent)
            now = (spent, step, error, self.tries, self._phase, self._whole, before)
            return Paused(make(), *now)

        self.keeper.offer(paused)


def learned(twin: FloatTwin, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    return state_of(twin, optimiser, remembered(twin))


def remembered(twin: FloatTwin) -> dict[str, Tensor]:
    """What the twin knows besides its parameters: masks, and means and variances."""
    found = {f"mask {key}": mask for key, mask in twin.masks.items()}
    for key, norm in twin.norms.items():
        for name in ("running_mean", "running_var"):
            if isinstance(part := getattr(norm, name, None), Tensor):
                found[f"{name} {key}"] = part
    return found


def settled(model: TrainableIntegerNet, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    return state_of(model, optimiser, held(model) | _steps(model))


def held(model: TrainableIntegerNet) -> dict[str, Tensor]:
    """What is on the grid already, and where."""
    return {
        f"{name} {at}": getattr(holder, name)
        for at, holder in enumerate(model.held())
        for name in ("mask", "held", "grid")
    }


def _steps(model: TrainableIntegerNet) -> dict[str, Tensor]:
    shifts, biases, units = (
        torch.tensor(list(map(float, part.values())), dtype=torch.float64)
        for part in (model.shifts, model.bias_shifts, model.units)
    )
    return {"shifts": shifts, "bias_shifts": biases, "units": units}


def take_up_settling(
    course: Course, model: TrainableIntegerNet, optimiser: torch.optim.Optimizer, sample: Sample
) -> float:
    """Put back a net that was settling when it was left; its mean error."""
    steps = _steps(model)
    error = course.take_up(model, optimiser, sample, held(model) | steps)
    for name in ("shifts", "bias_shifts"):
        values = steps[name].tolist()
        if not all(value.is_integer() and 0 <= value <= _MOST_SHIFT for value in values):
            raise Malformed(f"a state of a search with {name} that no net has")
        setattr(model, name, dict(zip(model.shifts, map(int, values), strict=True)))
    if not all(value >= 1.0 for value in steps["units"].tolist()):
        raise Malformed("a state of a search with sums that no net has")
    model.units = dict(zip(model.units, steps["units"].tolist(), strict=True))
    return error
