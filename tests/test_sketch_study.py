"""The study of how large a sketch must be: single trials, the transition, the counts, and the picture."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from cushion.compressors.guha.sketch_study import (
    PhaseTransition,
    comes_back,
    counts,
    crossing,
    phase_transition,
    recovery_rate,
    sparse_matrix,
)
from cushion.errors import BadInput
from cushion.figures.sketches import _figure, draw_phase_transition


def test_the_matrices_of_a_study() -> None:
    X = sparse_matrix(60, 4, 1, 2)
    assert ((X != 0).sum(axis=1) == 4).all()
    assert np.abs(X).max() <= 127
    values = np.concatenate(
        [sparse_matrix(60, 4, 1, trial)[sparse_matrix(60, 4, 1, trial) != 0] for trial in range(20)]
    )
    # 4800 values uniform on ±1..±127: mean 0 with a standard error of 73.6/√4800 = 1.06, mean size 64 with 0.53.
    assert abs(values.mean()) < 5 * 1.06
    assert abs(np.abs(values).mean() - 64) < 5 * 0.53
    assert not np.array_equal(X, sparse_matrix(60, 4, 1, 3))


def test_a_trial_is_a_function_of_its_seed_and_number() -> None:
    """Near the transition some fail and some do not, always the same ones: a study may be resumed anywhere."""
    first = [comes_back(40, 3, 21, 8, 0, trial) for trial in range(4)]
    assert [comes_back(40, 3, 21, 8, 0, trial) for trial in reversed(range(4))] == first[::-1]
    assert recovery_rate(40, 3, 21, 8, 4, 0) == sum(first) / 4


def test_the_transition_is_where_generic_measurements_have_it() -> None:
    """Far below it none comes back, far above all do, and between them it is crossed near √δ(J/N)·p."""
    found = phase_transition(60, 4, [40, 24, 30, 34], 8, 3)
    assert found.sides == (24, 30, 34, 40)
    assert found.recovered[0] == 0
    assert found.recovered[-1] == 3
    assert found.half is not None
    assert found.half == pytest.approx(found.generic, rel=0.12)
    assert found.constant == pytest.approx(found.half / (math.sqrt(4 * 60) * math.log(60)))
    assert found.constant < 1  # the theorem's side is ample already with the constant 1
    assert json.loads(found.dumps())["recovered"] == list(found.recovered)


def test_the_crossing() -> None:
    assert crossing([10, 20, 30], [0.0, 0.25, 0.75]) == 25.0
    assert crossing([10, 20], [0.0, 0.5]) == 20.0
    assert crossing([10, 20], [0.6, 1.0]) is None
    assert crossing([10, 20], [0.0, 0.2]) is None


def test_counts_on_a_case_that_can_be_counted() -> None:
    # 2 non-zeros of 3 x 4: C(12, 2) = 66 masks, 5 bits a value; the sketch has 1 · 4 · (ln 4)² numbers.
    found = counts(3, 4, 1, 2, 5)
    assert found.naive == pytest.approx(math.log2(66) + 10)
    assert found.sketch_numbers == pytest.approx(4 * math.log(4) ** 2)
    assert found.sketch == pytest.approx(5 * found.sketch_numbers)
    assert found.ratio == pytest.approx(found.sketch / found.naive)
    with pytest.raises(BadInput):
        counts(3, 4, 1, 13, 5)


@pytest.mark.parametrize(
    ("p", "per_row", "given", "trials"), [(10, 11, [5], 1), (10, 2, [], 1), (10, 2, [11], 1), (10, 2, [5], 0)]
)
def test_a_study_of_nothing_is_refused(p: int, per_row: int, given: list[int], trials: int) -> None:
    with pytest.raises(BadInput):
        phase_transition(p, per_row, given, 2, trials)


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    record = PhaseTransition(100, 5, 6, 8, 0, (41, 45, 47), (0, 2, 8), 45.7, 0.44, 45.2)
    paths = draw_phase_transition([record], str(tmp_path))
    assert [path.name for path in paths] == ["sketch-phase-transition.png", "sketch-phase-transition.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in paths[1].read_bytes()
    # What is drawn: rates over m/√(jp), then over m/(√(jp)·ln p), and where generic measurements set in.
    for axes, unit in zip(_figure([record]).axes, (math.sqrt(500), math.sqrt(500) * math.log(100)), strict=True):
        curve, generic = axes.lines
        np.testing.assert_allclose(curve.get_xdata(), np.array([41, 45, 47]) / unit)
        np.testing.assert_allclose(curve.get_ydata(), [0, 0.25, 1])
        assert generic.get_xdata()[0] == pytest.approx(45.2 / unit)
    with pytest.raises(BadInput):
        draw_phase_transition([], str(tmp_path))
