"""verify(): the verifier, for who has the names of data sets at hand."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from cushion import verifier
from cushion.certificates.format.claims import Answers, Verdict
from cushion.data import AnyData, as_dataset, load_pair
from cushion.data.inputs import Inputs, as_inputs


def verify(
    path: str | Path,
    data: AnyData | None,
    holdout: AnyData | None = None,
    *,
    unlabelled: Inputs | AnyData | None = None,
    answering: Callable[[Inputs], Answers] | None = None,
    slow: bool = False,
) -> Verdict:
    """Check the certificate at `path` against the sample it is about, as `cushion.verifier` does.

    The name of a source stands for its sample and its held-out part. `unlabelled` and `answering`
    replay a bound on the user's own net f: fresh inputs, and what f says on them (for a torch
    module `lambda inputs: certificates.answers.answer(module, inputs.x)`).
    """
    if isinstance(data, (str, PathLike)):
        data, holdout = load_pair(data)
    sample = None if data is None else as_dataset(data)
    return verifier.verify(
        path,
        sample,
        None if holdout is None else as_dataset(holdout, like=sample),
        unlabelled=None if unlabelled is None else as_inputs(unlabelled),
        answering=answering,
        slow=slow,
    )
