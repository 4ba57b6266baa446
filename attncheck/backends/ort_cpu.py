"""ONNX Runtime's CPU provider: the reference.

Beside what ONNX Runtime refuses on every provider, declared in ort.py, its ai.onnx Attention 23 and 24 refuse what 25
takes; any other refusal is an error.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from attncheck.backends.ort import GQA, GQA_REFUSALS, NO_PAGES, SPARSE, Ort
from attncheck.backends.refusals import Declared, Refusal, RefusalOfAny
from attncheck.compare.arithmetic import Compute
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem, Mask, Problem, RotaryProblem

PROVIDER = "CPUExecutionProvider"
ATTENTION = "ai.onnx.Attention"
MHA = "com.microsoft.MultiHeadAttention"
MS_ATTENTION = "com.microsoft.Attention"
DECODER = "com.microsoft.DecoderMaskedMultiHeadAttention"

_MASK_INDEX = 3
"""The input of com.microsoft Attention that says which keys count."""


def _is_older_attention(case: Case, problem: Problem) -> bool:
    """Whether the graph is ai.onnx Attention 23 or 24."""
    return problem.op == ATTENTION and case.opset < 25


def _computes_softmax_in_bfloat16(case: Case, problem: Problem) -> bool:
    """Whether ai.onnx Attention asks for that precision."""
    asked = (it.i for it in case.node.attribute if it.name == "softmax_precision")
    return problem.op == ATTENTION and onnx.TensorProto.BFLOAT16 in asked


def _is_longer_than_its_caches(case: Case, problem: AnyProblem) -> bool:
    """Whether each entry has more rows than the caches, which is another matter than how far positions reach."""
    if not isinstance(problem, RotaryProblem) or "position_ids" not in case.inputs:
        return False
    packed = any(attribute.name == "is_packed_batching" and attribute.i for attribute in case.node.attribute)
    return not packed and problem.rows > case.inputs[problem.rotary.cos].shape[0]


def _ends_before_total(case: Case, problem: Problem) -> bool:
    """Whether rotary caches that hold every position are shorter than the bound of the lengths."""
    if problem.rotary is None or problem.invalid:
        return False
    rows: int = case.inputs[problem.rotary.cos].shape[0]
    return rows < int(case.inputs["total_sequence_length"].reshape(-1)[0])


def _is_broadcast(mask: Mask, problem: Problem) -> bool:
    """Whether one row of a mask stands for several queries."""
    return problem.rows > 1 and mask.shape[-2:-1] == (1,)


def _has_bias(problem: Problem) -> bool:
    return any(mask.kind == "additive" for mask in problem.masks)


def _step_of_a_window_cache(problem: Problem) -> int:
    """What head_dim must be a multiple of: as many integers as 16 bytes hold; 1 for a cache of floats."""
    return 1 if problem.quantised is None else {"int8": 16, "int4x2": 32}[problem.quantised.dtype]


def _has_mask_of_four_axes(case: Case) -> bool:
    """Whether com.microsoft Attention is given a mask_index [batch, 1, max_len, max_len]."""
    name = case.node.input[_MASK_INDEX] if len(case.node.input) > _MASK_INDEX else ""
    return bool(name) and case.inputs[name].ndim == 4


def _keeps(problem: Problem) -> bool:
    return problem.past_key is not None or problem.present_key is not None


REFUSALS: tuple[Declared, ...] = (
    RefusalOfAny(
        lambda _, asked, __: asked.dtype == "bfloat16", "the CPU provider has no kernels of attention in bfloat16"
    ),
    RefusalOfAny(
        lambda case, asked, _: _is_longer_than_its_caches(case, asked),
        "RotaryEmbedding takes no more rows than its caches have",
    ),
    NO_PAGES,
    *GQA_REFUSALS,
    Refusal(
        lambda _, asked, __: asked.evicts is not None and asked.present_key is None,
        "GroupQueryAttention takes sliding_window_cache only where the present is asked for",
        ">=1.32",
    ),
    Refusal(
        lambda _, asked, __: asked.quantised is not None and asked.present_key is None,
        "GroupQueryAttention takes a KV cache of integers only where the present is asked for",
        ">=1.32",
    ),
    Refusal(
        lambda _, asked, __: asked.evicts is not None and asked.head_dim % _step_of_a_window_cache(asked) != 0,
        "GroupQueryAttention takes sliding_window_cache beside a KV cache of integers only with a head_dim that is a "
        "multiple of 16, or of 32 for 4 bits",
        ">=1.32",
    ),
    Refusal(
        lambda _, asked, __: asked.norm is not None,
        "GroupQueryAttention on the CPU does not normalise queries and keys",
    ),
    Refusal(
        lambda _, asked, __: asked.op == SPARSE and asked.head_dim % 8 != 0,
        "SparseAttention takes only a head_dim that is a multiple of 8",
    ),
    Refusal(
        lambda case, asked, _: asked.op == GQA and "query_seqlens" in case.inputs and asked.present_key is None,
        "GroupQueryAttention takes query_seqlens only where the present is asked for",
        ">=1.32",
    ),
    Refusal(
        lambda case, asked, _: (
            asked.evicts is not None and min(asked.new_len) < asked.rows and "query_seqlens" not in case.inputs
        ),
        "GroupQueryAttention takes a padded prompt beside sliding_window_cache only with query_seqlens",
        ">=1.32",
    ),
    Refusal(
        lambda case, asked, _: asked.op == GQA and "query_seqlens" in case.inputs and _ends_before_total(case, asked),
        "GroupQueryAttention takes no rotary caches that are shorter than total_sequence_length, padding included",
        ">=1.32",
    ),
    Refusal(
        lambda case, asked, _: asked.scale <= 0.0 and _is_older_attention(case, asked),
        "Attention 23 and 24 take only a scale above 0",
        ">=1.32",
    ),
    Refusal(
        lambda case, asked, _: any(_is_broadcast(it, asked) for it in asked.masks) and _is_older_attention(case, asked),
        "Attention 23 and 24 take no attn_mask that is broadcast over the queries",
        ">=1.32",
    ),
    Refusal(
        lambda case, asked, _: _computes_softmax_in_bfloat16(case, asked) and not _is_older_attention(case, asked),
        "Attention 25 has no softmax_precision of bfloat16: it becomes other operators, and ReduceMax has none",
        ">=1.32",
    ),
    Refusal(
        lambda case, asked, _: (
            any(it.shape[-1] < asked.capacity for it in asked.masks) and _is_older_attention(case, asked)
        ),
        "Attention 23 and 24 take no attn_mask that is shorter than the keys",
        ">=1.32",
    ),
    Refusal(
        lambda case, asked, _: (
            asked.past_key is not None and asked.present_key is None and _is_older_attention(case, asked)
        ),
        "Attention 23 and 24 take a past only where the present is asked for",
        ">=1.32",
    ),
    Refusal(
        lambda _, asked, __: asked.op == MHA
        and asked.past_value is not None
        and asked.v_head_dim != asked.head_dim,
        "MultiHeadAttention takes a past only where v_head_dim is head_dim",
        ">=1.32",
    ),
    Refusal(
        lambda case, asked, _: asked.op == MHA and "past_sequence_length" in case.inputs and asked.present_key is None,
        "MultiHeadAttention takes a buffer that past and present share only where the present is asked for",
        ">=1.32",
    ),
    Refusal(
        lambda _, asked, __: asked.op == MHA and asked.key.layout == "bsnph",
        "MultiHeadAttention takes no packed query, key and value, nor packed key and value",
    ),
    Refusal(
        lambda _, asked, __: asked.op == DECODER and bool(asked.query.packed),
        "DecoderMaskedMultiHeadAttention takes no packed query, key and value",
    ),
    Refusal(
        lambda case, asked, _: asked.op == DECODER and "past_sequence_length" not in case.inputs and _keeps(asked),
        "DecoderMaskedMultiHeadAttention takes a past, or gives a present, only where the two share a buffer",
    ),
    Refusal(
        lambda _, asked, __: asked.op == DECODER and asked.past_key is None and _has_bias(asked),
        "DecoderMaskedMultiHeadAttention takes no attention_bias in cross attention",
    ),
    Refusal(
        lambda _, asked, __: asked.op == MS_ATTENTION and asked.rotary is not None,
        'Attention on the CPU has no do_rotary: "Please fuse the model with MHA + RotaryEmbedding"',
    ),
    Refusal(
        lambda case, asked, _: asked.op == MS_ATTENTION and _has_mask_of_four_axes(case),
        "Attention on the CPU takes no mask_index of four axes",
    ),
    Refusal(
        lambda _, asked, __: asked.op == MS_ATTENTION and asked.past_key is not None and _has_bias(asked),
        "Attention takes no attention_bias beside a past",
    ),
    Refusal(
        lambda case, asked, _: asked.op == MS_ATTENTION and "past_sequence_length" in case.inputs,
        "Attention takes no buffer that past and present share",
    ),
    Refusal(
        lambda _, asked, __: asked.op == MS_ATTENTION and asked.past_key is not None and asked.present_key is None,
        "Attention takes a past only where the present is asked for",
    ),
)


class OrtCpu(Ort):
    """ONNX Runtime's CPU provider as a backend."""

    refusals: tuple[Declared, ...] = REFUSALS

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        super().__init__("ort-cpu", PROVIDER, options=options)

    def arithmetic(self, problem: AnyProblem) -> Compute:
        """Float32, but for ai.onnx Attention the dtype's own.

        The com.microsoft kernels compute float16 inputs in float32. Attention in float16 stores scores and weights as
        float16 between its two products (`AttentionGemm`, `ComputeAttentionProbs` in
        onnxruntime/core/providers/cpu/llm/attention.cc).
        """
        return "native" if problem.op == ATTENTION else "f32"
