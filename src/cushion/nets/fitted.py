"""A fitted scikit-learn classifier as a module: its answers, and the numbers that it learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.errors import BadInput
from cushion.nets.batches import as_bytes


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

    It gets the numbers of the data: floats and whole numbers as they are, and with `of_bytes` (the
    batches are uint8 / 255) the uint8 values again. Inputs are flattened to [B, features] where it
    was fitted so. Classes are numbered as the data
    number them: by the data's own `labels` of their classes where those are known, else by number;
    without `classes`, in sorted order. BadInput where they cannot be matched.
    """

    answers_only = True

    def __init__(
        self,
        model: Any,
        classes: int | None = None,
        labels: Sequence[int | str] | None = None,
        *,
        of_bytes: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.of_bytes = of_bytes
        known = [_plain(one) for one in np.asarray(model.classes_).tolist()]
        self.columns = list(range(len(known)))
        if classes is not None:
            self.columns = _columns(known, classes, labels)
        self.classes = max(classes or 0, *(column + 1 for column in self.columns))

    def forward(self, x: Tensor) -> Tensor:
        rows = (as_bytes(x.detach()) if self.of_bytes else x.detach()).cpu().numpy()
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
        from cushion.nets.identity import learned  # which knows this class

        return dict(learned("", self.model))


def _plain(label: Any) -> int | str:
    """A label as data have it: a whole number, or text."""
    return int(label) if isinstance(label, int | float) and label == int(label) else str(label)


def _columns(known: list[int | str], classes: int, labels: Sequence[int | str] | None) -> list[int]:
    """The data's class of each of the classifier's; a class that they lack comes after theirs."""
    if labels is not None:
        names, own = [str(one) for one in labels], [str(one) for one in known]
        among = set(own) <= set(names) or set(names) <= set(own)
        if among or (isinstance(labels[0], str) and set(own) & set(names)):
            strange = [one for one in own if one not in names]
            places = {one: at for at, one in enumerate(names)}
            places |= {one: classes + at for at, one in enumerate(strange)}
            return [places[one] for one in own]
    numbers = [one for one in known if isinstance(one, int) and one >= 0]
    every, theirs = set(range(classes)), set(numbers)
    if len(numbers) == len(known) and (theirs <= every or (labels is None and theirs >= every)):
        return numbers
    if labels is None and len(known) == classes:
        return list(range(classes))
    said = (
        f"the classifier knows {len(known)} classes ({_shown(known)}), but the data have {classes}"
    )
    which = "" if labels is None else f" ({_shown(labels)})"
    raise BadInput(f"{said}{which}; fit it on their labels, or on labels 0 to {classes - 1}")


def _shown(labels: Sequence[int | str]) -> str:
    return ", ".join(map(str, labels[:4])) + (", ..." if len(labels) > 4 else "")
