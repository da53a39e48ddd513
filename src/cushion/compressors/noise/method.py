"""Small weights replaced by noise (Shin 2021): method and options; torch only as it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from cushion.compressors.method import MarginOptions, Method, grids_of
from cushion.compressors.noise.records import ReplacementSummary, TriedTail
from cushion.errors import BadInput
from cushion.records import option

Form: TypeAlias = Literal["corrected", "algorithm", "appendix"]
FORMS: tuple[Form, ...] = get_args(Form)
TAUS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)  # in standard deviations; tried where none is given
# what a form tries where nothing is given: t, grid, layers; Appendix E rounds nothing
_DEFAULTS: dict[Form, tuple[tuple[float, ...], str, str]] = {
    "corrected": ((0.0, 1.0), "8", "all"),
    "algorithm": ((1.0,), "8", "all"),
    "appendix": ((1.0,), "16", "last"),
}


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
        None, "thresholds in a layer's standard deviations; the best is taken", above=0, most=1e6
    )
    t: tuple[float, ...] | None = option(
        None, "variances of the noise in mean squares of what goes; 0: none", least=0, most=1e6
    )
    epsilon: float | None = option(
        None, "the relative error of a layer (Proposition 1.1) that sets tau", above=0, most=1
    )
    eta: float | None = option(
        None, "how often the promise fails, with `epsilon`", above=0, below=1
    )
    layers: tuple[str, ...] | None = option(None, "all, last (the final dense one), or names")
    trials: int = option(
        10, "seeds of the noise to try, for mean and standard deviation", least=1, most=10_000
    )
    grid: str | None = option(None, "the bits of a stored weight, in every layer, or best")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers and not all(self.layers):
            raise BadInput("`layers` must be all, last, or names of layers separated by commas")
        if self.layers and len(self.layers) > 1 and {"all", "last"} & set(self.layers):
            raise BadInput("`layers` all and last stand alone; give one of them, or names")
        self.grids  # noqa: B018
        if (self.epsilon is None) != (self.eta is None):
            given, lacks = ("epsilon", "eta") if self.eta is None else ("eta", "epsilon")
            why = "Proposition 1.1 promises an error but for a probability"
            raise BadInput(f"`{given}` goes with `{lacks}`: {why}")
        if self.epsilon is not None and self.tau:
            raise BadInput("`tau` and `epsilon` both set the threshold; give one of them")
        if self.form != "appendix":
            return
        own = "`form` = appendix has the threshold of one standard deviation; leave out"
        if self.epsilon is not None:
            raise BadInput(f"{own} `epsilon` and `eta`")
        if set(self.tau or ()) - {1.0}:
            raise BadInput(f"{own} `tau`")
        if self.t:
            own = "`form` = appendix draws with the layer's own standard deviation"
            raise BadInput(f"{own}; leave out `t`")

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
        return tuple(dict.fromkeys(self.t or ((0.0,) if quiet else _DEFAULTS[self.form][0])))

    @property
    def asked(self) -> list[tuple[str, float | None, float]]:
        """What is tried, each once: (asked, τ in standard deviations or None: from epsilon, t)."""
        if self.epsilon is not None:
            return [(f"epsilon={self.epsilon:g}, t={t:g}", None, t) for t in self.ts]
        if self.form == "appendix":
            return [("Appendix E", 1.0, 1.0)]
        return [(f"tau={tau:g}, t={t:g}", tau, t) for tau in self.taus for t in self.ts]

    @property
    def chosen_layers(self) -> tuple[str, ...]:
        return self.layers or (_DEFAULTS[self.form][2],)

    @property
    def chosen_grid(self) -> str:
        return self.grid or _DEFAULTS[self.form][1]

    @property
    def grids(self) -> tuple[int, ...]:
        """The bits of a weight that are tried."""
        return grids_of(self.chosen_grid, "best")

    def settings(self) -> dict[str, Any]:
        """Every option by name, as it was given or by default, for records and files."""
        lists = {"tau": self.taus, "t": self.ts}
        given = {name: ",".join(f"{one:g}" for one in ones) for name, ones in lists.items()}
        layers = ",".join(self.chosen_layers)
        return {**super().settings(), **given, "layers": layers, "grid": self.chosen_grid}


@dataclass(frozen=True)
class HeavyTail(Method):
    """G comes from the seed, which is part of the message and paid; the trials use seed, seed + 1,
    ..., and the net that is returned is that of the first.
    """

    options = HeavyTailOptions
    summary = ReplacementSummary
    tried = TriedTail
    stores = ("noise.spiked",)
    candidates = "cushion.compressors.noise.candidates:candidates"
    account = "cushion.compressors.noise.account:ReplacementAccount"

    def seeds(self, options: HeavyTailOptions) -> int:
        return options.trials


HEAVY_TAIL = HeavyTail(
    "heavy-tail",
    "NET with its small weights replaced by noise from the seed, √t·G + B (Shin 2021)",
    ("form", "tau", "t", "epsilon", "eta", "layers", "trials", "grid", "gamma", "level"),
)
