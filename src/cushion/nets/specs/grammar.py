"""The spec grammar: a feed-forward net as one line of text.

    spec   = shape ":" items               1x28x28: flatten 4*[fc784 relu] fc10
    shape  = whole numbers joined by "x"   one example: 784, or channels x height x width
    items  = any number of
      convC[kK][sS][pP][gG][dD][nobias]    convolution: C channels, kernel K (3), stride S (1),
                                           zero padding P (0), G groups (1), dilation D (1)
      fcN[nobias]                          dense layer with N outputs
      bn | relu | flatten                  batch-norm, ReLU, flatten to a vector
      gap                                  global average pool to Cx1x1
      dropF                                dropout with probability F in [0, 1)
      maxpoolK[sS][pP] | avgpoolK[sS][pP]  pooling: window K, stride S (K), padding P (0)
      N*[items]                            the items N times, with fresh weights each time
      add[items | items ...]               the sum of the branches (residual blocks)
      cat[items | items ...]               the branches side by side along the channels;
                                           an empty branch is the identity

`str(spec)` is canonical: `parse(str(spec)) == spec`, and options at their defaults are left out.

>>> str(parse("1x8x8: conv8p1  relu maxpool2s2 flatten fc10"))
'1x8x8: conv8k3p1 relu maxpool2 flatten fc10'
"""

from __future__ import annotations

import re
from typing import NoReturn

from cushion.errors import BadInput
from cushion.nets.specs.layers import FIELDS, OPTIONS, WEIGHTED, Item, Join, Layer, Repeat, Spec

MAX_LAYERS = 10_000
MAX_NESTING = 32
MAX_LENGTH = 1_000_000  # characters: room for MAX_LAYERS layers with all their options

_NUMBER = "[0-9]{1,9}"
_WORDS = {
    kind: rf"{kind}(?P<size>{_NUMBER})"
    + "".join(f"(?:{letter}(?P<{FIELDS[letter]}>{_NUMBER}))?" for letter in letters)
    + ("(?:nobias)?" if kind in WEIGHTED else "")
    for kind, letters in OPTIONS.items()
}
_SPACE = re.compile(r"\s*")
_TOKEN = re.compile(rf"({_NUMBER})\*\[|(add|cat)\[|([|\]])|([^\s\[\]|]+)|(\[)")
_EXAMPLE = "'1x28x28: flatten fc10'"
_KNOWN = (
    "convC[kK][sS][pP][gG][dD][nobias] (in this order), fcN[nobias], bn, relu, dropF, "
    "maxpoolK[sS][pP], avgpoolK[sS][pP], gap, flatten, N*[...], add[...|...] and cat[...|...]"
)


def parse(text: str) -> Spec:
    """Read a spec strictly and check its shapes; BadInput names the token and its position."""
    spec = read(text)
    spec.check()
    return spec


def read(text: str) -> Spec:
    """Read a spec without checking that its shapes fit together."""
    if len(text) > MAX_LENGTH:
        long = f"{len(text):,} characters, more than {MAX_LENGTH:,}"
        raise BadInput(f"spec has {long}; write repetitions as N*[...]")
    head, colon, _ = text.partition(":")
    if not colon or not re.fullmatch(r"\s*[1-9][0-9]{0,8}(x[1-9][0-9]{0,8}){0,3}\s*", head):
        rule = "must begin with one example's shape and a colon"
        raise BadInput(f"spec '{text}' {rule}, as in {_EXAMPLE}")
    items = _Reader(text, len(head) + 1).items(closers="")
    if not items:
        raise BadInput(f"spec '{text}' has no layers after its colon; add some, as in {_EXAMPLE}")
    return Spec(tuple(int(side) for side in head.split("x")), items)


class _Reader:
    """Recursive descent over the text after the colon; `at` is the next position to read."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at, self.depth = text, at, 0

    def items(self, closers: str) -> tuple[Item, ...]:
        """Items up to, not including, one of `closers` (the end of the text if there are none)."""
        found: list[Item] = []
        count = 0

        def unexpected(mark: str, reason: str) -> NoReturn:
            raise BadInput(f"spec has an unexpected '{mark}' at position {start}; {reason}")

        while True:
            start = self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
            token = _TOKEN.match(self.text, start)
            if token is None:
                if closers:
                    raise BadInput(f"spec '{self.text}' ends inside a bracket; close it with ]")
                return tuple(found)
            if token[3]:
                if token[3] not in closers:
                    unexpected(token[3], "no bracket is open for it")
                return tuple(found)
            self.at = token.end()
            if token[5]:
                unexpected("[", "write N*[, add[ or cat[")
            found.append(_layer(token[4], start) if token[4] else self.bracket(token, start))
            count += _unrolled(found[-1])
            if count > MAX_LAYERS:
                most = f"{MAX_LAYERS:,} layers"
                raise BadInput(f"spec has more than {most} at position {start}; repeat less")

    def bracket(self, token: re.Match[str], start: int) -> Repeat | Join:
        self.depth += 1
        if self.depth > MAX_NESTING:
            deep = f"nests brackets deeper than {MAX_NESTING}"
            raise BadInput(f"spec {deep} at position {start}; nest less")
        branches = [self.items("]" if token[1] else "|]")]
        while self.text[self.at] == "|":
            self.at += 1
            branches.append(self.items("|]"))
        self.at += 1  # the closing bracket
        self.depth -= 1
        where = f"spec token '{token[0]}' at position {start}"
        if token[1]:
            if int(token[1]) < 1 or not branches[0]:
                raise BadInput(f"{where} must repeat something at least once")
            return Repeat(int(token[1]), branches[0], position=start)
        if len(branches) < 2:
            raise BadInput(f"{where} needs two or more branches separated by |")
        return Join("add" if token[2] == "add" else "cat", tuple(branches), position=start)


def _layer(word: str, at: int) -> Layer:
    if word in ("bn", "relu", "flatten", "gap"):
        return Layer(word, position=at)
    if match := re.fullmatch(r"drop([0-9](?:\.[0-9]{1,9})?)", word):
        layer = Layer("drop", probability=float(match[1]), position=at)
        if layer.probability >= 1:
            layer.refuse("must drop with a probability below 1")
        return layer
    for kind, pattern in _WORDS.items():
        if match := re.fullmatch(pattern, word):
            numbers = {name: int(n) for name, n in match.groupdict().items() if n is not None}
            stride = 1 if kind in WEIGHTED else numbers["size"]
            bias = not word.endswith("nobias")
            layer = Layer(kind, **{"stride": stride} | numbers, bias=bias, position=at)
            if kind not in WEIGHTED and 2 * layer.padding > layer.size:
                layer.refuse("pads by more than half its window; pad less")
            if min(layer.size, layer.kernel, layer.stride, layer.groups, layer.dilation) < 1:
                layer.refuse("holds a 0 where a size of at least 1 is needed")
            return layer
    where = f"spec token '{word}' at position {at}"
    raise BadInput(f"{where} is not known; the tokens are {_KNOWN}")


def _unrolled(item: Item) -> int:
    """How many layers are built; an empty branch counts as one, since it is built like others."""
    if isinstance(item, Repeat):
        return item.count * sum(map(_unrolled, item.body))
    if isinstance(item, Join):
        return 1 + sum(max(1, sum(map(_unrolled, branch))) for branch in item.branches)
    return 1
