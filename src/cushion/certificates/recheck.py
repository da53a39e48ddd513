"""verify(): the verifier, for who has the names of data sets at hand."""

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
    unlabelled: Inputs | AnyData | None = None,
    model: Any = None,
    normalise: Normalise | None = None,
    answering: Callable[[Inputs], Answers] | None = None,
    slow: bool = False,
) -> Verdict:
    """Check the certificate at `path` against the sample it is about, as `cushion.verifier` does.

    The name of a source stands for its sample and its held-out part. `unlabelled` and `model`
    (with `normalise`, as of `certify`) replay a bound on the user's own net f; `answering` in the
    place of `model` is what f says on the inputs, where f is elsewhere.
    """
    if isinstance(data, (str, PathLike)):
        data, holdout = load_pair(data)
    sample = None if data is None else as_dataset(data)
    if model is not None:
        if answering is not None or sample is None:
            raise BadInput("`model` is replayed with `data` and without `answering`; give it so")
        answering = _answering(model, normalise, sample)
    return verifier.verify(
        path,
        sample,
        None if holdout is None else as_dataset(holdout, like=sample),
        unlabelled=None if unlabelled is None else as_inputs(unlabelled),
        answering=answering,
        slow=slow,
    )


def _answering(
    model: Any, normalise: Normalise | None, sample: Dataset
) -> Callable[[Inputs], Answers]:
    """What the net says, its classes numbered as the sample numbers them."""
    from cushion.certificates.answers import answer  # torch is needed for nets alone
    from cushion.nets.classifier import behind

    net = behind(model, normalise, sample.shape)

    def answering(inputs: Inputs) -> Answers:
        return answer(net, inputs.x, classes=sample.classes, labels=sample.labels)

    return answering
