"""The factor: how many times the first-order bound an error is. The judge's constant is held against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from attncheck.compare.arithmetic import Compute
from attncheck.compare.judge import STORAGE, errors
from attncheck.oracle.answer import Answer
from attncheck.tensors.dtypes import dtype

Float = NDArray[np.float64]


def factor(answers: Sequence[Answer], outputs: Mapping[str, Float], storage: str, compute: Compute) -> float:
    """(error - 2 * u_storage * storage) / (u_compute * compute), at its largest over the elements of all outputs.

    outputs   in float64, as `judge.widened` gives them
    Elements whose bound is 0 are copies, which the judge wants exact; those that are not finite on either side are the
    judge's too. Where the expected number is so small that the dtype may flush it, that much is let pass.
    """
    return max((_of_one(each, outputs[each.output], storage, compute) for each in answers), default=0.0)


def _of_one(answer: Answer, got: Float, storage: str, compute: Compute) -> float:
    kept = dtype(storage)
    roundoff = dtype("float32").roundoff if compute == "f32" else kept.roundoff
    error, nonfinite = errors(got, answer.values)
    counts = answer.stated & np.isfinite(answer.values) & ~nonfinite & (answer.compute > 0.0)
    if not counts.any():
        return 0.0
    flushed = np.where(np.abs(answer.values) < 2.0 * kept.smallest_normal, kept.smallest_normal, 0.0)
    beyond = error - STORAGE * kept.roundoff * answer.storage - flushed
    return float(np.max(beyond[counts] / (roundoff * answer.compute[counts]), initial=0.0))
