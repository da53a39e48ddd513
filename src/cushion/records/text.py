"""What a terminal is shown: text that says something, never text that steers.

Names of tensors, layers, files and sets, certificates' texts and exceptions come from anywhere.
Their control characters would move the cursor, change the title or erase what stands above, and
marks of direction would show a text in another order; here each is written as its escape.
"""

from __future__ import annotations

import re
import sys
from typing import TextIO

# C0, DEL and C1 but for tab and line feed; marks and overrides of direction; separators of lines
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def harmless(text: str) -> str:
    """The text with every character that would steer a terminal as its escape; lines stay lines.

    >>> harmless("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return _STEERING.sub(lambda match: _escape(match[0]), text)


def one_line(text: str) -> str:
    """The same for what must stay one line, such as a name in a table or a sentence.

    >>> one_line("a\\nb")
    'a\\\\nb'
    """
    return harmless(text).replace("\n", "\\n").replace("\t", " ")


def harmless_json(text: str) -> str:
    r"""The same JSON: steering characters lie within its texts only, where \uXXXX stands for them.

    >>> harmless_json('"a\x7fb"')
    '"a\\u007fb"'
    """
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def say(text: str, stream: TextIO | None = None) -> None:
    """Print lines; to stderr, unless told otherwise."""
    print(harmless(text), file=stream or sys.stderr)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
