"""What certificate files state: claims of each kind, their parts, and the verdict on them.

A field's meaning never changes once released. `delta`, `bound` and their like are decimal strings,
so that what was printed is exactly what is checked. Reading JSON is strict: exactly the known keys,
each of its type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from cushion.errors import Malformed
from cushion.records import Record

# What nobody can check: exactly these sentences, so that no file can word them away.
_INDEPENDENT = "the m examples are independent draws from the distribution that the bound is about"
_FOLKLORE = (
    "what is folklore about a public benchmark (which kinds of nets do well on it) is not charged"
)
OF_KIND = {
    "occam": (
        _INDEPENDENT,
        "the file format (the prefix code) was fixed before these examples were seen",
        "δ was fixed in advance",
        _FOLKLORE,
    ),
    "pac-bayes": (
        _INDEPENDENT,
        "the file format (the prefix code of headers and the priors) was fixed before these "
        "examples were seen",
        "δ was fixed in advance, and that a certificate of this kind would be quoted",
        "sha256 and SHAKE-256 behave like random functions, and at most 2^80 messages, numbers of "
        "draws and orders of the sample were tried by looking at their draws",
        _FOLKLORE,
    ),
    "picks": (
        _INDEPENDENT,
        "the learner, its rounds and the list that it was chosen from were fixed before these "
        "examples were seen, and every one that was ever run on them is counted among the choices",
        "δ was fixed in advance, and that a certificate of this kind would be quoted",
        _FOLKLORE,
    ),
}
OF_FIT = (
    "fit reads nothing but its arguments, and gives the same net wherever it gets the same ones",
)
OF_FEATURES = (
    "the backbone and the way its features are read were fixed without these examples, which are "
    "independent of the data that it was trained on",
)
OF_LOOKS = (
    "no more than the stated number of classifiers were ever looked at on the held-out examples",
)
OF_HOLDOUT = (
    "the search never read the held-out examples; certificate and hold-out line quoted together "
    "fail with probability at most 2δ",
)
OF_TRANSFER = (
    "the unlabelled inputs are fresh independent draws of the inputs that the bound is about, used "
    "for nothing else: neither to train f nor to find g",
    "f and the tolerance were fixed before the unlabelled inputs were looked at",
    "f is a fixed function: on other machines each of its scores differs by at most a quarter of "
    "the tolerance",
)
# What a PAC-Bayes ledger calls its last item.
CONFIDENCE = (
    "confidence",
    "ln(2√m/(δ - δ')): the theorem's price for holding with probability 1 - (δ - δ')",
)


class LedgerItem(Record):
    """One thing the decoder reads, what it costs in bits, and why it was paid."""

    item: str
    bits: int
    meaning: str


class Payment(LedgerItem):
    """What was paid in nats (a decimal, rounded up), and in bits where it stands in the header."""

    nats: str


class Holdout(Record):
    """BinInv(errors; m, δ) on labels that the search never read, for a sceptic to compare with."""

    data_fingerprint: str
    errors: int
    m: int
    delta: str
    bound: str


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
    # of what f computes with its numbers; None where that is not known, and in older files
    program: str | None = None


class LookedHoldout(Holdout):
    """BinInv(errors; m, δ/looks): `looks` classifiers were looked at on these rows, this one last.

    Any of them could be quoted, so the line holds for all of them at once.
    """

    looks: int


class Counted(LedgerItem):
    """What was paid in rows of the sample, or as a number of choices; nothing of it costs bits."""

    count: int


class Fit(Record):
    """The user's own learner, fit(x, y, seed), and how its nets answer."""

    source: str  # sha256 of the file that it stands in
    function: str
    seed: int
    groups: tuple[int, ...]  # rows added in each round, at most
    batch: int  # rows scored at a time, the last batch padded to it
    tolerance: str  # a gap between the two largest scores of at most this is an error


class Features(Record):
    """Rows of bytes that a backbone, fixed without the sample, makes of the examples.

    A picture is enlarged to size x size (0: as it is) and the backbone gives `width` floats; with
    `mirror` 1 these are the means of those of the picture and of its mirror image. A float v
    becomes ⌊v·2^scale⌋ + offset, clipped to 0..255; a row whose squares sum to 2^24 or more is
    halved (rounded down) until they do not.
    """

    name: str  # an installed package, or file.py:factory
    weights: str  # sha256 of the file with its weights
    program: str | None  # sha256 of file.py; null for an installed package
    size: int
    enlarged: Literal["bilinear", "bicubic"]
    mirror: int
    width: int
    scale: int
    offset: int


class Claim(Record, kw_only=True):
    """What every kind of certificate states: with probability at least 1 - δ, L(about) ≤ bound."""

    kind: str
    about: str
    data: str
    data_fingerprint: str
    m: int
    errors: int
    delta: str
    bound: str
    ledger: tuple[LedgerItem, ...]
    assumptions: tuple[str, ...]
    holdout: Holdout | None = None
    # free notes (seed, minutes); the verifier ignores them
    made_with: dict[str, Any] = field(default_factory=dict)


def _without(found: dict[str, Any], key: str, drop: bool) -> dict[str, Any]:
    """Files that need no later key keep the bytes that they had before it."""
    return {name: value for name, value in found.items() if not (drop and name == key)}


class OccamClaim(Claim, kw_only=True):
    """About the classifier g that the message decodes to.

    With probability at least 1 - δ over the draw of the m examples, simultaneously for every
    message of the code, L(g) ≤ bound, where g makes `errors` errors on them and its message is
    `bits` bits long: bound ≥ BinInv(errors; m, δ·2^-bits) (Occam's razor with the exact binomial
    tail). All of this is about g; `transfer`, where there is one, is about f.
    """

    kind: Literal["occam"] = "occam"
    about: Literal["g"] = "g"
    bits: int
    transfer: Transfer | None = None
    features: Features | None = None  # what g reads instead of the inputs; errors are at most those

    def to_json(self) -> dict[str, Any]:
        return _without(super().to_json(), "features", self.features is None)


class GaussianClaim(Claim, kw_only=True):
    """About Q, the distribution over integer nets that the message decodes to.

    With probability at least 1 - δ over the draw of the m examples and of the nets counted, L(Q) ≤
    bound, where L(Q) is the chance that a net drawn anew from Q errs on a new example. Two steps, δ
    = `delta`, δ' = `delta_draws`:

    - L̂(Q), Q's error on the m examples, is at most `sample_bound` ≥ BinInv(errors; draws, δ' ·
      2^-tries_bits) + s: each of `draws` nets was drawn anew and counted on one random row,
      `errors` of them err; s is the sampler's distance from the true law, and the bits pay for
      whoever tries so many messages and keeps the luckiest draws;
    - bound ≥ kl⁻¹(sample_bound, (header_bits·ln 2 + kl + ln(2√m/(δ - δ')))/m) (Maurer 2004), kl ≥
      KL(Q‖P) in nats.

    The hold-out line is BinInv(errors; m, δ) and that distance: every held-out row once, each with
    its own net.
    """

    kind: Literal["pac-bayes"] = "pac-bayes"
    about: Literal["Q"] = "Q"
    draws: int
    header_bits: int
    kl: str
    delta_draws: str
    tries_bits: int = 0  # 0: of the version before, whose draws could be chosen for nothing
    sample_bound: str
    ledger: tuple[Payment, ...]
    features: Features | None = None  # what the nets read instead; errors are at most those stated

    def to_json(self) -> dict[str, Any]:
        found = _without(super().to_json(), "features", self.features is None)
        return _without(found, "tries_bits", not self.tries_bits)


class PicksClaim(Claim, kw_only=True):
    """About the classifier that a fixed learner makes of the picked rows, which the message names.

    With probability at least 1 - δ over the draw of the m examples, L(about) ≤ bound ≥ ε(k; m,
    δ/choices), k = picks + errors + slack (preferent sample compression, `theorems.picks`). About
    "g": a learner of the frozen list, in whole numbers; about "f": the net that the user's own
    `fit` returns. `slack` is stated where floats decide (a fit, or features): the count on another
    machine may be larger by so much.
    """

    kind: Literal["picks"] = "picks"
    about: Literal["g", "f"] = "g"
    classes: int  # that the learner tells apart, fixed before the examples
    picks: int
    slack: int = 0
    configuration: int  # of the frozen list; 0 where there is a fit
    choices: int = 1
    fit: Fit | None = None
    features: Features | None = None
    coefficients: str | None = None  # sha256 of what the last training gave
    transfer: Transfer | None = None
    ledger: tuple[Counted, ...]
    holdout: LookedHoldout | None = None

    @property
    def stated(self) -> int:
        """k: what the bound is computed from."""
        return self.picks + self.errors + self.slack


def assumptions_of(
    kind: str,
    *,
    holdout: bool,
    transfer: bool = False,
    fit: bool = False,
    features: bool = False,
) -> tuple[str, ...]:
    """Of a certificate of this kind, with or without a hold-out line, a bound on f, the user's own
    learner and a backbone.
    """
    held_out = (OF_HOLDOUT + OF_LOOKS * (kind == "picks")) * holdout
    return OF_KIND[kind] + OF_FIT * fit + OF_FEATURES * features + held_out + OF_TRANSFER * transfer


@dataclass(frozen=True, eq=False)
class Answers:
    """What the user's own net f answers: plain arrays, so that the verifier needs no torch."""

    net_fingerprint: str  # of f's numbers (FORMAT.md, section 5)
    classes: NDArray[np.int64]  # [n] of the largest score
    gaps: NDArray[np.float64]  # [n] the largest score less the second largest
    program: str | None = None  # of what f computes with its numbers, where that is known
    scores: NDArray[np.float64] | None = None  # [n, classes], where they are known

    def outside(self, tolerance: Decimal) -> NDArray[np.int64]:
        """[n] the classes; -1 where a gap within the tolerance might differ elsewhere."""
        return np.where(self.gaps > float(tolerance), self.classes, -1)


_KINDS: dict[str, type[Claim]] = {
    "occam": OccamClaim,
    "pac-bayes": GaussianClaim,
    "picks": PicksClaim,
}


def read_claim(obj: Any) -> Claim:
    """The claim of the kind that it names; Malformed if there is none, or it breaks its rules."""
    from cushion.certificates.format.holdout_claim import HoldoutClaim  # itself a kind of Claim

    kinds = {**_KINDS, "holdout": HoldoutClaim}
    kind = obj.get("kind") if isinstance(obj, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise Malformed(f"the claim must be an object whose kind is one of {', '.join(kinds)}")
    return _read_record(kinds[kind], obj, "the claim")


_R = TypeVar("_R", bound=Record)


# Keys that files of the version before do not have.
_LATER: dict[type[Record], set[str]] = {
    OccamClaim: {"features"},
    GaussianClaim: {"features", "tries_bits"},
    Transfer: {"program"},
}


def _read_record(cls: type[_R], obj: Any, what: str) -> _R:
    kinds = get_type_hints(cls)
    if not isinstance(obj, dict) or (set(kinds) ^ set(obj)) - _LATER.get(cls, set()):
        raise Malformed(f"{what} must be an object with exactly the keys {', '.join(kinds)}")
    return cls(**{key: _read(kinds[key], value, f"{what}'s {key}") for key, value in obj.items()})


def _read(kind: Any, value: Any, what: str) -> Any:
    """A value of the annotated kind, from JSON."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:  # a part that may be missing
        return None if value is None else _read(parts[0], value, what)
    if origin is tuple:
        if not isinstance(value, list):
            raise Malformed(f"{what} must be a list")
        return tuple(_read(parts[0], part, f"each part of {what}") for part in value)
    if origin is dict:
        if not isinstance(value, dict) or any(isinstance(v, dict | list) for v in value.values()):
            raise Malformed(f"{what} must be an object of plain values")
        return value
    if origin is Literal:
        if value not in parts:
            allowed = " or ".join(map(repr, parts))
            raise Malformed(f"{what} must be {allowed}, which is what its message decodes to")
        return value
    if issubclass(kind, Record):
        return _read_record(kind, value, what)
    if type(value) is not kind:
        raise Malformed(f"{what} must be {'a whole number' if kind is int else 'a string'}")
    return value
