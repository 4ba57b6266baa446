"""Everything that a user's function may do instead of computing attention."""

import contextlib
import ctypes
import itertools
import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import right

import attncheck.callable

CALLS = itertools.count(1)


def by_problem(function):
    return attncheck.callable.takes_problem(function)


@by_problem
def segfault(problem, tensors):
    print("about to fall", file=sys.stderr, flush=True)
    ctypes.string_at(0)


@by_problem
def abort(problem, tensors):
    os.abort()


@by_problem
def exits(problem, tensors):
    sys.exit(3)


@by_problem
def hangs(problem, tensors):
    time.sleep(600)


@by_problem
def dies_and_leaves_a_child(problem, tensors):
    if os.fork() == 0:
        time.sleep(600)
    os.abort()


@by_problem
def prints_garbage(problem, tensors):
    print("garbage" * 1000)
    os.write(1, b"\x00\xff raw garbage")
    subprocess.run(["echo", "more garbage"], check=True)
    return right.attention(problem, tensors)


@by_problem
def writes_into_every_stream(problem, tensors):
    for descriptor in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"\x10\x00\x00\x00\x00\x00\x00\x00 this is no JSON")
    return right.attention(problem, tensors)


@by_problem
def wrong_shape(problem, tensors):
    found = right.attention(problem, tensors)
    return {**found, "output": found["output"][..., :-1]}


@by_problem
def wrong_dtype(problem, tensors):
    found = right.attention(problem, tensors)
    return {**found, "output": found["output"].astype(np.float64)}


@by_problem
def drops_an_output(problem, tensors):
    found = right.attention(problem, tensors)
    del found["present_value"]
    return found


@by_problem
def invents_an_output(problem, tensors):
    return {**right.attention(problem, tensors), "outptu": np.zeros(3)}


@by_problem
def returns_nothing(problem, tensors):
    right.attention(problem, tensors)


@by_problem
def returns_a_list(problem, tensors):
    return {"output": [[1.0]]}


@by_problem
def returns_objects(problem, tensors):
    return {"output": np.array([None])}


@by_problem
def changes_an_input(problem, tensors):
    found = right.attention(problem, tensors)
    tensors["key"][0, 1, 1, 3] += 1.0
    return found


@by_problem
def writes_behind_an_input(problem, tensors):
    found = right.attention(problem, tensors)
    past = tensors["past_key"]
    ctypes.memset(past.ctypes.data + past.nbytes + 8, 0x41, 4)
    return found


@by_problem
def writes_in_front_of_an_input(problem, tensors):
    ctypes.memset(tensors["past_value"].ctypes.data - 12, 0x41, 4)
    raise ValueError("and falls over it")


@by_problem
def eats_memory(problem, tensors):
    eaten = []
    while True:
        eaten.append(np.ones(8 * 2**20, np.uint8))
        time.sleep(0.002)


@by_problem
def is_killed(problem, tensors):
    os.kill(os.getpid(), signal.SIGKILL)


@by_problem
def holds_270_mebibytes_and_is_killed(problem, tensors):
    eaten = []
    while psutil.Process().memory_info().rss < 270 * 2**20:
        eaten.append(np.ones(2**20, np.uint8))
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)


@by_problem
def asks_for_too_much_at_once(problem, tensors):
    return np.ones((1 << 50,), np.uint8)


@by_problem
def raises(problem, tensors):
    raise RuntimeError("the kernel is on fire")


@by_problem
def declines(problem, tensors):
    raise attncheck.callable.Unsupported(f"not my operator, asked {next(CALLS)} times")


def declines_a_graph(model, inputs):
    raise attncheck.callable.Unsupported("no graph is mine")


@by_problem
def declines_what_has_a_past(problem, tensors):
    if any(problem.past_len):
        raise attncheck.callable.Unsupported("no past")
    return right.attention(problem, tensors)


@by_problem
def declines_the_second_time(problem, tensors):
    if next(CALLS) == 2:
        raise attncheck.callable.Unsupported("not today")
    return right.attention(problem, tensors)


@by_problem
def declines_after_a_stray_write(problem, tensors):
    tensors["key"][:] = 0
    raise attncheck.callable.Unsupported("not my operator")


@by_problem
def answers_differently_each_time(problem, tensors):
    found = right.attention(problem, tensors)
    found["output"] += np.float32(next(CALLS) // 2)
    return found


@by_problem
def zeros(problem, tensors):
    return {role: np.zeros_like(array) for role, array in right.attention(problem, tensors).items()}


@by_problem
def not_a_number(problem, tensors):
    return {role: np.full_like(array, np.nan) for role, array in right.attention(problem, tensors).items()}


@by_problem
def loses_the_device(problem, tensors):
    raise failure("device-lost", "the GPU device was lost: as planted")


@by_problem
def runs_elsewhere(problem, tensors):
    raise failure("fallback", "asked for a GPU, the CPU ran: as planted")


def failure(verdict, message):
    """What a runtime of attncheck's own raises; it stands beside the worker that this file is imported by."""
    from failure import Failure

    return Failure(verdict, message)


not_callable = 3
