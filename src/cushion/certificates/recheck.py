"""verify() as Python users have it: sources by name or whatever holds data, f as a model."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cushion import verifier
from cushion.certificates.format.claims import Answers, Verdict
from cushion.data import AnyData, Dataset, as_dataset, load_pair
from cushion.data.inputs import Inputs, as_inputs
from cushion.errors import BadInput

if TYPE_CHECKING:
    from cushion.nets.normalise import Normalise


def verify(
    path: str | Path,
    data: AnyData | None,
    holdout: AnyData | None = None,
    *,
    model: Any = None,
    unlabelled: Inputs | AnyData | None = None,
    answering: Callable[[Inputs], Answers] | None = None,
    normalise: Normalise | None = None,
    device: str | None = None,
    batch: int | None = None,
    slow: bool = False,
) -> Verdict:
    """Check the certificate at `path` against the sample it is about, as `cushion.verifier` does.

    The name of a source stands for its sample and its held-out part. `model` and `unlabelled`
    replay a bound on the user's own net f: f, and the fresh inputs of the certificate. f answers on
    a copy on `device`, `batch` rows at a time, behind `normalise`, as in `certify`. `answering`
    instead of `model` is a function that gives f's answers, wherever they come from.
    """
    if model is None and any(one is not None for one in (normalise, device, batch)):
        raise BadInput(
            "`normalise`, `device` and `batch` say how your net answers; give `model` as well"
        )
    if isinstance(data, (str, PathLike)):
        data, holdout = load_pair(data)
    sample = None if data is None else as_dataset(data)
    if model is not None:
        if answering is not None:
            raise BadInput("`model` and `answering` both say what f answers; give one of them")
        if sample is None:
            raise BadInput("`model` is replayed beside the sample; give `data` as well")
        answering = _answering(model, sample, normalise, device, batch)
    return verifier.verify(
        path,
        sample,
        None if holdout is None else as_dataset(holdout, like=sample),
        unlabelled=None if unlabelled is None else as_inputs(unlabelled),
        answering=answering,
        slow=slow,
    )


def _answering(
    model: Any,
    sample: Dataset,
    normalise: Normalise | None,
    device: str | None,
    batch: int | None,
) -> Callable[[Inputs], Answers]:
    """What the net says, its classes numbered as the sample numbers them."""
    from cushion.certificates.answers import answer  # torch is needed for nets alone
    from cushion.nets.batch_size import batches
    from cushion.nets.classifier import behind
    from cushion.nets.devices import placed

    net = placed(behind(model, normalise, sample.shape), device)

    def answering(inputs: Inputs) -> Answers:
        with batches(batch):
            return answer(net, inputs.x, classes=sample.classes, labels=sample.labels)

    return answering
