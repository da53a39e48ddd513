"""Pushing, pulling and closed forms against brute-force Jacobians, on every tiny net."""

from __future__ import annotations

import pytest
import torch
from tests.cases import CASES, Case
from tests.jacobian_cases import brute_jacobian, pairs, traced
from torch import Tensor

from cushion.nets.linearisation import Linearisation
from cushion.nets.network import Node
from cushion.nets.operations import AdaptiveAvgPool, AvgPool, MaxPool

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
NETS = [case for case in CASES if len(case.layers) > 1]
each_net = pytest.mark.parametrize("case", NETS, ids=lambda case: case.name)


def _random(*shape: int) -> Tensor:
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))
    )


@each_case
def test_recording_computes_what_the_net_computes(case: Case) -> None:
    net, x = traced(case), case.inputs(4, torch.float64)
    seen: dict[int, Tensor] = {}
    logits = net.run(
        x,
        lambda node, stage, t: seen.update({node.index: t.clone()}) if stage == "output" else None,
    )
    line = Linearisation(net, x)
    assert torch.allclose(line.scores, logits)
    assert line.outputs.keys() == seen.keys()
    assert all(torch.allclose(line.outputs[i], seen[i]) for i in seen)


@each_net
def test_push_is_the_jacobian(case: Case) -> None:
    net, x = traced(case), case.inputs(3, torch.float64)
    line = Linearisation(net, x)
    for i in net.affine_layers:
        t = _random(2, 3, *i.shape)
        kept, found = t.clone(), {}
        line.push(i, t, lambda node, v: found.__setitem__(node.index, v.clone()))  # noqa: B023
        assert torch.equal(t, kept)  # the caller's vectors are not written to
        for j in [j for source, j in pairs(net) if source is i]:
            for b in range(3):
                brute = brute_jacobian(net, x[b : b + 1], i, j)
                expected = t[:, b].flatten(1) @ brute.T
                got = (
                    found[j.index][:, b].flatten(1)
                    if j.index in found
                    else torch.zeros_like(expected)
                )
                assert torch.allclose(got, expected), (i.name, j.name)


@each_net
@pytest.mark.parametrize("shared", [False, True])
def test_pull_is_its_transpose(case: Case, shared: bool) -> None:
    net, x = traced(case), case.inputs(3, torch.float64)
    line = Linearisation(net, x)
    for j in net.affine_layers:
        t = _random(2, 1 if shared else 3, *j.shape)
        kept, found = t.clone(), {}
        line.pull(j, t, lambda node, v: found.__setitem__(node.index, v.clone()))  # noqa: B023
        assert torch.equal(t, kept)
        for i in [i for i, target in pairs(net) if target is j]:
            for b in range(3):
                brute = brute_jacobian(net, x[b : b + 1], i, j)
                expected = t.expand(2, 3, *j.shape)[:, b].flatten(1) @ brute
                got = (
                    found[i.index][:, b].flatten(1)
                    if i.index in found
                    else torch.zeros_like(expected)
                )
                assert torch.allclose(got, expected), (i.name, j.name)


@each_net
def test_energies_of_adjacent_layers_in_closed_form(case: Case) -> None:
    net, x = traced(case), case.inputs(3, torch.float64)
    line = Linearisation(net, x)
    closed = 0
    for j in net.affine_layers[1:]:
        answer = line.pull_energy(j)
        if answer is None:
            continue
        i, energy = answer
        closed += 1
        for b in range(3):
            brute = brute_jacobian(net, x[b : b + 1], i, j).square().sum(0)
            assert torch.allclose(energy[b].flatten(), brute), (i.name, j.name)
    if case.chain and not any(
        word in case.name for word in ("dilated", "ceil", "no-pad", "adaptive", "conv")
    ):
        # where windows are disjoint the closed form is really taken
        assert closed == len(case.layers) - 1


def test_push_stops_where_it_is_told() -> None:
    net = traced(next(case for case in CASES if case.name == "depthwise"))
    line = Linearisation(net, torch.ones(1, 4, 5, 6, dtype=torch.float64))
    first, second, _ = net.affine_layers
    seen: list[str] = []
    line.push(
        first,
        torch.ones(1, 1, *first.shape, dtype=torch.float64),
        lambda node, _: seen.append(node.name),
        last=second.index,
    )
    assert seen == [second.name]


def test_a_relu_at_zero_is_inactive() -> None:
    net = traced(next(case for case in CASES if case.name == "mlp-no-bias"))
    line = Linearisation(net, torch.zeros(1, 3, 2, 2, dtype=torch.float64))
    shown: list[tuple[Node, Tensor]] = []
    line.push(
        net.affine_layers[0],
        torch.ones(1, 1, 9, dtype=torch.float64),
        lambda *seen: shown.append(seen),
    )
    assert all(float(t.abs().max()) == 0.0 for _, t in shown)
    assert shown


@pytest.mark.parametrize(
    ("op", "shape", "window"),
    [
        (MaxPool((2, 2), (2, 2), (0, 0), (1, 1), ceil_mode=False), (3, 7, 6), (2, 2)),
        (MaxPool((2, 2), (2, 2), (0, 0), (1, 1), ceil_mode=True), (3, 7, 6), None),
        (MaxPool((2, 2), (2, 2), (0, 0), (1, 1), ceil_mode=True), (3, 8, 6), (2, 2)),
        (MaxPool((3, 3), (2, 2), (0, 0), (1, 1), ceil_mode=False), (3, 7, 7), None),
        (MaxPool((2, 2), (2, 2), (1, 1), (1, 1), ceil_mode=False), (3, 6, 6), None),
        (MaxPool((2, 2), (2, 2), (0, 0), (2, 2), ceil_mode=False), (3, 6, 6), None),
        (AvgPool((3, 2), (3, 2), (0, 0), False, True, None), (3, 6, 6), (3, 2)),
        (AdaptiveAvgPool((2, 3)), (3, 6, 6), (3, 2)),
        (AdaptiveAvgPool((4, 3)), (3, 6, 6), None),
    ],
)
def test_which_windows_are_disjoint(
    op: MaxPool, shape: tuple[int, ...], window: tuple[int, int] | None
) -> None:
    assert op.disjoint_window(shape) == window
