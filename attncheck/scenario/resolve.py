"""Axis values into a Scenario: defaults that follow from other axes, and the types of `model`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attncheck.scenario import steps
from attncheck.scenario.axes import AXES, ROTARIES, spell
from attncheck.scenario.complete import LENGTHS, Complete, Value, session_of
from attncheck.scenario.model import Scenario, Source, Tolerance
from attncheck.scenario.nodes import Node

_DEFAULTS: Mapping[str, Value] = {name: axis.default for name, axis in AXES.items() if axis.default is not None}


def value_of(node: Node) -> Value:
    """A usable axis value."""
    if isinstance(node.value, tuple) and any(item.entries() for item in node.value):
        return tuple(steps.Written.of({it.key.text: it.value.plain() for it in item.entries()}) for item in node.value)
    if isinstance(node.value, tuple):
        return tuple(item.value for item in node.value)  # type: ignore[return-value]
    return node.value  # type: ignore[return-value]


def _width(values: Mapping[str, Value]) -> int:
    """All heads side by side: as wide as the rows that models project."""
    heads, dim = values["heads"], values["head_dim"]
    assert isinstance(heads, int)
    assert isinstance(dim, int)
    return heads * dim


def complete(assigned: Mapping[str, Value]) -> Complete:
    """Fill in every default. Lists whose length is not the batch's are left for `possible` to complain about."""
    values: dict[str, Value] = {**_DEFAULTS, **assigned}
    session = session_of(values)
    if session:
        values["q_len"] = session[0].q_len
    lists = [value for axis in LENGTHS if isinstance(value := values[axis], tuple)]
    lists += [value for step in session for value in (step.q_len, step.accept) if isinstance(value, tuple)]
    batch = assigned.get("batch", max(map(len, lists), default=values["beams"]))
    assert isinstance(batch, int)
    values["batch"] = batch
    if values["op"] in ROTARIES and "rotary" not in assigned:
        values["rotary"] = "half"
    if values["op"] == "paged" and "dtype" not in assigned:
        values["dtype"] = "float16"
    values.setdefault("kv_heads", values["heads"])
    values.setdefault("rotary_dim", values["head_dim"])
    values.setdefault("v_head_dim", values["head_dim"])
    values.setdefault("input_dim", _width(values))
    case = Complete(values, frozenset(assigned), batch)
    values.setdefault("opset", case.lowest_opset)
    if "rotary_cache" not in values:
        values["rotary_cache"] = max(call.positions_with_padding for call in case.calls) if case.lists_fit else 1
    return case


def scenario(
    case: Complete,
    *,
    address: str,
    source: Source,
    written: Mapping[str, Value],
    tolerance: Mapping[str, Tolerance] | None = None,
    tags: tuple[str, ...] = (),
    about: str = "",
) -> Scenario:
    """The Scenario of a possible case."""
    values: Mapping[str, Any] = case.values
    rotates = values["rotary"] != "none"
    return Scenario(
        id=address,
        source=source,
        op=values["op"],
        dtype=values["dtype"],
        batch=case.batch,
        q_len=case.lengths("q_len"),
        past_len=case.lengths("past_len"),
        kv_len=case.kv_len,
        heads=values["heads"],
        kv_heads=values["kv_heads"],
        head_dim=values["head_dim"],
        v_head_dim=values["v_head_dim"],
        capacity=_unless(values["capacity"], "exact"),
        scale=_unless(values["scale"], "default"),
        softcap=0.0 if values["softcap"] == "none" else float(values["softcap"]),
        window=_unless(values["window"], "none"),
        causal=values["causal"],
        rotary=_unless(values["rotary"], "none"),
        rotary_dim=values["rotary_dim"] if rotates else 0,
        rotary_cache=values["rotary_cache"] if rotates and values["rotary_cache"] != "absent" else 0,
        cross=case.cross,
        window_right=_unless(values["window_right"], "none"),
        bias=_unless(values["bias"], "none"),
        mask=_unless(values["mask"], "none"),
        key_lengths=values["key_lengths"],
        mask_len=_unless(values["mask_len"], "full"),
        holes=values["holes"],
        sink=values["sink"],
        smooth=values["smooth"],
        scores=_unless(values["scores"], "none"),
        present=values["present"] == "asked",
        past=values["past"],
        packed=values["packed"],
        qkv_bias=values["qkv_bias"],
        input_dim=values["input_dim"] if values["op"] == "ms-attention" else 0,
        beams=values["beams"],
        query_seqlens=values["query_seqlens"],
        qk_norm=_unless(values["qk_norm"], "none"),
        window_cache=values["window_cache"],
        kv_cache=None if values["kv_cache"] == "same" else values["kv_cache"],
        kv_scales=values["kv_scales"],
        sparse_block=values["sparse_block"],
        sparse_layouts=values["sparse_layouts"],
        page=values["page"],
        slot_mapping=values["slot_mapping"],
        softmax_precision=None if values["softmax_precision"] == "default" else values["softmax_precision"],
        dims=values["dims"],
        layout=values["layout"],
        opset=values["opset"] if values["op"] == "attention" else 0,
        positions=values["positions"],
        packed_batch=values["packed_batch"],
        update_rule=values["update_rule"],
        decay=values["decay"],
        beta=values["beta"],
        past_state=values["past_state"],
        data=values["data"],
        q_values=_numbers(values["q_values"]),
        k_values=_numbers(values["k_values"]),
        v_values=_numbers(values["v_values"]),
        bias_values=_numbers(values["bias_values"]),
        sink_values=_numbers(values["sink_values"]),
        seed=values["seed"],
        kernel=values.get("kernel"),
        steps=steps.unrolled(session_of(values), case.batch),
        tolerance=dict(tolerance or {}),
        tags=tags,
        about=about,
        written=tuple((axis, spell(value)) for axis, value in written.items()),
    )


def _numbers(value: Any) -> tuple[float, ...] | None:
    if value == "generated":
        return None
    return tuple(map(float, value)) if isinstance(value, tuple) else (float(value),)


def _unless(value: Any, word: str) -> Any:
    return None if value == word else float(value) if word == "default" else value
