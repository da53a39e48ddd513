"""Lottery tickets on MNIST: iterative pruning level by level with certificates, a supermask, and
Theorem 6.1 tried on a small target.
"""

from __future__ import annotations

from functools import partial

from cushion.papers.commands import OCCAM, TICKETS, Answer, answers, certified, sized
from cushion.papers.guha.tickets import find_error, slope, sufficient_width
from cushion.papers.pages import Columns, Page, Size, Table, Tried
from cushion.papers.runner import Workshop

_DIMS = (16, 16, 16, 4)
_POWERS: dict[Size, range] = {"quick": range(8, 11), "recorded": range(8, 19), "full": range(8, 19)}
_KEPT = dict.fromkeys(("m", "errors_before"), "") | {
    "layers": "kept nonzeros",
    "tried": "grid bits errors bound chosen",
    "occam": OCCAM,
}
_MASK = {"bits": "bits", "errors": "errors", "of": "m", "bound": "bound"}
_WIDTHS = {
    "width": "width",
    "error found": "found",
    "error at most": "at_most",
    "worst weight": "worst_weight",
    "active": "active",
    "of": "all_weights",
    "printed count": "printed",
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
    widths = [2**power for power in _POWERS[workshop.size]]
    tickets = [find_error(workshop, _DIMS, width, workshop.seed) for width in widths]
    shown = supermask | {"bound": certified(supermask["bound"])}
    imitated = "a target imitated by a mask over a random net of twice the depth"
    return Page(
        tables=(
            _levels(levels),
            Table.of("A ticket that nobody trained:", [shown], _MASK),
            Table.of(f"Theorem 6.1 tried: {imitated}:", tickets, _WIDTHS),
        ),
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


def claims(levels: list[Answer], supermask: Answer, tickets: list[Answer]) -> tuple[Tried, ...]:
    """What the records must still support when they are made again."""
    dense = levels[0]["test_error"]
    sparse = [one for one in levels if one["sparsity"] >= 0.95]
    good = sum(one["test_error"] <= dense for one in sparse)
    seen = f"{good} of {len(sparse)} levels do; the dense net {dense:.2%}"
    bounds = [_proved(one)["bound"] for one in levels]
    widths, *errors = ([one[key] for one in tickets] for key in ("width", "found", "at_most"))
    found, at_most = (slope(widths, values) for values in errors)
    return (
        Tried(
            "a net with 95 % of its weights pruned errs on no more held-out examples than the "
            "dense",
            good > 0 if sparse else None,
            seen if sparse else "no level is so sparse",
        ),
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
            max(found, at_most) <= -0.5,
            f"slopes in logarithms {found:.3f}, and {at_most:.3f} of at most",
        ),
    )


def _proved(level: Answer) -> Answer:
    found: Answer = level["proved"]["occam"][1]
    return found


def _levels(levels: list[Answer]) -> Table:
    def rate(one: Answer, kind: str = "") -> float | None:
        found = _proved(one)
        return None if found["because"] else found[f"{kind}errors"] / found[f"{kind}m"]

    columns: Columns = {
        "level": "level",
        "pruned": "sparsity",
        "weights left": "nonzeros",
        "train error": "train_error",
        "test error": "test_error",
        "bits": "proved.occam.1.bits",
        "certified bound": lambda one: _proved(one)["because"] or certified(_proved(one)["bound"]),
        "errors": rate,
        "held-out": lambda one: rate(one, "holdout_"),
    }
    proved = "what its certificate proves of the net on a grid"
    return Table.of(f"Every level of iterative pruning, and {proved}:", levels, columns)
