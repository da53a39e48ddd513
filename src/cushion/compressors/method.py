"""What a method of compression provides; `run` does the rest, the same for all of them; no torch.

A method of a net (`Method`) says what it takes (`options`), and names what answers four questions:
which settings to try, each stored as a net (`candidates`); what its lemmas promise beside what
happened, what the paper's bounds are, and its own columns of the layers and of the net (`account`).
A search (`compressors.searches`) looks for a small integer net by itself.

Modules that define a method load no torch, so that the command line knows its flags at once; what
they name is loaded when it runs.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from cushion.errors import BadInput
from cushion.records import Options, option
from cushion.records.options import Option, options_of

if TYPE_CHECKING:
    from cushion.compressors.file import CompressedNet
    from cushion.compressors.lemmas import LayerErrors
    from cushion.compressors.records import LayerSummary, PromiseCheck, Summary, Tried
    from cushion.compressors.storage.stored import Numbers
    from cushion.compressors.storage.stored_net import StoredNet
    from cushion.data.dataset import Dataset
    from cushion.nets.network import Network
    from cushion.theorems.compression import CompressedFacts
    from cushion.theorems.records import Bound

BEST_GRIDS = (2, 3, 4, 5, 6, 8)  # bits of a weight that `grid` = best tries
_MOST_TRIED = 64
_GRID = re.compile("[0-9]{1,2}", re.ASCII)


class MethodOptions(Options):
    """Options of a method, as a user gives them: one number stands for a list of one."""

    def __post_init__(self) -> None:
        for one in options_of(type(self)):
            value = _plain(one, getattr(self, one.name))
            object.__setattr__(self, one.name, value)
            if value == "":
                raise BadInput(f"`{one.name}` must not be empty")
            if one.many and isinstance(value, tuple) and len(value) > _MOST_TRIED:
                raise BadInput(f"`{one.name}` lists more than {_MOST_TRIED} values to try")
        super().__post_init__()

    def check(self, method: str) -> None:
        """BadInput where a combination makes no sense for the method."""

    def settings(self) -> dict[str, Any]:
        """Every option by name, as it was given or by default, for records and files."""
        return {name: _joined(value) for name, value in vars(self).items()}


class MarginOptions(MethodOptions):
    """The margin γ of the net, which every method that compresses a net asks for."""

    gamma: float | None = option(
        None,
        "the margin that must survive, from which accuracy follows (default: see `level`)",
        above=0,
    )
    level: float = option(0.05, "gamma is a margin that all but this part exceed", least=0, below=1)


def grids_of(grid: str, *words: str) -> tuple[int, ...]:
    """The bits of a weight that a `grid` stands for; () for a word that is not "best"."""
    if grid in words:
        return BEST_GRIDS if grid == "best" else ()
    if not (_GRID.fullmatch(grid) and 2 <= int(grid) <= 32):
        raise BadInput(f"`grid` = {grid} must be {', '.join(words)}, or bits of a weight, 2 to 32")
    return (int(grid),)


def _plain(one: Option, value: Any) -> Any:
    """A list or array as a tuple, one value as a list of one, a whole float as an int."""
    if one.many and value is not None:
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, str) and one.kind is str:
            value = tuple(part.strip() for part in value.split(","))
        many = tuple(value) if isinstance(value, list | tuple) else (value,)
        return tuple(float(v) if one.kind is float and type(v) is int else v for v in many)
    if hasattr(value, "item"):  # a number of numpy
        value = value.item()
    if one.kind is str and type(value) in (int, float) and not one.choices:
        return str(value)
    whole = one.kind is int and isinstance(value, float) and value.is_integer()
    return int(value) if whole else value


def _joined(value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    return ",".join(f"{part:g}" if isinstance(part, float) else str(part) for part in value)


@dataclass(frozen=True)
class Named:
    """What a method is called and means, and which of its family's options it takes."""

    name: str
    meaning: str
    takes: tuple[str, ...]
    options: ClassVar[type[MethodOptions]]
    stores: ClassVar[tuple[str, ...]] = ()  # modules of stored layers that are its own

    @property
    def flags(self) -> tuple[Option, ...]:
        """The options that it takes, in their own order."""
        known = {one.name: one for one in options_of(self.options)}
        return tuple(known[name] for name in self.takes)

    def given(self, values: Mapping[str, Any]) -> Any:
        """Its options with these values; BadInput where one does not belong to it."""
        for name in values:
            if name not in self.takes:
                takes = ", ".join(f"`{own}`" for own in self.takes)
                raise BadInput(
                    f"`method` = {self.name} does not take `{name}`; its options are {takes}"
                )
        chosen = self.options(**values)
        chosen.check(self.name)
        return chosen


@dataclass(frozen=True, eq=False)
class Candidate:
    """One setting on one grid: what would be written, and what the method remembers of making it.

    counts: fields of its own in the record of what was tried.
    """

    stored: StoredNet
    asked: str = ""
    grid: str = ""
    counts: Mapping[str, int] | None = None
    made: Any = None


@dataclass(frozen=True, eq=False)
class Found:
    """The candidate that was taken, as it comes back from its file.

    errors: of the whole net on the sample. tried: how many settings were. The held-out examples may
    be looked at once it is chosen.
    """

    subject: Any
    candidate: Candidate
    compressed: CompressedNet
    errors: LayerErrors
    tried: int = 0
    holdout: Dataset | None = None

    @property
    def stored(self) -> StoredNet:
        return self.candidate.stored

    @property
    def network(self) -> Network:
        return self.compressed.network

    @property
    def wrong(self) -> int:
        return int((self.errors.margins <= 0).sum())


class Account(ABC):
    """What a method says of one compression: lemmas against what happened, and its columns."""

    def __init__(self, found: Found) -> None:
        self.found, self.subject = found, found.subject

    @property
    @abstractmethod
    def layers(self) -> Sequence[LayerSummary]:
        """One for each affine layer."""

    @property
    @abstractmethod
    def lemmas(self) -> Sequence[PromiseCheck]:
        """Promise against observation."""

    @property
    @abstractmethod
    def bounds(self) -> Sequence[Bound]:
        """The rows of the paper's bounds."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """The fields of the summary that are the method's own."""
        return {}

    def notes(self, summary: Any) -> Sequence[str]:  # noqa: ARG002
        """What a reader should know of this run, one sentence each."""
        return ()

    def of_layer(self, at: int) -> dict[str, Any]:
        """What every method says of layer `at`, but for `stored_as`."""
        node = self.subject.net.affine_layers[at]
        return {
            "name": node.name,
            "kind": node.affine.kind,
            "shape": tuple(node.affine.operator.weight.shape),
            "parameters_before": node.affine.parameters,
            "bits": self.found.stored.layer_bits[at],
        }

    def others(self, stored: StoredNet) -> tuple[list[Numbers], int]:
        """What is stored as it is, biases and batch-norms, and how many values a number has."""
        from cushion.compressors.storage.stored import Kept

        parts = [bias for bias in stored.biases if bias is not None]
        parts += [layer.values for layer in stored.layers if isinstance(layer, Kept)]
        largest = [int(abs(part.integers).max(initial=0)) for part in parts]
        return parts, 2 * max(largest, default=0) + 1

    def counts(self, stored: StoredNet) -> CompressedFacts:
        """f and its compressed g counted on the sample, g as `stored` writes it."""
        from cushion.compressors.lemmas import count_on_sample

        gamma, seen, delta = self.subject.gamma or 0.0, self.subject.seen, self.subject.delta
        return count_on_sample(gamma, seen.margins, self.found.errors, stored, delta)


class Method(Named):
    """A method that compresses a trained net."""

    summary: ClassVar[type[Summary]]
    tried: ClassVar[type[Tried] | None] = None  # None: it makes one candidate, and judges none
    # by name (`pkgutil.resolve_name`): what it measures of a net and its sample; subject -> every
    # setting that is tried, as a Candidate; Found -> Account
    subject: ClassVar[str] = "cushion.compressors.subject:Subject"
    candidates: ClassVar[str]
    account: ClassVar[str]

    def seeds(self, options: Any) -> int:  # noqa: ARG002
        """How many seeds it uses, from the given one on."""
        return 1

    def prepare(self, net: Network, start: Network | None) -> tuple[Network, Network | None]:
        """The net and its initialisation as the method takes them, or BadInput."""
        return net, start

    def settings(self, options: Any) -> dict[str, Any]:
        """What is noted in the file."""
        noted: dict[str, Any] = options.settings()
        return noted

    def uncertifiable(self, options: Any) -> str:  # noqa: ARG002
        """Why the format can hold no net of this method, as far as that is known beforehand."""
        return ""

    def finish(self, subject: Any, best: Candidate) -> Candidate:  # noqa: ARG002
        """The candidate that was taken, as it is written."""
        return best

    def curve(self, subject: Any) -> Iterator[tuple[str, StoredNet]]:  # noqa: ARG002
        """Further sizes, for the curve of error against size; () where what was tried is it."""
        yield from ()
