"""Whatever a person calls their classifier, as a module that maps a batch to rows of class scores.

A plain module that already does so is used as it is; compiled and parallel ones are used by what
they wrap; others get a thin wrapper, `Logits`, that picks the scores from what they return. A
fitted scikit-learn classifier, an `.onnx` file, TorchScript and quantised nets give answers only:
nothing looks inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from cushion.data.doubts import doubts_about_labels
from cushion.errors import BadInput, remark
from cushion.nets.batches import Batch, was_bytes
from cushion.nets.calling import call, evaluating, precision, refusing_misfits
from cushion.nets.fitted import Fitted, is_fitted
from cushion.nets.normalise import Constants, Normalise, Normalised, constants, normalise_words
from cushion.nets.outputs import Reading, find_scores

_FAR = 1e3
_TWO_CLASSES = "the net gives one number z an example, read as the scores (0, z) of two classes"
_TWO_CHANCES = "the net gives one probability p an example, read as the scores (1 - p, p)"
_DOUBTFUL = (
    "; it lies between 0 and 1 here, so if it is a probability, return its logit instead, or two "
    "scores: as it is, every answer is class 1"
)
_PROBABILITIES = (
    "the net's scores look like probabilities (a softmax at its end), so margins are differences "
    "of probabilities, and losses (sharpness) are those of a second softmax; return the logits "
    "instead"
)


class Logits(nn.Module):
    """inner, called as it wants to be; of what it returns, the part that holds the scores.

    forward: a batch -> [B, classes], classes ≥ 2, float32 or float64. A dynamically quantised net
    is called a row at a time: it rounds by the largest value of its batch, so that only alone a row
    has scores of its own.
    """

    def __init__(self, inner: nn.Module, reading: Reading) -> None:
        super().__init__()
        self.inner = inner
        self.reading = reading
        self.answers_only = answers_only(inner)
        self.by_row = any(map(_rounds_by_batch, inner.modules()))
        self.training = inner.training

    def forward(self, x: Any) -> Any:
        if self.by_row and isinstance(x, Tensor):
            return torch.cat([self.reading.scores(call(self.inner, row[None])) for row in x])
        return self.reading.scores(call(self.inner, x))


def as_module(
    model: Any,
    rows: Batch | None = None,
    *,
    classes: int | None = None,
    labels: Sequence[int | str] | None = None,
) -> nn.Module:
    """The model as a module whose forward maps a batch to scores [B, classes ≥ 2].

    rows: a few examples, on which the model is tried once to see what it returns; without them only
    wrappers are taken off. A fitted classifier gets rows that `as_batch` made of uint8 undivided,
    unless constants stand before it (`normalised`). A plain module that gives such rows comes back
    as it is. classes: of the data, to tell the scores from other outputs; labels: the data's own of
    these, to number those of a fitted classifier alike. The model is not changed, nor its mode: run
    what comes back inside `evaluating`. BadInput for what is no classifier.
    """
    module = unwrapped(model, classes, labels, of_bytes=was_bytes(rows))
    lazy = [name for name, value in module.named_parameters() if is_lazy(value)]
    if lazy:
        said = f"parameter {lazy[0]} has no values yet (its layer is lazy)"
        raise BadInput(f"{said}; run the net on one batch first")
    if rows is None or isinstance(module, Logits):
        return module
    quiet = torch.random.fork_rng(devices=[])
    batch = next(iter(rows.values())) if isinstance(rows, Mapping) else rows
    with torch.no_grad(), quiet, evaluating(module):
        with refusing_misfits(module, rows):
            found = call(module, rows)
        reading = find_scores(found, len(batch), classes)
        if reading.single and isinstance(rows, Tensor) and _is_chance(module, rows, reading):
            reading = replace(reading, chance=True)
        if not _is_of_scikit_learn(module):  # its classes are matched to the labels
            remark(*doubts_about_labels(labels, reading.scores(found).shape[1]))
    named = isinstance(rows, Mapping) or hasattr(module, "main_input_name")
    native = precision(module) == torch.float32 or not batch.is_floating_point()
    if reading == Reading() and not named and native and not answers_only(module):
        return module
    return Logits(module, reading)


def unwrapped(
    model: Any,
    classes: int | None = None,
    labels: Sequence[int | str] | None = None,
    *,
    of_bytes: bool = False,
) -> nn.Module:
    """The module inside compiled and parallel wrappers, or one around a fitted classifier, whose
    classes are numbered as these data number theirs; of_bytes: whether the data are uint8.
    """
    while isinstance(model, nn.Module) and isinstance(
        inside := getattr(model, "_orig_mod", None) or _parallel(model), nn.Module
    ):
        model = inside
    if isinstance(model, Logits) and isinstance(model.inner, Fitted):
        model = model.inner
    if isinstance(model, Fitted) and classes is not None:
        return Fitted(model.model, classes, labels, of_bytes=of_bytes)
    if isinstance(model, Normalised) and isinstance(model.inner, Fitted):
        return Normalised(unwrapped(model.inner, classes, labels), model.mean, model.std)
    if isinstance(model, nn.Module):
        return model
    if is_fitted(model):
        return Fitted(model, classes, labels, of_bytes=of_bytes)
    if isinstance(inside := getattr(model, "module", None), nn.Module):  # what load_net returned
        return unwrapped(inside, classes, labels, of_bytes=of_bytes)
    kind = model.__name__ if isinstance(model, type) else type(model).__name__
    said = f"the net must be a torch.nn.Module or a fitted scikit-learn classifier, not a {kind}"
    way = "; call the class to make one" if isinstance(model, type) else ""
    raise BadInput(said + way)


def normalised(model: Any, mean: Constants, std: Constants, shape: Sequence[int]) -> nn.Module:
    """The net behind (x - mean) / std, for examples of `shape`: constants of its training.

    mean and std: one number, or one a channel (the first axis). They wrap the net and not the data,
    whose fingerprint stays. The model is not changed.
    """
    module = unwrapped(model)
    inner = module.inner if isinstance(module, Logits) else module
    return Normalised(inner, *constants(mean, std, shape))


def behind(model: Any, normalise: Normalise | None, shape: Sequence[int]) -> Any:
    """The model behind `normalise`, a pair (mean, std), for examples of `shape`; None: as it is."""
    if normalise is None:
        return model
    if model is None:
        raise BadInput("`normalise` says what stood before your net; give `model` as well")
    if not isinstance(normalise, tuple | list) or len(normalise) != 2:
        raise BadInput(f"`normalise` must be a pair (mean, std), not {normalise!r}")
    return normalised(model, *normalise, shape)


def step_before(model: Any) -> str:
    """The constants that stand before the net, in words; "" where there are none."""
    inner = model.inner if isinstance(model, Logits) else model
    if not isinstance(inner, Normalised):
        return ""
    return normalise_words(inner.mean.flatten().tolist(), inner.std.flatten().tolist())


def answers_only(model: nn.Module) -> bool:
    """Whether the net gives answers and nothing else: no weights to see, no graph, no gradients."""
    while isinstance(model, Normalised | Logits):
        model = model.inner
    known = getattr(model, "answers_only", False) is True
    return known or is_program(model) or any(map(is_quantised, model.modules()))


def kind_of(model: Any) -> str:
    """What a person would call the net: its own class, or the kind of file or program it is."""
    while isinstance(model, Normalised | Logits):
        model = model.inner
    if isinstance(model, Fitted):
        return f"a {type(model.model).__name__}"
    if isinstance(model, nn.Module) and is_program(model):
        return "a TorchScript program"
    if isinstance(model, nn.Module) and any(map(is_quantised, model.modules())):
        return "a quantised net"
    return f"a {type(model).__name__}"


def remarks(scores: Tensor, module: nn.Module) -> tuple[str, ...]:
    """What a person should know about how their net is read, from the scores of some rows."""
    reading = module.reading if isinstance(module, Logits) else Reading()
    z = scores[:, 1]
    if reading.single and not reading.chance:
        doubtful = bool(((z >= 0) & (z <= 1)).all())
        return (_TWO_CLASSES + (_DOUBTFUL if doubtful else ""),)
    if reading.chance:
        return (_TWO_CHANCES,)
    ends_at_one = bool((scores >= 0).all()) and torch.allclose(
        scores.sum(dim=1), torch.ones(len(scores), dtype=scores.dtype), atol=1e-4
    )
    return (_PROBABILITIES,) if ends_at_one else ()


def _parallel(model: nn.Module) -> nn.Module | None:
    kinds = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    return model.module if isinstance(model, kinds) else None


def _is_of_scikit_learn(module: nn.Module) -> bool:
    return isinstance(module.inner if isinstance(module, Normalised) else module, Fitted)


def is_program(model: nn.Module) -> bool:
    return isinstance(model, torch.jit.ScriptModule)


def is_quantised(module: nn.Module) -> bool:
    kind = type(module)
    return ".quantized" in kind.__module__ and kind.__module__.startswith("torch.")


def _rounds_by_batch(module: nn.Module) -> bool:
    return is_quantised(module) and ".dynamic" in type(module).__module__


def _is_chance(module: nn.Module, rows: Tensor, reading: Reading) -> bool:
    """Whether the one number is a probability: within [0, 1] whatever the net reads, however far
    from the data. Scores would leave it.
    """
    if not rows.is_floating_point():
        return False
    seeded = torch.Generator().manual_seed(0)
    noise = torch.randn(rows.shape, generator=seeded).to(rows)
    for far in (rows, rows * _FAR, rows * -_FAR, noise, noise * _FAR, noise * -_FAR):
        z = reading.scores(call(module, far))[:, 1]
        if not bool(((z >= 0) & (z <= 1)).all()):
            return False
    return True
