"""Faults for `minimize` to find: the oracle itself, but for one case that it gets wrong.

A fault is a rule on the Problem, and what it does to the outputs. `planted.py:NAME` is one of FAULTS, or a wrong kernel
of the catalogue, which is right wherever it would not differ.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from attncheck.graph import read
from attncheck.oracle import ask
from attncheck.oracle.wrong.catalogue import CATALOGUE
from attncheck.problem import AnyProblem, Problem
from attncheck.problem.attention import Blocks
from attncheck.tensors.dtypes import narrow, widen

Arrays = dict[str, np.ndarray[Any, Any]]
Rule = Callable[[Any, Arrays], bool]
CALLS = itertools.count()


def crashes(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def hangs(*_: object) -> None:
    time.sleep(600)


def refuses(it: Problem, _: Arrays) -> None:
    raise ValueError(f"no kernel for {it.heads} heads at 0x{id(it):x}")


def off_by_one(it: AnyProblem, found: Arrays) -> None:
    name = it.outputs[0].tensor.name
    found[name] = narrow(widen(found[name], it.dtype) + 1.0, it.dtype)


def off_to_either_side(it: Problem, found: Arrays) -> None:
    """Too large in a case that is large enough; in smaller ones too small, which is another fault."""
    found[it.output.name] += 1.0 if it.rows >= 5 else -1.0


def spoils_an_element(it: Problem, found: Arrays) -> None:
    found[it.output.name].reshape(it.batch, it.rows, it.heads, -1)[-1, 2, -1, 5] += 1.0


def not_a_number(it: Problem, found: Arrays) -> None:
    found[it.output.name][:] = np.nan


def infinite(it: Problem, found: Arrays) -> None:
    found[it.output.name][:, -1] = np.inf


def zeroes(it: Problem, found: Arrays) -> None:
    found[it.output.name][:] = 0.0


def spoils_the_present_key(it: Problem, found: Arrays) -> None:
    found[it.present_key.name][..., -1] += 1.0


def forgets_the_present_value(it: Problem, found: Arrays) -> None:
    del found[it.present_value.name]


def keys(it: Problem, inputs: Arrays) -> np.ndarray[Any, Any]:
    return widen(inputs[it.key.name], it.dtype)


def values(it: Problem, inputs: Arrays) -> np.ndarray[Any, Any]:
    return widen(inputs[it.value.name], it.dtype)


def biases(it: Problem, inputs: Arrays) -> np.ndarray[Any, Any]:
    return widen(inputs[it.masks[0].name], it.dtype) if it.masks else np.zeros(1)


def sinks(it: Problem, inputs: Arrays) -> np.ndarray[Any, Any]:
    return widen(inputs[it.sink], it.dtype) if it.sink else np.zeros(1)


def blocks(it: Problem) -> Blocks | None:
    """Where a block of keys is hidden: the block masks."""
    return it.masks[0].blocks if it.masks else None


def page_of(it: Problem) -> int:
    assert it.present_key is not None
    assert it.present_key.scattered is not None
    return it.present_key.scattered.page


def now_and_then(*_: object) -> bool:
    """Two calls of three."""
    return next(CALLS) % 3 != 2


FAULTS: dict[str, tuple[Rule, Callable[[Problem, Arrays], None]]] = {
    "always_crashes": (lambda *_: True, crashes),
    "keys_by_eight": (lambda it, _: max(it.kv_len) % 8 == 0, crashes),
    "sixteen_to_thirty_two_rows": (lambda it, _: 16 < it.rows < 32, off_by_one),
    "six_rows": (lambda it, _: it.rows >= 6, crashes),
    "five_past": (lambda it, _: min(it.past_len) >= 5, off_by_one),
    "head_dim_eight": (lambda it, _: it.head_dim % 8 == 0, crashes),
    "wide_heads": (lambda it, _: it.head_dim > 12, off_by_one),
    "three_to_one": (lambda it, _: it.group == 3, crashes),
    "two_to_one_of_two": (lambda it, _: it.group == 2 and it.kv_heads >= 2, crashes),
    "second_entry": (lambda it, _: it.batch > 1, off_by_one),
    "longer_second_entry": (lambda it, _: it.batch > 1 and it.kv_len[1] > it.kv_len[0], crashes),
    "softcap_with_rotary": (lambda it, _: it.softcap > 0 and it.rotary is not None, off_by_one),
    "window_with_sink": (lambda it, _: it.sink is not None and (it.visible[..., 0] > 0).any(), crashes),
    "hangs_at_three_keys": (lambda it, _: max(it.kv_len) >= 3, hangs),
    "flaky_from_three_rows": (lambda it, _: it.rows >= 3 and now_and_then(), off_by_one),
    "flaky_below_five_rows": (lambda it, _: it.rows >= 5 or (it.rows >= 3 and now_and_then()), off_by_one),
    "single_element": (lambda it, _: it.rows >= 3 and it.v_head_dim >= 6, spoils_an_element),
    "half_precision": (lambda it, _: it.dtype == "float16" and it.rows >= 2, off_by_one),
    "present_key_only": (lambda it, _: it.present_key is not None and max(it.past_len) > 0, spoils_the_present_key),
    "nan_at_four_heads": (lambda it, _: it.heads >= 4, not_a_number),
    "infinite_from_nine_keys": (lambda it, _: max(it.kv_len) >= 9, infinite),
    "zero_with_bias": (lambda it, _: bool(it.masks), zeroes),
    "present_forgotten": (lambda it, _: it.past_capacity > max(it.past_len), forgets_the_present_value),
    "refuses_three_heads": (lambda it, _: it.heads >= 3, refuses),
    "large_key": (lambda it, inputs: bool((np.abs(keys(it, inputs)) > 2).any()), off_by_one),
    "negative_value": (lambda it, inputs: bool((values(it, inputs) < 0).any()), off_by_one),
    "odd_past_even_rows": (lambda it, _: max(it.past_len) % 2 == 1 and it.rows % 2 == 0, crashes),
    "prime_keys": (lambda it, _: max(it.kv_len) in (11, 13, 17, 19, 23, 29, 31), off_by_one),
    "crashes_on_the_way": (lambda it, _: it.rows >= 5, off_by_one),
    "too_small_on_the_way": (lambda it, _: it.rows >= 2, off_to_either_side),
    "large_bias": (lambda it, inputs: bool((biases(it, inputs) > 1.5).any()), off_by_one),
    "negative_sink": (lambda it, inputs: bool((sinks(it, inputs) < 0).any()), off_by_one),
    "hidden_block": (lambda it, _: blocks(it) is not None, off_by_one),
    "two_block_layouts": (lambda it, _: (found := blocks(it)) is not None and len(found.layouts) > 1, off_by_one),
    "wide_blocks": (lambda it, _: (found := blocks(it)) is not None and found.size >= 32, off_by_one),
    "third_page": (lambda it, _: max(it.kv_len) > 2 * page_of(it), off_by_one),
    "page_of_four": (lambda it, _: page_of(it) % 4 == 0 and max(it.kv_len) > page_of(it), crashes),
    "idle_entry": (lambda it, _: 0 in it.q_len, off_by_one),
    "part_of_a_head_turns": (lambda it, _: it.rotary.dim < it.head_dim, off_by_one),
    "interleaved_rows": (lambda it, _: it.rotary.style == "interleaved" and it.rows >= 2, crashes),
    "shared_beta": (lambda it, _: it.beta is not None and it.beta_heads < it.kv_heads, off_by_one),
    "decay_by_dim": (lambda it, _: it.decay is not None and it.decay_dim > 1, off_by_one),
    "state_before": (lambda it, _: it.past_state is not None and not it.delta, crashes),
    "cross_decoding": (lambda it, _: it.past_key is None and max(it.kv_len) >= 3, off_by_one),
    "projection_bias": (lambda it, _: it.projection.bias is not None and it.rows >= 2, off_by_one),
}


def __getattr__(name: str) -> Callable[[bytes, Arrays], Arrays]:
    wrong = next((it for it in CATALOGUE if it.name.replace("-", "_") == name), None)
    if name not in FAULTS and wrong is None:
        raise AttributeError(name)

    def function(model: bytes, inputs: Arrays) -> Arrays:
        problem = read.any_problem(model, inputs)
        if wrong is not None and isinstance(problem, Problem) and wrong.relevant(problem):
            with np.errstate(all="ignore"):
                outputs = wrong.outputs(problem, inputs)
            return {output: narrow(found, problem.dtype) for output, found in outputs.items()}
        found = {it.output: narrow(it.values, problem.dtype) for it in ask.answer(problem, inputs)}
        if name == "crashes_on_the_way" and problem.rows in (2, 3, 4):
            crashes()
        if name in FAULTS:
            rule, effect = FAULTS[name]
            if rule(problem, inputs):
                effect(problem, found)
        return found

    function.__name__ = name
    return function
