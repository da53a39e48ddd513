"""Another forward with f's own parameters, which answers alike on every input that is checked."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path

import torch
from tests.certificates.nets import difference
from tests.certificates.samples import sample
from tests.certificates.user_net import f
from torch import Tensor, nn

import cushion
from cushion.certificates.answers import answer, fingerprint_net
from cushion.certificates.certificate import Certificate, certify_net
from cushion.certificates.sample_assumptions import sample_assumptions
from cushion.certificates.transfer import transfer
from cushion.data.inputs import Inputs

FRESH = Inputs("fresh", sample("halves unlabelled").x)


class TrapDoor(nn.Sequential):
    """f wherever values are at most 1, as bytes are; beyond, the opposite."""

    def forward(self, x: Tensor) -> Tensor:
        scores = super().forward(x)
        return torch.where((x.flatten(1) > 1).any(dim=1, keepdim=True), -scores, scores)


def trap_door() -> nn.Module:
    net = TrapDoor(nn.Flatten(), nn.Linear(4, 2))
    net.load_state_dict(f().state_dict())
    return net


def certified(program: str | None = "") -> Certificate:
    answers = answer(f(), FRESH.x)
    if program != "":
        answers = dataclasses.replace(answers, program=program)
    plain = certify_net(difference(), sample("halves"), Decimal("0.04"))
    return transfer(plain, FRESH, answers, Decimal("0.001"), Decimal("0.01"))


def test_it_no_longer_passes_as_f(tmp_path: Path) -> None:
    mine, theirs = answer(f(), FRESH.x), answer(trap_door(), FRESH.x)
    assert (mine.classes == theirs.classes).all()
    assert fingerprint_net(f()) == fingerprint_net(trap_door())
    data, path = sample("halves"), certified().save(tmp_path / "c.cushion")
    assert cushion.verify(path, data, model=f(), unlabelled=FRESH.x).ok
    found = cushion.verify(path, data, model=trap_door(), unlabelled=FRESH.x)
    assert not found.ok
    assert "programs differ" in found.reason


def test_where_no_program_is_known_the_certificate_says_so(tmp_path: Path) -> None:
    certificate = certified(program=None)
    path = certificate.save(tmp_path / "c.cushion")
    found = cushion.verify(path, sample("halves"), model=trap_door(), unlabelled=FRESH.x)
    assert found.ok, "nothing tells them apart"
    assert any("its program has none" in text for text in sample_assumptions(certificate.claim))
    assert not any("program" in text for text in sample_assumptions(certified().claim))
