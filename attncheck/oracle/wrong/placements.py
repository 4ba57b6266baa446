"""Other readings of where a query stands, which a window bounds keys by and the causal triangle begins at."""

from __future__ import annotations

import numpy as np

from attncheck.oracle.wrong import intervals
from attncheck.oracle.wrong.intervals import Mask
from attncheck.oracle.wrong.windows import Intervals, bounded, from_first_key, from_last_key, seeing
from attncheck.problem import Problem


def _window_from_first_key(problem: Problem, how: Mask) -> Intervals | None:
    return from_first_key(problem, how) if bounded(how) else None


def _window_from_last_key(problem: Problem, how: Mask) -> Intervals | None:
    return from_last_key(problem, how) if bounded(how) else None


def _from_buffer_end(problem: Problem, how: Mask) -> Intervals | None:
    """The last query stands at the last slot of a buffer that is longer than its keys."""
    if not (how.causal or bounded(how)) or min(problem.kv_len) == problem.capacity:
        return None
    own = np.broadcast_to(problem.capacity - problem.rows + np.arange(problem.rows), (problem.batch, problem.rows))
    return intervals.visible(problem, how, own)


PLACEMENTS = (
    seeing("window-from-first-key", "the window placed as if the first query stood at the first key",
           _window_from_first_key),
    seeing("window-from-last-key", "the window placed as if the last query stood at the last key",
           _window_from_last_key),
    seeing("queries-at-buffer-end", "queries placed as if the last one stood at the buffer's last slot",
           _from_buffer_end),
)  # fmt: skip
