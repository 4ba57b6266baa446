"""The passes: each a function from a candidate to simpler ones, the boldest first.

A pass yields what it can think of; the search runs only what is possible and simpler than the candidate at hand by the
order, takes the first that fails in the same way, and asks the pass again. That makes every pass end, since no chain of
ever simpler cases goes on for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from attncheck.minimize.candidate import Candidate
from attncheck.minimize.passes import features, numbers, sessions, settings, sizes, tied

Propose = Callable[[Candidate], Iterator[Candidate | None]]


@dataclass(frozen=True)
class Pass:
    """A way to make a case simpler, with the name by which progress calls it."""

    name: str
    propose: Propose


SHAPES = (
    Pass("steps", sessions.fewer_steps),
    Pass("features", features.fewer_features),
    Pass("all sizes", sizes.all_at_once),
    Pass("batch", sizes.fewer_entries),
    Pass("each size", sizes.each_size),
    Pass("tied sizes", tied.together),
    Pass("traded lengths", tied.traded),
    Pass("settings", settings.plainer_settings),
    Pass("dtype", settings.plainer_dtype),
    Pass("defaults", settings.defaults),
)
"""What is computed: tried first, up to a fixpoint of their own, while the numbers are generated ones of any shape."""

VALUES = (
    Pass("whole tensors", numbers.whole_tensors),
    Pass("slices", numbers.slices),
    Pass("entries", numbers.entries),
    Pass("one less", numbers.one_less),
)
"""On which numbers."""

PASSES = (*SHAPES, *VALUES)
"""In the order in which they are tried; after any progress they begin anew, up to a common fixpoint."""
