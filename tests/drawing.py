"""Scenarios for tests: one by hand, or drawn by hypothesis within what the language allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from attncheck.scenario.model import Scenario, Source

KINDS = ("normal", "uniform", "one-hot", "constant", "large-logits", "rising-scores", "huge-logit", "ties")


def scenario(**axes: Any) -> Scenario:
    """A small GQA prefill, with `axes` in place of its own; q_len and past_len as tuples, batch from their length."""
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
    given.setdefault("past_len", (0,) * given["batch"])
    if given.get("rotary"):
        kv_len = max(q + past for q, past in zip(given["q_len"], given["past_len"], strict=True))
        given.setdefault("rotary_dim", given["head_dim"])
        given.setdefault("rotary_cache", kv_len)
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
    if op == "mha":
        return scenario(**axes, causal=draw(st.booleans()))
    kv_len = max(q + past for q, past in zip(axes["q_len"], axes["past_len"], strict=True))
    axes["capacity"] = draw(st.one_of(st.none(), st.integers(kv_len, kv_len + 20)))
    axes["window"] = draw(st.one_of(st.none(), st.integers(1, kv_len + 1)))
    axes["softcap"] = draw(st.sampled_from((0.0, 2.0, 50.0)))
    axes["rotary"] = draw(st.sampled_from((None, "half", "interleaved")))
    if axes["rotary"]:
        axes["rotary_dim"] = 2 * draw(st.integers(1, axes["head_dim"] // 2))
    return scenario(**axes)
