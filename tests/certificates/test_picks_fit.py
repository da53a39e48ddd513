"""Picks around the user's own training: the net f that it makes, and what is refused."""

from __future__ import annotations

import dataclasses
import importlib.util
import random
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.certificates import user_fit as trainings
from tests.picks_cases import blobs
from torch import nn

import cushion
from cushion.certificates.answers import fingerprint_net
from cushion.certificates.certificate import sentence
from cushion.certificates.format.claims import PicksClaim, assumptions_of
from cushion.certificates.format.container import unpack
from cushion.certificates.picks.fit import BoundFit, Function, user_fit
from cushion.certificates.picks.options import PicksOptions
from cushion.certificates.picks.replay import first_difference, replay_fit
from cushion.certificates.picks.rounds import TIE, Picked, pick
from cushion.certificates.picks.run import NetCertificate, certify_fit
from cushion.errors import BadInput
from cushion.theorems.picks import picks_bound

DELTA = Decimal("0.05")
SAMPLE, HELD_OUT = blobs(150, 0), blobs(60, 1)
OPTIONS = PicksOptions(groups=(20, 20, 20), tried=3)
FILE = str(Path(trainings.__file__))


INSIDE: list[Function] = []


def watched(x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
    """A function of this file that calls whatever a test put inside."""
    return INSIDE[0](x, y, seed)


def watching(inside: Function) -> Function:
    INSIDE[:] = [inside]
    return watched


def made(fit: Any = trainings.fit, **more: Any) -> NetCertificate:
    return certify_fit(fit, SAMPLE, DELTA, OPTIONS, **more)


def claim_of(certificate: NetCertificate) -> PicksClaim:
    assert isinstance(certificate.claim, PicksClaim)
    return certificate.claim


def test_the_bound_is_about_the_net_that_the_last_training_gave() -> None:
    certificate = made(holdout=HELD_OUT)
    claim, net = claim_of(certificate), certificate.net
    assert claim.about == certificate.about == "f"
    assert claim.coefficients == fingerprint_net(net)
    assert claim.bound == picks_bound(claim.picks + claim.errors, 150, DELTA, 3)
    assert claim.fit is not None
    assert (claim.fit.function, claim.fit.seed, claim.fit.batch) == ("fit", 0, 256)
    assert claim.fit.groups == (20, 20, 20)
    assert (claim.configuration, claim.choices, claim.slack) == (0, 3, 0)
    assert claim.assumptions == assumptions_of("picks", holdout=True, fit=True)
    with torch.no_grad():
        classes = net(torch.from_numpy(SAMPLE.x).float() / 255).argmax(dim=1).numpy()
        held = net(torch.from_numpy(HELD_OUT.x).float() / 255).argmax(dim=1).numpy()
    left = np.setdiff1d(np.arange(150), np.frombuffer(certificate.message, "<u4")[: claim.picks])
    assert int((classes[left] != SAMPLE.y[left]).sum()) == claim.errors
    assert claim.holdout is not None
    assert claim.holdout.errors == int((held != HELD_OUT.y).sum())
    assert f"your net f, trained on {claim.picks} of them, errs on" in sentence(claim)


def test_fit_is_given_the_picked_rows_in_the_order_picked() -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor, int]] = []

    def fit(x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
        seen.append((x, y, seed))
        return trainings.fit(x, y, seed)

    certificate = certify_fit(watching(fit), SAMPLE, DELTA, OPTIONS, seed=5)
    picks = np.frombuffer(certificate.message, "<u4")[: claim_of(certificate).picks]
    x, y, seed = seen[-1]
    assert x.dtype == torch.float32
    assert torch.equal(x, torch.from_numpy(SAMPLE.x[picks]).float().div(255))
    assert y.dtype == torch.int64
    assert y.tolist() == SAMPLE.y[picks].tolist()
    assert seed == 5
    assert [len(one[1]) for one in seen] == [20, 20, 40, 60]  # the first twice


def test_rows_that_were_not_picked_change_nothing() -> None:
    certificate = made()
    claim = claim_of(certificate)
    words = np.frombuffer(certificate.message, "<u4")
    others = np.setdiff1d(np.arange(150), words)
    assert len(others) > 10
    kept = np.setdiff1d(np.arange(150), np.random.default_rng(0).choice(others, 10, replace=False))
    again = certify_fit(trainings.fit, SAMPLE.select(kept, "fewer"), DELTA, OPTIONS)
    assert kept[np.frombuffer(again.message, "<u4")].tolist() == words.tolist()
    assert claim_of(again).coefficients == claim.coefficients


def test_the_command_line_s_name_and_a_function_are_the_same_learner() -> None:
    assert made(f"{FILE}:fit").claim == made().claim


def test_a_row_whose_scores_are_near_each_other_is_wrong() -> None:
    def answers(tolerance: str) -> NDArray[np.int64]:
        how = {"seed": 0, "groups": (20,), "batch": 64, "tolerance": tolerance}
        bound = user_fit(trainings.fit, **how).bind(SAMPLE.x, SAMPLE.y)
        bound.train(np.arange(20))
        return bound.classes(np.arange(150))

    strict, loose = answers("0.000001"), answers("0.5")
    assert (strict != TIE).all()
    assert 0 < (loose == TIE).sum() < 150
    assert (strict == loose)[loose != TIE].all()


def test_a_tolerance_is_a_share_of_the_scores() -> None:
    def ties(factor: float) -> list[int]:
        def fit(x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
            net = trainings.fit(x, y, seed)
            with torch.no_grad():
                for tensor in net[-1].parameters():
                    tensor.mul_(factor)
            return net

        how = {"seed": 0, "groups": (20,), "batch": 64, "tolerance": "0.25"}
        bound = user_fit(watching(fit), **how).bind(SAMPLE.x, SAMPLE.y)
        bound.train(np.arange(20))
        return np.flatnonzero(bound.classes(np.arange(150)) == TIE).tolist()

    assert 0 < len(ties(1.0)) < 150
    assert ties(1024.0) == ties(1.0)


def test_a_net_with_noise_and_tied_weights_answers_without_noise_and_is_saved(
    tmp_path: Path,
) -> None:
    certificate = made(trainings.tied)
    certificate.save(tmp_path / "tied.cushion")
    from safetensors.torch import load_file

    net = trainings.Tied()
    net.load_state_dict(load_file(tmp_path / "tied.cushion.safetensors"))
    assert fingerprint_net(net) == claim_of(certificate).coefficients
    assert not certificate.net.training


def test_all_rows_are_scored_in_another_order_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int | None] = []

    def note(self: BoundFit, classes: NDArray[np.int64], most: int | None = None) -> None:
        checked.append(most)

    monkeypatch.setattr(BoundFit, "check_order", note)
    made()
    assert checked == [1024, 1024, 1024, None]


def test_fit_runs_on_one_thread_with_deterministic_operations() -> None:
    seen: list[tuple[int, bool]] = []

    def fit(x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
        seen.append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()))
        return trainings.fit(x, y, seed)

    torch.set_num_threads(2)
    try:
        certify_fit(watching(fit), SAMPLE, DELTA, OPTIONS)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert set(seen) == {(1, True)}


def test_a_net_that_cannot_decide_errs_everywhere() -> None:
    certificate = made(trainings.flat)
    assert claim_of(certificate).picks + claim_of(certificate).errors == 150
    assert certificate.bound == 1.0


def test_the_last_batch_is_padded_to_the_size_of_the_others() -> None:
    sizes: list[int] = []

    class Watching(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            sizes.append(len(x))
            return super().forward(x)

    def fit(x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
        return Watching(*trainings.fit(x, y, seed))

    certify_fit(watching(fit), SAMPLE, DELTA, OPTIONS, batch=64, holdout=HELD_OUT)
    assert set(sizes) == {2, 64}  # two rows: how its scores are found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("moody", "two different nets for the same rows and seed"),
        ("neighbours", "rows got another answer in another order"),
        ("breaks", r"breaks\(\) raised, on 20 rows, ValueError: no such luck"),
        ("no_net", "returned a str, not an nn.Module"),
    ],
)
def test_what_is_no_fixed_training_is_refused(name: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        made(getattr(trainings, name))


@pytest.mark.parametrize(
    ("fit", "said"),
    [
        ("nowhere.py:fit", "does not exist"),
        (f"{FILE}:nothing", "has no function 'nothing'"),
        (FILE, "must be file.py:function"),
        (len, "stands in a file"),
    ],
)
def test_a_fit_that_cannot_be_named_is_refused(fit: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        made(fit)


class Kept(nn.Module):
    """Keeps its net where no list of parameters names it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = [inner]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner[0](x)  # type: ignore[no-any-return]


def unlike(wrap: Any) -> Function:
    """A training with another seed at each call."""
    seeds = iter(range(100))

    def fit(x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
        return wrap(trainings.fit(x, y, next(seeds)))  # type: ignore[no-any-return]

    return watching(fit)


def test_a_training_that_hides_its_net_is_still_seen_to_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(BadInput, match="two different nets for the same rows and seed"):
        made(unlike(Kept))
    # wherever else a net may hide: the scores tell
    monkeypatch.setattr("cushion.certificates.picks.fit.fingerprint_net", lambda net: "")
    with pytest.raises(BadInput, match="two different nets for the same rows and seed"):
        made(unlike(lambda net: net))


def test_scores_that_are_no_numbers_are_refused() -> None:
    def fit(x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
        net = trainings.fit(x, y, seed)
        with torch.no_grad():
            net[-1].bias.fill_(float("nan"))
        return net

    with pytest.raises(BadInput, match=r"watched\(\) returned has scores that are not finite"):
        made(watching(fit))


def test_a_net_with_fewer_scores_than_classes_is_refused() -> None:
    def fit(x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))

    with pytest.raises(BadInput, match=r"has 2 scores, but the rows .* have 3 classes"):
        made(watching(fit))


MADE = """
import torch
from torch import nn

def make(rate):
    def fit(x, y, seed):
        return nn.Linear(3, 3)
    return fit

def plain(x, y, seed=0, steps=10, *, rate=0.1):
    return nn.Linear(3, 3)

def again(x, y, seed, steps=10):
    return nn.Linear(3, 3)

def named(x, y, seed, *, rate=0.1):
    return nn.Linear(3, 3)

def other(x, y, seed, rate=torch.pi):
    return nn.Linear(3, 3)

def replaced(x, y, seed):
    return nn.Linear(3, 3)

class Kept:
    def fit(x, y, seed):
        return nn.Linear(3, 3)

fit = make(0.1)
inline = lambda x, y, seed: nn.Linear(3, 3)
again.__defaults__ = (11,)
named.__kwdefaults__ = {"rate": 0.2}
first, replaced = replaced, plain
"""


def test_a_function_that_its_file_does_not_tell_is_refused(tmp_path: Path) -> None:
    """Two of one name and another rate would have one name, and one price."""
    file = tmp_path / "makes.py"
    file.write_text(MADE)
    spec = importlib.util.spec_from_file_location("makes", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    how: dict[str, Any] = {"seed": 0, "groups": (20,), "batch": 64, "tolerance": "0.01"}
    assert user_fit(module.plain, **how).said.function == "plain"
    told = (module.make(0.1), module.fit, module.inline, module.again, module.named, module.other)
    for function in (*told, module.first, module.Kept.fit):
        with pytest.raises(BadInput, match=r"as the program runs.*write it at the top level of a"):
            user_fit(function, **how)
    # named by its file, it is what the file makes
    assert user_fit(f"{file}:fit", **how).said.function == "fit"


SETTINGS = """
from torch import nn

RATE, LOG = 0.1, []
STEPS = 10
WIDTHS = {"first": 3}
UNUSED = 1

class Net(nn.Linear):
    def forward(self, x):
        return super().forward(x) * WIDTHS["first"]

def helper():
    return STEPS

def fit(x, y, seed):
    LOG.append(helper())
    return Net(3, 3)
"""


def test_a_setting_that_was_changed_as_the_program_runs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "settings.py"
    file.write_text(SETTINGS)
    how: dict[str, Any] = {"seed": 0, "groups": (20,), "batch": 64, "tolerance": "0.01"}
    spec = importlib.util.spec_from_file_location("settings_of_a_fit", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.UNUSED = 2
    module.LOG.append(1)
    assert user_fit(module.fit, **how).said.function == "fit"
    for name, value in (("STEPS", 11), ("WIDTHS", {"first": 4})):
        before = getattr(module, name)
        setattr(module, name, value)
        with pytest.raises(BadInput, match="made as the program runs"):
            user_fit(module.fit, **how)
        setattr(module, name, before)
    assert user_fit(module.fit, **how)


@pytest.mark.parametrize("tolerance", ["0", "-1", "nan", "x", "1.5", "1e-19"])
def test_a_tolerance_that_is_none_is_refused(tolerance: str) -> None:
    with pytest.raises(BadInput, match="`tolerance`"):
        certify_fit(trainings.fit, SAMPLE, DELTA, PicksOptions(tolerance=tolerance))


def test_a_net_that_draws_without_a_seed_is_the_same_every_time() -> None:
    random.seed(1)
    torch.manual_seed(1)
    first = made(trainings.unseeded)
    torch.manual_seed(2)
    assert made(trainings.unseeded).claim == first.claim
    assert made(trainings.unseeded, seed=1).claim != first.claim


def test_the_program_around_it_stays_as_it_was() -> None:
    random.seed(3)
    np.random.seed(4)
    torch.manual_seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    made()
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    assert after == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_net_is_saved_beside_the_certificate_and_loads_again(tmp_path: Path) -> None:
    certificate = made()
    certificate.save(tmp_path / "mine.cushion")
    net = trainings.fit(torch.zeros(1, 1, 4, 4), torch.zeros(1, dtype=torch.int64), 9)
    from safetensors.torch import load_file

    net.load_state_dict(load_file(tmp_path / "mine.cushion.safetensors"))
    assert fingerprint_net(net) == claim_of(certificate).coefficients


def test_trained_again_it_comes_out_the_same(tmp_path: Path) -> None:
    certificate = made(holdout=HELD_OUT)
    path = certificate.save(tmp_path / "mine.cushion")
    claim, message = unpack(path.read_bytes())
    assert isinstance(claim, PicksClaim)
    found = replay_fit(claim, message, f"{FILE}:fit", SAMPLE, HELD_OUT)
    assert found.difference == ""
    assert found.same_net
    assert found.rounds.shape == (4, 150)
    assert (found.rounds[0] == TIE).all()
    assert found.holdout is not None
    assert claim.holdout is not None
    assert int((found.holdout != HELD_OUT.y).sum()) == claim.holdout.errors
    assert "every round came out the same" in str(found)


def test_the_classes_of_the_rounds_give_the_picks_again() -> None:
    certificate = made()
    claim = claim_of(certificate)
    rounds = replay_fit(claim, certificate.message, trainings.fit, SAMPLE).rounds

    class Given:
        at = 0

        def train(self, picks: NDArray[np.int64]) -> None:
            self.at += 1

        def classes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
            return rounds[self.at][rows]

    picked = pick(Given(), SAMPLE.x, SAMPLE.y, (20, 20, 20))  # type: ignore[arg-type]
    assert picked.message == certificate.message


def test_another_file_or_function_is_not_the_fit(tmp_path: Path) -> None:
    certificate = made()
    other = tmp_path / "user_fit.py"
    shutil.copy(FILE, other)
    with other.open("a") as file:
        file.write("# changed\n")
    claim = claim_of(certificate)
    for fit in (f"{other}:fit", f"{FILE}:unseeded"):
        with pytest.raises(BadInput, match="not the fit that the certificate is about"):
            replay_fit(claim, certificate.message, fit, SAMPLE)
    fixed = dataclasses.replace(claim, fit=None)
    with pytest.raises(BadInput, match="leave `fit` out"):
        replay_fit(fixed, certificate.message, trainings.fit, SAMPLE)


def test_a_replay_says_where_it_first_differs() -> None:
    here = Picked(np.array([4, 5, 6, 7]), np.array([1, 2]), (2, 4, 4))

    def said(picks: list[int], errors: list[int]) -> str:
        return first_difference(here, np.array(picks + errors, "<u4").tobytes(), len(picks))

    assert said([4, 5, 6, 7], [1, 2]) == ""
    assert said([4, 9, 6, 7], [1, 2]) == "in round 1: 1 of its 2 rows are not those of the file"
    assert said([4, 5, 8, 9], [1, 2]) == "in round 2: 2 of its 2 rows are not those of the file"
    assert said([5, 4, 6, 7], [1, 2]) == "in round 1: its rows come in another order"
    assert said([4, 5, 6, 7, 8], [1, 2]) == "after its rounds: the file has 1 pick more"
    assert said([4, 5, 6], [1, 2]) == "in round 2: 1 of its 2 rows are not those of the file"
    assert said([4, 5, 6, 7], [1, 3]) == "after the last round: in 2 errors"


def test_python_takes_a_fit_as_well() -> None:
    how = {"kind": "picks", "holdout": HELD_OUT, "picks": OPTIONS}
    certificate = cushion.certify(None, SAMPLE, fit=trainings.fit, **how)
    assert certificate.claim == made(holdout=HELD_OUT).claim
    assert isinstance(certificate, NetCertificate)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"kind": "occam"}, "belong to `kind` = picks"),
        ({"kind": "picks", "minutes": 1.0}, "leave `minutes` out"),
        ({"kind": "picks", "unlabelled": HELD_OUT.x}, "leave `unlabelled` out"),
        ({"kind": "picks", "method": "pac-bayes"}, "not of `kind` = picks"),
    ],
)
def test_options_of_other_kinds_are_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        cushion.certify(None, SAMPLE, fit=trainings.fit, **more)
