"""The certificate of a learner that picks rows: L ≤ ε(picks + errors + slack; m, δ/choices)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

from numpy.typing import NDArray

from cushion.certificates.certificate import Certificate, doubts_about
from cushion.certificates.features import Seen
from cushion.certificates.format.claims import (
    Counted,
    Fit,
    LookedHoldout,
    PicksClaim,
    assumptions_of,
)
from cushion.certificates.picks.rounds import Bound, Learner, Picked, Tell, pick
from cushion.certificates.sample_assumptions import notes_on
from cushion.data.dataset import Dataset
from cushion.data.inputs import check_holdout
from cushion.data.registered import note_first_use
from cushion.errors import BadInput, remark
from cushion.theorems.occam import holdout_bound
from cushion.theorems.picks import picks_bound

MOST_ROWS = 2**22  # row numbers that a message holds
_DOWN = Context(prec=40, rounding=ROUND_FLOOR)
_LEDGER = {
    "picks": "rows that the learner was trained on",
    "errors": "the other rows that it gets wrong, each as dear as a pick",
    "slack": "rows more that another machine may count",
    "choices": "learners that could have been taken, or were tried: each gets δ / choices",
}


@dataclass(frozen=True, eq=False)
class Trained:
    """A learner after its rounds, and the rows that it picked and missed."""

    bound: Bound
    picked: Picked


def train(
    learner: Learner,
    sample: Dataset,
    x: NDArray[Any] | None = None,
    tell: Tell | None = None,
) -> Trained:
    """Run all rounds on the sample; x: its features, where the learner reads those instead."""
    bound = learner.bind(sample.x if x is None else x, sample.y)
    return Trained(bound, pick(bound, sample.x, sample.y, learner.groups, tell))


def certify_picks(
    learner: Learner,
    sample: Dataset,
    delta: Decimal,
    *,
    configuration: int,
    choices: int,
    holdout: Dataset | None = None,
    looks: int = 1,
    made_with: Mapping[str, Any] | None = None,
) -> Certificate:
    """Run the rounds of one learner and state their bound.

    Guarantee as in `picks_bound`, under `claims.assumptions_of`: the learner is one of `choices`
    that were fixed before the sample; `looks`: how many classifiers were ever looked at on the
    held-out rows.
    """
    check_holdout(holdout, sample)
    trained = train(learner, sample)
    return state(
        trained,
        sample,
        delta,
        configuration=configuration,
        choices=choices,
        holdout=holdout,
        looks=looks,
        made_with=made_with,
    )


def state(
    trained: Trained,
    sample: Dataset,
    delta: Decimal,
    *,
    configuration: int = 0,
    choices: int = 1,
    fit: Fit | None = None,
    seen: Seen | None = None,
    holdout: Dataset | None = None,
    looks: int = 1,
    made_with: Mapping[str, Any] | None = None,
) -> Certificate:
    """The certificate of rounds that were run; seen: the backbone whose features were read."""
    picks, errors, m = len(trained.picked.picks), len(trained.picked.errors), len(sample)
    if picks + errors > MOST_ROWS:
        named = f"{picks + errors} picks and errors"
        raise BadInput(f"{named} are more than a certificate holds ({MOST_ROWS}); use fewer rows")
    slack = 0 if seen is None else seen.allowed(m, m)
    line, stated = None, format(delta, "f")
    if holdout is not None:
        classes = trained.bound.classify((holdout if seen is None else seen.sample(holdout)).x)
        missed, n = int((classes != holdout.y).sum()), len(holdout)
        missed = min(n, missed + (0 if seen is None else seen.allowed(n, m)))
        share = _DOWN.divide(delta, Decimal(looks))
        at_most = holdout_bound(missed, n, share)
        line = LookedHoldout(holdout.fingerprint, missed, n, stated, at_most, looks)
        note_first_use(holdout, _identity(trained, fit), looks)
    counts = {"picks": picks, "errors": errors, "slack": slack, "choices": choices}
    claim = PicksClaim(
        about="g" if fit is None else "f",
        data=sample.name,
        data_fingerprint=sample.fingerprint,
        m=m,
        errors=errors,
        delta=stated,
        bound=picks_bound(picks + errors + slack, m, delta, choices),
        ledger=tuple(Counted(name, 0, _LEDGER[name], n) for name, n in counts.items()),
        assumptions=assumptions_of(
            "picks",
            holdout=line is not None,
            fit=fit is not None,
            features=seen is not None,
        ),
        holdout=line,
        made_with={**(made_with or {}), **notes_on(sample, holdout)},
        classes=sample.classes,
        picks=picks,
        slack=slack,
        configuration=configuration,
        choices=choices,
        fit=fit,
        features=None if seen is None else seen.claim,
        coefficients=trained.bound.digest(),
    )
    remark(*doubts_about(claim))
    return Certificate(claim, trained.picked.message)


def _identity(trained: Trained, fit: Fit | None) -> str:
    """Of what is counted on held-out rows: f as kind holdout knows it, or g by its message."""
    if fit is None:
        return hashlib.sha256(trained.picked.message).hexdigest()
    from cushion.nets.program import program_fingerprint

    net: Any = trained.bound
    return f"{net.digest()}-{program_fingerprint(net.net) or ''}"
