"""How tails are fitted: what a user may choose, checked once."""

from __future__ import annotations

from dataclasses import dataclass

from cushion.errors import BadInput


@dataclass(frozen=True)
class TailOptions:
    """Every field is an option of `cushion measure` of the same name.

    bootstrap: samples drawn from each fitted power law to test it; 0 leaves the test out (100 tell
    p to 0.05, 2500 to 0.01; each costs a fit). seed: of those draws; all layers use the same.
    """

    bootstrap: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, count, most in (
            ("bootstrap", self.bootstrap, 10**6),
            ("seed", self.seed, 2**63 - 1),
        ):
            if type(count) is not int or not 0 <= count <= most:
                raise BadInput(f"`{name}` must be a whole number from 0 to {most}, not {count!r}")
