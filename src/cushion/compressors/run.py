"""compress(): a method of the registry, composed with the encoder and the certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from cushion.certificates.certificate import certify_net
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.format.message import encode
from cushion.compressors.noise.options import HeavyTailOptions
from cushion.compressors.pruning.options import PruneOptions
from cushion.compressors.registry import Task, choose, net_options
from cushion.compressors.search_report import Compressed, summarise
from cushion.data import Dataset, as_dataset
from cushion.data.inputs import check_holdout
from cushion.errors import BadInput
from cushion.theorems.occam import occam_bound, parse_delta

if TYPE_CHECKING:
    from torch import Tensor, nn

    from cushion.compressors.certified import NetCompressed
    from cushion.compressors.noise.records import NetHeavyTail
    from cushion.compressors.pruning.records import NetPruning
    from cushion.compressors.records import NetCompression


def compress(
    data: Dataset | str,
    *,
    method: str = "integer",
    model: nn.Module | None = None,
    holdout: Dataset | None = None,
    delta: str | float = "0.05",
    seed: int = 0,
    report: Callable[[float, Decimal], None] | None = None,
    init: nn.Module | None = None,
    **options: Any,
) -> (
    Compressed
    | NetCompressed[NetCompression]
    | NetCompressed[NetPruning]
    | NetCompressed[NetHeavyTail]
):
    """Compress: search for a net with a small Occam bound on `data`, or compress `model` itself, as
    the method says.

    integer, subspace, supermask search (`Compressed`): with a model, the net also imitates the
    model's scores; the certificate is about the net that was found, not about the model. `report`
    is told now and then which part of the work is done and the best bound so far. All other methods
    compress the model (`NetCompressed`) and check what their lemmas promise; `init` is the model
    before its training, for `from_initialisation`.

    The seed makes everything repeatable; where it makes a helper string it is written into the net
    and paid. `holdout` is read only at the end. The method's own options are those of the registry;
    None means not given.
    """
    sample = as_dataset(data)
    check_holdout(holdout, sample)
    exact_delta = parse_delta(str(delta))
    given = {name: value for name, value in options.items() if value is not None}
    chosen = choose(method, given)
    if chosen.run is None:
        if model is None:
            raise BadInput(f"`method` = {method} compresses a trained net; give NET")
        return compress_model(
            model,
            sample,
            method=method,
            options=given,
            holdout=holdout,
            init=init,
            delta=delta,
            seed=seed,
        )

    def judge(net: IntegerNet) -> Decimal:
        return Decimal(
            occam_bound(net.errors(sample.x, sample.y), len(sample), encode(net).bits, exact_delta)
        )

    teacher = None if model is None else _teacher_scores(model, sample)
    found = chosen.run(Task(sample, judge, seed, teacher, report), given)
    notes = {
        "method": method,
        "seed": seed,
        **given,
        "imitates_a_model": model is not None,
        "trained": found.trained,
        "interrupted": found.interrupted,
    }
    certificate = certify_net(found.net, sample, exact_delta, holdout=holdout, made_with=notes)
    summary = summarise(
        found.net, certificate, method=method, seed=seed, interrupted=found.interrupted
    )
    return Compressed(found.net, summary, certificate)


def compress_model(
    model: nn.Module,
    sample: Dataset,
    *,
    method: str,
    options: Mapping[str, Any],
    holdout: Dataset | None,
    init: nn.Module | None,
    delta: str | float,
    seed: int,
) -> NetCompressed[NetCompression] | NetCompressed[NetPruning] | NetCompressed[NetHeavyTail]:
    """One of the methods that compress a given net."""
    chosen = net_options(method, options)
    if isinstance(chosen, PruneOptions):
        from cushion.compressors.pruning.run import prune_net

        return prune_net(
            model, sample, method=method, options=chosen, holdout=holdout, delta=delta, seed=seed
        )
    if isinstance(chosen, HeavyTailOptions):
        from cushion.compressors.noise.run import replace_tails

        return replace_tails(
            model, sample, method=method, options=chosen, holdout=holdout, delta=delta, seed=seed
        )
    from cushion.compressors.projection.run import compress_net

    return compress_net(
        model,
        sample,
        method=method,
        options=chosen,
        holdout=holdout,
        init=init,
        delta=delta,
        seed=seed,
    )


def _teacher_scores(model: nn.Module, data: Dataset) -> Tensor:
    """[m, classes] scores of the model on the sample."""
    from cushion.certificates.answers import score

    scores = score(model, data.x, describe="the net's scores").float()
    if scores.shape[1] < data.classes:
        raise BadInput(
            f"the net gives {scores.shape[1]} scores, but {data.name} has {data.classes} classes; "
            "use its own data"
        )
    return scores[:, : data.classes]
