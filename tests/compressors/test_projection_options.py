"""Every option of the compressors of Arora 2018: what is taken, and one sentence that names it for
what is not.
"""

from __future__ import annotations

import math
from dataclasses import fields
from fractions import Fraction
from typing import Any

import pytest

from cushion.compressors.projection.method import NetOptions, parse_size
from cushion.compressors.pruning.method import PruneOptions
from cushion.compressors.registry import METHODS, choose
from cushion.errors import BadInput

NAMES = [name for name, method in METHODS.items() if method.options is NetOptions]
PRUNING = ("magnitude", "sketch")
NUMBERS_ABOVE_0 = [0, 0.0, -1, -0.5, math.nan, math.inf, -math.inf, "1", None, [1], True, 1j]
BAD: dict[str, list[Any]] = {
    "k": [
        0,
        -1,
        1.5,
        "0",
        "-3",
        "",
        "x",
        "5 5",
        "²",
        "1e3",
        10**13,
        "9" * 5000,
        True,
        [5],
        math.nan,
    ],
    "epsilon": [*NUMBERS_ABOVE_0, 1.0001, 2],
    "gamma": NUMBERS_ABOVE_0,
    "constant": NUMBERS_ABOVE_0,
    "eta": [*NUMBERS_ABOVE_0, 1.5],
    "level": [-0.1, 1, 1.0, 2, math.nan, math.inf, "0.1", True, None],
    "zeta": [-0.1, 1, 1.0, 2, math.nan, math.inf, "0.1", True, None],
    "p": [0, -1, 1.5, "2", True],
    "examples": [0, -1, 1.5, "2", True, None],
    "number_bits": [0, 1, 33, 64, 8.5, "8", True, None],
    "helper": ["", "normal", "Signs", 3, ["signs"]],
    "from_initialisation": [1, 0, "yes", None],
    "sweep": [
        ("5%", 3),
        (None,),
        5,
        None,
        {"5%"},
        ("",),
        (" ",),
        ("x",),
        ("k=5",),
        ("0",),
        ("5%", "-1%"),
    ],
}
FITTING = {"eta": "vector-project", "p": "conv-project", "constant": "conv-project"}


def test_there_is_a_row_for_every_option() -> None:
    assert {field.name for field in fields(NetOptions)} == set(BAD)
    assert len(NAMES) == 5
    pruning = {option for name in PRUNING for option in METHODS[name].takes}
    assert pruning == {field.name for field in fields(PruneOptions)}
    assert {option for name in NAMES for option in METHODS[name].takes} == set(BAD)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_gets_one_sentence_that_names_its_option(name: str) -> None:
    defaults = NetOptions()
    for value in BAD[name]:
        if value is None and getattr(defaults, name) is None:
            continue  # not given
        method = FITTING.get(name, "matrix-project")
        with pytest.raises(BadInput) as caught:
            NetOptions(**{name: value}).check(method)
        assert f"`{name}`" in str(caught.value), value
        assert "\n" not in str(caught.value)
        with pytest.raises(BadInput) as caught:  # the same through the registry
            choose(method, {name: value})
        assert f"`{name}`" in str(caught.value), value


@pytest.mark.parametrize("method", NAMES)
def test_defaults_and_good_values_pass(method: str) -> None:
    NetOptions().check(method)
    good = {
        "k": 5,
        "epsilon": 0.5,
        "gamma": 2,
        "level": 0,
        "eta": 1,
        "p": 3,
        "constant": 600,
        "from_initialisation": True,
        "zeta": 0.999,
        "number_bits": 32,
        "examples": 1,
        "sweep": ("gamma=2",),
    }
    for name, value in good.items():
        if name in METHODS[method].takes:
            assert choose(method, {name: value})[0] is METHODS[method]
        else:
            with pytest.raises(BadInput, match=f"does not take `{name}`; its options are `"):
                choose(method, {name: value})
    for bits in (2, 8):
        NetOptions(number_bits=bits, sweep=["gamma=1"]).check(method)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["minutes", "width", "steps", "colour", "K", "self", "seed"])
def test_unknown_options_are_refused_by_name(name: str) -> None:
    for method in NAMES:
        with pytest.raises(
            BadInput, match=f"`method` = {method} does not take `{name}`; its options are `"
        ):
            choose(method, {name: 1})


@pytest.mark.parametrize("name", ["", "lowrank", "Low-rank", "low_rank"])
def test_unknown_methods_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match="`method`"):
        choose(name, {})


def test_searches_take_a_whole_k_only() -> None:
    assert choose("subspace", {"k": 5})[0].name == "subspace"
    for value in ("5%", "5", 0, -1, 2.5, True):
        with pytest.raises(BadInput, match=r"`k` .* whole number of at least 1"):
            choose("subspace", {"k": value})
    with pytest.raises(BadInput, match="`minutes` and `steps`"):
        choose("subspace", {"minutes": 1, "steps": 3})
    for value in (0, -1, 1.5, "3", True):
        with pytest.raises(BadInput, match="`steps`"):
            choose("subspace", {"steps": value})
    for value in (0, -1, math.inf, math.nan, "3"):
        with pytest.raises(BadInput, match="`minutes`"):
            choose("subspace", {"minutes": value})


SIZES: dict[Any, int | Fraction] = {
    1: 1,
    "1": 1,
    "007": 7,
    10**12: 10**12,
    "5%": Fraction(1, 20),
    "0.5%": Fraction(1, 200),
    "5 %": Fraction(1, 20),
    "100%": Fraction(1),
    ".5%": Fraction(1, 200),
    "0.000001%": Fraction(1, 10**8),
}


@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_whole_numbers_or_exact_percentages(size: Any) -> None:
    assert parse_size(size, "`k`") == SIZES[size]
    assert type(parse_size(size, "`k`")) is type(SIZES[size])


@pytest.mark.parametrize(
    "size",
    [
        *(
            "0%",
            "0.0%",
            "-1%",
            "1e400%",
            "1e999999999%",
            "1e-999999999%",
            "abc%",
            "%",
            "5%%",
            "5%5",
            "٥%",
            "1/0%",
            "nan%",
        ),
        *(
            "inf%",
            "100.01%",
            "200%",
            "100001%",
            "5,5%",
            "0x5%",
            "1_0%",
            "5\n%",
            "9" * 6000 + "%",
            "0." + "0" * 6000 + "1%",
            "+5",
            " 5",
            "5\n",
        ),
    ],
)
def test_other_sizes_are_refused_at_once(size: str) -> None:
    with pytest.raises(BadInput, match=r"`k` [\s\S]* whole number of at least 1, or a percentage"):
        parse_size(size, "`k`")


@pytest.mark.parametrize("method", NAMES)
def test_a_sweep_sets_what_it_names_and_takes_back_what_contradicts_it(method: str) -> None:
    options = NetOptions(k=7, gamma=3.0, sweep=("gamma=2",), number_bits=5)
    point = options.at(method, "gamma=2")
    assert (point.k, point.gamma, point.sweep, point.number_bits) == (None, 2.0, None, 5)
    given = NetOptions(epsilon=0.1)
    # else the accuracy that is given would hide the margin
    assert given.at(method, "gamma=2").epsilon is None
    if method == "vector-compress":
        for size in ("5", "5%"):
            with pytest.raises(BadInput, match=r"`sweep` = 5.* no k"):
                options.at(method, size)
    else:
        assert (given.at(method, "12").k, given.at(method, "12").epsilon) == ("12", None)
        assert given.at(method, "5%").k == "5%"
    names = ("gamma", "eta") if method.startswith("vector") else ("epsilon", "gamma")
    for name in ("epsilon", "eta"):
        if name in names:
            assert getattr(options.at(method, f"{name}=0.25"), name) == 0.25
            assert options.at(method, f"{name}=1").k is None
        else:  # the method has no such option: every point of the curve would be the same
            with pytest.raises(
                BadInput,
                match=f"`sweep` = {name}=0.25: for {method} only {names[0]}= or {names[1]}=",
            ):
                options.at(method, f"{name}=0.25")


@pytest.mark.parametrize(
    "asked",
    [
        *(
            "k=5",
            "epsilon=2",
            "epsilon=0",
            "epsilon=-1",
            "epsilon=nan",
            "epsilon=inf",
            "epsilon=",
            "epsilon=x",
            "gamma=0",
        ),
        *(
            "gamma=-1",
            "gamma=inf",
            "gamma=nan",
            "gamma=",
            "=5",
            "=",
            "",
            "0",
            "0%",
            "-1%",
            "1e999999999%",
        ),
        "epsilon=0.1=2",
    ],
)
def test_points_that_mean_nothing_are_refused(asked: str) -> None:
    for method in ("low-rank", "matrix-project", "conv-project"):
        with pytest.raises(BadInput, match="`sweep`"):
            choose(method, {"sweep": ("5%", asked)})


@pytest.mark.parametrize("asked", ["eta=2", "eta=0", "eta=x", "k=3", "epsilon=0.1"])
def test_points_of_the_vector_methods(asked: str) -> None:
    for method in ("vector-compress", "vector-project"):
        with pytest.raises(BadInput, match="`sweep`"):
            choose(method, {"sweep": (asked,)})


HELPERS = {
    "low-rank": set(),
    "vector-compress": set(),
    "matrix-project": {"signs", "srht"},
    "vector-project": {"gaussian", "signs", "srht"},
    "conv-project": {"gaussian", "srht"},
}


@pytest.mark.parametrize("method", NAMES)
def test_helpers_go_with_their_methods(method: str) -> None:
    for helper in ("signs", "gaussian", "srht"):
        options = NetOptions(helper=helper)
        if helper in HELPERS[method]:
            options.check(method)
            assert options.helper_of(method) == helper
        else:
            with pytest.raises(
                BadInput, match=f"`helper` = {helper} with `method` = {method} must be"
            ):
                options.check(method)
    own = {"matrix-project": "signs", "vector-project": "gaussian", "conv-project": "gaussian"}
    assert NetOptions().helper_of(method) == own.get(method, "")  # the paper's own


def test_two_ways_to_truncate_are_refused() -> None:
    with pytest.raises(BadInput, match="`k` and `epsilon`"):
        choose("low-rank", {"k": 5, "epsilon": 0.1})
    choose("low-rank", {"k": 5, "gamma": 0.1})
    choose("matrix-project", {"k": 5, "epsilon": 0.1})


def test_every_option_of_a_method_is_known() -> None:
    for method in METHODS.values():
        known = {field.name for field in fields(method.options)}
        assert set(method.takes) <= known
        assert len(set(method.takes)) == len(method.takes)
        assert [one.name for one in method.flags] == list(method.takes)
