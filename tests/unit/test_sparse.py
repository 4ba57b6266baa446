"""SparseAttention: the example of its text, and the oracle against dense attention under the block mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attncheck.graph import read, write
from attncheck.graph.read.sparse import layout
from attncheck.graph.write.sparse import compressed
from attncheck.oracle.attention import answer
from attncheck.oracle.wrong.block_masks import BLOCK_MASKS as BLOCK_MASKS_WRONG
from attncheck.oracle.wrong.catalogue import relevant
from attncheck.scenario import from_command_line

BLOCK_MASKS = np.array(
    [
        [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]],
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 1, 1]],
    ],
    np.bool_,
)
"""Masks and indices below are the example of the operator's text."""
COLUMNS = np.array([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]], np.int32)
ROWS = np.array([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]], np.int32)
HEADS, DIM, BLOCK = 4, 16, 16

Arrays = dict[str, NDArray[Any]]
Row = Callable[[int, int], NDArray[np.bool_]]


def test_the_example_of_the_text_is_read_and_written() -> None:
    np.testing.assert_array_equal(layout(ROWS, COLUMNS), BLOCK_MASKS)
    rows, columns = compressed(BLOCK_MASKS)
    np.testing.assert_array_equal(rows, ROWS)
    np.testing.assert_array_equal(columns, COLUMNS)


@pytest.mark.parametrize(("q_len", "past_len"), [(64, 0), (1, 40), (20, 39), (1, 63)])
def test_the_oracle_is_dense_attention_under_the_block_mask_of_the_head(q_len: int, past_len: int) -> None:
    model, inputs = of_the_text(q_len, past_len)
    found = answer(read.problem(model, inputs), inputs)[0].values.reshape(q_len, HEADS, DIM)
    expected = dense(inputs, q_len, past_len, lambda head, at: BLOCK_MASKS[head % 2, at // BLOCK])
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("block-layouts-in-groups", lambda head, at: BLOCK_MASKS[head // 2, at // BLOCK]),
        ("block-rows-from-new", lambda head, at: BLOCK_MASKS[head % 2, (at - 39) // BLOCK]),
    ],
)
def test_a_wrong_kernel_takes_the_block_masks_that_its_words_say(name: str, row: Row) -> None:
    model, inputs = of_the_text(20, 39)
    (wrong,) = (wrong for wrong in BLOCK_MASKS_WRONG if wrong.name == name)
    problem = read.problem(model, inputs)
    assert wrong.relevant(problem)
    found = wrong.outputs(problem, inputs)["output"].reshape(20, HEADS, DIM)
    np.testing.assert_allclose(found, dense(inputs, 20, 39, row), rtol=1e-10, atol=1e-12)


def test_no_wrong_kernel_of_block_masks_is_relevant_where_it_takes_the_same() -> None:
    one = read.problem(*_fed("op=sparse q_len=66"))
    assert [wrong.name for wrong in BLOCK_MASKS_WRONG if wrong.relevant(one)] == []
    within_a_block = read.problem(*_fed("op=sparse q_len=5 past_len=99"))
    assert "mask-of-row-0" not in {wrong.name for wrong in relevant(within_a_block)}


def of_the_text(q_len: int, past_len: int) -> tuple[bytes, Arrays]:
    """Four heads over the masks of the text's example."""
    model, inputs = _fed(f"op=sparse q_len={q_len} past_len={past_len} capacity=64 kv_heads=4 sparse_layouts=2")
    return model, {**inputs, "block_row_indices": ROWS, "block_col_indices": COLUMNS}


def dense(inputs: Arrays, q_len: int, past_len: int, row: Row) -> NDArray[np.float64]:
    """[rows, heads, dim] by dense attention; `row` is the blocks of keys that a head sees at a position."""
    query, key, value = (
        inputs[name][0].reshape(-1, HEADS, DIM).astype(np.float64) for name in ("query", "key", "value")
    )
    keys, values = (
        np.concatenate([inputs[f"past_{name}"][0, :, :past_len].transpose(1, 0, 2), new])
        for name, new in (("key", key), ("value", value))
    )
    result = np.zeros((q_len, HEADS, DIM))
    for new, head in np.ndindex(q_len, HEADS):
        at = past_len + new
        sees = [slot for slot in range(at + 1) if row(head, at)[slot // BLOCK]]
        weights = np.exp(keys[sees, head] @ query[new, head] / 4.0)
        result[new, head] = weights @ values[sees, head] / max(weights.sum(), 1e-300)
    return result


def test_a_block_mask_that_hides_nothing_is_no_mask() -> None:
    assert read.problem(*_fed("op=sparse q_len=16")).masks == ()
    assert len(read.problem(*_fed("op=sparse q_len=66")).masks) == 1


def test_keys_that_the_buffers_have_no_room_for_are_forbidden() -> None:
    model, inputs = _fed("op=sparse q_len=1 past_len=9 capacity=16")
    lengths = ("total_sequence_length", "key_total_sequence_lengths")
    longer = {**inputs, **{name: np.array([17], np.int32) for name in lengths}}
    assert "past_key has 16 rows" in read.problem(model, longer).invalid


def _fed(text: str) -> tuple[bytes, dict[str, NDArray[Any]]]:
    case = write.build(from_command_line(text))
    return case.model, dict(case.inputs)
