"""Published certificates, as their papers print them: error bounds in percent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """Bounds in percent by data set. prior: what the prior (or the code) was allowed to see."""

    source: str
    prior: str
    bounds: dict[str, float]
    note: str = ""

    @property
    def comparable(self) -> bool:
        """Whether it is about the same statement as ours: ten classes, and no data in the prior."""
        return self.prior == "no data"


PUBLISHED = (
    Published(
        "Lotfi et al. 2022", "no data", {"mnist": 11.6, "fashion-mnist": 32.8, "cifar10": 58.2}
    ),
    Published(
        "Lotfi et al. 2022, raw records",
        "no data",
        {"cifar10": 55.97},
        "better than its paper prints",
    ),
    Published(
        "Lotfi et al. 2022, transfer",
        "other data sets",
        {"mnist": 9.0, "fashion-mnist": 28.2, "cifar10": 35.1},
    ),
    Published("García-Pérez 2025", "no data", {"mnist": 34.0, "cifar10": 74.0}),
    Published("Zhou et al. 2019", "no data", {"mnist": 46.0}),
    Published("Dziugaite and Roy 2017", "no data, two classes", {"mnist": 16.0}),
    Published(
        "Pérez-Ortiz et al. 2021", "50 to 70 % of the data", {"mnist": 1.55, "cifar10": 16.7}
    ),
)
