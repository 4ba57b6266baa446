"""The picture of a wrong output: an error shows in exactly its cell, a NaN as such, and weights are the oracle's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import TypeAdapter

from attncheck.compare import judge
from attncheck.compare.picture import Axis, Cell, Map, Mark, Picture, beside, picture
from attncheck.oracle.attention import weighed
from attncheck.problem import Problem
from tests.unit.test_compare import judged

Outputs = dict[str, NDArray[Any]]


def seen(axes: dict[str, Any], spoil: Any, output: int = 0) -> tuple[Problem, Outputs, Picture]:
    """The picture of the oracle's own values, rounded, after `spoil` has been at them."""
    case, problem, answers, outputs = judged(**axes)
    spoil(outputs)
    found = judge.differences(problem, answers, outputs, "f32", "naive")
    worst = max(found, key=lambda it: it.margin)
    assert worst is found[output]
    return problem, outputs, picture(problem, case.inputs, answers, outputs, "f32", None, worst)


def large(it: Map) -> dict[tuple[int, int], Cell]:
    """The cells that are out of tolerance, by row and column."""
    cells = [(row, column, cell) for row, cells in enumerate(it.cells) for column, cell in enumerate(cells)]
    return {(row, column): cell for row, column, cell in cells if isinstance(cell, str) or (cell or 0.0) > 1.0}


def axes(it: Map) -> tuple[str, str]:
    return it.rows.name, it.columns.name


def test_a_single_wrong_element_shows_in_exactly_its_cell() -> None:
    def spoil(outputs: Outputs) -> None:
        outputs["output"][1, 2, 3 * 16 + 5] += 1.0

    _, outputs, it = seen({"q_len": (4, 4)}, spoil)
    heads, dims, members, keys = it.maps
    over = [("query", "head"), ("query", "dim"), ("batch", "head"), ("query", "key")]
    assert [axes(each) for each in it.maps] == over
    assert [each.head for each in it.maps] == [None, 3, None, 3]
    assert [list(large(each)) for each in (heads, dims, members)] == [[(2, 3)], [(2, 5)], [(1, 3)]]
    assert (it.batch, it.head, it.row, it.dim) == (1, 3, 2, 5)
    assert it.numbers.first == 1
    assert it.numbers.candidate == tuple(outputs["output"][1, 2, 49:57].astype(float).tolist())
    apart = np.abs(np.subtract(it.numbers.candidate, it.numbers.oracle))
    assert np.flatnonzero(apart > it.numbers.tolerance).tolist() == [4]
    assert apart[4] / it.numbers.tolerance[4] == pytest.approx(large(dims)[2, 5], rel=5e-3)
    assert keys.of == "weight"


def test_a_long_axis_is_reduced_to_its_largest_in_cells_of_a_power_of_two() -> None:
    def spoil(outputs: Outputs) -> None:
        outputs["output"][0, 101, 3] += 1.0

    _, _, it = seen({"q_len": (130,), "head_dim": 8}, spoil)
    heads, dims, keys = it.maps
    assert (heads.rows.size, heads.rows.step, len(heads.cells)) == (130, 4, 33)
    assert list(large(heads)) == [(25, 0)]
    assert list(large(dims)) == [(25, 3)]
    assert (keys.columns.step, len(keys.cells[0])) == (4, 33)


def test_nan_and_infinity_are_words_and_padding_is_nothing() -> None:
    def spoil(outputs: Outputs) -> None:
        outputs["output"][0, 0, 0] = np.nan
        outputs["output"][0, 1, 17] = np.inf

    _, _, it = seen({"q_len": (2, 4)}, spoil)
    heads = it.maps[0]
    assert large(heads) == {(0, 0): "NaN", (1, 1): "Infinity"}
    assert heads.cells[2:] == ((None,) * 4,) * 2
    assert heads.rows.marks == (Mark(2, "padding"),)
    assert heads.columns.marks == (Mark(2, "query heads of KV head 1"),)
    assert it.numbers.candidate[0] == "NaN"


def test_a_present_is_seen_by_slot_and_has_no_keys() -> None:
    def spoil(outputs: Outputs) -> None:
        outputs["present_value"][0, 1, 4, 9] += 1.0

    _, _, it = seen({"q_len": (2,), "past_len": (3,), "capacity": 8}, spoil, output=2)
    heads, dims = it.maps
    assert [axes(heads), axes(dims)] == [("slot", "head"), ("slot", "dim")]
    assert list(large(heads)) == [(4, 1)]
    assert list(large(dims)) == [(4, 9)]
    assert heads.rows.marks == (Mark(3, "new keys"), Mark(5, "nothing is kept"))
    assert set(heads.cells[5]) == {None}
    assert it.scores is None


def test_rows_look_at_what_softmax_says_within_their_window() -> None:
    """Constant keys weigh the same, so that each of the 3 keys in the window has a third, and a block its share."""
    _, _, it = seen(
        {"q_len": (100,), "window": 3, "data": "constant", "heads": 1, "kv_heads": 1},
        lambda outputs: outputs["output"].__setitem__((0, 50, 0), 9.0),
    )
    *_, keys = it.maps
    assert keys.columns == Axis("key", 100, 4)
    assert keys.rows == Axis("query", 100, 4)
    # Rows 48 to 51 see keys 46 to 51 together; row 48 gives two thirds to the block of keys 44 to 47, row 50 all to 48.
    assert keys.sees[12] == (46, 52)
    assert keys.cells[12][10:14] == (0.0, 0.667, 1.0, 0.0)
    assert it.scores is not None
    assert it.scores.sees == (48, 51)
    assert it.scores.keys.step == 2
    assert it.scores.weights[23:27] == (0.0, 0.667, 0.333, 0.0)
    assert [at for at, score in enumerate(it.scores.scores) if score is not None] == [24, 25]


def test_a_score_output_is_seen_by_query_and_key() -> None:
    def spoil(outputs: Outputs) -> None:
        list(outputs.values())[-1][0, 2, 3, 1] += 1.0

    _, _, it = seen({"scores": "weights"}, spoil, output=-1)
    heads, keys = it.maps
    assert [axes(heads), axes(keys)] == [("query", "head"), ("query", "key")]
    assert (keys.of, list(large(keys))) == ("margin", [(3, 1)])


def test_the_reference_stands_beside_the_others() -> None:
    def spoil(outputs: Outputs) -> None:
        outputs["output"][0, 2, 20] += 1.0

    problem, outputs, it = seen({}, spoil)
    right = {"output": outputs["output"] * 2}
    told = beside(it, problem, right).numbers
    assert told.reference == tuple((outputs["output"][0, 2, 16:24] * 2).astype(float).tolist())


def test_a_picture_that_was_written_and_read_is_the_same() -> None:
    def spoil(outputs: Outputs) -> None:
        outputs["output"][0, :2, :9] = [[np.nan], [np.inf]]

    _, _, it = seen({}, spoil)
    adapter = TypeAdapter(Picture)
    assert adapter.validate_json(adapter.dump_json(it)) == it


def test_what_a_head_looks_at_is_what_the_score_outputs_say_of_it() -> None:
    """With a bias a head: `weighed` and the outputs that are stated are two ways to the same numbers."""
    for stage, mine in (("weights", 1), ("biased", 0)):
        axes = {"op": "attention", "opset": 25, "q_len": (5,), "past_len": (4,), "bias": "1xNxSxT", "scores": stage}
        case, problem, answers, _ = judged(**axes)
        for head in range(problem.heads):
            for rows, *found in weighed(problem, case.inputs, 0, head):
                np.testing.assert_allclose(found[mine], answers[-1].values[0, head, rows], rtol=1e-12)
