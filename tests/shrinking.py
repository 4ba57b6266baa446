"""Shrinking planted faults: the starts, how they are run, and the truth about smaller cases without `minimize`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
from attncheck.minimize.order import TENSORS, features, key, simpler
from attncheck.minimize.search import Minimum, minimize
from attncheck.oracle import attention
from attncheck.oracle.wrong.entry import Wrong
from attncheck.problem import Problem
from attncheck.scenario import from_command_line
from attncheck.scenario.model import Scenario
from attncheck.tensors.dtypes import narrow

PLANTED = Path(__file__).parent / "callables" / "planted.py"
SESSIONS = PLANTED.with_name("sessions.py")
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


@dataclass(frozen=True)
class Fault:
    """A planted fault: where shrinking it begins, and its smallest case by the order, both as `--case` takes them.

    `heads` left out is 4, `q_len` 1, `past_len` 0, and `kv_heads` as many as heads.
    """

    start: str
    smallest: str
    file: Path = PLANTED


def _of_all(more: str, smallest: str) -> Fault:
    """From ALL, some of it changed."""
    return Fault(changed(ALL, more) if more else ALL, f"op=gqa,{smallest}")


def changed(text: str, changes: str) -> str:
    """`text` with the axes of `changes` replaced, or added behind."""
    axes = dict(word.split("=") for word in text.split())
    return " ".join(f"{axis}={value}" for axis, value in (axes | dict(it.split("=") for it in changes.split())).items())


SPARSE = "op=sparse batch=2 q_len=70 heads=4 kv_heads=2 head_dim=16 sparse_block=32 sparse_layouts=2 rotary=half"
PAGED = "op=paged q_len=9+0+4 past_len=15+3+8 heads=4 kv_heads=2 head_dim=16 page=5 window=20 softcap=50 rotary=half"
ROTARY = "op=ms-rotary batch=2 q_len=9 past_len=4 heads=4 head_dim=16 rotary_dim=8 rotary=interleaved positions=shifted"
LINEAR = "op=linear batch=2 q_len=9 heads=4 kv_heads=2 head_dim=8 v_head_dim=4 scale=1 past_state=given decay=by-dim"
DECODER = "op=decoder-mha batch=2 kv_len=24 heads=4 kv_heads=2 head_dim=16 scale=1 bias=BxNxSxT mask=BxT qkv_bias=true"
MERGED = "op=ms-attention batch=2 q_len=9 past_len=15 heads=4 head_dim=16 scale=1 bias=BxNxSxT qkv_bias=true"
SESSION = "op=gqa heads=4 kv_heads=2 head_dim=8 capacity=24 steps=5-1x3-4a2.spec-3-1x2"

FAULTS: dict[str, Fault] = {
    "always_crashes": _of_all("", f"heads=1,head_dim=1,{ZEROS}"),
    "keys_by_eight": _of_all("", f"q_len=8,heads=1,head_dim=1,{ZEROS}"),
    "sixteen_to_thirty_two_rows": _of_all("q_len=24", f"q_len=17,heads=1,head_dim=1,{ZEROS}"),
    "six_rows": _of_all("", f"q_len=6,heads=1,head_dim=1,{ZEROS}"),
    "five_past": _of_all("", f"past_len=5,heads=1,head_dim=1,{ZEROS}"),
    "head_dim_eight": _of_all("", f"heads=1,head_dim=8,{ZEROS}"),
    "wide_heads": _of_all("", f"heads=1,head_dim=13,{ZEROS}"),
    "three_to_one": _of_all("heads=6", f"heads=3,kv_heads=1,head_dim=1,{ZEROS}"),
    "two_to_one_of_two": _of_all("", f"kv_heads=2,head_dim=1,{ZEROS}"),
    "second_entry": _of_all("", f"batch=2,heads=1,head_dim=1,{ZEROS}"),
    "longer_second_entry": _of_all("batch=3 past_len=9+15+3 q_len=8", f"q_len=1+2,heads=1,head_dim=1,{ZEROS}"),
    "softcap_with_rotary": _of_all("", f"heads=1,head_dim=2,softcap=1,rotary=half,{ZEROS}"),
    "window_with_sink": _of_all("", f"q_len=2,heads=1,head_dim=1,window=1,sink=true,{ZEROS},sink_values=0"),
    "hangs_at_three_keys": _of_all("", f"q_len=3,heads=1,head_dim=1,{ZEROS}"),
    "flaky_from_three_rows": _of_all("", f"q_len=3,heads=1,head_dim=1,{ZEROS}"),
    "single_element": _of_all("", f"q_len=3,heads=1,head_dim=6,{ZEROS}"),
    "half_precision": _of_all("dtype=float16", f"dtype=float16,q_len=2,heads=1,head_dim=1,{ZEROS}"),
    "present_key_only": _of_all("", f"past_len=1,heads=1,head_dim=1,{ZEROS}"),
    "nan_at_four_heads": _of_all("", f"kv_heads=1,head_dim=1,{ZEROS}"),
    "infinite_from_nine_keys": _of_all("", f"q_len=9,heads=1,head_dim=1,{ZEROS}"),
    "zero_with_bias": _of_all("", "heads=1,head_dim=1,bias=BxNxSxT,q_values=0,k_values=0,v_values=1,bias_values=0"),
    "present_forgotten": _of_all("", f"capacity=1,heads=1,head_dim=1,{ZEROS}"),
    "refuses_three_heads": _of_all("", f"heads=3,kv_heads=1,head_dim=1,{ZEROS}"),
    "large_key": _of_all("", "heads=1,head_dim=1,q_values=0,k_values=3,v_values=0"),
    "negative_value": _of_all("", "heads=1,head_dim=1,q_values=0,k_values=0,v_values=-1"),
    "odd_past_even_rows": _of_all("q_len=8", f"q_len=2,past_len=1,heads=1,head_dim=1,{ZEROS}"),
    "prime_keys": _of_all("past_len=20", f"q_len=11,heads=1,head_dim=1,{ZEROS}"),
    "crashes_on_the_way": _of_all("", f"q_len=5,heads=1,head_dim=1,{ZEROS}"),
    "too_small_on_the_way": _of_all("", f"q_len=5,heads=1,head_dim=1,{ZEROS}"),
    "large_bias": _of_all("", f"heads=1,head_dim=1,bias=BxNxSxT,{ZEROS},bias_values=2"),
    "negative_sink": _of_all("", f"heads=1,head_dim=1,sink=true,{ZEROS},sink_values=-1"),
    "hidden_block": Fault(SPARSE, f"op=sparse,past_len=48,heads=1,head_dim=1,{ZEROS}"),
    "two_block_layouts": Fault(
        SPARSE, f"op=sparse,past_len=32,heads=2,kv_heads=1,head_dim=1,sparse_layouts=2,{ZEROS}"
    ),
    "wide_blocks": Fault(
        changed(SPARSE, "q_len=110"), f"op=sparse,past_len=96,heads=1,head_dim=1,sparse_block=32,{ZEROS}"
    ),
    "third_page": Fault(PAGED, f"op=paged,past_len=2,heads=1,head_dim=1,page=1,{ZEROS}"),
    "page_of_four": Fault(changed(PAGED, "page=8"), f"op=paged,past_len=4,heads=1,head_dim=1,page=4,{ZEROS}"),
    "idle_entry": Fault(PAGED, f"op=paged,q_len=0+1,heads=1,head_dim=1,page=1,{ZEROS}"),
    "part_of_a_head_turns": Fault(ROTARY, "op=ms-rotary,heads=1,head_dim=3,rotary_dim=2,q_values=0"),
    "interleaved_rows": Fault(ROTARY, "op=ms-rotary,q_len=2,heads=1,head_dim=2,rotary=interleaved,q_values=0"),
    "shared_beta": Fault(
        f"{LINEAR} beta=shared", f"op=linear,heads=2,head_dim=1,update_rule=delta,beta=shared,{ZEROS}"
    ),
    "decay_by_dim": Fault(LINEAR, f"op=linear,heads=1,head_dim=2,v_head_dim=1,update_rule=gated,decay=by-dim,{ZEROS}"),
    "state_before": Fault(
        f"{LINEAR} update_rule=gated", f"op=linear,heads=1,head_dim=1,update_rule=linear,past_state=zeros,{ZEROS}"
    ),
    "cross_decoding": Fault(DECODER, f"op=decoder-mha,kv_len=3,heads=1,head_dim=1,{ZEROS}"),
    "projection_bias": Fault(MERGED, "op=ms-attention,q_len=2,heads=1,head_dim=1,qkv_bias=true"),
    "forgets_to_rewind": Fault(
        SESSION, "op=gqa,capacity=1,heads=1,head_dim=1,steps=1a0-1,q_values=0,k_values=0", SESSIONS
    ),
    "leaves_something_behind": Fault(SESSION, f"op=gqa,capacity=2,heads=1,head_dim=1,steps=1x2,{ZEROS}", SESSIONS),
}
"""Fault in tests/callables/planted.py, or in another file there -> what shrinking it begins with and must end with."""


def limit_of(name: str) -> float:
    """Seconds that a run may take: few where each one hangs."""
    return 0.5 if "hangs" in name else 5.0


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


def verified(name: str, minimum: Minimum, *, file: Path = PLANTED, time_limit: float = 5.0) -> bool:
    """Whether fresh workers say the same of the case and of every neighbour."""
    evaluator = Evaluator(Callable(file, name), engine.Options(time_limit=time_limit), lanes=2)
    try:
        evaluator.start(lambda _: None)
        ledger = Ledger(evaluator, Budget(), lanes=2)
        ledger.runs = minimum.runs
        ledger.isolated = True
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
    plain = {f"{tensor}_values": None for tensor in TENSORS}
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
    return simpler(one, other) and key(one)[:3] < key(other)[:3]
