"""What every row of `cushion bounds` says of MLPs that fit true labels and random ones."""

from __future__ import annotations

from collections.abc import Iterable

from cushion.papers.commands import Answer, answers, pick
from cushion.papers.pages import Columns, Page, Size, Table, Tried
from cushion.papers.runner import Workshop

_NORMS = ("l2-norm", "l1-path", "l2-path", "spectral")
_RANK = ("l1-inf", "frobenius", "spec-l1,2", "spec-fro", *_NORMS, "distance from initialisation")
_MARK = {"first": "right", "second": "WRONG", "neither": "-"}
_ALPHAS = "--alphas 0.001,0.002,0.004,0.008,0.016,0.03,0.06,0.1,0.2"
_NETS = {"ten": "neyshabur-mlp10 --width 0.25", "two": "neyshabur-mlp-1024"}
# (net, examples, seed): `two` has one hidden layer of 1024 units, `ten` ten of 250.
_PAIRS: dict[Size, tuple[tuple[str, int, int], ...]] = {
    "quick": (("two", 300, 0),),
    "recorded": (
        *(("ten", 10000, seed) for seed in (0, 1)),
        *(("two", m, seed) for m in (1000, 3000) for seed in (0, 1)),
        ("two", 10000, 0),
    ),
}
_NET = dict.fromkeys(("m", "errors", "margin", "holdout_errors", "holdout_m"), "")
_SHORT = "train neyshabur-mlp-512 --data mnist --epochs 3 -o .runs/short-true-60000"


def page(workshop: Workshop) -> Page:
    """One step a pair of nets, and one of a net that was trained shortly."""
    pairs = _PAIRS["quick" if workshop.size == "quick" else "recorded"]
    found: dict[str, Answer] = {}
    for net, m, seed in pairs:
        true, random = (f"mnist,subset={m}{more},seed={seed}" for more in ("", ",random-labels=1"))
        runs = [f".runs/{net}-{labels}-{m}-{seed}" for labels in ("true", "random")]
        needs = [
            f"train {_NETS[net]} --data {data} --seed {seed} -o {run}"
            for data, run in zip((true, random), runs, strict=True)
        ]
        command = f"bounds {runs[0]} --data {true} --beside {runs[1]} --beside-data {random}"
        command += "" if workshop.size == "quick" else f" --paper {_ALPHAS}"
        name = f"{net}-{m}-{seed}"
        found |= answers(workshop, "bounds-mnist", {name: command}, _kept, needs)
    short = None
    if workshop.size != "quick":
        shortly = {"short": "bounds .runs/short-true-60000 --data mnist"}
        short = answers(workshop, "bounds-mnist", shortly, _kept, [_SHORT])["short"]
    return Page(
        tables=(
            _nets(found),
            _certificates(found),
            *(() if short is None else (_short(short),)),
            _verdicts(found),
            _growth(found),
        ),
        settings={"recipes": " and ".join(_NETS.values()), "seeds": "the last number of a pair"},
        claims=claims(found),
        notes=(
            "MLPs on MNIST, trained with the settings of Neyshabur 2017 until the cross-entropy is "
            "below 1e-4 or for 1000 epochs, on true labels and on random ones: the same images and "
            "the same initialisation. Held-out examples are MNIST's test set with its true labels.",
            "Certificates in percent, rounded up. f is the net itself, Q the net under Gaussian "
            "noise in its weights; nets that were trained until nothing was left to gain moved "
            "their weights far, and a short training has a better certificate.",
            "right: the row prefers the net of true labels; WRONG: that of random labels; -: "
            "neither. The number is log10 of the row's value for random labels over that for true "
            "ones.",
            "C2, and Theorem 1 with it, is decided by a few examples on which many pre-activations "
            "are close to zero; noise stability takes the worst of 500 examples.",
        ),
    )


def _kept(answer: Answer) -> Answer:
    """Of both nets what the tables show: of the bounds, certificates and the norms of Figure 1."""
    net = pick(answer, {**_NET, "bounds": "name form kind about value vacuous capacity_log10"})
    net["bounds"] = [
        row
        for row in net["bounds"]
        if row["kind"] == "certificate" or (row["name"] in _NORMS and row["form"] == "as plotted")
    ]
    if answer.get("beside") is None:
        return net
    verdicts = pick(answer, {"verdicts": "name form first second prefers"})
    return net | verdicts | {"beside": _kept(answer["beside"])}


def claims(found: dict[str, Answer]) -> tuple[Tried, ...]:
    """What the records must still support when they are made again."""
    fits = [net["errors"] for record in found.values() for net in (record, record["beside"])]
    two = _two_layers(found)
    gaps = {
        norm: [_capacity(record["beside"], norm) - _capacity(record, norm) for record in two]
        for norm in _NORMS
    }
    wider = [norm for norm, gap in gaps.items() if gap == sorted(gap)]
    widens = f"over {len(two)} sizes, for {', '.join(wider) or 'none'} of the four norms"
    fooled = [
        any(row["prefers"] == "second" for row in _verdicts_of([found[name]], "largest sharpness"))
        for name in found
        if name.startswith("ten")
    ]
    return (
        Tried("all nets fit their labels", not any(fits), f"{max(fits)} training errors at most"),
        _ranks("every norm over the margin ranks all pairs rightly", found, *_RANK),
        _ranks(
            "expected sharpness ranks all pairs rightly, alone and with KL",
            found,
            "expected sharpness",
            "KL at fixed sharpness",
        ),
        Tried(
            "the largest sharpness by itself does not: it prefers random labels on ten layers",
            all(fooled) if fooled else None,
            f"in {sum(fooled)} of {len(fooled)} such pairs",
        ),
        _ranks("Theorem 1 (three conditions) ranks all pairs rightly", found, "three conditions"),
        Tried(
            "the gap between true and random labels widens with the sample",
            len(wider) == len(_NORMS) if len(two) > 1 else None,
            widens,
        ),
    )


def _verdicts_of(records: Iterable[Answer], *names: str) -> list[Answer]:
    return [row for record in records for row in record["verdicts"] if row["name"] in names]


def _ranks(text: str, found: dict[str, Answer], *names: str) -> Tried:
    """Every row of these names prefers the net of true labels."""
    rows = _verdicts_of(found.values(), *names)
    right = sum(row["prefers"] == "first" for row in rows)
    return Tried(text, right == len(rows), f"{right} of {len(rows)} verdicts are right")


def _capacity(net: Answer, norm: str) -> float:
    rows = {(row["name"], row["form"]): row["capacity_log10"] for row in net["bounds"]}
    return float(rows[norm, "as plotted"])


def _by_labels(record: Answer) -> dict[str, Answer]:
    return {"true": record, "random": record["beside"]}


def _nets(found: dict[str, Answer]) -> Table:
    rows = [
        {"pair": name, "labels": labels, **net}
        for name, record in found.items()
        for labels, net in _by_labels(record).items()
    ]
    columns: Columns = {
        "pair": "pair",
        "m": "m",
        "labels": "labels",
        "training errors": "errors",
        "test error": lambda row: row["holdout_errors"] / row["holdout_m"],
        "γ": "margin",
    }
    return Table.of("What was compared:", rows, columns)


def _certified(net: Answer, name: str) -> str:
    row = next(one for one in net["bounds"] if (one["kind"], one["name"]) == ("certificate", name))
    return "vacuous" if row["vacuous"] else f"{100 * row['value']:.4f}"


def _certificates(found: dict[str, Answer]) -> Table:
    first = next(iter(found.values()))["bounds"]
    nets = [_by_labels(record) for record in found.values()]
    rows = [
        (row["name"], row["about"], labels, *(_certified(net[labels], row["name"]) for net in nets))
        for row in first
        if row["kind"] == "certificate"
        for labels in ("true", "random")
    ]
    return Table(("certificate", "about", "labels", *found), rows, "Certificates, in percent:")


def _short(found: Answer) -> Table:
    rows = [
        (row["name"], row["about"], _certified(found, row["name"]))
        for row in found["bounds"]
        if row["kind"] == "certificate"
    ]
    caption = "An MLP of 512 units after three epochs on all of MNIST, in percent:"
    return Table(("certificate", "about", "bound"), rows, caption)


def _verdicts(found: dict[str, Answer]) -> Table:
    def cell(verdict: Answer) -> str:
        mark = _MARK[verdict["prefers"]]
        neither = verdict["prefers"] == "neither"
        return mark if neither else f"{mark} {verdict['second'] - verdict['first']:+.2f}"

    tables = {
        name: {(one["name"], one["form"]): one for one in record["verdicts"]}
        for name, record in found.items()
    }
    first = next(iter(tables.values()))
    rows = [(*key, *(cell(table[key]) for table in tables.values())) for key in first]
    return Table(("row", "form", *tables), rows, "Every row's verdict:")


def _growth(found: dict[str, Answer]) -> Table:
    chosen = _two_layers(found)
    rows = [
        (norm, labels, *(_capacity(_by_labels(record)[labels], norm) for record in chosen))
        for norm in _NORMS
        for labels in ("true", "random")
    ]
    header = ("log10 of norm² / γ²", "labels", *(f"m = {record['m']}" for record in chosen))
    return Table(header, rows, "Growth with the number of examples, one hidden layer, seed 0:")


def _two_layers(found: dict[str, Answer]) -> list[Answer]:
    """One hidden layer, seed 0, by the number of examples."""
    return [found[name] for name in found if name.startswith("two-") and name.endswith("-0")]
