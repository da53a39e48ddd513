"""What a certificate assumes of its own sample, beyond what all of its kind assume.

The file keeps what was found in the sample among its notes (`made_with`), which the verifier leaves
alone; the words are here, so that no file can choose its own.
"""

from __future__ import annotations

from cushion.certificates.format.claims import Claim
from cushion.data.standardised import WHAT
from cushion.numerics import counted


def sample_assumptions(claim: Claim) -> tuple[str, ...]:
    """Sentences about rows that repeat others and about inputs that were standardised."""
    repeated, standardised = map(claim.made_with.get, ("repeated_rows", "standardised"))
    said = []
    if type(repeated) is int and repeated > 0:
        rows = counted(f"{repeated:,}".replace(",", " "), "row")
        said.append(f"{rows} that repeat earlier ones, labels included, are draws of their own")
    if standardised in WHAT:
        said.append(
            f"the constants that the {standardised} were standardised with were fixed before these "
            "examples were drawn, although mean 0 and deviation 1 on them say otherwise"
        )
    return tuple(said)
