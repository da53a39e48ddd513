"""What nobody can check: exactly these sentences, so that no file can word them away."""

from __future__ import annotations

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
        "δ and the number of draws were fixed in advance, and that a certificate of this kind "
        "would be quoted",
        "the words of the stated streams behave like independent uniform draws, and the message "
        "was not chosen by looking at them",
        _FOLKLORE,
    ),
}
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


def assumptions_of(kind: str, *, holdout: bool, transfer: bool = False) -> tuple[str, ...]:
    """Of a certificate of this kind, with or without a hold-out line and a bound on f."""
    return OF_KIND[kind] + OF_HOLDOUT * holdout + OF_TRANSFER * transfer
