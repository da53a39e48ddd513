"""certify(): from a sample, and a net to imitate, to a certificate."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

import torch
from torch import nn

from cushion.certificates.answers import answer, score
from cushion.certificates.certificate import Certificate, certify_net
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.message import encode
from cushion.certificates.transfer import choose_tolerance, split_delta, transfer
from cushion.data import Dataset, as_dataset
from cushion.data.inputs import Inputs, as_inputs, check_holdout, freshness_fault
from cushion.errors import BadInput
from cushion.nets.batches import as_floats
from cushion.nets.network import Network
from cushion.theorems.occam import occam_bound, parse_delta

if TYPE_CHECKING:
    from torch import Tensor

_BATCH = 256


def certify(
    data: Dataset | str,
    *,
    model: nn.Module | Network | None = None,
    unlabelled: Inputs | Dataset | str | None = None,
    holdout: Dataset | None = None,
    delta: str | float = "0.05",
    minutes: float = 1.0,
    seed: int = 0,
    report: Callable[[float, Decimal], None] | None = None,
) -> Certificate:
    """Find, within the time given, an integer net g with a small Occam bound on `data`, and certify
    it.

    With a model f, g also imitates f's scores. The certificate is about g; with fresh `unlabelled`
    inputs, used for nothing else, it also bounds f itself, and `delta` is the failure probability
    of that statement: g's bound gets 4/5 of it and the disagreements of f and g the rest. `holdout`
    and `unlabelled` are used only after the search has ended; before it, they are only checked for
    rows of the sample. `report` is told now and then the seconds passed and the best bound of g.
    """
    from cushion.certificates.search.integer.search import search

    sample = as_dataset(data)
    check_holdout(holdout, sample)
    total = parse_delta(str(delta))
    if not minutes > 0:
        raise BadInput(f"`minutes` = {minutes} must be above 0")
    delta_g, delta_f = (total, None) if unlabelled is None else split_delta(total)
    inputs = None if unlabelled is None else _fresh_inputs(unlabelled, sample)
    if inputs is not None and not isinstance(model, nn.Module):
        raise BadInput(
            "`unlabelled` serves to bound the error of your own net; give the net with `net` as "
            "well"
        )

    def judge(net: IntegerNet) -> Decimal:
        return Decimal(
            occam_bound(net.errors(sample.x, sample.y), len(sample), encode(net).bits, delta_g)
        )

    teacher = None if model is None else _teacher_scores(model, sample)
    found = search(
        sample,
        judge,
        seconds=60 * minutes,
        seed=seed,
        teacher=None if teacher is None else teacher[:, : sample.classes],
        report=report,
    )
    notes = {
        "minutes": minutes,
        "seed": seed,
        "imitates_a_model": model is not None,
        "trained": found.trained,
        "interrupted": found.interrupted,
    }
    certificate = certify_net(found.net, sample, delta_g, holdout=holdout, made_with=notes)
    if inputs is None or delta_f is None:
        return certificate
    assert isinstance(model, nn.Module)
    assert teacher is not None
    tolerance = choose_tolerance(teacher.abs().amax(dim=1).double().numpy())
    return transfer(certificate, inputs, answer(model, inputs.x), tolerance, delta_f)


def _fresh_inputs(unlabelled: Inputs | Dataset | str, sample: Dataset) -> Inputs:
    """The inputs, or BadInput unless they are of the sample's kind and have no rows from it."""
    inputs = as_inputs(unlabelled)
    if inputs.x.dtype != sample.x.dtype or inputs.x.shape[1:] != sample.x.shape[1:]:
        raise BadInput(
            f"{inputs.name}: the unlabelled inputs are {inputs.x.dtype} {inputs.x.shape[1:]} but "
            f"the sample's are {sample.x.dtype} {sample.x.shape[1:]}; they must be alike"
        )
    if fault := freshness_fault(inputs.x, sample.x):
        raise BadInput(
            f"{inputs.name}: the unlabelled inputs are not fresh, {fault}; give some that were "
            "used for nothing else, such as those of a set's held-out part (NAME,split=test)"
        )
    return inputs


def _teacher_scores(model: nn.Module | Network, data: Dataset) -> Tensor:
    """[m, at least classes] scores of the model on the sample."""
    if isinstance(model, Network):
        starts = range(0, len(data), _BATCH)
        scores = torch.cat(
            [model.forward(as_floats(data.x[s : s + _BATCH]).to(model.dtype)) for s in starts]
        )
    else:
        scores = score(model, data.x, describe="f's scores").float()
    if scores.shape[1] < data.classes:
        raise BadInput(
            f"the net gives {scores.shape[1]} scores, but {data.name} has {data.classes} classes; "
            "use its own data"
        )
    return scores
