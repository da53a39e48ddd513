"""certify(model, data): the old order still works and warns; options are refused by name."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from torch import nn

import cushion
from cushion.certificates.model_first import model_first
from cushion.data import Dataset
from cushion.errors import BadInput

DATA = Dataset("dots", np.zeros((4, 1, 2, 2), dtype=np.uint8), np.array([0, 1, 0, 1]), 2)
MODEL = nn.Linear(4, 2)


@model_first
def verb(model: object, data: object, *, minutes: float = 1.0) -> tuple[object, object, float]:
    return model, data, minutes


def test_the_new_order_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verb(MODEL, DATA, minutes=2) == (MODEL, DATA, 2)
        assert verb(None, "digits") == (None, "digits", 1.0)
        assert verb(model=MODEL, data=DATA) == (MODEL, DATA, 1.0)
        assert verb(None, data=DATA) == (None, DATA, 1.0)


@pytest.mark.parametrize("data", [DATA, "digits"])
def test_the_old_order_works_and_warns(data: object) -> None:
    with pytest.warns(DeprecationWarning, match=r"write verb\(model, data\)"):
        assert verb(data, model=MODEL, minutes=2) == (MODEL, data, 2)  # type: ignore[call-arg,misc]
    with pytest.warns(DeprecationWarning, match="deprecated"):
        assert verb(data) == (None, data, 1.0)  # type: ignore[call-arg]
    with pytest.warns(DeprecationWarning, match="deprecated"):
        assert verb(data, MODEL) == (MODEL, data, 1.0)


@pytest.mark.parametrize("net", ["runs/small", DATA, 3])
def test_what_is_no_net_is_called_by_its_kind(net: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for call in (lambda: verb(net, DATA), lambda: verb(net, data="digits")):
            with pytest.raises(BadInput, match="Module or None, not a "):
                call()


def test_certify_still_takes_data_first() -> None:
    with (
        pytest.warns(DeprecationWarning, match="certify"),
        pytest.raises(BadInput, match="minutes"),
    ):
        cushion.certify(DATA, minutes=0)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "integers"}, "must be one of integer, subspace"),
        ({"method": "integer", "steps": 5}, "does not take `steps`, only subspace, supermask"),
        ({"method": "supermask", "k": 5}, "does not take `k`, only subspace"),
        ({"method": "subspace", "draws": 5}, "does not take `draws`, only pac-bayes"),
        ({"method": "subspace", "steps": 5, "minutes": 2}, "`minutes` and `steps` both"),
        ({"method": "subspace", "steps": 0}, "`steps` must be"),
        ({"seed": -1}, "`seed` must be"),
        ({"seed": 2**63}, "`seed` must be"),
        ({"delta": "x"}, "`delta`"),
    ],
)
def test_options_are_refused_by_name(options: dict[str, object], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        cushion.certify(None, DATA, **options)  # type: ignore[arg-type]


def test_a_posterior_imitates_no_net() -> None:
    with pytest.raises(BadInput, match="leave `model` out"):
        cushion.certify(MODEL, DATA, method="pac-bayes")


@pytest.mark.parametrize("method", ["subspace", "supermask"])
def test_seeded_methods_are_certified_by_steps_and_repeat(method: str) -> None:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    x, y = load_digits(return_X_y=True)
    data = Dataset("d", (x[:200] * 15).astype(np.uint8).reshape(-1, 1, 8, 8), y[:200], 10)
    done: list[float] = []
    made = [
        cushion.certify(
            None,
            data,
            method=method,  # type: ignore[arg-type]
            steps=60,
            seed=3,
            report=lambda part, _: done.append(part),
        )
        for _ in range(2)
    ]
    assert made[0].message == made[1].message
    assert made[0].about == "g"
    assert made[0].claim.made_with["method"] == method
    assert made[0].claim.made_with["steps"] == 60
    assert max(done) == 1.0
