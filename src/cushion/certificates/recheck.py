"""verify() as Python users have it: sources by name or whatever holds data, f as a model.

What needs torch is computed here; the verdict is that of `cushion_verify`, one file that knows
nothing of cushion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import cushion_verify
from cushion.certificates.format.claims import Answers
from cushion.certificates.holdout.looks import check_program
from cushion.certificates.rerun import features_again, rounds_again
from cushion.data import AnyData, Dataset, as_dataset, load_pair
from cushion.data.given import as_held_out
from cushion.data.inputs import Inputs, as_inputs
from cushion.data.registered import reading_through, registered
from cushion.errors import BadInput, Malformed
from cushion.progress import working
from cushion_verify import Given, Verdict

if TYPE_CHECKING:
    from cushion.certificates.picks.fit import Function
    from cushion.nets.normalise import Normalise

Answering = Callable[[Inputs], Answers]


def verify(
    path: str | Path,
    data: AnyData | None = None,
    holdout: AnyData | None = None,
    *,
    model: Any = None,
    unlabelled: Inputs | AnyData | None = None,
    answering: Answering | None = None,
    normalise: Normalise | None = None,
    device: str | None = None,
    batch: int | None = None,
    fit: str | Function | None = None,
    backbone: str | None = None,
    backbone_weights: str | None = None,
    features: str | Path | NDArray[np.uint8] | None = None,
    looks: str | Path | None = None,
    slow: bool = False,
) -> Verdict:
    """Check the certificate at `path` against the sample it is about, as `cushion_verify` does.

    The name of a source stands for its sample and its held-out part. `model` and `unlabelled`
    replay a bound on the user's own net f: f, and the fresh inputs of the certificate. f answers on
    a copy on `device`, `batch` rows at a time, behind `normalise`, as in `certify`. `answering`
    instead of `model` is a function that gives f's answers, wherever they come from.

    `fit` replays the rounds of the user's own training; where they first differ is said. The
    features of a backbone are recomputed, of an installed package by its name, else with `backbone`
    (file.py:factory) and `backbone_weights`; or `features` of the sample, [m, width] bytes or an
    .npy file of them, are taken as given.

    A hold-out certificate is about `holdout`, the held-out part of a source, or `data` where there
    is neither; `looks` is the ledger of these rows, and opens them for a look of it alone.
    """
    if model is None and any(one is not None for one in (normalise, device, batch)):
        raise BadInput(
            "`normalise`, `device` and `batch` say how your net answers; give `model` as well"
        )
    check_looks(path, looks)
    with _refusals():
        claim = cushion_verify.read(path).claim
        ledger = None if looks is None else cushion_verify.read_file(looks)
    rows = registered(claim.data_fingerprint) if claim.kind == "holdout" else None
    if rows is not None and not rows.closed and looks is None:
        if claim.look is None:
            how = (
                f"the ledger {rows.ledger} has its rows now; it can be verified when that is closed"
            )
            raise BadInput(f"{path} was made without a ledger, and {how}")
        raise BadInput(f"{path} is about rows under the ledger {rows.ledger}; give that as `looks`")
    with reading_through(looks):
        if isinstance(data, (str, PathLike)) and holdout is None:
            data, holdout = load_pair(data)
        sample = None if data is None else as_dataset(data)
        held = None if holdout is None else as_held_out(holdout, like=sample)
    known = held if sample is None else sample  # numbers the classes
    if model is not None:
        if answering is not None:
            raise BadInput("`model` and `answering` both say what f answers; give one of them")
        if known is None:
            raise BadInput("`model` is replayed beside the sample; give `data` as well")
        look = None if looks is None else claim
        answering = _answering(model, known, normalise, device, batch, look)
    if claim.kind == "holdout":
        sample, held = sample if held is None else held, None
    given = {**_rows(sample, held), "looks": ledger}
    if unlabelled is not None or answering is not None:
        given |= _about_f(claim, sample, held, unlabelled, answering)
    if sample is not None:
        named = (backbone, backbone_weights)
        given |= features_again(claim, sample, held, given.get("unlabelled"), features, named)
    again = None
    if fit is None and sample is not None and getattr(claim, "fit", None) is not None:
        which = f"file.py:{claim.fit.function}"
        raise BadInput(f"{path} is about a net of a training; give that as `fit` ({which})")
    if fit is not None:
        if sample is None:
            raise BadInput("`fit` is replayed on the sample; give `data` as well")
        check(path)  # what is malformed is said before the training
        again = rounds_again(path, fit, sample, held)
        given |= again.given
    verdict = check(path, Given(**given), slow=slow)
    if again is not None:
        again.tell(verdict)
    if rows is not None and not rows.closed:
        verdict.warnings.clear()  # what may be told of rows under a ledger is in the ledger
    return verdict


def check_looks(path: str | Path, looks: str | Path | None) -> None:
    """BadInput unless the certificate at `path` is a look, where a ledger is given; no row is read.

    Of any other a count on these rows would be an answer that no look pays for.
    """
    if looks is None:
        return
    with _refusals():
        claim = cushion_verify.read(path).claim
    if claim.kind != "holdout" or claim.look is None:
        raise BadInput(f"{path} is not a look at rows under a ledger; leave `looks` out")
    check_program(claim.program)


def check(path: str | Path, given: Given | None = None, *, slow: bool = False) -> Verdict:
    """`cushion_verify.check` with cushion's own refusals, and a line that shows how far it is."""
    with (
        _refusals(),
        # it has threads of its own: those of the matrix library would wait for each other
        threadpool_limits(1, user_api="blas"),
        working("counting errors", 1.0) as bar,
    ):
        return cushion_verify.check(
            path,
            given,
            slow=slow,
            progress=lambda done, total: bar.reach(max(bar.done, done / total)),
        )


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except cushion_verify.BadInput as problem:
        raise BadInput(str(problem)) from None
    except cushion_verify.Malformed as problem:
        raise Malformed(str(problem)) from None


def _rows(sample: Dataset | None, held: Dataset | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if sample is not None:
        found |= {"x": sample.x, "y": sample.y}
    if held is not None:
        found |= {"holdout_x": held.x, "holdout_y": held.y}
    return found


def _about_f(
    claim: Any,
    sample: Dataset | None,
    held: Dataset | None,
    unlabelled: Inputs | AnyData | None,
    answering: Answering | None,
) -> dict[str, Any]:
    """f's answers on the rows that this kind of certificate is about: its own examples, or the
    unlabelled inputs and, to see that these are its answers, the held-out examples.
    """
    if claim.kind == "holdout":
        if unlabelled is not None:
            raise BadInput("this certificate needs no unlabelled inputs; leave `unlabelled` out")
        rows = {} if sample is None else {"answers": Inputs(sample.name, sample.x)}
    else:
        if unlabelled is None or answering is None:
            raise BadInput("to replay the bound on f give both `model` and `unlabelled`")
        if getattr(claim, "transfer", None) is None:
            raise BadInput("this certificate says nothing about a net f; leave `model` out")
        rows = {"answers": as_inputs(unlabelled)}
        if held is not None:
            rows["holdout_answers"] = Inputs(held.name, held.x)
    found: dict[str, Any] = {}
    if unlabelled is not None:
        found["unlabelled"] = rows["answers"].x
    for name, inputs in rows.items():
        assert answering is not None
        said = answering(inputs)
        found |= {name: _scores(said), "net": said.net_fingerprint, "program": said.program}
    return found | {"recomputed": ("answers",)}


def _scores(said: Answers) -> NDArray[np.floating[Any]]:
    """[n, classes] whose largest are the answers, by their gaps; f's own where they are known."""
    if said.scores is not None:
        return said.scores
    made = np.zeros((len(said.classes), max(2, int(said.classes.max()) + 1)))
    made[np.arange(len(made)), said.classes] = np.nan_to_num(said.gaps, nan=0.0)
    return made


def _answering(
    model: Any,
    sample: Dataset,
    normalise: Normalise | None,
    device: str | None,
    batch: int | None,
    look: Any,
) -> Answering:
    """What the net says, its classes numbered as the sample numbers them.

    look: a claim about rows under a ledger. Another net is not asked about them, and how one failed
    is not told: both would be answers that no look pays for.
    """
    from cushion.certificates.answers import answer, fingerprint_net  # torch is for nets alone
    from cushion.nets.batch_size import batches
    from cushion.nets.classifier import behind
    from cushion.nets.devices import placed
    from cushion.nets.program import program_fingerprint

    net = placed(behind(model, normalise, sample.shape), device)

    def answering(inputs: Inputs) -> Answers:
        with batches(batch):
            return answer(net, inputs.x, classes=sample.classes, labels=sample.labels)

    def of_look(inputs: Inputs) -> Answers:
        identity = (fingerprint_net(net), program_fingerprint(net))
        check_program(identity[1])
        if identity != (look.net_fingerprint, look.program):
            none = np.zeros(len(inputs))
            return Answers(identity[0], none.astype(np.int64), none, identity[1])
        try:
            return answering(inputs)
        except Exception:
            said = "your net failed on the held-out rows, and how must not be told"
            raise BadInput(f"{said}; this is not the net of the certificate") from None

    return answering if look is None else of_look
