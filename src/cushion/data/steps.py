"""Steps that may follow a source in --data: `cifar10,subset=10000,random-labels=1,seed=3`.

They change the sample only; the held-out part stays as it is. All of them use the one seed, and
each is written into the sample's history, so the fingerprint and the history together say which
rows were used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from cushion.data.corruption import randomize_labels, shuffle_labels, with_confusion_set
from cushion.data.dataset import Dataset
from cushion.data.splits import subset
from cushion.errors import BadInput

Step = Callable[[Dataset, int], Dataset]


def parse_source(text: str) -> tuple[str, Callable[[Dataset], Dataset]]:
    """The source without its steps, and what to do to its sample.

    >>> parse_source("mnist,subset=100,seed=2")[0]
    'mnist'
    """
    if "," not in text or Path(text).exists():
        return text, lambda sample: sample
    source, *words = text.split(",")
    seed = 0
    steps: list[Step] = []
    for word in words:
        name, _, value = word.partition("=")
        if name == "seed":
            seed = _whole(word, value)
        else:
            steps.append(_step(word, name, value))

    if not source:
        raise BadInput(
            f"`data` = {text!r} has steps but no source; put a name, a folder or an .npz file "
            "before them"
        )

    def apply(sample: Dataset) -> Dataset:
        for step in steps:
            sample = step(sample, seed)
        return dataclasses.replace(sample, name=",".join([sample.name, *words]))

    return source, apply


def _step(word: str, name: str, value: str) -> Step:
    if name == "subset":
        size = _whole(word, value)
        return lambda sample, seed: subset(sample, size, seed)
    if name == "random-labels":
        try:
            fraction = float(value)
        except ValueError:
            raise BadInput(
                f"`data` step {word!r}: random-labels needs a fraction, such as random-labels=0.5"
            ) from None
        return lambda sample, seed: randomize_labels(sample, fraction, seed)
    if name == "shuffle-labels" and not value:
        return shuffle_labels
    if name == "confusion":
        first, plus, second = value.partition("+")
        if not plus:
            raise BadInput(
                f"`data` step {word!r}: confusion needs true and random rows, such as "
                "confusion=10000+2000"
            )
        true_size, confusion_size = _whole(word, first), _whole(word, second)
        return lambda sample, seed: with_confusion_set(sample, true_size, confusion_size, seed)
    if name == "split":
        raise BadInput(
            f"`data` step {word!r}: a set's sample and held-out part come together; leave the step "
            "out (it is for `unlabelled`)"
        )
    raise BadInput(
        f"`data` step {word!r} is not known; the steps are subset=N, random-labels=F, "
        "shuffle-labels, confusion=N+N and seed=N"
    )


def _whole(word: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise BadInput(f"`data` step {word!r}: {text!r} is not a whole number")
    return int(text)
