"""The writing half: a Scenario becomes a Case, an ONNX model with inputs. One file an operator."""

from __future__ import annotations

from attncheck.graph.case import Case, digest
from attncheck.graph.model import symbolic
from attncheck.graph.write import attention, decoder_mha, gqa, linear, mha, ms_attention, paged, rotary, sparse
from attncheck.graph.write.parts import Parts
from attncheck.scenario.model import Scenario

_WRITERS = {
    "gqa": gqa.write,
    "mha": mha.write,
    "decoder-mha": decoder_mha.write,
    "attention": attention.write,
    "sparse": sparse.write,
    "paged": paged.write,
    "rotary": rotary.write,
    "ms-rotary": rotary.write_microsoft,
    "ms-attention": ms_attention.write,
    "linear": linear.write,
    "ms-linear": linear.write,
}


def build(scenario: Scenario) -> Case:
    """Write `scenario`, one call, as an ONNX model with its input arrays. Pure: the same scenario, the same bytes."""
    assert not scenario.steps, "a session is written step by step: graph.session"
    parts: Parts = _WRITERS[scenario.op](scenario)
    model = symbolic(parts.model) if scenario.dims == "symbolic" else parts.model
    return Case(
        id=scenario.id,
        origin=scenario,
        model=model,
        inputs=parts.inputs,
        outputs=parts.outputs,
        digest=digest(model, parts.inputs),
    )
