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
from attncheck.oracle import attention
from attncheck.oracle.wrong.catalogue import CATALOGUE
from attncheck.problem import Problem
from attncheck.tensors.dtypes import narrow, widen

Arrays = dict[str, np.ndarray[Any, Any]]
Rule = Callable[[Problem, Arrays], bool]
CALLS = itertools.count()


def crashes(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def hangs(*_: object) -> None:
    time.sleep(600)


def refuses(it: Problem, _: Arrays) -> None:
    raise ValueError(f"no kernel for {it.heads} heads at 0x{id(it):x}")


def off_by_one(it: Problem, found: Arrays) -> None:
    found[it.output.name] += 1.0


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
}


def __getattr__(name: str) -> Callable[[bytes, Arrays], Arrays]:
    wrong = next((it for it in CATALOGUE if it.name.replace("-", "_") == name), None)
    if name not in FAULTS and wrong is None:
        raise AttributeError(name)

    def function(model: bytes, inputs: Arrays) -> Arrays:
        problem = read.problem(model, inputs)
        if wrong is not None and wrong.relevant(problem):
            with np.errstate(all="ignore"):
                outputs = wrong.outputs(problem, inputs)
            return {output: narrow(found, problem.dtype) for output, found in outputs.items()}
        found = {it.output: narrow(it.values, problem.dtype) for it in attention.answer(problem, inputs)}
        if name == "crashes_on_the_way" and problem.rows in (2, 3, 4):
            crashes()
        if name in FAULTS:
            rule, effect = FAULTS[name]
            if rule(problem, inputs):
                effect(problem, found)
        return found

    function.__name__ = name
    return function
