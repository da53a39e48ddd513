"""The listed learners: naive loops for their parts, and the verifier, which was written apart from
them, for the whole.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cushion_verify
from cushion.certificates.picks import front_end, moves
from cushion.certificates.picks.configurations import (
    AFTER,
    LENGTH,
    RECIPES,
    SIZES,
    STOPS,
    decay_of,
    learner_for,
)
from cushion.certificates.picks.kernel_machine import KernelMachine, table
from cushion.certificates.picks.options import CHOICES, PicksOptions
from cushion.certificates.picks.run import certify_by_list
from cushion.data import load
from cushion.data.dataset import Dataset
from cushion.errors import BadInput
from cushion.theorems.picks import picks_bound


def pictures(n: int, channels: int, side: int, seed: int = 0) -> tuple[NDArray[Any], Any]:
    """A bright bar, upright or lying, in noise: [n, channels, side, side] bytes, two classes."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 90, (n, channels, side, side))
    y = rng.integers(0, 2, n)
    for row, label in zip(x, y, strict=True):
        at = rng.integers(1, side - 2)
        row[(slice(None), at) if label else (slice(None), slice(None), at)] += 120
    return x.astype(np.uint8), y.astype(np.int64)


def sample_of(form: str, side: int = 9, n: int = 150) -> Dataset:
    x, y = pictures(n, 3 if form == "colour" else 1, side)
    if form == "table":
        columns = x.reshape(n, -1)[:, :12]
        x = np.where(y[:, None] == 1, columns, columns // 3).astype(np.float32)
    if form == "features":
        x = x.reshape(n, -1)
    return Dataset(form, x, y, 2)


@pytest.mark.parametrize("recipe", [at for at, one in enumerate(RECIPES) if one.form != "features"])
def test_the_verifier_gets_the_same_rounds(recipe: int, tmp_path: Path) -> None:
    check(sample_of(RECIPES[recipe].form), recipe * STOPS + 2, tmp_path)


def test_the_verifier_learns_the_same_from_features() -> None:
    data = sample_of("features")
    learner = learner_for(data, 7 * STOPS, features=True)
    bound = learner.bind(data.x, data.y)
    machine = cushion_verify.Machine(7 * STOPS, 2, data.x)
    assert machine.unreadable(features=True) == ""
    for end in (8, 16, 30):
        bound.train(np.arange(end))
        start = {8: 0, 16: 8, 30: 16}[end]
        machine.learn(np.arange(start, end), data.y[start:end])
        assert machine.digest() == bound.digest()
        assert (machine.classes(data.x) == bound.classify(data.x)).all()


@pytest.mark.parametrize(
    "data",
    [
        Dataset("large", *pictures(60, 1, 40), 2),
        Dataset("oblong", pictures(60, 3, 20)[0][:, :, :9], pictures(60, 3, 20)[1], 2),
        Dataset("floats", pictures(60, 1, 9)[0].astype(np.float32) / 7, pictures(60, 1, 9)[1], 2),
        Dataset("bytes", pictures(60, 1, 5)[0].reshape(60, 25), pictures(60, 1, 5)[1], 2),
        Dataset("classes", *pictures(60, 1, 9), 5),
    ],
    ids=lambda data: data.name,
)
def test_rows_of_other_kinds_too(data: Dataset, tmp_path: Path) -> None:
    recipe = {"oblong": 3, "bytes": 6}.get(data.name, 2)
    check(data, recipe * STOPS, tmp_path)


def check(data: Dataset, number: int, folder: Path) -> None:
    options = PicksOptions(configuration=number)
    certificate, _ = certify_by_list(data, Decimal("0.05"), options)
    path = certificate.save(folder / "picks.cushion")
    given = cushion_verify.Given(x=data.x, y=data.y)
    verdict = cushion_verify.check(path, given)
    assert verdict.ok, verdict.reason
    other = data.y.copy()
    other[certificate.claim.m // 2] ^= 1
    assert not cushion_verify.check(path, cushion_verify.Given(x=data.x, y=other)).ok


def test_digits_come_out_as_they_did() -> None:
    data = load("digits")
    certificate, _ = certify_by_list(data, Decimal("0.05"), PicksOptions(configuration=1))
    claim = certificate.claim
    assert (claim.picks, claim.errors, claim.bound) == (96, 10, "0.103474")
    assert hashlib.sha256(certificate.message).hexdigest()[:16] == "28c405b844aec930"


def test_the_list_has_its_length_and_its_stops() -> None:
    assert LENGTH == CHOICES == 128
    sums = list(itertools.accumulate(SIZES))
    assert SIZES[:3] == (8, 8, 8)
    for at, after in enumerate(AFTER):
        wanted = 64 * math.sqrt(2) ** at
        assert sums[after - 1] >= wanted - 1e-9 > (sums[after - 2] if after > 1 else 0) - 1
    for gamma in range(1, 5):
        assert abs(decay_of(gamma) / 2**48 - math.exp(-2 * gamma / 2**16)) < 1e-12


def test_the_table_is_an_exponential() -> None:
    for gamma in (1, 4):
        entries = table(decay_of(gamma))
        away = np.arange(2**16 - 1, -1, -1)
        assert np.abs(entries - 2**16 * np.exp(-2 * gamma * away / 2**16)).max() < 1.5
        assert (np.diff(entries) >= 0).all()


def test_cells_are_the_sums_of_their_definition() -> None:
    rng = np.random.default_rng(1)
    maps = rng.integers(0, 50, (2, 3, 9, 11)).astype(np.float32)
    found = front_end.cells(maps, 4).reshape(2, 3, 4, 4)
    for s, t in itertools.product(range(4), repeat=2):
        total = np.zeros((2, 3))
        for i, j in itertools.product(range(9), range(11)):
            down = max(0, 9 // 4 + 2 - abs(i - (2 * s + 1) * 9 // 8))
            across = max(0, 11 // 4 + 2 - abs(j - (2 * t + 1) * 11 // 8))
            total += down * across * maps[:, :, i, j]
        assert (found[:, :, s, t] == total).all()


def test_a_move_reads_between_four_pixels() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 256, (3, 9, 10))
    assert (moves.moved(x, moves.Move()) == x).all()
    for move in moves.ALL:
        found = moves.moved(x, move)
        for i, j in ((0, 0), (4, 7), (8, 9), (3, 0)):
            u, v = 2 * i - 8, 2 * j - 9
            row = (128 * 8 + move.a * u + move.b * v + 256 * 9 * move.down // 28) / 256
            column = (128 * 9 + move.c * u + move.d * v + 256 * 10 * move.across // 28) / 256
            top, left = math.floor(row), math.floor(column)
            total = np.zeros(3)
            for down, right in itertools.product((0, 1), repeat=2):
                weight = (1 - abs(row - top - down)) * (1 - abs(column - left - right))
                place = min(max(top + down, 0), 8), min(max(left + right, 0), 9)
                total += weight * x[:, place[0], place[1]]
            assert (np.abs(found[:, i, j] - total) <= 0.51).all()


def test_vectors_keep_products_exact() -> None:
    for x in (np.full((2, 3, 32, 32), 255), pictures(5, 3, 33)[0], np.zeros((2, 3, 8, 8))):
        for rows in (front_end.colour(x), front_end.grey(x[:, 0])):
            assert (rows == np.floor(rows)).all()
            assert ((rows.astype(np.int64) ** 2).sum(axis=1) < 2**24).all()
    levels = np.random.default_rng(3).integers(0, 256, (4, 7))
    assert ((front_end.pairs(levels).astype(np.int64) ** 2).sum(axis=1) < 2**24).all()


def test_weighted_sums_of_the_largest_pictures_stay_exact() -> None:
    side = front_end.MOST_SIDE
    checkers = (np.indices((side, side)).sum(axis=0) % 2 * 765).astype(np.float32)[None]
    maps = front_end.first_order(checkers)
    assert maps.max() <= 1275
    for found in front_end.second_order(maps):
        assert found.max() < 2**24
    assert front_end.cells(maps, 5).max() < 2**24


def test_training_comes_near_the_least_squares_solution() -> None:
    x, y = pictures(120, 1, 9)
    rows = front_end.grey(x[:, 0])
    machine = KernelMachine(2, decay_of(2), 655, 16)
    machine.add(rows, y)
    for _ in range(12):  # each begins with the true residual of the one before
        machine.train()
    kernel = machine.kernel(rows) / 2**16
    codes = np.where(np.arange(2) == y[:, None], 2**14, -(2**14))
    wanted = np.linalg.solve(kernel + 655 / 2**16 * np.eye(120), codes)
    scores = machine.scores(rows) / 2**16
    assert np.abs(scores - kernel @ wanted).max() < 0.02 * 2**14


def test_groups_one_by_one_and_kernels_in_any_batch_are_the_same() -> None:
    x, y = pictures(60, 1, 9)
    rows = front_end.grey(x[:, 0])
    machine = KernelMachine(2, decay_of(2), 655, 16)
    for start in range(0, 60, 20):
        machine.add(rows[start : start + 20], y[start : start + 20])
        machine.train()
    whole = machine.scores(rows)
    parts = np.concatenate([machine.scores(rows[i : i + 1]) for i in range(60)])
    assert (whole == parts).all()
    assert (machine.frozen().scores(rows) == whole).all()


def test_a_learner_that_does_not_read_the_rows_is_refused() -> None:
    grey = sample_of("grey")
    with pytest.raises(BadInput, match="reads rows of the form colour"):
        learner_for(grey, 3 * STOPS)
    with pytest.raises(BadInput, match="0 to 127"):
        learner_for(grey, 128)
    wide = Dataset("wide", np.zeros((3, 2**14 + 1), np.uint8), np.array([0, 1, 0]), 2)
    with pytest.raises(BadInput, match="no table"):
        learner_for(wide, 5 * STOPS)


@pytest.mark.parametrize(("k", "m"), [(0, 1), (0, 9), (3, 9), (8, 9), (7, 40), (39, 40), (30, 300)])
def test_the_verifiers_sum_is_that_of_the_theorem(k: int, m: int) -> None:
    """In fractions: what it accepts reaches 1, and the stated bound less one step does not."""
    delta = Fraction(1, 2560)

    def reaches(bound: Decimal) -> bool:
        q = 1 - Fraction(bound)
        terms = (Fraction(math.comb(i, k), math.comb(m, k)) / q ** (m - i) for i in range(k, m))
        return delta / m * sum(terms) >= 1

    bound = Decimal(picks_bound(k, m, Decimal("0.05"), 128))
    for moved in (0, -1, -5):
        tried = bound + moved * Decimal("1e-6")
        held = cushion_verify.picks_hold(k, m, Decimal("0.05") / 128, str(tried))
        assert held == (tried == 1 or reaches(tried)) == (moved == 0)
