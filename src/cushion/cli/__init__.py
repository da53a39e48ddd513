"""The command line: parsing and printing only; one verb per stage.

Exit codes: 0 done, 1 the answer is "no" (a certificate that does not verify), 2 bad input, in one
sentence.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from cushion import __version__
from cushion.cli import (
    bounds,
    certify,
    compress,
    data,
    export,
    holdout,
    measure,
    reproduce,
    train,
    verify,
)
from cushion.cli.flags import translate
from cushion.cli.options import notes_for_warnings
from cushion.cli.output import check_files
from cushion.errors import CushionError
from cushion.records.text import harmless, one_line, say

_VERBS = (data, train, measure, bounds, compress, export, certify, verify, holdout, reproduce)
_SUMMARY = "Measure why a classifier generalises, compress it, and prove a bound on its error."
_EXAMPLE = "example: cushion certify --data digits -o d.cushion; cushion inspect d.cushion"


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {one_line(message)} (see {self.prog} --help)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(harmless(message), file)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="cushion", description=_SUMMARY, epilog=_EXAMPLE, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"cushion {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    for verb in _VERBS:
        verb.add_parser(verbs)
    for own in verbs.choices.values():  # so that refusals can name flags
        flags = frozenset(own._option_string_actions)
        own.set_defaults(flags=flags)
        for action in own._actions:
            action.help = action.help and translate(action.help, flags)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    # Threads that wait for work sleep instead of spinning: several runs on one machine then do not
    # slow each other down. It must be set before torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # where a terminal knows no δ
    args = build_parser().parse_args(argv)
    try:
        check_files(args)
        with notes_for_warnings(args.flags):
            code: int = args.run(args) or 0
        sys.stdout.flush()
        return code
    except CushionError as problem:
        return _stop(translate(str(problem), args.flags))
    except BrokenPipeError:  # the reader of our output went away: not an error of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        how = "check the path, its permissions and the free space"
        return _stop(f"{where}{problem.strerror or problem}; {how}")
    except KeyboardInterrupt:
        resumes = args.verb in ("train", "reproduce")
        again = "; run the same command again to continue" if resumes else ""
        return _stop(f"interrupted{again}", 130)
    except Exception as problem:
        # torch says it in its own words
        if isinstance(problem, MemoryError) or "allocate memory" in str(problem):
            return _stop("out of memory; use a smaller net or fewer examples")
        from cushion.nets.calling import words_of_net  # here, as it loads torch

        if said := words_of_net(problem):
            return _stop(f"the net failed on these examples ({said}); look at what they hold")
        say(traceback.format_exc().rstrip())
        # not 1, which means that a certificate does not hold
        return _stop("this is a bug in cushion; please report it with the lines above", 70)


def _stop(sentence: str, code: int = 2) -> int:
    say(f"cushion: {one_line(sentence)}")
    return code
