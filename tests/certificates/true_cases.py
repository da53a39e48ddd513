"""Files that verify: every layer, source, input and kind of claim; and the misuse that no file can
betray.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from decimal import Decimal

from tests.certificates import nets
from tests.certificates.case import (
    DELTA,
    DRAWS,
    Case,
    altered,
    base,
    gaussian,
    transferred,
    version_before,
)
from tests.certificates.samples import sample

from cushion.certificates.certificate import certify_net
from cushion.certificates.format.container import pack
from cushion.certificates.format.integer_net import IntegerNet
from cushion.certificates.pac_bayes import certify_gaussian


def true_cases() -> Iterator[Case]:
    yield from _grammar()
    yield from _lines()
    yield from _undetectable()


def _ok(name: str, content: bytes, why: str, data: str = "halves", **more: str | None) -> Case:
    return Case(name, content, "ok", "replay", why, data, **more)


def _grammar() -> Iterator[Case]:
    def of(
        name: str, net: IntegerNet, why: str, data: str = "halves", delta: Decimal = DELTA
    ) -> Case:
        made = certify_net(net, sample(data), delta)
        return _ok(name, pack(made.claim, made.message), why, data)

    for kind, source in nets.SOURCES.items():
        yield of(
            f"source-{kind}",
            nets.layered(source),
            f"two dense layers with numbers of the source '{kind}'",
        )
    yield of(
        "convolutions",
        nets.grouped(),
        "a strided, padded convolution in groups and a depthwise one",
        "bars",
    )
    yield of(
        "pooling", nets.pooled(), "maximum and sum pooling, and a 1x1 convolution of values", "bars"
    )
    for order in (2, 4, 8):
        yield of(
            f"symmetry-{order}",
            nets.symmetric(order),
            f"lifting, regular and invariant layers of order {order}",
            "grey bars",
        )
    yield of(
        "symmetry-oblong",
        nets.symmetric(2, (6, 4)),
        "mirror images of maps that are not square",
        "oblong bars",
    )
    yield of(
        "floats-shared",
        nets.floats(own=False),
        "float inputs with one quantiser for all features",
        "table",
    )
    yield of(
        "floats-own",
        nets.floats(own=True),
        "float inputs with a quantiser for each feature",
        "table",
    )
    yield of(
        "thousand-classes",
        nets.thousand_classes(),
        "a thousand classes; the bound is vacuous and says 1",
        "thousand",
    )
    yield of(
        "one-example",
        nets.difference(),
        "a sample of one example proves nothing, and the bound says so",
        "one row",
    )
    yield of(
        "delta-tiny",
        nets.difference(),
        "the smallest δ that can be stated",
        delta=Decimal("0.000000000000000001"),
    )


def _lines() -> Iterator[Case]:
    plain, held, moved = base(), base(holdout=True), transferred()
    both, q = transferred(holdout=True), gaussian()
    yield _ok(
        "plain",
        altered(plain),
        "two classes, a grid of three levels; the file that most others alter",
    )
    yield _ok("holdout", altered(held), "with a hold-out line", holdout="halves held out")
    longer = dataclasses.replace(held.claim.holdout, delta="0.050")
    yield _ok(
        "holdout-delta-as-a-number",
        altered(held, holdout=longer),
        "decimals are equal as numbers, not as text",
        holdout="halves held out",
    )
    yield _ok(
        "name-of-many-scripts",
        altered(plain, data="ha\u00a0lves \u05d0\u4e2d \U0001f40c \ue000"),
        "all but listed characters are printable, whatever a table of Unicode says of them",
    )
    yield _ok(
        "holdout-not-given",
        altered(held),
        "held-out examples need not be given; the line is then not replayed",
    )
    yield _ok("transfer", altered(moved), "with the bound on f, not replayed: ok is about g")
    replayed = {"unlabelled": "halves unlabelled", "net": "f"}
    yield _ok(
        "transfer-replayed",
        altered(moved),
        "with the bound on f, replayed with f and the inputs",
        **replayed,
    )
    unread = dataclasses.replace(moved.claim.transfer, program=None)
    yield _ok(
        "transfer-program-unknown",
        altered(moved, transfer=unread),
        "f's program has no fingerprint: nothing of it could be read",
        **replayed,
    )
    yield _ok(
        "transfer-version-before",
        version_before("transfer"),
        "written before f's program had a fingerprint: it has no such key",
        **replayed,
    )
    yield _ok(
        "transfer-and-holdout",
        altered(both),
        "with both lines, both replayed",
        holdout="halves held out",
        **replayed,
    )
    yield _ok("pac-bayes", altered(q), "a Gaussian posterior over dense nets with biases")
    yield _ok(
        "pac-bayes-holdout",
        altered(gaussian(holdout=True)),
        "a posterior with a hold-out line",
        holdout="halves held out",
    )
    deep = certify_gaussian(nets.convolutional_posterior(), sample("bars"), DELTA, draws=DRAWS)
    yield _ok(
        "pac-bayes-convolution",
        altered(deep),
        "a posterior with a tied convolution and pooling",
        "bars",
    )
    yield _ok(
        "bound-weaker",
        altered(plain, bound="0.999"),
        "a bound above what is implied is true all the more",
    )
    yield _ok("bound-one", altered(plain, bound="1.0"), "a bound of 1 is always true")
    yield _ok(
        "notes",
        altered(plain, made_with={"a": None, "b": True, "c": -1.5, "é": 'x"\n'}),
        "notes of every plain type",
    )
    yield _ok(
        "name",
        altered(plain, data="Ziffern 数字 😀"),
        "the name of the data may be any printable text",
    )


def _undetectable() -> Iterator[Case]:
    """True as far as anyone can check; what is wrong with them is what the printed assumptions are
    for.
    """
    plain = base()
    side = {"weights": "0123456789abcdef" * 16}
    yield _ok(
        "side-information-in-notes",
        altered(plain, made_with=side),
        "the decoder never reads the notes: nothing gained",
    )
    yield _ok(
        "side-information-in-name",
        altered(plain, data="+0-0-0+0" * 20),
        "the decoder never reads the name either: the message alone decides the net",
    )
    for name, made in (("ledger-words", plain), ("pac-bayes-ledger-words", gaussian())):
        first, *rest = made.claim.ledger
        words = dataclasses.replace(first, item="weights", meaning="+0-0-0+0")
        yield _ok(
            name,
            altered(made, ledger=(words, *rest)),
            "the ledger's words are for people, and the decoder never reads them: its bits count",
        )
    late = certify_net(nets.difference(), sample("halves"), Decimal("0.5"))
    yield _ok(
        "delta-chosen-late",
        altered(late),
        "a δ raised after the fact, with its own bound, is consistent: only the third assumption "
        "speaks against it",
    )
    yield _ok(
        "sample-sorted-by-label",
        altered(certify_net(nets.difference(), sample("halves sorted by label"), DELTA)),
        "a sample sorted by label verifies as itself: the bound needs independent draws, which "
        "nobody can check",
        "halves sorted by label",
    )
    yield _ok(
        "sample-doubled",
        altered(certify_net(nets.difference(), sample("halves doubled"), DELTA)),
        "every row twice halves the bound's width and verifies: independence is the first "
        "assumption",
        "halves doubled",
    )
    best = min(
        range(200),
        key=lambda seed: nets.masked(seed).errors(sample("halves").x, sample("halves").y),
    )
    yield _ok(
        "seed-best-of-many",
        altered(
            certify_net(nets.masked(best), sample("halves"), DELTA, made_with={"seeds_tried": 200})
        ),
        "the best of 200 seeds is allowed because the seed stands in the message and is paid",
    )
    other = dataclasses.replace(plain.claim, made_with={"other_bound": "0.9"})
    yield _ok(
        "quoted-with-another",
        pack(other, plain.message),
        "two messages about one sample share one δ (all messages hold at once), so the smaller may "
        "be quoted",
    )
