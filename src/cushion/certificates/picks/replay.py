"""Trains again on the picks of a certificate: does every round come out the same here?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format.claims import PicksClaim
from cushion.certificates.picks.certificate import train
from cushion.certificates.picks.fit import BoundFit, Function, user_fit
from cushion.certificates.picks.rounds import Picked
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.numerics import counted


@dataclass(frozen=True, eq=False)
class FitReplay:
    """What the user's fit gave here.

    rounds: [R + 1, m] classes after each round, the empty one first. holdout: [n] classes of the
    last net on the held-out rows, where there are some. difference: where this first differs from
    the file, in words; empty if it does not. same_net: whether the last net has the stated numbers.
    """

    rounds: NDArray[np.int64]
    holdout: NDArray[np.int64] | None
    difference: str
    same_net: bool

    def __str__(self) -> str:
        if self.difference:
            return f"Trained again here, it first differs {self.difference}."
        net = "the same numbers" if self.same_net else "other numbers but the same answers"
        return f"Trained again here, every round came out the same; the last net has {net}."


def replay_fit(
    claim: PicksClaim,
    message: bytes,
    fit: str | Function,
    sample: Dataset,
    holdout: Dataset | None = None,
) -> FitReplay:
    """Run all rounds of the claim's fit; BadInput where `fit` is not the function it names."""
    said = claim.fit
    if said is None:
        raise BadInput("this certificate is not about a net of your own fit; leave `fit` out")
    own = user_fit(
        fit, seed=said.seed, groups=said.groups, batch=said.batch, tolerance=said.tolerance
    )
    if own.said != said:
        raise BadInput(
            f"this is not the fit that the certificate is about ({said.function} in a file whose "
            f"sha256 begins with {said.source[:12]}); give that file as it was"
        )
    rounds: list[NDArray[np.int64]] = []
    trained = train(own, sample, tell=rounds.append)
    assert isinstance(trained.bound, BoundFit)
    trained.bound.check_order(rounds[-1])
    return FitReplay(
        np.stack(rounds),
        None if holdout is None else trained.bound.classify(holdout.x),
        first_difference(trained.picked, message, claim.picks),
        trained.bound.digest() == claim.coefficients,
    )


def first_difference(here: Picked, message: bytes, picks: int) -> str:
    """In which round, and in how many rows, these rounds leave those of a message."""
    words = np.frombuffer(message, "<u4").astype(np.int64)
    stated, errors = words[:picks], words[picks:]
    start = 0
    for number, end in enumerate(here.ends, 1):
        ours, theirs = here.picks[start:end], stated[start:end]
        if not np.array_equal(ours, theirs):
            other = len(np.setdiff1d(ours, theirs))
            if not other and len(ours) == len(theirs):
                return f"in round {number}: its rows come in another order"
            rows = f"{other} of its {counted(len(ours), 'row')}"
            return f"in round {number}: {rows} are not those of the file"
        start = end
    if len(stated) > start:
        return f"after its rounds: the file has {counted(len(stated) - start, 'pick')} more"
    other = len(np.setxor1d(here.errors, errors))
    return f"after the last round: in {counted(other, 'error')}" if other else ""
