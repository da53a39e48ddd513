"""Attacks of the certificate that are not a single file: float non-determinism, seeds, lies spread
over many files.
"""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.certificates import nets
from tests.certificates.case import altered, base, sealed
from tests.certificates.samples import sample
from tests.posterior_cases import coin, ones
from threadpoolctl import threadpool_limits

from cushion.certificates import recheck as verifier
from cushion.certificates.certificate import certify_net
from cushion.certificates.format.draws import count_draws, key_of, random_rows
from cushion.certificates.format.evaluation import for_each
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.message import decode, encode
from cushion.certificates.format.posterior import encode_posterior
from cushion.errors import Malformed
from cushion.theorems.occam import occam_bound

DELTA = Decimal("0.05")
EVALUATED: dict[str, tuple[Any, str]] = {
    "grouped convolutions": (nets.grouped, "bars"),
    "pooling": (nets.pooled, "bars"),
    "symmetry": (lambda: nets.symmetric(8), "grey bars"),
    "floats": (lambda: nets.floats(own=True), "table"),
    "projection": (lambda: nets.layered(nets.SOURCES["projection"]), "halves"),
}


# ---- float non-determinism


@pytest.mark.parametrize("name", EVALUATED)
def test_counts_and_scores_do_not_depend_on_threads_batches_or_precision(name: str) -> None:
    make, data = EVALUATED[name]
    rows = sample(data)
    expected = make().scores(rows.x)
    for floats in (np.float32, np.float64):
        net: IntegerNet = make()
        assert net.reach < 2**24, "both precisions must be exact for this net"
        vars(net)["_floats"] = floats
        assert np.array_equal(net.scores(rows.x), expected)
        for threads in (1, 2):
            with threadpool_limits(threads):
                counts = {net.errors(rows.x, rows.y, batch=batch) for batch in (1, 7, 512, None)}
                assert counts == {int((make().answers(rows.x) != rows.y).sum())}


def test_a_net_beyond_single_precision_is_counted_in_double() -> None:
    """2^24 + 1 is where float32 would begin to round: the two classes then tie, and every count
    changes.
    """
    weight = nets.Values(nets.whole([[2**24, 1, 0, 0], [2**24, 0, 0, 0]]))
    net = nets.on_halves(nets.Dense(weight, None, 0, 0), shift=7)
    x = np.array([[1, 1, 0, 0]], dtype=np.uint8).reshape(1, 1, 2, 2) * 128
    assert net.scores(x).tolist() == [[2**24 + 1, 2**24]]
    assert net.answers(x).tolist() == [0]
    rounded = nets.on_halves(nets.Dense(weight, None, 0, 0), shift=7)
    vars(rounded)["_floats"] = np.float32
    assert rounded.answers(x).tolist() == [-1], (
        "single precision must differ here, or this test proves nothing"
    )


# ---- seeds


def test_a_seed_costs_its_word() -> None:
    """Going from seed 0 to a seed of n bits adds the gamma word's growth, bit for bit."""
    free = encode(nets.masked(0)).bits
    for seed in (1, 2, 6, 7, 4711, 2**32 - 1):
        assert encode(nets.masked(seed)).bits - free == 2 * ((seed + 1).bit_length() - 1)


def test_the_best_of_many_seeds_is_no_bargain() -> None:
    """Over all seeds the weights 2^-bits sum to less than that of the seedless part: Kraft pays for
    the search.
    """
    fixed = encode(nets.masked(0)).bits - 1  # the word of seed 0 is one bit
    total = sum(
        Fraction(2 ** (width - 1), 2 ** (fixed + 2 * width - 1)) for width in range(1, 33)
    )  # 2^(width-1) seeds share each width
    assert total < Fraction(1, 2**fixed)
    for width in (1, 2, 5):
        assert encode(nets.masked(2 ** (width - 1) - 1)).bits == fixed + 2 * width - 1


# ---- the message decides the net, and nothing else does


def test_nothing_outside_the_message_changes_the_net(tmp_path: Path) -> None:
    plain = base()
    scores = decode(plain.message, plain.claim.bits).scores(sample("halves").x)
    for change in ({"made_with": {"weights": "1 2 3"}}, {"data": "weights 1 2 3"}):
        path = tmp_path / "side.cushion"
        path.write_bytes(altered(plain, **change))
        verdict = verifier.verify(path, sample("halves"))
        assert verdict.ok
        assert verdict.claim.bound == plain.claim.bound
        assert np.array_equal(
            decode(plain.message, plain.claim.bits).scores(sample("halves").x), scores
        )


def test_integers_that_python_refuses_to_read_are_malformed(tmp_path: Path) -> None:
    path = tmp_path / "long.cushion"
    path.write_bytes(sealed('{"m":' + "9" * 5000 + "}", b""))
    with pytest.raises(Malformed, match="not JSON"):
        verifier.verify(path, None)


def test_the_memory_of_a_count_does_not_grow_with_its_draws() -> None:
    """A file may ask for 10^7 draws: neither their rows, nor their errors, nor the batches in line
    are held at once.
    """
    posterior, data = coin(), ones(1000)
    key = key_of(encode_posterior(posterior).data, 1, data.fingerprint)
    peaks = []
    for draws in (10**4, 10**6):
        tracemalloc.start()
        try:
            errors = count_draws(posterior, key, data.x, data.y, draws, random_rows(key, 1000))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert abs(errors / draws - 0.1587) < 0.02
    assert peaks[1] < 2 * peaks[0] + 2**20


class ManyThreads:
    """A matrix library with 64 threads, as far as `for_each` can see."""

    def select(self, **_: object) -> ManyThreads:
        return self

    def info(self) -> list[dict[str, int]]:
        return [{"num_threads": 64}]

    def limit(self, **_: object) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.mark.parametrize(("values", "threads"), [(1, 64), (2**20, 8), (2**22, 2), (2**24, 1)])
def test_many_cores_do_not_multiply_the_memory(
    monkeypatch: pytest.MonkeyPatch, values: int, threads: int
) -> None:
    asked: list[int] = []

    def pool(count: int) -> ThreadPoolExecutor:
        asked.append(count)
        return ThreadPoolExecutor(1)

    monkeypatch.setattr("cushion.certificates.format.evaluation.ThreadpoolController", ManyThreads)
    monkeypatch.setattr("cushion.certificates.format.evaluation.ThreadPoolExecutor", pool)
    done: list[int] = []
    for_each(range(0, 6000, 2), done.append, values, progress=False)
    assert asked == [threads]
    assert done == list(range(0, 6000, 2))


# ---- two certificates quoted as a minimum


def test_two_messages_about_one_sample_share_one_delta() -> None:
    """The theorem holds for all messages at once, so the smaller of two may be quoted: their shares
    fit into one δ.
    """
    first, second = encode(nets.difference()), encode(nets.masked(3))
    assert first.data != second.data
    assert Fraction(1, 2**first.bits) + Fraction(1, 2**second.bits) < 1


def test_two_samples_quoted_as_a_minimum_fail_more_often_than_one() -> None:
    """Nothing in a file can show this: the smaller of two hold-out bounds fails nearly twice as
    often as δ allows.
    """
    rng = np.random.default_rng(0)
    m, truth, delta = 200, 0.3, Decimal("0.2")
    table = np.array([float(occam_bound(k, m, 0, delta)) for k in range(m + 1)])
    stated = table[rng.binomial(m, truth, (20_000, 2))]
    alone, least = (stated[:, 0] < truth).mean(), (stated.min(axis=1) < truth).mean()
    assert alone <= 0.21
    assert least > 0.28


def test_a_sorted_split_is_refused_only_where_the_data_are_known(tmp_path: Path) -> None:
    """Certified on its first class alone a net looks perfect; the verifier sees it only through the
    fingerprint.
    """
    whole = sample("halves sorted by label")
    zeros = int((whole.y == 0).sum())
    part = whole.select(np.arange(zeros), "first class only")
    constant = nets.on_halves(
        nets.Dense(nets.Grid(nets.whole([[0] * 4, [0] * 4]), 1), nets.whole([1, 0]), 0, 0)
    )
    made = certify_net(constant, part, DELTA)
    assert made.claim.errors == 0
    path = made.save(tmp_path / "sorted.cushion")
    assert verifier.verify(path, part).ok, (
        "as itself it verifies: independent draws are an assumption"
    )
    verdict = verifier.verify(path, sample("halves"))
    assert (verdict.ok, verdict.level) == (False, "message")
