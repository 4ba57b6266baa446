"""SparseAttention: the example of its text, and the oracle against dense attention under the block mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attncheck.graph import read, write
from attncheck.graph.read.sparse import layout
from attncheck.graph.write.sparse import compressed
from attncheck.oracle.attention import answer
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


def test_the_example_of_the_text_is_read_and_written() -> None:
    np.testing.assert_array_equal(layout(ROWS, COLUMNS), BLOCK_MASKS)
    rows, columns = compressed(BLOCK_MASKS)
    np.testing.assert_array_equal(rows, ROWS)
    np.testing.assert_array_equal(columns, COLUMNS)


@pytest.mark.parametrize(("q_len", "past_len"), [(64, 0), (1, 40), (20, 39), (1, 63)])
def test_the_oracle_is_dense_attention_under_the_block_mask_of_the_head(q_len: int, past_len: int) -> None:
    case = write.build(
        from_command_line(f"op=sparse q_len={q_len} past_len={past_len} capacity=64 kv_heads=4 sparse_layouts=2")
    )
    inputs = {**case.inputs, "block_row_indices": ROWS, "block_col_indices": COLUMNS}
    found = answer(read.problem(case.model, inputs), inputs)[0].values.reshape(q_len, HEADS, DIM)
    query, key, value = (
        inputs[name][0].reshape(-1, HEADS, DIM).astype(np.float64) for name in ("query", "key", "value")
    )
    keys, values = (
        np.concatenate([inputs[f"past_{name}"][0, :, :past_len].transpose(1, 0, 2), new])
        for name, new in (("key", key), ("value", value))
    )
    for row, head in np.ndindex(q_len, HEADS):
        at = past_len + row
        sees = [slot for slot in range(at + 1) if BLOCK_MASKS[head % 2, at // BLOCK, slot // BLOCK]]
        weights = np.exp(keys[sees, head] @ query[row, head] / 4.0)
        expected = weights @ values[sees, head] / weights.sum()
        np.testing.assert_allclose(found[row, head], expected, rtol=1e-10, atol=1e-12)


def test_a_block_mask_that_hides_nothing_is_no_mask() -> None:
    assert read.problem(*_fed("op=sparse q_len=16")).masks == ()
    assert len(read.problem(*_fed("op=sparse q_len=66")).masks) == 1


def test_keys_that_the_buffers_have_no_room_for_are_forbidden() -> None:
    model, inputs = _fed("op=sparse q_len=1 past_len=9 capacity=16")
    longer = {**inputs, "key_total_sequence_lengths": np.array([17], np.int32)}
    assert "past_key has 16 rows" in read.problem(model, longer).invalid


def _fed(text: str) -> tuple[bytes, dict[str, NDArray[Any]]]:
    case = write.build(from_command_line(text))
    return case.model, dict(case.inputs)
