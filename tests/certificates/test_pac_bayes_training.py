"""Training of posteriors: what is trained is what is stated, it ends in time, and its certificates
verify.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.clock import Clock
from tests.posterior_cases import stripes

from cushion.certificates import recheck as verifier
from cushion.certificates.certify import certify
from cushion.certificates.format.inputs import Bytes
from cushion.certificates.format.layers import Pool
from cushion.certificates.format.posterior import encode_posterior, read_posterior
from cushion.certificates.pac_bayes import gaussian_kl
from cushion.certificates.search.integer.blueprints import ConvBlock, DenseBlock
from cushion.certificates.search.options import SearchOptions
from cushion.certificates.search.posterior import (
    GaussianNumbers,
    PosteriorNet,
    blueprint_for,
    train_posterior,
)
from cushion.data.dataset import Dataset
from cushion.errors import BadInput

BLUEPRINT = (ConvBlock(2, 3, padding=1, symmetry=2), Pool("max", 2), DenseBlock())


def model(seed: int = 0) -> PosteriorNet:
    net = PosteriorNet(BLUEPRINT, (1, 6, 6), 3, Bytes(4), torch.Generator().manual_seed(seed))
    net.calibrate(torch.from_numpy(stripes(64).x >> 4).float())
    return net


def laws(net: PosteriorNet) -> list[GaussianNumbers]:
    return [law for _, _, law in net.numbers()]


def test_the_stated_posterior_scores_as_the_trained_one() -> None:
    """With the smallest variances and whole means, every draw is the net of the means."""
    net = model()
    with torch.no_grad():
        for law in laws(net):
            law.exponents.fill_(-99.0)
            law.means.copy_(torch.randint(-40, 41, law.means.shape).float() / 16)
        scores = net.forward(torch.from_numpy(stripes(30).x >> 4).float()).numpy().astype(np.int64)
    posterior = net.posterior()
    means = np.concatenate([f.means.reshape(-1) for f in posterior.factors])
    assert (means % 4 == 0).all()
    assert (posterior.with_numbers(means // 4).scores(stripes(30).x) == scores).all()
    message = encode_posterior(posterior)
    assert read_posterior(message.data, message.bits)[1] == message


def test_the_trained_divergence_is_the_stated_one() -> None:
    net = model(1)
    with torch.no_grad():
        for law in laws(net):
            law.exponents.add_(torch.randn(law.exponents.shape) * 3)
            law.means.copy_((law.means * 64).round() / 64)
    stated = sum(gaussian_kl(factor) for factor in net.posterior().factors)
    assert float(net.divergence().detach()) == pytest.approx(float(stated), rel=1e-5)


def test_draws_have_the_stated_mean_and_deviation() -> None:
    law = GaussianNumbers((4000,), torch.Generator().manual_seed(0), 0.0, -4.0)
    with torch.no_grad():
        law.means.fill_(1.0)
        drawn = law.integers()
    assert (drawn == drawn.round()).all()
    assert float(drawn.mean()) == pytest.approx(16.0, abs=0.3)
    assert float(drawn.var()) == pytest.approx(16.0 + 1 / 12, rel=0.1)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 8), (1, 1, 13)])
def test_every_shape_has_a_blueprint(shape: tuple[int, int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    net = PosteriorNet(blueprint_for(shape), shape, 10, Bytes(4), generator)
    net.calibrate(torch.randint(0, 16, (8, *shape)).float())
    assert net.posterior().skeleton.classes == 10


def test_a_short_training_gives_a_certificate_that_verifies(tmp_path: Path, clock: Clock) -> None:
    told: list[float] = []
    sample, held = stripes(2000), stripes(200, seed=1)
    made = certify(
        None,
        sample,
        method="pac-bayes",
        minutes=0.1,
        seed=3,
        holdout=held,
        report=lambda *_: told.append(clock.now),
    )
    assert told
    assert told[-1] < 6.2
    assert made.bound < 0.6
    found = verifier.verify(made.save(tmp_path / "q.cushion"), sample, held)
    assert (found.ok, "holdout" in found.replayed) == (True, True)
    assert made.claim.made_with.pop("steps") > 0
    assert made.claim.made_with == {
        "method": "pac-bayes",
        "minutes": 0.1,
        "seed": 3,
        "interrupted": False,
    }


def interrupting(at: int) -> Callable[[float, Decimal], None]:
    calls = iter(range(10**6))

    def report(share: float, bound: Decimal) -> None:
        if next(calls) == at:
            raise KeyboardInterrupt

    return report


def test_an_interrupt_keeps_the_posterior_so_far() -> None:
    found = train_posterior(stripes(), SearchOptions(10), 10**5, interrupting(1))
    assert found.interrupted
    assert found.posterior.size > 0


def test_the_same_seed_draws_the_same_net_and_threads_are_given_back() -> None:
    threads = torch.get_num_threads()
    one, two, other = (
        encode_posterior(
            train_posterior(
                stripes(), SearchOptions(10, seed=seed), 10**5, interrupting(0)
            ).posterior
        ).data
        for seed in (1, 1, 2)
    )
    assert one == two != other
    assert torch.get_num_threads() == threads


def test_float_features_get_a_paid_quantiser() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5)).astype(np.float32)
    sample = Dataset("table", x, (x[:, 0] > 0).astype(np.int64), 2)
    found = train_posterior(sample, SearchOptions(0.5 / 60), 10**5)
    paid = encode_posterior(found.posterior).ledger
    assert any("floats" in item.meaning and item.bits > 5 for item in paid)
    assert found.posterior.skeleton.fault(x) == ""


@pytest.mark.parametrize(
    "options", [{"minutes": 0}, {"minutes": math.nan}, {"delta": "2"}, {"delta": "x"}]
)
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        certify(None, stripes(), method="pac-bayes", **options)  # type: ignore[arg-type]


@pytest.mark.full
def test_mnist_is_not_vacuous_in_five_minutes() -> None:
    from cushion.data import load_pair

    sample, _ = load_pair("mnist")
    assert Decimal(certify(None, sample, method="pac-bayes", minutes=5).claim.bound) < Decimal(
        "0.2"
    )


@pytest.mark.parametrize(("shape", "size"), [((1, 28, 28), 1989), ((3, 32, 32), 7568)])
def test_posteriors_of_usual_images_are_small_enough(
    shape: tuple[int, int, int], size: int
) -> None:
    net = PosteriorNet(blueprint_for(shape), shape, 10, Bytes(4), torch.Generator())
    net.calibrate(torch.zeros(8, *shape))
    posterior = net.posterior()
    assert posterior.size == size
    posterior.check_draws(10**5 + 10**4)


@pytest.mark.parametrize(("features", "said"), [(3000, "100000 draws"), (11_000, "at most 100000")])
def test_inputs_that_are_too_many_are_refused_before_the_training(
    features: int, said: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, features)).astype(np.float32), np.arange(30) % 10
    told: list[float] = []
    for keep in (None, tmp_path / "best"):
        with pytest.raises(BadInput, match=f"too many for .*{said}.*another `method`"):
            certify(
                None,
                Dataset("wide", x, y, 10),
                method="pac-bayes",
                minutes=9,
                keep=keep,
                report=lambda *_: told.append(0),
            )
    assert not told
    assert not list(tmp_path.iterdir())


def test_fewer_draws_than_the_format_asks_for_are_refused_at_once() -> None:
    with pytest.raises(BadInput, match="`draws`"):
        SearchOptions(method="pac-bayes", draws=99_999)
