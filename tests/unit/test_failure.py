"""A failure on the terminal: at most six lines, and among them what says most; the strip in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from attncheck.compare.picture import Axis, Cell, Map
from attncheck.engine.events import AtStep, Attribution, CaseFinished, Result
from attncheck.oracle.conventions import Convention
from attncheck.reports import failure
from attncheck.reports.strip import ASCII, BLOCKS, strip
from attncheck.vocabulary import Flag, Verdict
from tests.cli import events

COMMAND = "attncheck show a.yaml::b --result"
ALONE = Attribution("wgsl is wrong: ort-cpu agrees with the oracle", 3.1e-4, 2.0e-7, 3.1e-4)
READING = Convention("aligns causality to the upper left", "aligns it to the lower right", "the text says so")


def pictured(cells: tuple[tuple[Cell, ...], ...], rows: int = 128, columns: int = 64, head: int = 3) -> Any:
    found = Map("margin", head, Axis("query", rows), Axis("dim", columns), cells)
    return replace(events.PICTURE, head=head, maps=(*events.PICTURE.maps, found))


PICTURE = pictured(((0.1,), (281.8,)))


def wrong(**changes: object) -> Result:
    differences = (events.MISMATCH, events.difference(3.0, "present_key", "online"))
    made = events.result("a.yaml::b", Verdict.MISMATCH, kernel="online", worst=events.MISMATCH, differences=differences)
    return replace(made, **changes)  # type: ignore[arg-type]


def told(result: Result, width: int | None = 100, ramp: str = BLOCKS, command: str = COMMAND) -> list[str]:
    return [it.text for it in failure.lines(result, width, ramp, command)]


FAILING = [
    it
    for event in events.every_verdict()
    if isinstance(event, CaseFinished)
    for it in event.results
    if it.fails
]
WORST = wrong(
    picture=PICTURE,
    diagnosis="equals the kernel that forgets the window, " + "in many words " * 12,
    attribution=ALONE,
    convention=READING,
    step=AtStep(3, 8, "speculative"),
    flags=(Flag.NOT_BITWISE,),
    stderr="one\ntwo\nthree\n",
    expected=replace(events.KNOWN, departure="its verdict changes between repeats"),
)


@pytest.mark.parametrize("width", [40, 80, 100, None])
@pytest.mark.parametrize("result", [*FAILING, WORST, events.result("a", Verdict.ERROR, message="x " * 999)])
def test_a_failure_takes_at_most_six_lines_and_says_what_to_run_next(result: Result, width: int | None) -> None:
    lines = told(result, width)
    assert 2 <= len(lines) <= 6
    assert lines[-1].strip().partition(": ")[::2] in {("next", COMMAND), ("the rest", COMMAND)}
    assert width is None or width < 80 or all(len(it) <= width for it in lines[:-1])


def test_a_mismatch_tells_where_how_large_what_it_looks_like_and_equals_who_is_alone_and_what_next() -> None:
    result = wrong(
        differences=(events.MISMATCH,),
        picture=PICTURE,
        diagnosis="equals the kernel that forgets the window",
        attribution=ALONE,
    )
    assert told(result) == [
        "    output[batch 1, head 3, query 127, dim 63], online against oracle",
        "    got -0.123456791, expected -0.123146811; 12 of 4,096 elements fail",
        "    head 3, query 0 to 127  ▁█  ▁ in tolerance, █ 282",
        "    equals the kernel that forgets the window",
        "    wgsl is wrong: ort-cpu agrees with the oracle",
        f"    next: {COMMAND}",
    ]


def test_where_there_is_more_than_fits_lines_are_shared_and_the_least_goes_first() -> None:
    result = wrong(
        picture=PICTURE,
        diagnosis="equals the kernel that forgets the window",
        attribution=ALONE,
        convention=READING,
        step=AtStep(3, 8, "speculative"),
        flags=(Flag.NOT_BITWISE,),
    )
    assert told(result) == [
        "    step 3 of 8 (speculative) is the first to go wrong",
        "    output[batch 1, head 3, query 127, dim 63], online against oracle",
        "    got -0.123456791, expected -0.123146811; 12 of 4,096 elements fail",
        "    head 3, query 0 to 127  ▁█  ▁ in tolerance, █ 282",
        "    equals the kernel that forgets the window; wgsl is wrong: ort-cpu agrees with the oracle",
        f"    the rest: {COMMAND}",
    ]


def test_what_numbers_equal_is_cut_before_the_place_or_who_is_alone_goes() -> None:
    step = AtStep(1, 5)
    lines = told(wrong(picture=PICTURE, diagnosis="equals one thing or another, " * 12, attribution=ALONE, step=step))
    assert lines[:3] == ["    step 1 of 5 is the first to go wrong", *told(wrong())[:2]]
    assert lines[3].startswith("    equals one thing or another, ")
    assert lines[3].endswith(" ..")
    assert lines[4] == "    wgsl is wrong: ort-cpu agrees with the oracle"
    assert lines[5] == f"    the rest: {COMMAND}"


def test_of_what_a_crashed_process_wrote_the_end_is_told() -> None:
    stderr = "".join(f"line {number}\n" for number in range(20))
    result = events.result("a.yaml::b", Verdict.CRASH, message="ended by SIGSEGV", stderr=stderr)
    words = [f"    | line {number}" for number in range(16, 20)]
    assert told(result) == ["    ended by SIGSEGV", *words, f"    the rest: {COMMAND}"]


TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/me/kernel.py", line 7, in mine
    return helper(tensors["q"])
           ^^^^^^^^^^^^^^^^^^^^
  File "/srv/me/kernel.py", line 3, in helper
    return np.linalg.inv(
           ~~~~~~~~~~~~~^
        q)
        ^^
  File "/srv/me/.venv/lib/python3.12/site-packages/numpy/linalg/_linalg.py", line 615, in inv
    ainv = _umath_linalg.inv(a, signature=signature)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/me/.venv/lib/python3.12/site-packages/numpy/linalg/_linalg.py", line 104, in _raise
    raise LinAlgError("Singular matrix")
LinAlgError: Singular matrix
"""


def test_of_an_exception_the_user_s_own_frames_are_told_and_no_line_is_spent_on_marks() -> None:
    result = events.result("a", Verdict.ERROR, message="LinAlgError: Singular matrix", stderr=TRACEBACK)
    assert told(result) == [
        "    LinAlgError: Singular matrix",
        '    | /srv/me/kernel.py:7, in mine: return helper(tensors["q"])',
        "    | /srv/me/kernel.py:3, in helper: return np.linalg.inv(",
        f"    next: {COMMAND}",
    ]


def test_of_an_exception_within_a_library_alone_the_library_s_frames_are_told() -> None:
    library = TRACEBACK.replace("/srv/me/kernel.py", "/usr/lib/python3/dist-packages/made.py")
    result = events.result("a", Verdict.ERROR, message="LinAlgError: Singular matrix", stderr="loading\n" + library)
    lines = told(result)
    assert len(lines) == 6
    assert lines[-2].endswith('numpy/linalg/_linalg.py:104, in _raise: raise LinAlgError("Singular matrix")')


def test_a_message_that_is_too_long_is_cut_behind_its_beginning() -> None:
    result = events.result("a.yaml::b", Verdict.ERROR, message="\n".join(f"line {number}" for number in range(20)))
    assert told(result) == [
        *(f"    line {number}" for number in range(4)),
        "    line 4 ..",
        f"    the rest: {COMMAND}",
    ]


def test_without_a_command_the_verdict_s_explanation_is_next() -> None:
    assert told(wrong(differences=()), command="")[-1] == "    next: attncheck explain mismatch"


def test_a_strip_goes_from_in_tolerance_to_the_largest_margin_by_orders_of_magnitude() -> None:
    margins = (0.0, 1.0, 10.0, 1e3, 1e6)
    picture = pictured((*((it, 0.0) for it in margins), (None, None), (0.5, "NaN"), ("Infinity", None)))
    beyond = "! beyond any tolerance"
    assert strip(picture, BLOCKS, None) == f"head 3, query 0 to 127  ▁▁▃▅█ !!  ▁ in tolerance, █ 1.0e6, {beyond}"
    assert strip(picture, ASCII, None) == f"head 3, query 0 to 127  ..-+@ !!  . in tolerance, @ 1.0e6, {beyond}"


def test_a_strip_of_one_row_goes_along_its_dims() -> None:
    picture = pictured(((0.0, 0.0, 5.0, 5.0),), rows=1, columns=64)
    assert strip(picture, BLOCKS, None) == "head 3, dim 0 to 63  ▁▁██  ▁ in tolerance, █ 5.00"


def test_a_strip_fits_its_room_and_keeps_the_worst_of_what_it_puts_together() -> None:
    cells = tuple((9.0 if number == 31 else 0.0,) for number in range(48))
    for room in (60, 70, 80):
        drawn = strip(pictured(cells), BLOCKS, room)
        assert len(drawn) <= room
        assert drawn.partition("  ▁ in")[0].count("█") == 1
    assert strip(pictured(cells), BLOCKS, 45) == ""


@pytest.mark.parametrize("cells", [((5.0,),), ()])
def test_what_has_one_cell_or_none_is_no_strip(cells: tuple[tuple[Cell, ...], ...]) -> None:
    picture = pictured(cells, 1, 1) if cells else events.PICTURE
    assert strip(picture, BLOCKS, None) == ""


def test_a_strip_of_nothing_but_nan_has_no_largest_margin() -> None:
    drawn = strip(pictured((("NaN",), ("NaN",))), BLOCKS, None)
    assert drawn == "head 3, query 0 to 127  !!  ▁ in tolerance, ! beyond any tolerance"
