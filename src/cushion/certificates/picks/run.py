"""From a sample and what was asked for to a certificate of kind picks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cushion.certificates.certificate import Certificate
from cushion.certificates.features import Seen
from cushion.certificates.picks.certificate import Trained, state, train
from cushion.certificates.picks.options import CHOICES, PicksOptions, schedule
from cushion.data.dataset import Dataset
from cushion.data.files import check_writable
from cushion.data.inputs import check_holdout
from cushion.data.rows import Reading
from cushion.errors import BadInput

if TYPE_CHECKING:
    from torch import nn

    from cushion.certificates.picks.fit import Function


@dataclass(frozen=True)
class NetCertificate(Certificate):
    """About the net f that the user's own fit made of the picked rows; `net` is that f."""

    net: nn.Module

    def save(self, path: str | Path) -> Path:
        """The certificate file, and beside it, as FILE.safetensors, f's state dict.

        BadInput for another's FILE.safetensors: nothing is written.
        """
        from cushion.nets.loading.weights import save_tensors

        check_beside(path)
        # copies, as no two of them may share memory in the file
        numbers = {name: tensor.clone() for name, tensor in self.net.state_dict().items()}
        save_tensors(weights_beside(path), numbers, {})
        return super().save(path)


def weights_beside(path: str | Path) -> Path:
    """Where the net of a certificate is saved.

    >>> weights_beside("mine.cushion").name
    'mine.cushion.safetensors'
    """
    return Path(f"{path}.safetensors")


def check_beside(path: str | Path) -> None:
    """BadInput unless the net of a certificate can be saved beside it: what is there already must
    be the net of an earlier run, whose certificate is there too.
    """
    target = check_writable(weights_beside(path))
    if target.is_file() and not Path(path).is_file():
        raise BadInput(
            f"{weights_beside(path)}, where the net would be saved, exists and is not of a "
            f"certificate {path}; give the certificate another name"
        )


def certify_by_list(
    sample: Dataset,
    delta: Decimal,
    options: PicksOptions,
    *,
    seen: Seen | None = None,
    holdout: Dataset | None = None,
    made_with: Mapping[str, Any] | None = None,
) -> tuple[Certificate, Trained]:
    """With a learner of the frozen list, in whole numbers; about the classifier g that it makes.

    seen: a backbone, whose features the learner reads instead of the inputs.
    """
    from cushion.certificates.picks.best_of_list import best_of_list
    from cushion.certificates.picks.configurations import learner_for

    check_holdout(holdout, sample)
    read, features = (sample, False) if seen is None else (seen.sample(sample), True)
    if options.configuration is None:
        number, trained = best_of_list(sample, read, features=features, recipe=options.recipe)
    else:
        number = options.configuration
        trained = train(learner_for(read, number, features=features), sample, read.x)
    if (reading := reading_of(trained, sample)) is not None:
        check_holdout(holdout, sample, reading)
    certificate = state(
        trained,
        sample,
        delta,
        configuration=number,
        choices=CHOICES * options.tried,
        seen=seen,
        holdout=holdout,
        looks=options.looks,
        made_with=made_with,
    )
    return certificate, trained


def reading_of(trained: Trained, sample: Dataset) -> Reading | None:
    """How a listed learner reads floats, to compare rows by that; bytes need no reading."""
    from cushion.certificates.picks.configurations import BoundMachine

    bound = trained.bound
    if not isinstance(bound, BoundMachine) or bound.x is not sample.x:
        return None
    return bound.as_read if sample.x.dtype == np.float32 else None


def certify_fit(
    fit: str | Function,
    sample: Dataset,
    delta: Decimal,
    options: PicksOptions,
    *,
    seed: int = 0,
    batch: int | None = None,
    holdout: Dataset | None = None,
    made_with: Mapping[str, Any] | None = None,
) -> NetCertificate:
    """With the user's own training; about the net f that it makes of the picked rows."""
    from cushion.certificates.picks.fit import BATCH, BoundFit, user_fit

    for name in ("recipe", "configuration"):
        if getattr(options, name) is not None:
            raise BadInput(f"`{name}` is about the frozen list; leave it or `fit` out")
    check_holdout(holdout, sample)
    learner = user_fit(
        fit,
        seed=seed,
        groups=tuple(options.groups or schedule()),
        batch=BATCH if batch is None else batch,
        tolerance=_tolerance(options.tolerance),
    )
    trained = train(learner, sample)
    assert isinstance(trained.bound, BoundFit)
    trained.bound.check_order(trained.bound.classify(sample.x))
    certificate = state(
        trained,
        sample,
        delta,
        choices=options.tried,
        fit=learner.said,
        holdout=holdout,
        looks=options.looks,
        made_with=made_with,
    )
    assert trained.bound.net is not None
    return NetCertificate(certificate.claim, certificate.message, trained.bound.net.eval())


def _tolerance(text: str) -> str:
    """A plain decimal above 0 and at most 1, with a point."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal(0)
    if not (value.is_finite() and 0 < value <= 1 and value == round(value, 18)):
        raise BadInput(f"`tolerance` = {text} must be above 0 and at most 1, such as 0.0001")
    plain = format(value, "f")
    return plain if "." in plain else f"{plain}.0"
