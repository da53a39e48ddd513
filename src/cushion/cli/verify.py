"""cushion verify FILE.cushion --data D [--net NET --unlabelled U]; cushion inspect FILE.cushion"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cushion.certificates.certificate import spaced
from cushion.certificates.format.claims import Claim, OccamClaim
from cushion.certificates.format.container import unpack
from cushion.certificates.sample_assumptions import sample_assumptions
from cushion.cli import options
from cushion.cli.ledger import bit_positions, claim_json, show_assumptions, show_numbers
from cushion.cli.output import answer
from cushion.errors import BadInput, Malformed, remark

if TYPE_CHECKING:
    from cushion.data import Dataset

# what `normalise_words` writes
_STEP = re.compile(r"\(x - \[?([-+.e0-9, ]+)\]?\) / \[?([-+.e0-9, ]+)\]?")
UNLABELLED_HELP = (
    "fresh inputs that were used for nothing else, as in --data (labels may be missing and are "
    "ignored); NAME,split=test means the held-out part of a set"
)


def add_parser(verbs: Any) -> None:
    summary = "recheck a certificate from its bytes and the data; exit code 1 if it does not hold"
    example = "cushion verify digits.cushion --data digits --json -"
    parser = options.add_verb(verbs, "verify", run, summary=summary, example=example)
    parser.add_argument("file", metavar="FILE.cushion")
    options.add_data(parser, required=False)
    options.add_net(parser, "--net")
    options.add_batch(parser)
    held = "held-out rows, as in --data (default: D's held-out part)"
    options.add_word(parser, "--holdout", "H", held)
    looks = "of a hold-out certificate: the ledger that it is a look of"
    options.add_word(parser, "--looks", "H.looks", looks)
    options.add_word(parser, "--unlabelled", "U", f"with --net: {UNLABELLED_HELP}")
    fit = "of a certificate by --fit: train again, and say whether every round is the same here"
    options.add_word(parser, "--fit", "FILE.py:fit", f"{fit}; FILE.py runs")
    own = "of a certificate on features: the net that made them, file.py:factory (its code runs)"
    options.add_word(parser, "--backbone", "NAME", own)
    options.add_word(parser, "--backbone-weights", "W", "and its weights")
    made = "the features of the sample instead, [m, width] bytes, taken as given"
    options.add_word(parser, "--features", "F.npy", made)
    slow = "replay even a certificate that takes more than some minutes"
    options.add_switch(parser, "--slow", slow)
    summary = "show what a certificate states and what each of its bits pays for"
    example = "cushion inspect digits.cushion"
    parser = options.add_verb(verbs, "inspect", inspect, summary=summary, example=example)
    parser.add_argument("file", metavar="FILE.cushion")


def run(args: argparse.Namespace) -> int:
    from cushion.certificates.recheck import check_looks, verify
    from cushion.data import as_dataset, load_pair
    from cushion.data.given import as_held_out
    from cushion.data.inputs import as_inputs
    from cushion.data.registered import reading_through

    options.check_certificate(args.file)
    options.check_net_flags(args)
    if args.net is None and args.unlabelled is not None:
        how = "is replayed with both --net and --unlabelled; give both, or neither"
        raise BadInput(f"the bound on your net f {how}")
    if args.data is None and args.holdout is None:
        raise BadInput("--data is missing; give the examples that the certificate is about")
    check_looks(args.file, args.looks)
    if args.net is None and _is_of_a_net(args.file):
        raise BadInput(f"{args.file} is about the errors of your net; give it with --net")
    data, holdout = None, args.holdout
    with reading_through(args.looks):
        if args.data is None:
            holdout = as_held_out(holdout)
        elif holdout is None:
            data, holdout = load_pair(args.data)
        else:
            data = as_dataset(args.data)
    inputs = None if args.unlabelled is None else as_inputs(args.unlabelled)
    shown = data if args.looks is not None or data is not None else holdout
    model = None if args.net is None else options.load_named_net(args, shown).module
    found = verify(
        args.file,
        data,
        holdout,
        unlabelled=inputs,
        model=model,
        batch=None if args.net is None else args.batch,
        fit=args.fit,
        backbone=args.backbone,
        backbone_weights=args.backbone_weights,
        features=args.features,
        looks=args.looks,
        slow=args.slow,
    )
    notes = found.claim.made_with
    if data is not None and notes != {**notes, **data.found}:
        remark(*_unsaid(data))
    assumed = sample_assumptions(found.claim)
    own = [f"Assumed of this sample: {text}." for text in assumed]
    obj = {**found.to_json(), "assumed_of_the_sample": list(assumed)}
    more = own if found.ok else _step_left_out(args, notes)
    answer(args, obj, *found.lines(), *more)
    return 0 if found.ok else 1


def _is_of_a_net(path: str) -> bool:
    """Whether it is a hold-out certificate; what is none is said where it is read whole."""
    try:
        regular = Path(path).is_file()  # a device has no end
        return regular and unpack(Path(path).read_bytes())[0].kind == "holdout"
    except (Malformed, OSError):
        return False


def _step_left_out(args: argparse.Namespace, notes: Mapping[str, Any]) -> list[str]:
    """That the net was certified behind constants, where it is verified without."""
    step = _STEP.fullmatch(str(notes.get("normalise", "")))
    if step is None or args.net is None or args.normalise is not None:
        return []
    mean, std = (part.replace(", ", ":") for part in step.groups())
    return [f"f was certified with --normalise {mean},{std}; give that too."]


def errors_sentence(claim: Claim, who: str) -> str:
    """The count behind the bound of one net; with a backbone it has some slack."""
    most = "" if getattr(claim, "features", None) is None else "at most "
    return f"{who} errs on {most}{spaced(claim.errors)} of these {spaced(claim.m)} examples itself."


def _unsaid(data: Dataset) -> list[str]:
    """What was found in the data, but for what the verdict itself warns of."""
    return [
        doubt
        for what, doubt in zip(data.found, data.doubts, strict=True)
        if what != "repeated_rows"
    ]


def inspect(args: argparse.Namespace) -> int:
    from cushion.certificates.recheck import check

    options.check_certificate(args.file)
    verdict = check(args.file)
    claim, _ = unpack(Path(args.file).read_bytes())
    checked = verdict.level == "message"
    obj = {"ok": checked, "level": verdict.level, "reason": verdict.reason, **claim_json(claim)}
    if isinstance(claim, OccamClaim) and checked:
        for item, (first, last) in zip(obj["ledger"], bit_positions(claim), strict=True):
            item |= {"first_bit": first, "last_bit": last}
    found = "Checked: the counts imply the bound, and the message decodes to the last bit."
    lines = [
        found if checked else f"NOT OK: {verdict.reason}",
        "Not checked here: what was counted on data. Run `cushion verify` with the data.",
    ]
    answer(args, obj, *show_numbers(claim), "", *show_assumptions(claim), "", *lines)
    return 0 if checked else 1
