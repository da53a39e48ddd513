"""Lottery tickets (Guha 2023, §6): Theorem 6.1 tried, and Theorem 6.2 as printed and by its mask.

A ticket is a net whose weights come from a seed that was declared before the data, so that they are
helper string, and of which a mask keeps some. The mask is all that the data chose: k of N weights,
one of C(N, k) masks, and k itself. Then with probability ≥ 1 - δ, for all masks at once,

    L(g) ≤ L̂(g) + √((b ln 2 + ln(1/δ))/(2m)),    b = ⌈log₂ C(N, k)⌉ + ⌈log₂(N + 1)⌉,

or BinInv(errors; m, δ·2^-b), which is smaller. Theorem 6.2 pays for sketches of the kept weights
instead, up to a constant, after a theorem which says that tickets exist; iterative pruning finds
other nets (docs/pruning-bounds.md). Those have trained weights, no helper string: `compress
--method magnitude --rule zeros` pays for mask and values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from statistics import linear_regression
from typing import Any, TypeAlias

from cushion.numerics import decimal_up, float_up
from cushion.papers.drawings import Picture, Series
from cushion.papers.guha.lottery import ticket_error
from cushion.papers.pages import Page, Size, Table, Tried
from cushion.papers.runner import Workshop
from cushion.theorems.occam import hoeffding_bound, occam_bound

Found: TypeAlias = dict[str, Any]  # of one ticket, as `ticket_error` has it
FAILURE = 0.05
_EXAMPLES, _STEP = 60_000, 2.0**-8  # m and ρ with which the gap of Theorem 6.2 is written out
_LN2 = math.log(2.0)


@dataclass(frozen=True)
class TicketPlan:
    """A target of these dimensions, searched for in random nets of these widths and that many
    seeds.

    Widths leave each input tens of neurons: with a few, one of the two signs may be missing, and
    there is no ticket. epsilons: errors for which the width that suffices is computed and tried as
    well.
    """

    dims: tuple[int, ...]
    widths: tuple[int, ...]
    seeds: int
    epsilons: tuple[float, ...]


PLANS: dict[Size, TicketPlan] = {
    "quick": TicketPlan((8, 8, 8, 4), tuple(4**k for k in range(4, 9)), 2, (0.5,)),
    "recorded": TicketPlan((16, 32, 32, 10), tuple(2**k for k in range(10, 18)), 5, (0.5, 0.2)),
    "full": TicketPlan((16, 32, 32, 10), tuple(2**k for k in range(10, 21)), 20, (0.5, 0.2, 0.1)),
}


def tickets(workshop: Workshop) -> Page:
    """One step a width and seed; errors are the worst over the seeds."""
    plan = PLANS[workshop.size]
    seeds = range(workshop.seed, workshop.seed + plan.seeds)

    def find(width: int) -> list[Found]:
        return [find_error(workshop, plan.dims, width, seed) for seed in seeds]

    by_width = {width: find(width) for width in plan.widths}
    enough = {epsilon: sufficient_width(plan.dims, epsilon, FAILURE) for epsilon in plan.epsilons}
    tried = {epsilon: find(width) for epsilon, width in enough.items()}
    found, at_most = (
        tuple(max(one[kind] for one in ones) for ones in by_width.values())
        for kind in ("found", "at_most")
    )
    falling = tuple(at_most[-1] * plan.widths[-1] / width for width in plan.widths)
    picture = Picture(
        "tickets",
        "Error of a ticket on the unit ball, worst of the seeds",
        plan.widths,
        "width of the random net",
        "‖G̃(x) - M(x)‖₂",
        (
            Series("no input has more", at_most),
            Series("found by a search", found),
            Series("1/width, through the last", falling),
        ),
        x_log=True,
        y_log=True,
    )
    return Page(
        tables=(_by_width(by_width), _by_epsilon(enough, tried), _by_theorem_6_2(plan, by_width)),
        settings={"target": "-".join(map(str, plan.dims)), "seeds": plan.seeds, "failure": FAILURE},
        claims=(
            _suffices(tried),
            _falls(slope(plan.widths, found), slope(plan.widths, at_most)),
            _small([one for ones in by_width.values() for one in ones]),
        ),
        notes=(
            "The paper makes no such experiment and prints no numbers, so no column of its own "
            "stands beside ours.",
            "The tickets come from a construction that knows the target weight by weight, so they "
            "show that a subnet exists. Nothing here says that iterative magnitude pruning finds "
            "it, as Theorem 6.2 would need.",
            "'no input has more' is a bound from spectral norms, 'found' what a search on the "
            "sphere reached.",
            "The count of active weights that Theorem 6.1 prints, d₀D + D²L, is of the order of "
            "all weights of the random net; those that stay are at most four for each weight of "
            "the target, whatever the width.",
        ),
        pictures=(picture,),
    )


def find_error(workshop: Workshop, dims: Sequence[int], width: int, seed: int) -> Found:
    """The step of one ticket."""
    settings = {"dims": dims, "width": width, "seed": seed}
    found: Found = workshop.step("guha-ticket", settings, lambda: ticket_error(dims, width, seed))
    return found


def slope(widths: Sequence[int], errors: Sequence[float]) -> float:
    """Of ln(error) over ln(width)."""
    return linear_regression(list(map(math.log, widths)), list(map(math.log, errors))).slope


def _by_width(by_width: Mapping[int, list[Found]]) -> Table:
    def most(key: str) -> Callable[[list[Found]], Any]:
        return lambda ones: max(one[key] for one in ones)

    columns = {
        "width": most("width"),
        "largest error found": most("found"),
        "no input has more": most("at_most"),
        "worst weight off by": most("worst_weight"),
        "active weights": most("active"),
        "target's weights": most("target_weights"),
        "printed d₀D + D²L": most("printed"),
        "weights of G": most("all_weights"),
        "bits of the mask": _bits,
    }
    caption = "Worst of the seeds, by the width of the random net:"
    return Table.of(caption, by_width.values(), columns)


def _bits(ones: Sequence[Found]) -> int:
    """Of the mask with the most weights."""
    return mask_bits(ones[0]["all_weights"], max(one["active"] for one in ones))


def _by_epsilon(enough: Mapping[float, int], tried: Mapping[float, list[Found]]) -> Table:
    columns: dict[str, Callable[[float], Any]] = {
        "ε": float,
        "width that suffices": enough.__getitem__,
        "seeds": lambda epsilon: len(tried[epsilon]),
        "within ε": lambda epsilon: sum(one["at_most"] <= epsilon for one in tried[epsilon]),
        "no input has more": lambda epsilon: max(one["at_most"] for one in tried[epsilon]),
    }
    caption = f"At the width that Theorem 6.1 with its constants asks for (failure {FAILURE}):"
    return Table.of(caption, tried, columns)


def _by_theorem_6_2(plan: TicketPlan, by_width: Mapping[int, list[Found]]) -> Table:
    """What Theorem 6.2 adds to a ticket's errors, as printed and by what its mask takes."""
    rows = []
    for width, ones in by_width.items():
        paid = 0, _EXAMPLES, _bits(ones), Decimal(str(FAILURE))
        nats = printed_count(plan.dims, width) * math.log(1 / _STEP)
        hoeffding = float_up(decimal_up(hoeffding_bound(*paid)))
        rows.append((width, math.sqrt(nats / _EXAMPLES), hoeffding, float_up(occam_bound(*paid))))
    header = ("width", "as printed, 1 for O(.)", "mask alone, Hoeffding", "mask alone, exact tail")
    caption = (
        f"Theorem 6.2 for a ticket without an error on m = {_EXAMPLES} examples (ρ = 2⁻⁸, δ = "
        f"{FAILURE}): as printed a measure; by its mask what a seeded net could be certified for:"
    )
    return Table(header, tuple(rows), caption)


def _suffices(tried: Mapping[float, list[Found]]) -> Tried:
    """At the sufficient width a ticket within ε is there, but for the failure allowed."""
    text = "a net that is wide enough holds a subnet within ε of the target on the whole unit ball"
    missed = sum(one["at_most"] > epsilon for epsilon, ones in tried.items() for one in ones)
    count = sum(map(len, tried.values()))
    because = f"{count - missed} of {count} random nets do, of the width computed"
    return Tried(text, missed <= FAILURE * count, because)


def _falls(found: float, at_most: float) -> Tried:
    """A polynomial in 1/ε is enough: errors fall like a power of the width, near -1."""
    text = "a width that is polynomial in 1/ε is enough: the error falls like a power of the width"
    slopes = f"{at_most:.2f}, and {found:.2f} for the error found"
    return Tried(text, max(found, at_most) <= -0.5, f"slope of ln(error) over ln(width): {slopes}")


def _small(ones: Sequence[Found]) -> Tried:
    text = "the subnet has approximately as many weights as the target"
    most = max(one["active"] / one["target_weights"] for one in ones)
    return Tried(text, most <= 4.0, f"up to {most:.2g} times as many, at every width")


def printed_count(dims: Sequence[int], width: int) -> float:
    """n_M d₀ ln²D_G + L n_M² ln²D_G: how many numbers Theorem 6.2 counts, up to a constant, for a
    target of these sizes in a random net of that width.
    """
    widest = max(dims[1:])
    return widest * (dims[0] + (len(dims) - 1) * widest) * math.log(width) ** 2


def mask_bits(weights: int, kept: int) -> int:
    """⌈log₂ C(N, k)⌉ + ⌈log₂(N + 1)⌉, erring upwards by at most one bit: k first, then which of the
    masks.

    >>> mask_bits(4, 2)  # 6 masks, 5 values of k
    6
    """
    parts = (math.lgamma(weights + 1), -math.lgamma(kept + 1), -math.lgamma(weights - kept + 1))
    error = 16 * 2.0**-52 * math.fsum(map(abs, parts))
    return weights.bit_length() + math.ceil(max(0.0, math.fsum(parts) + error) / _LN2)


def sufficient_width(dims: Sequence[int], epsilon: float, failure: float) -> int:
    """Theorem 6.1 with its constants: G of this width holds a ticket within ε of any such target on
    the unit ball, 0 < ε < 1.

    dims: inputs of the target and the widths of its layers, ‖A‖₂ ≤ 1 and |entries| ≤ 1/√inputs. It
    fails with probability at most `failure` over the weights of G. If every layer is off by at most
    η = (1 + ε)^(1/L) - 1 in spectral norm, the net is off by (1 + η)^L - 1 = ε; entries off by t do
    that for t = η/√(their number). A neuron of an input has the right sign and u·v within t of w
    with probability at least

        p = ½·½ ∫ ln(1/|z|) dz over [w - t, w + t] at the largest |w| = 1/√inputs,

    so a block of b neurons fails one weight with (1 - p)^b, and all weights together with at most
    their number times that.
    """
    shapes = list(pairwise(dims))
    eta = math.expm1(math.log1p(epsilon) / len(shapes))
    choices = [(1 if at else 2) * inputs * outputs for at, (inputs, outputs) in enumerate(shapes)]
    widest = max(dims[1:])
    for (inputs, _), count in zip(shapes, choices, strict=True):
        t, w = eta / math.sqrt(count), 1 / math.sqrt(inputs)
        p = (_mass(w + t) - _mass(w - t)) / 4
        block = math.ceil(math.log(sum(choices) / failure) / -math.log1p(-p) * (1 + 1e-12))
        widest = max(widest, inputs * block)
    return widest


def _mass(z: float) -> float:
    """∫ ln(1/|t|) dt from 0 to z, where the density ends at 1."""
    size = min(abs(z), 1.0)
    return math.copysign(size - size * math.log(size), z) if size > 0 else 0.0
