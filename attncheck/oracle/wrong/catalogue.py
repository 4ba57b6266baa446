"""The catalogue of wrong kernels, in the order in which sharpness tries them: what is nearly always rejected first."""

from __future__ import annotations

from attncheck.oracle.wrong.blocks import BLOCKS
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.heads import HEADS
from attncheck.oracle.wrong.lengths import LENGTHS
from attncheck.oracle.wrong.masks import MASKS
from attncheck.oracle.wrong.positions import POSITIONS
from attncheck.oracle.wrong.presents import PRESENTS
from attncheck.oracle.wrong.scores import SCORES
from attncheck.problem import Problem

CATALOGUE: tuple[Wrong, ...] = (*reversed(HEADS), *SCORES, *MASKS, *BLOCKS, *LENGTHS, *POSITIONS, *PRESENTS)


def relevant(problem: Problem) -> tuple[Wrong, ...]:
    """The wrong kernels that must differ from a right one on `problem`."""
    return tuple(wrong for wrong in CATALOGUE if wrong.relevant(problem))
