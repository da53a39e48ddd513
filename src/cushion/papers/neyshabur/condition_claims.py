"""What Neyshabur 2017 says of conditions C1 to C3, tried on a learned net and on its
initialisation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cushion.papers.neyshabur.conditions import Conditions
from cushion.papers.pages import Tried

MU, C2, C3 = 0.25, 5.0, 3.0  # §4: "our experiments suggest that μ ≥ 1/4, C2 ≤ 5 and C3 ≤ 3"
ALIKE = 1.5  # medians within this factor of one another are similar


def mu_at_least(net: Conditions, part: str, indices: str) -> Tried:
    """1/μ ≤ 4 over all examples and all triples of `part`."""
    text = f"C1: μ ≥ 1/4, that is 1/μ ≤ 4, on the {net.label} net ({indices})"
    found = net.inverse_mu(part)
    if found is None:
        return Tried(
            text,
            None,
            f"nothing constrains μ: {net.interaction(part)['because'] or 'no example counts'}",
        )
    return Tried(text, found <= 1 / MU, f"the largest 1/μ is {found:.3g}")


def c2_at_most(net: Conditions, input_length: float) -> Tried:
    """C2 ≤ 5 over the δ at which 1 % of a layer can flip: the weaker reading."""
    text = f"C2 ≤ 5 on the {net.label} net"
    found, all_of_them = net.c2(), net.c2("value")
    if found is None or all_of_them is None:
        return Tried(text, None, "the net has no ReLU")
    because = (
        f"the largest C2 is {found:.3g} over the δ at which at least 1 % of the units can flip, "
        f"{all_of_them:.3g} over all δ; the worst layer's median is {max(net.median_c2()):.3g}, "
        f"about {max(net.median_c2()) / input_length:.2g} if inputs kept their length"
    )
    return Tried(text, found <= C2, because)


def c3_at_most(net: Conditions) -> Tried:
    """C3 ≤ 3 over all layers and examples."""
    text = f"C3 ≤ 3 on the {net.label} net"
    found = net.c3()
    if found is None:
        return Tried(text, None, "all layers are zero, so that any C3 will do")
    return Tried(text, found <= C3, f"the largest C3 is {found:.3g}")


def alike(
    text: str, names: Sequence[str], learned: Sequence[float | None], random: Sequence[float | None]
) -> Tried:
    """Every median of the learned net within a factor 1.5 of the random one's."""
    ratios = {
        name: one / other
        for name, one, other in zip(names, learned, random, strict=True)
        if one is not None
        and other is not None
        and other > 0
        and math.isfinite(one)
        and math.isfinite(other)
    }
    outside = {name: ratio for name, ratio in ratios.items() if not 1 / ALIKE <= ratio <= ALIKE}
    if not outside and (len(ratios) < len(names) or not ratios):
        return Tried(text, None, "a median is infinite, zero or missing")
    span = (
        f"medians of learned over random from {min(ratios.values()):.3g} to "
        f"{max(ratios.values()):.3g}"
    )
    rest = f", outside for {', '.join(outside)}" if outside else ""
    return Tried(text, not outside, f"{span}; within a factor {ALIKE:g} is needed{rest}")
