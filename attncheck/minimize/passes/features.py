"""Fewer features: what is on and need not be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from attncheck.minimize.candidate import Candidate
from attncheck.minimize.order import features, off

PAIRS_UP_TO = 10
"""Features up to which pairs of them are tried as the only ones."""


def fewer_features(case: Candidate) -> Iterator[Candidate | None]:
    """Turns features off: all, all but one, all but two, then one at a time.

    Changes the axes that turn something on, and what stands or falls with them; never the sizes of what stays possible.
    Progress: fewer features come first in the order. Few are tried before many, so that a fault that needs one feature,
    or two together, is left with these, whichever others it could also be had with.
    """
    on = features(case)
    for count in range(min(3, len(on))):
        if count < 2 or len(on) <= PAIRS_UP_TO:
            for kept in combinations(on, count):
                yield case.with_({axis: off(axis) for axis in on if axis not in kept})
    for axis in on:
        yield case.with_({axis: off(axis)})
