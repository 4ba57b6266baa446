"""A wrong output in one line of text: how far its rows are out of tolerance, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attncheck.compare.picture import Axis, Cell, Map, Picture
from attncheck.reports.numbers import margin

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII = " .:-=+*#@"
"""What a cell looks like, by how far it is out: nothing is compared, within tolerance, then from little to much."""

BEYOND = "!"
"""A cell in which something is not finite, or not equal where it must be exactly."""
FEWEST = 2
"""Cells of which a strip is made: one says no more than the numbers above it."""


def strip(picture: Picture, ramp: str, room: int | None) -> str:
    """The margins of the worst head, row by row, and where it has one row, dim by dim; in at most `room` characters.

    Empty where there are too few cells to show anything, or no room for them.
    """
    found = next((it for it in picture.maps if it.of == "margin" and it.head is not None), None)
    if found is None:
        return ""
    axis, cells = _along(found)
    title = f"head {picture.head}, {axis.name} 0 to {axis.size - 1}  "
    most = largest(cells)
    legend = f"  {ramp[1]} in tolerance, {ramp[-1]} {margin(most)}" if most > 1 else f"  {ramp[1]} in tolerance"
    legend += f", {BEYOND} beyond any tolerance" if any(isinstance(it, str) for it in cells) else ""
    if room is not None:
        cells = _fewer(cells, room - len(title) - len(legend))
    if len(cells) < FEWEST:
        return ""
    return title + "".join(char(it, most, ramp) for it in cells) + legend


def _along(found: Map) -> tuple[Axis, list[Cell]]:
    """The largest of each row of cells; of a single row, its cells."""
    if len(found.cells) == 1:
        return found.columns, list(found.cells[0])
    return found.rows, [_worst(row) for row in found.cells]


def _worst(cells: Sequence[Cell]) -> Cell:
    """What is not finite is worst, then the largest; None where all are."""
    words = [it for it in cells if isinstance(it, str)]
    return words[0] if words else max((it for it in cells if it is not None), default=None)


def largest(cells: Sequence[Cell]) -> float:
    """The largest margin among the cells that hold a number, 0 where none does."""
    return max((it for it in cells if isinstance(it, float | int)), default=0.0)


def _fewer(cells: list[Cell], room: int) -> list[Cell]:
    """Neighbours put together until there is room; none at all where there is none."""
    if room < FEWEST:
        return []
    together = -(-len(cells) // room)
    return [_worst(cells[at : at + together]) for at in range(0, len(cells), together)]


def char(cell: Cell, most: float, ramp: str) -> str:
    """How a margin is drawn, where `most` is the largest."""
    if cell is None:
        return ramp[0]
    if isinstance(cell, str):
        return BEYOND
    if cell <= 1:
        return ramp[1]
    share = math.log(cell) / math.log(most)
    return ramp[2 + min(len(ramp) - 3, int(share * (len(ramp) - 2)))]
