"""Scenarios for tests: one by hand, or drawn by hypothesis within what the language allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from attncheck.scenario.axes import SHIFT
from attncheck.scenario.model import Scenario, Source
from attncheck.scenario.steps import after

KINDS = ("normal", "uniform", "one-hot", "constant", "large-logits", "rising-scores", "huge-logit", "ties")


def scenario(**axes: Any) -> Scenario:
    """A small GQA prefill, with `axes` in place of its own; q_len and past_len as tuples, batch from their length.

    With a kv_len it is cross attention; v_head_dim None is head_dim.
    """
    given: dict[str, Any] = {
        "id": "drawn",
        "source": Source("drawn", 1),
        "op": "gqa",
        "dtype": "float32",
        "q_len": (4,),
        "heads": 4,
        "kv_heads": 2,
        "head_dim": 16,
    } | axes
    given["batch"] = len(given["q_len"])
    if given["op"] == "ms-attention":
        given.setdefault("input_dim", given["heads"] * given["head_dim"])
    given.setdefault("past_len", (0,) * given["batch"])
    given["cross"] = "kv_len" in given
    given.setdefault("kv_len", after(given["past_len"], given["q_len"]))
    if given.get("v_head_dim") is None:
        given["v_head_dim"] = given["head_dim"]
    if given.get("rotary"):
        given.setdefault("rotary_dim", given["head_dim"])
        given.setdefault("rotary_cache", max(given["kv_len"]))
    return Scenario(**given)


@st.composite
def lengths(draw: st.DrawFn) -> dict[str, tuple[int, ...]]:
    """q_len and past_len over a batch: one prompt, a ragged prompt, or a ragged past with equal new rows."""
    batch = draw(st.integers(1, 4))
    size = st.integers(1, 40)
    if draw(st.booleans()):
        return {"q_len": tuple(draw(size) for _ in range(batch)), "past_len": (0,) * batch}
    return {
        "q_len": (draw(st.integers(1, 9)),) * batch,
        "past_len": tuple(draw(st.integers(0, 70)) for _ in range(batch)),
    }


@st.composite
def scenarios(draw: st.DrawFn, op: str | None = None, dtypes: tuple[str, ...] = ("float32",)) -> Scenario:
    """Any scenario of small size."""
    op = draw(st.sampled_from(("gqa", "mha"))) if op is None else op
    kv_heads = draw(st.integers(1, 3))
    axes: dict[str, Any] = draw(lengths()) | {
        "op": op,
        "dtype": draw(st.sampled_from(dtypes)),
        "kv_heads": kv_heads,
        "heads": kv_heads * draw(st.integers(1, 3)),
        "head_dim": draw(st.sampled_from((4, 5, 8, 12, 16, 24, 32, 40, 64, 80, 128))),
        "scale": draw(st.sampled_from((None, 0.25, 1.0))),
        "data": draw(st.sampled_from(KINDS)),
        "seed": draw(st.integers(0, 5)),
    }
    kv_len = max(q + past for q, past in zip(axes["q_len"], axes["past_len"], strict=True))
    axes["capacity"] = draw(st.one_of(st.none(), st.integers(kv_len, kv_len + 20)))
    if op == "mha":
        return scenario(**axes, causal=draw(st.booleans()))
    axes["window"] = draw(st.one_of(st.none(), st.integers(1, kv_len + 1)))
    axes["softcap"] = draw(st.sampled_from((0.0, 2.0, 50.0)))
    axes["rotary"] = draw(st.sampled_from((None, "half", "interleaved")))
    if axes["rotary"]:
        axes["rotary_dim"] = 2 * draw(st.integers(1, axes["head_dim"] // 2))
    return scenario(**axes)


BIASES = (None, "BxNxSxT", "1xNxSxT", "Bx1xSxT", "1x1xSxT")


@st.composite
def features(draw: st.DrawFn, shapes: tuple[str | None, ...] = BIASES) -> dict[str, Any]:
    """A bias of some shape, with holes that it has room for."""
    shape = draw(st.sampled_from(shapes))
    if shape is None:
        return {}
    room = {"keys": "T", "first-row": "S", "middle-row": "S", "last-row": "S", "entry": "B"}
    holes = ["none", *(holes for holes, letter in room.items() if letter in shape)]
    return {"bias": shape, "holes": draw(st.sampled_from(holes))}


@st.composite
def attention_scenarios(draw: st.DrawFn, dtypes: tuple[str, ...] = ("float32",)) -> Scenario:
    """Any small scenario of ai.onnx Attention, at opset 25, which has everything."""
    batch, kv_heads, q_len = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 9))
    size = st.integers(0, 20)
    axes: dict[str, Any] = {
        "op": "attention",
        "opset": 25,
        "dtype": draw(st.sampled_from(dtypes)),
        "layout": draw(st.sampled_from(("bsnh", "bnsh"))),
        "q_len": (q_len,) * batch,
        "kv_heads": kv_heads,
        "heads": kv_heads * draw(st.integers(1, 3)),
        "head_dim": draw(st.sampled_from((4, 5, 8, 16))),
        "v_head_dim": draw(st.sampled_from((None, 4, 12))),
        "scale": draw(st.sampled_from((None, 0.25))),
        "softcap": draw(st.sampled_from((0.0, 2.0))),
        "causal": draw(st.booleans()),
        "window": draw(st.one_of(st.none(), st.integers(1, 12))),
        "window_right": draw(st.one_of(st.none(), st.integers(0, 12))),
        "scores": draw(st.sampled_from((None, "raw", "capped", "biased", "weights"))),
        "present": draw(st.booleans()),
    }
    match draw(st.sampled_from(("past", "cross", "cache", "own cache"))):
        case "past":
            axes["past_len"] = (draw(size),) * batch
        case "cross":
            axes["kv_len"] = (draw(size) + 1,) * batch
        case "cache":
            axes["past_len"] = tuple(draw(size) for _ in range(batch))
            axes["capacity"] = q_len + max(axes["past_len"]) + draw(st.integers(0, 5))
        case "own cache":
            axes["kv_len"] = tuple(draw(size) for _ in range(batch))
            axes["capacity"] = max(axes["kv_len"]) + draw(st.integers(1, 5))
    chosen = draw(features((*BIASES, "NxSxT", "1x1xT", "SxT", "1xT", "Sx1", "Bx1x1xT")))
    boolean: bool = draw(st.booleans())
    if "T" in chosen.get("bias", ""):
        lengths = axes.get("kv_len", tuple(q_len + past for past in axes.get("past_len", (0,) * batch)))
        least = max(lengths) if "capacity" in axes else 1
        most = axes.get("capacity", max(lengths))
        chosen["mask_len"] = draw(st.one_of(st.none(), st.integers(max(1, least), most)))
    if chosen and boolean:
        chosen["mask"] = chosen.pop("bias")
    return scenario(**axes, **chosen)


@st.composite
def featured_scenarios(draw: st.DrawFn) -> Scenario:
    """Any small scenario of a com.microsoft operator with what its text has beside lengths, window and softcap.

    A present that is not asked for is drawn only without a past, and rows without a key are not drawn: ONNX Runtime's
    CPU kernels are wrong there, or no text says what is right (docs/semantics.md).
    """
    op = draw(st.sampled_from(("gqa", "mha")))
    kv_heads = draw(st.integers(1, 3))
    axes: dict[str, Any] = draw(lengths()) | {
        "op": op,
        "kv_heads": kv_heads,
        "heads": kv_heads * draw(st.integers(1, 3)),
        "head_dim": draw(st.sampled_from((8, 16, 32))),
        "causal": draw(st.booleans()),
        "bias": draw(st.sampled_from(BIASES)),
    }
    prompt = max(axes["past_len"]) == 0
    axes["past"] = draw(st.sampled_from(("auto", "empty") if prompt else ("auto",)))
    axes["present"] = draw(st.booleans()) if prompt else True
    plain = len(set(axes["q_len"])) == len(set(axes["past_len"])) == 1
    if op == "mha":
        axes["v_head_dim"] = draw(st.sampled_from((None, 4, 24) if prompt and axes["past"] == "auto" else (None,)))
        if plain:
            axes["mask"] = draw(st.sampled_from((None, "BxT", "BxSxT")))
        if plain and (axes.get("mask") or axes["bias"]):
            axes["holes"] = draw(st.sampled_from(("none", "keys")))
        axes["qkv_bias"] = draw(st.booleans())
        if axes["v_head_dim"] is None:
            axes["packed"] = draw(st.sampled_from(("none", "none", "qkv", "kv")))
        axes["scores"] = draw(st.sampled_from((None, "biased")))
        return scenario(**axes)
    axes["sink"] = draw(st.booleans())
    axes["smooth"] = not axes["sink"] and draw(st.booleans())
    axes["packed"] = draw(st.sampled_from(("none", "qkv")))
    axes["scores"] = draw(st.sampled_from((None, "biased", "weights")))
    axes["softcap"] = draw(st.sampled_from((0.0, 2.0)))
    if axes["causal"] and not prompt:
        batch = len(axes["q_len"])
        axes["query_seqlens"] = draw(st.booleans())
        if axes["query_seqlens"]:
            axes["q_len"] = tuple(draw(st.integers(1, 9)) for _ in range(batch))
    if axes["causal"]:
        axes["window"] = draw(st.sampled_from((None, 3)))
    if axes["head_dim"] % 16 == 0 and draw(st.booleans()):
        axes["rotary"] = draw(st.sampled_from(("half", "interleaved")))
        axes["positions"] = draw(st.sampled_from(("implicit", "explicit", "shifted")))
        axes["rotary_cache"] = 90 + SHIFT
    if axes["bias"]:
        axes["holes"] = draw(st.sampled_from(("none", "keys")))
    return scenario(**axes)


@st.composite
def rotary_scenarios(draw: st.DrawFn, dtypes: tuple[str, ...] = ("float32",)) -> Scenario:
    """Any small scenario of rotary embedding alone that a backend has to compute."""
    op = draw(st.sampled_from(("rotary", "ms-rotary")))
    packed = op == "ms-rotary" and draw(st.booleans())
    batch, size = draw(st.integers(1, 3)), st.integers(1, 9)
    head_dim = 2 * draw(st.integers(1, 20))
    positions = draw(st.sampled_from(("implicit", "explicit", "shifted", "scattered")))
    if packed and positions == "implicit":
        positions = "explicit"
    q_len = tuple(draw(size) for _ in range(batch)) if packed else (draw(size),) * batch
    counted = op == "ms-rotary" and positions == "implicit"
    past_len = (draw(size),) * batch if counted else tuple(draw(st.integers(0, 20)) for _ in range(batch))
    return scenario(
        op=op,
        dtype=draw(st.sampled_from(dtypes)),
        layout=draw(st.sampled_from(("bsnh", "bnsh"))),
        q_len=q_len,
        past_len=past_len,
        heads=draw(st.integers(1, 3)),
        head_dim=head_dim,
        rotary=draw(st.sampled_from(("half", "interleaved"))),
        rotary_dim=2 * draw(st.integers(1, head_dim // 2)),
        rotary_cache=40,
        positions=positions,
        packed_batch=packed,
        seed=draw(st.integers(0, 5)),
    )


@st.composite
def projected_scenarios(draw: st.DrawFn, dtypes: tuple[str, ...] = ("float32",)) -> Scenario:
    """Any small scenario of com.microsoft Attention that ONNX Runtime's CPU takes."""
    kv_heads = draw(st.integers(1, 3))
    axes: dict[str, Any] = draw(lengths()) | {
        "op": "ms-attention",
        "dtype": draw(st.sampled_from(dtypes)),
        "kv_heads": kv_heads,
        "heads": kv_heads * draw(st.integers(1, 3)),
        "head_dim": draw(st.sampled_from((4, 5, 8, 16))),
        "input_dim": draw(st.sampled_from((1, 7, 32))),
        "causal": draw(st.booleans()),
        "scale": draw(st.sampled_from((None, 0.25))),
        "qkv_bias": draw(st.booleans()),
        "data": draw(st.sampled_from(("normal", "uniform", "one-hot"))),
        "seed": draw(st.integers(0, 5)),
    }
    if max(axes["past_len"]) == 0:
        axes["past"] = draw(st.sampled_from(("auto", "empty")))
        axes["bias"] = draw(st.sampled_from(BIASES)) if axes["past"] == "auto" else None
        axes["v_head_dim"] = draw(st.sampled_from((None, 4, 24))) if axes["past"] == "auto" else None
    if len(set(axes["q_len"])) == len(set(axes["past_len"])) == 1:
        axes["mask"] = draw(st.sampled_from((None, "BxT", "BxSxT")))
        axes["holes"] = "keys" if axes["mask"] and draw(st.booleans()) else "none"
    return scenario(**axes)
