"""PagedAttention: its layouts by hand, the oracle by a plain loop and by GroupQueryAttention, and what stays alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from attncheck.compare import judge
from attncheck.graph import given, read, write
from attncheck.oracle.attention import answer
from attncheck.oracle.wrong import pages
from attncheck.problem import Problem, Scattered, Tensor, joined, role_heads
from attncheck.reports import describe
from attncheck.scenario import from_command_line
from attncheck.tensors.dtypes import narrow
from attncheck.vocabulary import Verdict
from tests.device import KERNELS, differences, failing, has_f16, work
from tests.unit.test_callable import events, results

Arrays = dict[str, NDArray[Any]]

HEADS, KV_HEADS, DIM, PAGE = 4, 2, 16, 4
LENGTHS = "q_len=5+1+0+3 past_len=0+21+7+16 heads=4 kv_heads=2"
RAGGED = f"op=paged page={PAGE} {LENGTHS}"


def fed(text: str) -> tuple[Problem, Arrays]:
    case = write.build(from_command_line(text))
    problem = read.problem(case.model, case.inputs)
    assert given.outputs(problem) == case.outputs
    return problem, dict(case.inputs)


def test_rows_lie_where_their_places_say_and_are_nan_where_they_lie_nowhere() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensor = Tensor("it", "scattered", scattered=Scattered((3, 4), np.array([[2, 0], [1, -1]], np.int32)))
    rows = role_heads(array, tensor, 2)
    assert rows[0, :, 0].tolist() == [[8, 9], [10, 11]]
    assert rows[0, :, 1].tolist() == [[0, 1], [2, 3]]
    assert np.isnan(rows[1, :, 1].astype(np.float64)).all()
    np.testing.assert_array_equal(joined(rows, tensor), array)


def test_tokens_are_those_of_a_padded_call_without_its_padding() -> None:
    """The example of the operator's text: lengths 1, 2 and 4 become the tokens 0, 4, 5, 8, 9, 10 and 11."""
    _, padded = fed("op=gqa dtype=float16 q_len=1+2+4 heads=4 kv_heads=2")
    _, packed = fed("op=paged q_len=1+2+4 heads=4 kv_heads=2")
    assert packed["cumulative_sequence_length"].tolist() == [0, 1, 3, 7]
    for name in ("query", "key", "value"):
        flat = padded[name].reshape(12, -1)
        np.testing.assert_array_equal(packed[name], flat[[0, 4, 5, 8, 9, 10, 11]])


def test_the_pages_of_a_sequence_are_its_own_and_in_no_order() -> None:
    _, inputs = fed(f"{RAGGED} capacity=40")
    table = inputs["block_table"]
    assert table.shape == (4, 10)
    assert (table >= 0).sum(axis=1).tolist() == [2, 6, 2, 5]
    used = table[table >= 0]
    assert len(set(used.tolist())) == len(used)
    assert inputs["key_cache"].shape[0] == len(used) + 2
    assert (np.diff(used) < 0).any()


@pytest.mark.parametrize("features", ["", "window=6", "causal=false", "causal=false window=3"])
def test_the_oracle_is_attention_over_what_the_block_table_deals_out(features: str) -> None:
    problem, inputs = fed(f"{RAGGED} {features}")
    output, *presents = answer(problem, inputs)
    starts, pasts = inputs["cumulative_sequence_length"], inputs["past_seqlens"]
    caches = {name: inputs[f"{name}_cache"].astype(np.float64) for name in ("key", "value")}
    for entry, past in enumerate(pasts):
        for token in range(starts[entry], starts[entry + 1]):
            slot = past + token - starts[entry]
            page = inputs["block_table"][entry, slot // PAGE]
            for name, cache in caches.items():
                cache[page, slot % PAGE] = inputs[name][token].astype(np.float64).reshape(KV_HEADS, DIM)
    for present, cache in zip(presents, caches.values(), strict=True):
        assert present.stated.mean() > 0.5
        np.testing.assert_array_equal(present.values, cache)
    for entry, past in enumerate(pasts):
        count = starts[entry + 1] - starts[entry]
        for row, head in np.ndindex(count, HEADS):
            own = past + row
            last = own + 1 if "causal" not in features else past + count
            first = max(0, own + 1 - int(features.split("window=")[1])) if "window" in features else 0
            at = [(inputs["block_table"][entry, slot // PAGE], slot % PAGE) for slot in range(first, last)]
            keys, values = (np.array([cache[page, r, head // 2] for page, r in at]) for cache in caches.values())
            query = inputs["query"][starts[entry] + row].astype(np.float64).reshape(HEADS, DIM)[head]
            weights = np.exp(keys @ query / 4.0)
            expected = weights @ values / weights.sum()
            found = output.values[starts[entry] + row].reshape(HEADS, DIM)[head]
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "features",
    ["rotary=half", "rotary=interleaved rotary_dim=8", "softcap=2", "sink=true", "qk_norm=epsilon", "scale=0.7"],
)
@pytest.mark.parametrize("packed", ["none", "qkv"])
def test_every_feature_is_that_of_group_query_attention(features: str, packed: str) -> None:
    problem, inputs = fed(f"{RAGGED} {features} packed={packed}")
    (output, *_) = answer(problem, inputs)
    padded, others = fed(f"op=gqa dtype=float16 query_seqlens=true {LENGTHS} {features}")
    (expected, *_) = answer(padded, others)
    real = np.arange(5) < np.array([5, 1, 0, 3])[:, None]
    np.testing.assert_allclose(output.values, expected.values[real], rtol=1e-12)
    assert (output.compute > 0).all()
    np.testing.assert_allclose(output.compute, expected.compute[real], rtol=1e-6)


def test_a_page_of_another_sequence_that_is_touched_is_a_mismatch_and_told_as_a_page() -> None:
    problem, inputs = fed(RAGGED)
    answers = answer(problem, inputs)
    outputs = {each.output: narrow(each.values, "float16") for each in answers}
    assert all(it.passed for it in judge.differences(problem, answers, outputs, "f32", "it"))
    foreign = min(set(range(len(inputs["key_cache"]))) - set(inputs["block_table"].ravel().tolist()))
    outputs["key_cache_out"][foreign, 3, 1, 5] += 1.0
    (found,) = [it for it in judge.differences(problem, answers, outputs, "f32", "it") if not it.passed]
    assert found.failing == 1
    assert describe.place(found.place, found.role) == f"present_key[page {foreign}, head 1, row 3, dim 5]"


def test_what_nobody_wrote_to_be_kept_is_not_stated() -> None:
    problem, inputs = fed(RAGGED)
    _, present, _ = answer(problem, inputs)
    unread = np.isnan(inputs["key_cache"].astype(np.float64))
    held = sum(problem.kv_len) * KV_HEADS * DIM
    assert np.count_nonzero(present.stated) == held + 2 * PAGE * KV_HEADS * DIM
    assert not (present.stated & unread & np.isnan(present.values)).any()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("cumulative_sequence_length", [0, 5, 6, 6, 8], "does not lead from 0 to the 9 tokens"),
        ("cumulative_sequence_length", [0, 5, 4, 6, 9], "does not lead from 0 to the 9 tokens"),
        ("past_seqlens", [0, 21, 7, 30], "more keys than 6 blocks of 4 hold"),
    ],
)
def test_what_the_text_forbids_has_no_answer(name: str, value: list[int], said: str) -> None:
    case = write.build(from_command_line(RAGGED))
    assert said in read.problem(case.model, {**case.inputs, name: np.array(value, np.int32)}).invalid


def with_input(text: str, index: int, array: NDArray[Any] | None = None, **attributes: Any) -> tuple[bytes, Arrays]:
    """The model of a paged case with an array at input `index`, "more", and other attributes; and its arrays."""
    case = write.build(from_command_line(text))
    model = onnx.load_model_from_string(case.model)
    (node,) = model.graph.node
    node.attribute.extend(onnx.helper.make_attribute(name, value) for name, value in attributes.items())
    if array is None:
        return model.SerializeToString(), dict(case.inputs)
    node.input.extend([""] * (index + 1 - len(node.input)))
    node.input[index] = "more"
    return model.SerializeToString(), {**case.inputs, "more": array}


CHUNKS = "op=paged page=4 q_len=3+0+5 past_len=6+4+9"


def test_a_slot_mapping_says_where_the_table_puts_new_tokens() -> None:
    case = write.build(from_command_line(f"{CHUNKS} slot_mapping=true"))
    table, said = case.inputs["block_table"], case.inputs["slot_mapping"]
    places = [(0, slot) for slot in (6, 7, 8)] + [(2, slot) for slot in (9, 10, 11, 12, 13)]
    assert said.tolist() == [table[entry, slot // 4] * 4 + slot % 4 for entry, slot in places]
    plain, _ = fed(CHUNKS)
    found = read.problem(case.model, case.inputs)
    assert (found.past_len, found.invalid) == (plain.past_len, "")
    moved = {**case.inputs, "slot_mapping": np.where(np.arange(8) == 3, -1, said)}
    with pytest.raises(read.Unreadable, match=r"stores token 3 in slot -1 .* reads its key from slot \d+, and no text"):
        read.problem(case.model, moved)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ([0, 0], ""),
        ([5, 14], ""),
        ([99, 99, 1], ""),
        ([4, 14], "attention_metadata says max_query_len_bound 4, and there are 5"),
        ([5, 13, 0], "attention_metadata says max_kv_len_bound 13, and there are 14"),
    ],
)
def test_metadata_holds_bounds_that_no_length_exceeds(bounds: list[int], said: str) -> None:
    assert read.problem(*with_input(CHUNKS, 16, np.array(bounds, np.int32))).invalid == said


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("kv_cache_layout", "LATENT", "kv_cache_layout=LATENT .* columns of its keys"),
        ("v_head_size", 8, "v_head_size=8 .* LATENT"),
        ("rotary_offset", 8, "rotary_offset=8 .* leading dims"),
        ("k_quant_type", "PER_TENSOR", "k_quant_type=PER_TENSOR .* no scales"),
        ("v_cache_dtype", "int4", "v_cache_dtype=int4 .* pages hold float16"),
    ],
)
def test_a_cache_in_another_form_is_named(attribute: str, value: Any, words: str) -> None:
    with pytest.raises(read.Unreadable, match=words):
        read.problem(*with_input(CHUNKS, 0, **{attribute: value}))


def test_keys_in_a_block_that_nothing_maps_are_named_as_not_read() -> None:
    case = write.build(from_command_line(RAGGED))
    table = case.inputs["block_table"].copy()
    table[1, 0] = -1
    with pytest.raises(read.Unreadable, match="maps no block to some of the keys"):
        read.problem(case.model, {**case.inputs, "block_table": table})


@pytest.mark.parametrize("features", ["", "packed=qkv", "present=absent", "dims=symbolic causal=false"])
def test_a_function_of_the_problem_runs_and_passes(features: str) -> None:
    found = results(events("attention", [from_command_line(f"{RAGGED} {features}")], "right.py"))
    assert [it.verdict for it in found] == [Verdict.PASS], found[0].message


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("page", [1, 3, 16, 64])
@pytest.mark.parametrize("features", ["", "packed=qkv rotary=half window=5", "present=absent sink=true qk_norm=plain"])
def test_kernels_compute_it(kernel: str, page: int, features: str) -> None:
    if not has_f16():
        pytest.skip("the device has no f16, and the operator no float32")
    found = differences(work(from_command_line(f"op=paged {LENGTHS} page={page} {features}")), kernel)
    assert failing(found) == []


def test_every_wrong_kernel_of_pages_is_relevant_to_a_ragged_batch_and_none_to_another_operator() -> None:
    problem, _ = fed(RAGGED)
    assert [wrong.name for wrong in pages.PAGES if not wrong.relevant(problem)] == []
    assert not any(wrong.relevant(fed(f"op=gqa query_seqlens=true {LENGTHS}")[0]) for wrong in pages.PAGES)
