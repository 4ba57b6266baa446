"""The wrong kernels: each is what its words say, and differs from a right kernel wherever it is said to."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attncheck.compare.judge import errors
from attncheck.graph import read, write
from attncheck.oracle import attention
from attncheck.oracle.wrong.catalogue import CATALOGUE, relevant
from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.kernel import compute
from attncheck.oracle.wrong.masks import MASKS
from attncheck.oracle.wrong.recipe import Recipe
from attncheck.oracle.wrong.sinks import SINKS
from attncheck.problem import Arrays, Mask, Problem, Scores, ScoreStage
from attncheck.scenario.model import Scenario
from tests.drawing import scenario, scenarios

Float = NDArray[np.float64]

ELSEWHERE = {"mask-to-length", "mask-end-ignored", "softcap-after-bias", "packed-key-for-value"}
"""What tests/unit/test_wrong_masks.py shows."""
FEATURED = {wrong.name for wrong in (*SINKS, *MASKS)} | ELSEWHERE
EXTRAS = [wrong for wrong in CATALOGUE if wrong.name in FEATURED - ELSEWHERE]
BY_NAME = {wrong.name: wrong for wrong in CATALOGUE}

FEATURES: dict[str, dict[str, Any]] = {
    "prefill": {"q_len": (70,)},
    "prefill-grouped": {"q_len": (7,), "heads": 6, "kv_heads": 3},
    "decode": {"q_len": (1,), "past_len": (70,), "capacity": 80},
    "speculative": {"q_len": (4,), "past_len": (20,)},
    "ragged-decode": {"q_len": (1, 1, 1), "past_len": (3, 40, 17)},
    "ragged-prefill": {"q_len": (1, 7, 4)},
    "ragged-mask": {"op": "mha", "q_len": (5, 12, 9), "causal": False},
    "not-causal": {"op": "mha", "q_len": (9,), "causal": False},
    "window": {"q_len": (6,), "past_len": (20,), "window": 4},
    "softcap": {"q_len": (5,), "past_len": (9,), "softcap": 2.0},
    "own-scale": {"q_len": (9,), "scale": 0.6},
    "tail": {"q_len": (5,), "head_dim": 5},
    "ragged-rotary": {"q_len": (1, 7, 4), "rotary": "half"},
    "normalised": {"q_len": (4,), "past_len": (3,), "qk_norm": "epsilons", "rotary": "half"},
    "int8-cache": {"q_len": (4,), "past_len": (5,), "kv_cache": "int8"},
    "int4-cache": {"q_len": (4,), "past_len": (5,), "kv_cache": "int4", "kv_scales": "channel"},
    "evicting": {"q_len": (3,), "past_len": (19,), "window": 4, "capacity": 7, "window_cache": True, "rotary": "half"},
    "projection-bias": {"op": "mha", "q_len": (3,), "past_len": (4,), "qkv_bias": True},
    "decoder": {"op": "decoder-mha", "q_len": (1,), "past_len": (4,), "capacity": 6, "qkv_bias": True},
    "beams": {"op": "mha", "q_len": (1,) * 4, "past_len": (6,) * 4, "capacity": 8, "beams": 2},
    "packed": {"op": "mha", "q_len": (3,), "packed": "qkv"},
    "merged": {"op": "ms-attention", "q_len": (5,), "past_len": (4,), "qkv_bias": True},
    "sparse": {"op": "sparse", "q_len": (30,), "past_len": (39,), "sparse_layouts": 2},
    "paged": {"op": "paged", "dtype": "float16", "page": 4, "q_len": (5, 1, 3), "past_len": (0, 13, 6)},
    "half": {"q_len": (3,), "past_len": (7,), "rotary": "half", "head_dim": 32, "rotary_dim": 16},
    "interleaved": {"q_len": (3, 3), "past_len": (7, 2), "rotary": "interleaved"},
    "more-keys": {"op": "attention", "opset": 23, "q_len": (3,), "kv_len": (9,)},
    "callers-cache": {"op": "attention", "opset": 25, "q_len": (3, 3), "kv_len": (9, 5), "capacity": 12, "window": 3},
    "both-ways": {"op": "attention", "opset": 25, "q_len": (7,), "causal": False, "window": 3, "window_right": 2},
    "fewer-keys": {"op": "attention", "opset": 24, "q_len": (5,), "kv_len": (3,), "capacity": 8},
}
"""Cases that between them make every wrong kernel relevant."""


def built(it: Scenario) -> tuple[Problem, Arrays]:
    case = write.build(it)
    return read.problem(case.model, case.inputs), case.inputs


def apart(problem: Problem, inputs: Arrays, outputs: dict[str, Float]) -> float:
    """The largest difference from the oracle, infinite for a NaN."""
    answers = attention.answer(problem, inputs)
    found = [errors(outputs[each.output], each.values)[0][each.stated] for each in answers]
    return max(float(difference.max()) for difference in found)


def same(problem: Problem, inputs: Arrays, outputs: dict[str, Float], right: Problem) -> None:
    """`outputs` are what the oracle says of the problem `right`, where it states anything."""
    for each in attention.answer(right, inputs):
        np.testing.assert_allclose(outputs[each.output][each.stated], each.values[each.stated], rtol=0, atol=1e-12)


@given(it=scenarios(dtypes=("float32", "float16")))
@settings(deadline=None, max_examples=60)
def test_a_recipe_without_any_change_is_the_oracle(it: Scenario) -> None:
    problem, inputs = built(it)
    outputs = compute(Recipe(problem, inputs))
    for each in attention.answer(problem, inputs):
        got, expected = outputs[each.output][each.stated], each.values[each.stated]
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


def unlike_twins(it: Scenario) -> bool:
    """The MHA twin of a case with one KV head holds the same keys in every head: mixing heads up changes nothing."""
    return it.op == "gqa" or it.kv_heads > 1


@given(it=scenarios())
@settings(deadline=None, max_examples=15)
def test_a_relevant_wrong_kernel_differs_from_a_right_one(it: Scenario) -> None:
    assume(unlike_twins(it))
    it = replace(it, data="normal", scale=None)
    problem, inputs = built(it)
    for wrong in relevant(problem):
        assert apart(problem, inputs, wrong.outputs(problem, inputs)) > 1e-9, wrong.name


@given(it=scenarios())
@settings(deadline=None, max_examples=40)
def test_a_wrong_kernel_that_is_not_relevant_could_not_be_told(it: Scenario) -> None:
    """Masks and lengths are told exactly: where they are not relevant, a kernel that gets them wrong is right."""
    problem, inputs = built(it)
    exact = [wrong for wrong in CATALOGUE if wrong.name.startswith(("causal-", "window-", "past-", "new-ignored"))]
    for wrong in exact:
        if not wrong.relevant(problem):
            assert apart(problem, inputs, wrong.outputs(problem, inputs)) < 1e-9, wrong.name


def masked(stage: ScoreStage = "biased") -> tuple[Problem, Arrays]:
    """A ragged problem with a bias, a boolean mask, sinks and a score output, as another operator may give it."""
    problem, inputs = built(scenario(q_len=(5, 5), past_len=(6, 2), softcap=2.0))
    random = np.random.default_rng(11)
    bias = random.normal(size=(2, 4, 5, 11)).astype(np.float32)
    bias[1, 2, 3, :] = -np.inf
    kept = random.random((5, 11)) > 0.3
    masks = (Mask("bias", "additive", bias.shape, 11), Mask("kept", "boolean", kept.shape, 11))
    sink = random.normal(size=4).astype(np.float32)
    more = replace(problem, masks=masks, sink="sink", scores=Scores("scores", stage, 11))
    return more, {**inputs, "bias": bias, "kept": kept, "sink": sink}


@pytest.mark.parametrize("stage", ["raw", "capped", "biased", "weights"])
def test_a_recipe_follows_masks_sinks_and_score_outputs(stage: ScoreStage) -> None:
    problem, inputs = masked(stage)
    for asked in (problem, replace(problem, sink=None, smooth=True), replace(problem, sink=None, empty_row="mean")):
        same(asked, inputs, compute(Recipe(asked, inputs)), asked)


@pytest.mark.parametrize("wrong", EXTRAS, ids=lambda wrong: wrong.name)
def test_a_wrong_kernel_of_masks_and_sinks_shows(wrong: Wrong) -> None:
    problem, inputs = masked()
    assert wrong.relevant(problem)
    assert apart(problem, inputs, wrong.outputs(problem, inputs)) > 1e-3
    assert not wrong.relevant(built(scenario())[0])


def test_a_sink_counted_twice_is_one_larger_by_the_logarithm_of_2() -> None:
    problem, inputs = masked()
    doubled = {**inputs, "sink": inputs["sink"].astype(np.float64) + math.log(2.0)}
    got = BY_NAME["sink-twice"].outputs(problem, inputs)[problem.output.name]
    (expected, *_) = attention.answer(problem, doubled)
    np.testing.assert_allclose(got, expected.values, rtol=0, atol=1e-12)


def test_an_ignored_mask_and_sink_are_the_right_result_without_them() -> None:
    problem, inputs = masked()
    problem = replace(problem, scores=None)
    same(problem, inputs, BY_NAME["mask-ignored"].outputs(problem, inputs), replace(problem, masks=()))
    same(problem, inputs, BY_NAME["sink-ignored"].outputs(problem, inputs), replace(problem, sink=None))


@pytest.mark.parametrize("wrong", [it for it in CATALOGUE if it.name not in FEATURED], ids=lambda wrong: wrong.name)
def test_every_wrong_kernel_is_relevant_to_some_usual_case_and_shows_there(wrong: Wrong) -> None:
    shown = []
    for name, axes in FEATURES.items():
        problem, inputs = built(scenario(**axes))
        if wrong.relevant(problem):
            shown.append((name, apart(problem, inputs, wrong.outputs(problem, inputs))))
    assert shown, "relevant nowhere"
    assert all(difference > 1e-6 for _, difference in shown), shown


def test_names_are_addresses_and_words_follow_the_result_with() -> None:
    assert len(BY_NAME) == len(CATALOGUE)
    assert len({wrong.words for wrong in CATALOGUE}) == len(CATALOGUE)
    for wrong in CATALOGUE:
        assert wrong.name == wrong.name.lower().replace(" ", "-").replace("_", "-")
        assert wrong.words == wrong.words.strip(" .")


ASKED_OTHERWISE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("softcap-ignored", {"softcap": 2.0}, {"softcap": 0.0}),
    ("window-ignored", {"window": 4}, {"window": None}),
    ("window-one-long", {"window": 4}, {"window": 5}),
    ("window-one-short", {"window": 4}, {"window": 3}),
    ("scale-missing", {"scale": 0.3}, {"scale": 1.0}),
    ("scale-twice", {"scale": 0.5}, {"scale": 0.25}),
    ("scale-default", {"scale": 0.5}, {"scale": None}),
    ("causal-ignored", {"op": "mha"}, {"op": "mha", "causal": False}),
    ("causal-forced", {"op": "mha", "causal": False}, {"op": "mha"}),
    ("rotary-ignored", {"rotary": "half"}, {}),
    ("rotary-interleaved-for-half", {"rotary": "half"}, {"rotary": "interleaved"}),
    ("rotary-half-for-interleaved", {"rotary": "interleaved"}, {"rotary": "half"}),
]


@pytest.mark.parametrize(("name", "asked", "given_instead"), ASKED_OTHERWISE)
def test_a_feature_taken_otherwise_is_the_right_result_of_another_case(
    name: str, asked: dict[str, Any], given_instead: dict[str, Any]
) -> None:
    size: dict[str, Any] = {"q_len": (5,), "past_len": (11,)}
    problem, inputs = built(scenario(**size | asked))
    other, _ = built(scenario(**size | given_instead))
    same(problem, inputs, BY_NAME[name].outputs(problem, inputs), other)


def by_hand(problem: Problem, inputs: Arrays, sees: Any, kv_head: Any = None) -> Float:
    """The output [rows, heads, dim] of a Problem of one entry without a past, one loop after the other."""
    q, k, v = (
        inputs[tensor.name][0].astype(np.float64).reshape(problem.rows, -1, problem.head_dim)
        for tensor in (problem.query, problem.key, problem.value)
    )
    output = np.zeros((problem.rows, problem.heads, problem.head_dim))
    for row in range(problem.rows):
        for head in range(problem.heads):
            source = head // problem.group if kv_head is None else kv_head(head)
            keys = [key for key in range(problem.rows) if sees(row, key)]
            weights = [math.exp(problem.scale * float(q[row, head] @ k[key, source])) for key in keys]
            for weight, key in zip(weights, keys, strict=True):
                output[row, head] += weight / sum(weights) * v[key, source]
    return output.reshape(1, problem.rows, -1)


HANDMADE: list[tuple[str, Any, Any]] = [
    ("causal-ignored", lambda _row, _key: True, None),
    ("causal-one-ahead", lambda row, key: key <= row + 1, None),
    ("causal-one-behind", lambda row, key: key < row, None),
    ("first-key-dropped", lambda row, key: 0 < key <= row, None),
    ("last-key-dropped", lambda row, key: key <= row and key < 6, None),
    ("kv-heads-tiled", lambda row, key: key <= row, lambda head: head % 3),
    ("kv-head-0-for-all", lambda row, key: key <= row, lambda _head: 0),
    ("uniform-weights", None, None),
]


@pytest.mark.parametrize(("name", "sees", "kv_head"), HANDMADE)
def test_what_a_wrong_kernel_sees_and_reads_agrees_with_a_loop_by_hand(name: str, sees: Any, kv_head: Any) -> None:
    problem, inputs = built(scenario(q_len=(7,), heads=6, kv_heads=3))
    asked = problem
    if sees is None:
        asked, sees = replace(problem, scale=0.0), lambda row, key: key <= row
    expected = by_hand(asked, inputs, sees, kv_head)
    got = BY_NAME[name].outputs(problem, inputs)[problem.output.name]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def test_a_triangle_at_the_top_left_shows_query_i_of_a_chunk_its_first_i_keys() -> None:
    problem, inputs = built(scenario(q_len=(3,), past_len=(10,)))
    shifted = problem.visible.copy()
    shifted[0, :, 1] = [1, 2, 3]
    same(
        problem, inputs, BY_NAME["causal-top-left"].outputs(problem, inputs), replace(problem, visible=shifted)
    )  # fmt: skip


def online_by_hand(scores: list[float], values: list[float], block: int, sums: bool, totals: bool) -> float:
    """One row of an online softmax, rescaling its running sum and total only when told to."""
    top, total, weighted = -math.inf, 0.0, 0.0
    for start in range(0, len(scores), block):
        part = scores[start : start + block]
        new = max(top, *part)
        shrink = math.exp(top - new)
        total = total * (shrink if totals else 1.0 if start else 0.0) + sum(math.exp(s - new) for s in part)
        weighted = weighted * (shrink if sums else 1.0 if start else 0.0) + sum(
            math.exp(s - new) * v for s, v in zip(part, values[start : start + block], strict=True)
        )
        top = new
    return weighted / total


@pytest.mark.parametrize("block", [1, 32])
@pytest.mark.parametrize(
    ("name", "sums", "totals"),
    [("maximum", False, False), ("sums", False, True), ("total", True, False)],
)
def test_a_running_maximum_that_is_not_rescaled_agrees_with_a_loop_by_hand(
    name: str, sums: bool, totals: bool, block: int
) -> None:
    problem, inputs = built(scenario(q_len=(70,), data="rising-scores", heads=1, kv_heads=1, head_dim=4))
    wrong = BY_NAME[f"{name}-not-rescaled-by-{'key' if block == 1 else block}"]
    q, k, v = (inputs[tensor.name][0].astype(np.float64) for tensor in (problem.query, problem.key, problem.value))
    expected = online_by_hand(list(problem.scale * (k @ q[69])), list(v[:, 2]), block, sums, totals)
    got = wrong.outputs(problem, inputs)[problem.output.name][0, 69, 2]
    assert got == pytest.approx(expected, rel=1e-9)


def one_query_over_equal_keys(keys: int) -> tuple[Problem, dict[str, Any]]:
    """Every score is 0, and V is the unit matrix: the output is the weights."""
    problem, inputs = built(scenario(q_len=(keys,), heads=1, kv_heads=1, head_dim=16))
    zeros: dict[str, Any] = {tensor.name: np.zeros((1, keys, 16)) for tensor in (problem.query, problem.key)}
    return problem, {**inputs, **zeros, problem.value.name: np.eye(keys, 16)[None]}


def test_short_blocks_count_empty_places_in_the_denominator() -> None:
    """5 keys, 4 loaded and 8 scored: the fifth is counted once as an empty place, and once for itself: 1/6 each."""
    problem, inputs = one_query_over_equal_keys(5)
    weights = BY_NAME["blocks-of-4-scored-as-8"].outputs(problem, inputs)[problem.output.name][0, 4]
    np.testing.assert_allclose(weights[:5], np.full(5, 1 / 6))


def test_short_blocks_without_a_reset_add_the_weights_of_the_block_before() -> None:
    """The first block's weights are 1/5; the fifth key's score begins there, and is the maximum of what follows."""
    problem, inputs = one_query_over_equal_keys(5)
    weights = BY_NAME["blocks-of-4-scored-as-8-kept"].outputs(problem, inputs)[problem.output.name][0, 4]
    left = 5 * math.exp(-0.2)
    np.testing.assert_allclose(weights[:4], np.full(4, left / (left + 1) / 5))
    assert weights[4] == pytest.approx(1 / (left + 1))


def test_skipped_keys_have_no_weight() -> None:
    problem, inputs = one_query_over_equal_keys(16)
    weights = BY_NAME["keys-4-to-7-of-8-skipped"].outputs(problem, inputs)[problem.output.name][0, 15]
    np.testing.assert_allclose(weights, np.tile([1 / 8] * 4 + [0] * 4, 2))


@pytest.mark.parametrize(
    ("name", "axes", "entry"),
    [
        ("one-key-more", {"q_len": (1,), "past_len": (20,), "capacity": 30}, 0),
        ("longest-length", {"q_len": (1, 1), "past_len": (3, 40)}, 0),
        ("length-of-entry-0", {"q_len": (1, 1), "past_len": (40, 3)}, 1),
        ("rotary-position-one-on", {"q_len": (3,), "past_len": (5,), "rotary": "half"}, 0),
    ],
)
def test_a_slot_that_nobody_filled_is_read_as_nan(name: str, axes: dict[str, Any], entry: int) -> None:
    problem, inputs = built(scenario(**axes))
    output = BY_NAME[name].outputs(problem, inputs)[problem.output.name]
    assert np.isnan(output[entry, -1]).all()


def test_the_longest_length_appends_a_shorter_entrys_new_key_behind_the_longest_past() -> None:
    problem, inputs = built(scenario(q_len=(1, 1), past_len=(3, 40)))
    assert problem.present_key is not None
    present = BY_NAME["longest-length"].outputs(problem, inputs)[problem.present_key.name]
    key = inputs[problem.key.name].reshape(2, 2, 16)
    np.testing.assert_array_equal(present[:, :, 40], key)
    assert np.isnan(present[0, :, 3]).all()


@given(data=st.data())
@settings(deadline=None, max_examples=25)
def test_a_part_of_the_rows_is_computed_as_in_the_whole(data: st.DataObject) -> None:
    it = data.draw(scenarios())
    problem, inputs = built(it)
    member = data.draw(st.integers(0, it.batch - 1))
    row = data.draw(st.integers(0, problem.rows - 1))
    whole = Recipe(problem, inputs)
    part = replace(whole, parts=((slice(member, member + 1), slice(row, row + 1)),))
    name = problem.output.name
    np.testing.assert_allclose(compute(part)[name][member, row], compute(whole)[name][member, row], atol=1e-12)
