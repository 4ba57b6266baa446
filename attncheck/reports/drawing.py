"""The maps of a picture as text, as wide and as high as they are: for whoever looks at one result at length."""

from __future__ import annotations

from attncheck.compare.picture import Axis, Map, Numbers, Picture, ScoreRow
from attncheck.reports.lines import Line, line
from attncheck.reports.numbers import margin
from attncheck.reports.strip import char, largest

INDENT = "  "
COLUMN = 12
"""Width of a number, as `.5g` writes it, with the blanks before it."""


def drawn(picture: Picture, ramp: str, width: int | None) -> list[Line]:
    """The numbers around the worst element, the maps of margins, and what its query looks at."""
    lines = numbers(picture.numbers, width)
    for found in (it for it in picture.maps if it.of == "margin"):
        lines += [line(""), *grid(found, ramp)]
    return lines + (scores(picture.scores, ramp) if picture.scores is not None else [])


def numbers(it: Numbers, width: int | None) -> list[Line]:
    """What came and what was expected, along the last axis; as many columns as fit."""
    rows = {"candidate": it.candidate, "oracle": it.oracle, "tolerance": it.tolerance, "reference": it.reference}
    named = max(map(len, rows))
    most = len(it.oracle) if width is None else max(1, (width - len(INDENT) - named) // COLUMN)
    shown = {name: values[:most] for name, values in rows.items() if values}
    head = "".join(f"[{it.first + at}]".rjust(COLUMN) for at in range(len(shown["oracle"])))
    return [
        line(f"{INDENT}{''.ljust(named)}{head}", "title"),
        *(
            line(f"{INDENT}{name.ljust(named)}{''.join(f'{float(value):.5g}'.rjust(COLUMN) for value in values)}")
            for name, values in shown.items()
        ),
    ]


def grid(it: Map, ramp: str) -> list[Line]:
    """A map of margins, a line a row of cells."""
    most = largest([cell for row in it.cells for cell in row])
    whose = "the worst of all heads" if it.head is None else f"head {it.head}"
    whose = "" if it.rows.name == "head" or it.columns.name == "head" else f" of {whose}"
    said = f"margins{whose}, {_axis(it.rows)} downwards, {_axis(it.columns)} to the right"
    top = f", {ramp[-1]} {margin(most)}" if most > 1 else ""
    first = [str(index) for index in it.rows.starts]
    room = max(map(len, first), default=0)
    rows = zip(first, it.cells, strict=True)
    return [
        line(f"{INDENT}{said}; {ramp[1]} in tolerance{top}", "title"),
        *(
            line(f"{INDENT}{index.rjust(room)} |{''.join(char(cell, most, ramp) for cell in cells)}|")
            for index, cells in rows
        ),
    ]


def scores(it: ScoreRow, ramp: str) -> list[Line]:
    """The weights that the query of the worst element gives to its keys, by the oracle, on one line."""
    most = max((float(weight) for weight in it.weights), default=0.0)
    if not most > 0:
        return []
    steps = len(ramp) - 1
    shares = [float(weight) / most for weight in it.weights]
    cells = "".join(ramp[max(1, round(share * steps))] if share > 0 else ramp[0] for share in shares)
    sees = f"sees keys {it.sees[0]} to {it.sees[1] - 1}" if it.sees[0] < it.sees[1] else "sees no key"
    said = f"its query {sees}; weights by the oracle, {_axis(it.keys)} to the right, {ramp[-1]} {most:.3g}"
    return [line(""), line(INDENT + said, "title"), line(f"{INDENT}|{cells}|")]


def _axis(it: Axis) -> str:
    """``query 0 to 127, 4 a cell, padding from 100``."""
    step = f", {it.step} a cell" if it.step > 1 else ""
    marks = "".join(f", {mark.words} from {mark.at}" for mark in it.marks)
    return f"{it.name} 0 to {it.size - 1}{step}{marks}"
