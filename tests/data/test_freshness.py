"""Rows that a hold-out shares with its sample: draws that meet by chance, and copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from cushion.data import Dataset
from cushion.data.freshness import _too_many, freshness_fault, is_chance, looks_copied
from cushion.data.inputs import as_holdout
from cushion.data.rows import hashes_as_read
from cushion.errors import BadInput
from cushion_verify import freshness_fault as judge

RNG = np.random.default_rng(0)


def judged_again(rows: np.ndarray, sample: np.ndarray) -> str:
    return judge(rows, sample, None)


def rows(numbers: np.ndarray) -> np.ndarray:
    return np.asarray(numbers, np.int64).reshape(-1, 1)


def often(numbers: np.ndarray) -> dict[int, int]:
    return dict(Counter(Counter(numbers.tolist()).values()))


def test_the_sample_twice_does_not_make_it_fresh() -> None:
    x, y = RNG.normal(size=(400, 8)).astype(np.float32), RNG.integers(0, 2, 400)
    sample = Dataset(np.r_[x, x], np.r_[y, y])
    with pytest.raises(BadInput, match="not held out: 400 of the 400 are rows of the sample"):
        as_holdout((x, y), sample)
    one = RNG.normal(size=(300, 8)).astype(np.float32)
    assert freshness_fault(one, sample.x) == "", "new rows are fresh beside copies too"
    one[7] = x[3]
    assert "1 of the 300" in freshness_fault(one, sample.x), "and one row of it is too many"


def test_some_copied_rows_do_not_let_many_others_in() -> None:
    x = np.arange(1000)
    sample, holdout = np.r_[x[:400], x[:50]], np.r_[x[320:400], x[900:]]
    assert "80 of the 180" in freshness_fault(rows(holdout), rows(sample))


@pytest.mark.parametrize("times", [2, 3, 4, 7, 20])
@pytest.mark.parametrize("m", [20, 100, 400])
def test_rows_that_all_occur_equally_often_are_copies(m: int, times: int) -> None:
    sample = np.repeat(np.arange(m), times)
    assert looks_copied(often(sample))
    for fault in (freshness_fault, judged_again):
        assert "1 of the 2 are" in fault(rows([0, m]), rows(sample))


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_copies_made_before_the_split_are_copies(share: float) -> None:
    """The classic leak: some rows twice, all in random order, then divided."""
    whole = RNG.permutation(np.r_[np.arange(2000), np.arange(int(2000 * share))])
    cut = len(whole) * 2 // 3
    for fault in (freshness_fault, judged_again):
        assert fault(rows(whole[cut:]), rows(whole[:cut])) != ""


@pytest.mark.parametrize("law", ["uniform", "zipf", "two kinds"])
@pytest.mark.parametrize(("m", "n"), [(100, 100), (600, 200), (1000, 1000), (300, 2000)])
@pytest.mark.parametrize("values", [2, 6, 40, 300, 900])
def test_independent_draws_from_few_rows_pass(values: int, m: int, n: int, law: str) -> None:
    """Every cell drawn 100 times: none of 6000 pairs is refused."""
    rng = np.random.default_rng([values, m, n])
    place = np.arange(1, values + 1)
    weights = {"uniform": place**0.0, "zipf": 1 / place, "two kinds": 1 + 9.0 * (place % 2)}[law]
    for _ in range(100):
        a, b = (rng.choice(values, size, p=weights / weights.sum()) for size in (m, n))
        seen = often(a)
        shared = int(np.isin(b, a).sum())
        assert seen.keys() == {1} or (not looks_copied(seen) and is_chance(shared, n, seen))


def test_the_verifier_judges_alike() -> None:
    for seed in range(150):
        rng = np.random.default_rng(seed)
        a = rng.integers(0, rng.integers(2, 400), rng.integers(1, 300))
        a = np.repeat(a, rng.integers(1, 3))
        b = rng.integers(0, rng.integers(2, 800), rng.integers(1, 300))
        assert freshness_fault(rows(b), rows(a)) == judged_again(rows(b), rows(a))
        a, b = (np.c_[part, part // 7].astype(np.uint8) for part in (a, b))
        assert bool(freshness_fault(b, a)) == bool(judged_again(b, a))

        def coarse(x: np.ndarray) -> np.ndarray:
            return x // 3

        x, z = (part.astype(np.float32) for part in (a, b))
        assert bool(freshness_fault(z, x, coarse)) == bool(judge(z, x, coarse))


def pictures(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 1, 6, 6), dtype=np.uint8)


@pytest.mark.parametrize("copies", ["each twice", "at random", "none"])
@pytest.mark.parametrize("fault", [freshness_fault, judged_again])
def test_the_sample_s_own_rows_are_not_fresh_whatever_the_sample_repeats(
    copies: str, fault: Callable[..., str]
) -> None:
    """Rows that were drawn again at random look like chance; all of them together do not."""
    x, rng = pictures(400), np.random.default_rng(1)
    sample = {
        "each twice": np.r_[x, x],
        "at random": x[rng.integers(0, 400, 1200)],
        "none": x,
    }[copies]
    for mine in (sample, sample[::-1], sample[:200], x[:150], np.r_[sample[:101], pictures(99, 2)]):
        assert "rows of the sample itself" in fault(mine, sample)
    assert fault(pictures(300, 2), sample) == ""


@pytest.mark.parametrize("fault", [freshness_fault, judged_again])
@pytest.mark.parametrize("bits", [1, 2, 4])
def test_changing_the_lowest_bits_makes_no_new_row(fault: Callable[..., str], bits: int) -> None:
    x, rng = pictures(300), np.random.default_rng(3)
    for changed in (
        x[:100] ^ np.uint8(2**bits - 1),
        x[:100] ^ rng.integers(0, 2**bits, x[:100].shape, dtype=np.uint8),
    ):
        assert "100 of the 100" in fault(changed, x)
        bootstrap = x[rng.integers(0, 300, 900)]
        assert "rows of the sample itself" in fault(changed, bootstrap)
    few = pictures(300, 4)
    few[:3] = x[:3] ^ np.uint8(1)
    assert fault(few, x) == "", "as many may be so similar by chance"
    few[:20] = x[:20] ^ np.uint8(1)
    assert "20 of the 300" in fault(few, x)


def test_floats_are_compared_as_the_net_reads_them() -> None:
    x = np.random.default_rng(0).normal(size=(300, 10)).astype(np.float32)

    def read(rows: np.ndarray) -> np.ndarray:
        return np.floor(rows * 8)

    close = np.nextafter(x[:200], np.float32(9))
    zeros = np.where(x[:200] < 0, np.float32(-0.0), np.float32(0)) + x[:200] * 0
    for fault in (freshness_fault, judge):
        assert "200 are" in fault(close, x), "whatever reads them"
        assert fault(-np.abs(zeros), np.r_[np.abs(zeros), x]) != ""
    nudged = np.floor(x[:200] * 8) / 8 + np.float32(0.06)
    assert freshness_fault(nudged, x) == ""
    for fault in (freshness_fault, judge):
        assert "200 are" in fault(nudged, x, read)
    assert freshness_fault(x[200:], x[:200], read) == ""


NAMED = np.dtype([("pixels", "u1", (4,)), ("heights", "<f4", (3,))])


def named(n: int, seed: int) -> np.ndarray:
    rng, rows = np.random.default_rng(seed), np.zeros(n, NAMED)
    rows["pixels"], rows["heights"] = rng.integers(0, 256, (n, 4)), rng.normal(size=(n, 3))
    return rows


@pytest.mark.parametrize("part", NAMED.names)
@pytest.mark.parametrize("fault", [freshness_fault, judged_again])
def test_last_digits_of_named_parts_hide_no_row(fault: Callable[..., str], part: str) -> None:
    sample, rows = named(200, 0), named(200, 0)
    assert fault(named(100, 1), sample) == ""
    rows["pixels"] ^= np.uint8(part == "pixels")
    rows["heights"] = np.nextafter(rows["heights"], np.float32(9))
    assert "200 of the 200 are rows of the sample itself" in fault(rows, sample)


def test_the_sample_in_another_order_is_not_fresh_where_a_reading_merges_rows() -> None:
    x = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)

    def read(rows: np.ndarray) -> np.ndarray:
        return np.floor(rows * 2)

    nudged = np.floor(x[::-1] * 2) / 2 + np.float32(0.13)
    for fault in (freshness_fault, judge):
        assert "400 of the 400 are" in fault(nudged, x, read)
        assert fault(nudged[:300], x, read) == "", "so coarse a reading tells nothing more"


@pytest.mark.parametrize("features", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("top", [2, 5, 16, 256])
def test_independent_bytes_pass_in_every_reading_but_the_first(top: int, features: int) -> None:
    """Coarse readings merge rows that differ; fresh rows then meet many, and are not refused.

    Byte for byte they are whole numbers here that never meet, so that only readings can refuse.
    """
    refused = 0
    for seed in range(50):
        rng = np.random.default_rng([seed, top, features])
        m, n = rng.integers(10, 400, 2)
        x = rng.integers(0, top, (m + n, features)) * (256 // top)
        seen = np.arange(m + n)
        refused += any(
            _too_many(part[m:], part[:m], m, exact=False)
            for part in hashes_as_read(
                np.c_[x, seen],
                [lambda x, s=s: np.ascontiguousarray(x[:, :-1] >> s) for s in (1, 2, 4)],
            )
        )
    assert refused <= 2
