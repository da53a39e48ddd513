"""Training of Gaussian posteriors over integer nets; the PAC-Bayes bound sets the price of KL.

Each step draws one net, w = μ + σ·noise rounded straight through, and descends cross-entropy plus
λ·KL(Q‖P), where λ follows the bound itself: ∂bound/∂KL over ∂bound/∂error at the present error and
divergence. Variances are kept on their grid (powers of two) in every forward pass, again straight
through, so that what is trained is what is stored. Nothing in here is trusted: what counts is the
message of the posterior that comes out, and draws that training never saw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.certificates.format.inputs import Input
from cushion.certificates.format.limits import Shape
from cushion.certificates.format.posterior import MOST_MEAN, USUAL_PRIOR, Factor, Posterior
from cushion.certificates.format.rounded_gaussian import LEAST_EXPONENT, MOST_EXPONENT, QUARTERS
from cushion.certificates.format.sources import Source, Values
from cushion.certificates.search.integer.blueprints import Blueprint, DenseBlock, convolutional
from cushion.certificates.search.integer.search import anneal
from cushion.certificates.search.integer.trainable import TrainableIntegerNet, straight
from cushion.certificates.search.options import Report, SearchOptions, no_report
from cushion.certificates.search.pausing import Keeper, Paused, state_of, take_up
from cushion.certificates.search.sample import Sample
from cushion.certificates.search.sizes import image_shape, square_summed, summed_shape
from cushion.certificates.search.task import price_of_a_nat
from cushion.data.counter import stream
from cushion.data.dataset import Dataset
from cushion.errors import BadInput, Malformed
from cushion.numerics import kl_inverse

_BATCH = 256
_SPREAD = 2.0 ** (USUAL_PRIOR / 2)  # the prior's standard deviation, in steps of the integers
# of means (in prior deviations), of variances' exponents, of the softmax's scale
_RATES = (0.03, 0.2, 0.02)
_EXCHANGE = 5.0  # cross-entropy that goes with one unit of error rate
_BYTES_SHIFT, _FLOATS_SHIFT = 4, 2  # what of eight bits is left unread
_UNKNOWN = 80.0  # nats beside KL while training: header and confidence, about


class GaussianNumbers(nn.Module):
    """Means in prior deviations, exponents of (σ/s)²; trained numbers whose rate is KL in nats."""

    def __init__(
        self, shape: tuple[int, ...], generator: torch.Generator, means: float, exponent: float
    ) -> None:
        super().__init__()
        self.generator = generator
        self.means = nn.Parameter(torch.randn(shape, generator=generator) * means)
        self.exponents = nn.Parameter(torch.full(shape, exponent))

    def stored_exponents(self) -> Tensor:
        """Whole exponents of σ²/s², inside the format's range."""
        low, high = LEAST_EXPONENT - USUAL_PRIOR, MOST_EXPONENT - USUAL_PRIOR
        return straight(self.exponents.clamp(low, high))

    def stored_means(self) -> Tensor:
        """Whole quarters of a step."""
        return straight((self.means * (QUARTERS * _SPREAD)).clamp(-MOST_MEAN, MOST_MEAN))

    def integers(self) -> Tensor:
        """One draw."""
        noise = torch.randn(self.means.shape, generator=self.generator)
        deviation = _SPREAD * torch.exp2(self.stored_exponents() / 2)
        return straight(self.stored_means() / QUARTERS + deviation * noise)

    def rate(self) -> Tensor:
        """KL(N(μ, σ²)‖N(0, s²)) = [ln(s²/σ²) + σ²/s² + μ²/s² - 1]/2, summed."""
        exponents = self.stored_exponents()
        return 0.5 * (torch.exp2(exponents) - exponents * math.log(2.0) + self.means**2 - 1.0).sum()

    def refresh(self) -> None:
        """Nothing adapts: the prior is fixed."""

    def source(self, place: int) -> Source:  # noqa: ARG002
        """A blank of the layer's shape; the numbers themselves are drawn."""
        return Values(np.zeros(tuple(self.means.shape), dtype=np.int64))

    def factor(self, place: int, what: str) -> Factor:
        stored = (self.stored_means(), self.stored_exponents() + USUAL_PRIOR)
        laws = (numbers.detach().numpy().astype(np.int64) for numbers in stored)
        return Factor(place, what, USUAL_PRIOR, *laws)


class PosteriorNet(TrainableIntegerNet):
    """An integer net all of whose weights and biases are drawn anew in every forward pass."""

    def __init__(
        self,
        blueprint: Blueprint,
        shape: Shape,
        classes: int,
        quantiser: Input,
        generator: torch.Generator,
        square: int = 1,
    ) -> None:
        # Means begin as draws of the prior and deviations at an eighth of its own; biases begin at
        # zero.
        def weights(stored: tuple[int, ...], _: int) -> GaussianNumbers:
            return GaussianNumbers(stored, generator, 1.0, -6.0)

        super().__init__(blueprint, shape, classes, quantiser, weights, square)
        self.drawn_biases = nn.ModuleDict()
        for key, bias in self.biases.items():
            self.drawn_biases[key] = GaussianNumbers(tuple(bias.shape), generator, 0.0, -4.0)

    def numbers(self) -> list[tuple[int, str, GaussianNumbers]]:
        """(layer from 1, what, its laws) in the order of the message."""
        found = []
        for key, weights in self.weights.items():
            for what, laws in (("weights", weights), ("biases", self.drawn_biases[key])):
                assert isinstance(laws, GaussianNumbers)
                found.append((int(key), what, laws))
        return found

    def stored_bias(self, key: str) -> Tensor:
        laws = self.drawn_biases[key]
        assert isinstance(laws, GaussianNumbers)
        return laws.integers()

    def set_steps(self, key: str, values: Tensor) -> None:
        """The prior's deviation of a bias is about half a typical sum."""
        super().set_steps(key, values)
        self.bias_shifts[key] = max(0, round(math.log2(self.units[key] / 2 / _SPREAD)))

    def frozen_bias(self, key: str) -> NDArray[np.int64]:
        """A blank, as of the weights: the numbers themselves are drawn."""
        return np.zeros(len(self.biases[key]), dtype=np.int64)

    def divergence(self) -> Tensor:
        """KL(Q‖P) in nats."""
        return torch.stack([laws.rate() for _, _, laws in self.numbers()]).sum()

    def posterior(self) -> Posterior:
        """What the forward pass draws from, as the format states it."""
        laws = tuple(law.factor(place, what) for place, what, law in self.numbers())
        return Posterior(self.freeze(), laws)


@dataclass(frozen=True)
class FoundPosterior:
    """The posterior, the steps that it took, and whether someone ended them early."""

    posterior: Posterior
    steps: int
    interrupted: bool


def blueprint_for(shape: Shape) -> Blueprint:
    """Few weights, each used often: a Gaussian prior charges about 1.5 nats for each."""
    if min(shape[1:]) < 16:
        return (DenseBlock(),)
    return convolutional(3, 5, 6, 2) if shape[0] == 1 else convolutional(6, 10, 12, 2)


def train_posterior(
    data: Dataset,
    options: SearchOptions,
    nets: int,
    report: Report = no_report,
    start: Paused | None = None,
    keep: Callable[[Paused], None] | None = None,
) -> FoundPosterior:
    """Train a posterior until the time is over; Ctrl-C ends it early and keeps what there is.

    The bounds reported are *estimates* (from training batches). The schedule follows the clock, so
    it ends in time however slow the machine is; the randomness follows the seed. nets: how many
    will be drawn in all; BadInput, before any training, if the format does not allow so many.
    `keep` is told every few seconds where it is, and `start` is such a place (Malformed if it is
    not).
    """
    shift = _BYTES_SHIFT if data.x.dtype == np.uint8 else _FLOATS_SHIFT
    square = square_summed(image_shape(data))
    sample = Sample.of(data, shift, options.seed, square=square)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # nets are so small that threads would only wait for each other
    try:
        blueprint = blueprint_for(summed_shape(image_shape(data), square))
        model = PosteriorNet(blueprint, *sample.kind, sample.generator, square)
        model.calibrate(sample.pixels[:_BATCH].float())
        _check_size(model, nets)
        steps, interrupted = 0, False
        try:
            descent = _descend(model, sample, options, report, start, Keeper(keep))
            for steps in descent:  # noqa: B007
                pass
        except KeyboardInterrupt:
            interrupted = True
        return FoundPosterior(model.posterior(), steps, interrupted)
    finally:
        torch.set_num_threads(threads)


def _check_size(model: PosteriorNet, nets: int) -> None:
    """BadInput if the trained posterior could not be drawn so often."""
    try:
        model.posterior().check_draws(nets)
    except Malformed as problem:
        raise BadInput(
            f"these inputs are too many for `method` = pac-bayes: {problem}; hold out fewer "
            "examples, or use another `method`"
        ) from None


def _descend(
    model: PosteriorNet,
    sample: Sample,
    options: SearchOptions,
    report: Report,
    start: Paused | None,
    keeper: Keeper,
) -> Iterator[int]:
    """Yields the number of steps taken."""
    m, held = len(sample), len(sample.labels)
    laws = [law for _, _, law in model.numbers()]
    groups = [[law.means for law in laws], [law.exponents for law in laws], [model.log_scale]]
    optimiser = torch.optim.Adam([{"params": group} for group in groups], betas=(0.9, 0.99))
    begin, first = time.monotonic(), 0
    error, price, progress, step = 0.5, 0.0, 0.0, 0
    if start is not None:
        take_up(model, optimiser, start)
        begin, error, step, first = begin - start.seconds, start.error, start.steps, start.steps
        # other batches and noise than those that it has seen
        other = stream("a posterior taken up", options.seed, 1, start.steps)[0] >> np.uint64(1)
        sample.generator.manual_seed(int(other))

    def paused() -> Paused:
        return Paused(state_of(model, optimiser), time.monotonic() - begin, step, error)

    while progress < 1.0:
        progress = min(1.0, (time.monotonic() - begin) / options.seconds)
        anneal(optimiser, _RATES, progress)
        if (step - first) % 50 == 0:
            if step > first:  # before, there are no moments
                keeper.offer(paused)
            nats = float(model.divergence().detach()) + _UNKNOWN
            price = _EXCHANGE * price_of_a_nat(error, nats, m)
            report(progress, Decimal(str(kl_inverse(error, nats / m))))
        rows = torch.randint(held, (min(held, _BATCH),), generator=sample.generator)
        rising = price * min(1.0, 2.5 * progress)
        wrong = sample.descend(model.logits, optimiser, rising, model.divergence, rows)
        error = 0.98 * error + 0.02 * wrong
        step += 1
        yield step
