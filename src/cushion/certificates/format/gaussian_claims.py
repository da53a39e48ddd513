"""What a PAC-Bayes certificate states about a Gaussian posterior; JSON in and out, read
strictly.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from cushion.certificates.format.claims import Holdout, read_part
from cushion.errors import Malformed
from cushion.records import Record

# What nobody can check. A certificate carries exactly these sentences, so that no file can word
# them away.
POSTERIOR_ASSUMPTIONS = (
    "the m examples are independent draws from the distribution that the bound is about",
    "the file format (the prefix code of headers and the priors) was fixed before these examples "
    "were seen",
    "δ and the number of draws were fixed in advance, and that a certificate of this kind would be "
    "quoted",
    "the words of the stated streams behave like independent uniform draws, and the message was "
    "not chosen by looking at them",
    "what is folklore about a public benchmark (which kinds of nets do well on it) is not charged",
)
POSTERIOR_HOLDOUT_ASSUMPTION = (
    "the search never read the held-out examples; certificate and hold-out line quoted together "
    "fail with probability at most 2δ"
)
CONFIDENCE = (
    "confidence",
    "ln(2√m/(δ - δ')): the theorem's price for holding with probability 1 - (δ - δ')",
)


def posterior_assumptions(holdout: bool) -> tuple[str, ...]:
    """The assumptions of a PAC-Bayes certificate with or without a hold-out line."""
    return (*POSTERIOR_ASSUMPTIONS, *((POSTERIOR_HOLDOUT_ASSUMPTION,) if holdout else ()))


@dataclass(frozen=True)
class Payment(Record):
    """One thing that was paid: in nats (a decimal, rounded up), and in bits where it stands in the
    header.
    """

    item: str
    bits: int
    nats: str
    meaning: str


@dataclass(frozen=True)
class GaussianClaim(Record):
    """What a certificate file states about Q, the distribution over integer nets that its message
    decodes to.

    With probability at least 1 - δ over the draw of the m examples and of the nets counted, L(Q) ≤
    bound, where L(Q) is the chance that a net drawn anew from Q errs on a new example. Two steps, δ
    = `delta`, δ' = `delta_draws`:

    - L̂(Q), Q's error on the m examples, is at most `sample_bound` ≥ BinInv(errors; draws, δ''):
      each of `draws` nets was drawn anew and counted on one random row; δ'' is δ' less the
      sampler's distance from the true law;
    - bound ≥ kl⁻¹(sample_bound, (header_bits·ln 2 + kl + ln(2√m/(δ - δ')))/m) (Maurer 2004), kl ≥
      KL(Q‖P) in nats.

    The hold-out line is BinInv(errors; m, δ), δ less that distance: every held-out row once, each
    with its own net. Probabilities and nats are decimal strings, so that what was printed is
    exactly what is checked.
    """

    kind: Literal["pac-bayes"]
    about: Literal["Q"]
    data: str
    data_fingerprint: str
    m: int
    draws: int
    errors: int  # among the draws
    header_bits: int
    kl: str
    delta: str
    delta_draws: str
    sample_bound: str
    bound: str
    ledger: tuple[Payment, ...]
    assumptions: tuple[str, ...]
    holdout: Holdout | None = None
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
        for key in ("m", "draws", "errors", "header_bits"):
            if type(obj[key]) is not int:
                raise Malformed(f"the claim's {key} must be a whole number")
        for key in (
            "kind",
            "about",
            "data",
            "data_fingerprint",
            "kl",
            "delta",
            "delta_draws",
            "sample_bound",
            "bound",
        ):
            if not isinstance(obj[key], str):
                raise Malformed(f"the claim's {key} must be a string")
        if obj["kind"] != "pac-bayes" or obj["about"] != "Q":
            raise Malformed(
                "a claim of kind 'pac-bayes' is about 'Q', the distribution that the message "
                "decodes to"
            )
        for key in ("ledger", "assumptions"):
            if not isinstance(obj[key], list):
                raise Malformed(f"the claim's {key} must be a list")
        if not all(isinstance(text, str) for text in obj["assumptions"]):
            raise Malformed("each of the claim's assumptions must be a string")
        notes = obj["made_with"]
        if not isinstance(notes, dict) or any(
            isinstance(note, (dict, list)) for note in notes.values()
        ):
            raise Malformed("the claim's made_with must be an object of plain values")
        line = obj["holdout"]
        return cls(
            **{
                **obj,
                "ledger": tuple(read_part(Payment, item, "ledger item") for item in obj["ledger"]),
                "assumptions": tuple(obj["assumptions"]),
                "holdout": None if line is None else read_part(Holdout, line, "holdout"),
            }
        )
