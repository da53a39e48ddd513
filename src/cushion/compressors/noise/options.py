"""What a user may choose for the compression of heavy tails (Shin 2021); no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from cushion.compressors.options import MarginOptions, grids_of
from cushion.errors import BadInput
from cushion.records import option

Form: TypeAlias = Literal["corrected", "algorithm", "appendix"]
FORMS: tuple[Form, ...] = get_args(Form)
TAUS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)  # in standard deviations; tried where none is given
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


@dataclass(frozen=True)
class HeavyTailOptions(MarginOptions):
    """form: "corrected" keeps |w| > τ and adds √t·G everywhere; "algorithm" is Algorithm 1 as
    printed, which keeps w > τ, so that every negative weight goes; "appendix" is Appendix E as
    printed, which replaces w ≤ σ by draws from N(mean, σ²) and leaves the others as they are.
    """

    examples: ClassVar[int] = 1000  # rows for cushions and pairs of layers
    zeta: ClassVar[float] = 0.0

    form: Form = option(
        "corrected",
        "corrected (|w| > tau stays), algorithm (w > tau stays, as Algorithm 1 of Shin 2021 prints "
        "it), or appendix (its Appendix E)",
        shown="WORD",
    )
    tau: tuple[float, ...] | None = option(
        None,
        "thresholds in standard deviations of a layer; of several the best is taken",
        above=0,
        most=1e6,
    )
    t: tuple[float, ...] | None = option(
        None,
        "variances of the noise, in mean squares of what goes; 0: none; several as for `tau`",
        least=0,
        most=1e6,
    )
    epsilon: float | None = option(
        None,
        "the relative error that Proposition 1.1 promises a layer, by which tau is chosen",
        above=0,
        most=1,
    )
    eta: float | None = option(
        None, "how often the proposition may fail, with `epsilon`", above=0, below=1
    )
    layers: tuple[str, ...] | None = option(
        None, "which layers: all, last (the final dense one), or names"
    )
    trials: int = option(
        10, "seeds of the noise to try, for mean and standard deviation", least=1, most=10_000
    )
    grid: str | None = option(
        None,
        "the bits of a stored weight, also in layers that are left as they are, or best of several",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers and not all(self.layers):
            raise BadInput("`layers` must be all, last, or names of layers separated by commas")
        if self.layers and len(self.layers) > 1 and {"all", "last"} & set(self.layers):
            raise BadInput("`layers` all and last stand alone; give one of them, or names")
        self.grids  # noqa: B018
        self._check_pair()
        if self.form == "appendix" and set(self.tau or ()) - {1.0}:
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
        if self.epsilon is None:
            return
        if self.tau:
            raise BadInput("`tau` and `epsilon` both set the threshold; give one of them")
        if self.form == "appendix":
            raise BadInput(
                "`form` = appendix has the threshold of one standard deviation; leave out "
                "`epsilon` and `eta`"
            )

    @property
    def taus(self) -> tuple[float, ...]:
        """The thresholds that are tried, in standard deviations; none where epsilon sets them."""
        if self.epsilon is not None:
            return ()
        return (1.0,) if self.form == "appendix" else tuple(dict.fromkeys(self.tau or TAUS))

    @property
    def ts(self) -> tuple[float, ...]:
        """The variances that are tried, in mean squares of what goes."""
        quiet = self.epsilon is not None and self.form == "corrected"
        return tuple(dict.fromkeys(self.t or ((0.0,) if quiet else _T[self.form])))

    @property
    def chosen_layers(self) -> tuple[str, ...]:
        return self.layers or (_LAYERS[self.form],)

    @property
    def chosen_grid(self) -> str:
        return self.grid or _GRID[self.form]

    @property
    def grids(self) -> tuple[int, ...]:
        """The bits of a weight that are tried."""
        return grids_of(self.chosen_grid, "best")

    def settings(self) -> dict[str, Any]:
        """Every option by name, as it was given or by default, for records and files."""
        lists = {
            name: ",".join(f"{value:g}" for value in getattr(self, f"{name}s"))
            for name in ("tau", "t")
        }
        layers = ",".join(self.chosen_layers)
        return {**super().settings(), **lists, "layers": layers, "grid": self.chosen_grid}
