"""Reads LinearAttention of com.microsoft and of ai.onnx 27, which say the same but for the heads that may be shared."""

from __future__ import annotations

from attncheck.graph.read.node import Node, Unreadable
from attncheck.problem import LinearProblem, Tensor

RULES = ("linear", "gated", "delta", "gated_delta")
_ATTRIBUTES = ("chunk_size", "kv_num_heads", "q_num_heads", "scale", "update_rule")


def read(node: Node) -> LinearProblem:
    """The Problem of a LinearAttention node. Raises Unreadable for a rule, or states, that attncheck does not know."""
    microsoft = node.op.startswith("com.microsoft")
    node.refuse_attributes((*_ATTRIBUTES, "state_window") if microsoft else _ATTRIBUTES)
    if node.attribute("state_window", 0):
        raise Unreadable(f"{node.op} with a state_window is not read by attncheck: it keeps the last state only")
    rule = _rule(node)
    heads, kv_heads = node.attribute("q_num_heads", 1), node.attribute("kv_num_heads", 1)
    batch, rows, width = node.required(0)[1].shape
    head_dim, v_head_dim = node.head_dim(0, width, heads), node.head_dim(2, node.required(2)[1].shape[2], kv_heads)
    decay, beta = node.array(4), node.array(5)
    gated, delta = rule.startswith("gated"), rule.endswith("delta")
    return LinearProblem(
        op=node.op,
        dtype=node.dtype(0),
        batch=batch,
        rows=rows,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=v_head_dim,
        scale=node.scale(head_dim),
        delta=delta,
        query=Tensor(node.required(0)[0], "bsnh"),
        key=Tensor(node.required(1)[0], "bsnh"),
        value=Tensor(node.required(2)[0], "bsnh"),
        output=Tensor(node.output(0) or "output", "bsnh"),
        present_state=node.asked(1),
        past_state=_state(node),
        decay=_packed(node, 4) if gated else None,
        decay_dim=1 if decay is None else decay.shape[2] // kv_heads,
        beta=_packed(node, 5) if delta else None,
        beta_heads=1 if beta is None else beta.shape[2],
        invalid=_invalid(node, rule, heads, kv_heads, shared=microsoft),
    )


def _rule(node: Node) -> str:
    said = node.attribute("update_rule", b"gated_delta")
    rule = said.decode() if isinstance(said, bytes) else str(said)
    if rule not in RULES:
        raise Unreadable(f"{node.op} with the update_rule {rule} is not read by attncheck: {', '.join(RULES)} are")
    return rule


def _state(node: Node) -> Tensor | None:
    state = node.given(3)
    if state is not None and node.dtype(3) != node.dtype(0):
        raise Unreadable(f"{node.op} with a state in another dtype than the queries is not read by attncheck")
    return state


def _packed(node: Node, index: int) -> Tensor | None:
    name = node.name(index)
    return None if name is None else Tensor(name, "bsnh")


def _invalid(node: Node, rule: str, heads: int, kv_heads: int, *, shared: bool) -> str:
    """Why the operator's text forbids the node, or nothing. `shared`: whether several states may share a query."""
    if heads % kv_heads and not (shared and kv_heads % heads == 0):
        return f"q_num_heads {heads} must be a multiple of kv_num_heads {kv_heads}"
    if rule.startswith("gated") and node.name(4) is None:
        return f"the update rule {rule} needs decay"
    if rule.endswith("delta") and node.name(5) is None:
        return f"the update rule {rule} needs beta"
    return ""
