"""Attention in plain NumPy, as a user would hand it in: by the Problem, and by the graph's own names."""

import ml_dtypes
import numpy as np

import attncheck.callable


@attncheck.callable.takes_problem
@attncheck.callable.declares("NumPy", "einsum")
def attention(problem, tensors):
    key = append(problem, tensors["key"], tensors.get("past_key"))
    value = append(problem, tensors["value"], tensors.get("past_value"))
    groups = problem.heads // problem.kv_heads
    scores = np.einsum("bhqd,bhkd->bhqk", tensors["query"].astype(float), np.repeat(key, groups, 1)) * problem.scale
    slots = np.arange(problem.capacity)
    seen = (slots >= problem.visible[..., :1]) & (slots < problem.visible[..., 1:])
    scores = np.where(seen[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    output = np.einsum("bhqk,bhkd->bhqd", weights, np.repeat(value, groups, 1))
    found = {"output": output, "present_key": key, "present_value": value}
    asked = {role: array for role, array in found.items() if getattr(problem, role) is not None}
    return {role: array.astype(tensors["query"].dtype) for role, array in asked.items()}


@attncheck.callable.takes_problem
def attention_in_bfloat16(problem, tensors):
    """The same of tensors that cross as the bits of bfloat16."""
    wide = {role: array.view(ml_dtypes.bfloat16).astype(np.float32) for role, array in tensors.items()}
    return {role: array.astype(ml_dtypes.bfloat16) for role, array in attention(problem, wide).items()}


@attncheck.callable.takes_problem("rotary", "linear")
def other_kinds(problem, tensors):
    """Rows that turn, and the two update rules of LinearAttention without a correction."""
    if problem.kind == "rotary":
        return {"turned": tensors["input"]}
    state = tensors.get("past_state", np.zeros((problem.batch, problem.kv_heads, problem.head_dim, problem.v_head_dim)))
    groups, state = problem.heads // problem.kv_heads, state.astype(float)
    output = np.zeros((problem.batch, problem.heads, problem.rows, problem.v_head_dim))
    for row in range(problem.rows):
        key, value, query = (tensors[role][:, :, row].astype(float) for role in ("key", "value", "query"))
        beta = tensors["beta"][:, :, row] if problem.delta else 1.0
        held = np.einsum("bhk,bhkv->bhv", key, state) if problem.delta else 0.0
        state = state + key[..., None] * (beta * (value - held))[..., None, :]
        output[:, :, row] = problem.scale * np.einsum("bhk,bhkv->bhv", query, np.repeat(state, groups, 1))
    kind = tensors["query"].dtype
    return {"output": output.astype(kind), "present_state": state.astype(kind)}


def append(problem, new, past):
    batch, heads, _, dim = new.shape
    present = np.zeros((batch, heads, problem.capacity, dim))
    for entry in range(batch):
        kept, added = problem.past_len[entry], problem.new_len[entry]
        if past is not None:
            present[entry, :, :kept] = past[entry, :, :kept]
        present[entry, :, kept : kept + added] = new[entry, :, :added]
    return present


def one_head_prefill(model, inputs):
    """MultiHeadAttention without a past, for one head: [batch, rows, dim] in and out."""
    query, key, value = (inputs[name].astype(float) for name in ("query", "key", "value"))
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    output = weights @ value / weights.sum(axis=-1, keepdims=True)
    assert model[:1] == b"\x08", "an ONNX model begins with its IR version"
    present = {"present_key": inputs["key"][:, None], "present_value": inputs["value"][:, None]}
    return {"output": output.astype(inputs["query"].dtype), **present}
