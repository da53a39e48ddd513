"""A run of the fuzzer: mutants of the corpus, each verified in this process under limits of time
and memory.
"""

from __future__ import annotations

import json
import random
import resource
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import cushion_verify
from cushion.certificates.format.container import unpack
from cushion.certificates.recheck import verify
from cushion.errors import BadInput, Malformed
from fuzz.mutants import Mutant, mutant_of
from fuzz.originals import Original
from fuzz.recheck import falsehood, prefix_fault

MOST_SECONDS = 60.0  # of processor time for one file; the slowest is reported
MOST_MEMORY = 200 * 2**20  # beyond what the process has before the first mutant
_LOG_EVERY = 10_000


@dataclass
class Summary:
    """What became of the mutants; `faults` must be empty."""

    seed: int
    files: int = 0
    malformed: int = 0
    bad_input: int = 0
    not_ok: int = 0
    accepted_and_true: int = 0
    levels: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    slowest_file: str = ""
    peak_megabytes: float = 0.0
    files_per_second: float = 0.0
    files_per_processor_second: float = 0.0
    faults: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(vars(self), ensure_ascii=False)


class TooSlow(Exception):
    """A file took longer than MOST_SECONDS."""


def run(
    originals: list[Original],
    files: int,
    seed: int,
    first: int,
    keep: Path,
    say: Callable[[str], None],
) -> Summary:
    """Verify mutants first..first+files-1 of a seed; each depends on (seed, its number) alone, so
    runs can be resumed.

    A mutant that breaks a promise is written to `keep`.
    """
    summary = Summary(seed)
    messages: set[tuple[int, bytes]] = set()
    contents = [original.content for original in originals]
    with tempfile.TemporaryDirectory(
        dir="/dev/shm" if Path("/dev/shm").is_dir() else None
    ) as folder:
        path = Path(folder) / "mutant.cushion"
        for original in originals:
            # also loads what is loaded on first use, before memory is limited
            whole = Mutant(original.content, original.looks)
            path.write_bytes(whole.content)
            assert verified(original, whole, path).ok, original.name
            if fault := false(original, whole):
                raise AssertionError(f"{original.name}: {fault}")
        signal.signal(signal.SIGPROF, _stop)
        before, begin, busy = _peak(), time.monotonic(), time.process_time()
        for number in range(first, first + files):
            rng = random.Random(f"{seed} {number}")
            original = rng.choice(originals)
            mutant = mutant_of(original, contents, rng)
            path.write_bytes(mutant.content)
            fault, spent = _judge(original, path, mutant, summary, messages)
            if spent > summary.slowest_seconds:
                summary.slowest_seconds, summary.slowest_file = (
                    round(spent, 3),
                    f"{original.name} {seed} {number}",
                )
            if fault:
                summary.faults.append(f"{original.name} {seed} {number}: {fault}")
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}-{number}.cushion").write_bytes(mutant.content)
                if mutant.looks is not None:
                    (keep / f"{seed}-{number}.looks").write_bytes(mutant.looks)
            summary.files += 1
            if summary.files % _LOG_EVERY == 0 or summary.files == files:
                summary.files_per_second = round(summary.files / (time.monotonic() - begin), 1)
                summary.files_per_processor_second = round(
                    summary.files / (time.process_time() - busy), 1
                )
                summary.peak_megabytes = round((_peak() - before) / 2**20, 1)
                say(f"fuzz: {summary.to_json()}")
    if fault := prefix_fault(messages):
        summary.faults.append(fault)
    return summary


def _judge(
    original: Original,
    path: Path,
    mutant: Mutant,
    summary: Summary,
    messages: set[tuple[int, bytes]],
) -> tuple[str, float]:
    """Verify one mutant and count its fate: what is wrong with the verifier, or nothing, and its
    seconds.
    """
    verdict, fault = None, ""
    started = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    _limit(MOST_MEMORY)
    try:
        verdict = verified(original, mutant, path)
    except (Malformed, cushion_verify.Malformed):
        summary.malformed += 1
    except (BadInput, cushion_verify.BadInput):
        summary.bad_input += 1
    except TooSlow:
        fault = f"took more than {MOST_SECONDS} s"
    except MemoryError:
        fault = f"took more than {MOST_MEMORY >> 20} MB"
    except Exception as problem:  # anything else is what the fuzzer is looking for
        fault = f"crashed with {type(problem).__name__}: {problem}"
    finally:
        _limit(None)
        signal.setitimer(signal.ITIMER_PROF, 0)
    spent = time.process_time() - started
    return fault if verdict is None else _count(verdict, original, mutant, summary, messages), spent


def _count(
    verdict: Any,
    original: Original,
    mutant: Mutant,
    summary: Summary,
    messages: set[tuple[int, bytes]],
) -> str:
    """Count what the verifier said; why it is wrong, if it is."""
    summary.levels[verdict.level] += 1
    if verdict.level in ("message", "replay") and verdict.claim.kind == "occam":
        messages.add((verdict.claim.bits, unpack(mutant.content)[1]))  # type: ignore[attr-defined]
    if not verdict.ok:
        summary.not_ok += 1
        return ""
    try:
        fault = false(original, mutant)
    except Exception as problem:  # what is accepted can be read
        fault = f"its recheck crashed with {type(problem).__name__}: {problem}"
    if fault:
        return f"accepted although {fault}"
    summary.accepted_and_true += 1
    return ""


def verified(original: Original, mutant: Mutant, path: Path) -> Any:
    """The verdict on a mutant, which stands at `path`, with the data of its original."""
    if original.arrays is not None:
        return cushion_verify.check(
            path, cushion_verify.Given(**original.arrays, looks=mutant.looks)
        )
    claims_f = original.answering is not None and b'"transfer":{' in mutant.content
    return verify(
        path,
        original.sample,
        original.holdout,
        unlabelled=original.unlabelled if claims_f else None,
        answering=original.answering if claims_f else None,
    )


def false(original: Original, mutant: Mutant) -> str:
    """Why an accepted mutant is false; empty if it is true."""
    held, arrays = original.holdout, original.arrays
    return falsehood(
        mutant.content,
        original.sample.x,
        original.sample.y,
        None if held is None else (held.x, held.y),
        None if arrays is None else {**arrays, "looks": mutant.looks},
    )


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _stop(_: int, __: FrameType | None) -> None:
    raise TooSlow


def _limit(more: int | None) -> None:
    """From here on the address space may grow by so much, or without limit: for the recheck nothing
    is promised.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = hard
    if more is not None:
        most = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
