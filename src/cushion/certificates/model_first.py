"""The old order of arguments, data before the model, for one more release."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from cushion.errors import BadInput

P = ParamSpec("P")
R = TypeVar("R")


def model_first(verb: Callable[P, R]) -> Callable[P, R]:
    """A verb(model, data, ...) that still understands verb(data, model=..., ...), and warns.

    What is not None and has neither `forward` nor `predict` is no model; of two such the first is
    a mistake.
    """

    @wraps(verb)
    def called(*args: Any, **options: Any) -> R:
        are_models = [_may_be_model(one) for one in args[:2]]
        if are_models == [False, False] or (are_models == [False] and "data" in options):
            kind = type(args[0]).__name__
            raise BadInput(f"the net must be a torch.nn.Module or None, not a {kind}")
        if are_models[:1] == [False]:
            name = verb.__name__
            warnings.warn(
                f"{name}(data, model=model) is deprecated: write {name}(model, data), with None "
                "where there is no model",
                DeprecationWarning,
                stacklevel=2,
            )
            data, *rest = args
            model = rest.pop(0) if rest else options.pop("model", None)
            args = (model, data, *rest)
        return verb(*args, **options)

    return called


def _may_be_model(one: object) -> bool:
    return one is None or hasattr(one, "forward") or hasattr(one, "predict")
