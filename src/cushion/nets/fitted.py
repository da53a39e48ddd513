"""A fitted scikit-learn classifier as a module: its answers, and the numbers that it learned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.errors import BadInput

_PLAIN = (bool, int, float, str, bytes, type(None))


def is_fitted(model: Any) -> bool:
    """Whether it is a classifier as scikit-learn knows them; BadInput where it lacks a part."""
    if isinstance(model, type) or not hasattr(model, "predict") or not hasattr(model, "get_params"):
        return False
    kind = type(model).__name__
    from sklearn.base import is_regressor

    if is_regressor(model):
        raise BadInput(f"{kind} is a regressor; cushion is about classifiers")
    try:
        classes = model.classes_
    except AttributeError:
        raise BadInput(
            f"{kind} has no classes_; fit it first, and let it be a classifier"
        ) from None
    if not isinstance(classes, np.ndarray) or len(classes) < 2:
        raise BadInput(f"{kind} must tell at least two classes of one label apart")
    if not hasattr(model, "decision_function") and not hasattr(model, "predict_proba"):
        how = "such as SVC(probability=True)"
        raise BadInput(f"{kind} has neither decision_function nor predict_proba; use one {how}")
    return True


class Fitted(nn.Module):
    """decision_function, or where there is none predict_proba, as rows of class scores.

    Inputs are flattened to [B, features] where it was fitted so. Classes are numbered as the data
    are: 0, 1, ... in sorted order, or by their own number where the data have more of them.
    """

    answers_only = True

    def __init__(self, model: Any, classes: int | None = None) -> None:
        super().__init__()
        self.model = model
        self.columns, self.classes = _columns(np.asarray(model.classes_), classes)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.detach().cpu().numpy()
        if rows.ndim > 2 and getattr(self.model, "n_features_in_", None) == rows[0].size:
            rows = rows.reshape(len(rows), -1)
        scores = self._scores(rows)
        # a class that it never saw is below all others of the row
        result = np.repeat(scores.min(axis=1, keepdims=True) - 1.0, self.classes, axis=1)
        result[:, self.columns] = scores
        return torch.from_numpy(result)

    def _scores(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """[B, len(classes_)] in float64."""
        if not hasattr(self.model, "decision_function"):
            return np.asarray(self.model.predict_proba(rows), dtype=np.float64)
        scores = np.asarray(self.model.decision_function(rows), dtype=np.float64)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        known = self.model.classes_
        own = np.searchsorted(known, self.model.predict(rows))
        if scores.shape[1] != len(known) or (scores.max(1) > scores[range(len(own)), own]).any():
            kind, how = type(self.model).__name__, "for an SVC: set_params(break_ties=True)"
            said = "predicts another class than the one of its largest decision_function"
            raise BadInput(f"{kind} {said}, so it has no class scores; {how}")
        return scores

    def numbers(self) -> dict[str, Tensor]:
        """Everything that was learned or set, by its path among the attributes."""
        return {name: torch.from_numpy(value) for name, value in _walk("", self.model, ())}


def _columns(known: NDArray[Any], classes: int | None) -> tuple[list[int], int]:
    """The class number of each score, and how many classes there are."""
    count = len(known)
    if classes is None or count >= classes:
        return list(range(count)), count
    whole = np.issubdtype(known.dtype, np.integer)
    if not whole or known.min() < 0 or known.max() >= classes:
        shown = ", ".join(map(str, known[:4])) + (", ..." if count > 4 else "")
        said = f"the classifier knows {count} classes ({shown}), but the data have {classes}"
        raise BadInput(f"{said}; fit it on labels 0 to {classes - 1}")
    return known.astype(int).tolist(), classes


def _walk(path: str, value: Any, above: tuple[int, ...]) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays inside an object, each under its path; whatever is no array as its text.

    above: the objects on the way here, by identity; a part that leads back to one of them ends.
    """
    if isinstance(value, (*_PLAIN, np.generic)):
        plain = value.item() if isinstance(value, np.generic) else value
        yield path, np.frombuffer(repr(plain).encode(), dtype=np.uint8).copy()
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        wide = value.dtype.kind == "f" and value.dtype.itemsize > 8
        kind = np.dtype(np.float64) if wide else value.dtype.newbyteorder("=")
        yield path, value.astype(kind, order="C")
    elif id(value) not in above:
        for name, part in _attributes(value):
            yield from _walk(f"{path}.{name}" if path else name, part, (*above, id(value)))


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """The named parts of an object, in order of their names."""
    if isinstance(value, np.ndarray):
        names = value.dtype.names  # a field at a time: the bytes between fields mean nothing
        return _attributes({n: value[n].copy() for n in names} if names else value.tolist())
    if isinstance(value, Mapping):
        return sorted(((str(k), part) for k, part in value.items()), key=lambda one: one[0])
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [(str(at), part) for at, part in enumerate(items)]
    if callable(value) and not hasattr(value, "get_params"):
        return [("name", getattr(value, "__qualname__", type(value).__name__))]
    # objects of Python have a dict; those of C say their state
    state = vars(value) if hasattr(value, "__dict__") else value.__reduce__()[1:3]
    return [("kind", type(value).__name__), *_attributes(state)]
