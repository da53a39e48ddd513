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

from cushion.certificates.format.claims import Answers
from cushion.certificates.format.container import unpack
from cushion.certificates.recheck import verify
from cushion.data.dataset import Dataset
from cushion.data.inputs import Inputs
from cushion.errors import BadInput, Malformed
from fuzz.claims import recertified
from fuzz.mutations import mutate
from fuzz.recheck import falsehood, prefix_fault

MOST_SECONDS = 60.0  # of processor time for one file; the slowest is reported
MOST_MEMORY = 200 * 2**20  # beyond what the process has before the first mutant
_LOG_EVERY = 10_000


@dataclass(frozen=True)
class Original:
    """A valid file with the data that confirm it."""

    name: str
    content: bytes
    sample: Dataset
    holdout: Dataset | None
    unlabelled: Inputs | None
    answering: Callable[[Inputs], Answers] | None


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
        for (
            original
        ) in originals:  # also loads what is loaded on first use, before memory is limited
            path.write_bytes(original.content)
            assert _verified(original, path).ok, original.name
            if fault := _false(original, original.content):
                raise AssertionError(f"{original.name}: {fault}")
        signal.signal(signal.SIGPROF, _stop)
        before, begin, busy = _peak(), time.monotonic(), time.process_time()
        for number in range(first, first + files):
            rng = random.Random(f"{seed} {number}")
            original = rng.choice(originals)
            content = (
                recertified(original.content, original.sample, rng) if rng.random() < 0.1 else None
            )
            content = mutate(original.content, contents, rng) if content is None else content
            path.write_bytes(content)
            fault, spent = _judge(original, path, content, summary, messages)
            if spent > summary.slowest_seconds:
                summary.slowest_seconds, summary.slowest_file = (
                    round(spent, 3),
                    f"{original.name} {seed} {number}",
                )
            if fault:
                summary.faults.append(f"{original.name} {seed} {number}: {fault}")
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}-{number}.cushion").write_bytes(content)
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
    content: bytes,
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
        verdict = _verified(original, path)
    except Malformed:
        summary.malformed += 1
    except BadInput:
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
    return fault if verdict is None else _count(
        verdict, original, content, summary, messages
    ), spent


def _count(
    verdict: Any,
    original: Original,
    content: bytes,
    summary: Summary,
    messages: set[tuple[int, bytes]],
) -> str:
    """Count what the verifier said; why it is wrong, if it is."""
    summary.levels[verdict.level] += 1
    if verdict.level in ("message", "replay") and verdict.claim.kind == "occam":
        messages.add((verdict.claim.bits, unpack(content)[1]))  # type: ignore[attr-defined]
    if not verdict.ok:
        summary.not_ok += 1
        return ""
    if fault := _false(original, content):
        return f"accepted although {fault}"
    summary.accepted_and_true += 1
    return ""


def _verified(original: Original, path: Path) -> Any:
    claims_f = original.answering is not None and b'"transfer":{' in path.read_bytes()
    return verify(
        path,
        original.sample,
        original.holdout,
        unlabelled=original.unlabelled if claims_f else None,
        answering=original.answering if claims_f else None,
    )


def _false(original: Original, content: bytes) -> str:
    held = original.holdout
    return falsehood(
        content, original.sample.x, original.sample.y, None if held is None else (held.x, held.y)
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
