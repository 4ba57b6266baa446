"""Attention that is right but for one thing, by which it breaks one relation of attncheck.relations."""

import numpy as np
import onnx
import right

import attncheck.callable
from attncheck.graph import read
from attncheck.oracle import attention
from attncheck.tensors.dtypes import narrow


def broken(where):
    """Attention whose output is off by 1/8 where `where(problem, tensors)` says so."""

    @attncheck.callable.takes_problem
    def function(problem, tensors):
        found = right.attention(problem, tensors)
        return {**found, "output": found["output"] + np.asarray(where(problem, tensors) / 8, found["output"].dtype)}

    return function


nowhere = broken(lambda *_: 0.0)
in_long_calls = broken(lambda problem, _: float(problem.rows > 1))
after_a_past_of_half = broken(lambda problem, _: float(problem.rows > 1 and max(problem.past_len) > 0))
where_heads_share = broken(lambda problem, _: float(problem.heads > problem.kv_heads))
in_the_first_entry = broken(lambda problem, _: np.arange(problem.batch)[:, None, None, None] == 0)
in_long_buffers = broken(lambda problem, _: float(problem.capacity > max(np.add(problem.past_len, problem.new_len))))
where_capped = broken(lambda problem, _: float(problem.softcap > 0))
where_packed = broken(lambda problem, _: float(problem.query.packed > 0))
where_4d = broken(lambda problem, _: float(problem.query.layout == "bnsh"))
in_half = broken(lambda problem, _: float(problem.dtype == "float16"))


@attncheck.callable.takes_problem
def not_normalised(problem, tensors):
    found = right.attention(problem, tensors)
    return {**found, "output": found["output"] * np.asarray(1.01, found["output"].dtype)}


def of_the_graph(model, inputs, asks):
    """By the oracle, so that bias and softcap are there too; off by 1/8 where a node's attribute or inputs say so."""
    problem = read.problem(model, inputs)
    found = {it.output: np.nan_to_num(it.values) for it in attention.answer(problem, inputs)}
    (node,) = onnx.load_model_from_string(model).graph.node
    found[problem.output.name] = found[problem.output.name] + asks(node, inputs) / 8
    return {name: narrow(values, problem.dtype) for name, values in found.items()}


def where_windowed(model, inputs):
    windows = ("local_window_size", "left_window_size")
    return of_the_graph(model, inputs, lambda node, _: float(any(it.name in windows for it in node.attribute)))


def where_biased(model, inputs):
    return of_the_graph(model, inputs, lambda _, given: float("attention_bias" in given))


def half_by_graph(model, inputs):
    return of_the_graph(model, inputs, lambda _, given: float(given["input"].dtype == np.float16))


def where_softcapped(model, inputs):
    return of_the_graph(model, inputs, lambda node, _: float(any(it.name == "softcap" for it in node.attribute)))


def right_by_the_oracle(model, inputs):
    return of_the_graph(model, inputs, lambda *_: 0.0)
