"""The law of the noise in the weights (Neyshabur 2017, Appendix A)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class NoiseRule:
    """ν_i ~ N(0, σ_i²) with σ_i = α·(scale·|w_i| + offset)."""

    scale: float
    offset: float

    def unit_std(self, parameter: Tensor) -> Tensor:
        """σ at α = 1, in the parameter's shape."""
        return parameter.abs().mul_(self.scale).add_(self.offset)
