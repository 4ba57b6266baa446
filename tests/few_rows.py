"""Works for the matrix kernel: few rows against slices of the keys, prompts, and what is hidden from either form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attncheck.compare import judge
from attncheck.kernels.draft import Limits
from attncheck.oracle.ask import answer
from attncheck.problem import Arrays
from tests.device import Work, failing, work
from tests.drawing import scenario
from tests.dressing import ROLES, masked, packed, sunk, with_nan_past

UNITS = Limits(1 << 30, workgroups=65535, f16=True, workgroup_bytes=48 << 10, invocations=256, matrix=True)
"""An adapter with matrix units."""

Made = Callable[[int], Work]
"""Of a head_dim."""


def _plain(**axes: Any) -> Made:
    shape = {"heads": 8, "kv_heads": 2, "data": "large-logits"} | axes
    return lambda dim: work(scenario(dtype="float16", head_dim=dim, **shape))


def _values_of(v_head_dim: int) -> Made:
    cross = {"op": "attention", "opset": 24, "causal": False, "q_len": (3,), "kv_len": (600,), "v_head_dim": v_head_dim}
    return _plain(**cross)


def _holes(given: Work, seed: int = 4) -> np.ndarray:
    problem = given.problem
    shape = (problem.batch, problem.heads, problem.rows, max(problem.kv_len))
    return np.random.default_rng(seed).random(shape) > 0.4


def _biased(dim: int, **axes: Any) -> Work:
    given = _plain(**({"q_len": (3, 3), "past_len": (700, 20)} | axes))(dim)
    holes = _holes(given)
    holes[:, :, 1] = False
    noise = np.random.default_rng(3).standard_normal(holes.shape)
    return masked(given, np.where(holes, noise, -np.inf))


def _averaged(dim: int) -> Work:
    given = _plain(q_len=(2,), past_len=(600,))(dim)
    holes = _holes(given)
    holes[:, 1:3] = False
    holes[:, 4:6, :, :560] = False
    return masked(given, holes).with_problem(empty_row="mean")


def _sunk(dim: int, **axes: Any) -> Work:
    """Sinks that weigh about as much as all keys."""
    given = _plain(**({"q_len": (2,), "past_len": (600,), "data": "normal"} | axes))(dim)
    return sunk(given, np.linspace(-2.0, 6.0, 8), smooth=True)


CASES: dict[str, Made] = {
    "one head a KV head": _plain(q_len=(1,), past_len=(700,), heads=2),
    "four": _plain(q_len=(1,), past_len=(700,)),
    "eight": _plain(q_len=(1,), past_len=(700,), heads=16),
    "twenty-four": _plain(q_len=(1,), past_len=(700,), heads=24, kv_heads=1),
    "speculative rows": _plain(q_len=(5,), past_len=(630,)),
    "sixteen rows": _plain(q_len=(16,), past_len=(520,)),
    "window": _plain(q_len=(3,), past_len=(1200,), window=100),
    "window within a step": _plain(q_len=(1,), past_len=(500,), window=3),
    "steps full for some rows": _plain(q_len=(4,), past_len=(574,), window=128, data="normal"),
    "window over a border": _plain(q_len=(4,), past_len=(550,), window=90),
    "ragged": _plain(q_len=(1, 1, 1), past_len=(20, 1100, 300)),
    "ragged rows": _plain(q_len=(4, 1, 2)),
    "softcap": _plain(q_len=(2,), past_len=(600,), softcap=2.0),
    "rising": _plain(q_len=(2,), past_len=(1100,), data="rising-scores"),
    "huge": _plain(q_len=(2,), past_len=(600,), data="huge-logit"),
    "ties": _plain(q_len=(2,), past_len=(600,), data="ties"),
    "narrow values": _values_of(32),
    "wide values": _values_of(128),
    "masks": _biased,
    "means of empty rows": _averaged,
    "sinks": _sunk,
    "packed": lambda dim: packed(_plain(q_len=(3,), past_len=(600,))(dim), ROLES[::-1]),
    **{f"{keys} keys": _plain(q_len=(2,), past_len=(keys - 2,), heads=4) for keys in (2, 63, 65, 511, 512, 513, 1025)},
}
"""Name -> the work of few rows, whose output the oracle knows."""

PROMPTS: dict[str, Made] = {
    "tiles": _plain(q_len=(150,), past_len=(90,), heads=4),
    "window": _plain(q_len=(140,), past_len=(300,), window=100, heads=4),
    "window within a step": _plain(q_len=(70,), past_len=(100,), window=3, heads=4),
    "no whole tile": _plain(q_len=(40, 40, 40), past_len=(20, 100, 300)),
    "softcap": _plain(q_len=(70,), past_len=(60,), softcap=2.0, heads=4),
    "rising": _plain(q_len=(40,), past_len=(300,), data="rising-scores"),
    "huge": _plain(q_len=(40,), past_len=(300,), data="huge-logit"),
    "masks": lambda dim: _biased(dim, q_len=(20, 20), past_len=(70, 20)),
    "sinks": lambda dim: _sunk(dim, q_len=(40,), past_len=(60,)),
    "packed": lambda dim: packed(_plain(q_len=(40,), past_len=(60,))(dim), ROLES[::-1]),
}
"""Name -> the work of a prompt, whose output the oracle knows."""

HIDDEN: dict[str, Made] = {
    "few rows": _plain(q_len=(3,), past_len=(600,)),
    "many rows": _plain(q_len=(150,), past_len=(90,), heads=4),
}
"""Name -> a work of either form, to be masked by `with_nan`."""

WINDOWED: dict[str, Made] = {
    "few rows": _plain(q_len=(3,), past_len=(600,), window=100),
    "many rows": _plain(q_len=(20,), past_len=(300,), window=30),
}
"""Name -> a work of either form whose first keys no row sees, nor the first of a step."""


def with_nan_before(given: Work) -> Work:
    """The same with NaN in the keys and values that lie before all windows."""
    first = int(given.problem.visible[..., 0].min())
    return with_nan_past(given, slice(0, first))


def with_nan(given: Work) -> tuple[Work, Work]:
    """The work under a mask that hides stretches of its past and single keys, and the same with NaN in them."""
    past = given.problem.past_len[0]
    shows = np.ones(max(given.problem.kv_len), np.bool_)
    for first, end in ((3, 4), (16, 40), (past // 2, past // 2 + 1), (past - 10, past)):
        shows[first:end] = False
    hidden = masked(given, np.broadcast_to(shows, (given.problem.rows, shows.size)).copy())
    return hidden, with_nan_past(hidden, ~shows[:past])


def wrongs(given: Work, outputs: Arrays) -> list[str]:
    """A line for each output that is not within the tolerance of rounded weights."""
    return failing(judge.differences(given.problem, answer(given.problem, given.inputs), outputs, "mixed", "matrix"))
