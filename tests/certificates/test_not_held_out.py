"""Held-out rows that are the sample's own: refused when a certificate is made, and not believed in
a file that states them all the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.posterior_cases import linear, whole
from torch import nn

import cushion
import cushion_verify
from cushion.certificates.certificate import certify_net
from cushion.certificates.format.claims import Holdout, OccamClaim, assumptions_of
from cushion.certificates.format.container import pack
from cushion.certificates.format.inputs import Bytes, Floats
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.layers import Dense
from cushion.certificates.format.posterior import Posterior
from cushion.certificates.format.sources import Grid
from cushion.certificates.pac_bayes import certify_gaussian
from cushion.data import Dataset
from cushion.errors import BadInput
from cushion.theorems.occam import holdout_bound

DELTA = Decimal("0.05")
RNG = np.random.default_rng(0)
WEIGHTS = Grid(np.array([[1, -1, 0, 0], [-1, 1, 0, 0]], dtype=np.int64), 1)
X = RNG.integers(0, 256, (500, 1, 1, 4), dtype=np.uint8)
Y = (X[:, 0, 0, 1] > X[:, 0, 0, 0]).astype(np.int64)
AGAIN = RNG.integers(0, 500, 2000)  # as draws with replacement repeat rows
SAMPLES = {
    "as they are": Dataset("rows", X, Y, 2),
    "doubled": Dataset("doubled", np.r_[X, X], np.r_[Y, Y], 2),
    "drawn again": Dataset("drawn", X[AGAIN], Y[AGAIN], 2),
}
CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "own rows": lambda x: x,
    "lowest bit flipped": lambda x: x ^ np.uint8(1),
}


def net(shift: int = 0) -> IntegerNet:
    return IntegerNet((1, 1, 4), Bytes(shift), (Dense(WEIGHTS, None, 0, 0),))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sample", SAMPLES)
def test_rows_of_the_sample_are_refused_as_held_out(
    sample: str, change: str, tmp_path: Path
) -> None:
    data = SAMPLES[sample]
    held = Dataset("held", CHANGES[change](X[:450]), Y[:450], 2)
    with pytest.raises(BadInput, match=r"are not held out: 4\d\d of the 450"):
        certify_net(net(), data, DELTA, holdout=held)
    made = certify_net(net(), data, DELTA)
    assert isinstance(made.claim, OccamClaim)
    missed = net().errors(held.x, held.y)
    line = Holdout(held.fingerprint, missed, 450, "0.05", holdout_bound(missed, 450, DELTA))
    forged = dataclasses.replace(
        made.claim, holdout=line, assumptions=assumptions_of("occam", holdout=True)
    )
    path = tmp_path / "forged.cushion"
    path.write_bytes(pack(forged, made.message))
    given = cushion_verify.Given(data.x, data.y, held.x, held.y)
    found = cushion_verify.check(path, given)
    assert not found.ok
    assert "not held out" in found.reason


def test_floats_that_only_the_net_cannot_tell_apart_are_refused() -> None:
    x = RNG.normal(size=(400, 4)).astype(np.float32)
    y = (x[:, 1] > x[:, 0]).astype(np.int64)
    g = IntegerNet((1, 1, 4), Floats(6, (3,), (-32,)), (Dense(WEIGHTS, None, 0, 0),))
    blank = linear(whole(np.zeros((2, 4))), whole(np.zeros((2, 4))))
    posterior = Posterior(dataclasses.replace(blank.skeleton, input=g.input), blank.factors)
    held = Dataset("held", np.float32(0.01) + x[:300], y[:300], 2)
    data = Dataset("floats", x, y, 2)
    with pytest.raises(BadInput, match="as the net reads them"):
        certify_net(g, data, DELTA, holdout=held)
    with pytest.raises(BadInput, match="as the net reads them"):
        certify_gaussian(posterior, data, DELTA, draws=10**5, holdout=held)
    assert certify_net(g, Dataset("floats", x[300:], y[300:], 2), DELTA, holdout=held)


def test_a_search_is_not_made_in_vain() -> None:
    """Held-out and unlabelled floats that differ from the sample's in their last digits."""
    x = RNG.normal(size=(400, 4)).astype(np.float32)
    y = (x[:, 1] > x[:, 0]).astype(np.int64)
    told: list[float] = []
    nudged = np.nextafter(x[:300], np.float32(9))
    more: list[dict[str, object]] = [
        {"holdout": (nudged, y[:300])},
        {"unlabelled": nudged, "model": nn.Sequential(nn.Flatten(), nn.Linear(4, 2))},
    ]
    torch.manual_seed(0)
    for given in more:
        with pytest.raises(BadInput, match="300 of the 300 are rows of the sample itself"):
            cushion.certify(
                given.pop("model", None),
                Dataset("floats", x, y, 2),
                minutes=9,
                report=lambda *_: told.append(0),
                **given,
            )
    assert not told
