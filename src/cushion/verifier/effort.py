"""How long a replay may take before the verifier asks if that is meant: a small file can demand
hours of counting.
"""

from __future__ import annotations

from cushion.errors import BadInput

# in multiplications (`encoding.limits.effort`): half a minute to some minutes on one core
MOST_EFFORT = 2**39
DRAWN = 320  # multiplications in the time of drawing one number


def check_effort(multiplications: int, slow: bool) -> None:
    """BadInput if a replay takes longer than MOST_EFFORT, unless that is what was asked for."""
    if multiplications > MOST_EFFORT and not slow:
        raise BadInput(
            f"replaying this certificate takes about {multiplications / MOST_EFFORT:.0f} times the "
            "few minutes that verify takes unasked; add `slow` to do it all the same"
        )
