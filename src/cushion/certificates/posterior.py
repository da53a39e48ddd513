"""certify_posterior(): train a Gaussian posterior over integer nets and state its PAC-Bayes
bound.
"""

from __future__ import annotations

from collections.abc import Callable

from cushion.certificates.pac_bayes import PosteriorCertificate, certify_gaussian
from cushion.data import Dataset, as_dataset
from cushion.data.inputs import check_holdout
from cushion.errors import BadInput
from cushion.theorems.occam import parse_delta

DRAWS = 100_000  # nets counted, each on one row; ten thousand take about two seconds
# a large posterior is drawn less often, so that verifying stays a matter of a minute or two
_WORDS = 2 * 10**8


def certify_posterior(
    data: Dataset | str,
    *,
    delta: str | float = "0.05",
    minutes: float = 5.0,
    seed: int = 0,
    holdout: Dataset | None = None,
    report: Callable[[float, float], None] | None = None,
) -> PosteriorCertificate:
    """Find, within the time given, a distribution Q over integer nets with a small PAC-Bayes bound,
    and certify it.

    The bound is on L(Q), the chance that a net drawn anew from Q errs on a new example; it fails
    with probability at most `delta` over the sample and the draws. The draws that are counted are
    made after training, once. `holdout` is read only after that. `report` is told now and then the
    seconds passed and an estimate of the bound.
    """
    from cushion.certificates.search.posterior import train_posterior

    sample = as_dataset(data)
    check_holdout(holdout, sample)
    exact_delta = parse_delta(str(delta))
    if not minutes > 0:
        raise BadInput(f"`minutes` = {minutes} must be above 0")
    found = train_posterior(sample, seconds=60 * minutes, seed=seed, report=report)
    notes = {
        "minutes": minutes,
        "seed": seed,
        "steps": found.steps,
        "interrupted": found.interrupted,
    }
    draws = max(1000, min(DRAWS, _WORDS // found.posterior.size))
    return certify_gaussian(
        found.posterior, sample, exact_delta, draws=draws, holdout=holdout, made_with=notes
    )
