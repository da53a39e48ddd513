"""A net whose scores depend on chance or on the batch is refused by every verb, and what else makes
its answers doubtful is refused or said.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cushion
from cushion.errors import BadInput, Remark

X = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
Y = np.arange(40) % 2


class Does(nn.Module):
    """A dense layer on what `before` makes of the batch."""

    def __init__(self, before: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.fc, self.before = nn.Linear(8, 2), before

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.before(x))  # type: ignore[no-any-return]


UNSTEADY: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "batch's mean": lambda x: x - x.mean(0),
    "place in the batch": lambda x: x * (torch.arange(len(x)) >= len(x) // 2)[:, None],
    "neighbours": lambda x: x + x.roll(1, 0),
}
VERBS: dict[str, Callable[[Any, Any], object]] = {
    "margins": cushion.margins,
    "measure": lambda net, data: cushion.measure(net, data, only="margins"),
    "bounds": cushion.bounds,
    "certify": lambda net, data: cushion.certify(net, data, minutes=0.01),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", UNSTEADY)
def test_a_net_that_is_not_one_function_is_refused(kind: str, verb: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(BadInput, match="not one function"):
        VERBS[verb](Does(UNSTEADY[kind]), (X, Y))


def test_batch_norm_without_running_statistics_is_refused() -> None:
    norm = nn.BatchNorm1d(8, track_running_stats=False)
    with pytest.raises(BadInput, match="batch-norm running statistics"):
        cushion.margins(nn.Sequential(norm, nn.Linear(8, 2)), (X, Y))


def test_of_two_outputs_that_may_be_scores_none_is_guessed() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.aux, self.main = nn.Linear(8, 2), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.aux(x), self.main(x)

    with pytest.raises(BadInput, match="returns 2 tensors that may be class scores"):
        cushion.margins(Two(), (X, Y))


def test_a_lazy_net_is_refused_and_stays_lazy() -> None:
    net = nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.Linear(5, 2))
    for verb in VERBS.values():
        with pytest.raises(BadInput, match=r"0\.weight has no values yet"):
            verb(net, (X, Y))
    assert isinstance(net[0], nn.LazyLinear)


def test_probabilities_are_said_in_python_too() -> None:
    net = nn.Sequential(nn.Linear(8, 2), nn.Softmax(1))
    with pytest.warns(Remark, match="look like probabilities"):
        cushion.measure(net, (X, Y), only="sharpness")


def test_one_number_an_example_in_either_shape() -> None:
    class One(nn.Module):
        def __init__(self, flat: bool) -> None:
            super().__init__()
            self.fc, self.flat = nn.Linear(8, 1), flat

        def forward(self, x: Tensor) -> Tensor:
            z = self.fc(F.layer_norm(x, (8,)))
            return z.squeeze(1) if self.flat else z

    torch.manual_seed(0)
    flat, column = One(True), One(False)
    column.load_state_dict(flat.state_dict())
    found = [cushion.measure(net, (X, Y), spectra=False) for net in (flat, column)]
    assert found[0].net.errors == found[1].net.errors
    assert found[0].layers[0].layer_cushion == found[1].layers[0].layer_cushion


def test_inference_mode_outside_changes_nothing() -> None:
    net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    plain = cushion.measure(net, (X, Y), spectra=False).to_json()
    with torch.inference_mode():
        assert cushion.measure(net, (X, Y), spectra=False).to_json() == plain
        cushion.bounds(net, (X, Y))
        assert torch.is_inference_mode_enabled()


def test_a_forward_without_gradients_leaves_the_worst_case_out() -> None:
    class Still(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 2)

        @torch.no_grad()
        def forward(self, x: Tensor) -> Tensor:
            return self.fc(F.layer_norm(x, (8,)))  # type: ignore[no-any-return]

    table = cushion.measure(Still(), (X, Y), spectra=False)
    why = {one.family: one.why for one in table.left_out}
    assert "switches gradients off" in why["sharpness"]
    assert table.layers[0].layer_cushion is not None
    with pytest.raises(cushion.Unsupported, match="switches gradients off"):
        cushion.measure(Still(), (X, Y), only="sharpness")


def test_a_forward_that_writes_to_a_buffer_ends_the_trace_and_not_the_program() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 2)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.calls = self.calls + 1
            return self.fc(x)  # type: ignore[no-any-return]

    report = cushion.support(Counts(), (8,))
    assert any("writes to it" in line.reason for line in report.lines)
    assert {one.family: one.way for one in report.ways}["stability"] == "hooks"


def test_support_takes_what_measure_takes() -> None:
    from sklearn.linear_model import LogisticRegression

    class Dict(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 2)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"logits": self.fc(x)}

    assert cushion.support(Dict(), (8,)).understood
    assert cushion.support(torch.compile(nn.Linear(8, 2), backend="eager"), (8,)).understood
    fitted = cushion.support(LogisticRegression().fit(X, Y), (8,))
    assert not fitted.understood
    assert "gives answers only" in str(fitted)
    assert {one.family: one.way for one in fitted.ways}["margins"] == "answers"
    with pytest.raises(BadInput, match=r"must be a torch\.nn\.Module"):
        cushion.support(None)
