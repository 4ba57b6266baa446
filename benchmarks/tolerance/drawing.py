"""Cases drawn from the axes table, within what the language's own rules call possible.

No list of features is kept here: an axis that the table gains is drawn from the day it is there. A value is drawn for
one axis after the other, and kept where the case with it is possible; what needs another axis first gets a second turn.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping

from attncheck.scenario import from_command_line
from attncheck.scenario.axes import AXES, spell
from attncheck.scenario.complete import Value
from attncheck.scenario.model import Scenario
from attncheck.scenario.possible import impossibilities
from attncheck.scenario.resolve import complete
from attncheck.scenario.values import (
    Boolean,
    Broadcast,
    Choice,
    Integer,
    Number,
    NumberList,
    PerBatch,
    Positive,
    Steps,
    Values,
)

LEFT_OUT = {
    "kernel": "`auto` runs every kernel of our own and compares them",
    "rotary_cache": "its default is as long as needed; `absent` is refused, and gives no number to measure",
}
"""Axes that are not drawn, and why."""

SIZES = {
    "head_dim": (4, 5, 8, 8, 16, 16, 24, 32, 32, 40, 64, 64, 80, 128, 256),
    "v_head_dim": (4, 8, 12, 16, 24, 32, 64),
    "heads": (1, 2, 3, 4, 6, 8),
    "input_dim": (4, 7, 16, 24, 33, 64, 130),
    "kv_heads": (1, 1, 2, 2, 3, 4),
    "batch": (1, 2, 3),
    "seed": tuple(range(1000)),
}
"""Where the sizes of an axis are not those of any length: widths that runtimes take, few heads."""

SHARE = {"head_dim": 1.0, "heads": 1.0, "kv_heads": 0.7, "q_len": 0.9, "past_len": 0.7, "data": 0.7, "seed": 1.0}
"""How often an axis is drawn at all, where that is not OTHERWISE: so that features meet, but not all in every case."""
OTHERWISE = 0.3

SPANS = {"softcap": (1e-2, 1e7)}
"""From where to where an axis of numbers above 0 is drawn, each power of two as often, where that is not SPAN."""
SPAN = (2.0**-4, 2.0**6)

OFTEN = {"dtype": ("float32", "float16")}
"""The words of an axis that most cases have: few backends take the others."""
RARELY = 0.1
"""How often any word of such an axis is drawn."""

FIRST = ("op", "dtype")
"""Drawn always and before the others, which depend on the operator."""

MEMORY = 2 * 2**20
LONG_MEMORY = 24 * 2**20
"""Bytes that a case may take by the language's own arithmetic, and what one with thousands of keys may."""
LONG = 0.04
"""Share of the cases that may be long."""
TRIES = 3


def draw(seed: int, index: int, always: Collection[str] = ()) -> Scenario:
    """The case number `index` of the draw `seed`: the same one on every machine. Its id is what `--case` takes.

    always   axes that every case has that can have them
    """
    dice = random.Random(f"{seed} {index}")
    long = dice.random() < LONG
    memory = LONG_MEMORY if long else MEMORY
    values: dict[str, Value] = {}
    for axis in FIRST:
        words = [word for word in _words(dice, axis) if _possible({**values, axis: word}, memory)]
        if words:
            values[axis] = dice.choice(words)
    others = [axis for axis in AXES if axis not in FIRST and drawn(axis)]
    wanted = [axis for axis in others if dice.random() < SHARE.get(axis, OTHERWISE) or axis in always]
    for axis in (*wanted, *wanted):
        for _ in range(TRIES if axis not in values else 0):
            value = _value(dice, axis, AXES[axis].values, long)
            if value is not None and value != AXES[axis].default and _possible({**values, axis: value}, memory):
                values[axis] = value
                break
    return from_command_line(command_line(values))


def command_line(values: Mapping[str, Value]) -> str:
    """What `--case` takes for these values, in the table's order."""
    return " ".join(f"{axis}={spell(values[axis])}" for axis in AXES if axis in values)


def _possible(values: Mapping[str, Value], memory: int) -> bool:
    return next(impossibilities(complete(values), frozenset(), memory), None) is None


def drawn(axis: str) -> bool:
    """Whether an axis is drawn: not where a scenario writes the numbers themselves, since `data` draws those."""
    return axis not in LEFT_OUT and not isinstance(AXES[axis].values, NumberList | Steps)


def _value(dice: random.Random, axis: str, values: Values, long: bool) -> Value | None:
    """A value of the kind that the axis holds, whether it can be or not; None for a kind that is not drawn."""
    match values:
        case Choice():
            return dice.choice(_words(dice, axis))
        case Broadcast(shapes):
            return dice.choice(shapes)
        case Boolean():
            return dice.random() < 0.5
        case Positive():
            return _magnitude(dice, SPANS.get(axis, SPAN))
        case Number():
            return dice.choice((1.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0, 0.0)) * _magnitude(dice, SPAN)
        case Integer(minimum, maximum):
            if axis in SIZES:
                return dice.choice(SIZES[axis])
            return min(maximum, _length(dice, minimum, long=False))
        case PerBatch(minimum):
            long = long and axis != "q_len"
            if dice.random() < 0.6:
                return _length(dice, minimum, long)
            return tuple(_length(dice, minimum, long) for _ in range(dice.randint(2, 4)))
        case _:
            return None


def _words(dice: random.Random, axis: str) -> tuple[str, ...]:
    """The words to choose from."""
    values = AXES[axis].values
    assert isinstance(values, Choice)
    return values.words if dice.random() < RARELY else OFTEN.get(axis, values.words)


def _magnitude(dice: random.Random, span: tuple[float, float]) -> float:
    low, high = map(math.log2, span)
    return round(math.exp2(dice.uniform(low, high)), 3)


def _length(dice: random.Random, minimum: int, long: bool) -> int:
    """A length: small, around a power of two, anything up to 80, or in a long case thousands."""
    if long and dice.random() < 0.7:
        return dice.randint(500, 5000)
    around = 2 ** dice.randint(0, 7) + dice.randint(-1, 1)
    return max(minimum, dice.choice((dice.randint(0, 9), around, around, dice.randint(0, 80))))
