"""The methods of `cushion compress`: what each means, which options it takes, and the function
behind it; no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from cushion.compressors.noise.options import METHODS as TAILS
from cushion.compressors.noise.options import HeavyTailOptions
from cushion.compressors.projection.options import NetOptions
from cushion.compressors.pruning.options import METHODS as PRUNING
from cushion.compressors.pruning.options import PruneOptions
from cushion.errors import BadInput

if TYPE_CHECKING:
    from torch import Tensor

    from cushion.certificates.format.integer_net import IntegerNet
    from cushion.certificates.search.integer.search import Found
    from cushion.data.dataset import Dataset

DEFAULT_MINUTES = 1.0
_DEFAULTS = NetOptions()


@dataclass(frozen=True)
class Task:
    """What every search is given besides its own options.

    judge: the bound of a net on `data`. teacher: [m, classes] scores to imitate, or None. report is
    told now and then which part of the work is done, and the best bound so far.
    """

    data: Dataset
    judge: Callable[[IntegerNet], Decimal]
    seed: int
    teacher: Tensor | None
    report: Callable[[float, Decimal], None] | None


@dataclass(frozen=True)
class Option:
    """An option of some methods, `--name VALUE`: a whole number of at least 1, any number above 0,
    a fraction below 1, a size (a whole number or a percentage), a word, words or numbers separated
    by commas, or a flag without a value.
    """

    name: str
    kind: Literal["whole", "number", "fraction", "size", "word", "words", "numbers", "flag"]
    meaning: str

    @property
    def attribute(self) -> str:
        """Its name in Python."""
        return self.name.replace("-", "_")

    def check(self, value: Any) -> None:
        """BadInput unless the value is of the kind; sizes and words are checked by whoever
        understands them.
        """
        if self.kind == "whole" and not (type(value) is int and value >= 1):
            raise BadInput(f"`{self.attribute}` = {value} must be a whole number of at least 1")
        if self.kind == "number" and not (
            isinstance(value, int | float) and 0 < value < float("inf")
        ):
            raise BadInput(f"`{self.attribute}` = {value} must be a number above 0")
        if self.kind == "fraction" and not (isinstance(value, int | float) and 0 <= value < 1):
            raise BadInput(f"`{self.attribute}` = {value} must be at least 0 and below 1")


@dataclass(frozen=True)
class Method:
    """One way to compress.

    A search looks for a small net itself: run(task, options) trains until its budget is spent and
    returns the best. A method without `run` compresses a given net (`net_compressing`).
    """

    name: str
    meaning: str
    options: tuple[str, ...]
    run: Callable[[Task, Mapping[str, Any]], Found] | None = None

    @property
    def of_a_net(self) -> bool:
        """Whether it compresses a trained net, which must be given."""
        return self.run is None


def choose(name: str, options: Mapping[str, Any]) -> Method:
    """The method of that name, or BadInput where there is none or an option does not belong to
    it.
    """
    if name not in METHODS:
        raise BadInput(
            f"there is no method called {name!r}; `method` is one of {', '.join(METHODS)}"
        )
    method = METHODS[name]
    for option, value in options.items():
        shown = option.replace("_", "-")
        if shown not in method.options:
            takes = ", ".join(f"`{own.replace('-', '_')}`" for own in method.options)
            raise BadInput(f"`method` = {name} does not take `{option}`; its options are {takes}")
        OPTIONS[shown].check(value)
    if method.of_a_net:
        net_options(name, options)
    elif "k" in options and not (type(options["k"]) is int and options["k"] >= 1):
        raise BadInput(
            f"`k` = {options['k']} must be a whole number of at least 1 for `method` = {name}"
        )
    if "minutes" in options and "steps" in options:
        raise BadInput("`minutes` and `steps` both say how long to train; give one of them")
    return method


def net_options(
    name: str, options: Mapping[str, Any]
) -> NetOptions | PruneOptions | HeavyTailOptions:
    """The options of a method that compresses a given net, checked."""
    if name in PRUNING:
        pruning = PruneOptions.given(**options)
        pruning.check(name)
        return pruning
    if name in TAILS:
        tails = HeavyTailOptions.given(**options)
        tails.check(name)
        return tails
    found = NetOptions(**options)
    found.check(name)
    return found


def _run_integer(task: Task, options: Mapping[str, Any]) -> Found:
    from cushion.certificates.search.integer.search import search

    seconds = 60 * options.get("minutes", DEFAULT_MINUTES)
    report = task.report

    def share(passed: float, best: Decimal) -> None:
        if report is not None:
            report(min(1.0, passed / seconds), best)

    return search(
        task.data, task.judge, seconds=seconds, seed=task.seed, teacher=task.teacher, report=share
    )


def _run_subspace(task: Task, options: Mapping[str, Any]) -> Found:
    from cushion.certificates.search.subspace import compress_to_subspace

    return compress_to_subspace(**vars(task), **_seeded(options), k=options.get("k"))


def _run_supermask(task: Task, options: Mapping[str, Any]) -> Found:
    from cushion.certificates.search.supermask import compress_to_supermask

    return compress_to_supermask(**vars(task), **_seeded(options))


def _seeded(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the two methods over seeded nets share."""
    from cushion.certificates.search.seeded import Budget

    budget = (
        Budget(steps=options["steps"])
        if "steps" in options
        else Budget(seconds=60 * options.get("minutes", DEFAULT_MINUTES))
    )
    return {"budget": budget, "width": options.get("width")}


OPTIONS = {
    option.name: option
    for option in (
        Option("minutes", "number", f"time for the training (default {DEFAULT_MINUTES:g})"),
        Option(
            "steps", "whole", "train for so many steps instead of a time; the answer then repeats"
        ),
        Option("width", "number", "make the seeded net wider or narrower by this factor"),
        Option(
            "k",
            "size",
            "how large: the coefficients to train, a layer's rank, its helper matrices, the "
            "vectors of a place; 5% is of the weights",
        ),
        Option(
            "epsilon",
            "number",
            "accuracy of each layer's map (low-rank), or of the scores, by which k is chosen; for "
            "heavy-tail the error that Proposition 1.1 promises a layer, by which tau is",
        ),
        Option(
            "gamma",
            "number",
            "the margin that must survive, from which accuracy follows (default: see --level)",
        ),
        Option(
            "level",
            "fraction",
            f"gamma is the margin that all but this fraction exceed ({_DEFAULTS.level:g})",
        ),
        Option(
            "eta",
            "number",
            "how often an example may fail; for heavy-tail the proposition, with --epsilon",
        ),
        Option(
            "p",
            "whole",
            "how many places Algorithm 4 takes as independent (default: log2 of 1/eta)",
        ),
        Option("constant", "number", f"the constant Q of Algorithm 4 ({_DEFAULTS.constant:g})"),
        Option(
            "helper",
            "word",
            "the helper string: signs, gaussian, or srht, a fast structured variant",
        ),
        Option(
            "from-initialisation", "flag", "compress what training changed; NET is a RUN folder"
        ),
        Option(
            "zeta",
            "fraction",
            "leave out this fraction of examples, the worst, and add it to the bounds (0)",
        ),
        Option(
            "number-bits",
            "whole",
            f"bits of a stored number, sign included ({_DEFAULTS.number_bits})",
        ),
        Option(
            "examples", "whole", f"rows for cushions and for pairs of layers ({_DEFAULTS.examples})"
        ),
        Option(
            "rule",
            "word",
            "which weights go: bernoulli (Algorithm 1), global, layer, N:M such as 2:4, or zeros",
        ),
        Option(
            "d",
            "numbers",
            "strength of Algorithm 1; of several the one with the smallest bound is taken",
        ),
        Option(
            "sparsity",
            "numbers",
            "fraction of the weights that go (global, layer); several as for --d",
        ),
        Option(
            "grid",
            "word",
            "the bits of a weight, best of several, or for pruning lemma (ρ of Lemma 4.4, the "
            "default there)",
        ),
        Option(
            "fine-tune", "whole", "train for so many epochs with the pruned weights held at zero"
        ),
        Option(
            "m",
            "whole",
            "side of a layer's sketch, at most the layer's own (default: the smallest that comes "
            "back)",
        ),
        Option(
            "ones", "whole", "ones in each column of the sketching matrices, at most half of it"
        ),
        Option("subgaussian", "word", "a,b,t of Condition C.1, or fit (the default)"),
        Option(
            "form",
            "word",
            "corrected (|w| > tau stays; the default), algorithm (w > tau stays, as Algorithm 1 of "
            "Shin 2021 prints it), or appendix (its Appendix E)",
        ),
        Option(
            "tau",
            "numbers",
            "thresholds in standard deviations of a layer; of several the best is taken",
        ),
        Option(
            "t",
            "numbers",
            "variances of the noise, in mean squares of what goes; 0: none; several as for --tau",
        ),
        Option("layers", "words", "which layers: all, last (the final dense one), or names"),
        Option(
            "trials", "whole", "seeds of the noise to try, for mean and standard deviation (10)"
        ),
        Option(
            "sweep",
            "words",
            "more sizes, or epsilon=F, gamma=G, eta=F, for the curve of error against size",
        ),
    )
}
_OF_NETS = ("level", "from-initialisation", "zeta", "sweep")
_OF_LAYERS = ("number-bits", "examples", *_OF_NETS)
METHODS = {
    method.name: method
    for method in (
        Method(
            "integer",
            "the integer net with the smallest bound, every weight stored (what certify finds)",
            ("minutes",),
            _run_integer,
        ),
        Method(
            "subspace",
            "a few trained coefficients of seeded sign matrices, added to a seeded net",
            ("minutes", "steps", "k", "width"),
            _run_subspace,
        ),
        Method(
            "supermask",
            "which of the signs of a seeded net to keep",
            ("minutes", "steps", "width"),
            _run_supermask,
        ),
        Method(
            "low-rank",
            "NET with each layer cut to few singular values (Arora 2018, Lemma 1)",
            ("k", "epsilon", "gamma", *_OF_LAYERS),
        ),
        Method(
            "matrix-project",
            "NET with each layer as k inner products with seeded sign matrices (Algorithm 1)",
            ("k", "epsilon", "gamma", "helper", *_OF_LAYERS),
        ),
        Method(
            "conv-project",
            "NET with a filter at each place, all from one seeded subspace (Algorithm 4)",
            ("k", "p", "constant", "epsilon", "gamma", "helper", *_OF_LAYERS),
        ),
        Method(
            "magnitude",
            "NET without its small weights, the rest on a grid (Guha 2023, Algorithm 1, or as "
            "practitioners prune)",
            ("rule", "d", "sparsity", "grid", "fine-tune", "subgaussian", "gamma", "level"),
        ),
        Method(
            "sketch",
            "the same, each layer stored as a sketch A X Bᵀ and recovered by its smallest ℓ1 norm",
            (
                "m",
                "ones",
                "rule",
                "d",
                "sparsity",
                "grid",
                "fine-tune",
                "subgaussian",
                "gamma",
                "level",
            ),
        ),
        Method(
            "heavy-tail",
            "NET with its small weights replaced by noise from the seed, √t·G + B (Shin 2021)",
            ("form", "tau", "t", "epsilon", "eta", "layers", "trials", "grid", "gamma", "level"),
        ),
        Method(
            "vector-compress",
            "a linear classifier with few coordinates left (Algorithm 2)",
            ("gamma", "eta", *_OF_NETS),
        ),
        Method(
            "vector-project",
            "a linear classifier as k inner products with seeded vectors (Algorithm 3)",
            ("k", "gamma", "eta", "helper", *_OF_NETS),
        ),
    )
}
