"""What certificate files state: claims, their ledger and assumptions, and the verdict on them; JSON
in and out.

A field's meaning never changes once released. Reading is strict: exactly the known keys, each of
its type.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, Protocol, Self, TypeVar

from cushion.errors import Malformed
from cushion.records import Record

# What nobody can check. A certificate carries exactly these sentences, so that no file can word
# them away.
ASSUMPTIONS = (
    "the m examples are independent draws from the distribution that the bound is about",
    "the file format (the prefix code) was fixed before these examples were seen",
    "δ was fixed in advance",
    "what is folklore about a public benchmark (which kinds of nets do well on it) is not charged",
)
HOLDOUT_ASSUMPTION = (
    "the search never read the held-out examples; certificate and hold-out line quoted together "
    "fail with probability at most 2δ"
)
TRANSFER_ASSUMPTIONS = (
    "the unlabelled inputs are fresh independent draws of the inputs that the bound is about, used "
    "for nothing else: neither to train f nor to find g",
    "f and the tolerance were fixed before the unlabelled inputs were looked at",
    "f is a fixed function: on other machines each of its scores differs by at most a quarter of "
    "the tolerance",
)


def assumptions_of(holdout: bool, transfer: bool = False) -> tuple[str, ...]:
    """The assumptions of a certificate with or without a hold-out line and a bound on f."""
    return (
        *ASSUMPTIONS,
        *((HOLDOUT_ASSUMPTION,) if holdout else ()),
        *(TRANSFER_ASSUMPTIONS if transfer else ()),
    )


class AnyClaim(Protocol):
    """What the claims of every kind of certificate have in common."""

    @property
    def kind(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def data(self) -> str: ...
    @property
    def data_fingerprint(self) -> str: ...
    @property
    def m(self) -> int: ...
    @property
    def delta(self) -> str: ...
    @property
    def bound(self) -> str: ...
    @property
    def assumptions(self) -> tuple[str, ...]: ...
    @property
    def holdout(self) -> Holdout | None: ...
    @property
    def made_with(self) -> dict[str, Any]: ...
    def to_json(self) -> dict[str, Any]: ...


# Where the class of each kind of claim lives: it has a classmethod from_json that reads strictly.
_KINDS = {
    "occam": ("cushion.certificates.format.claims", "Claim"),
    "pac-bayes": ("cushion.certificates.format.gaussian_claims", "GaussianClaim"),
}


def read_claim(obj: Any) -> AnyClaim:
    """The claim of the kind that it names; Malformed if there is no such kind or it breaks its
    kind's rules.
    """
    kind = obj.get("kind") if isinstance(obj, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise Malformed(f"the claim must be an object whose kind is one of {', '.join(_KINDS)}")
    module, name = _KINDS[kind]
    claim: AnyClaim = getattr(import_module(module), name).from_json(obj)
    return claim


@dataclass(frozen=True)
class LedgerItem(Record):
    """One thing the decoder reads, what it costs in bits, and why it was paid."""

    item: str
    bits: int
    meaning: str


@dataclass(frozen=True)
class Holdout(Record):
    """BinInv(errors; m, δ) on labels that the search never read: what a sceptic compares a
    certificate with.
    """

    data_fingerprint: str
    errors: int
    m: int
    delta: str
    bound: str


@dataclass(frozen=True)
class Transfer(Record):
    """From g back to the user's own net f, by m fresh unlabelled inputs U.

    With probability at least 1 - δ over the draw of U, f and g disagree on at most `bound` of new
    inputs, where bound ≥ BinInv(disagreements; m, δ). Wherever f errs, g errs or they disagree, so
    L(f) ≤ bound_f = min(1, claim.bound + bound), which fails with probability at most claim.delta +
    delta.

    A tie in either net is a disagreement, and so is a gap between f's two largest scores of at most
    `tolerance`: f computes in floating point, and such an answer might change on another machine.
    """

    net_fingerprint: str  # of f's parameters and buffers
    data_fingerprint: str  # of U's inputs
    m: int
    disagreements: int
    tolerance: str
    delta: str
    bound: str
    bound_f: str


@dataclass(frozen=True)
class Claim(Record):
    """What a certificate file states about the classifier g that its message decodes to.

    With probability at least 1 - δ over the draw of the m examples, simultaneously for every
    message of the code, L(g) ≤ bound, where g makes `errors` errors on them and its message is
    `bits` bits long: bound ≥ BinInv(errors; m, δ·2^-bits) (Occam's razor with the exact binomial
    tail). All of this is about g; `transfer`, where there is one, is about f.

    `delta` and `bound` are decimal strings, so that what was printed is exactly what is checked.
    """

    kind: Literal["occam"]
    about: Literal["g"]
    data: str
    data_fingerprint: str
    m: int
    errors: int
    bits: int
    delta: str
    bound: str
    ledger: tuple[LedgerItem, ...]
    assumptions: tuple[str, ...]
    holdout: Holdout | None = None
    transfer: Transfer | None = None
    made_with: dict[str, Any] = field(
        default_factory=dict
    )  # free notes (seed, minutes); the verifier ignores it

    @classmethod
    def from_json(cls, obj: Any) -> Self:
        """Read a claim strictly: exactly the known keys, each of its type; anything else is
        Malformed.
        """
        names = [f.name for f in dataclasses.fields(cls)]
        if not isinstance(obj, dict) or sorted(obj) != sorted(names):
            raise Malformed(f"the claim must be an object with exactly the keys {', '.join(names)}")
        for key in ("m", "errors", "bits"):
            if type(obj[key]) is not int:
                raise Malformed(f"the claim's {key} must be a whole number")
        for key in ("kind", "about", "data", "data_fingerprint", "delta", "bound"):
            if not isinstance(obj[key], str):
                raise Malformed(f"the claim's {key} must be a string")
        if obj["kind"] != "occam":
            raise Malformed("the claim's kind must be 'occam'")
        if obj["about"] != "g":
            raise Malformed("the claim's about must be 'g', the net that the message decodes to")
        notes = obj["made_with"]
        if not isinstance(notes, dict) or any(
            isinstance(note, (dict, list)) for note in notes.values()
        ):
            raise Malformed("the claim's made_with must be an object of plain values")
        return cls(
            **{
                **obj,
                "ledger": tuple(
                    read_part(LedgerItem, item, "ledger item") for item in _listed(obj["ledger"])
                ),
                "assumptions": tuple(_text(a) for a in _listed(obj["assumptions"])),
                "holdout": None
                if obj["holdout"] is None
                else read_part(Holdout, obj["holdout"], "holdout"),
                "transfer": None
                if obj["transfer"] is None
                else read_part(Transfer, obj["transfer"], "transfer"),
            }
        )


@dataclass(frozen=True)
class Verdict(Record):
    """What the verifier found: `level` is the highest of none, arithmetic, message, replay that
    holds.

    `ok` needs all of them, for every count in the file that data were given for. `sample_replayed`,
    `holdout_replayed` and `transfer_replayed` say which counts were recomputed and confirmed: the
    errors on the sample, the hold-out line's, the disagreements of f and g.
    """

    ok: bool
    level: str
    reason: str  # why not ok; empty otherwise
    claim: AnyClaim
    sample_replayed: bool = False
    holdout_replayed: bool = False
    transfer_replayed: bool = False

    def __str__(self) -> str:
        return (
            f"ok at level {self.level}"
            if self.ok
            else f"NOT OK (level {self.level}): {self.reason}"
        )


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Malformed("the claim's ledger and assumptions must be lists")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Malformed("each of the claim's assumptions must be a string")
    return value


_JSON_TYPES: dict[str, type] = {"str": str, "int": int}


_R = TypeVar("_R", bound=Record)


def read_part(cls: type[_R], obj: Any, what: str) -> _R:
    """A part of a claim whose fields are strings and whole numbers: exactly its keys, each of its
    type.
    """
    fields = {f.name: _JSON_TYPES[str(f.type)] for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if not isinstance(obj, dict) or sorted(obj) != sorted(fields):
        raise Malformed(f"each {what} must be an object with exactly the keys {', '.join(fields)}")
    for key, kind in fields.items():
        if type(obj[key]) is not kind:
            raise Malformed(f"the {what}'s {key} has the wrong type")
    return cls(**obj)
