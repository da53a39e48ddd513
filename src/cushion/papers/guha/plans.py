"""Which nets each size of the items of Guha 2023 trains, as data: recipes, epochs, and the level of
the margin.
"""

from __future__ import annotations

from cushion.papers.guha.nets import NetPlan
from cushion.papers.guha.paper import WIDTHS
from cushion.papers.pages import Size

# γ is the margin that all but this fraction of the sample exceed. After a few epochs at the paper's
# learning rate the nets still err on a tenth of MNIST and on half of CIFAR-10, and a smaller
# fraction would leave γ negative.
_MNIST_LEVEL, _CIFAR10_LEVEL = 0.2, 0.7
_LEARNS = "3x32x32: flatten 4*[fc784 relu] fc10"


def mnist_net(width: int, epochs: int, halve: int | None = None) -> NetPlan:
    """The paper's net of that width."""
    recipe = "guha-mlp" if width == 784 else f"guha-mlp-{width}"
    return NetPlan(recipe, "mnist", width, epochs, _MNIST_LEVEL, halve)


def cifar10_nets(epochs: int, learning: int, scale: float = 1.0) -> tuple[NetPlan, NetPlan]:
    """The net trained as the paper says, and one that learns (Adam at 1e-3, batches of 128)."""
    width = round(784 * scale)
    return (
        NetPlan("guha-mlp-cifar10", "cifar10", width, epochs, _CIFAR10_LEVEL, scale=scale),
        NetPlan(
            _LEARNS, "cifar10", width, learning, _CIFAR10_LEVEL, scale=scale, stem="mlp-cifar10"
        ),
    )


TABLE_1: dict[Size, tuple[NetPlan, ...]] = {
    "quick": (mnist_net(500, 1), mnist_net(784, 1)),
    "recorded": tuple(mnist_net(width, 10, 2) for width in WIDTHS),
    "full": tuple(mnist_net(width, 300) for width in WIDTHS),
}
TABLE_2: dict[Size, tuple[NetPlan, NetPlan]] = {
    "quick": cifar10_nets(1, 1, 0.25),
    "recorded": cifar10_nets(2, 10),
    "full": cifar10_nets(300, 300),
}
FIGURE_2: dict[Size, tuple[NetPlan, ...]] = {
    "quick": tuple(mnist_net(784, epochs) for epochs in (1, 2)),
    "recorded": tuple(mnist_net(784, epochs) for epochs in (1, 2, 4, 8)),
    "full": tuple(mnist_net(784, epochs) for epochs in (1, 3, 10, 30, 100, 300)),
}
