"""Every input, output and attribute of the supported operators' schemas is looked at by its reader, or refused by name.

What a reader leaves unread without a word would be judged as if it were not there: the worst that a reader can do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from numpy.typing import NDArray
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from attncheck.graph import read, write
from attncheck.graph.read.node import Node
from attncheck.scenario import from_command_line

MICROSOFT = "com.microsoft"
CASES: dict[tuple[str, str], tuple[str, ...]] = {
    (MICROSOFT, "GroupQueryAttention"): (
        "op=gqa past_len=3 rotary=half positions=explicit qk_norm=epsilons scores=weights bias=1x1xSxT sink=true",
        "op=gqa past_len=3 query_seqlens=true kv_cache=int8 smooth=true softcap=2",
        "op=gqa past_len=9 window=4 window_cache=true",
    ),
    (MICROSOFT, "MultiHeadAttention"): (
        "op=mha past_len=3 capacity=6 beams=2 qkv_bias=true mask=BxT bias=1x1xSxT scores=biased scale=2",
    ),
    (MICROSOFT, "DecoderMaskedMultiHeadAttention"): (
        "op=decoder-mha past_len=3 capacity=6 beams=2 qkv_bias=true mask=BxT bias=1x1xSxT scores=biased",
    ),
    (MICROSOFT, "Attention"): (
        "op=ms-attention past_len=3 capacity=6 qkv_bias=true mask=BxT bias=1x1xSxT head_dim=32 rotary=half",
    ),
    (MICROSOFT, "SparseAttention"): ("op=sparse q_len=20 rotary=half",),
    (MICROSOFT, "PagedAttention"): (
        "op=paged past_len=3 rotary=half qk_norm=epsilon sink=true slot_mapping=true window=2",
    ),
    (MICROSOFT, "RotaryEmbedding"): ("op=ms-rotary",),
    (MICROSOFT, "LinearAttention"): ("op=ms-linear past_state=given",),
    ("", "Attention"): (
        "op=attention past_len=3 bias=SxT scores=biased softmax_precision=float16 window=2 causal=false window_right=1",
        "op=attention kv_len=3 capacity=6 layout=bnsh softcap=2",
    ),
    ("", "RotaryEmbedding"): ("op=rotary positions=explicit",),
    ("", "LinearAttention"): ("op=linear past_state=given",),
}
"""Cases that between them ask a reader for everything that it reads."""


Slot = tuple[str, int | str]
"""What a reader may look at: ("attribute", name), ("input", number) or ("output", number)."""
SEEN: set[Slot] = set()


class Traced(Node):
    """A node that remembers what was looked at; to refuse is not to look."""

    def name(self, index: int) -> str | None:
        SEEN.add(("input", index))
        return super().name(index)

    def output(self, index: int) -> str | None:
        SEEN.add(("output", index))
        return super().output(index)

    def attribute(self, name: str, default: Any) -> Any:
        SEEN.add(("attribute", name))
        return super().attribute(name, default)

    def refuse_inputs(self, indices: dict[int, str]) -> None:
        before = set(SEEN)
        super().refuse_inputs(indices)
        SEEN.intersection_update(before)


@dataclass(frozen=True)
class Schema:
    """Names of an operator's inputs, outputs and attributes, in the newest version of it that is installed."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]

    def slots(self) -> Iterator[tuple[str, Slot]]:
        """Everything that there is, each with its name."""
        yield from ((name, ("input", index)) for index, name in enumerate(self.inputs))
        yield from ((name, ("output", index)) for index, name in enumerate(self.outputs))
        yield from ((name, ("attribute", name)) for name in self.attributes)


@cache
def schema(domain: str, op: str) -> Schema:
    every = get_all_operator_schema() if domain else onnx.defs.get_all_schemas_with_history()
    newest = max((it for it in every if (it.domain, it.name) == (domain, op)), key=lambda it: it.since_version)
    inputs, outputs = (tuple(each.name for each in sorts) for sorts in (newest.inputs, newest.outputs))
    return Schema(inputs, outputs, tuple(newest.attributes))


def looked_at(operator: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> set[Slot]:
    """What the reader looks at in one case of the operator or another."""
    monkeypatch.setattr(read, "Node", Traced)
    SEEN.clear()
    for text in CASES[operator]:
        case = write.build(from_command_line(text))
        assert read.any_problem(case.model, case.inputs).invalid == ""
    return set(SEEN)


def altered(operator: tuple[str, str], slot: Slot) -> tuple[onnx.NodeProto, bytes, dict[str, NDArray[Any]]]:
    """The first case of an operator with something in a slot that it did not have."""
    case = write.build(from_command_line(CASES[operator][0]))
    model = onnx.load_model_from_string(case.model)
    (node,) = model.graph.node
    kind, at = slot
    if kind == "attribute":
        node.attribute.append(helper.make_attribute(str(at), 77))
    else:
        names = node.input if kind == "input" else node.output
        names.extend([""] * (int(at) + 1 - len(names)))
        names[int(at)] = "more"
    return node, model.SerializeToString(), {**case.inputs, "more": np.zeros(1, np.float32)}


@pytest.mark.parametrize("operator", read.READABLE)
def test_nothing_of_a_schema_is_passed_over(operator: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen, hints = looked_at(operator, monkeypatch), read.READERS[operator].hints
    for name, slot in schema(*operator).slots():
        if slot in seen or name in hints:
            continue
        _, model, inputs = altered(operator, slot)
        with pytest.raises(read.Unreadable, match=f"the {slot[0]} {name} is not read"):
            read.any_problem(model, inputs)


@pytest.mark.parametrize("operator", read.READABLE)
def test_what_a_newer_schema_may_have_is_refused_by_name(operator: tuple[str, str]) -> None:
    known = schema(*operator)
    reader = read.READERS[operator]
    assert (reader.inputs, reader.outputs) == (len(known.inputs), len(known.outputs))
    slots: tuple[tuple[Slot, str], ...] = (
        (("attribute", "unheard_of"), "the attribute unheard_of"),
        (("input", len(known.inputs)), f"input {len(known.inputs)}, more,"),
        (("output", len(known.outputs)), f"output {len(known.outputs)}, more,"),
    )
    for slot, words in slots:
        _, model, inputs = altered(operator, slot)
        with pytest.raises(read.Unreadable, match=words):
            read.any_problem(model, inputs)


def test_every_hint_is_an_attribute_that_the_reader_does_not_look_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for operator in read.READABLE:
        seen = looked_at(operator, monkeypatch)
        for name in read.READERS[operator].hints:
            assert name in schema(*operator).attributes
            assert ("attribute", name) not in seen


def test_a_state_window_is_named() -> None:
    case = write.build(from_command_line("op=ms-linear"))
    model = onnx.load_model_from_string(case.model)
    model.graph.node[0].attribute.append(helper.make_attribute("state_window", 2))
    with pytest.raises(read.Unreadable, match="with a state_window is not read"):
        read.any_problem(model.SerializeToString(), case.inputs)


def test_a_total_below_the_longest_entry_of_sparse_attention_is_forbidden() -> None:
    case = write.build(from_command_line("op=sparse q_len=20"))
    problem = read.any_problem(case.model, {**case.inputs, "total_sequence_length": np.array([19], np.int32)})
    assert problem.invalid == "total_sequence_length is 19, and key_total_sequence_lengths speaks of 20 keys"
