"""A sample seen through a public backbone: rows of bytes instead of its inputs.

The map from floats to bytes is declared in the claim (FORMAT.md, section 10.4). The bytes stand in
for the inputs; the sample keeps its fingerprint, and its rows their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cushion.certificates.format.claims import Features
from cushion.data.dataset import Dataset
from cushion.data.inputs import Inputs
from cushion.errors import BadInput, remark
from cushion.nets.backbones import PACKAGES, Backbone, Enlarged, load_backbone
from cushion.nets.features import features_of, read_features
from cushion.numerics import counted
from cushion.records.options import Options, option

_NORM = 2**24  # squares of a row's bytes sum to less: their dot products are exact in float32
_PARTS = 1000  # a thousandth of the rows may be counted otherwise elsewhere
_SIDE = 128  # of the pictures that an installed package sees
_AT_ONCE = 4096  # rows
_FEW_VALUES = 16  # of a byte's 256: fewer tell little apart


class BackboneOptions(Options):
    """Whose features are read, and how. Whatever was tried of it on the sample has to be paid."""

    backbone: str | None = option(
        None,
        f"read features of a public net instead of the inputs: one of {', '.join(PACKAGES)}, or "
        "file.py:factory (its code runs)",
        shown="NAME",
    )
    weights: str | None = option(
        None, "the weights of file.py:factory", flag="backbone-weights", shown="W"
    )
    size: int | None = option(
        None,
        "enlarge pictures to N x N first (default: 128 for the packages named, else not at all)",
        least=0,
        most=4096,
        flag="backbone-size",
    )
    enlarged: Enlarged = option("bilinear", "how pictures are enlarged")
    mirror: bool = option(False, "take the mean of a picture's features and its mirror image's")
    scale: int = option(
        5, "a feature v becomes the byte ⌊v · 2^N⌋", least=-32, most=32, flag="feature-scale"
    )
    offset: int = option(
        0, "and this is added (signed features: 128)", least=0, most=255, flag="feature-offset"
    )
    slack: int | None = option(
        None,
        "rows more that another machine may count, as floats differ (default: a thousandth)",
        least=0,
    )


@dataclass(frozen=True, eq=False)
class Seen:
    """What a backbone makes of sets of inputs, and what a claim says of it."""

    claim: Features
    bytes_of: Callable[[Inputs], NDArray[np.uint8]]
    slack: int | None

    def sample(self, data: Dataset) -> Dataset:
        """The examples with bytes for inputs; the fingerprint stays that of the inputs."""
        rows = self.bytes_of(Inputs(data.name, data.x))
        seen = Dataset(data.name, rows, data.y, data.classes, data.history, labels=data.labels)
        # what is certified is about the examples themselves
        vars(seen).update(fingerprint=data.fingerprint, found=data.found)
        return seen

    def allowed(self, rows: int, m: int) -> int:
        """The slack of a count among so many rows, m of which are the sample."""
        return -(-rows // _PARTS) if self.slack is None else -(-self.slack * rows // m)


def see(options: BackboneOptions, like: Dataset) -> Seen:
    """The backbone of these options, tried on a few rows of the sample's kind."""
    assert options.backbone is not None
    backbone = load_backbone(
        options.backbone,
        options.weights,
        size=_size(options),
        enlarged=options.enlarged,
        mirror=int(options.mirror),
    )
    if like.x.dtype.names is not None:
        raise BadInput(f"{like.name}: a backbone reads plain arrays, not named parts")
    width = backbone.features(like.x[:1]).shape[1]
    claim = Features(width=width, scale=options.scale, offset=options.offset, **backbone.identity)
    return _seen(claim, backbone, options.slack, choosing=True)


def see_again(claim: Features, name: str | None = None, weights: str | None = None) -> Seen:
    """The backbone that a claim names, to compute its features here.

    An installed package is found by its name; `name` and `weights` are file.py:factory and its
    weights. BadInput where they are not those of the claim.
    """
    if name is None and claim.name not in PACKAGES:
        raise BadInput(
            f"the certificate is about features of {claim.name}; give `backbone` (file.py:factory) "
            "and `backbone_weights`, or the features themselves (`features`)"
        )
    backbone = load_backbone(
        name or claim.name,
        weights,
        size=claim.size,
        enlarged=claim.enlarged,
        mirror=claim.mirror,
    )
    for what, found, stated in (
        ("name", backbone.name, claim.name),
        ("weights", backbone.weights, claim.weights),
        ("program", backbone.program, claim.program),
    ):
        if found != stated:
            raise BadInput(
                f"this backbone is not that of the certificate: its {what} is {_short(found)}, not "
                f"{_short(stated)}"
            )
    return _seen(claim, backbone, None)


def _seen(
    claim: Features, backbone: Backbone, slack: int | None, *, choosing: bool = False
) -> Seen:
    """choosing: the scale can still be another; what speaks for that is said of the first rows."""

    def bytes_of(inputs: Inputs) -> NDArray[np.uint8]:
        nonlocal choosing
        floats = read_features(features_of(backbone, inputs), len(inputs))
        backbone.check_width(floats.shape[1])
        rows = to_bytes(floats, claim.scale, claim.offset)
        remark(*_doubts(backbone.name, inputs.name, floats, rows))
        if choosing:
            remark(*_few_values(backbone.name, rows))
        choosing = False
        return rows

    return Seen(claim, bytes_of, slack)


def _doubts(name: str, of: str, floats: NDArray[np.float32], rows: NDArray[np.uint8]) -> list[str]:
    """That nothing can be learnt from features, where all rows are the same."""
    if len(rows) < 2 or (rows != rows[0]).any():
        return []
    said, how = "all rows have the same bytes", "give another `scale` or `offset`"
    if np.isnan(floats).all():
        said, how = "every feature is NaN", "check its weights and what it reads"
    elif (floats == floats[0]).all():
        said, how = "all rows have the same features", "check its weights and what it reads"
    return [f"{name} on {of}: {said}, so nothing can be learnt from them; {how}"]


def _few_values(name: str, rows: NDArray[np.uint8]) -> list[str]:
    """That little can be told apart by features of few values."""
    values = int((np.bincount(rows.reshape(-1), minlength=256) > 0).sum())
    if values >= _FEW_VALUES or not (rows != rows[0]).any():
        return []
    other = "a larger" if rows.max() < 255 else "another"
    said = f"features of {name} have only {values} of a byte's 256 values"
    return [f"{said}; {other} `scale` may help (where they are signed, with `offset` = 128)"]


def _short(text: str | None) -> str:
    """A hash by its first digits; a name as it is."""
    whole = text or "none"
    return f"{whole[:12]}..." if len(whole) == 64 else whole


def _size(options: BackboneOptions) -> int:
    if options.size is not None:
        return options.size
    return _SIDE if options.backbone in PACKAGES else 0


def to_bytes(floats: NDArray[np.float32], scale: int, offset: int) -> NDArray[np.uint8]:
    """⌊v·2^scale⌋ + offset, clipped to 0..255, NaN as 0; a row whose squares sum to 2^24 or more is
    halved, rounded down, until they do not.

    >>> to_bytes(np.float32([[0.5, -1.0, 9.0]]), 5, 0).tolist()
    [[16, 0, 255]]
    """
    rows = np.empty(floats.shape, np.uint8)
    halved = 0
    for start in range(0, len(floats), _AT_ONCE):
        scaled = np.floor(np.ldexp(floats[start : start + _AT_ONCE].astype(np.float64), scale))
        part = np.nan_to_num(scaled + offset, nan=0.0).clip(0, 255).astype(np.int64)
        first = long = (part**2).sum(axis=1) >= _NORM
        while long.any():
            part[long] >>= 1
            long = (part**2).sum(axis=1) >= _NORM
        halved += int(first.sum())
        rows[start : start + _AT_ONCE] = part
    if halved:
        remark(
            f"{counted(halved, 'row')} of features had to be halved to fit; a smaller `scale` "
            "brings all rows into one unit"
        )
    return rows


def is_known(features: Features) -> bool:
    """Whether the weights are on the list that was fixed without anybody's sample."""
    package = PACKAGES.get(features.name)
    return package is not None and (features.program, features.weights) == (None, package.weights)


def condition(features: Features) -> str:
    """What a statement with these features hangs on; empty where the backbone is known."""
    if is_known(features):
        return ""
    what = f"{features.name} with the weights sha256 {features.weights[:12]}..."
    return f"{what} had no part of these examples in its training (it is not a known backbone)"
