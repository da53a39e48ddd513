"""compress_model from end to end: every number of its record derived again, promises that hold and
that break.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.trained_cases import ROWS, compressions, digits, near_its_start, trained
from torch import nn

import cushion
from cushion.compressors.choice import Compressed
from cushion.compressors.file import read_compressed
from cushion.compressors.projection import account
from cushion.compressors.projection.method import NetOptions
from cushion.compressors.projection.records import ProjectionSummary
from cushion.compressors.projection.subject import ProjectionSubject
from cushion.compressors.run import compress_model
from cushion.compressors.storage.stored_net import StoredNet
from cushion.data.dataset import Dataset
from cushion.measures.margins import epsilon_margin, sample_margins
from cushion.measures.table import traced
from cushion.nets.network import Network
from cushion.numerics import float_up
from cushion.theorems.noise_stability import lemma_3
from cushion.theorems.occam import occam_bound

CHEAP = {"examples": 12}


def run(
    method: str, net: str, options: dict[str, Any], **others: Any
) -> Compressed[ProjectionSummary]:
    model, start = trained(net)
    data, holdout = digits()
    setting = {"holdout": holdout, "init": start, "seed": 3, **others}
    return compress_model(
        model, data, method=method, options=NetOptions(**{**CHEAP, **options}), **setting
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the parts of the record that depend on the method and its margin alone and take
    longest.
    """
    monkeypatch.setattr(account, "_rates", lambda _: ())
    monkeypatch.setattr(account, "simulate_places", lambda *_: ())


def scores(net: Network | nn.Module, data: Dataset) -> torch.Tensor:
    x = torch.from_numpy(data.x).float() / (255 if data.x.dtype == np.uint8 else 1)
    with torch.no_grad():
        return net.evaluate(x) if isinstance(net, Network) else net(x)


def errors(logits: torch.Tensor, data: Dataset) -> int:
    """By hand: the right score is not above all others."""
    wrong = 0
    for row, label in zip(logits.tolist(), data.y.tolist(), strict=True):
        wrong += row[label] <= max(value for at, value in enumerate(row) if at != label)
    return wrong


@pytest.mark.parametrize(("method", "net", "options"), compressions())
def test_every_number_of_the_record_is_derived_again(
    method: str, net: str, options: dict[str, Any], tmp_path: Path
) -> None:
    found = run(method, net, options)
    summary, stored, (data, holdout) = found.summary, found.net.stored, digits()
    model = trained(net)[0]
    parts = [part for layer in stored.layers for part in layer.numbers] + [
        b for b in stored.biases if b is not None
    ]
    # of a sparse vector what is left
    count = np.count_nonzero if method == "vector-compress" else np.size
    assert summary.parameters == sum(count(part.integers) for part in parts)
    assert summary.parameters == sum(layer.parameters for layer in summary.layers)
    assert summary.parameters_before == sum(part.numel() for part in model.parameters())
    assert summary.bits == stored.coded.bits
    assert len(stored.coded.data) == -(-summary.bits // 8)
    # seed, kinds, sizes, grids
    assert 0 < summary.bits - sum(layer.bits for layer in summary.layers) < 400
    assert (summary.method, summary.seed, summary.m) == (method, 3, ROWS)

    # The net is what its file says, bit by bit, and the errors are its own.
    loaded = read_compressed(found.save(tmp_path / "n.net"))
    before, after = scores(model, data), scores(found.net.network, data)
    assert torch.equal(scores(loaded.network, data), after)
    assert loaded.stored.coded.data == stored.coded.data
    assert summary.errors_before == errors(before, data)
    machine, file = summary.occam
    assert machine.errors == errors(after, data)
    assert (machine.holdout_errors, machine.holdout_m) == (
        errors(scores(loaded.network, holdout), holdout),
        60,
    )
    assert machine.bound == float_up(
        occam_bound(machine.errors, ROWS, summary.bits, Decimal("0.05"))
    )
    assert machine.bits == summary.bits
    if found.certificate is not None:
        path = found.certificate.save(tmp_path / "n.cushion")
        assert cushion.verify(path, data, holdout).ok
        claim = found.certificate.claim
        assert (file.errors, file.bits, file.because) == (claim.errors, claim.bits, "")
        assert file.bound == float_up(occam_bound(claim.errors, ROWS, claim.bits, Decimal("0.05")))
    else:
        assert file.because
    assert (found.certificate is None) == (
        bool(options.get("from_initialisation"))
        or method in ("conv-project", "vector-project")
        or "helper" in options
    )

    # Errors at the layers and of the scores.
    margins = sample_margins(before, torch.from_numpy(data.y)).numpy()
    assert summary.gamma == pytest.approx(epsilon_margin(margins, 0.05), rel=1e-5)
    worst = float(
        (
            torch.linalg.vector_norm(after - before, dim=1)
            / torch.linalg.vector_norm(before, dim=1)
        ).max()
    )
    depth = len(summary.layers)
    last = next(
        one
        for one in summary.induction
        if (one.compressed, one.at) == (depth, summary.layers[-1].name)
    )
    assert last.worst == summary.layers[-1].measured == pytest.approx(worst, rel=1e-3)
    assert len(summary.induction) == depth * (depth + 1) // 2
    for at, layer in enumerate(summary.layers):
        own = next(
            one for one in summary.induction if (one.compressed, one.at) == (at + 1, layer.name)
        )
        assert layer.measured == own.worst
        assert layer.promised == own.promised
        if summary.epsilon is not None:
            assert layer.promised == pytest.approx((at + 1) / depth * summary.epsilon)
    if method in ("matrix-project", "conv-project"):
        largest = float(torch.linalg.vector_norm(before, dim=1).max())
        assert summary.epsilon == pytest.approx(summary.gamma / (math.sqrt(2) * largest), rel=1e-5)

    # All promises that were made, together.
    made = [one for one in summary.promises if one.held is not None]
    assert (summary.promise is None) == (not made)
    if summary.promise is not None:
        assert summary.promise.held == all(one.held for one in made)
        assert summary.promise.worst_ratio == max(one.worst_ratio for one in made)
        assert all(
            one.held == (one.worst_ratio <= 1)
            for one in made
            if one.name not in ("Lemma 5", "Lemma 7")
        )

    # Corollary A.1 by hand: where f is not sure or g too far, whichever way of comparing them fails
    # less often.
    rows = {(bound.name, bound.form): bound for bound in summary.paper_bounds}
    gap = (after - before).double()
    far = (
        int((gap.abs().amax(1) > summary.gamma).sum()),
        int((gap.norm(dim=1) > summary.gamma / math.sqrt(2)).sum()),
    )
    level = summary.gamma if far[1] <= far[0] else 2 * summary.gamma
    failed, unsure = min(far), int((margins <= level).sum())
    values = 2 * max(int(np.abs(part.integers).max(initial=0)) for part in parts) + 1
    nats = sum(part.integers.size for part in parts) * math.log(
        values
    )  # where a zero is counts, too
    corollary = rows["compressed net with failures", "corrected"]
    expected = (unsure + failed) / ROWS + math.sqrt((nats + math.log(20)) / (2 * ROWS))
    assert corollary.value == pytest.approx(expected, rel=1e-6)
    both = rows["compressed net with failures, exact tail", "corrected"]
    assert both.kind == "certificate"
    assert both.factors["bits"] == summary.bits
    assert both.value >= machine.bound * (
        1 - 1e-12
    )  # f's detour is never better than g's own count
    assert (rows["compressed net", "corrected"].value is None) == (failed > 0)
    named = {bound.source.removeprefix("Arora 2018, ") for bound in summary.paper_bounds}
    assert {"Thm 2.1", "Cor. A.1"} <= named
    assert ("Thm 2.2" in named) == (method == "low-rank")
    assert ("Thm 4.1" in named) == (method == "matrix-project")
    assert bool(named & {"Thm 5.1", "Cor. C.1"}) == (method == "conv-project")
    assert ("Cor. C.1" in named) == (method == "conv-project" and summary.zeta > 0)


@pytest.mark.parametrize(
    ("method", "net", "options", "sweep"),
    [
        ("low-rank", "mlp", {}, ("20%", "epsilon=0.1", "gamma=0.5")),
        ("matrix-project", "mlp", {"k": 30}, ("100", "60%")),
        ("conv-project", "conv", {"k": 2, "p": 2}, ("4", "30%")),
        ("vector-compress", "linear", {}, ("gamma=3", "eta=0.9")),
        ("vector-project", "linear", {"k": 10}, ("30", "100%")),
    ],
)
@pytest.mark.usefixtures("quick")
def test_points_of_the_curve_are_compressions_of_their_own(
    method: str, net: str, options: dict[str, Any], sweep: tuple[str, ...]
) -> None:
    found = run(method, net, {**options, "sweep": sweep})
    data, holdout = digits()
    before = scores(trained(net)[0], data)
    assert [point.asked for point in found.summary.curve] == list(sweep)
    assert len({point.bits for point in found.summary.curve}) == len(sweep)
    for point in found.summary.curve:
        name, equals, value = point.asked.partition("=")
        alone: dict[str, Any] = (
            {**options, "k": None, name: float(value)} if equals else {**options, "k": name}
        )
        fresh = run(method, net, alone)
        assert (point.parameters, point.bits) == (fresh.summary.parameters, fresh.summary.bits)
        after = scores(fresh.net.network, data)
        relative = torch.linalg.vector_norm(after - before, dim=1) / torch.linalg.vector_norm(
            before, dim=1
        )
        assert point.worst_relative_error == pytest.approx(float(relative.max()), rel=1e-3)
        assert point.mean_relative_error == pytest.approx(float(relative.mean()), rel=1e-3)
        assert point.error == errors(after, data) / ROWS
        assert point.test_error == errors(scores(fresh.net.network, holdout), holdout) / 60
        gamma = found.summary.gamma  # the same along the whole curve
        assert gamma is not None
        margins = sample_margins(after, torch.from_numpy(data.y)).numpy()
        assert point.margin_loss == pytest.approx((margins <= gamma).mean(), abs=1 / ROWS)
    whole = run(method, net, options).summary
    assert dataclasses.replace(found.summary, curve=()) == whole  # a sweep changes nothing else


@pytest.mark.parametrize(
    ("method", "net", "options"),
    [
        ("low-rank", "conv", {}),
        ("matrix-project", "mlp", {"k": 60}),
        ("conv-project", "conv", {"k": 3, "p": 2}),
        ("vector-compress", "linear", {}),
        ("vector-project", "linear", {"k": 30}),
    ],
)
@pytest.mark.usefixtures("quick")
def test_the_seed_decides_and_the_threads_do_not(
    method: str, net: str, options: dict[str, Any], tmp_path: Path
) -> None:
    assert torch.get_num_threads() == 1
    model = trained(net)[0]
    model = copy.deepcopy(model).train()
    weights = [part.detach().clone() for part in model.parameters()]
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[union-attr,index]
    data, _ = digits()

    def files(seed: int) -> tuple[bytes, bytes]:
        found = compress_model(
            model, data, method=method, options=NetOptions(**{**CHEAP, **options}), seed=seed
        )
        path = found.save(tmp_path / "n.net")
        return path.read_bytes(), found.net.stored.coded.data

    one = files(5)
    try:
        torch.set_num_threads(2)
        assert files(5) == one
    finally:
        torch.set_num_threads(1)
    assert files(6)[1] != one[1]
    assert model.training
    assert all(part.training for part in model.modules())
    for part, was in zip(model.parameters(), weights, strict=True):
        assert torch.equal(part, was)
        assert part.requires_grad
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # type: ignore[index]


# ---- promises that are made


@pytest.mark.parametrize("eta", [None, 0.01, 1.0])
@pytest.mark.usefixtures("quick")
def test_lemma_5_may_fail_on_a_fraction_eta(eta: float | None) -> None:
    """η by hand: (1/(γ²m))^{1/3} for unit vectors and inputs, the bias as one more coordinate
    (Lemma 6).
    """
    found = run("vector-compress", "linear", {"eta": eta})
    summary, model, (data, _) = found.summary, trained("linear")[0], digits()
    gap = scores(found.net.network, data) - scores(model, data)
    ratios = gap.abs().amax(1) / (summary.gamma / 2)
    (check,) = summary.promises
    assert check.worst_ratio == pytest.approx(float(ratios.max()), rel=1e-4)
    radius = math.hypot(
        float(torch.from_numpy(data.x).double().flatten(1).norm(dim=1).max()) / 255, 1.0
    )
    vectors = torch.cat([model[1].weight, model[1].bias[:, None]], 1).detach()
    unit = summary.gamma / (2 * radius) / float(vectors.norm(dim=1).max())
    allowed = (unit**2 * ROWS) ** (-1 / 3) if eta is None else eta
    assert f"η = {min(0.5, allowed) if eta is None else allowed:.3g} of them may" in check.meaning
    assert check.held == (float((ratios > 1).double().mean()) <= allowed)


def test_lemma_3_is_promised_and_held_near_the_initialisation() -> None:
    model, start, data = near_its_start()
    options = NetOptions(from_initialisation=True, number_bits=16, epsilon=1.0)
    found = compress_model(
        model, data, method="matrix-project", options=options, init=start, delta=0.2
    )
    checks = {one.name: one for one in found.summary.promises}
    assert checks["Lemma 3"].held is True, checks["Lemma 3"].meaning
    assert checks["Lemma 2"].held is True
    assert checks["Lemma 3"].cases == 3 * 30
    assert 0 < checks["Lemma 3"].worst_ratio <= 1
    assert found.summary.promise is not None
    assert found.summary.promise.held
    subject = ProjectionSubject(
        traced(model, data), traced(start, data), data, "matrix-project", options, 0.2, 0
    )
    assert subject.stability is not None
    counts = lemma_3(subject.stability, 31 / 32)  # 1/32 of ε = 1 is left to the grid
    for layer, count in zip(found.summary.layers, counts.layers, strict=True):  # k is the lemma's
        assert layer.size == layer.lemma_size == count.projections < math.prod(layer.shape)
    assert subject.facts.margin != 0.5  # known now, and not to be taken over
    other_margin = subject.swept("gamma=0.5")
    assert other_margin.facts.margin == 0.5
    assert other_margin.stability is subject.stability  # which no margin changes

    why = {
        "`number_bits`": dataclasses.replace(options, number_bits=3),
        "got a smaller k": dataclasses.replace(options, k=int(found.summary.layers[0].size) - 1),
        "Hadamard": dataclasses.replace(options, helper="srht"),
        "12 of 30 examples": dataclasses.replace(options, examples=12),
    }
    for reason, other in why.items():
        again = compress_model(
            model, data, method="matrix-project", options=other, init=start, delta=0.2
        )
        check = next(one for one in again.summary.promises if one.name == "Lemma 3")
        assert check.held is None
        assert reason in check.meaning
    biased = copy.deepcopy(model)
    biased[2].bias = nn.Parameter(torch.full((3,), 0.01))
    first = copy.deepcopy(start)
    first[2].bias = nn.Parameter(torch.zeros(3))
    again = compress_model(
        biased, data, method="matrix-project", options=options, init=first, delta=0.2
    )
    check = next(one for one in again.summary.promises if one.name == "Lemma 3")
    assert (check.held, "biases" in check.meaning) == (None, True)


@pytest.mark.parametrize("method", ["low-rank", "matrix-project", "vector-compress"])
def test_a_broken_promise_is_said(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compressed net is poisoned after it was made: what the lemmas promise of it no longer
    holds.
    """
    original = StoredNet.network

    def poisoned(self: StoredNet, frame: Network, start: Network | None = None) -> Network:
        net = original(self, frame, start)
        last = net.affine_layers[-1]
        operator = last.affine.operator
        noise = torch.randn(operator.weight.shape, generator=torch.Generator().manual_seed(0))
        # less than ‖A‖₂/d, so that Lemma 9 speaks; far more than was promised
        worse = operator.with_weight(
            operator.weight + 0.3 * operator.weight.norm() * noise / noise.norm()
        )
        if method != "low-rank":
            worse = operator.with_weight(operator.weight + 100 * noise)
        return net.with_affine({last.index: dataclasses.replace(last.affine, operator=worse)})

    model, start, data = near_its_start()
    options = (
        NetOptions(epsilon=1.0, from_initialisation=True, number_bits=16)
        if method == "matrix-project"
        else None
    )
    arguments: dict[str, Any] = {"method": method, "init": start, "options": options, "delta": 0.2}
    if method != "matrix-project":
        (model, _), (data, _) = (
            trained("linear" if method == "vector-compress" else "mlp"),
            digits(),
        )
        arguments = {"method": method}
    good = compress_model(model, data, **arguments).summary
    assert good.promise is not None
    assert good.promise.held
    monkeypatch.setattr(StoredNet, "network", poisoned)
    bad = compress_model(model, data, **arguments).summary
    assert bad.promise is not None
    assert bad.promise.held is False
    assert bad.promise.worst_ratio > 1
    broken = {one.name for one in bad.promises if one.held is False}
    expected = {
        "low-rank": {"Lemma 1"},
        "matrix-project": {"Lemma 2", "Lemma 3"},
        "vector-compress": {"Lemma 5"},
    }
    assert broken >= expected[method]
