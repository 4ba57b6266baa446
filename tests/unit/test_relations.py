"""Relations hold on backends that are right, and each is broken by a kernel that is wrong in what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from attncheck.backends.base import Backend
from attncheck.backends.callable import Callable
from attncheck.backends.ort_cpu import OrtCpu
from attncheck.backends.registry import Settings, create
from attncheck.compare import judge
from attncheck.engine import run as engine
from attncheck.engine.events import CaseFinished, Result
from attncheck.graph import read
from attncheck.relations import changes
from attncheck.relations.relation import split
from attncheck.relations.table import RELATIONS, related, unsaid
from attncheck.scenario import from_command_line
from attncheck.vocabulary import Flag, Status, Verdict

CALLABLES = Path(__file__).parents[1] / "callables"

PLAIN = "op=gqa batch=2 q_len=6 past_len=0 heads=4 kv_heads=2"
ATTENTION = "op=attention q_len=6 past_len=3 heads=4 kv_heads=2"
PAGED = "op=paged batch=2 q_len=6 past_len=3 kv_heads=2 page=4"
SPARSE = "op=sparse batch=2 q_len=6 past_len=14 kv_heads=2"
LINEAR = "op=linear batch=2 q_len=6 kv_heads=2"
ROTARY = "op=rotary batch=2 q_len=6 past_len=1"
DECODER = "op=decoder-mha batch=2 past_len=6 capacity=9"
PROJECTED = "op=ms-attention batch=2 q_len=6 past_len=3 qkv_bias=true"

SCENARIOS = (
    PLAIN,
    ATTENTION,
    "op=gqa q_len=5 past_len=3 kv_heads=1 rotary=half",
    "op=gqa q_len=7 kv_heads=2 window=3 softcap=2 data=rising-scores",
    "op=gqa q_len=1+9+4 kv_heads=2 capacity=16 rotary=interleaved",
    "op=gqa q_len=1 past_len=3+40+17 window=9",
    "op=gqa q_len=4 past_len=2 packed=qkv sink=true",
    "op=mha q_len=5 past_len=4 data=huge-logit",
    "op=mha q_len=1+6+3",
    "op=attention q_len=3 past_len=5+2+9 capacity=20 kv_heads=2",
    "op=attention q_len=4 bias=BxNxSxT layout=bnsh",
    "op=gqa q_len=6 data=large-logits dtype=float16",
    "op=ms-attention q_len=5 past_len=3 batch=2",
    PAGED,
    "op=paged q_len=4+0+7 past_len=5+2+9 page=4 kv_heads=2 window=6 packed=qkv",
    "op=paged q_len=5 past_len=20 rotary=half capacity=64 softcap=3",
    SPARSE,
    "op=sparse q_len=38 past_len=3 kv_heads=2 sparse_layouts=2 rotary=half packed=qkv",
    "op=sparse batch=3 q_len=19 dtype=float16 capacity=64",
    LINEAR,
    "op=ms-linear q_len=7 heads=2 kv_heads=4 past_state=given update_rule=gated decay=by-dim",
    "op=linear q_len=5 past_state=zeros update_rule=delta beta=shared dtype=float16",
    ROTARY,
    "op=rotary q_len=4 positions=scattered rotary_cache=30 layout=bnsh",
    "op=ms-rotary batch=3 q_len=4 past_len=2 positions=explicit rotary_dim=8",
    "op=ms-rotary q_len=4 batch=2 positions=explicit packed_batch=true rotary=interleaved dtype=float16",
    DECODER,
    "op=decoder-mha past_len=5+2+9 capacity=12 kv_heads=2 qkv_bias=true",
    "op=decoder-mha kv_len=7+3+5 qkv_bias=true",
    PROJECTED,
    "op=ms-attention q_len=5+2+3",
    "op=ms-attention q_len=5+2+3 key_lengths=offsets",
    "op=mha q_len=5+2+3 key_lengths=offsets",
)

BREAKS: tuple[tuple[str, str, str], ...] = (
    # a relation, the function that breaks it, and the case in which it does
    ("one-by-one", "in_long_calls", PLAIN),
    ("one-by-one", "in_long_calls_by_graph", PAGED),
    ("one-by-one", "in_long_calls_by_graph", SPARSE),
    ("one-by-one", "in_long_calls_by_graph", LINEAR),
    ("one-by-one", "in_long_calls_by_graph", ROTARY),
    ("one-by-one", "in_long_calls_by_graph", PROJECTED),
    ("in-chunks", "after_a_past_of_half", PLAIN),
    ("in-chunks", "after_a_past_of_two", "op=paged q_len=6"),
    ("in-chunks", "after_a_past_of_two", "op=sparse q_len=6"),
    ("in-chunks", "after_a_state_of_two", LINEAR),
    ("in-chunks", "behind_the_first_rows", "op=ms-rotary q_len=6"),
    ("in-chunks", "after_a_past_of_two", "op=ms-attention q_len=6"),
    ("repeated-heads", "where_heads_share", PLAIN),
    ("repeated-heads", "where_heads_share_by_graph", "op=gqa q_len=6 kv_heads=2 rotary=half"),
    ("repeated-heads", "where_heads_share_by_graph", ATTENTION),
    ("repeated-heads", "where_heads_share_by_graph", PAGED),
    ("repeated-heads", "where_heads_share_by_graph", SPARSE),
    ("repeated-heads", "where_heads_share_by_graph", LINEAR),
    ("batch-order", "in_the_first_entry", PLAIN),
    ("batch-order", "in_the_first_sequence", PAGED),
    ("batch-order", "in_the_first_row_of_batch", SPARSE),
    ("batch-order", "in_the_first_row_of_batch", LINEAR),
    ("batch-order", "in_the_first_row_of_batch", ROTARY),
    ("batch-order", "in_the_first_row_of_batch", DECODER),
    ("batch-order", "in_the_first_row_of_batch", PROJECTED),
    ("padded-buffer", "in_long_buffers", PLAIN),
    ("padded-buffer", "of_long_tables", PAGED),
    ("padded-buffer", "of_long_buffers", SPARSE),
    ("padded-buffer", "of_long_buffers", DECODER),
    ("padded-buffer", "of_long_buffers", "op=mha q_len=2 past_len=3"),
    ("padded-buffer", "of_long_buffers", PROJECTED),
    ("padded-buffer", "of_long_caches", "op=ms-rotary q_len=4"),
    ("wide-window", "where_windowed", PLAIN),
    ("wide-window", "where_windowed", PAGED),
    ("high-softcap", "where_softcapped", PLAIN),
    ("high-softcap", "where_softcapped", PAGED),
    ("shifted-scores", "where_biased", PLAIN),
    ("shifted-scores", "where_biased", DECODER),
    ("shifted-scores", "where_biased", "op=ms-attention q_len=4"),
    ("shifted-scores", "where_keys_are_moved", PAGED),
    ("shifted-scores", "where_keys_are_moved", SPARSE),
    ("shifted-scores", "where_keys_are_moved", "op=attention q_len=6 mask=BxNxSxT"),
    ("constant-values", "not_normalised", PLAIN),
    ("constant-values", "not_normalised_by_graph", PAGED),
    ("constant-values", "not_normalised_by_graph", SPARSE),
    ("constant-values", "not_normalised_by_graph", DECODER),
    ("constant-values", "not_normalised_by_graph", PROJECTED),
    ("packed", "where_packed", PLAIN),
    ("packed", "where_packed_by_graph", PAGED),
    ("packed", "where_packed_by_graph", SPARSE),
    ("packed", "where_packed_by_graph", DECODER),
    ("packed", "where_packed_batch", "op=ms-rotary batch=2 q_len=4"),
    ("four-axes", "where_4d", ATTENTION),
    ("four-axes", "where_input_has_four_axes", ROTARY),
    ("half-precision", "in_half", PLAIN),
    ("half-precision", "half_by_graph", SPARSE),
    ("half-precision", "half_by_graph", LINEAR),
    ("half-precision", "half_by_graph", ROTARY),
    ("half-precision", "half_by_graph", DECODER),
    ("half-precision", "half_by_graph", PROJECTED),
    ("empty-past", "where_there_is_a_past", PLAIN),
    ("empty-past", "where_there_is_a_state", LINEAR),
    ("plain-cache", "of_pages", PAGED),
    ("blocks-as-bias", "of_sparse", SPARSE),
    ("dense-operator", "of_decoder", DECODER),
)


def results(texts: Sequence[str], backends: Sequence[Backend], names: Sequence[str] = ()) -> list[Result]:
    items = [it for text in texts for it in related(from_command_line(text), names)]
    found = engine.run(items, backends, None, engine.Options())
    return [result for event in found if isinstance(event, CaseFinished) for result in event.results]


def test_every_relation_holds_on_backends_that_are_right_and_says_something_of_some_case() -> None:
    found = results(SCENARIOS, [*create("wgsl", Settings()), OrtCpu()])
    wrong = [(it.case, it.backend, it.message) for it in found if it.status not in (Status.PASSED, Status.SKIPPED)]
    assert wrong == []
    held = {split(it.case)[1] for it in found if it.verdict is Verdict.PASS}
    assert held == set(RELATIONS)


def test_each_relation_has_a_kernel_that_breaks_it() -> None:
    assert {name for name, _, _ in BREAKS} == set(RELATIONS)


@pytest.mark.parametrize(("name", "function", "text"), BREAKS)
def test_a_relation_is_broken_by_a_kernel_that_is_wrong_in_what_it_is_about(
    name: str, function: str, text: str
) -> None:
    (found,) = results([text], [Callable(CALLABLES / "relations.py", function)], [name])
    assert found.verdict is Verdict.MISMATCH, found.message
    assert found.case == f"{from_command_line(text).id}/{name}"
    assert found.message.startswith(f"broken: {RELATIONS[name].words}.")
    assert found.worst is not None
    assert found.worst.against == RELATIONS[name].twin_words


def test_functions_of_a_user_that_are_right_break_none() -> None:
    # The plain one has neither bias nor softcap.
    names = set(RELATIONS) - {"shifted-scores", "high-softcap"}
    found = results([PLAIN, ATTENTION], [Callable(CALLABLES / "relations.py", "nowhere")], tuple(names))
    assert [(it.case, it.message) for it in found if it.verdict is not Verdict.PASS] == []


@pytest.mark.slow
def test_a_function_that_is_right_by_the_oracle_breaks_no_relation_of_any_operator() -> None:
    """In every case in which another function breaks one."""
    texts = list(dict.fromkeys(text for _, _, text in BREAKS))
    found = results(texts, [Callable(CALLABLES / "relations.py", "right_by_the_oracle")])
    assert [(it.case, it.message) for it in found if it.verdict is not Verdict.PASS] == []
    assert len(found) > 100


def test_a_kernel_that_is_wrong_in_one_thing_does_not_break_what_is_not_about_it() -> None:
    found = results([PLAIN], [Callable(CALLABLES / "relations.py", "in_long_buffers")], ("packed", "batch-order"))
    assert {it.verdict for it in found} == {Verdict.PASS}


def test_a_side_that_gives_no_numbers_is_the_verdict_and_is_named() -> None:
    backend = Callable(CALLABLES / "sessions.py", "dies_in_the_third_call")
    (found,) = results(["op=gqa q_len=8"], [backend], ["one-by-one"])
    assert found.verdict is Verdict.CRASH
    assert found.message.startswith("as many calls of one token (op=gqa,steps=1x8,batch=1): the backend's process")
    assert found.step is not None
    assert found.step.number == 7


def test_what_breaks_by_an_unsettled_reading_is_disputed_as_in_a_run() -> None:
    case = "op=mha q_len=5 mask=BxSxT holes=middle-row"
    holding, broken = results([case], [OrtCpu()], ["padded-buffer", "shifted-scores"])
    assert (holding.verdict, holding.flags) == (Verdict.PASS, ())
    assert (broken.verdict, broken.flags) == (Verdict.MISMATCH, (Flag.DISPUTED,))
    assert broken.convention is not None
    assert "`mask_filter_value`" in broken.convention.reading


def test_what_holds_within_a_tolerance_that_rejects_nothing_is_vacuous_as_in_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (sharp,) = results([PLAIN], [OrtCpu()], ["high-softcap"])
    assert (sharp.verdict, sharp.flags) == (Verdict.PASS, ())
    monkeypatch.setitem(judge.CONSTANT, "f32", 1e9)
    (blunt,) = results([PLAIN], [OrtCpu()], ["high-softcap"])
    assert (blunt.verdict, blunt.flags) == (Verdict.PASS, (Flag.VACUOUS,))


def test_reversing_the_batch_reverses_what_belongs_to_an_entry_and_nothing_else() -> None:
    (found,) = related(from_command_line("q_len=1 past_len=3+5 rotary=half heads=2 rotary_cache=8"), ["batch-order"])
    own, twin = (session.cases[0] for session in found.sessions())
    assert twin.inputs["seqlens_k"].tolist() == own.inputs["seqlens_k"].tolist()[::-1]
    np.testing.assert_array_equal(twin.inputs["past_key"], own.inputs["past_key"][::-1])
    np.testing.assert_array_equal(twin.inputs["cos_cache"], own.inputs["cos_cache"])
    assert own.digest != twin.digest


def test_constant_values_leave_what_nobody_may_read() -> None:
    (found,) = related(from_command_line("q_len=1 past_len=3+5 capacity=9"), ["constant-values"])
    (own,) = (session.cases[0] for session in found.sessions())
    given = np.asarray(own.inputs["past_value"], float)
    assert read.problem(own.model, own.inputs).past_len == (3, 5)
    assert (given[0, :, :3] == changes.V).all()
    assert np.isnan(given[0, :, 3:]).all()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("op=gqa q_len=6 window=3", "wide-window"),
        ("op=gqa q_len=6 softcap=4", "high-softcap"),
        ("op=gqa q_len=6 sink=true", "shifted-scores"),
        ("op=gqa q_len=6 smooth=true", "constant-values"),
        ("op=gqa q_len=1 past_len=4", "one-by-one"),
        ("op=gqa q_len=6 batch=1", "batch-order"),
        ("op=gqa q_len=6 rotary=half", "repeated-heads"),
        ("op=attention q_len=6", "packed"),
        ("op=gqa q_len=6", "four-axes"),
        ("op=gqa q_len=6 dtype=float16", "half-precision"),
        ("op=gqa steps=5-1", "padded-buffer"),
        ("op=rotary q_len=6", "shifted-scores"),
        ("op=rotary q_len=6 dtype=float16", "half-precision"),
        ("op=rotary q_len=6 positions=scattered rotary_cache=9", "padded-buffer"),
        ("op=ms-rotary q_len=3+2 positions=explicit packed_batch=true", "packed"),
        ("op=ms-rotary q_len=3 batch=2 positions=explicit packed_batch=true", "batch-order"),
        ("op=linear q_len=6", "constant-values"),
        ("op=linear q_len=6 past_state=given", "empty-past"),
        ("op=ms-linear q_len=6 heads=2 kv_heads=4", "repeated-heads"),
        ("op=paged q_len=6+2", "one-by-one"),
        ("op=paged q_len=6 rotary=half", "shifted-scores"),
        ("op=paged q_len=6 qk_norm=plain", "shifted-scores"),
        ("op=sparse q_len=6 packed=qkv", "shifted-scores"),
        ("op=sparse q_len=6", "empty-past"),
        ("op=decoder-mha past_len=6", "one-by-one"),
        ("op=decoder-mha past_len=6", "repeated-heads"),
        ("op=ms-attention q_len=6", "constant-values"),
        ("op=mha past_len=4 past=full", "batch-order"),
        ("op=mha q_len=4 kv_len=9 causal=false layout=bnsh qkv_bias=true", "four-axes"),
        ("op=attention q_len=17 bias=SxT mask_len=8 window=8", "constant-values"),
        ("op=attention opset=23 q_len=5 mask=Sx1", "wide-window"),
        ("op=attention opset=23 q_len=5 mask=Sx1", "padded-buffer"),
    ],
)
def test_a_relation_says_nothing_where_it_need_not_hold(text: str, name: str) -> None:
    assert related(from_command_line(text), [name]) == ()
    assert len(unsaid(from_command_line(text), [name])[name]) > len("the batch is"), "a reason in words"


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("a/b.yaml::c:window=3/packed", ("a/b.yaml::c:window=3", "packed")),
        ("a/b.yaml::c", ("a/b.yaml::c", "")),
        ("a/b.yaml", ("a/b.yaml", "")),
        ("case::op=gqa/packed", ("case::op=gqa", "packed")),
    ],
)
def test_an_address_is_that_of_a_case_and_a_relation(address: str, parts: tuple[str, str]) -> None:
    assert split(address) == parts


def test_nothing_is_said_of_integers_in_the_buffers() -> None:
    """A twin holds other numbers, and by them other scales."""
    assert related(from_command_line("q_len=3 past_len=5 kv_cache=int8")) == ()
    assert related(from_command_line("q_len=3 past_len=5")) != ()


@pytest.mark.parametrize("text", [*SCENARIOS, "op=paged q_len=4", "op=gqa steps=5-1", "op=linear q_len=3"])
def test_a_relation_is_checked_or_it_is_said_why_not(text: str) -> None:
    case = from_command_line(text)
    checked = {it.relation.name for it in related(case)}
    assert checked.isdisjoint(unsaid(case))
    assert checked | set(unsaid(case)) == set(RELATIONS)


@pytest.mark.parametrize(("axes", "op"), [("", "mha"), ("bias=BxNxSxT holes=first-row", "gqa"), ("rotary=half", "gqa")])
def test_repeated_heads_are_those_of_another_operator_only_where_the_two_say_the_same(axes: str, op: str) -> None:
    (found,) = related(from_command_line(f"op=gqa q_len=4 kv_heads=2 {axes}"), ["repeated-heads"])
    assert found.twin.op == op
    assert found.twin.kv_heads == (2 if op == "mha" else 4)
