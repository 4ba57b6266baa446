"""Attention that is right but for one thing, by which it breaks one relation of attncheck.relations."""

import numpy as np
import onnx
import right

import attncheck.callable
from attncheck.graph import read
from attncheck.oracle import ask
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
    """By the oracle, whatever the kind of problem; off by 1/2 where the problem, the node or its inputs say so."""
    problem = read.any_problem(model, inputs)
    found = {it.output: np.nan_to_num(it.values) for it in ask.answer(problem, inputs)}
    (node,) = onnx.load_model_from_string(model).graph.node
    output = problem.outputs[0].tensor.name
    found[output] = found[output] + asks(problem, node, inputs) / 2
    return {name: narrow(values, problem.dtype) for name, values in found.items()}


def off(where):
    """A function of the graph whose output is off by 1/2 where `where(problem, node, inputs)` says so."""
    return lambda model, inputs: of_the_graph(model, inputs, lambda *seen: np.asarray(where(*seen), float))


def _tokens_of_the_first(problem, _node, inputs):
    """Which of the tokens that follow each other without padding are the first sequence's."""
    return (np.arange(len(inputs["query"])) < problem.q_len[0])[:, None]


def _attribute(*names):
    return lambda _, node, __: any(it.name in names for it in node.attribute)


right_by_the_oracle = off(lambda *_: False)
where_windowed = off(_attribute("local_window_size", "left_window_size"))
where_softcapped = off(_attribute("softcap"))
where_biased = off(lambda _, __, inputs: "attention_bias" in inputs)
half_by_graph = off(lambda problem, *_: problem.dtype == "float16")
in_long_calls_by_graph = off(lambda problem, *_: problem.rows > 1)
where_heads_share_by_graph = off(lambda problem, *_: problem.heads > problem.kv_heads)
in_the_first_sequence = off(_tokens_of_the_first)
in_the_first_row_of_batch = off(lambda problem, *_: (np.arange(problem.batch) == 0)[:, None, None])
where_packed_by_graph = off(lambda problem, *_: problem.query.packed > 0)
where_packed_batch = off(_attribute("is_packed_batching"))
where_input_has_four_axes = off(lambda problem, _, inputs: inputs[problem.input.name].ndim == 4)
where_keys_are_moved = off(lambda problem, _, inputs: np.nanmean(inputs[problem.key.name].astype(float)) > 0.25)
where_there_is_a_state = off(lambda problem, *_: problem.past_state is not None)
where_there_is_a_past = off(lambda problem, *_: problem.past_key is not None)
of_pages = off(lambda problem, *_: problem.paged)
of_sparse = off(lambda _, node, __: node.op_type == "SparseAttention")
of_decoder = off(lambda _, node, __: node.op_type == "DecoderMaskedMultiHeadAttention")
after_a_past_of_two = off(lambda problem, *_: problem.rows > 1 and max(problem.past_len) > 0)
after_a_state_of_two = off(lambda problem, *_: problem.rows > 1 and problem.past_state is not None)
behind_the_first_rows = off(lambda problem, *_: problem.rotary.positions[0, 0] > 2)
of_long_tables = off(lambda _, __, inputs: (inputs["block_table"] < 0).any(axis=0).any())
of_long_buffers = off(lambda problem, *_: problem.capacity > max(problem.kv_len))
of_long_caches = off(lambda problem, _, inputs: inputs["cos_cache"].shape[-2] > problem.rotary.positions.max() + 1)


def not_normalised_by_graph(model, inputs):
    found = right_by_the_oracle(model, inputs)
    output = read.any_problem(model, inputs).output.name
    return {**found, output: found[output] * np.asarray(1.05, found[output].dtype)}
