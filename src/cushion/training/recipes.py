"""The papers' nets and training settings as data, under the names `cushion train` takes; no torch.

What a paper leaves open is chosen here and said in `notes`. Every recipe adapts to other data: the
input shape and the number of classes are replaced, and a net that does not fit says which layer
does not and why.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from typing import Any, Literal

from cushion.errors import BadInput
from cushion.nets.specs import Initialisation, Shape, Spec, fit_data, parse, write_shape
from cushion.records import Record

Optimiser = Literal["sgd", "adam"]
Labels = Literal["true", "shuffled", "random"]

_LEAST = {"lr": 0, "momentum": 0, "weight_decay": 0, "batch": 1, "epochs": 1, "lr_halve_every": 1}


class Recipe(Record):
    """A net and how to train it with the mean cross-entropy; `spec` is written for `dataset`.

    The learning rate is lr · 2^-(epoch // lr_halve_every). Training ends after `epochs`, or after
    the first epoch at whose end the evaluation-mode cross-entropy on the sample is below
    `stop_loss`. `labels` says what is done to the labels first. `augment`: each epoch sees each
    image zero-padded by 4, cropped at random to its size and mirrored with probability 1/2.
    """

    name: str
    source: str
    title: str
    spec: str
    dataset: str
    optimiser: Optimiser
    lr: float
    batch: int
    epochs: int
    momentum: float = 0.0
    weight_decay: float = 0.0
    lr_halve_every: int | None = None
    stop_loss: float | None = None
    labels: Labels = "true"
    augment: bool = False
    init: Initialisation = "he"
    adapts: bool = True
    notes: str = ""

    def __post_init__(self) -> None:
        for option, least in _LEAST.items():
            value = getattr(self, option)
            if value is not None and not least <= value < math.inf:
                rule = f"{option} must be a number of at least {least}"
                raise BadInput(f"recipe {self.name}: {rule}, not {value}")

    def learning_rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        return self.lr * 0.5 ** (epoch // self.lr_halve_every) if self.lr_halve_every else self.lr


_SMALL = "1x8x8: conv16k3p1 relu maxpool2 flatten fc32 relu fc10"
_LENET = "1x28x28: flatten fc300 relu fc100 relu fc10"
_VGG19 = (
    "3x32x32: 2*[conv64k3p1 relu] maxpool2 2*[conv128k3p1 relu] maxpool2 4*[conv256k3p1 relu] "
    "maxpool2 4*[conv512k3p1 relu] maxpool2 4*[conv512k3p1 relu] maxpool2 flatten drop0.5 fc512 "
    "relu drop0.5 fc512 relu fc10"
)
_ALEXNET = (
    "3x32x32: conv64k11s4p5 relu maxpool2 conv192k5p2 relu maxpool2 conv384k3p1 relu conv256k3p1 "
    "relu conv256k3p1 relu maxpool2 flatten drop0.5 fc10"
)
_NEYSHABUR_VGG = (
    "3x32x32: 2*[conv64k3p1 bn relu] maxpool2 drop0.25 2*[conv128k3p1 bn relu] maxpool2 drop0.25 "
    "2*[conv256k3p1 bn relu] maxpool2 drop0.25 2*[conv512k3p1 bn relu] drop0.25 avgpool4 flatten "
    "fc512 bn relu fc10"
)


def _residual(channels: int) -> str:
    return f"add[conv{channels}k3p1nobias bn relu conv{channels}k3p1nobias bn | ] relu"


def _halving(channels: int) -> str:
    inner = f"conv{channels}k3s2p1nobias bn relu conv{channels}k3p1nobias bn"
    return f"add[{inner} | conv{channels}k1s2nobias bn] relu"


_RESNET20 = (
    f"3x32x32: conv16k3p1nobias bn relu 3*[{_residual(16)}] {_halving(32)} 2*[{_residual(32)}] "
    f"{_halving(64)} 2*[{_residual(64)}] gap flatten fc10"
)
_DENSE_BLOCK = "12*[cat[ | bn relu conv12k3p1nobias]]"
_DENSENET40 = (
    f"3x32x32: conv16k3p1nobias {_DENSE_BLOCK} bn relu conv160k1nobias avgpool2 {_DENSE_BLOCK} bn "
    f"relu conv304k1nobias avgpool2 {_DENSE_BLOCK} bn relu gap flatten fc10"
)


def _family(source: str, **shared: Any) -> Callable[..., Recipe]:
    """The recipes of one paper, from what they have in common."""

    def recipe(name: str, title: str, spec: str, notes: str = "", **own: Any) -> Recipe:
        return Recipe(name, source, title, spec, notes=notes, **(shared | own))

    return recipe


_ADAM: dict[str, Any] = {"optimiser": "adam", "epochs": 20}
_SGD: dict[str, Any] = {"optimiser": "sgd", "momentum": 0.9}
_CIFAR10: dict[str, Any] = {"dataset": "cifar10", "batch": 128, "lr_halve_every": 30, **_SGD}

_cushion = _family("cushion", dataset="digits", lr=3e-3, batch=32, **_ADAM)
_lecun = _family("LeCun 1998", dataset="mnist", lr=1e-3, batch=128, **_ADAM)
_arora = _family(
    "Arora 2018", lr=0.05, weight_decay=5e-4, epochs=299, init="centred", augment=True, **_CIFAR10
)
_guha = _family("Guha 2023", optimiser="adam", lr=0.02, epochs=300, init="torch")
_neyshabur = _family("Neyshabur 2017", lr=0.01, batch=64, epochs=1000, stop_loss=1e-4, **_SGD)
_shin = _family("Shin 2021", lr=0.1, weight_decay=1e-4, epochs=200, augment=True, **_CIFAR10)

_ALEXNET_NOTES = (
    "the common 32x32 variant: five convolutions and one dense layer; initialisation not stated: "
    "centred He; augmentation not stated"
)
_LENET_NOTES = "the net is the paper's, the training settings are ours"
_VGG_NOTES = "augmentation and initialisation not stated: crop and mirror, centred He"
_SHIN_NOTES = "the paper takes trained nets from a model zoo; the training settings are ours"
_RESNET_NOTES = f"{_SHIN_NOTES}; projections (1x1, stride 2) where the width changes"
_DENSENET_NOTES = f"{_SHIN_NOTES}; no bottleneck, no compression"


def _guha_mlp(name: str, width: int, dataset: str, shape: str, batch: int) -> Recipe:
    title = f"5-layer MLP of width {width} on {dataset}"
    spec = f"{shape}: flatten 4*[fc{width} relu] fc10"
    notes = "initialisation not stated: PyTorch's own"
    return _guha(name, title, spec, notes, dataset=dataset, batch=batch)


_ALL = (
    _cushion("small", "a small convolutional net that learns digits in seconds", _SMALL),
    _lecun("lenet-300-100", "LeNet-300-100, two hidden dense layers", _LENET, _LENET_NOTES),
    _arora(
        "arora-vgg19", "VGG-19 (16 convolutions, FC 512-512-10) on CIFAR-10", _VGG19, _VGG_NOTES
    ),
    _arora("arora-alexnet", "AlexNet on CIFAR-10", _ALEXNET, f"{_ALEXNET_NOTES}: on"),
    _arora(
        "arora-alexnet-shuffled",
        "AlexNet on CIFAR-10 with shuffled labels",
        _ALEXNET,
        f"{_ALEXNET_NOTES}: off, because shuffled labels must be memorised",
        labels="shuffled",
        augment=False,
    ),
    _guha_mlp("guha-mlp", 784, "mnist", "1x28x28", 256),
    *(
        _guha_mlp(f"guha-mlp-{width}", width, "mnist", "1x28x28", 256)
        for width in (500, 1000, 1500, 2000, 2500)
    ),
    _guha_mlp("guha-mlp-cifar10", 784, "cifar10", "3x32x32", 4),
    _neyshabur(
        "neyshabur-vgg",
        "VGG 2x[64, 128, 256, 512] with batch-norm, FC 512, on CIFAR-10",
        _NEYSHABUR_VGG,
        "pools after three of the four stacks, else the 4x4 average pool does not fit; dropout "
        "rate ours: 1/4",
        dataset="cifar10",
    ),
    *(
        _neyshabur(
            f"neyshabur-mlp-{hidden}",
            f"two-layer perceptron with {hidden} hidden units on MNIST",
            f"1x28x28: flatten fc{hidden} relu fc10",
            "at most 1000 epochs, because the smallest nets never reach the loss",
            dataset="mnist",
            init="torch",
        )
        for hidden in (2**power for power in range(3, 14))
    ),
    _neyshabur(
        "neyshabur-mlp10",
        "10 hidden layers of 1000 units on MNIST",
        "1x28x28: flatten 10*[fc1000 relu] fc10",
        "initialisation not stated: He, because PyTorch's own fades out over ten layers; at most "
        "1000 epochs",
        dataset="mnist",
    ),
    _shin("shin-resnet20", "ResNet-20 on CIFAR-10", _RESNET20, _RESNET_NOTES),
    _shin("shin-densenet", "DenseNet-40 (growth 12) on CIFAR-10", _DENSENET40, _DENSENET_NOTES),
)

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}


def find_recipe(text: str) -> Recipe:
    """The recipe of that name, or, for a text with a colon or a space, a spec with Adam at 1e-3."""
    if text in RECIPES:
        return RECIPES[text]
    if ":" in text or any(letter.isspace() for letter in text.strip()):
        spec, free = str(parse(text)), _family("free spec", dataset="", lr=1e-3, batch=128, **_ADAM)
        return free("spec", spec, spec, adapts=False)
    close = difflib.get_close_matches(text, RECIPES, n=1)
    hint = f"did you mean {close[0]}?" if close else f"the recipes are {', '.join(RECIPES)}"
    fix = "or give a spec such as '1x28x28: flatten fc10'"
    raise BadInput(f"recipe '{text}' is not known ({hint}); {fix}")


def fit_recipe(recipe: Recipe, shape: Shape, classes: int) -> Spec:
    """The recipe's net for such data; BadInput says why it does not fit."""
    spec = parse(recipe.spec)
    if (spec.input_shape, spec.classes) == (shape, classes):
        return spec
    if not recipe.adapts:
        said = f"reads {write_shape(spec.input_shape)} and gives {spec.classes} scores"
        data = f"the data are {write_shape(shape)} with {classes} classes"
        raise BadInput(f"the spec {said}, but {data}; change the spec")
    try:
        return fit_data(spec, shape, classes)
    except BadInput as error:
        said = f"recipe {recipe.name} does not fit data of shape {write_shape(shape)}"
        raise BadInput(f"{said}: {error}") from None
