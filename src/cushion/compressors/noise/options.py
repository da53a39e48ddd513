"""What a user may choose for the compression of heavy tails (Shin 2021), checked once; no torch."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from cushion.errors import BadInput

Form: TypeAlias = Literal["corrected", "algorithm", "appendix"]
METHODS = ("heavy-tail",)
FORMS: tuple[Form, ...] = get_args(Form)
TAUS = (
    0.5,
    1.0,
    1.5,
    2.0,
    2.5,
    3.0,
)  # thresholds that are tried where none is given, in standard deviations
BEST_GRIDS = (2, 3, 4, 5, 6, 8)  # bits of a weight that `--grid best` tries
_T: dict[Form, tuple[float, ...]] = {
    "corrected": (0.0, 1.0),
    "algorithm": (1.0,),
    "appendix": (1.0,),
}
_GRID: dict[Form, str] = {
    "corrected": "8",
    "algorithm": "8",
    "appendix": "16",
}  # Appendix E rounds nothing
_LAYERS: dict[Form, str] = {"corrected": "all", "algorithm": "all", "appendix": "last"}
_WHOLE = re.compile("[0-9]{1,2}", re.ASCII)
_MOST_TRIED = 64
_MOST_TRIALS = 10_000


@dataclass(frozen=True)
class HeavyTailOptions:
    """Every one is an option of `cushion compress` of the same name.

    form: "corrected" keeps the weights with |w| > τ and adds √t·G everywhere; "algorithm" is
    Algorithm 1 as printed, which keeps w > τ, so that every negative weight goes; "appendix" is
    Appendix E as printed, which replaces w ≤ σ by draws from N(mean, σ²) and leaves the others as
    they are. tau: thresholds, in standard deviations of the layer; t: variances of the noise, in
    mean squares of what it replaces; of several the one with the smallest bound is taken. epsilon,
    eta: in place of tau, the relative error that Proposition 1.1 may promise a layer, but for
    probability eta. layers: "all", "last" (the final dense layer), or names. trials: seeds that are
    tried. grid: bits of a stored weight, also in layers that are left as they are, or "best" of
    several. gamma, level: the margin, as for the other methods.
    """

    form: str = "corrected"
    tau: tuple[float, ...] = ()
    t: tuple[float, ...] = ()
    epsilon: float | None = None
    eta: float | None = None
    layers: tuple[str, ...] = ()
    trials: int = 10
    grid: str | None = None
    gamma: float | None = None
    level: float = 0.05

    @classmethod
    def given(cls, **options: Any) -> HeavyTailOptions:
        """From options as a user gives them: one number or name stands for a list of one."""
        changed: dict[str, Any] = {}
        for name in ("tau", "t"):
            if _is_number(options.get(name)):
                changed[name] = (float(options[name]),)
            elif isinstance(options.get(name), list | tuple | np.ndarray):
                values = (
                    np.asarray(options[name]).tolist()
                    if isinstance(options[name], np.ndarray)
                    else options[name]
                )
                changed[name] = tuple(
                    float(value) if _is_number(value) else value for value in values
                )
        if isinstance(options.get("layers"), str):
            changed["layers"] = tuple(part.strip() for part in options["layers"].split(","))
        elif isinstance(options.get("layers"), list):
            changed["layers"] = tuple(options["layers"])
        if type(options.get("grid")) is int:
            changed["grid"] = str(options["grid"])
        return cls(**{**options, **changed})

    def check(self, method: str) -> None:
        """BadInput where a value or combination makes no sense."""
        if method not in METHODS:
            raise BadInput(f"`method` = {method} replaces no weights by noise; use {METHODS[0]}")
        if self.form not in FORMS:
            raise BadInput(f"`form` = {self.form} must be one of {', '.join(FORMS)}")
        self._check_numbers()
        self._check_pair()
        if not isinstance(self.layers, tuple) or not all(
            isinstance(name, str) and name for name in self.layers
        ):
            raise BadInput(
                "`layers` must be all, last, or names of layers separated by commas, not "
                f"{self.layers}"
            )
        if len(self.layers) > 1 and {"all", "last"} & set(self.layers):
            raise BadInput("`layers` all and last stand alone; give one of them, or names")
        if not (type(self.trials) is int and 1 <= self.trials <= _MOST_TRIALS):
            raise BadInput(
                f"`trials` must be a whole number from 1 to {_MOST_TRIALS}, not {self.trials}"
            )
        if self.grid is not None and not (
            self.grid == "best"
            or (
                isinstance(self.grid, str)
                and _WHOLE.fullmatch(self.grid)
                and 2 <= int(self.grid) <= 32
            )
        ):
            raise BadInput(
                f"`grid` = {self.grid} must be best, or the bits of a weight, from 2 to 32"
            )
        if self.gamma is not None and not (_is_number(self.gamma) and 0 < self.gamma < math.inf):
            raise BadInput(f"`gamma` must be a number above 0, not {self.gamma}")
        if not (_is_number(self.level) and 0 <= self.level < 1):
            raise BadInput(f"`level` must be at least 0 and below 1, not {self.level}")

    def _check_numbers(self) -> None:
        for name, values in (("tau", self.tau), ("t", self.t)):
            if not isinstance(values, tuple) or not all(_is_number(value) for value in values):
                raise BadInput(
                    f"`{name}` must be a number or several, such as 1 or 1,2, not {values!r}"
                )
            if len(values) > _MOST_TRIED:
                raise BadInput(
                    f"`{name}` lists {len(values)} values, and at most {_MOST_TRIED} are tried"
                )
        for value in self.tau:
            if not 0 < value <= 1e6:
                raise BadInput(
                    "`tau` is a threshold in standard deviations, above 0 and at most 1e6, not "
                    f"{value}"
                )
        for value in self.t:
            if not 0 <= value <= 1e6:
                raise BadInput(
                    f"`t` is a variance in mean squares of what goes, from 0 to 1e6, not {value}"
                )
        if self.form == "appendix" and set(self.tau) - {1.0}:
            raise BadInput(
                "`form` = appendix has the threshold of one standard deviation; leave out `tau`"
            )
        if self.form == "appendix" and self.t:
            raise BadInput(
                "`form` = appendix draws with the layer's own standard deviation; leave out `t`"
            )

    def _check_pair(self) -> None:
        """epsilon and eta."""
        if (self.epsilon is None) != (self.eta is None):
            given, lacks = ("epsilon", "eta") if self.eta is None else ("eta", "epsilon")
            raise BadInput(
                f"`{given}` goes with `{lacks}`: Proposition 1.1 promises an error but for a "
                "probability"
            )
        if self.epsilon is None or self.eta is None:
            return
        if not (_is_number(self.epsilon) and 0 < self.epsilon <= 1):
            raise BadInput(
                f"`epsilon` is a relative error, above 0 and at most 1, not {self.epsilon}"
            )
        if not (_is_number(self.eta) and 0 < self.eta < 1):
            raise BadInput(f"`eta` is a probability, above 0 and below 1, not {self.eta}")
        if self.tau:
            raise BadInput("`tau` and `epsilon` both set the threshold; give one of them")
        if self.form == "appendix":
            raise BadInput(
                "`form` = appendix has the threshold of one standard deviation; leave out "
                "`epsilon` and `eta`"
            )

    @property
    def taus(self) -> tuple[float, ...]:
        """The thresholds that are tried, in standard deviations, each once; none where epsilon sets
        them.
        """
        if self.epsilon is not None:
            return ()
        return (1.0,) if self.form == "appendix" else tuple(dict.fromkeys(self.tau or TAUS))

    @property
    def ts(self) -> tuple[float, ...]:
        """The variances that are tried, in mean squares of what goes; corrected, without noise
        where epsilon sets τ.
        """
        quiet = self.epsilon is not None and self.form == "corrected"
        return tuple(dict.fromkeys(self.t or ((0.0,) if quiet else _T[self._form])))

    @property
    def chosen_layers(self) -> tuple[str, ...]:
        return self.layers or (_LAYERS[self._form],)

    @property
    def chosen_grid(self) -> str:
        return self.grid or _GRID[self._form]

    @property
    def grids(self) -> tuple[int, ...]:
        """The bits of a weight that are tried."""
        return BEST_GRIDS if self.chosen_grid == "best" else (int(self.chosen_grid),)

    @property
    def _form(self) -> Form:
        return next(form for form in FORMS if form == self.form)

    def settings(self) -> dict[str, Any]:
        """Every option by name, as it was given or by default, for records and files."""
        lists = {
            name: ",".join(f"{value:g}" for value in getattr(self, f"{name}s"))
            for name in ("tau", "t")
        }
        return {
            **vars(self),
            **lists,
            "layers": ",".join(self.chosen_layers),
            "grid": self.chosen_grid,
        }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
