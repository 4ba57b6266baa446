"""Plainer settings: what the features are set to, the dtype, and what is said although it need not be."""

from __future__ import annotations

from collections.abc import Iterator

from attncheck.minimize.candidate import KEPT, Candidate
from attncheck.minimize.order import plainness, settings
from attncheck.minimize.passes.sizes import below, cut, least
from attncheck.scenario.axes import AXES
from attncheck.scenario.values import Broadcast, Choice, Integer, Number, Positive

_PLAIN = (1.0, 2.0, 0.5, 4.0, 8.0, 0.25)


def plainer_settings(case: Candidate) -> Iterator[Candidate | None]:
    """Sets a feature that is on to smaller integers, plainer fractions, or earlier words of its list.

    Changes the value of one axis, never whether it is on. Progress: settings come by themselves in the order.
    """
    for axis in settings(case):
        values, value = AXES[axis].values, case.value(axis)
        if isinstance(values, Integer) and isinstance(value, int):
            for size in below(value, least(axis)):
                yield cut(case, {axis: size})
        elif isinstance(values, Positive | Number) and isinstance(value, int | float):
            for plain in (number for number in _PLAIN if plainness(number) < plainness(value)):
                yield case.with_({axis: plain})
        elif isinstance(values, Choice | Broadcast):
            for word in values.words[: values.words.index(value)]:
                if word != AXES[axis].default:
                    yield case.with_({axis: word})


def plainer_dtype(case: Candidate) -> Iterator[Candidate | None]:
    """Takes an earlier dtype: float32 before float16.

    Changes dtype alone. Progress: dtypes are ordered by the table.
    """
    values = AXES["dtype"].values
    assert isinstance(values, Choice)
    for word in values.words[: values.words.index(case.value("dtype"))]:
        yield case.with_({"dtype": word})


def defaults(case: Candidate) -> Iterator[Candidate | None]:
    """Leaves out what is said of an axis that is no feature: its default stands in.

    Changes one axis. Progress: fewer given values, where nothing before them in the order grows.
    """
    for axis in (axis for axis in case.written if axis not in KEPT):
        yield cut(case, {axis: None})
