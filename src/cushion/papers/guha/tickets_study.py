"""Lottery tickets on MNIST: iterative pruning level by level with certificates, a supermask, and
Theorem 6.1 tried on a small target.
"""

from __future__ import annotations

import math
from functools import partial
from statistics import linear_regression
from typing import Any

from cushion.papers.commands import OCCAM, TICKETS, Answer, answers, certified, sized
from cushion.papers.guha.lottery import ticket_error
from cushion.papers.guha.lottery_theorem import sufficient_width
from cushion.papers.pages import Page, Size, Table, Tried
from cushion.papers.runner import Workshop

_DIMS = (16, 16, 16, 4)
_POWERS: dict[Size, range] = {
    "quick": range(8, 11),
    "recorded": range(8, 19),
    "full": range(8, 19),
}
_KEPT = {
    "m": "",
    "errors_before": "",
    "layers": "kept nonzeros",
    "tried": "grid bits errors bound chosen",
    "occam": OCCAM,
}


def page(workshop: Workshop) -> Page:
    """Every level, a ticket that nobody trained, and tickets of a random net by its width."""
    quick = workshop.size == "quick"
    data, minutes = ("digits", 0.1) if quick else ("mnist", 10)
    files = f"study-lottery-tickets/{'quick' if quick else 'recorded'}"
    training = sized(workshop, TICKETS)
    ask = partial(answers, workshop, "lottery-tickets")
    run = ask({"imp": training}, {"levels": ""})["imp"]
    names = {level["level"]: f"level-{level['level']:02d}" for level in run["levels"]}
    commands = {
        name: f"compress .runs/imp-lenet/{name} --data mnist --method magnitude --rule zeros "
        f"--grid best -o .runs/nets/{name}.net --certificate {files}/{name}.cushion"
        for name in names.values()
    }
    small = {name: sized(workshop, command) for name, command in commands.items()}
    found = ask(small, _KEPT, [training])
    mask = f"--method supermask --minutes {minutes} -o {files}/supermask.cushion"
    kept = dict.fromkeys(("bits", "errors", "m", "bound"), "")
    supermask = ask({"supermask": f"compress --data {data} {mask}"}, kept)["supermask"]
    levels = [level | {"proved": found[names[level["level"]]]} for level in run["levels"]]
    tickets = [_ticket(workshop, 2**power) for power in _POWERS[workshop.size]]
    return Page(
        tables=(_levels(levels), _supermask(supermask), _widths(tickets)),
        settings={"data": data, "delta": 0.05, "target of Theorem 6.1": "-".join(map(str, _DIMS))},
        claims=claims(levels, supermask, tickets),
        notes=(
            "LeNet-300-100: a fifth of the weights that are left in each layer (a tenth in the "
            "last) goes, the rest is rewound to the initialisation, and so on. Every level is put "
            "on the grid of 2 to 8 bits with the smallest bound and certified: mask and values. "
            "train and test error are the trained net's, errors and held-out those of the integer "
            "net in the certificate, level-NN.cushion beside this page.",
            "Where the weights take more bits than there are examples to pay for them the smallest "
            "bound is that of a ruined net on 2 bits, and says nothing. One run with one seed.",
            "Pruning for accuracy is not pruning for a certificate: `cushion certify` searches a "
            "net for its bound and reaches a smaller one.",
            "supermask: the signs come from a seed, so the mask is all that is paid.",
            "found: the largest error that a search over the unit ball found; at most: what no "
            "input exceeds. The width that Theorem 6.1 needs for an error of 0.1 with probability "
            f"0.95 is {sufficient_width(_DIMS, 0.1, 0.05)}. The printed count of active weights is "
            "that of all of the random net.",
        ),
    )


def _ticket(workshop: Workshop, width: int) -> dict[str, Any]:
    settings = {"dims": _DIMS, "width": width, "seed": workshop.seed}
    found: dict[str, Any] = workshop.step(
        "guha-ticket", settings, lambda: ticket_error(_DIMS, width, workshop.seed).to_json()
    )
    return found


def claims(levels: list[Answer], supermask: Answer, tickets: list[Answer]) -> tuple[Tried, ...]:
    """What the records must still support when they are made again."""
    dense = levels[0]["test_error"]
    sparse = [one for one in levels if one["sparsity"] >= 0.95]
    good = [one for one in sparse if one["test_error"] <= dense]
    bounds = [one["proved"]["occam"][1]["bound"] for one in levels]
    first = "a net with 95 % of its weights pruned errs on no more held-out examples than the dense"
    slopes = {
        kind: linear_regression(
            [math.log(one["width"]) for one in tickets], [math.log(one[kind]) for one in tickets]
        ).slope
        for kind in ("found", "at_most")
    }
    return (
        Tried(
            first, bool(good), f"{len(good)} of {len(sparse)} levels do; the dense net {dense:.2%}"
        )
        if sparse
        else Tried(first, None, "no level is so sparse"),
        Tried(
            "what can be proved falls with the bits: the sparsest net has the smallest bound",
            bounds[-1] == min(bounds),
            f"{certified(bounds[-1])} against {certified(bounds[0])} for the dense net",
        ),
        Tried(
            "a net that nobody trained is proved to err less than any of the pruned ones",
            float(supermask["bound"]) < min(bounds),
            f"{certified(supermask['bound'])} against {certified(min(bounds))}",
        ),
        Tried(
            "the error of a ticket falls as one over the width",
            max(slopes.values()) <= -0.5,
            f"slopes in logarithms {slopes['found']:.3f}, and {slopes['at_most']:.3f} of at most",
        ),
    )


def _levels(levels: list[Answer]) -> Table:
    def proved(one: Answer) -> Answer:
        found: Answer = one["proved"]["occam"][1]
        return found

    def rate(one: Answer, kind: str = "") -> float | None:
        found = proved(one)
        return None if found["because"] else found[f"{kind}errors"] / found[f"{kind}m"]

    return Table.of(
        "Every level of iterative pruning, and what its certificate proves of the net on a grid:",
        levels,
        {
            "level": "level",
            "pruned": "sparsity",
            "weights left": "nonzeros",
            "train error": "train_error",
            "test error": "test_error",
            "bits": lambda one: proved(one)["bits"],
            "certified bound": lambda one: (
                proved(one)["because"] or certified(proved(one)["bound"])
            ),
            "errors": rate,
            "held-out": lambda one: rate(one, "holdout_"),
        },
    )


def _supermask(found: Answer) -> Table:
    columns = {"bits": "bits", "errors": "errors", "of": "m"}
    return Table.of(
        "A ticket that nobody trained:",
        [found],
        {**columns, "bound": lambda one: certified(one["bound"])},
    )


def _widths(tickets: list[Answer]) -> Table:
    return Table.of(
        "Theorem 6.1 tried: a target imitated by a mask over a random net of twice the depth:",
        tickets,
        {
            "width": "width",
            "error found": "found",
            "error at most": "at_most",
            "worst weight": "worst_weight",
            "active": "active",
            "of": "all_weights",
            "printed count": "printed",
        },
    )
