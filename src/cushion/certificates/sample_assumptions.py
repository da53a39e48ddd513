"""What a certificate assumes of its own rows and net, beyond what all of its kind assume.

The file keeps what was found in the sample, and what a seed chose, among its notes (`made_with`),
which the verifier leaves alone; the words are here, so that no file can choose its own.
"""

from __future__ import annotations

from typing import Any

from cushion.certificates.format.claims import Claim
from cushion.data.chosen import are_chosen_words, chosen_words
from cushion.data.dataset import Dataset
from cushion.data.inputs import Inputs
from cushion.data.standardised import WHAT
from cushion.numerics import counted

_CHOSEN = {
    "chosen_rows": "the rows",
    "chosen_holdout": "the held-out rows",
    "chosen_unlabelled": "the unlabelled rows",
}


def notes_on(sample: Dataset, holdout: Dataset | None = None) -> dict[str, Any]:
    """What `made_with` keeps of these rows."""
    return sample.found | _chosen("chosen_rows", sample) | _chosen("chosen_holdout", holdout)


def notes_on_inputs(inputs: Inputs) -> dict[str, Any]:
    """The same of unlabelled inputs."""
    return _chosen("chosen_unlabelled", inputs)


def _chosen(name: str, rows: Dataset | Inputs | None) -> dict[str, Any]:
    words = "" if rows is None else chosen_words(rows.history)
    return {name: words} if words else {}


def sample_assumptions(claim: Claim) -> tuple[str, ...]:
    """Sentences about rows that repeat others, inputs that were standardised, rows that a seed
    chose, and a net f of which only the numbers are known.
    """
    notes = claim.made_with
    repeated, standardised = map(notes.get, ("repeated_rows", "standardised"))
    said = []
    if type(repeated) is int and repeated > 0:
        rows = counted(f"{repeated:,}".replace(",", " "), "row")
        said.append(f"{rows} that repeat earlier ones, labels included, are draws of their own")
    if standardised in WHAT:
        said.append(
            f"the constants that the {standardised} were standardised with were fixed before these "
            "examples were drawn, although mean 0 and deviation 1 on them say otherwise"
        )
    for name, which in _CHOSEN.items():
        if are_chosen_words(words := notes.get(name)):
            said.append(
                f"{which} were chosen by {words}, which was fixed before anything was known of them"
            )
    if _is_program_unknown(claim):
        said.append(
            "the net that is given as f computes what f computes: its numbers have a fingerprint, "
            "its program has none"
        )
    return tuple(said)


def _is_program_unknown(claim: Claim) -> bool:
    f: Any = claim if claim.kind == "holdout" else getattr(claim, "transfer", None)
    return f is not None and f.program is None
