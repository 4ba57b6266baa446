"""Attention that is right in the first call of a session and wrong later on, each time in another way."""

import os

import numpy as np
import right

import attncheck.callable


@attncheck.callable.takes_problem
def appends_one_slot_too_late(problem, tensors):
    """Where there is a past: what the next step reads in between is whatever stood there."""
    found = right.attention(problem, tensors)
    past, new = problem.past_len[0], problem.new_len[0]
    if past and past + new < problem.capacity:
        for role in ("present_key", "present_value"):
            found[role][:, :, past + 1 : past + new + 1] = found[role][:, :, past : past + new].copy()
            found[role][:, :, past] = 0.0
    return found


@attncheck.callable.takes_problem
def forgets_to_rewind(problem, tensors):
    """Keeps what it ever appended, wherever the caller says that the new tokens begin."""
    found = right.attention(problem, tensors)
    past = tensors.get("past_key")
    if past is not None and past.shape[2] == problem.capacity:
        for role, before in (("present_key", past), ("present_value", tensors["past_value"])):
            written = np.abs(before).sum(axis=(1, 3)) > 0
            keep = (written & (np.arange(problem.capacity) >= problem.past_len[0]))[:, None, :, None]
            found[role] = np.where(keep, before, found[role]).astype(before.dtype)
    return found


@attncheck.callable.takes_problem
def leaves_something_behind(problem, tensors):
    """Writes 7 behind what it appends, where nobody looks, and takes a 7 that it finds there for a token of its own."""
    found = right.attention(problem, tensors)
    past, end = problem.past_len[0], problem.past_len[0] + problem.new_len[0]
    before = tensors.get("past_value")
    if before is not None and before.shape[2] > past and (before[:, :, past] == 7.0).all():
        found["present_value"] = found["present_value"].copy()
        found["present_value"][:, :, past] = 7.0
    if end < problem.capacity:
        for role in ("present_key", "present_value"):
            found[role] = found[role].copy()
            found[role][:, :, end] = 7.0
    return found


@attncheck.callable.takes_problem
def answers_whatever_it_is_asked(problem, tensors):
    """Right as long as there is an answer, and of the right form beyond."""
    if not problem.invalid:
        return right.attention(problem, tensors)
    shape = (problem.batch, problem.kv_heads, problem.capacity, problem.head_dim)
    kind = tensors["query"].dtype
    found = {"output": np.zeros((problem.batch, problem.heads, problem.rows, problem.v_head_dim), kind)}
    found.update((role, np.zeros(shape, kind)) for role in ("present_key", "present_value") if getattr(problem, role))
    return found


@attncheck.callable.takes_problem
def declines_the_forbidden(problem, tensors):
    if problem.invalid:
        raise attncheck.callable.Unsupported("no room is left")
    return right.attention(problem, tensors)


@attncheck.callable.takes_problem
def dies_in_the_third_call(problem, tensors):
    if problem.past_len[0] == 6:
        os.abort()
    return right.attention(problem, tensors)


@attncheck.callable.takes_problem
def wrong_in_the_third_call(problem, tensors):
    found = right.attention(problem, tensors)
    if problem.past_len[0] == 6:
        found["output"] = found["output"] + np.float32(1.0)
    return found


@attncheck.callable.takes_problem
def eats_what_it_is_given(problem, tensors):
    """Right, but its present is no copy of its past: keys are kept a little larger, which the oracle's past is not."""
    found = right.attention(problem, tensors)
    if not problem.past_len[0]:
        found["present_key"] = found["present_key"] * np.float32(1.0 + 2.0**-22)
    return found
