"""What training on a grid is made of: grids, prices, views, targets, the front."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch

from cushion.certificates.format.number_stream import encode_numbers
from cushion.compressors.tuning.grids import least_squares_exponent, rounded
from cushion.compressors.tuning.prices import prices, rate
from cushion.compressors.tuning.records import Setting, mark_front
from cushion.compressors.tuning.target import Target, choose_target
from cushion.compressors.tuning.views import check_augment, moved
from cushion.errors import BadInput


def loss_on(values: torch.Tensor, exponent: int, most: int) -> float:
    step = 2.0**exponent
    found = [min(max(round(float(v) / step), -most), most) * step for v in values]
    return sum((float(v) - f) ** 2 for v, f in zip(values, found, strict=True))


@pytest.mark.parametrize("most", [1, 3, 7, 127])
@pytest.mark.parametrize("law", ["normal", "heavy", "uniform", "tiny"])
def test_the_grid_of_least_squares_is_the_best_of_all(most: int, law: str) -> None:
    draw = torch.Generator().manual_seed(most)
    values = torch.randn(300, generator=draw)
    if law == "heavy":
        values = values**5
    elif law == "uniform":
        values = torch.rand(300, generator=draw) - 0.5
    elif law == "tiny":
        values = values * 1e-30
    best = least_squares_exponent(values, most)
    top = math.frexp(float(values.abs().max()))[1] + 2
    losses = {e: loss_on(values, e, most) for e in range(top - 24, top)}
    assert losses[best] == min(losses.values())


def test_a_few_large_weights_do_not_set_the_step() -> None:
    values = torch.cat([torch.randn(5000), torch.tensor([20.0, -18.0])])
    assert 2.0 ** least_squares_exponent(values, 1) < 4
    assert least_squares_exponent(torch.zeros(4), 3) == 0


def test_rounding_is_to_the_nearest_but_for_a_wider_zero_and_gradients_pass() -> None:
    given = torch.tensor([-9.0, -7.4, -2.5, -0.55, -0.4, 0.0, 0.59, 0.61, 1.61, 7.6, 30.0])
    given.requires_grad_()
    found = rounded(given, 7, 0.1)
    assert found.tolist() == [-7, -7, -2, 0, 0, 0, 0, 1, 2, 7, 7]
    found.sum().backward()
    assert given.grad is not None
    assert given.grad.tolist() == [0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    plain = torch.randn(1000) * 3
    assert torch.equal(rounded(plain, 7), plain.round().clamp(-7, 7))


def price_of(matrix: np.ndarray, i: int, j: int, t: int) -> float:
    """The price of one number by loops: odds of row, column and tap over that of all."""
    out, inputs, taps = matrix.shape
    live = [
        max(1, sum(bool(matrix[a].any()) for a in range(out))),
        max(1, sum(bool(matrix[:, b].any()) for b in range(inputs))),
        max(1, sum(bool(matrix[:, :, c].any()) for c in range(taps))),
    ]
    size = math.prod(live)

    def odds(count: int, cells: float) -> float:
        part = (count + 0.4) / (cells + 0.8)
        return math.log(part / max(1 - part, 0.02))

    counts = [np.count_nonzero(one) for one in (matrix[i], matrix[:, j], matrix[:, :, t])]
    total = sum(odds(c, size / n) for c, n in zip(counts, live, strict=True))
    total -= 2 * odds(np.count_nonzero(matrix), size)
    chance = min(max(1 / (1 + math.exp(-total)), 2.0**-12), 0.98)
    return max(0.5, math.log2(1 - chance) - math.log2(chance) + 1)


def test_prices_are_those_of_the_counts() -> None:
    matrix = np.random.default_rng(0).integers(-1, 2, size=(4, 5, 3))
    matrix[1] = 0
    found = prices(torch.from_numpy(matrix).float())
    for i, j, t in product(*map(range, matrix.shape)):
        assert float(found[i, j, t]) == pytest.approx(price_of(matrix, i, j, t), rel=1e-4)


def test_what_stands_alone_is_dear() -> None:
    matrix = torch.zeros(20, 20, 1)
    matrix[:10, :10] = 1
    matrix[15, 15] = 1
    found = prices(matrix)[:, :, 0]
    assert found[15, 15] > 4 * found[2, 2]
    assert found[0, 15] > found[0, 0]


@pytest.mark.parametrize(("shape", "share", "most"), [((60, 80), 0.1, 1), ((20, 10, 5, 5), 0.3, 4)])
def test_rates_add_up_to_about_what_the_code_takes(
    shape: tuple[int, ...], share: float, most: int
) -> None:
    rng = np.random.default_rng(2)
    values = np.where(rng.random(shape) < share, rng.integers(-most, most + 1, size=shape), 0)
    given = torch.from_numpy(values).float()
    told = float(rate(given, prices(given)))
    assert 0.6 < told / encode_numbers([], [values], [True]).bits < 1.5


def test_the_rate_grows_with_what_a_number_is_and_has_a_gradient_below_a_step() -> None:
    scaled = torch.tensor([0.0, 0.25, 1.0, 3.0], requires_grad=True)
    found = rate(scaled, torch.full((4,), 6.0))
    assert float(found) == pytest.approx(6 * (0.25 + 1 + 1) + 1.5 * math.log2(3))
    found.backward()
    assert scaled.grad is not None
    assert scaled.grad[1] == 6.0
    assert 0 < scaled.grad[3] < 2


def test_views_move_pictures_and_are_drawn_from_the_generator() -> None:
    x = torch.rand(40, 2, 12, 12)
    first = moved(x, torch.Generator().manual_seed(1))
    assert first.shape == x.shape
    assert torch.equal(first, moved(x, torch.Generator().manual_seed(1)))
    assert not torch.equal(first, moved(x, torch.Generator().manual_seed(2)))
    dot = torch.zeros(300, 1, 21, 21)
    dot[:, 0, 10, 10] = 1.0  # the middle goes at most a tenth of half the side
    far = moved(dot, torch.Generator().manual_seed(0)).flatten(1).argmax(1)
    assert {(int(at) // 21, int(at) % 21) for at in far} <= {
        (row, column) for row in range(8, 13) for column in range(8, 13)
    }
    assert len(far.unique()) > 5
    check_augment("none", (3,))
    with pytest.raises(BadInput, match="`augment` = moved is for images"):
        check_augment("moved", (3,))


@pytest.mark.parametrize(
    ("given", "words", "errors", "size"),
    [
        ({}, "at most 1 point of error more", 15, None),
        ({"lose": "0.5"}, "at most 0.5 points of error more", 10, None),
        ({"lose": "0"}, "at most 0 points of error more", 5, None),
        ({"max_error": "3%"}, "at most 3 % of errors", 30, None),
        ({"max_error": "0.0299"}, "at most 2.99 % of errors", 29, None),
        ({"max_size": "20kB"}, "at most 20000 bytes", None, 20_000),
        ({"max_size": "1.5 KiB"}, "at most 1536 bytes", None, 1536),
        ({"max_size": "300"}, "at most 300 bytes", None, 300),
        ({"max_size": "2 KB"}, "at most 2000 bytes", None, 2000),
        ({"max_size": "1b"}, "at most 1 byte", None, 1),
        ({"bound": True}, "the smallest bound", None, None),
    ],
)
def test_targets_as_people_say_them(
    given: dict[str, str], words: str, errors: int | None, size: int | None
) -> None:
    asked = {"max_error": None, "lose": None, "max_size": None, "bound": False, **given}
    target = choose_target(**asked, before=5, m=1000)  # type: ignore[arg-type]
    assert (target.words, target.errors, target.size) == (words, errors, size)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_error": "much"}, "`max_error` = much must be a share of errors"),
        ({"max_error": "100%"}, "`max_error` = 100%"),
        ({"lose": "-1"}, "`lose` = -1 must be percentage points"),
        ({"max_size": "0kB"}, "`max_size` = 0kB must be a size"),
        ({"max_size": "20 furlongs"}, "`max_size`"),
        ({"max_size": "20iB"}, "`max_size`"),
        ({"max_size": "1MB", "lose": "1"}, "`lose` and `max_size` are two targets"),
        ({"max_size": "1MB", "bound": True}, "`max_size` and `min_bound` are two targets"),
    ],
)
def test_targets_that_are_none(given: dict[str, str], words: str) -> None:
    asked = {"max_error": None, "lose": None, "max_size": None, "bound": False, **given}
    with pytest.raises(BadInput, match=words):
        choose_target(**asked, before=5, m=1000)  # type: ignore[arg-type]


def setting(size: int, errors: int, bound: float = 1.0) -> Setting:
    return Setting(
        asked="",
        bytes=size,
        train_error=0.0,
        validation_error=None,
        bound=bound,
        parameters=0,
        multiplications=0,
        checked_errors=errors,
        exact_bound=bound,
    )


def test_which_setting_is_nearer() -> None:
    some = [setting(100, 9), setting(50, 12), setting(40, 30), setting(45, 12), setting(90, 12)]
    by_error = Target("", 100, errors=12)
    assert min(some, key=by_error.rank) == setting(45, 12)
    assert min(some, key=Target("", 100, errors=5).rank) == setting(100, 9)  # the nearest
    assert min(some, key=Target("", 100, size=95).rank) == setting(45, 12)
    assert min(some, key=Target("", 100, size=10).rank) == setting(40, 30)
    assert min([setting(9, 9, 0.5), setting(5, 5, 0.6)], key=Target("", 9).rank).bytes == 9
    assert [by_error.met(one) for one in some] == [True, True, False, True, True]
    assert not by_error.met(setting(1, 13))
    by_size = Target("", 100, size=50)
    assert [by_size.met(setting(size, 0)) for size in (49, 50, 51)] == [True, True, False]


def test_the_front_is_of_those_that_nothing_beats() -> None:
    some = [setting(*pair) for pair in [(5, 5), (4, 6), (6, 5), (3, 9), (4, 7), (2, 9), (9, 1)]]
    marked = [one.front for one in mark_front(some)]
    for at, one in enumerate(some):
        beaten = any(
            other.bytes <= one.bytes
            and other.checked_errors <= one.checked_errors
            and (other.bytes, other.checked_errors) != (one.bytes, one.checked_errors)
            for other in some
        )
        assert marked[at] is not beaten
