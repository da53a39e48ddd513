"""Iterative magnitude pruning with rewinding (Frankle & Carbin 2019, Frankle et al. 2020).

Level 0 trains the dense net. Every further level prunes a fraction of the weights that are left,
those of smallest magnitude in the trained net of the level before; puts the others back to their
values at the end of epoch K (0: the initialisation); and trains again, the pruned ones held at
exactly zero. Only the weights of affine layers are pruned, never biases or batch-norm parameters.

Going back to epoch K takes the whole state of level 0 at its end: weights, optimiser and batch-norm
statistics, with zeros in place of what is pruned. So a level trains epochs K+1, K+2, ... in the
order in which level 0 saw them.

RUN/imp.json      the plan (written first; never changed)
RUN/level-NN/     a RUN folder as every other; its init.safetensors is the rewound, pruned start,
                  and mask.safetensors: for every pruned parameter a tensor of flags, true where the
                  weight stays

A level is a function of the plan and the level before it, so a run that was killed goes on to the
same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from cushion.data import AnyData
from cushion.errors import BadInput
from cushion.nets.loading.weights import IMP_FILE, NET_FILE, read_tensors, save_tensors
from cushion.nets.models import build_empty
from cushion.nets.specs import Spec
from cushion.progress import progress as shown
from cushion.records import Record, column
from cushion.training.options import SPARSITY, ImpOptions, Scope, TrainOptions
from cushion.training.plans import Setting, open_folder, settle
from cushion.training.recipes import Recipe
from cushion.training.runs import REWIND_FILE, Status
from cushion.training.training import Pruning, RunResult, train_into

MASK_FILE = "mask.safetensors"
MASK_FORMAT = "cushion-mask-1"
MOST_ROUNDS = 99  # what two digits name

# the parameters that are ranked together, and the share that goes
Group: TypeAlias = tuple[tuple[str, ...], float]
Sizes: TypeAlias = Mapping[str, int]
Tensors: TypeAlias = Mapping[str, Tensor]


class ImpLevel(Record):
    """One level; weights are those of the affine layers."""

    level: int = column("rounds of pruning so far")
    sparsity: float = column("share of weights that is pruned", label="pruned", unit="error")
    nonzeros: int = column("weights that are not pruned", label="weights left")
    train_error: float = column("on the sample", unit="error", better="low")
    test_error: float | None = column("on the test set", unit="error", better="low")
    epochs: int = column("that the level trained, those before its rewinding included")
    folder: str = column("where the level's net is", label="net")


class ImpResult(Record):
    """What `train_imp` reached; `status` "already done": nothing changed."""

    folder: str
    recipe: str
    spec: str
    status: Status
    scope: Scope
    fraction: float
    rewind: int
    weights: int
    levels: tuple[ImpLevel, ...]


def train_imp(
    recipe: Recipe | Spec | str,
    data: AnyData,
    out: str | Path,
    *,
    test: AnyData | None = None,
    rounds: int | None = None,
    to: float | None = None,
    fraction: float = ImpOptions.fraction,
    rewind: int = ImpOptions.rewind,
    scope: Scope = ImpOptions.scope,
    width: float = TrainOptions.width,
    epochs: int | None = TrainOptions.epochs,
    lr_halve_every: int | None = TrainOptions.lr_halve_every,
    seed: int = TrainOptions.seed,
    device: str = TrainOptions.device,
    progress: bool = True,
) -> ImpResult:
    """Train, prune, rewind, train again into the folder `out`, or finish that; see the module.

    After level 0 come `rounds` levels, or as many as it takes until a share `to` (default 0.95) of
    the weights is pruned. `scope` "layer": every layer loses its own `fraction` of what it has
    left, the last one half of that (Frankle & Carbin's rule for small nets), and keeps at least one
    weight; "global": all layers are ranked together and lose `fraction` as a whole. Counts are
    rounded up. The other options are those of `train`.
    """
    ImpOptions(rounds, to, fraction, rewind, scope)
    options = TrainOptions(width, epochs, lr_halve_every, None, seed, device)
    setting = settle(recipe, data, test, options)
    if rewind >= setting.recipe.epochs:
        limit = f"below the {setting.recipe.epochs} epochs of a level"
        raise BadInput(f"`rewind` must be {limit}, not {rewind}")
    shapes = prunable(build_empty(setting.spec))
    masks = {name: torch.ones(shape, dtype=torch.bool) for name, shape in shapes.items()}
    sizes = {name: mask.numel() for name, mask in masks.items()}
    groups = grouped(list(sizes), scope, fraction)
    levels = count_rounds(sizes, groups, rounds, SPARSITY if to is None else to) + 1
    folder, total = Path(out), sum(sizes.values())
    rule: dict[str, Any] = {"fraction": float(fraction), "rewind": rewind, "scope": scope}
    # a level is the same however many follow it
    plan = replace(setting, prune={"method": "imp", **rule}).plan()
    found: list[ImpLevel] = []
    news = 0
    with open_folder(folder, IMP_FILE, plan) as begun:
        for level in shown(range(levels), "levels", "level"):
            if level:
                trained, _ = read_tensors(folder / f"level-{level - 1:02d}" / NET_FILE)
                masks = prune(trained, masks, groups)
            start = folder / "level-00" / REWIND_FILE if rewind and level else None
            pruning = Pruning(masks, start, rewind if rewind and not level else None)
            one = replace(setting, prune={**rule, "level": level})
            result = _train_level(folder / f"level-{level:02d}", one, pruning, progress)
            news += result.status != "already done"
            kept = sum(int(mask.sum()) for mask in masks.values())
            errors = result.metrics["train_error"], result.metrics.get("test_error")
            reached = *errors, result.epochs, result.folder
            found.append(ImpLevel(level, 1 - kept / total, kept, *reached))
    status: Status = "already done" if not news else "resumed" if begun else "trained"
    net = setting.recipe.name, str(setting.spec), status
    how = scope, rule["fraction"], rewind
    return ImpResult(str(folder), *net, *how, total, tuple(found))


def prunable(module: nn.Module) -> dict[str, torch.Size]:
    """The parameters that may be pruned, in the net's order, and their shapes."""
    kinds, modules = nn.Conv2d | nn.Linear, module.named_modules()
    return {f"{name}.weight": m.weight.shape for name, m in modules if isinstance(m, kinds)}


def grouped(names: list[str], scope: Scope, fraction: float) -> list[Group]:
    """Which parameters are ranked together, and the share that each group loses in one round."""
    if scope == "global":
        return [(tuple(names), fraction)]
    return [((name,), fraction if name != names[-1] else fraction / 2) for name in names]


def leaving(left: int, share: float) -> int:
    """How many of the weights left go in one round: the share, rounded up, never the last one.

    >>> leaving(1000, 0.2), leaving(3, 0.2), leaving(1, 0.2)
    (200, 1, 0)
    """
    return min(math.ceil(left * share - 1e-9), left - 1)


def count_rounds(sizes: Sizes, groups: list[Group], rounds: int | None, to: float) -> int:
    """How many rounds there are; BadInput where so many, or that sparsity, cannot be had."""
    left = [sum(sizes[name] for name in names) for names, _ in groups]
    total, done = sum(left), 0
    while done < rounds if rounds is not None else total - sum(left) < to * total:
        gone = [leaving(count, share) for count, (_, share) in zip(left, groups, strict=True)]
        if not any(gone):
            reached = f"after {done} rounds one weight is left in each layer, a sparsity of"
            too_far = f"`to` = {to} cannot be reached"
            asked = too_far if rounds is None else f"`rounds` = {rounds} is too many"
            raise BadInput(f"{asked}: {reached} {1 - sum(left) / total:.6g}")
        left = [count - less for count, less in zip(left, gone, strict=True)]
        done += 1
        if done > MOST_ROUNDS:
            said = f"`fraction` = {groups[0][1]:g} takes more than {MOST_ROUNDS} rounds"
            raise BadInput(f"{said}; raise it")
    return done


def prune(trained: Tensors, masks: Tensors, groups: list[Group]) -> dict[str, Tensor]:
    """The masks without the smallest |w| of each group; of equal ones the first go first."""
    pruned: dict[str, Tensor] = {}
    for names, share in groups:
        size = torch.cat([trained[name].detach().cpu().abs().flatten() for name in names])
        stays = torch.cat([masks[name].flatten() for name in names])
        left = stays.nonzero().flatten()
        order = size[left].argsort(stable=True)
        stays[left[order[: leaving(len(left), share)]]] = False
        parts = torch.split(stays, [masks[name].numel() for name in names])
        for name, part in zip(names, parts, strict=True):
            pruned[name] = part.reshape(masks[name].shape)
    return pruned


def _train_level(folder: Path, setting: Setting, pruning: Pruning, progress: bool) -> RunResult:
    if pruning.rewind is not None and not pruning.rewind.exists():
        first = pruning.rewind.parent
        raise BadInput(f"{pruning.rewind} is missing; delete {first}, and it is trained again")
    if not (folder / MASK_FILE).exists():
        folder.mkdir(exist_ok=True)
        save_tensors(folder / MASK_FILE, pruning.masks, {"format": MASK_FORMAT})
    result = train_into(folder, setting, pruning, progress=progress)
    if setting.prune is not None and result.epochs <= (rewind := setting.prune["rewind"]):
        said = f"{folder} reached the recipe's loss after {result.epochs} epochs"
        left = f"nothing is left to train after epoch {rewind}"
        raise BadInput(f"{said}, so {left}; choose a smaller `rewind` and another folder")
    return result
