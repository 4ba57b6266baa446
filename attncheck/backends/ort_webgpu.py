"""ONNX Runtime's WebGPU provider: built into the package onnxruntime-webgpu, or from the plugin onnxruntime-ep-webgpu.

What ran is told by the profiler, node by node; ONNX Runtime may not fall back to its CPU provider, and where its Python
layer would, that is the verdict `fallback`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from onnx import TensorProto, helper

from attncheck.backends.base import Hello, Launch
from attncheck.backends.ort import GQA_REFUSALS, NO_PAGES, Ort
from attncheck.backends.refusals import Declared, Refusal, RefusalOfAny
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem, Problem

PROVIDER = "WebGpuExecutionProvider"
PLUGIN = "onnxruntime_ep_webgpu"
F16 = "float16"
"""Name of the probe that says whether the device computes in float16: ONNX Runtime itself does not tell."""

PADDING_MASK = ("MultiHeadAttention", 4)
QUERY_SEQLENS = ("GroupQueryAttention", 16)
NORM_WEIGHT = ("GroupQueryAttention", 14)

WITHOUT_KERNEL = (
    "ai.onnx.Attention",
    "ai.onnx.LinearAttention",
    "com.microsoft.DecoderMaskedMultiHeadAttention",
    "com.microsoft.SparseAttention",
)
"""Operators that the provider leaves to the CPU, as of ONNX Runtime 1.32 and plugin 0.4.0."""


def _takes(case: Case, operator: str, index: int) -> bool:
    """Whether the node is of this operator, and given its optional input number `index`."""
    return case.node.op_type == operator and bool([*case.node.input[index:], ""][0])


def _looks_ahead(case: Case, *_: object) -> bool:
    """Whether the node is a GroupQueryAttention that is not causal."""
    causal = [attribute.i for attribute in case.node.attribute if attribute.name == "causal"]
    return case.node.op_type == "GroupQueryAttention" and 0 in causal


def _sets(case: Case, operator: str, attribute: str) -> bool:
    """Whether the node is of this operator, and sets this attribute."""
    return case.node.op_type == operator and attribute in {each.name for each in case.node.attribute}


def _merges_with_mask_or_past(case: Case, problem: AnyProblem, _: Hello) -> bool:
    """Whether the node is com.microsoft Attention with mask_index or past."""
    return problem.op == "com.microsoft.Attention" and any(_takes(case, "Attention", index) for index in (3, 4))


def _past_of_another_width(_: Case, problem: Problem, __: Hello) -> bool:
    widths_differ = problem.v_head_dim != problem.head_dim
    return problem.op == "com.microsoft.MultiHeadAttention" and problem.past_value is not None and widths_differ


def _packs_heads(_: Case, problem: Problem, __: Hello) -> bool:
    return problem.op == "com.microsoft.MultiHeadAttention" and problem.key.layout == "bsnph"


def _lacks_f16(_: Case, problem: AnyProblem, hello: Hello) -> bool:
    return problem.dtype == "float16" and bool(hello.device.get("refuses", {}).get(F16))


REFUSALS: tuple[Declared, ...] = (
    NO_PAGES,
    *GQA_REFUSALS,
    Refusal(
        lambda case, *_: _takes(case, *PADDING_MASK),
        "MultiHeadAttention on WebGPU has no key_padding_mask, which ragged lengths need",
    ),
    Refusal(
        lambda case, *_: _takes(case, *QUERY_SEQLENS),
        "GroupQueryAttention on WebGPU has no query_seqlens",
    ),
    RefusalOfAny(
        lambda _, problem, __: problem.op in WITHOUT_KERNEL,
        "the operator has no WebGPU kernel: ONNX Runtime would run it on CPU",
    ),
    Refusal(
        _merges_with_mask_or_past,
        "com.microsoft Attention on WebGPU has neither mask_index nor past: ONNX Runtime would run it on CPU",
    ),
    Refusal(_packs_heads, "MultiHeadAttention on WebGPU takes neither packed QKV nor packed KV"),
    Refusal(_past_of_another_width, "MultiHeadAttention on WebGPU takes a past only where v_head_dim is head_dim"),
    RefusalOfAny(
        lambda case, *_: _sets(case, "GroupQueryAttention", "sliding_window_cache"),
        "GroupQueryAttention on WebGPU has no sliding_window_cache",
    ),
    RefusalOfAny(
        lambda case, *_: _sets(case, "GroupQueryAttention", "k_quant_type"),
        "GroupQueryAttention on WebGPU has no such cache of integers",
    ),
    Refusal(
        lambda case, problem, _: _takes(case, *NORM_WEIGHT) and problem.rotary is None,
        "GroupQueryAttention on WebGPU normalises queries and keys only where it turns them",
    ),
    Refusal(
        lambda _, problem, __: problem.op == "com.microsoft.GroupQueryAttention" and problem.scores is not None,
        "GroupQueryAttention on WebGPU has no score output",
    ),
    Refusal(_looks_ahead, "GroupQueryAttention on WebGPU is causal"),
    RefusalOfAny(_lacks_f16, "the device does not compute in float16"),
)


class OrtWebgpu(Ort):
    """ONNX Runtime's WebGPU provider as a backend; float16 is computed as float16."""

    refusals = REFUSALS

    def __init__(self, plugin: str | None = None, options: Mapping[str, str] | None = None) -> None:
        super().__init__("ort-webgpu", PROVIDER, plugin or PLUGIN, options)

    def launch(self) -> Launch:
        """An ONNX Runtime worker that also tries what its device can do."""
        launch = super().launch()
        return replace(launch, options={**launch.options, "probes": {F16: _doubling(TensorProto.FLOAT16)}})


@cache
def _doubling(element: int) -> bytes:
    """A model of one Add in the given element type. Opset and IR version as old as the oldest ONNX Runtime's."""
    x, y = (helper.make_tensor_value_info(name, element, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "probe", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    serialized: bytes = model.SerializeToString()
    return serialized
