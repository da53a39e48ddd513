"""A second decoder and evaluator, written from the words of FORMAT.md alone: Python's integers,
lists and loops.

Nothing of the package is imported, so that a sentence of FORMAT.md that is wrong or missing shows
as a failing test. It trusts its message to be well-formed.
"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from itertools import product
from typing import Any

ELEMENTS = {
    1: [(0, 0)],
    2: [(0, 0), (1, 0)],
    4: [(0, 0), (0, 1), (0, 2), (0, 3)],
    8: [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)],
}
SOURCES = ["grid", "values", "mask", "projection", "noise", "sign projection", "product"]
MASK = 2**64 - 1
Layer = dict[str, Any]


class Bits:
    def __init__(self, data: bytes, length: int) -> None:
        self.text = "".join(f"{byte:08b}" for byte in data)[:length]
        self.place = 0

    def next(self) -> int:
        self.place += 1
        return int(self.text[self.place - 1]) if self.place <= len(self.text) else 0

    def fixed(self, width: int) -> int:
        return sum(self.next() << (width - 1 - i) for i in range(width))

    def gamma(self) -> int:
        zeros = 0
        while self.next() == 0:
            zeros += 1
        return (1 << zeros) + self.fixed(zeros)

    def signed(self) -> int:
        n = self.gamma()
        return n // 2 if n % 2 == 0 else -((n - 1) // 2)


class Stream:
    """Section 3.2, the binary decisions and the numbers made of them."""

    def __init__(self, bits: Bits) -> None:
        self.bits = bits
        self.low, self.high, self.code = 0, 2**32 - 1, bits.fixed(32)
        self.contexts: dict[object, list[int]] = {}

    def decide(self, context: list[int]) -> int:
        zero, total = context
        split = self.low + (self.high - self.low + 1) * zero // total - 1
        decision = 1 if self.code > split else 0
        if decision:
            self.low = split + 1
        else:
            self.high = split
        context[:] = [zero + 2 * (1 - decision), total + 2]
        while True:
            if self.high < 2**31:
                offset = 0
            elif self.low >= 2**31:
                offset = 2**31
            elif self.low >= 2**30 and self.high < 3 * 2**30:
                offset = 2**30
            else:
                return decision
            self.low, self.high = 2 * (self.low - offset), 2 * (self.high - offset) + 1
            self.code = 2 * (self.code - offset) + self.bits.next()

    def ask(self, name: object) -> int:
        return self.decide(self.contexts.setdefault(name, [1, 2]))

    def flag(self) -> int:
        return self.ask("Z")

    def small(self, levels: int) -> int:
        if not self.ask("Z"):
            return 0
        sign = -1 if self.ask("N") else 1
        size = 1
        while size < levels and self.ask(size):
            size += 1
        return sign * size

    def wide(self) -> int:
        if not self.ask("Z"):
            return 0
        sign = -1 if self.ask("N") else 1
        width = 1
        while self.ask(width):
            width += 1
        size = 1
        for _ in range(width - 1):
            size = 2 * size + self.decide([1, 2])
        return sign * size


def read(data: bytes, length: int) -> dict[str, Any]:
    """Section 3: input, quantiser and layers, each with its stored shape and coded numbers."""
    bits = Bits(data, length)
    assert bits.gamma() == 2
    channels, height, width = bits.gamma(), bits.gamma(), bits.gamma()
    net: dict[str, Any] = {"shape": (channels, height, width), "layers": []}
    if bits.fixed(1) == 0:
        net["shift"] = bits.gamma() - 1
    else:
        net["width"] = bits.gamma()
        own = bits.fixed(1)
        features = channels * height * width
        pairs = [(bits.signed(), bits.signed()) for _ in range(features if own else 1)]
        net["pairs"] = pairs if own else pairs * features
    shape: tuple[int, ...] = net["shape"]
    carried = 1
    depth = bits.gamma()
    for place in range(1, depth + 1):
        layer: Layer = {
            "kind": ["dense", "conv", "max", "sum"][bits.fixed(2)],
            "place": place,
            "order": 1,
        }
        net["layers"].append(layer)
        if layer["kind"] in ("max", "sum"):
            layer["size"] = bits.gamma() + 1
            shape = (shape[0], *(side // layer["size"] for side in shape[1:]))
            continue
        out = layer["outputs"] = bits.gamma()
        if layer["kind"] == "dense":
            stored = [out, math.prod(shape)]
            if carried > 1 and bits.fixed(1):
                layer["order"] = carried
                stored = [out, shape[0] // carried, *shape[1:]]
            shape, carried = (out,), 1
        else:
            k, layer["stride"], layer["padding"], groups = (
                bits.gamma(),
                bits.gamma(),
                bits.gamma() - 1,
                bits.gamma() - 1,
            )
            s = layer["order"] = [1, 2, 4, 8][bits.fixed(2)]
            regular = s == carried > 1
            c = shape[0] // s if regular else shape[0]
            stored = (
                [out, 1, k, k]
                if groups == 0
                else [out, c // groups, *([s] if regular else []), k, k]
            )
            layer["k"], layer["groups"] = k, groups or shape[0]
            sides = [(side + 2 * layer["padding"] - k) // layer["stride"] + 1 for side in shape[1:]]
            shape, carried = (s * out, *sides), s
        layer["stored"] = stored
        layer["source"] = SOURCES[bits.gamma() - 1]
        if layer["source"] == "grid":
            layer["levels"] = bits.gamma()
        elif layer["source"] == "product":
            layer["rank"], layer["down"] = bits.gamma(), bits.gamma() - 1
            layer["coefficients"] = layer["rank"] * (stored[0] + math.prod(stored[1:]))
        elif layer["source"] != "values":
            layer["seed"] = bits.gamma() - 1
        if layer["source"] == "sign projection":
            layer["coefficients"], layer["down"] = bits.gamma(), bits.gamma() - 1
        if layer["source"] == "projection":
            layer["coefficients"], layer["down"], layer["amplitude"] = (
                bits.gamma(),
                bits.gamma() - 1,
                bits.gamma() - 1,
            )
        if layer["source"] == "noise":
            layer["amplitude"] = bits.gamma()
        layer["biased"] = bits.fixed(1)
        layer["bias shift"] = bits.gamma() - 1 if layer["biased"] else 0
        layer["shift"] = bits.gamma() - 1 if place < depth else 0
    stream = Stream(bits)
    for layer in net["layers"]:
        if "source" not in layer:
            continue
        stream.contexts = {}
        count = layer.get("coefficients", math.prod(layer["stored"]))
        if layer["source"] == "grid":
            layer["coded"] = [stream.small(layer["levels"]) for _ in range(count)]
        else:
            one = stream.flag if layer["source"] == "mask" else stream.wide
            layer["coded"] = [one() for _ in range(count)]
        stream.contexts = {}
        layer["biases"] = [stream.wide() if layer["biased"] else 0 for _ in range(layer["outputs"])]
    return net


# ---- section 4.2


def word(layer: int, seed: int, i: int) -> int:
    state = int.from_bytes(
        hashlib.sha256(f"weights {layer} {seed}".encode("ascii")).digest()[:8], "little"
    )
    z = (state + (i + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def stored_numbers(layer: Layer) -> list[int]:
    n, coded, place = math.prod(layer["stored"]), layer["coded"], layer["place"]

    def sign(j: int, first: int) -> int:
        return 1 if word(place, layer["seed"], first + j // 64) >> j % 64 & 1 else -1

    def noise(j: int, first: int) -> int:
        return bin(word(place, layer["seed"], first + j)).count("1") - 32

    if layer["source"] == "mask":
        return [kept * sign(j, 0) for j, kept in enumerate(coded)]
    if layer["source"] == "noise":
        return [
            value if value != 0 else layer["amplitude"] * noise(j, 0)
            for j, value in enumerate(coded)
        ]
    if layer["source"] == "projection":
        u = -(-n // 64)
        return [
            (sum(q * sign(j, t * u) for t, q in enumerate(coded)) >> layer["down"])
            + (layer["amplitude"] * noise(j, len(coded) * u) if layer["amplitude"] else 0)
            for j in range(n)
        ]
    if layer["source"] == "sign projection":
        words = [
            [word(place, layer["seed"], c * n + j) for j in range(n)]
            for c in range(-(-len(coded) // 64))
        ]
        return [
            sum(q if words[t // 64][j] >> t % 64 & 1 else -q for t, q in enumerate(coded))
            >> layer["down"]
            for j in range(n)
        ]
    if layer["source"] == "product":
        o, r = layer["stored"][0], layer["rank"]
        w = n // o
        left, right = coded[: o * r], coded[o * r :]
        return [
            sum(left[i * r + t] * right[t * w + j] for t in range(r)) >> layer["down"]
            for i, j in product(range(o), range(w))
        ]
    return list(coded)


# ---- sections 4.3 and 4.4


def moves(element: tuple[int, int], array: list[list[int]]) -> list[list[int]]:
    mirror, turns = element
    if mirror:
        array = [row[::-1] for row in array]
    for _ in range(turns):
        n = len(array)
        array = [[array[j][n - 1 - i] for j in range(n)] for i in range(n)]
    return array


def inverse_times(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    (p, t), (q, v) = a, b
    return (p ^ q, (v - t if p == 0 else t - v) % 4)


def weights(layer: Layer) -> dict[tuple[int, int], list[list[int]]]:
    """(output channel, input channel of its group) -> rows of a filter; for a plain dense layer,
    one row as input 0.
    """
    numbers, stored, elements = stored_numbers(layer), layer["stored"], ELEMENTS[layer["order"]]
    if len(stored) == 2:
        return {(o, 0): [numbers[o * stored[1] : (o + 1) * stored[1]]] for o in range(stored[0])}
    h, w = stored[-2:]

    def at(index: int) -> list[list[int]]:
        return [numbers[(index * h + i) * w : (index * h + i + 1) * w] for i in range(h)]

    s = len(elements)
    made = {}
    for o, i in product(range(stored[0]), range(stored[1])):
        for x, a in enumerate(elements):
            if layer["kind"] == "dense":
                made[o, i * s + x] = moves(a, at(o * stored[1] + i))
            elif len(stored) == 4:
                made[o * s + x, i] = moves(a, at(o * stored[1] + i))
            else:
                for y, b in enumerate(elements):
                    c = elements.index(inverse_times(a, b))
                    made[o * s + x, i * s + y] = moves(a, at((o * stored[1] + i) * s + c))
    return made


def quantised(net: dict[str, Any], x: list[Any]) -> list[int]:
    """Section 4.1."""
    if "shift" in net:
        return [int(value) >> net["shift"] for value in x]
    found = []
    for value, (exponent, offset) in zip(x, net["pairs"], strict=True):
        most = 2 ** net["width"] - 1
        if math.isnan(value) or value == -math.inf:
            found.append(0)
        elif value == math.inf:
            found.append(most)
        else:
            scaled = math.floor(Fraction(float(value)) * Fraction(2) ** exponent) - offset
            found.append(min(max(scaled, 0), most))
    return found


def scores(net: dict[str, Any], x: list[Any]) -> list[int]:
    """Section 4.4: x holds the values of one example in C order."""
    flat = quantised(net, x)
    c, h, w = net["shape"]
    values = {
        (a, i, j): flat[(a * h + i) * w + j] for a, i, j in product(range(c), range(h), range(w))
    }
    for layer in net["layers"]:
        if layer["kind"] in ("max", "sum"):
            size = layer["size"]
            h, w = h // size, w // size
            combine = max if layer["kind"] == "max" else sum
            values = {
                (a, i, j): combine(
                    values[a, i * size + y, j * size + z]
                    for y, z in product(range(size), range(size))
                )
                for a, i, j in product(range(c), range(h), range(w))
            }
            continue
        filters = layer["weights"] = layer.get("weights") or weights(layer)
        biases = [b * 2 ** layer["bias shift"] for b in layer["biases"]]
        if layer["kind"] == "dense":
            row = [values[place] for place in product(range(c), range(h), range(w))]
            out = {}
            for o in range(layer["outputs"]):
                used = [
                    v
                    for i in sorted(i for q, i in filters if q == o)
                    for line in filters[o, i]
                    for v in line
                ]
                out[o, 0, 0] = biases[o] + sum(a * b for a, b in zip(used, row, strict=True))
            c, h, w = layer["outputs"], 1, 1
        else:
            k, stride, pad = layer["k"], layer["stride"], layer["padding"]
            channels = layer["order"] * layer["outputs"]
            reads, gives = c // layer["groups"], channels // layer["groups"]
            height, width = (h + 2 * pad - k) // stride + 1, (w + 2 * pad - k) // stride + 1
            out = {}
            for o, i, j in product(range(channels), range(height), range(width)):
                total = biases[o // layer["order"]]
                for a, y, z in product(range(reads), range(k), range(k)):
                    place = (o // gives * reads + a, i * stride + y - pad, j * stride + z - pad)
                    total += filters[o, a][y][z] * values.get(place, 0)
                out[o, i, j] = total
            c, h, w = channels, height, width
        if layer is not net["layers"][-1]:
            out = {place: max(value, 0) >> layer["shift"] for place, value in out.items()}
        values = out
    return [values[o, 0, 0] for o in range(c)]
