"""Shrinking planted faults: the starts, how they are run, and the truth about smaller cases without `minimize`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import numpy as np

from attncheck.backends.callable import Callable
from attncheck.compare import judge as compare
from attncheck.engine import run as engine
from attncheck.engine.evaluator import Evaluator
from attncheck.graph import read, write
from attncheck.minimize.candidate import Candidate, start
from attncheck.minimize.ledger import Budget, Ledger, Runs
from attncheck.minimize.order import features, key, simpler
from attncheck.minimize.search import Minimum, minimize
from attncheck.oracle import attention
from attncheck.oracle.wrong.entry import Wrong
from attncheck.problem import Problem
from attncheck.scenario import from_command_line
from attncheck.scenario.model import Scenario
from attncheck.tensors.dtypes import narrow

PLANTED = Path(__file__).parent / "callables" / "planted.py"
ALL = (
    "op=gqa batch=2 q_len=9 past_len=15 heads=4 kv_heads=2 head_dim=16 capacity=40 window=20 softcap=50 scale=1 "
    "rotary=half rotary_cache=64 sink=true bias=BxNxSxT holes=keys scores=weights"
)
"""All features of GroupQueryAttention that go together, at sizes that are nobody's least."""

STARTS = (
    ALL,
    *map(
        " ".join,
        (
            (
                "op=gqa batch=3 q_len=9 past_len=15+3+8 heads=4 kv_heads=2 head_dim=16 capacity=40 window=20",
                "softcap=50 scale=1 rotary=interleaved rotary_cache=64 smooth=true query_seqlens=true qk_norm=epsilons",
                "positions=shifted",
            ),
            (
                "op=attention batch=2 q_len=9 past_len=15 heads=4 kv_heads=2 head_dim=16 v_head_dim=8 window=20",
                "softcap=50 scale=1 mask=BxNxSxT holes=keys scores=weights",
            ),
            (
                "op=mha batch=2 q_len=9 past_len=15 heads=4 kv_heads=2 head_dim=16 v_head_dim=8 scale=1 bias=BxNxSxT",
                "mask=BxT",
            ),
            (
                "op=attention batch=2 q_len=9 kv_len=24 causal=false heads=4 kv_heads=2 head_dim=16 v_head_dim=8",
                "window=5 window_right=3 softcap=50 scale=1 mask=BxNxSxT holes=middle-row scores=weights",
            ),
            (
                "op=attention batch=3 q_len=9 past_len=15+3+8 capacity=40 heads=4 kv_heads=2 head_dim=16 bias=BxNxSxT",
                "mask_len=30",
            ),
            ("op=mha batch=3 q_len=1+9+4 heads=4 kv_heads=2 head_dim=16",),
        ),
    ),
)
"""Every operator with many features, where a wrong kernel needs what ALL does not have."""


ZEROS = "q_values=0,k_values=0,v_values=0"
FAULTS: dict[str, tuple[str, str]] = {
    "always_crashes": ("", f"heads=1,head_dim=1,{ZEROS}"),
    "keys_by_eight": ("", f"q_len=8,heads=1,head_dim=1,{ZEROS}"),
    "sixteen_to_thirty_two_rows": ("q_len=24", f"q_len=17,heads=1,head_dim=1,{ZEROS}"),
    "six_rows": ("", f"q_len=6,heads=1,head_dim=1,{ZEROS}"),
    "five_past": ("", f"past_len=5,heads=1,head_dim=1,{ZEROS}"),
    "head_dim_eight": ("", f"heads=1,head_dim=8,{ZEROS}"),
    "wide_heads": ("", f"heads=1,head_dim=13,{ZEROS}"),
    "three_to_one": ("heads=6", f"heads=3,kv_heads=1,head_dim=1,{ZEROS}"),
    "two_to_one_of_two": ("", f"kv_heads=2,head_dim=1,{ZEROS}"),
    "second_entry": ("", f"batch=2,heads=1,head_dim=1,{ZEROS}"),
    "longer_second_entry": ("batch=3 past_len=9+15+3 q_len=8", f"q_len=1+2,heads=1,head_dim=1,{ZEROS}"),
    "softcap_with_rotary": ("", f"heads=1,head_dim=2,softcap=1,rotary=half,{ZEROS}"),
    "window_with_sink": ("", f"q_len=2,heads=1,head_dim=1,window=1,sink=true,{ZEROS}"),
    "hangs_at_three_keys": ("", f"q_len=3,heads=1,head_dim=1,{ZEROS}"),
    "flaky_from_three_rows": ("", f"q_len=3,heads=1,head_dim=1,{ZEROS}"),
    "single_element": ("", f"q_len=3,heads=1,head_dim=6,{ZEROS}"),
    "half_precision": ("dtype=float16", f"dtype=float16,q_len=2,heads=1,head_dim=1,{ZEROS}"),
    "present_key_only": ("", f"past_len=1,heads=1,head_dim=1,{ZEROS}"),
    "nan_at_four_heads": ("", f"kv_heads=1,head_dim=1,{ZEROS}"),
    "infinite_from_nine_keys": ("", f"q_len=9,heads=1,head_dim=1,{ZEROS}"),
    "zero_with_bias": ("", "heads=1,head_dim=1,bias=BxNxSxT,q_values=0,k_values=0,v_values=1"),
    "present_forgotten": ("", f"capacity=1,heads=1,head_dim=1,{ZEROS}"),
    "refuses_three_heads": ("", f"heads=3,kv_heads=1,head_dim=1,{ZEROS}"),
    "large_key": ("", "heads=1,head_dim=1,q_values=0,k_values=3,v_values=0"),
    "negative_value": ("", "heads=1,head_dim=1,q_values=0,k_values=0,v_values=-1"),
    "odd_past_even_rows": ("q_len=8", f"q_len=2,past_len=1,heads=1,head_dim=1,{ZEROS}"),
    "prime_keys": ("past_len=20", f"q_len=11,heads=1,head_dim=1,{ZEROS}"),
    "crashes_on_the_way": ("", f"q_len=5,heads=1,head_dim=1,{ZEROS}"),
}
"""Fault in tests/callables/planted.py -> what its start has that ALL has not, and its smallest case by the order.

`heads` left out is 4, `q_len` 1, `past_len` 0, and `kv_heads` as many as heads.
"""

def start_of(name: str) -> str:
    """The case that a fault of FAULTS is shrunk from."""
    more = FAULTS[name][0]
    return changed(ALL, more) if more else ALL


def limit_of(name: str) -> float:
    """Seconds that a run may take: few where each one hangs."""
    return 0.5 if "hangs" in name else 5.0


def changed(text: str, changes: str) -> str:
    """`text` with the axes of `changes` replaced, or added behind."""
    axes = dict(word.split("=") for word in text.split())
    return " ".join(f"{axis}={value}" for axis, value in (axes | dict(it.split("=") for it in changes.split())).items())


def shrunk(
    name: str,
    text: str,
    *,
    file: Path = PLANTED,
    time_limit: float = 5.0,
    seconds: float = 60.0,
    evaluations: int = 400,
) -> Minimum:
    """The smallest case of the fault `name` in `file`, from the case that `--case text` means."""
    evaluator = Evaluator(Callable(file, name), engine.Options(time_limit=time_limit), lanes=2)
    try:
        evaluator.start(lambda _: None)
        ledger = Ledger(evaluator, Budget(seconds, evaluations), lanes=2)
        return minimize(start(from_command_line(text)), ledger, Runs(3, 3), lambda _: None, lambda _: None)
    finally:
        evaluator.end()


def verified(name: str, minimum: Minimum, *, time_limit: float = 5.0) -> bool:
    """Whether fresh workers say the same of the case and of every neighbour."""
    evaluator = Evaluator(Callable(PLANTED, name), engine.Options(time_limit=time_limit), lanes=2)
    try:
        evaluator.start(lambda _: None)
        ledger = Ledger(evaluator, Budget(), lanes=2)
        ledger.runs = minimum.runs
        around = [it.case for it in minimum.neighbours]
        return ledger.fails(minimum.case, minimum.failure) and ledger.first(around, minimum.failure) is None
    finally:
        evaluator.end()


def shows(wrong: Wrong, scenario: Scenario) -> bool:
    """Whether the wrong kernel's numbers leave the tolerance in this case: the truth, by oracle and judge alone."""
    case = write.build(scenario)
    problem = read.problem(case.model, case.inputs)
    if not isinstance(problem, Problem) or problem.invalid or not wrong.relevant(problem):
        return False
    with np.errstate(all="ignore"):
        values = wrong.outputs(problem, case.inputs)
    outputs = {name: narrow(it, problem.dtype) for name, it in values.items()}
    answers = attention.answer(problem, case.inputs)
    return not all(it.passed for it in compare.differences(problem, answers, outputs, "native", "", None))


_LEAST = {"batch": 1, "heads": 1, "kv_heads": 1, "q_len": 1, "past_len": 0, "head_dim": 1}


def simpler_shapes(found: Candidate, begin: Candidate, reach: int = 1) -> Iterator[Candidate]:
    """Cases that the order puts before `found`, by features and sizes: every one up to `reach` beyond its sizes.

    Features are those of `begin`, as many as `found` has at the most, and set as `found` or `begin` sets them; the
    numbers are generated ones.
    """
    axes = {axis: found.value(axis) for axis in _LEAST}
    ranges = {
        axis: range(least, min((max(axes[axis]) if isinstance(axes[axis], tuple) else axes[axis]) + reach, 9) + 1)
        for axis, least in _LEAST.items()
    }
    plain = {f"{tensor}_values": None for tensor in "qkv"}
    for count in range(len(features(found)) + 1):
        for kept in combinations(features(begin), count):
            on = {axis: found.value(axis) if axis in features(found) else begin.value(axis) for axis in kept}
            off = {axis: None for axis in features(begin) if axis not in kept}
            for sizes in product(*ranges.values()):
                here = dict(zip(ranges, sizes, strict=True))
                if here["heads"] % here["kv_heads"]:
                    continue
                candidate = begin.with_({**off, **on, **plain, **here, "capacity": found.written.get("capacity")})
                if candidate is not None and simpler_in_shape(candidate, found):
                    yield candidate


def simpler_in_shape(one: Candidate, other: Candidate) -> bool:
    """Whether features, inputs and sizes alone put `one` first."""
    return simpler(one, other) and key(one)[:4] < key(other)[:4]
