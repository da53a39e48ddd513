"""Tiny nets as data: the one table that feeds every suite. A case is a seeded module, its input
shape and facts.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cushion.nets.network import Network
from cushion.nets.operators import Operator
from cushion.nets.tracing import trace


@dataclass(frozen=True)
class Case:
    """`layers` are the kinds of the affine layers that the trace must find, in order."""

    name: str
    factory: Callable[[], nn.Module]
    input_shape: tuple[int, ...]
    layers: str  # one letter each: l(inear), c(onv2d, conv), b(atchnorm), s(cale), p(ositionwise)
    chain: bool = True

    def module(self) -> nn.Module:
        """The seeded net in eval mode, with batch-norms that look trained; the global random state
        is untouched.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(zlib.crc32(self.name.encode()))
            model = self.factory()
            for module in model.modules():
                if (
                    isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))
                    and module.running_mean is not None
                ):
                    module.running_mean.normal_()
                    module.running_var.uniform_(0.01, 2.0)
                    if module.weight is not None:
                        nn.init.normal_(module.weight)
                        nn.init.normal_(module.bias)
        return model.eval()

    @cache  # noqa: B019  (cases live as long as the process)
    def network(self) -> Network:
        """Traced when the first test asks, so that collecting tests costs nothing; nobody may
        change it.
        """
        return trace(self.module(), self.input_shape)

    def inputs(self, batch: int = 5, dtype: torch.dtype = torch.float32) -> Tensor:
        """A seeded batch of normal numbers."""
        generator = torch.Generator().manual_seed(zlib.crc32(self.name.encode()) + 1)
        return torch.randn(batch, *self.input_shape, generator=generator, dtype=dtype)


class Residual(nn.Module):
    """conv - bn - relu - conv - bn, plus a shortcut, then relu: `out += x` and in-place ReLUs as
    usually written.
    """

    def __init__(self, width: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        project = stride != 1 or width != out
        self.down = (
            nn.Sequential(nn.Conv2d(width, out, 1, stride), nn.BatchNorm2d(out))
            if project
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x if self.down is None else self.down(x)
        return self.relu(out)


class Dense(nn.Module):
    """bn - relu - conv, joined to its input: a batch-norm that cannot be folded, since its input is
    used twice.
    """

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(width)
        self.conv = nn.Conv2d(width, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.conv(F.relu(self.norm(x)))], 1)


class Functional(nn.Module):
    """Parameters and torch functions only."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(4, 2, 3, 3))
        self.bias = nn.Parameter(torch.randn(4))
        self.weight = nn.Parameter(torch.randn(3, 4))
        self.register_buffer("mask", (torch.rand(3, 4) > 0.3).float())
        self.register_buffer("mean", torch.randn(4))
        self.register_buffer("var", torch.rand(4) + 0.1)

    def forward(self, x: Tensor, scale: float = 1.0, extra: Tensor | None = None) -> Tensor:
        if extra is not None:
            x = x * extra * scale
        x = F.conv2d(x, self.kernel, self.bias, stride=2, padding=(1, 0))
        x = F.relu(F.batch_norm(x, self.mean, self.var), inplace=True)
        x = F.dropout(F.avg_pool2d(x, 2), 0.5, self.training)
        x = F.adaptive_avg_pool2d(torch.relu(x), 1)
        return F.linear(x.view(x.size(0), -1), self.weight * self.mask)


class Methods(nn.Module):
    """x.relu(), x.mean((2, 3)), x.reshape(...), torch.add, a layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(x.shape[0], 2, 5, 5)
        y = self.conv(x).relu_()
        y = self.conv(y).relu()
        z = torch.cat((x.mean((2, 3)), F.max_pool2d(y, 5).squeeze(-1).squeeze(-1)), dim=-1)
        return torch.add(self.fc(z.flatten(1)), z)


def _sequential(*layers: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*(_fresh(layer) for layer in layers))


def _fresh(layer: nn.Module) -> nn.Module:
    """The layer with newly drawn parameters, so that every call of a factory draws its own."""
    clone = copy.deepcopy(layer)
    for module in clone.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return clone


def _conv_net(**options: object) -> Callable[[], nn.Module]:
    """One convolution with the given options, then ReLU, pooling and a linear layer."""
    return lambda: nn.Sequential(
        nn.Conv2d(4, 6, **options),  # type: ignore[arg-type]
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(24, 3),
    )


def _pool_net(pool: nn.Module) -> Callable[[], nn.Module]:
    """A convolution, ReLU, the pooling, and a linear layer that fits what is left of a (1, 8, 9)
    image.
    """
    left = pool(torch.zeros(1, 3, 6, 7)).numel()
    return _sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), pool, nn.Flatten(), nn.Linear(left, 3))


CASES: tuple[Case, ...] = (
    Case("mlp", _sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 4)), (7,), "ll"),
    Case(
        "mlp-no-bias",
        _sequential(
            nn.Flatten(), nn.Linear(12, 9, bias=False), nn.ReLU(), nn.Linear(9, 4, bias=False)
        ),
        (3, 2, 2),
        "ll",
    ),
    Case(
        "mlp-deep",
        _sequential(
            nn.Linear(6, 8),
            nn.ReLU(),
            nn.Linear(8, 7),
            nn.ReLU(),
            nn.Linear(7, 9),
            nn.Linear(9, 5, bias=False),
            nn.ReLU(),
            nn.Linear(5, 6),
            nn.ReLU(),
            nn.Linear(6, 3),
        ),
        (6,),
        "llllll",
    ),
    Case("linear-only", _sequential(nn.Linear(5, 3)), (5,), "l"),
    Case(
        "mlp-batchnorm",
        _sequential(
            nn.Linear(6, 8, bias=False),
            nn.BatchNorm1d(8),
            nn.ReLU(True),
            nn.Dropout(),
            nn.Linear(8, 3),
        ),
        (6,),
        "ll",
    ),
    Case(
        "batchnorm-first",
        _sequential(
            nn.BatchNorm1d(6), nn.Linear(6, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3)
        ),
        (6,),
        "blbl",
    ),
    Case(
        "batchnorm-last",
        _sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4)),
        (6,),
        "l",
    ),
    Case("conv", _conv_net(kernel_size=3), (4, 6, 7), "cl"),
    Case("conv-padding", _conv_net(kernel_size=3, padding=1), (4, 6, 7), "cl"),
    Case("conv-padding-pair", _conv_net(kernel_size=(3, 5), padding=(0, 2)), (4, 6, 7), "cl"),
    Case("conv-padding-wide", _conv_net(kernel_size=2, padding=2), (4, 6, 7), "cl"),
    Case("conv-same", _conv_net(kernel_size=3, padding="same"), (4, 6, 7), "cl"),
    Case(
        "conv-same-even",
        _conv_net(kernel_size=(4, 2), padding="same", dilation=(1, 3)),
        (4, 6, 7),
        "cl",
    ),
    Case("conv-valid", _conv_net(kernel_size=2, padding="valid"), (4, 6, 7), "cl"),
    Case("conv-stride", _conv_net(kernel_size=3, stride=2, padding=1), (4, 6, 7), "cl"),
    Case("conv-stride-pair", _conv_net(kernel_size=2, stride=(3, 2)), (4, 6, 7), "cl"),
    Case("conv-stride-gaps", _conv_net(kernel_size=1, stride=3), (4, 6, 7), "cl"),
    Case("conv-dilation", _conv_net(kernel_size=3, dilation=2, padding=2), (4, 6, 7), "cl"),
    Case(
        "conv-dilation-stride",
        _conv_net(kernel_size=(2, 3), dilation=(3, 2), stride=(2, 1)),
        (4, 6, 7),
        "cl",
    ),
    Case("conv-groups", _conv_net(kernel_size=3, groups=2, padding=1), (4, 6, 7), "cl"),
    Case(
        "conv-everything",
        _conv_net(
            kernel_size=(2, 3), groups=2, stride=(1, 2), padding=(1, 2), dilation=(2, 1), bias=False
        ),
        (4, 6, 7),
        "cl",
    ),
    Case(
        "depthwise",
        _sequential(
            nn.Conv2d(4, 8, 3, groups=4),
            nn.ReLU(),
            nn.Conv2d(8, 2, 1),
            nn.Flatten(),
            nn.Linear(24, 3),
        ),
        (4, 5, 6),
        "ccl",
    ),
    Case("max-pool", _pool_net(nn.MaxPool2d(2)), (1, 8, 9), "cl"),
    Case(
        "max-pool-ceil", _pool_net(nn.MaxPool2d(3, 2, padding=1, ceil_mode=True)), (1, 8, 9), "cl"
    ),
    Case("max-pool-dilated", _pool_net(nn.MaxPool2d(2, 1, dilation=2)), (1, 8, 9), "cl"),
    Case("avg-pool", _pool_net(nn.AvgPool2d(2)), (1, 8, 9), "cl"),
    Case(
        "avg-pool-ceil", _pool_net(nn.AvgPool2d((3, 2), (2, 3), 1, ceil_mode=True)), (1, 8, 9), "cl"
    ),
    Case(
        "avg-pool-no-pad",
        _pool_net(nn.AvgPool2d(3, 2, 1, count_include_pad=False)),
        (1, 8, 9),
        "cl",
    ),
    Case("avg-pool-divisor", _pool_net(nn.AvgPool2d(2, divisor_override=3)), (1, 8, 9), "cl"),
    Case("adaptive-avg", _pool_net(nn.AdaptiveAvgPool2d((4, None))), (1, 8, 9), "cl"),
    Case("adaptive-max", _pool_net(nn.AdaptiveMaxPool2d(3)), (1, 8, 9), "cl"),
    Case(
        "conv-batchnorm",
        _sequential(
            nn.Conv2d(2, 4, 3, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3),
            nn.Dropout2d(),
            nn.BatchNorm2d(4, eps=0.1, affine=False),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(36, 3),
        ),
        (2, 7, 7),
        "ccl",
    ),
    Case(
        "vgg-tiny",
        _sequential(
            nn.Conv2d(2, 3, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(3, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 3, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(3, 5),
            nn.ReLU(),
            nn.Linear(5, 3),
        ),
        (2, 8, 9),
        "cccll",
    ),
    Case(
        "conv-overlapping",
        _sequential(
            nn.Conv2d(1, 3, 3, bias=False),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(3, 4, 2, bias=False),
            nn.ReLU(),
            nn.AvgPool2d(2, 1),
            nn.Flatten(),
            nn.Linear(4, 3, bias=False),
        ),
        (1, 9, 9),
        "ccl",
    ),
    Case(
        "pre-activation",
        _sequential(
            nn.BatchNorm2d(2),
            nn.ReLU(),
            nn.Conv2d(2, 3, 3),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(3),
            nn.Flatten(),
        ),
        (2, 6, 6),
        "bcb",
    ),
    Case(
        "unflatten",
        _sequential(
            nn.Unflatten(1, (1, 4, 4)),
            nn.Conv2d(1, 2, 3),
            nn.Identity(),
            nn.Flatten(),
            nn.Linear(8, 2),
        ),
        (16,),
        "cl",
    ),
    Case(
        "residual",
        lambda: nn.Sequential(
            Residual(2, 2),
            Residual(2, 3, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(3, 4),
        ),
        (2, 6, 6),
        "cccccl",
        chain=False,
    ),
    Case(
        "dense",
        lambda: nn.Sequential(
            nn.Conv2d(1, 3, 3), Dense(3, 2), Dense(5, 2), nn.AvgPool2d(4), nn.Flatten()
        ),
        (1, 6, 6),
        "cbcbc",
        chain=False,
    ),
    Case("functional", Functional, (2, 11, 9), "cl"),
    Case("methods", Methods, (50,), "ccl", chain=False),
)


class Shuffled(nn.Module):
    """Halves of the channels: one passes, one is convolved; then the channels of both alternate. It
    asserts shapes and decides by them, as published nets do.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1, groups=2)
        self.fc = nn.Linear(4, 3)
        self.register_buffer("mean", torch.tensor([0.5, 0.1, -0.3, 0.2]).reshape(1, 4, 1, 1))
        self.register_buffer("std", torch.tensor([0.5, 2.0, 0.25, 1.5]).reshape(1, 4, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[1] == 4, f"four channels, not {x.shape[1]}"
        torch._assert(x.dim() == 4, "a batch of images")
        x = (x - self.mean) / self.std
        first, second = x.chunk(2, dim=1)
        x = torch.cat([first, F.relu(self.conv(second))], 1)
        batch, channels, height, width = x.size()
        x = x.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous()
        x = x.view(batch, -1, height, width)
        x = x.mean([2, 3]) if x.shape[-1] > 1 else x.flatten(1)
        return self.fc(x)


class TextNet(nn.Module):
    """Convolutions over a sequence of vectors, the maximum over time, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 5)
        self.conv = nn.Conv1d(5, 6, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm1d(6)
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.mix(x)).permute(0, 2, 1)
        return self.fc(torch.max(F.relu(self.norm(self.conv(x))), dim=2).values)


class UNet(nn.Module):
    """Down, up again with a shortcut, and a mean over positions."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(2, 3, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1)
        self.out = nn.Conv2d(5, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.leaky_relu(self.down(x), 0.2)
        wide = F.interpolate(y, scale_factor=2)
        z = torch.cat([F.relu(self.up(y)), wide], 1)
        return self.out(F.pad(z, (1, 0, -1, 2))[:, :, :-1, 1:]).mean(dim=(2, 3))


def _activated(activation: nn.Module) -> Callable[[], nn.Module]:
    return _sequential(nn.Linear(5, 6), activation, nn.Linear(6, 3))


# operations beyond ReLU nets: suites about theorems of ReLU nets do not read these
WIDER: tuple[Case, ...] = (
    *(
        Case(type(activation).__name__.lower(), _activated(activation), (5,), "ll")
        for activation in (
            nn.ReLU6(),
            nn.Hardtanh(-0.5, 0.25),
            nn.LeakyReLU(0.3),
            nn.Hardswish(),
            nn.Hardsigmoid(),
            nn.GELU(),
            nn.SiLU(),
            nn.Mish(),
            nn.Tanh(),
            nn.Sigmoid(),
            nn.Softplus(),
            nn.Softsign(),
            nn.LogSigmoid(),
            nn.ELU(0.7),
            nn.CELU(0.6),
            nn.SELU(),
        )
    ),
    Case("gelu-tanh", _activated(nn.GELU("tanh")), (5,), "ll"),
    Case(
        "prelu",
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 2), nn.PReLU(3, init=-0.6), nn.Flatten(), nn.Linear(12, 3)
        ),
        (2, 3, 3),
        "cl",
    ),
    Case("shuffled", Shuffled, (4, 4, 5), "scl", chain=False),
    Case("text", TextNet, (7, 4), "pcl"),
    Case("unet", UNet, (2, 6, 6), "ccc", chain=False),
    Case(
        "sequence",
        _sequential(
            nn.Conv1d(2, 4, 3, dilation=2),
            nn.ReLU(),
            nn.MaxPool1d(2, 1),
            nn.Conv1d(4, 2, 2, groups=2),
            nn.AvgPool1d(2),
            nn.AdaptiveAvgPool1d(2),
            nn.Flatten(),
            nn.Linear(4, 3),
        ),
        (2, 12),
        "ccl",
    ),
    Case(
        "circular",
        _sequential(
            nn.Conv2d(2, 2, 3, padding=(1, 2), padding_mode="circular"),
            nn.ReLU(),
            nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"),
            nn.Flatten(),
        ),
        (2, 4, 4),
        "cc",
    ),
    Case(
        "volume",
        _sequential(nn.Conv3d(1, 2, 2), nn.BatchNorm3d(2), nn.ReLU(), nn.Flatten()),
        (1, 3, 2, 3),
        "c",
    ),
)


def traced(name: str) -> Network:
    return next(case for case in (*CASES, *WIDER) if case.name == name).network()


@dataclass(frozen=True)
class Layer:
    """An affine layer of a case by its place, not traced yet: what a test is parametrised with."""

    case: str
    place: int

    def operator(self) -> Operator:
        return traced(self.case).affine_layers[self.place].affine.operator


LAYERS = [Layer(case.name, place) for case in (*CASES, *WIDER) for place in range(len(case.layers))]


def every(operators: list[Operator | Layer]) -> pytest.MarkDecorator:
    """The test for each of them; conftest's fixture `operator` builds those of the cases."""

    def name(item: Operator | Layer) -> str:
        if isinstance(item, Layer):
            return f"{item.case}-{item.place}"
        return f"{type(item).__name__}-{tuple(item.weight.shape)}"

    return pytest.mark.parametrize("operator", operators, ids=name, indirect=True)
