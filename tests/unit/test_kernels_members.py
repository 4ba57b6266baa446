"""An answer does not depend on the other members of the batch: to the last bit, for every kernel, whatever they are."""

from __future__ import annotations

import pytest

from tests.device import assert_same_bits, compute, every_kernel, has_f16
from tests.members import BATCHES, Batch


@every_kernel
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_a_member_has_the_same_bits_alone(kernel: str, dtype: str, batch: Batch) -> None:
    if dtype == "float16" and not has_f16():
        pytest.skip("the adapter has no f16")
    own = compute(batch.alone(dtype), kernel)["output"]
    assert_same_bits(compute(batch.together(dtype), kernel)["output"][:1, : batch.rows], own)
