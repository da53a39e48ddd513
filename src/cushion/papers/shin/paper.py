"""What Shin 2021 prints in Table 1, so that our numbers can stand beside it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperRow:
    """One line of Table 1: accuracies in percent, compressed as mean and deviation of ten."""

    net: str
    data: str
    alpha: float
    original: float
    compressed: float
    deviation: float

    @property
    def lost(self) -> float:
        """Points of accuracy."""
        return self.original - self.compressed


TABLE_1 = (
    PaperRow("densenet40_k12", "CIFAR-10", 2.84, 94.46, 94.26, 0.09),
    PaperRow("resnet20", "CIFAR-10", 3.22, 93.90, 89.19, 3.03),
    PaperRow("resnet56", "CIFAR-10", 3.02, 95.32, 94.74, 0.30),
    PaperRow("resnet110", "CIFAR-10", 2.98, 96.26, 95.63, 0.63),
    PaperRow("resnet164bn", "CIFAR-10", 4.65, 96.24, 95.78, 0.15),
    PaperRow("resnet272bn", "CIFAR-10", 2.89, 96.63, 96.51, 0.06),
    PaperRow("densenet40_k12", "SVHN", 1.39, 96.99, 96.99, 0.02),
    PaperRow("xdensenet40_2_k24_bc", "SVHN", 2.99, 97.08, 96.97, 0.05),
    PaperRow("resnet20", "SVHN", 3.34, 96.60, 94.60, 0.71),
    PaperRow("resnet56", "SVHN", 2.63, 97.19, 96.58, 0.39),
    PaperRow("resnet110", "SVHN", 2.33, 97.48, 97.16, 0.14),
    PaperRow("pyramidnet110_a48", "SVHN", 3.64, 97.56, 97.28, 0.11),
)
