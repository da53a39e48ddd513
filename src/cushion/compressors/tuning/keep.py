"""A net on a grid, as small as a target allows: what is tried is judged by its file, the best is
what its decoder rebuilds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cushion.certificates.certificate import Certificate, certify_net
from cushion.compressors.choice import ASSUMED, Compressed
from cushion.compressors.file import CompressedNet, from_bytes
from cushion.compressors.records import Occam
from cushion.compressors.storage.exact import to_integer_net
from cushion.compressors.storage.exact_layers import steps_of
from cushion.compressors.storage.matrix import Matrix
from cushion.compressors.tuning.course import RUNGS, Course, Made, Rank
from cushion.compressors.tuning.learner import Learner, Regime, count
from cushion.compressors.tuning.memory import Folder, Forgetful
from cushion.compressors.tuning.options import KeepOptions
from cushion.compressors.tuning.records import KeptLayer, KeptSummary, Setting, mark_front
from cushion.compressors.tuning.target import Target, choose_target
from cushion.compressors.tuning.views import check_augment
from cushion.data.counter import stream
from cushion.data.dataset import Dataset
from cushion.data.registered import remember_use, unless_looked_at
from cushion.errors import BadInput, CushionError
from cushion.nets.network import Network
from cushion.numerics import float_up
from cushion.progress import working
from cushion.theorems.bounds import identity
from cushion.theorems.occam import holdout_bound, occam_bound


@dataclass(frozen=True)
class _Rows:
    """Those on which the target is checked, and those to train on: the same, two parts of the
    sample (`inside`), or the sample and others beside it.
    """

    checked: Dataset
    learnt: Dataset
    inside: bool = False

    @property
    def apart(self) -> bool:
        return self.checked is not self.learnt

    @property
    def m(self) -> int:
        """Of the sample."""
        return len(self.learnt) + self.inside * len(self.checked)

    def errors(self, net: Network) -> tuple[int, int, int]:
        """On the rows that are checked, on those to train on, on the sample."""
        checked = count(net, self.checked)
        learnt = count(net, self.learnt) if self.apart else checked
        return checked, learnt, learnt + self.inside * checked


@dataclass
class _Jury:
    """Every setting as its file, judged; the best file so far."""

    target: Target
    rows: _Rows
    delta: Decimal
    notes: dict[str, Any]

    def __post_init__(self) -> None:
        self.settings: list[Setting] = []
        self.best: tuple[Rank, int, bytes] | None = None

    def __call__(self, made: Made) -> Rank:
        """The rank of the net that its stored numbers make, as a decoder makes it."""
        compressed = CompressedNet(made.stored, made.frame, self.notes)
        content, network = compressed.to_bytes(), compressed.network
        wrong, learnt, every = self.rows.errors(network)
        bits, m = 8 * len(content), self.rows.m
        parameters, products = _work(network)
        setting = Setting(
            asked=made.asked,
            bytes=len(content),
            train_error=learnt / len(self.rows.learnt),
            validation_error=wrong / len(self.rows.checked) if self.rows.apart else None,
            bound=float_up(occam_bound(every, m, bits, self.delta)),
            parameters=parameters,
            multiplications=products,
            checked_errors=wrong,
            exact_bound=every / m + math.sqrt(bits * math.log(2.0) / (2 * m)),
        )
        self.settings.append(setting)
        rank = self.target.rank(setting)
        if self.best is None or rank < self.best[0]:
            self.best = (rank, len(self.settings) - 1, content)
        return rank


def keep(
    net: Network,
    sample: Dataset,
    options: KeepOptions,
    *,
    method: str,
    holdout: Dataset | None,
    delta: Decimal,
    seed: int,
    resume: Path | None = None,
    validation: Dataset | None = None,
    size: tuple[int, int] | None = None,
    exact: bool = False,
) -> Compressed[KeptSummary]:
    """The smallest file, of the settings that are tried, whose net meets the target.

    Guarantee: the target is checked on what the decoder rebuilds; held-out rows are read once, for
    the net that was chosen and the net as it was. resume: a folder for what a kill would lose.
    validation: rows beside the sample, on which the target is checked then. size: parameters of the
    module and their bytes, where the traced net has others. exact: BadInput, before anything is
    trained, for a net that no certificate can hold.
    """
    if exact:
        _check_exact(net, sample)
    if net.dtype != torch.float32:
        net = net.to(torch.float32)
    rows = _parts(sample, options.validation, seed)
    if validation is not None:
        rows = _Rows(validation, sample)
    before, _, whole_before = rows.errors(net)
    target = choose_target(
        max_error=options.max_error,
        lose=options.lose,
        max_size=options.max_size,
        bound=options.min_bound,
        before=before,
        m=len(rows.checked),
    )
    check_augment(options.augment, sample.shape)
    regime = Regime(
        options.levels, options.lr, options.train_batch, options.distil, seed, options.augment
    )
    jury = _Jury(target, rows, delta, {"method": method})
    memory: Folder | Forgetful = Forgetful()
    if resume is not None:
        what = {"net": identity(net), "data": sample.fingerprint, "seed": seed, "delta": str(delta)}
        what |= {"checked": rows.checked.fingerprint, **options.settings()}
        memory = Folder.of(resume, **what)
    interrupted = False
    epochs = options.epochs_on(len(rows.learnt))
    with working("settings", epochs * (RUNGS + 2), "epoch") as bar, torch.enable_grad():
        course = Course(Learner(net, rows.learnt, regime), epochs, jury, memory, bar)
        try:
            course.run()
        except KeyboardInterrupt:
            if jury.best is None:
                raise
            interrupted = True
    assert jury.best is not None
    _, at, content = jury.best
    compressed = from_bytes(content, "the file")
    settings = mark_front(jury.settings)
    decoded = count(compressed.network, rows.checked)
    chosen = settings[at] = replace(settings[at], chosen=True, checked_errors=decoded)
    first_use = unless_looked_at(holdout)
    certificate, occam = _proved(compressed, sample, len(content), first_use, delta)
    lines = None if holdout is None else (count(net, holdout), count(compressed.network, holdout))
    held_out = None
    if holdout is not None and lines is not None:
        remember_use(holdout, identity(net))
        remember_use(holdout, identity(compressed.network))
        if first_use is not None:
            held_out = float_up(holdout_bound(lines[1], len(holdout), delta))
    summary = KeptSummary(
        method=method,
        seed=seed,
        settings=options.settings(),
        target=target.words,
        met=target.met(chosen),
        m=len(sample),
        delta=float(delta),
        bytes_before=(size or _size(net))[1],
        bytes=len(content),
        parameters_before=(size or _size(net))[0],
        parameters=chosen.parameters,
        errors_before=whole_before,
        errors=occam[0].errors,
        validation_rows=len(rows.checked) if rows.apart else 0,
        validation_errors_before=before if rows.apart else None,
        validation_errors=decoded if rows.apart else None,
        holdout_rows=None if holdout is None else len(holdout),
        holdout_errors_before=None if lines is None else lines[0],
        holdout_errors=None if lines is None else lines[1],
        holdout_bound=held_out,
        bound=occam[0].bound,
        occam=occam,
        layers=tuple(_layers(net, compressed)),
        tried=tuple(settings),
        interrupted=interrupted,
        assumptions=ASSUMED,
    )
    if not interrupted:
        memory.forget()
    return Compressed(compressed, summary, certificate)


def _parts(sample: Dataset, share: float, seed: int) -> _Rows:
    """The sample, or a part of it to check the target on and the rest to train on."""
    if not share:
        return _Rows(sample, sample)
    few = round(share * len(sample))
    if not 0 < few < len(sample):
        raise BadInput(f"`validation` = {share:g} of {len(sample)} examples leaves none on a side")
    order = np.argsort(stream("validation", seed, len(sample)), kind="stable")
    chosen, rest = np.sort(order[:few]), np.sort(order[few:])
    words = f"{100 * share:g} % of {sample.name} for validation, seed={seed}"
    checked = sample.select(chosen, words)
    return _Rows(checked, sample.select(rest, f"the rest of {sample.name}"), inside=True)


def _work(net: Network) -> tuple[int, int]:
    """(numbers that are not zero, multiplications by them for one example)."""
    numbers = products = 0
    for node in net.affine_layers:
        own = int((node.affine.operator.weight != 0).sum())
        bias = node.affine.bias
        numbers += own + (0 if bias is None else int((bias != 0).sum()))
        products += own * math.prod(node.shape[1:])
    return numbers, products


def _size(net: Network) -> tuple[int, int]:
    return net.parameters, net.parameters * net.dtype.itemsize


def _check_exact(net: Network, sample: Dataset) -> None:
    """BadInput for an architecture that no certificate holds; sizes are known only at the end."""
    try:
        steps_of(net, nonnegative=sample.x.dtype == np.uint8)
    except CushionError as problem:
        raise BadInput(f"there is no certificate for this net ({problem}); leave it out") from None


def _layers(net: Network, compressed: CompressedNet) -> list[KeptLayer]:
    found = []
    bits = compressed.stored.layer_bits
    pairs = zip(
        net.affine_layers, compressed.frame.affine_layers, compressed.stored.layers, strict=True
    )
    for at, (old, new, layer) in enumerate(pairs):
        values = layer.values.integers if isinstance(layer, Matrix) else np.zeros(0)
        weight = compressed.network.affine_layers[at].affine.operator.weight
        found.append(
            KeptLayer(
                name=old.name,
                before=tuple(old.affine.operator.weight.shape),
                after=tuple(new.affine.operator.weight.shape),
                numbers=int((weight != 0).sum()),
                levels=len(np.unique(values[values != 0]))
                if values.size
                else len(torch.unique(weight)),
                bits=bits[at],
            )
        )
    return found


def _proved(
    compressed: CompressedNet, sample: Dataset, size: int, holdout: Dataset | None, delta: Decimal
) -> tuple[Certificate | None, tuple[Occam, Occam]]:
    """The certificate of the exact integer net where there is one, and both bounds."""
    network, stored, m = compressed.network, compressed.stored, len(sample)
    errors = count(network, sample)
    bound = float_up(occam_bound(errors, m, 8 * size, delta))
    here = Occam("this machine", errors, m, 8 * size, float(delta), bound)
    try:
        exact = to_integer_net(network, stored.layers, stored.biases, stored.seed, sample)
        made = certify_net(exact, sample, delta, holdout=holdout, made_with=dict(compressed.notes))
    except CushionError as problem:
        none = Occam("certificate", 0, m, 0, float(delta), 1.0, because=str(problem))
        return None, (here, none)
    claim = made.claim
    held = (None, None) if claim.holdout is None else (claim.holdout.errors, claim.holdout.m)
    bound = float_up(claim.bound)
    row = Occam("certificate", claim.errors, m, made.bits, float(delta), bound, *held)
    return made, (here, row)
