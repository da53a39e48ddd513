"""verify(): the verifier, for who has the names of data sets at hand."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from cushion import verifier
from cushion.certificates.answers import answer
from cushion.certificates.format.claims import Answers, Verdict
from cushion.data import AnyData, as_dataset, load_pair
from cushion.data.inputs import Inputs, as_inputs
from cushion.errors import BadInput
from cushion.nets.batch_size import batches
from cushion.nets.classifier import behind
from cushion.nets.devices import placed
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
    if model is not None and answering is not None:
        raise BadInput("`model` and `answering` both say what f answers; give one of them")
    if model is None and any(one is not None for one in (normalise, device, batch)):
        raise BadInput(
            "`normalise`, `device` and `batch` say how your net answers; give `model` as well"
        )
    if isinstance(data, (str, PathLike)):
        data, holdout = load_pair(data)
    sample = None if data is None else as_dataset(data)
    classes = None if sample is None else sample.classes

    def of_model(inputs: Inputs) -> Answers:
        net = placed(behind(model, normalise, inputs.x.shape[1:]), device)
        with batches(batch):
            return answer(net, inputs.x, classes=classes)

    return verifier.verify(
        path,
        sample,
        None if holdout is None else as_dataset(holdout, like=sample),
        unlabelled=None if unlabelled is None else as_inputs(unlabelled),
        answering=answering if model is None else of_model,
        slow=slow,
    )
