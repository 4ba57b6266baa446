"""An answer does not depend on the other members of the batch: to the last bit, for every kernel, whatever they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.device import compute, every_kernel, has_f16, work
from tests.drawing import scenario
from tests.dressing import alone

PAST = 2100
"""More than one section of online's keys where head_dim is 128, and several slices of decode's."""


@every_kernel
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("others", [(0,), (500, 5), (2900,)], ids=["no-past", "shorter", "longer"])
@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize("axes", [{}, {"window": 600}], ids=["all-keys", "window"])
def test_a_member_has_the_same_bits_alone(
    kernel: str, dtype: str, others: tuple[int, ...], rows: int, axes: dict[str, Any]
) -> None:
    if dtype == "float16" and not has_f16():
        pytest.skip("the adapter has no f16")
    shape = {"dtype": dtype, "heads": 4, "kv_heads": 2, "head_dim": 128, **axes}
    together = work(scenario(q_len=(rows,) * (1 + len(others)), past_len=(PAST, *others), **shape))
    own = alone(together, work(scenario(q_len=(rows,), past_len=(PAST,), **shape)))
    words = np.uint32 if dtype == "float32" else np.uint16
    expected = compute(own, kernel)["output"].view(words)
    np.testing.assert_array_equal(compute(together, kernel)["output"][:1].view(words), expected)
