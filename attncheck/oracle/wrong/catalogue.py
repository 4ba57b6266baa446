"""The catalogue of wrong kernels, in the order in which sharpness tries them: what is nearly always rejected first."""

from __future__ import annotations

from dataclasses import replace

from attncheck.oracle.wrong.beams import BEAMS
from attncheck.oracle.wrong.block_masks import BLOCK_MASKS
from attncheck.oracle.wrong.blocks import BLOCKS
from attncheck.oracle.wrong.caches import CACHES
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.evictions import EVICTIONS
from attncheck.oracle.wrong.heads import HEADS
from attncheck.oracle.wrong.lengths import LENGTHS
from attncheck.oracle.wrong.masks import MASKS
from attncheck.oracle.wrong.norms import NORMS
from attncheck.oracle.wrong.pages import PAGES
from attncheck.oracle.wrong.positions import POSITIONS
from attncheck.oracle.wrong.presents import PRESENTS
from attncheck.oracle.wrong.projections import PROJECTIONS
from attncheck.oracle.wrong.scores import SCORES
from attncheck.oracle.wrong.sinks import SINKS
from attncheck.oracle.wrong.windows import WINDOWS
from attncheck.problem import Problem

OFTEN_TWO = {
    "causal-ignored", "causal-top-left", "kv-heads-tiled", "length-of-entry-0", "longest-length", "mask-ignored",
    "norm-ignored", "rotary-from-zero", "rotary-half-for-interleaved", "rotary-ignored", "scale-default",
    "scale-missing", "sink-ignored", "softcap-ignored", "unread-times-zero", "value-upper-half-zero", "window-ignored",
    "window-one-long", "window-one-short",
}  # fmt: skip
"""Features that a dispatch path leaves out beside another fault."""

_GROUPS = (
    tuple(reversed(HEADS)), SCORES, WINDOWS, BLOCKS, LENGTHS, POSITIONS, PRESENTS, SINKS, MASKS, NORMS, EVICTIONS,
    PROJECTIONS, CACHES, PAGES, BLOCK_MASKS, BEAMS,
)  # fmt: skip

CATALOGUE: tuple[Wrong, ...] = tuple(
    replace(wrong, pairs=wrong.name in OFTEN_TWO or wrong in BLOCKS) for group in _GROUPS for wrong in group
)


def relevant(problem: Problem) -> tuple[Wrong, ...]:
    """The wrong kernels that must differ from a right one on `problem`."""
    return tuple(wrong for wrong in CATALOGUE if wrong.relevant(problem))
