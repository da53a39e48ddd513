"""The compressors of Arora 2018 as methods; no torch until one runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cushion.compressors.method import Account, Candidate, Found, Method
from cushion.compressors.projection.options import VECTORS, NetOptions
from cushion.compressors.projection.records import ProjectionSummary

if TYPE_CHECKING:
    from cushion.compressors.projection.subject import ProjectionSubject
    from cushion.compressors.storage.stored_net import StoredNet
    from cushion.nets.network import Network

_OF_NETS = ("gamma", "level", "from_initialisation", "zeta", "sweep")
_OF_LAYERS = ("number_bits", "examples", *_OF_NETS)


@dataclass(frozen=True)
class Projection(Method):
    """Each layer by fewer numbers, or a linear classifier's vectors by fewer."""

    options = NetOptions
    summary = ProjectionSummary
    stores = ("projection.conv_project", "projection.products", "projection.stored_vectors")

    def check(self, options: NetOptions) -> None:
        options.check(self.name)

    def settings(self, options: NetOptions) -> dict[str, Any]:
        return super().settings(options) | {"helper": options.helper_of(self.name)}

    def uncertifiable(self, options: NetOptions) -> str:
        if options.from_initialisation:
            return (
                "the initialisation is floating point, which a decoder cannot make again from a "
                "seed"
            )
        if self.name in ("conv-project", "vector-project"):
            return f"the format has no weights as {self.name} makes them"
        return "the format has no Hadamard rows; use `helper` = signs" * (options.helper == "srht")

    def prepare(self, net: Network, start: Network | None) -> tuple[Network, Network | None]:
        from cushion.compressors.projection.storing import centred

        if self.name not in VECTORS or net.classes != 2:
            return net, start
        return centred(net, self.name), None if start is None else centred(start, self.name)

    def subject_type(self) -> type[ProjectionSubject]:
        from cushion.compressors.projection.subject import ProjectionSubject

        return ProjectionSubject

    def candidates(self, subject: ProjectionSubject) -> Iterator[Candidate]:
        from cushion.compressors.projection.plans import check_point, store

        for asked in subject.options.sweep or ():  # what cannot be made is refused before the work
            check_point(subject.at(subject.options.at(self.name, asked)))
        stored, plans = store(subject)
        yield Candidate(stored, made=plans)

    def curve(self, subject: ProjectionSubject) -> Iterator[tuple[str, StoredNet]]:
        from cushion.compressors.projection.plans import store

        for asked in subject.options.sweep or ():
            yield asked, store(subject.at(subject.options.at(self.name, asked)))[0]

    def account(self, found: Found) -> Account:
        from cushion.compressors.projection.account import ProjectionAccount

        return ProjectionAccount(found)


LOW_RANK = Projection(
    "low-rank",
    "NET with each layer cut to few singular values (Arora 2018, Lemma 1)",
    ("k", "epsilon", *_OF_LAYERS),
)
MATRIX_PROJECT = Projection(
    "matrix-project",
    "NET with each layer as k inner products with seeded sign matrices (Algorithm 1)",
    ("k", "epsilon", "helper", *_OF_LAYERS),
)
CONV_PROJECT = Projection(
    "conv-project",
    "NET with a filter at each place, all from one seeded subspace (Algorithm 4)",
    ("k", "p", "constant", "epsilon", "helper", *_OF_LAYERS),
)
VECTOR_COMPRESS = Projection(
    "vector-compress",
    "a linear classifier with few coordinates left (Algorithm 2)",
    ("eta", *_OF_NETS),
)
VECTOR_PROJECT = Projection(
    "vector-project",
    "a linear classifier as k inner products with seeded vectors (Algorithm 3)",
    ("k", "eta", "helper", *_OF_NETS),
)
