"""The old order of arguments, data before the model, for one more release."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def model_first(verb: Callable[P, R]) -> Callable[P, R]:
    """A verb(model, data, ...) that still understands verb(data, model=..., ...), and warns.

    What is not None and has no `forward` is no model.
    """

    @wraps(verb)
    def called(*args: Any, **options: Any) -> R:
        if args and not (args[0] is None or hasattr(args[0], "forward")):
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
