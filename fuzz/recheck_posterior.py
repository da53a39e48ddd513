"""The recheck of an accepted PAC-Bayes file: FORMAT.md, section 8, in numbers of many digits.

A claim counts 100 000 nets or more, which loops over lists take minutes for. So they count a few
hundred, and the producer's evaluator, with which the verifier shares no line, counts those and all.
"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from tests import format_reader

from cushion.certificates.format.draws import count_draws, random_rows, row_by_row
from cushion.certificates.format.posterior import read_posterior
from fuzz.recheck import implies

Rows = NDArray[Any]
_FEW = 200  # nets that are counted by loops over lists
_SLACK = mpmath.mpf(10) ** -30  # far below a millionth, far above the rounding of 50 digits


def posterior_falsehood(
    claim: dict[str, Any], message: bytes, x: Rows, y: Rows, held: tuple[Rows, Rows] | None
) -> str:
    """Why the claim is false; empty if it is true."""
    with mpmath.workdps(50):
        return _falsehood(claim, message, x, y, held)


def _falsehood(
    claim: dict[str, Any], message: bytes, x: Rows, y: Rows, held: tuple[Rows, Rows] | None
) -> str:
    bits, front = claim["header_bits"], (claim["header_bits"] + 7) // 8
    skeleton, priors = _header(message[:front], bits, [paid["bits"] for paid in claim["ledger"]])
    size = (len(message) - front) // 5
    means = np.frombuffer(message, "<i4", size, front).tolist()
    exponents = np.frombuffer(message, "<i1", size, front + 4 * size).tolist()
    if sum(n for n, _ in priors) != size:
        return "not as many numbers as the net has"
    kl, at = mpmath.mpf(0), 0
    for n, prior in priors:
        for a, e in zip(means[at : at + n], exponents[at : at + n], strict=True):
            moment = mpmath.mpf(2) ** e + mpmath.mpf(a) ** 2 / 16
            kl += ((prior - e) * mpmath.log(2) + moment / mpmath.mpf(2) ** prior - 1) / 2
        at += n
    if mpmath.mpf(claim["kl"]) < kl - _SLACK:
        return "the divergence is more than stated"
    m, delta, share = claim["m"], mpmath.mpf(claim["delta"]), mpmath.mpf(claim["delta_draws"])
    if 5 * share > delta or share >= delta:
        return "the draws get more than a fifth of δ"
    laws = list(zip(means, exponents, strict=True))
    lines = [(claim, claim["draws"], x, y, Fraction(claim["delta_draws"]), "sample_bound")]
    if claim["holdout"] is not None and held is not None:
        line = claim["holdout"]
        if line["m"] != len(held[1]):
            return "not so many held-out rows"
        lines.append((line, line["m"], *held, Fraction(line["delta"]), "bound"))
    for line, nets, inputs, labels, failure, stated in lines:
        name = f"cushion posterior {nets} {line['data_fingerprint']}\n".encode()
        key, own = hashlib.sha256(name + message).hexdigest(), line is not claim
        few, size_of = min(_FEW, nets), len(inputs)
        places = [j if own else _word("rows", key, j) * size_of >> 64 for j in range(few)]
        rows = row_by_row if own else random_rows(key, size_of)
        posterior = read_posterior(message, bits)[0]
        count = [count_draws(posterior, key, inputs, labels, n, rows) for n in (few, nets)]
        naive = _errors(skeleton, laws, key, places, inputs, labels)
        if [naive, line["errors"]] != count:
            return f"not {line['errors']} errors in {nets} draws"
        off = Fraction(size, 2**54) + (0 if own else Fraction(m, 2**64))
        bound = Fraction(line[stated])
        level = failure if own else failure / 2**80
        if bound < 1 and not implies(line["errors"], nets, level, bound - off):
            return f"{line['errors']} errors in {nets} draws do not imply {line[stated]}"
    q, p = mpmath.mpf(claim["sample_bound"]), mpmath.mpf(claim["bound"])
    nats = bits * mpmath.log(2) + kl + mpmath.log(2 * mpmath.sqrt(m) / (delta - share))
    if p < 1 and (p <= q or (_term(q, p) + _term(1 - q, 1 - p)) * m < nats - _SLACK):
        return "the divergence does not imply the bound"
    return ""


def _term(q: Any, p: Any) -> Any:
    return q * mpmath.log(q / p) if q else mpmath.mpf(0)


def _header(
    front: bytes, bits: int, ledger: list[int]
) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    """The net without its numbers, and (how many numbers, the prior's exponent) of each factor.

    The priors are the header's last bits: in the ledger one item a factor, before those of the
    divergences and the confidence. What the reader takes for coded numbers is nonsense and is
    replaced.
    """
    made = format_reader.read(front, bits)
    sizes = []
    for layer in made["layers"]:
        if "source" in layer:
            sizes.append(math.prod(layer["stored"]))
            if layer["biased"]:
                sizes.append(layer["outputs"])
    reader = format_reader.Bits(front, bits)
    reader.place = bits - sum(ledger[-2 * len(sizes) - 1 : -len(sizes) - 1])
    priors = [(size, reader.signed() + 8) for size in sizes]
    return made, priors if reader.place == bits else []


def _errors(
    net: dict[str, Any], laws: list[tuple[int, int]], key: str, places: list[int], x: Rows, y: Rows
) -> int:
    """Net j, drawn from its words, on row places[j]; laws: (mean in quarters, exponent of the
    variance).
    """
    wrong = 0
    for j, place in enumerate(places):
        drawn = [_number(_word("net", key, j * len(laws) + i), *law) for i, law in enumerate(laws)]
        at = 0
        for layer in net["layers"]:
            if "source" not in layer:
                continue
            layer.pop("weights", None)
            n = math.prod(layer["stored"])
            layer["coded"], at = drawn[at : at + n], at + n
            if layer["biased"]:
                layer["biases"], at = drawn[at : at + layer["outputs"]], at + layer["outputs"]
        scores = format_reader.scores(net, x[place].reshape(-1).tolist())
        label = int(y[place])
        wrong += any(other >= scores[label] for c, other in enumerate(scores) if c != label)
    return wrong


def _number(word: int, mean: int, exponent: int) -> int:
    """The smallest k with word < T_k."""
    k = mean // 4
    while word >= _edge(4 * k + 2 - mean, exponent):
        k += 1
    while word < _edge(4 * (k - 1) + 2 - mean, exponent):
        k -= 1
    return k


@cache
def _edge(quarters: int, exponent: int) -> int:
    """T for k + 1/2 - μ in quarters: ⌊2^64 Φ(x)⌋ up to the mean, 2^64 less its mirror image
    beyond.
    """
    if quarters > 0:
        return 2**64 - _edge(-quarters, exponent)
    with mpmath.workdps(50):
        far = -mpmath.mpf(quarters) / 4 / mpmath.sqrt(mpmath.mpf(2) ** exponent)
        return (
            0
            if far > mpmath.mpf("9.2")
            else int(mpmath.floor(2**64 * mpmath.erfc(far / mpmath.sqrt(2)) / 2))
        )


def _word(tag: str, key: str, j: int) -> int:
    return _block(tag, key, j >> 12)[j & 4095]


@cache
def _block(tag: str, key: str, number: int) -> list[int]:
    made = hashlib.shake_256(f"cushion {tag} {key} {number}\n".encode()).digest(2**15)
    return [int.from_bytes(made[i : i + 8], "little") for i in range(0, 2**15, 8)]
