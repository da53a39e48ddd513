"""What a certificate needs torch for, run again here: a backbone's features, a user's training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.features import see_again
from cushion.certificates.format.claims import Features, PicksClaim
from cushion.certificates.format.container import unpack
from cushion.data.dataset import Dataset
from cushion.data.files import check_regular
from cushion.data.inputs import Inputs
from cushion.errors import BadInput

if TYPE_CHECKING:
    from cushion.certificates.picks.fit import Function
    from cushion_verify import Verdict


def features_again(
    claim: Any,
    sample: Dataset,
    held: Dataset | None,
    unlabelled: NDArray[Any] | None,
    given: str | Path | NDArray[np.uint8] | None,
    named: tuple[str | None, str | None],
) -> dict[str, Any]:
    """The bytes that a backbone makes of the rows, where the certificate is about such.

    given: those of the sample, taken as they are. named: file.py:factory and its weights.
    """
    stated = getattr(claim, "features", None)
    if stated is None:
        if given is not None or any(named):
            said = "leave `features`, `backbone` and `backbone_weights` out"
            raise BadInput(f"this certificate says nothing about a backbone; {said}")
        return {}
    if given is not None:
        if any(named):
            raise BadInput("`features` are taken as given and `backbone` makes them; give one")
        # of the held-out rows nobody gave any: that line stays a claim
        return {"features": _array(given), "holdout_x": None, "holdout_y": None}
    seen = see_again(Features(**vars(stated)), *named)
    rows = {"features": sample, "holdout_features": held if claim.holdout else None}
    found: dict[str, Any] = {
        name: seen.bytes_of(Inputs(data.name, data.x))
        for name, data in rows.items()
        if data is not None
    }
    if unlabelled is not None:
        found["unlabelled_features"] = seen.bytes_of(Inputs("unlabelled", unlabelled))
    return found | {"recomputed": ("answers", "features")}


def _array(given: str | Path | NDArray[np.uint8]) -> NDArray[Any]:
    if isinstance(given, np.ndarray):
        return given
    path = check_regular(given)
    try:
        found: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except Exception:  # whatever numpy says of bytes that are no array
        raise BadInput(f"{given}: must be an .npy file of bytes; save it with numpy.save") from None
    return found


@dataclass(frozen=True)
class Again:
    """What a verifier is given of a training, and how it came out here, in a sentence."""

    given: dict[str, Any] = field(default_factory=dict)
    same: bool = True
    said: str = ""

    def tell(self, verdict: Verdict) -> None:
        """Say it behind what was counted, or warn of what differs."""
        if self.same:
            who, counted = verdict.subject
            verdict.subject = (who, f"{counted} {self.said}".strip())
        else:
            verdict.warn(self.said.rstrip("."))


def rounds_again(
    path: str | Path, fit: str | Function, sample: Dataset, held: Dataset | None
) -> Again:
    """The classes that the user's fit gives after each round; nothing where these rows are not
    those of the certificate, which is well-formed.
    """
    from cushion.certificates.picks.replay import replay_fit  # torch is needed for nets alone

    claim, message = unpack(Path(path).read_bytes())
    if not isinstance(claim, PicksClaim) or claim.fit is None:
        raise BadInput("this certificate is not about a net of your own fit; leave `fit` out")
    if sample.fingerprint != claim.data_fingerprint:  # no training on other rows
        return Again()
    found = replay_fit(claim, message, fit, sample, held)
    given = {"rounds": found.rounds, "holdout_classes": found.holdout, "recomputed": ("rounds",)}
    return Again(given, found.same_net and not found.difference, str(found))
