"""The user's own net as a certificate sees it: the identity of its numbers, its scores, its
answers.
"""

from __future__ import annotations

import copy
import hashlib
import json

import numpy as np
import pytest
import torch
from torch import nn

from cushion.certificates.answers import answer, answers_of, fingerprint_net, score
from cushion.certificates.format.claims import Answers
from cushion.errors import BadInput


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(4, 3),
        nn.BatchNorm1d(3),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(3, 2),
    )


X = np.random.default_rng(0).integers(0, 256, (600, 1, 2, 2), dtype=np.uint8)


def test_the_fingerprint_is_what_the_format_says() -> None:
    net = small()
    digest = hashlib.sha256(b"cushion-net-1\n")
    for name, tensor in sorted(
        net.state_dict().items()
    ):  # here: exactly its parameters and buffers
        kind = {torch.float32: "float32", torch.int64: "int64"}[tensor.dtype]
        digest.update(
            json.dumps([name, kind, list(tensor.shape)], separators=(",", ":")).encode() + b"\n"
        )
        digest.update(tensor.numpy().astype("<f4" if kind == "float32" else "<i8").tobytes())
    assert fingerprint_net(net) == digest.hexdigest()


def test_every_number_name_and_type_is_in_the_fingerprint() -> None:
    net = small()
    found = {fingerprint_net(net)}
    for name in net.state_dict():
        other = copy.deepcopy(net)
        with torch.no_grad():
            other.state_dict()[name].view(-1)[0].add_(1)
        found.add(fingerprint_net(other))
    found.add(fingerprint_net(copy.deepcopy(net).double()))
    found.add(fingerprint_net(nn.Sequential(nn.Identity(), *net)))
    hidden = copy.deepcopy(net)
    hidden.register_buffer(
        "scale", torch.tensor(2.0), persistent=False
    )  # in no state dict, yet the net reads it
    found.add(fingerprint_net(hidden))
    assert len(found) == 1 + len(net.state_dict()) + 3
    assert fingerprint_net(copy.deepcopy(net)) in found


def test_answers_are_those_of_the_module_in_eval_mode_which_stays_as_it_is() -> None:
    net = small()
    net[2].eval()  # a mode of its own inside
    modes, before = [m.training for m in net.modules()], fingerprint_net(net)
    found = answer(net, X)
    assert [m.training for m in net.modules()] == modes
    assert fingerprint_net(net) == before == found.net_fingerprint
    with torch.no_grad():
        scores = small().eval()(torch.from_numpy(X).float() / 255).double().numpy()
    assert np.array_equal(found.classes, scores.argmax(1))
    assert np.allclose(found.gaps, np.abs(scores[:, 0] - scores[:, 1]), atol=1e-6)


def test_gaps_are_between_the_two_largest() -> None:
    found = answers_of(
        torch.tensor([[1.0, 5.0, 3.5], [2.0, 2.0, 0.0], [-7.0, -9.0, -8.0]]), "f" * 64
    )
    assert found.gaps.tolist() == [1.5, 0.0, 1.0]
    assert (found.classes[0], found.classes[2]) == (1, 0)
    assert found.outside(0).tolist() == [1, -1, 0]  # type: ignore[arg-type]
    assert isinstance(found, Answers)


class Noisy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.rand(len(x), 2)


def batch_dependent() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2)
    )


class Alone(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten()[:1]


def broken() -> nn.Module:
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        net[1].weight[0, 0] = 1e38
        net[1].weight[0, 1] = 1e38
        net[1].bias[0] = 3e38
    return net


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (Noisy(), "not one function"),
        (batch_dependent(), "not one function"),
        (Alone(), "at least two class scores"),
        (broken(), "not finite"),
    ],
)
def test_what_is_no_classifier_is_refused(net: nn.Module, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        score(net, X)
