"""The certificates under results/certificates: they verify, keep what was promised, and are told
truly.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import cushion
from cushion.certificates.certificate import sentence, spaced
from cushion.certificates.format.claims import OccamClaim, PicksClaim
from cushion.certificates.format.container import unpack
from cushion.errors import Malformed
from cushion.numerics import percent_up

RECORDS = Path(__file__).parents[2] / "results" / "certificates"
FILES = sorted(RECORDS.glob("*.cushion"))
MOST = {
    "mnist": 0.07,
    "fashion-mnist": 0.23,
    "cifar10": 0.57,
}  # what this project sets out to reach


def claim_of(path: Path) -> OccamClaim:
    claim, _ = unpack(path.read_bytes())
    assert isinstance(claim, OccamClaim)
    return claim


def test_all_three_are_there() -> None:
    assert {path.stem for path in FILES} == set(MOST)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_holds_by_its_message_and_its_arithmetic(path: Path) -> None:
    verdict = cushion.verify(path, None)
    assert (verdict.level, verdict.reason) == (
        "message",
        "the error count was not replayed: no data was given",
    )
    claim = claim_of(path)
    assert float(claim.bound) <= MOST[path.stem]
    assert claim.delta == "0.05"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_log_and_table_say_what_the_file_says(path: Path) -> None:
    claim = claim_of(path)
    log = (RECORDS / f"{path.stem}.log").read_text(encoding="utf-8").splitlines()
    assert log[0].startswith("$ ")
    assert f"certify --data {path.stem} " in log[0]
    assert log[1] == sentence(claim)
    rows = [
        line
        for line in (RECORDS / "README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("|") and "--kind picks" not in line
    ]
    (row,) = (row for row in rows if row.startswith(f"| {path.stem} "))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert claim.holdout is not None
    assert cells[1:5] == [
        percent_up(claim.bound),
        spaced(claim.bits),
        f"{spaced(claim.errors)} of {spaced(claim.m)}",
        percent_up(claim.holdout.bound),
    ]
    assert cells[6] == f"`{log[0][2:]}`"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_pages_quote_them(path: Path) -> None:
    claim = claim_of(path)
    page = (RECORDS.parent.parent / "docs" / "certify.md").read_text(encoding="utf-8")
    errors = f"{spaced(claim.errors)} of {spaced(claim.m)}"
    assert f"| {path.stem} | {percent_up(claim.bound)} | {spaced(claim.bits)} | {errors} |" in page
    names = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
    readme = (RECORDS.parent.parent / "README.md").read_text(encoding="utf-8")
    picks, _ = unpack((RECORDS / "picks" / path.name).read_bytes())
    both = f"{percent_up(picks.bound)} | {percent_up(claim.bound)}"
    assert f"| {names[path.stem]} | {both} |" in readme


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_flipped_byte_is_noticed(path: Path, tmp_path: Path) -> None:
    """Wherever it is: the file carries a digest of itself."""
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), max(1, len(data) // 40)):
        data[at] ^= 1 << (at % 8)
        changed = tmp_path / "changed.cushion"
        changed.write_bytes(data)
        with pytest.raises(Malformed):
            cushion.verify(changed, None)
        data[at] ^= 1 << (at % 8)


@pytest.mark.full
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_is_replayed_on_the_real_data(path: Path) -> None:
    verdict = cushion.verify(path, *cushion.load_pair(path.stem))
    assert verdict.ok
    assert verdict.level == "replay"


def test_the_default_time_reaches_what_the_record_says() -> None:
    """Of `cushion certify --data mnist --kind occam -o x`: at most 15 %."""
    path = RECORDS / "default-time" / "mnist.cushion"
    claim = claim_of(path)
    assert cushion.verify(path, None).level == "message"
    told = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    stated = {name: getattr(claim, name) for name in ("bound", "errors", "m", "bits", "delta")}
    assert stated.items() <= told.items()
    assert float(claim.bound) <= 0.15
    assert claim.made_with["minutes"] == told["minutes"] == 5
    assert "--minutes" not in told["command"]
    assert claim.data_fingerprint == claim_of(RECORDS / "mnist.cushion").data_fingerprint
    for page in (RECORDS / "README.md", RECORDS.parent.parent / "docs" / "certify.md"):
        assert percent_up(claim.bound) in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", sorted((RECORDS.parent / "compress").glob("*.cushion")), ids=lambda path: path.stem
)
def test_compressed_nets_verify_and_the_page_quotes_them(path: Path) -> None:
    assert cushion.verify(path, "digits").ok
    claim = claim_of(path)
    page = (RECORDS.parent.parent / "docs" / "compress.md").read_text(encoding="utf-8")
    errors = f"{spaced(claim.errors)} of {spaced(claim.m)}"
    assert f"| {path.stem} | {percent_up(claim.bound)} | {spaced(claim.bits)} | {errors} |" in page
    log = path.with_suffix(".log").read_text(encoding="utf-8")
    assert f"--method {path.stem} " in log.splitlines()[0]
    assert sentence(claim) in log


PICKS = sorted((RECORDS / "picks").glob("*.cushion"))
MOST_BY_PICKS = {"mnist": 0.026, "fashion-mnist": 0.125, "cifar10": 0.37, "digits": 0.12}


def test_all_samples_have_picks() -> None:
    assert {path.stem for path in PICKS} == set(MOST_BY_PICKS)


@pytest.mark.parametrize("path", PICKS, ids=lambda path: path.stem)
def test_picks_hold_by_their_arithmetic_and_are_told_truly(path: Path) -> None:
    assert cushion.verify(path, None).level == "message"
    claim, _ = unpack(path.read_bytes())
    assert isinstance(claim, PicksClaim)
    assert float(claim.bound) <= MOST_BY_PICKS[path.stem]
    log = path.with_suffix(".log").read_text(encoding="utf-8").splitlines()
    assert log[0].startswith(f"$ OMP_NUM_THREADS=2 cushion certify --data {path.stem} --kind picks")
    assert log[1] == sentence(claim)
    counts = f"{spaced(claim.picks)} + {spaced(claim.errors)} of {spaced(claim.m)}"
    assert claim.holdout is not None
    held = percent_up(claim.holdout.bound)
    row = f"| {path.stem} | {percent_up(claim.bound)} | {counts} | {held} |"
    table = (RECORDS / "README.md").read_text(encoding="utf-8")
    assert row in table
    assert f"`{log[0][2:]}`" in table


def test_picks_of_digits_are_replayed() -> None:
    verdict = cushion.verify(RECORDS / "picks" / "digits.cushion", "digits")
    assert verdict.ok
    assert verdict.replayed == {"sample", "holdout"}


@pytest.mark.full
@pytest.mark.parametrize("path", PICKS, ids=lambda path: path.stem)
def test_picks_are_replayed_on_the_real_data(path: Path) -> None:
    assert cushion.verify(path, path.stem).ok


def test_picks_on_a_backbone_are_told_truly() -> None:
    path = RECORDS / "backbone" / "cifar10.cushion"
    assert cushion.verify(path, None).level == "message"
    claim, _ = unpack(path.read_bytes())
    assert isinstance(claim, PicksClaim)
    assert float(claim.bound) <= 0.13
    assert (claim.choices, claim.data_fingerprint) == (1024, claim_of(FILES[0]).data_fingerprint)
    log = path.with_suffix(".log").read_text(encoding="utf-8").splitlines()
    assert log[1] == sentence(claim)
    table = (RECORDS / "README.md").read_text(encoding="utf-8")
    counts = f"{spaced(claim.picks)} + {spaced(claim.errors)} + {claim.slack} of {spaced(claim.m)}"
    assert f"| cifar10 | {percent_up(claim.bound)} | {counts} |" in table
    assert f"`{log[0][2:]}`" in table
    assert percent_up(claim.bound) in (RECORDS.parents[1] / "README.md").read_text(encoding="utf-8")


OWN = RECORDS / "own-net"


@pytest.mark.parametrize("kind", ["holdout", "fit", "transfer"])
def test_the_three_kinds_about_one_net_are_told_truly(kind: str) -> None:
    level = cushion.verify(OWN / f"{kind}.cushion", None).level
    assert level == "message"
    claim, _ = unpack((OWN / f"{kind}.cushion").read_bytes())
    record = json.loads((OWN / "table.json").read_text(encoding="utf-8"))
    row = next(row for row in record["rows"] if row["kind"] == kind)
    line = getattr(claim, "transfer", None)
    bound = claim.bound if line is None else line.bound_f
    assert row["bound"] == float(bound)
    page = (RECORDS / "README.md").read_text(encoding="utf-8")
    error = f"{100 * row['test_error']:.2f} %"
    assert f"| {percent_up(bound)} | {error} |" in page
    assert f"| {row['seconds']} s, {row['verify_seconds']} s |" in page
    assert record["command"] in page
    counts = {
        "holdout": f"{claim.errors} errors on the other {spaced(claim.m)}",
        "fit": f"{spaced(getattr(claim, 'picks', 0))} picks + {spaced(claim.errors)} errors",
        "transfer": f"disagree on {spaced(line.disagreements)} of {spaced(line.m)}" if line else "",
    }
    assert counts[kind] in page
    assert row["test_error"] <= float(bound)


def test_the_fit_is_the_code_that_lies_beside() -> None:
    claim, _ = unpack((OWN / "fit.cushion").read_bytes())
    assert isinstance(claim, PicksClaim)
    assert claim.fit is not None
    source = hashlib.sha256((OWN / "cnn.py").read_bytes()).hexdigest()
    assert (claim.fit.source, claim.fit.function) == (source, "fit")
