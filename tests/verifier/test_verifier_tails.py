"""The verifier's own binomial tail: it agrees with the prover's, and errs on the safe side of exact
fractions.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from cushion.theorems.occam import occam_bound
from cushion_verify import bound_holds, tail

DELTA = Decimal("0.05")


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 3000),
    st.floats(0, 1),
    st.integers(0, 4000),
    st.sampled_from(["0.05", "0.5", "0.000001"]),
)
def test_the_two_implementations_agree(m: int, share: float, bits: int, delta: str) -> None:
    """What numerics states holds here, and two millionths less (a bound is stated in millionths)
    does not.
    """
    k = int(share * m)
    bound = Decimal(occam_bound(k, m, bits, Decimal(delta)))
    assert bound_holds(k, m, bits, Decimal(delta), bound)
    if bound < 1:
        assert not bound_holds(k, m, bits, Decimal(delta), bound - Decimal("0.000002"))


def test_the_tail_is_never_below_the_exact_fraction() -> None:
    """Every k of small m against exact rational arithmetic; and the caller's decimal context does
    not matter.
    """
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_DOWN)):
        for m in (1, 2, 7, 30):
            for k in range(m):
                p = Fraction(k, m) + Fraction(m - k, 3 * m)
                scaled = int(p * 10**18)
                p = Fraction(scaled, 10**18)
                exact = sum(
                    Fraction(math.comb(m, i)) * p**i * (1 - p) ** (m - i) for i in range(k + 1)
                )
                ours = Fraction(tail(k, m, scaled))
                assert exact <= ours <= exact * (1 + Fraction(1, 10**38))


def test_bound_holds_at_the_extremes() -> None:
    assert bound_holds(5, 5, 10, DELTA, Decimal(1))
    assert not bound_holds(5, 5, 10, DELTA, Decimal("0.999999"))
    assert not bound_holds(50, 100, 1, DELTA, Decimal("0.5"))
    # zero errors: (1-p)^m ≤ δ 2^-b has a closed form
    exact = 1 - 0.05 ** (1 / 1000)
    assert bound_holds(0, 1000, 0, DELTA, Decimal(str(exact + 1e-9)))
    assert not bound_holds(0, 1000, 0, DELTA, Decimal(str(exact - 1e-9)))
    # far beyond any float: ten million bits
    assert not bound_holds(0, 60000, 10**7, DELTA, Decimal("0.999999"))
    assert bound_holds(600, 60000, 10**5, DELTA, Decimal(occam_bound(600, 60000, 10**5, DELTA)))
