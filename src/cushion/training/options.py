"""What `train` and `train_imp` can be told besides net and data; no torch."""

from __future__ import annotations

from typing import Literal, TypeAlias

from cushion.errors import BadInput
from cushion.records import Options, option

Scope: TypeAlias = Literal["layer", "global"]
SPARSITY = 0.95  # where pruning ends if nothing is said


class TrainOptions(Options):
    """How a recipe is changed, and where it is trained."""

    width: float = option(1.0, "scale every hidden width by F", above=0)
    epochs: int | None = option(None, "instead of the recipe's number", least=1)
    lr_halve_every: int | None = option(None, "halve the learning rate every N epochs", least=1)
    snapshots: tuple[int, ...] | None = option(
        None, "keep the net after these epochs, counted from 1: RUN/epoch-NNNN", least=1
    )
    seed: int = option(0, "of initialisation, order and dropout", least=0, below=2**63)
    device: str = option("cpu", "cpu, cuda, cuda:1, mps or auto", shown="DEV")


class ImpOptions(Options):
    """How iterative magnitude pruning goes (imp.py)."""

    rounds: int | None = option(
        None, "how often to prune (default: until `to`)", least=1, flag="prune-rounds"
    )
    to: float | None = option(
        None, f"share to prune in all (default {SPARSITY})", above=0, below=1, flag="prune-to"
    )
    fraction: float = option(
        0.2, "share of what is left to prune each time", above=0, below=1, flag="prune-fraction"
    )
    rewind: int = option(
        0, "rewind to the end of epoch K (0: the start)", least=0, shown="K", flag="rewind-epoch"
    )
    scope: Literal["layer", "global"] = option(
        "layer",
        "layer: each layer loses that share, the last one half of it; global: the net as a whole",
        flag="prune-scope",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds is not None and self.to is not None:
            raise BadInput("`rounds` and `to` both say when to stop; give one of them")
