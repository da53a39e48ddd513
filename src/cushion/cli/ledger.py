"""How verbs show a certificate: its numbers, what it pays in bits, nats and δ, what it assumes."""

from __future__ import annotations

from typing import Any

from cushion.certificates.certificate import sentence, spaced, total_delta
from cushion.certificates.format.claims import (
    Claim,
    GaussianClaim,
    Holdout,
    LookedHoldout,
    OccamClaim,
    PicksClaim,
)
from cushion.certificates.format.holdout_claim import HoldoutClaim
from cushion.certificates.holdout.words import count_sentence, other_sentences, short, statement
from cushion.certificates.sample_assumptions import sample_assumptions
from cushion.cli.render import table
from cushion.numerics import counted, float_up, percent_up


def deltas(claim: OccamClaim) -> list[dict[str, str]]:
    """What each share of δ pays; the hold-out line is a statement of its own."""
    own = f"that any message of the code breaks its bound; this one's own part is δ·2^-{claim.bits}"
    net = "the net in the file" if claim.transfer is None else "g, the net in the file"
    found = [{"item": f"bound on {net}", "delta": claim.delta, "meaning": own}]
    if (line := claim.transfer) is not None:
        apart = f"more often than their count on {line.m} unlabelled inputs implies"
        meaning = f"that they disagree {apart}"
        found.append({"item": "f and g disagree", "delta": line.delta, "meaning": meaning})
    return found


def bit_positions(claim: OccamClaim) -> list[tuple[int, int]]:
    """First and last bit of each ledger item, from 0; last = first - 1 where one costs nothing."""
    positions, start = [], 0
    for item in claim.ledger:
        positions.append((start, start + item.bits - 1))
        start += item.bits
    return positions


def show_ledger(claim: Claim) -> list[str]:
    """What was paid, as lines of text: bits and δ of one net, bits and nats of a posterior."""
    if isinstance(claim, GaussianClaim):
        payments = [[paid.item, paid.bits, paid.nats, paid.meaning] for paid in claim.ledger]
        return ["What was paid:", table(["paid for", "bits", "nats", "what it is"], payments)]
    if isinstance(claim, PicksClaim):
        counts = [[item.item, item.count, item.meaning] for item in claim.ledger]
        return ["What was paid:", table(["paid for", "count", "what it is"], counts)]
    assert isinstance(claim, OccamClaim)
    rows: list[list[object]] = [
        [item.item, item.bits, f"{first}-{last}" if item.bits else "none", item.meaning]
        for item, (first, last) in zip(claim.ledger, bit_positions(claim), strict=True)
    ]
    rows.append(["total", claim.bits, f"0-{claim.bits - 1}", "the length of the message"])
    about = "the net in the file" if claim.transfer is None else "your net f"
    shares = [list(item.values()) for item in deltas(claim)]
    shares.append(["total", total_delta(claim), f"that the statement about {about} is false"])
    lines = [
        "What was paid in bits:",
        table(["paid for", "bits", "positions", "what it is"], rows),
        "",
        "What was paid in failure probability:",
        table(["paid for", "δ", "the probability"], shares),
    ]
    if claim.holdout is not None:
        own = f"with its own δ = {claim.holdout.delta}"
        lines.append(f"The hold-out line is a statement of its own, {own}.")
    return lines


def show_assumptions(claim: Claim) -> list[str]:
    assumed = (*claim.assumptions, *sample_assumptions(claim))
    return ["What nobody can check, and is assumed:", *(f"- {text}" for text in assumed)]


def show_numbers(claim: Claim) -> list[str]:
    """The statement, every count and fingerprint behind it, and the ledger, as lines of text."""
    if isinstance(claim, HoldoutClaim):
        return _holdout_numbers(claim)
    m = f"{spaced(claim.m)} examples of {claim.data}"
    errors = counted(spaced(claim.errors), "error")
    if isinstance(claim, GaussianClaim):
        counts = (
            f"Q: {errors} in {spaced(claim.draws)} draws on {m}, KL = {claim.kl} nats, δ = "
            f"{claim.delta}, of which {claim.delta_draws} pay for the draws"
        )
    elif isinstance(claim, PicksClaim):
        counts = f"{_who_picked(claim)}: {counted(spaced(claim.picks), 'row')} picked of {m}, "
        counts += f"{errors} on the others, "
        if claim.slack:
            counts += f"{spaced(claim.slack)} more allowed on other machines, "
        counts += f"δ = {claim.delta}"
    else:
        assert isinstance(claim, OccamClaim)
        bits = f"{spaced(claim.bits)} bits, δ = {claim.delta}"
        counts = f"g, the net in the file: {errors} on {m}, {bits}"
    lines = [
        *(sentence(claim), "", f"{counts}: at most {percent_up(claim.bound)}"),
        f"   fingerprint of the examples: {claim.data_fingerprint}",
    ]
    if (line := claim.holdout) is not None:
        missed = f"{counted(spaced(line.errors), 'error')} on {spaced(line.m)} examples"
        lines += [
            f"   held out: {missed}, δ = {line.delta}{_looks(line)}: at most "
            f"{percent_up(line.bound)}",
            f"   fingerprint of the held-out examples: {line.data_fingerprint}",
        ]
    if isinstance(claim, OccamClaim | PicksClaim) and (change := claim.transfer) is not None:
        apart = f"{spaced(change.disagreements)} of {spaced(change.m)} unlabelled inputs"
        gap = f"a gap between its two largest scores of at most {change.tolerance} counts"
        lines += [
            f"f: disagrees with g on {apart} ({gap}), δ = {change.delta}: at most "
            f"{percent_up(change.bound)}; so f errs on at most {percent_up(change.bound_f)}",
            *_step_before(claim),
            f"   fingerprint of f's numbers: {change.net_fingerprint}",
            _program(change.program),
            f"   fingerprint of the unlabelled inputs: {change.data_fingerprint}",
        ]
    return [*lines, "", *show_ledger(claim)]


def _holdout_numbers(claim: HoldoutClaim) -> list[str]:
    """Of f on held-out rows: every line with its share of δ, and what earlier looks were told."""
    shares: list[list[object]] = [["overall", short(claim.delta_all), percent_up(claim.bound)]]
    for one in claim.lines:
        shares.append([f"{one.what} {one.which}", short(one.delta), percent_up(one.bound)])
    if (line := claim.selective) is not None:
        shares.append(["errors of what is answered", short(line.delta), percent_up(line.bound)])
        shares.append(["refusals", short(line.delta_refused), percent_up(line.bound_refused)])
    shares.append(["total", claim.delta, ""])
    return [
        *(statement(claim), count_sentence(claim), *other_sentences(claim), ""),
        f"   fingerprint of the held-out examples: {claim.data_fingerprint}",
        *_step_before(claim),
        f"   fingerprint of f's numbers: {claim.net_fingerprint}",
        _program(claim.program),
        f"   gaps of at most {claim.tolerance} of a row's largest score are ties",
        *("", "What was paid in failure probability:"),
        table(["paid for", "δ", "at most"], shares),
        *(f"{item.item}: {counted(item.bits, 'bit')}; {item.meaning}" for item in claim.ledger),
    ]


def _step_before(claim: Claim) -> list[str]:
    """The constants that stood before f."""
    step = claim.made_with.get("normalise")
    return [f"   f reads {step}, as --normalise says"] if step else []


def _program(found: str | None) -> str:
    if found is None:
        return "   f's program has no fingerprint: another one with the same numbers would pass"
    return f"   fingerprint of f's program: {found}"


def _who_picked(claim: PicksClaim) -> str:
    if claim.fit is not None:
        return f"f, by {claim.fit.function}() with seed {claim.fit.seed}"
    return f"g, by learner {claim.configuration} of the frozen list"


def _looks(line: Holdout) -> str:
    return f" / {line.looks} looks" if isinstance(line, LookedHoldout) and line.looks > 1 else ""


def claim_json(claim: Claim, *, f_confirmed: bool = True) -> dict[str, Any]:
    """The claim with its probabilities as numbers, rounded up.

    `about` names the net that `bound` and `delta` are about: f where the file bounds it (and, in a
    verdict, its disagreements were replayed), else g. errors, m, bits and the hold-out line are
    always about g.
    """
    obj = {**claim.to_json(), "assumed_of_the_sample": list(sample_assumptions(claim))}
    stated = claim.bound
    if isinstance(claim, OccamClaim | PicksClaim) and claim.about == "g":
        obj |= {"bound_g": claim.bound, "delta_g": claim.delta, "bound_f": None}
        if isinstance(claim, OccamClaim):
            obj["deltas"] = deltas(claim)
        if claim.transfer is not None:
            obj["bound_f"] = claim.transfer.bound_f
            if f_confirmed:
                stated = claim.transfer.bound_f
                obj |= {"about": "f", "bound": stated, "delta": total_delta(claim)}
    obj["vacuous"] = stated.startswith("1")
    own = (obj.get("selective"), *obj.get("lines", ()))
    for part in (obj, obj["holdout"], obj.get("transfer"), *obj.get("deltas", ()), *own):
        for key in _PROBABILITIES & set(part or ()):
            if part[key] is not None:
                part[key] = float_up(part[key])
    return obj


_BOUNDS = {"bound", "bound_f", "bound_g", "sample_bound"}
_PROBABILITIES = _BOUNDS | {"delta", "delta_draws", "delta_g", "kl", "tolerance"}
_PROBABILITIES |= {"delta_all", "delta_refused", "bound_refused", "risk"}
