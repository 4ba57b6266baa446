"""Rotary embedding alone: what is read of both operators' nodes, what the oracle says, what wrong kernels give."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper

from attncheck.backends.wgsl import limits
from attncheck.compare.diagnosis import diagnose
from attncheck.compare.judge import errors
from attncheck.compare.sharpness import sharpness
from attncheck.graph import read
from attncheck.graph.read import Unreadable
from attncheck.kernels.policy import Policy
from attncheck.oracle import ask
from attncheck.oracle.answer import NoAnswer
from attncheck.oracle.wrong.lineup import lineup
from attncheck.oracle.wrong.turning import TURNING
from attncheck.problem import RotaryProblem, role_of
from attncheck.tensors.dtypes import narrow
from tests.device import hello

Float = NDArray[np.float64]
BATCH, HEADS, ROWS, DIM = 2, 3, 5, 8
ORDER = {"": ("X", "cos", "sin", "positions"), "com.microsoft": ("X", "positions", "cos", "sin")}
SCATTERED = np.array([[3, 9, 4, 0, 7], [11, 2, 2, 5, 6]], np.int64)


@dataclass
class Node:
    """A RotaryEmbedding node with its arrays; `positions` None: left out."""

    domain: str
    style: str = "half"
    turning: int = DIM
    positions: NDArray[np.int64] | None = field(default_factory=lambda: SCATTERED)
    axes: int = 4
    by_token: bool = False
    more: dict[str, Any] = field(default_factory=dict)
    batch: int = BATCH

    @property
    def inputs(self) -> dict[str, NDArray[Any]]:
        random = np.random.default_rng(5)
        rows = random.normal(size=(self.batch, HEADS, ROWS, DIM)).astype(np.float32)
        if self.axes == 3:
            rows = rows.transpose(0, 2, 1, 3).reshape(self.batch, ROWS, HEADS * DIM)
        shape = (self.batch, ROWS) if self.by_token else (12,)
        angles = random.uniform(-3, 3, size=(*shape, self.turning // 2))
        given = {"X": rows, "cos": np.cos(angles), "sin": np.sin(angles)}
        found: dict[str, NDArray[Any]] = {name: array.astype(np.float32) for name, array in given.items()}
        return found if self.positions is None else found | {"positions": self.positions}

    @property
    def model(self) -> bytes:
        names = [name for name in ORDER[self.domain] if name in self.inputs]
        said: dict[str, Any] = {"interleaved": int(self.style == "interleaved")}
        if self.axes == 3 or (self.domain and self.turning < DIM):
            said["num_heads"] = HEADS
        if self.turning < DIM:
            said["rotary_embedding_dim"] = self.turning
        said |= self.more
        node = helper.make_node("RotaryEmbedding", names, ["Y"], domain=self.domain, **said)
        values = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in self.inputs.items()
        ]
        out = helper.make_tensor_value_info("Y", 1, self.inputs["X"].shape)
        imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
        made = helper.make_model(helper.make_graph([node], "g", values, [out]), opset_imports=imports)
        return bytes(made.SerializeToString())

    @property
    def problem(self) -> RotaryProblem:
        found = read.any_problem(self.model, self.inputs)
        assert isinstance(found, RotaryProblem)
        return found


def by_hand(node: Node, positions: Any) -> Float:
    """One loop after the other over the text's words, [batch, heads, rows, dim]."""
    rows = node.inputs["X"].astype(float)
    if node.axes == 3:
        rows = rows.reshape(node.batch, ROWS, HEADS, DIM).transpose(0, 2, 1, 3)
    cos, sin = node.inputs["cos"].astype(float), node.inputs["sin"].astype(float)
    turned = rows.copy()
    half = node.turning // 2
    for b, h, s, i in np.ndindex(node.batch, HEADS, ROWS, half):
        one, other = (2 * i, 2 * i + 1) if node.style == "interleaved" else (i, i + half)
        place = (b, s, i) if node.by_token else (positions[b][s], i)
        x, y = rows[b, h, s, one], rows[b, h, s, other]
        turned[b, h, s, one] = x * cos[place] - y * sin[place]
        turned[b, h, s, other] = y * cos[place] + x * sin[place]
    return turned


def said(node: Node) -> Float:
    """The oracle's values, [batch, heads, rows, dim]."""
    (answer,) = ask.answer(node.problem, node.inputs)
    assert answer.stated.all()
    assert answer.values.shape == node.inputs["X"].shape
    if node.axes == 3:
        return answer.values.reshape(node.batch, ROWS, HEADS, DIM).transpose(0, 2, 1, 3)
    return answer.values


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("turning", [DIM, 6, 2])
@pytest.mark.parametrize("axes", [3, 4])
def test_every_pair_turns_by_the_cache_row_of_its_own_position(
    domain: str, style: str, turning: int, axes: int
) -> None:
    node = Node(domain, style, turning, axes=axes)
    np.testing.assert_allclose(said(node), by_hand(node, SCATTERED), rtol=0, atol=1e-12)


def test_without_position_ids_every_token_has_angles_of_its_own() -> None:
    node = Node("", positions=None, by_token=True)
    np.testing.assert_allclose(said(node), by_hand(node, None), rtol=0, atol=1e-12)


def test_one_position_is_the_first_row_of_every_entry_and_the_others_follow() -> None:
    node = Node("com.microsoft", positions=np.array([4], np.int64))
    np.testing.assert_allclose(said(node), by_hand(node, [range(4, 9)] * 2), rtol=0, atol=1e-12)


def test_a_head_of_microsofts_is_as_wide_as_the_caches_say() -> None:
    node = Node("com.microsoft", axes=3, more={"num_heads": 0})
    assert node.problem.heads == HEADS
    np.testing.assert_allclose(said(node), by_hand(node, SCATTERED), rtol=0, atol=1e-12)


def test_a_turn_by_a_right_angle_in_closed_form() -> None:
    """cos 0 and sin 1: the first of a pair becomes minus the second, the second the first."""
    node = Node("")
    inputs = node.inputs | {"cos": np.zeros((12, DIM // 2), "f4"), "sin": np.ones((12, DIM // 2), "f4")}
    (answer,) = ask.answer(node.problem, inputs)
    x = inputs["X"].astype(float)
    np.testing.assert_array_equal(answer.values, np.concatenate([-x[..., 4:], x[..., :4]], axis=-1))


def test_the_bound_is_of_both_products_and_what_does_not_turn_is_exact() -> None:
    node = Node("", turning=6)
    (answer,) = ask.answer(node.problem, node.inputs)
    x, y = (float(node.inputs["X"][1, 2, 3, dim]) for dim in (1, 4))
    c, s = (float(node.inputs[name][SCATTERED[1, 3], 1]) for name in ("cos", "sin"))
    assert math.isclose(answer.compute[1, 2, 3, 1], abs(x * c) + abs(y * s))
    assert math.isclose(answer.storage[1, 2, 3, 4], abs(y * c + x * s))
    assert not answer.compute[..., 6:].any()
    assert not answer.storage[..., 6:].any()


FORBIDDEN = {
    "beyond the caches": (Node("", positions=SCATTERED + 1), "position 12 lies outside of the 12 rows"),
    "offset beyond the caches": (Node("com.microsoft", positions=np.array([8], np.int64)), "position 12 lies outside"),
    "below 0": (Node("com.microsoft", positions=SCATTERED - 1), "position -1 lies outside of the 12 rows"),
    "one row for all": (Node("", positions=SCATTERED[:1]), r"position_ids must be \[2, 5\], not \[1, 5\]"),
    "one row for all, microsoft": (Node("com.microsoft", positions=SCATTERED[:1]), "position_ids must be"),
    "an offset for ai.onnx": (Node("", positions=np.array([4], np.int64)), "position_ids must be"),
    "angles for each token beside position_ids": (Node("", by_token=True), "the caches must have two axes"),
    "neither": (Node("", positions=None), r"without position_ids the caches must be \[2, 5, 4\]"),
    "columns": (Node("", more={"rotary_embedding_dim": 6}), "must have 3 columns"),
    "odd": (Node("", more={"rotary_embedding_dim": 3}), "3 dims cannot turn in pairs in a head of 8"),
    "wide": (Node("", more={"rotary_embedding_dim": 10}), "10 dims cannot turn in pairs in a head of 8"),
    "no heads": (Node("", axes=3, more={"num_heads": 0}), "num_heads must be given"),
    "no heads, microsoft": (Node("com.microsoft", turning=6, more={"num_heads": 0}), "must be used with num_heads"),
}


@pytest.mark.parametrize("case", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_what_the_texts_forbid_has_no_answer(case: tuple[Node, str]) -> None:
    node, why = case
    with pytest.raises(NoAnswer, match=why):
        ask.answer(node.problem, node.inputs)


def test_a_scale_is_not_read_for_no_text_says_of_what() -> None:
    with pytest.raises(Unreadable, match="no text says what it multiplies"):
        _ = Node("com.microsoft", more={"scale": 2.0}).problem
    assert Node("com.microsoft", more={"scale": 1.0}).problem.invalid == ""


def test_caches_wider_than_what_turns_are_forbidden_by_one_text_and_not_explained_by_the_other() -> None:
    with pytest.raises(Unreadable, match="no text says what turns"):
        _ = Node("com.microsoft", more={"rotary_embedding_dim": 6, "num_heads": HEADS}).problem
    assert "must have 3 columns" in Node("", more={"rotary_embedding_dim": 6}).problem.invalid


def test_a_rotary_node_is_no_attention() -> None:
    node = Node("")
    with pytest.raises(Unreadable, match="does not attend"):
        read.problem(node.model, node.inputs)


def test_there_is_one_kernel_whatever_is_asked_for() -> None:
    assert Policy("online").choose(Node("").problem, limits(hello())).kernels == ("rotary",)


NODES = {
    "scattered": Node("", turning=6),
    "interleaved": Node("com.microsoft", "interleaved", axes=3),
    "from a past": Node("com.microsoft", positions=np.array([4], np.int64)),
}


@pytest.mark.parametrize("name", NODES)
def test_a_relevant_wrong_kernel_differs_and_is_told_by_its_words(name: str) -> None:
    node = NODES[name]
    problem, inputs, answers = node.problem, node.inputs, ask.answer(node.problem, node.inputs)
    relevant = [wrong for wrong in TURNING if wrong.relevant(problem)]
    for wrong in relevant:
        outputs = wrong.outputs(problem, inputs)
        assert errors(outputs["Y"], answers[0].values)[0].max() > 1e-3, wrong.name
        stored = {name: narrow(values, "float32") for name, values in outputs.items()}
        assert wrong.words in diagnose(problem, inputs, answers, stored, "f32").words, wrong.name
    assert set(sharpness(problem, inputs, answers, "f32").rejected) == {wrong.name for wrong in relevant}


def test_every_wrong_kernel_is_relevant_to_some_node() -> None:
    relevant = {wrong.name for node in NODES.values() for wrong in TURNING if wrong.relevant(node.problem)}
    assert relevant == {wrong.name for wrong in TURNING}


@pytest.mark.parametrize("name", ["turn-of-entry-0", "turn-from-zero"])
def test_other_rows_of_the_caches_that_hold_the_same_angles_are_no_fault(name: str) -> None:
    """Caches of a row per token, in which every entry has the angles of entry 0."""
    node = Node("", by_token=True, positions=None)
    problem, inputs = node.problem, node.inputs
    told = {it.name for it in lineup(problem, inputs).known}
    assert "turn-of-entry-0" in told
    repeated = dict(inputs)
    for cache in ("cos", "sin"):
        repeated[cache] = np.broadcast_to(inputs[cache][:1], inputs[cache].shape).copy()
    (wrong,) = [it for it in TURNING if it.name == name]
    assert wrong.relevant(problem)
    assert name not in {it.name for it in lineup(problem, repeated).known}
    (answer,) = ask.answer(problem, repeated)
    assert errors(wrong.outputs(problem, repeated)["Y"], answer.values)[0].max() < 1e-12


def test_wrong_kernels_with_a_plain_reading_are_what_their_words_say() -> None:
    by_name = {wrong.name: wrong for wrong in TURNING}
    node = NODES["scattered"]
    problem, inputs, x = node.problem, node.inputs, node.inputs["X"].astype(float)

    def given(name: str) -> Float:
        return by_name[name].outputs(problem, inputs)["Y"]

    def right(positions: Any) -> Float:
        return by_hand(node, positions)

    np.testing.assert_array_equal(given("turn-ignored"), x)
    np.testing.assert_allclose(given("turn-of-entry-0"), right([SCATTERED[0]] * 2), atol=1e-12)
    np.testing.assert_allclose(given("turn-from-zero"), right([range(5)] * 2), atol=1e-12)
    np.testing.assert_allclose(given("turn-position-one-back"), right(np.maximum(SCATTERED - 1, 0)), atol=1e-12)
    counted = Node("com.microsoft", positions=np.array([[3, 0, 0, 0, 0], [6, 1, 1, 1, 1]]))
    got = by_name["turn-counted-from-first"].outputs(counted.problem, counted.inputs)["Y"]
    np.testing.assert_allclose(got, by_hand(counted, [range(3, 8), range(6, 11)]), atol=1e-12)
    back = {**inputs, "sin": -inputs["sin"]}
    np.testing.assert_allclose(given("turn-backwards"), ask.answer(problem, back)[0].values, atol=1e-12)
    assert not given("turn-rest-zero")[..., 6:].any()
    assert not given("turn-upper-half-zero")[..., 4:].any()


def test_rows_and_heads_mixed_up_hold_the_same_numbers_elsewhere() -> None:
    """With no turn at all, the memory that is walked otherwise is the memory that was given."""
    by_name = {wrong.name: wrong for wrong in TURNING}
    for axes in (3, 4):
        node = Node("", axes=axes)
        still = node.inputs | {"cos": np.ones((12, 4), "f4"), "sin": np.zeros((12, 4), "f4")}
        got = by_name["turn-other-layout"].outputs(node.problem, still)["Y"]
        np.testing.assert_array_equal(got, still["X"].astype(float))


def test_the_graphs_output_is_found_by_its_name() -> None:
    problem = replace(Node("").problem, rows=4)
    assert role_of(problem.outputs, "Y").shape == (BATCH, HEADS, 4, DIM)
    with pytest.raises(KeyError):
        role_of(problem.outputs, "Z")
