"""Small models as exporters make them: a BERT of plain operators, a decoder of GroupQueryAttention, nested attention.

Weights are seeded; each model computes something sensible, but nothing that anybody trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, INT32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL
MICROSOFT = "com.microsoft"
Value = onnx.ValueInfoProto


def value(name: str, shape: Sequence[int | str] | None, dtype: int = FLOAT) -> Value:
    return helper.make_tensor_value_info(name, dtype, shape)


class Graph:
    """Nodes and weights as they are added; each node is called by the path of the module that it comes from."""

    def __init__(self, seed: int = 0) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self._random = np.random.default_rng(seed)

    def node(self, op: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """Add a node of one output, `name`_output_0, which is given back."""
        self.nodes.append(helper.make_node(op, list(inputs), [f"{name}_output_0"], name=name, **attributes))
        return f"{name}_output_0"

    def weight(self, name: str, *shape: int) -> str:
        return self.held(name, (self._random.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32))

    def held(self, name: str, array: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def linear(self, given: str, name: str, inner: int, outer: int) -> str:
        product = self.node("MatMul", [given, self.weight(f"{name}.weight", inner, outer)], f"/{name}/MatMul")
        return self.node("Add", [self.held(f"{name}.bias", np.zeros(outer, np.float32)), product], f"/{name}/Add")

    def model(self, inputs: Sequence[Value], outputs: Sequence[Value], opset: int = 17, **more: Any) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "main", inputs, outputs, self.weights)
        imports = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10, **more)


def bert(layers: int = 2, hidden: int = 32, heads: int = 4) -> onnx.ModelProto:
    """Embeddings and `layers` of self attention with a padding mask, spelt out as torch's exporter spells them out."""
    g = Graph()
    ids = g.node("Gather", [g.weight("word", 50, hidden), "input_ids"], "/embeddings/word/Gather")
    kinds = g.node("Gather", [g.weight("kind", 2, hidden), "token_type_ids"], "/embeddings/type/Gather")
    state = g.node("Add", [ids, kinds], "/embeddings/Add")
    state = _norm(g, state, "embeddings/LayerNorm", hidden)
    wide = g.node("Unsqueeze", ["attention_mask", g.held("axis 1", np.array([1]))], "/Unsqueeze")
    wider = g.node("Unsqueeze", [wide, g.held("axis 2", np.array([2]))], "/Unsqueeze_1")
    kept = g.node("Cast", [wider], "/Cast", to=FLOAT)
    hidden_keys = g.node("Sub", [g.held("one", np.float32(1.0)), kept], "/Sub")
    mask = g.node("Mul", [hidden_keys, g.held("lowest", np.float32(-10000.0))], "/Mul")
    for layer in range(layers):
        name = f"layer.{layer}"
        attended = _self_attention(g, state, mask, f"{name}/attention/self", hidden, heads)
        dense = g.linear(attended, f"{name}/attention/output/dense", hidden, hidden)
        state = _norm(g, g.node("Add", [dense, state], f"/{name}/attention/output/Add"), f"{name}/norm", hidden)
    g.nodes[-1].output[0] = "last_hidden_state"
    shape = ["batch_size", "sequence_length"]
    inputs = [value(name, shape, INT64) for name in ("input_ids", "attention_mask", "token_type_ids")]
    return g.model(inputs, [value("last_hidden_state", [*shape, hidden])])


def _norm(g: Graph, given: str, name: str, hidden: int) -> str:
    ones, zeros = np.ones(hidden, np.float32), np.zeros(hidden, np.float32)
    weights = [g.held(f"{name}.weight", ones), g.held(f"{name}.bias", zeros)]
    return g.node("LayerNormalization", [given, *weights], f"/{name}/LayerNormalization", axis=-1, epsilon=1e-5)


def _self_attention(g: Graph, state: str, mask: str, name: str, hidden: int, heads: int) -> str:
    shape = g.held(f"{name}/split", np.array([0, 0, heads, hidden // heads]))
    parts = {}
    for role, order in (("query", (0, 2, 1, 3)), ("key", (0, 2, 3, 1)), ("value", (0, 2, 1, 3))):
        split = g.node("Reshape", [g.linear(state, f"{name}/{role}", hidden, hidden), shape], f"/{name}/{role}/Reshape")
        parts[role] = g.node("Transpose", [split], f"/{name}/{role}/Transpose", perm=order)
    product = g.node("MatMul", [parts["query"], parts["key"]], f"/{name}/MatMul")
    root = g.held(f"{name}/root", np.float32(np.sqrt(hidden // heads)))
    masked = g.node("Add", [g.node("Div", [product, root], f"/{name}/Div"), mask], f"/{name}/Add")
    weights = g.node("Softmax", [masked], f"/{name}/Softmax", axis=-1)
    mixed = g.node("MatMul", [weights, parts["value"]], f"/{name}/MatMul_1")
    merged = g.node("Transpose", [mixed], f"/{name}/Transpose", perm=(0, 2, 1, 3))
    return g.node("Reshape", [merged, g.held(f"{name}/merge", np.array([0, 0, hidden]))], f"/{name}/Reshape")


def fused_bert(proto: onnx.ModelProto, multi_head: bool, heads: int = 4, hidden: int = 32) -> onnx.ModelProto:
    """A BERT whose attention ONNX Runtime's own fusions have made MultiHeadAttention, or Attention of packed weights.

    The steps of its optimiser for BERT that lead there; the whole of it infers shapes with a package that we lack.
    """
    from onnxruntime.transformers.fusion_skiplayernorm import FusionSkipLayerNormalization
    from onnxruntime.transformers.onnx_model_bert import BertOnnxModel

    model = BertOnnxModel(proto, heads, hidden)
    FusionSkipLayerNormalization(model, shape_infer=False).apply()
    model.attention_fusion.use_multi_head_attention = multi_head
    model.fuse_attention()
    model.prune_graph()
    model.topological_sort()
    fused: onnx.ModelProto = model.model
    return fused


def decoder(layers: int = 2, heads: int = 4, kv_heads: int = 2, dim: int = 16, window: int = -1) -> onnx.ModelProto:
    """Decoder layers as onnxruntime-genai builds them: rotary GroupQueryAttention, lengths from the attention mask."""
    g, hidden = Graph(), heads * dim
    total = g.node("ReduceSum", ["attention_mask", g.held("one", np.array([1]))], "/mask/ReduceSum", keepdims=0)
    before = g.node("Sub", [total, g.held("single", np.array([1]))], "/mask/Sub")
    seqlens = g.node("Cast", [before], "/mask/Sub/Cast", to=INT32)
    shape = g.node("Shape", ["attention_mask"], "/mask/Shape")
    length = g.node("Gather", [shape, g.held("second", np.array(1))], "/mask/Gather", axis=0)
    longest = g.node("Cast", [length], "/mask/Gather/Cast", to=INT32)
    angles = np.outer(np.arange(64), 1.0 / 10000 ** (np.arange(dim // 2) / (dim // 2)))
    caches = [g.held(name, it.astype(np.float32)) for name, it in (("cos", np.cos(angles)), ("sin", np.sin(angles)))]
    state = g.node("Gather", [g.weight("embed", 50, hidden), "input_ids"], "/model/embed_tokens/Gather")
    inputs = [value("input_ids", ["batch_size", "sequence_length"], INT64)]
    inputs += [value("attention_mask", ["batch_size", "total_sequence_length"], INT64)]
    outputs = []
    for layer in range(layers):
        name, pasts = f"model/layers.{layer}", [f"past_key_values.{layer}.{role}" for role in ("key", "value")]
        inputs += [value(past, ["batch_size", kv_heads, "past_sequence_length", dim]) for past in pasts]
        packed = g.linear(state, f"{name}/attn/qkv_proj", hidden, (heads + 2 * kv_heads) * dim)
        presents = [f"present.{layer}.{role}" for role in ("key", "value")]
        attributes: dict[str, Any] = {"local_window_size": window} if window > 0 else {}
        g.nodes.append(
            helper.make_node(
                "GroupQueryAttention",
                [packed, "", "", *pasts, seqlens, longest, *caches],
                [f"/{name}/attn/out", *presents],
                name=f"/{name}/attn/GroupQueryAttention",
                domain=MICROSOFT,
                num_heads=heads,
                kv_num_heads=kv_heads,
                do_rotary=1,
                scale=float(np.float32(1 / np.sqrt(dim))),
                **attributes,
            )
        )
        outputs += [value(it, ["batch_size", kv_heads, "total_sequence_length", dim]) for it in presents]
        state = g.node("Add", [state, f"/{name}/attn/out"], f"/{name}/Add")
    logits = g.node("MatMul", [state, g.weight("head", hidden, 50)], "/lm_head/MatMul")
    return g.model(inputs, [value(logits, None), *outputs])


def nested(taken: bool = True) -> onnx.ModelProto:
    """ai.onnx Attention 23 in a local function that is called twice, in both branches of an If, and in a Loop."""
    attend = helper.make_node("Attention", ["q", "k", "v"], ["y"], name="attend", is_causal=1)
    doubled = helper.make_node("Add", ["x", "x"], ["q"], name="double")
    same = [helper.make_node("Identity", ["x"], [name], name=name) for name in "kv"]
    layer = helper.make_function(
        "local", "Layer", ["x"], ["y"], [doubled, *same, attend], [helper.make_opsetid("", 23)]
    )
    shape = [2, 4, 6, 8]
    first = helper.make_node("Layer", ["x"], ["a"], name="layers.0", domain="local")
    second = helper.make_node("Layer", ["a"], ["b"], name="layers.1", domain="local")
    either = helper.make_node(
        "If", ["use_cache_branch"], ["c"], name="cached",
        then_branch=_branch("then", helper.make_node("Attention", ["b", "k1", "v1"], ["y"], name="with", scale=0.5)),
        else_branch=_branch("else", helper.make_node("Attention", ["b", "b", "b"], ["y"], name="without", scale=0.25)),
    )  # fmt: skip
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["go"]),
            helper.make_node("Attention", ["s", "s", "s"], ["t"], name="again"),
        ],
        "body",
        [value("i", [], INT64), value("going", [], BOOL), value("s", shape)],
        [value("go", [], BOOL), value("t", shape)],
    )
    loop = helper.make_node("Loop", ["trips", "", "c"], ["d"], name="loop", body=body)
    weights = [numpy_helper.from_array(np.array(2), "trips")]
    cond = numpy_helper.from_array(np.array(taken), "use_cache_branch")
    graph = helper.make_graph(
        [first, second, either, loop], "main", [value("x", shape)], [value("d", shape)], [*weights, cond]
    )
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, functions=[layer], opset_imports=imports, ir_version=11)


def _branch(name: str, attention: onnx.NodeProto) -> onnx.GraphProto:
    before = [helper.make_node("Identity", ["b"], [it]) for it in attention.input[1:] if it != "b"]
    return helper.make_graph([*before, attention], name, [], [value("y", None)])


def spelt_inside(taken: bool = True) -> onnx.ModelProto:
    """Attention in plain operators in a Loop, in both branches of an If and in a Scan; and by Einsum in the graph."""
    shape, keys = [1, 2, 3, 8], [1, 2, 5, 8]
    body = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["go"]), *_spelt("s", "t")],
        "body",
        [value("i", [], INT64), value("going", [], BOOL), value("s", shape)],
        [value("go", [], BOOL), value("t", shape)],
    )
    scanned = helper.make_graph(
        [*_spelt("u", "w"), helper.make_node("Identity", ["of"], ["out"])],
        "scanned",
        [value("u", shape), value("of", [1])],
        [value("w", shape), value("out", [1])],
    )
    branch = {
        f"{name}_branch": helper.make_graph(_spelt("q", "o"), name, [], [value("o", None)]) for name in ("then", "else")
    }
    swapped = [
        helper.make_node("Transpose", [it], [f"{it}_bshd"], name=f"{it}_bshd", perm=[0, 2, 1, 3]) for it in "qkv"
    ]
    nodes = [
        helper.make_node("Loop", ["trips", "", "q"], ["a"], name="loop", body=body),
        helper.make_node("If", ["use_cache_branch"], ["b"], name="cached", **branch),
        helper.make_node("Scan", ["q", "sequence"], ["c", "d"], name="scan", num_scan_inputs=1, body=scanned),
        *swapped,
        helper.make_node("Einsum", ["q_bshd", "k_bshd"], ["es"], name="by_letters", equation="bqhd,bkhd->bhqk"),
        helper.make_node("Softmax", ["es"], ["ep"], name="of_letters", axis=-1),
        helper.make_node("Einsum", ["ep", "v_bshd"], ["e"], name="behind_letters", equation="bhij, bjhc -> bihc"),
    ]
    inputs = [value("q", shape), value("k", keys), value("v", keys), value("sequence", [2, 1])]
    held = [numpy_helper.from_array(np.array(2), "trips"), numpy_helper.from_array(np.array(taken), "use_cache_branch")]
    graph = helper.make_graph(nodes, "main", inputs, [value(name, None) for name in "abce"], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _spelt(query: str, output: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Transpose", ["k"], ["kt"], name="turn", perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", [query, "kt"], ["scores"], name="product"),
        helper.make_node("Softmax", ["scores"], ["weights"], name="soft", axis=-1),
        helper.make_node("MatMul", ["weights", "v"], [output], name="mean"),
    ]


def external(proto: onnx.ModelProto, path: Path) -> None:
    """Save a model with its large weights in a file beside it."""
    onnx.save(proto, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=256)
