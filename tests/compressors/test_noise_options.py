"""Every option of `--method heavy-tail`: what is taken, and one sentence that names it for what is
not.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from cushion.compressors.method import BEST_GRIDS
from cushion.compressors.noise.method import FORMS, TAUS, HeavyTailOptions
from cushion.compressors.registry import METHODS, choose
from cushion.errors import BadInput

METHOD = "heavy-tail"
BAD: dict[str, list[Any]] = {
    "form": ["", "Corrected", "printed", 3, None, ["corrected"]],
    "tau": [
        (0.0,),
        (-1.0,),
        (math.nan,),
        (math.inf,),
        (1e155,),
        [1.0, "a"],
        True,
        ("1",),
        (True,),
        "1",
        (1.0,) * 65,
        (1.0, 0.0),
    ],
    "t": [(-0.1,), (math.nan,), (math.inf,), (1e7,), ("1",), (True,), "1", (1.0,) * 65],
    "layers": [("",), (3,), "", ("all", "fc1"), ("last", "all")],
    "trials": [0, -1, 1.5, "3", True, None, 10**6],
    "grid": ["1", "33", "0", "x", "best ", "²", 2.5, "lemma", "100"],
    "gamma": [0, -1, math.nan, math.inf, "1", True],
    "level": [-0.1, 1, math.nan, "0.1", True, None],
    "epsilon": [0, -1, 1.5, math.nan, math.inf, "1", True],
    "eta": [0, -1, 1, 2, math.nan, math.inf, "1", True],
}


def test_there_is_a_row_for_every_option() -> None:
    names = {field.name for field in fields(HeavyTailOptions)}
    assert names == set(BAD) == set(METHODS[METHOD].takes)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_gets_one_sentence_that_names_its_option(name: str) -> None:
    other = {"epsilon": {"eta": 0.1}, "eta": {"epsilon": 0.1}}.get(name, {})
    for value in BAD[name]:
        with pytest.raises(BadInput) as caught:
            HeavyTailOptions(**other, **{name: value})
        assert f"`{name}`" in str(caught.value), value
        assert "\n" not in str(caught.value)


def test_as_many_values_as_may_be_tried() -> None:
    assert len(HeavyTailOptions(tau=tuple(range(1, 65))).taus) == 64


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"form": "appendix", "tau": (2.0,)}, "leave out `tau`"),
        ({"form": "appendix", "t": (1.0,)}, "leave out `t`"),
        ({"form": "appendix", "epsilon": 0.1, "eta": 0.1}, "leave out `epsilon` and `eta`"),
        ({"epsilon": 0.1}, "`epsilon` goes with `eta`"),
        ({"eta": 0.1}, "`eta` goes with `epsilon`"),
        ({"epsilon": 0.1, "eta": 0.1, "tau": (1.0,)}, "`tau` and `epsilon` both set the threshold"),
    ],
)
def test_contradictions(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        HeavyTailOptions(**options)
    with pytest.raises(BadInput, match=words):
        choose(METHOD, options)


def test_defaults_follow_the_form() -> None:
    corrected, algorithm, appendix = (HeavyTailOptions(form=form) for form in FORMS)
    assert (corrected.taus, corrected.ts) == (TAUS, (0.0, 1.0))
    assert (algorithm.taus, algorithm.ts) == (TAUS, (1.0,))
    assert (appendix.taus, appendix.ts) == ((1.0,), (1.0,))
    assert [one.chosen_layers for one in (corrected, algorithm, appendix)] == [
        ("all",),
        ("all",),
        ("last",),
    ]
    assert [one.grids for one in (corrected, algorithm, appendix)] == [(8,), (8,), (16,)]
    assert HeavyTailOptions(grid="best").grids == BEST_GRIDS
    assert HeavyTailOptions(tau=(2.0, 1.0, 2.0), t=(1.0, 1.0)).taus == (2.0, 1.0)
    assert HeavyTailOptions(t=(1.0, 1.0)).ts == (1.0,)
    by_error = HeavyTailOptions(epsilon=0.1, eta=0.01)
    assert (by_error.taus, by_error.ts) == ((), (0.0,))
    assert HeavyTailOptions(epsilon=0.1, eta=0.01, t=(0.5,)).ts == (0.5,)
    assert HeavyTailOptions(form="algorithm", epsilon=0.1, eta=0.01).ts == (
        1.0,
    )  # the algorithm always adds noise
    assert HeavyTailOptions(form="appendix", tau=(1.0,)).taus == (1.0,)
    for options in (corrected, algorithm, appendix, by_error):
        settings = options.settings()
        assert (settings["layers"], settings["grid"]) == (
            ",".join(options.chosen_layers),
            options.chosen_grid,
        )
    assert corrected.settings()["t"] == "0,1"
    assert corrected.settings()["tau"] == "0.5,1,1.5,2,2.5,3"


def test_options_as_python_gives_them() -> None:
    plain = HeavyTailOptions(tau=(1.0,), t=(0.0,), grid="4", layers=("fc1", "fc2"))
    assert HeavyTailOptions(tau=1, t=0.0, grid=4, layers="fc1, fc2") == plain
    assert HeavyTailOptions(tau=[1], t=np.array([0.0]), grid="4", layers=["fc1", "fc2"]) == plain
    assert HeavyTailOptions(layers=("fc1", "fc2"), tau=(1.0,), t=(0.0,), grid=4) == plain
    for wrong in ([1, "a"], True, ["1"], {"tau": 1}):
        with pytest.raises(BadInput, match="`tau` must be numbers above 0"):
            HeavyTailOptions(tau=wrong)


@pytest.mark.parametrize("name", ["rule", "sparsity", "k", "zeta", "sweep", "d", "seed"])
def test_options_of_other_methods_are_refused_by_name(name: str) -> None:
    with pytest.raises(
        BadInput,
        match=f"`method` = heavy-tail does not take `{name}`; its options are `form`, `tau`",
    ):
        choose(METHOD, {name: 1})
    with pytest.raises(BadInput, match="does not take `tau`"):
        choose("magnitude", {"tau": (1.0,)})
