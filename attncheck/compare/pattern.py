"""Where an output is wrong, in words: a part of every head, one head, all batch entries but the first, a tail of rows.

The wrong places are described axis by axis: an axis is named when only some of its indices are touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attncheck.problem import AnyProblem, Problem

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

LISTED = 4
"""Up to so many separate indices are listed; more are counted."""


ROWS = dict.fromkeys(("output", "scores"), ("query row", "query rows")) | {
    "turned": ("row", "rows"),
    "present_state": ("key dim", "key dims"),
}
"""What the rows of an output are, one and several; those of any other are slots."""


@dataclass(frozen=True)
class Places:
    """One output by place, every array [batch, heads, rows, dim].

    role     "output", "present_key" or "present_value"
    stated   the elements that are compared; wrong: those of them that are out of tolerance
    foreign  whether a present is wrong everywhere, and holds nothing that was among the inputs
    """

    role: str
    stated: Bool
    wrong: Bool
    got: Float
    expected: Float
    foreign: bool = False


def describe(problem: AnyProblem, places: Sequence[Places]) -> str:
    """What stands wrong and where, over all outputs of a graph; "" when nothing is wrong, or no more can be said."""
    bad = [each for each in places if each.wrong.any()]
    if not bad:
        return ""
    presents_only = all(each.role.startswith("present") for each in bad) and any(
        each.role == "output" for each in places
    )
    said: dict[str, list[str]] = {}
    for each in bad:
        said.setdefault(_one(problem, each), []).append(each.role)
    sentence = "; ".join(f"{' and '.join(roles)} {what}" for what, roles in said.items())
    if presents_only:
        return f"{sentence}; the output itself is right"
    return "" if sentence in ("output wrong everywhere", "turned wrong everywhere") else sentence


def _one(problem: AnyProblem, places: Places) -> str:
    """NaN is told for itself, for it often stands elsewhere than what is merely wrong."""
    if places.foreign:
        return "unlike anything that was put in (never written?)"
    unknown = places.wrong & np.isnan(places.got)
    if unknown.any() and (places.wrong & ~unknown).any():
        return ", ".join(_same(problem, replace(places, wrong=part)) for part in (unknown, places.wrong & ~unknown))
    return _same(problem, places)


def _same(problem: AnyProblem, places: Places) -> str:
    if np.count_nonzero(places.wrong) == 1 and np.count_nonzero(places.stated) > 1:
        return "wrong in a single element"
    where = [
        words
        for words in (
            _batch(problem, places),
            _heads(problem, places),
            _rows(problem, places),
            _dims(places),
        )
        if words
    ]
    return f"{_kind(places)} in {' of '.join(reversed(where))}" if where else f"{_kind(places)} everywhere"


def _kind(places: Places) -> str:
    """What stands in the wrong places: the same for all of them, or just wrong."""
    got = places.got[places.wrong]
    if np.isnan(got).all():
        return "NaN (stale poison, or arithmetic that has no result)"
    if (got == 0.0).all():
        return "zero"
    if not np.isfinite(got).any():
        return "infinite"
    return "wrong"


def _touched(places: Places, axis: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of an axis that have a wrong element, and those that are compared at all."""
    others = tuple(i for i in range(4) if i != axis)
    return np.flatnonzero(places.wrong.any(axis=others)), np.flatnonzero(places.stated.any(axis=others))


def _batch(problem: AnyProblem, places: Places) -> str:
    wrong, all_of_them = _touched(places, 0)
    if len(wrong) == len(all_of_them):
        return ""
    if isinstance(problem, Problem) and problem.paged and places.role.startswith("present"):
        return _indices("page", "pages", wrong)
    if len(wrong) == problem.batch - 1 and wrong[0] == 1:
        return "every batch entry after the first" if len(wrong) > 1 else "batch entry 1, the one after the first"
    if len(wrong) == problem.batch - 1:
        missing = sorted(set(range(problem.batch)) - set(wrong.tolist()))
        return f"every batch entry but {missing[0]}"
    return _indices("batch entry", "batch entries", wrong)


def _heads(problem: AnyProblem, places: Places) -> str:
    wrong, all_of_them = _touched(places, 1)
    if len(wrong) == len(all_of_them):
        return ""
    if places.role.startswith("present"):
        return _indices("KV head", "KV heads", wrong)
    groups = np.unique(wrong // problem.group)
    if problem.group > 1 and len(wrong) == len(groups) * problem.group:
        return _indices("the query heads of KV head", "the query heads of KV heads", groups)
    return _indices("head", "heads", wrong)


def _rows(problem: AnyProblem, places: Places) -> str:
    wrong, all_of_them = _touched(places, 2)
    if len(wrong) == len(all_of_them):
        return ""
    one, many = ROWS.get(places.role, ("slot", "slots"))
    last = int(all_of_them[-1])
    if len(wrong) > 1 and wrong[-1] == last and _is_run(wrong):
        first = int(wrong[0])
        tile = first & -first
        edge = f" (the edge of a tile of {tile})" if tile >= 4 else ""
        new = ", the new rows" if places.role.startswith("present") and _begins_with_new(problem, first) else ""
        return f"{many} from {first} on{edge}{new}"
    return _indices(one, many, wrong)


def _begins_with_new(problem: AnyProblem, slot: int) -> bool:
    return isinstance(problem, Problem) and not problem.paged and set(problem.past_len) == {slot}


def _dims(places: Places) -> str:
    wrong, all_of_them = _touched(places, 3)
    if places.role == "scores":
        return "" if len(wrong) == len(all_of_them) else _indices("key", "keys", wrong)
    count = len(all_of_them)
    if len(wrong) == count:
        return ""
    words = _indices("dim", "dims", wrong)
    if _is_run(wrong) and 2 * len(wrong) == count and wrong[0] in (0, count // 2):
        return f"{words} (the {'upper' if wrong[0] else 'lower'} half of head_dim)"
    if _is_run(wrong) and wrong[-1] == count - 1:
        return f"{words} (the tail of head_dim)"
    return words


def _is_run(indices: NDArray[np.intp]) -> bool:
    return int(indices[-1]) - int(indices[0]) + 1 == len(indices)


def _indices(one: str, many: str, indices: NDArray[np.intp]) -> str:
    if len(indices) == 1:
        return f"{one} {indices[0]}"
    if _is_run(indices):
        return f"{many} {indices[0]}..{indices[-1]}"
    if len(indices) <= LISTED:
        return f"{many} {', '.join(map(str, indices[:-1]))} and {indices[-1]}"
    return f"{len(indices)} {many} between {indices[0]} and {indices[-1]}"
