"""The ledger of looks: an analyst who climbs, processes that die or meet, altered files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.holdout_cases import chained, rows
from tests.simulations import few_and_many

import cushion_verify
from cushion.certificates.format.holdout_claim import Look
from cushion.certificates.holdout import grid, looks
from cushion.certificates.holdout.counting import scored
from cushion.certificates.holdout.ledger import Request, read_ledger
from cushion.certificates.holdout.lines import Asked, Told, bound_of, tell
from cushion.certificates.holdout.looks import holding, open_ledger
from cushion.certificates.holdout.shares import share_delta
from cushion.data import as_dataset, registered
from cushion.errors import BadInput, CushionError, Malformed

DELTA = Decimal("0.05")
ONE, OTHER = "1" * 64, "2" * 64
PLAIN = Request(ONE, None, "0.0001", Asked())


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUSHION_DATA", str(tmp_path / "store"))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "H.looks"
    open_ledger(path, rows(300), DELTA, None)
    return path


# ---- the theorem


def climb(n: int, looks: int, rng: np.random.Generator, *, charged: bool) -> bool:
    """Whether an analyst ever gets a false bound. Labels are fair coins, so that no net errs on
    less than half of new examples; each look tries the best net so far with a quarter of its
    answers drawn anew, and keeps what the held-out rows say is better.
    """
    y = rng.integers(0, 2, n)
    shares = share_delta(DELTA, 0, False, False)
    best_net = rng.integers(0, 2, n)
    best, bits = None, 0
    for number in range(1, looks + 1):
        net = np.where(rng.random(n) < 0.25, rng.integers(0, 2, n), best_net)
        look = Look(number, bits, "")
        answers = scored(np.eye(2)[net], y, "0.0001")
        told = tell(answers, Asked(), 2, shares, look, best)
        if told is None:
            bits += grid.NO_BETTER_BITS
            continue
        bits += told.bits(n, best)
        best, best_net = told.errors, net
        if Decimal(bound_of(best, n, DELTA, look if charged else None)) < Decimal("0.5"):
            return True
    return False


@few_and_many("runs", 25, 500)
def test_an_analyst_who_climbs_the_leaderboard_never_gets_a_false_bound(runs: int) -> None:
    rng = np.random.default_rng(0)
    false = sum(climb(1000, 300, rng, charged=True) for _ in range(runs))
    assert false <= 0.05 * runs + 3 * (0.05 * runs) ** 0.5


def test_without_the_charge_the_same_analyst_does() -> None:
    rng = np.random.default_rng(0)
    assert sum(climb(1000, 300, rng, charged=False) for _ in range(10)) >= 9


def test_the_price_of_the_twelfth_look_is_that_of_one_count_and_ten_failures() -> None:
    """n = 10 000, 5 % error: 27.3 bits in all, where a hundred even answers would be 80."""
    bits = grid.count_bits(10_000, None, 500) + 10 * grid.NO_BETTER_BITS
    assert bits == 20
    assert bound_of(500, 10_000, DELTA, Look(12, bits, "")) < "0.0650"
    even = bound_of(500, 10_000, DELTA, Look(12, 74, ""))
    assert even > "0.0750"


# ---- the file


def ask(path: Path, request: Request, told: Told | None, said: str) -> None:
    with holding(path) as held:
        held.ask(request)
        held.answer(told, said)


def test_looks_and_answers_are_read_back_and_pay_what_was_told_before(ledger: Path) -> None:
    asked = Asked(per_class=True, top_k=2, selective="0.01")
    ask(ledger, PLAIN, None, "failed")
    ask(ledger, PLAIN, Told(60), "counted")
    ask(ledger, PLAIN, None, "no better")
    ask(ledger, PLAIN, None, "failed")
    ask(ledger, Request(OTHER, ONE, "0.03", asked), Told(55, (1, 2, 3, 4), (7, 972)), "counted")
    found = read_ledger(ledger)
    first = 1 + (len(grid.counts(300)) - 1).bit_length()
    lines = 4 * 7 + 8 + 7
    costs = [1, first, 1, 2, 2 + 5 + lines]
    assert [one.bits for one in found.past] == costs
    assert [one.look.bits_before for one in found.past] == [sum(costs[:k]) for k in range(5)]
    assert [one.look.number for one in found.past] == [1, 2, 3, 4, 5]
    assert (found.bits, found.best, found.next_number) == (sum(costs), 55, 6)
    assert found.past[4].request.asked == asked
    opening, theirs = cushion_verify.read_looks(ledger.read_bytes())
    assert [before for _, before in theirs] == [one.look.bits_before for one in found.past]
    assert (opening.m, opening.classes) == (300, 3)


def test_the_running_hash_is_over_all_lines_before(ledger: Path) -> None:
    ask(ledger, PLAIN, Told(60), "counted")
    chain = ""
    for line in ledger.read_text().splitlines():
        obj = json.loads(line)
        stated = obj.pop("chain")
        text = json.dumps(obj, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        chain = hashlib.sha256(f"{chain}\n{text}".encode()).hexdigest()
        assert stated == chain
    assert read_ledger(ledger).chains[-1] == chain


def test_a_look_without_an_answer_counts_as_failed(ledger: Path) -> None:
    ask(ledger, PLAIN, Told(60), "counted")
    before = read_ledger(ledger).bits
    with holding(ledger) as held:
        held.ask(PLAIN)
    found = read_ledger(ledger)
    assert (found.bits, found.next_number) == (before + 2, 3)
    assert found.waiting is not None
    ask(ledger, Request(OTHER, None, "0.0001", Asked()), None, "no better")
    assert [one.said for one in read_ledger(ledger).past] == ["counted", "failed", "no better"]


def test_kill_9_between_look_and_answer_leaves_a_look_that_failed(
    ledger: Path, tmp_path: Path
) -> None:
    code = (
        "import os, signal\n"
        "from cushion.certificates.holdout.looks import holding\n"
        "from cushion.certificates.holdout.ledger import Request\n"
        "from cushion.certificates.holdout.lines import Asked\n"
        f"with holding({str(ledger)!r}) as held:\n"
        f"    held.ask(Request({ONE!r}, None, '0.0001', Asked()))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert read_ledger(ledger).next_number == 2
    ask(ledger, PLAIN, Told(60), "counted")
    found = read_ledger(ledger)
    assert [one.said for one in found.past] == ["failed", "counted"]
    assert found.past[1].look.bits_before == 1


def test_two_processes_never_take_the_same_look(ledger: Path) -> None:
    """Eight processes ask as fast as they can: every look is there once, each with its answer."""
    code = (
        "import sys\n"
        "from cushion.certificates.holdout.looks import holding\n"
        "from cushion.certificates.holdout.ledger import Request\n"
        "from cushion.certificates.holdout.lines import Asked\n"
        "from cushion.errors import BadInput\n"
        "made = 0\n"
        "while made < 5:\n"
        "    try:\n"
        f"        with holding({str(ledger)!r}) as held:\n"
        "            held.ask(Request('3' * 64, None, '0.0001', Asked()))\n"
        "            held.answer(None, 'failed')\n"
        "        made += 1\n"
        "    except BadInput as refused:\n"
        "        assert 'another process' in str(refused), refused\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [one.wait(60) for one in started] == [0] * 4
    assert [one.look.number for one in read_ledger(ledger).past] == list(range(1, 21))


def test_while_one_process_looks_another_is_refused(ledger: Path) -> None:
    with holding(ledger), pytest.raises(BadInput, match="another process is looking"):
        holding(ledger).__enter__()


def test_a_last_line_that_was_cut_tells_nobody_anything_and_is_dropped(ledger: Path) -> None:
    ask(ledger, PLAIN, Told(60), "counted")
    whole = ledger.read_bytes()
    with holding(ledger) as held:
        held.ask(PLAIN)
    torn = ledger.read_bytes()
    for cut in (len(whole) + 1, len(torn) - 1):
        ledger.write_bytes(torn[:cut])
        assert read_ledger(ledger).next_number == 2
    os.truncate(ledger, len(whole) + 5)
    # the store has seen the look: a ledger without it was set back
    with pytest.raises(BadInput, match="set back or altered"):
        ask(ledger, PLAIN, None, "failed")


def test_a_ledger_that_was_set_back_or_copied_is_refused(ledger: Path, tmp_path: Path) -> None:
    ask(ledger, PLAIN, Told(60), "counted")
    older = ledger.read_bytes()
    ask(ledger, PLAIN, None, "no better")
    ledger.write_bytes(older)
    with pytest.raises(BadInput, match="set back or altered"):
        ask(ledger, PLAIN, None, "no better")
    copy = tmp_path / "copy.looks"
    shutil.copy(ledger, copy)
    with pytest.raises(BadInput, match=r"the ledger of these rows is .*H\.looks"):
        ask(copy, PLAIN, None, "no better")


def test_a_ledger_that_is_moved_and_copied_during_a_look_does_not_fork(
    ledger: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved.looks"
    with holding(ledger) as held:
        held.ask(PLAIN)
        ledger.rename(moved)
        shutil.copy(moved, ledger)
        for path in (ledger, moved):
            with pytest.raises(BadInput, match="another process is looking"):
                holding(path).__enter__()
        held.answer(Told(60), "counted")
    with pytest.raises(BadInput, match="set back or altered"):  # the copy has no answer
        ask(ledger, PLAIN, None, "no better")
    ledger.unlink()
    ask(moved, PLAIN, None, "no better")
    assert [one.said for one in read_ledger(moved).past] == ["counted", "no better"]


@pytest.mark.parametrize("step", ["ask", "answer", "close"])
def test_where_the_register_knows_another_chain_nothing_is_written_or_told(
    ledger: Path, step: str
) -> None:
    """Two machines that share the store, but not their locks."""
    known = registered.registered(rows(300).fingerprint)
    assert known is not None
    with holding(ledger) as held:
        if step == "answer":
            held.ask(PLAIN)
        before = ledger.read_bytes()
        registered.note(registered.Registered(**{**vars(known), "chain": "0" * 64}))
        steps = {"ask": lambda: held.ask(PLAIN), "close": held.close}
        with pytest.raises(BadInput, match=r"nothing is written or told; go on with .*H\.looks$"):
            steps.get(step, lambda: held.answer(Told(60), "counted"))()
        assert ledger.read_bytes() == before
    later = registered.registered(rows(300).fingerprint)
    assert later is not None
    assert later.chain == "0" * 64


KILLED = """
import os, signal, sys
from decimal import Decimal
from tests.holdout_cases import rows
from cushion.certificates.holdout import looks
looks.write_whole = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
looks.open_ledger("H.looks", rows(30), Decimal("0.05"), None)
"""


def test_open_that_is_killed_leaves_the_rows_kept_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.chdir(tmp_path)
    paths = {**os.environ, "PYTHONPATH": str(root)}
    assert subprocess.run([sys.executable, "-c", KILLED], env=paths).returncode == -signal.SIGKILL
    assert not (tmp_path / "H.looks").exists()
    with pytest.raises(BadInput, match="if it was never written, open it again"):
        as_dataset(rows(30))
    part = rows(30).select(np.arange(10), "part")
    with pytest.raises(BadInput, match="which is not there; open it again with the rows"):
        open_ledger("part.looks", part, DELTA, None)
    open_ledger("again.looks", rows(30), Decimal("0.04"), None)
    ask(Path("again.looks"), PLAIN, Told(3), "counted")
    Path("again.looks").unlink()  # with the look in it
    with pytest.raises(BadInput, match="have a ledger of looks already"):
        open_ledger("H.looks", rows(30), DELTA, None)


def test_rows_are_free_where_their_ledger_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise BadInput("H.looks cannot be written (no space)")

    monkeypatch.setattr(looks, "write_whole", full)
    with pytest.raises(BadInput, match="no space"):
        open_ledger(tmp_path / "H.looks", rows(30), DELTA, None)
    assert as_dataset(rows(30)) is not None


def test_a_ledger_that_was_moved_goes_on(ledger: Path, tmp_path: Path) -> None:
    ask(ledger, PLAIN, Told(60), "counted")
    moved = ledger.rename(tmp_path / "moved.looks")
    ask(moved, PLAIN, None, "no better")
    known = registered.registered(rows(300).fingerprint)
    assert known is not None
    assert known.ledger == moved.resolve()


def test_rows_have_one_ledger(ledger: Path, tmp_path: Path) -> None:
    again = rows(300)
    for part in (again, again.select(np.arange(10)[::-1], "some, in another order")):
        with pytest.raises(BadInput, match="have a ledger of looks already"):
            open_ledger(tmp_path / "again.looks", part, DELTA, None)
    assert not (tmp_path / "again.looks").exists()
    with holding(ledger) as held:
        held.close()
    with pytest.raises(BadInput, match="have a ledger of looks already"):
        open_ledger(tmp_path / "again.looks", again, DELTA, None)
    with pytest.raises(BadInput, match="exists"):
        open_ledger(ledger, rows(300, first=1), DELTA, None)


def test_a_closed_ledger_takes_no_more_looks(ledger: Path) -> None:
    with holding(ledger) as held:
        held.ask(PLAIN)
    with holding(ledger) as held:
        held.close()
    found = read_ledger(ledger)
    assert found.closed
    assert [one.said for one in found.past] == ["failed"]
    with pytest.raises(BadInput, match="is closed"):
        ask(ledger, PLAIN, None, "failed")


def test_nothing_stands_behind_the_line_that_closed_a_ledger(full: Path) -> None:
    objects = lines_of(full)
    again = {**objects[1], "look": 4}
    for more in (again, {"closed": True}):
        full.write_bytes(chained([*objects, {"closed": True}, more]))
        with pytest.raises(Malformed, match="behind the line that closed"):
            read_ledger(full)
        with pytest.raises(cushion_verify.BadInput, match="line 9 of the ledger"):
            cushion_verify.read_looks(full.read_bytes())


# ---- damaged and hostile files


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def full(ledger: Path) -> Path:
    asked = Asked(per_class=True, top_k=2, selective="0.01")
    ask(ledger, PLAIN, Told(60), "counted")
    ask(ledger, PLAIN, None, "no better")
    ask(ledger, Request(OTHER, ONE, "0.03", asked), Told(55, (1, 2, 3, 4), (7, 972)), "counted")
    return ledger


def test_1_does_not_close_a_ledger(full: Path) -> None:
    full.write_bytes(chained([*lines_of(full), {"closed": 1}]))
    with pytest.raises(Malformed, match=r"line 8: it is not the line of look 4"):
        read_ledger(full)


@pytest.mark.parametrize("mark", ["\n", "\x1b", "\x7f", "\u061c", "\u2028", "\u202e", "\u2069"])
def test_the_name_in_a_ledger_forges_no_line(full: Path, tmp_path: Path, mark: str) -> None:
    first, *rest = lines_of(full)
    full.write_bytes(chained([{**first, "data": f"a{mark}b"}, *rest]))
    with pytest.raises(Malformed, match="line 1: it is not the first line"):
        read_ledger(full)
    with pytest.raises(BadInput, match=r"^a\\.*b: a ledger cannot hold this name") as refused:
        open_ledger(tmp_path / "n.looks", rows(9, name=f"a{mark}b", first=7), DELTA, None)
    assert mark not in str(refused.value)


def test_every_changed_byte_of_a_ledger_is_noticed(full: Path) -> None:
    content = full.read_bytes()
    for at in range(0, len(content) - 1, 7):
        damaged = bytearray(content)
        damaged[at] ^= 1
        full.write_bytes(bytes(damaged))
        with pytest.raises(CushionError, match=r"H\.looks: "):
            read_ledger(full)
        with pytest.raises(cushion_verify.BadInput, match="ledger of looks"):
            cushion_verify.read_looks(bytes(damaged))


def test_a_line_in_another_spelling_is_refused(full: Path) -> None:
    """The running hash is of the canonical text, so that alone would not notice."""
    content = full.read_bytes()
    for spelt in (content.replace(b'{"answer"', b'{ "answer"', 1), content.replace(b"\n", b"\r\n")):
        full.write_bytes(spelt)
        with pytest.raises(Malformed, match=r"canonical|not JSON"):
            read_ledger(full)
        with pytest.raises(cushion_verify.BadInput, match="damaged"):
            cushion_verify.read_looks(spelt)


@pytest.mark.parametrize("drop", range(7))
def test_a_line_that_is_missing_is_noticed_even_with_a_new_chain(full: Path, drop: int) -> None:
    objects = lines_of(full)
    full.write_bytes(chained(objects[:drop] + objects[drop + 1 :]))
    if drop == 6:  # the last answer: a look that waits for it
        assert read_ledger(full).waiting is not None
        return
    with pytest.raises(Malformed):
        read_ledger(full)
    with pytest.raises(cushion_verify.BadInput):
        cushion_verify.read_looks(full.read_bytes())


HOSTILE: list[tuple[int, str, Any]] = [
    *[(0, "looks", 2), (0, "m", 0), (0, "m", 10**8), (0, "m", True), (0, "classes", 1)],
    *[(0, "delta", "0.6"), (0, "delta", 0.05), (0, "delta", "0.0"), (0, "data_fingerprint", "x")],
    *[(1, "look", 2), (1, "look", "1"), (1, "net_fingerprint", None), (1, "program", "")],
    *[(1, "tolerance", "0.0"), (1, "tolerance", "-1.0"), (1, "per_class", 1), (1, "top_k", 0)],
    *[(1, "selective", "1.0"), (1, "selective", 0.1), (1, "extra", None)],
    *[(2, "answer", 2), (2, "said", "fine"), (2, "said", "failed"), (2, "said", "no better")],
    *[(2, "errors", None), (2, "errors", 101), (2, "errors", 301), (2, "errors", True)],
    *[(2, "bits", 1), (2, "bits", 0), (2, "rates", [1]), (2, "rates", None), (2, "chosen", [1, 1])],
    *[(4, "errors", 60), (4, "bits", 2), (4, "said", "failed"), (4, "said", "counted")],
    *[
        (6, "errors", 60),
        (6, "errors", 65),
        (6, "errors", 100),
        (6, "rates", [1, 2, 3]),
        (6, "rates", [1, 2, 3, 21]),
    ],
    *[(6, "rates", [1, 2, 3, True]), (6, "chosen", None), (6, "chosen", [142, 972])],
    *[(6, "chosen", [-1, 972]), (6, "chosen", [None, 972]), (6, "chosen", [7, 21])],
    *[(6, "chosen", [7]), (6, "chosen", "7"), (6, "bits", 51)],
]


@pytest.mark.parametrize(("line", "key", "value"), HOSTILE)
def test_a_ledger_with_a_value_that_cannot_be_is_refused_in_one_sentence(
    full: Path, line: int, key: str, value: Any
) -> None:
    objects = lines_of(full)
    objects[line][key] = value
    full.write_bytes(chained(objects))
    with pytest.raises(Malformed, match=rf"^[^\n]*H\.looks: line {line + 1}: [^\n]*$"):
        read_ledger(full)
    with pytest.raises(cushion_verify.BadInput, match=f"^line {line + 1} of the ledger"):
        cushion_verify.read_looks(full.read_bytes())


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{}\n", b"[]\n", b"null\n", b"\xff\n", b"[" * 10**5 + b"\n", b"{}"]
)
def test_what_is_no_ledger_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "no.looks"
    path.write_bytes(content)
    with pytest.raises(Malformed, match=r"no\.looks"):
        read_ledger(path)
    with pytest.raises(cushion_verify.BadInput, match="ledger of looks"):
        cushion_verify.read_looks(content)


def test_a_missing_ledger_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path, fault in ((tmp_path / "none", "does not exist; open"), (tmp_path, "is a folder")):
        with pytest.raises(BadInput, match=fault):
            read_ledger(path)
        with pytest.raises(BadInput, match=fault):
            holding(path).__enter__()
