"""From a layer's weight to its tails: laws fitted to |w|, to w, and to the eigenvalues of WWᵀ."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cushion.errors import BadInput
from cushion.measures.spectra import kernel_map
from cushion.measures.tails import power_law
from cushion.measures.tails.comparison import compare_laws
from cushion.measures.tails.doubts import find_doubts
from cushion.measures.tails.family import TailOptions
from cushion.measures.tails.power_law import FEWEST, Magnitudes
from cushion.measures.tails.records import LayerTails, Survival, TailFits
from cushion.measures.tails.stable_fit import fit_stable
from cushion.nets.operators.spectrum import EXACT_SIDE, is_exact, singular_values

_POINTS = 64  # of the survival function: a picture needs no more
_POSITIVE = "eigenvalues are positive, and a stable law has numbers of both signs"


def layer_tails(weight: Tensor, options: TailOptions) -> LayerTails:
    """The tails of a layer's weight [out, ...], or of a diagonal map's factors [channels].

    W of WWᵀ is the weight as the matrix [out, rest], for a diagonal map the diagonal matrix of its
    factors. A kernel whose matrix has too few eigenvalues for a fit is cut into its slices [out,
    in], one a place, and theirs are pooled, as the literature on the spectra does. Whatever the
    numbers are, there is an answer: where no law can be fitted it says so and why.
    """
    plain = weight.detach().cpu()
    if plain.dtype not in (torch.float32, torch.float64):
        plain = plain.to(torch.float32)  # numpy has no bfloat16
    found = _weights(plain.numpy(), options), _eigenvalues(plain.to(torch.float64), options)
    return LayerTails(*(replace(fits, doubts=find_doubts(fits)) for fits in found))


def _weights(values: NDArray[np.floating], options: TailOptions) -> TailFits:
    fits = _power_law(TailFits("weights", values.size), Magnitudes.of(values), options)
    signed = values.reshape(-1)
    if reason := _no_stable(signed):
        return replace(fits, no_stable=reason)
    try:
        fits = replace(fits, stable=fit_stable(signed, symmetric=True))
        fits = replace(fits, stable_skewed=fit_stable(signed, symmetric=False))
    except BadInput as refused:  # the likelihood has no maximum
        which = "" if fits.stable is None else "only a symmetric one: "
        fits = replace(fits, no_stable=which + str(refused).replace("numbers", "weights"))
    return fits


def _eigenvalues(weight: Tensor, options: TailOptions) -> TailFits:
    parts = [kernel_map(one) for one in _slices(weight)]
    matrix = parts[0]
    sides = sorted((matrix.input_size, matrix.output_size))
    count = len(parts) * sides[0]
    fits = TailFits("eigenvalues", count, slices=len(parts), no_stable=_POSITIVE)
    if not bool(torch.isfinite(weight).all()):  # no eigenvalues: the sentence is about the weights
        why = Magnitudes.of(weight.numpy()).refusal.replace("numbers", "weights")
        return replace(fits, no_fit=why)
    if not is_exact(matrix):
        why = f"W has more than {EXACT_SIDE} rows and columns: its eigenvalues take too long"
        return replace(fits, no_fit=why)
    values = np.sort(np.concatenate([singular_values(part) for part in parts]))[::-1]
    # What rounding leaves of an eigenvalue that is zero is no value of a tail.
    lost = math.sqrt(np.finfo(np.float64).eps * sides[1]) * values[0]
    with np.errstate(over="ignore", under="ignore"):  # an infinite square is refused by name
        found = np.where(values <= lost, 0.0, values) ** 2
    if np.count_nonzero(found) < np.count_nonzero(values > lost):
        why = "its eigenvalues leave the range of float64; scale the net's weights"
        return replace(fits, no_fit=why)
    fits = _power_law(fits, Magnitudes.of(found), options)
    return replace(fits, no_fit=fits.no_fit.replace(" zeros", " that are zero up to rounding"))


def _slices(weight: Tensor) -> list[Tensor]:
    """The weight; of a kernel with too few eigenvalues, one weight [out, in] a place."""
    if weight.ndim < 3 or min(len(weight), weight[0].numel()) >= FEWEST:
        return [weight]
    places = weight.flatten(2)
    return list(places.unbind(2))


def _power_law(fits: TailFits, sample: Magnitudes, options: TailOptions) -> TailFits:
    if sample.refusal:
        return replace(fits, no_fit=sample.refusal.replace("numbers", fits.what))
    law, draws = power_law.fit_power_law(sample), options.bootstrap
    if draws:
        test = power_law.bootstrap_goodness(sample, law, draws=draws, seed=options.seed)
        fits = replace(fits, goodness=test)
    try:
        fits = replace(fits, comparisons=compare_laws(sample, law))
    except BadInput as refused:
        fits = replace(fits, no_comparisons=str(refused))
    hill, survival = power_law.hill_plot(sample), _survival(sample.ordered)
    return replace(fits, power_law=law, hill=hill, survival=survival)


def _no_stable(values: NDArray[np.floating]) -> str:
    """Why a stable law is not even tried on these weights; empty where it is."""
    if values.size < FEWEST:
        return f"only {values.size} weights, and {FEWEST} are needed"
    wrong = int(values.size - np.count_nonzero(np.isfinite(values)))
    if wrong:
        return f"{wrong} of {values.size} weights are infinite or not a number; check the training"
    if values.min() == values.max():
        return f"all {values.size} weights are {values[0]:.6g}: a constant has no law"
    return ""


def _survival(ordered: NDArray[np.float64]) -> Survival:
    """At ranks even in their logarithm, from the largest value down; ties count in full."""
    count = ordered.size
    ranks = np.unique(np.round(np.geomspace(1, count, _POINTS)).astype(np.int64))
    values = np.unique(ordered[count - ranks])[::-1]
    shares = (count - np.searchsorted(ordered, values, side="left")) / count
    return Survival(tuple(values.tolist()), tuple(shares.tolist()))
