"""What follows another convention than the oracle is called by it, and disputed where no text settles it."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncheck.backends.base import Backend
from attncheck.backends.callable import Callable
from attncheck.backends.onnx_ref import OnnxRef
from attncheck.backends.ort_cpu import OrtCpu
from attncheck.engine import run as engine
from attncheck.engine.events import CaseFinished, Result
from attncheck.oracle import conventions
from attncheck.oracle.wrong.catalogue import CATALOGUE
from attncheck.oracle.wrong.readings import READINGS
from attncheck.scenario.command_line import from_command_line
from attncheck.vocabulary import Flag, Verdict

WRONG = Path(__file__).parents[1] / "callables" / "wrong.py"


def judged(case: str, kernel: str, reference: Backend | None = None) -> Result:
    return judged_on(Callable(WRONG, kernel), case, reference)


def judged_on(backend: Backend, case: str, reference: Backend | None = None) -> Result:
    found = engine.run([from_command_line(case)], [backend], reference, engine.Options())
    finished = next(event for event in found if isinstance(event, CaseFinished))
    return next(result for result in finished.results if not result.reference)


def test_every_reader_of_a_convention_is_known() -> None:
    assert conventions.readers() <= {wrong.name for wrong in (*CATALOGUE, *READINGS)}
    assert {wrong.name for wrong in READINGS} <= conventions.readers()


@pytest.mark.parametrize(
    ("kernel", "case", "reading"),
    [
        ("causal_last_key", "op=attention q_len=3 kv_len=9", "with the last key"),
        ("causal_top_left", "op=gqa q_len=3 past_len=9", "with the first key"),
        ("softcap_after_bias", "op=attention q_len=6 softcap=1.5 bias=SxT", "softcap after the bias"),
        ("window_one_long", "op=gqa q_len=3 past_len=9 window=3", "without the query's own key"),
        ("empty_row_mean", "op=attention q_len=5 kv_len=3 capacity=8", "the mean of V"),
        ("empty_row_mean", "op=attention q_len=5 mask=SxT holes=middle-row", "the mean of V"),
        ("empty_row_filled", "op=attention q_len=5 mask=SxT holes=middle-row", "the scores - 10000"),
        ("empty_row_mean_of_seen", "op=attention q_len=5 mask=SxT holes=middle-row", "that causality shows"),
        ("softcap_after_bias_and_holes", "op=attention q_len=6 softcap=1.5 bias=SxT holes=keys", "and its -inf"),
        ("softcap_after_bias_and_masks", "op=attention q_len=6 softcap=1.5 bias=SxT", "and every mask"),
        ("scores_capped", "op=attention q_len=3 softcap=2 scores=raw", "after softcap"),
        ("mask_column_padded", "op=attention q_len=5 opset=23 causal=false mask=Sx1", "for the first key's"),
        ("mask_column_for_all", "op=attention q_len=5 opset=25 causal=false mask=Sx1 holes=middle-row", "every key's"),
        ("triangle_of_one_row", "op=attention q_len=3 bias=1xT", "the first one's causal row"),
        ("triangle_of_one_row", "op=attention q_len=5 past_len=3 head_dim=8 bias=1xT", "the first one's causal row"),
        ("causal_top_left", "op=attention q_len=3 kv_len=9 capacity=12", "the causal triangle with the first key"),
        ("causal_top_left", "op=attention q_len=1 kv_len=9+5 capacity=9", "the causal triangle with the first key"),
        ("queries_at_buffer_end", "op=attention q_len=3 kv_len=5+9 capacity=10", "with the last slot of the buffer"),
        ("window_one_long", "op=attention q_len=6 causal=false window=2", "without the query's own key"),
        ("window_one_long", "op=attention q_len=3 kv_len=9 capacity=12 window=2", "without the query's own key"),
        ("window_from_first_key", "op=attention q_len=3 past_len=9 causal=false window=2", "stood at the first key"),
        ("window_from_first_key", "op=attention q_len=3 kv_len=9 capacity=12 causal=false window=3 window_right=1",
         "stood at the first key"),
        ("window_from_last_key", "op=attention q_len=5 kv_len=9 causal=false window=3", "stood at the last key"),
        ("window_right_one_long", "op=attention q_len=6 causal=false window_right=1", "to the right without the first"),
        ("window_right_one_short", "op=attention q_len=6 causal=false window_right=1", "with the query's own key"),
    ],
)
def test_a_convention_that_a_text_settles_is_named_and_not_disputed(kernel: str, case: str, reading: str) -> None:
    result = judged(case, kernel)
    assert result.verdict is Verdict.MISMATCH
    assert result.convention is not None
    assert reading in result.convention.reading
    assert result.convention.settled
    assert Flag.DISPUTED not in result.flags


@pytest.mark.parametrize(
    "case",
    [
        "op=gqa q_len=4 bias=BxNxSxT holes=first-row",
        "op=gqa q_len=5 bias=1xNxSxT holes=middle-row softcap=2",
        "op=attention q_len=5 kv_len=3 capacity=8",
    ],
)
def test_nan_for_a_query_without_a_key_is_named(case: str) -> None:
    result = judged(case, "empty_row_nan")
    assert result.verdict is Verdict.NONFINITE
    assert "NaN for a query without a key" in result.diagnosis
    assert result.convention is not None
    assert (Flag.DISPUTED in result.flags) == ("gqa" in case)


@pytest.mark.parametrize(
    ("kernel", "case"),
    [
        ("softcap_after_bias_and_masks", "op=gqa q_len=6 softcap=1.5 bias=1xNxSxT holes=keys"),
        ("softcap_after_bias", "op=gqa q_len=6 softcap=1.5 bias=1xNxSxT"),
        ("empty_row_mean", "op=gqa q_len=5 bias=1xNxSxT holes=middle-row"),
        ("empty_row_mean_of_seen", "op=gqa q_len=5 bias=1xNxSxT holes=middle-row"),
        ("causal_top_left", "op=mha q_len=3 past_len=9"),
        ("past_ignored", "op=mha q_len=1 past_len=9 present=absent"),
    ],
)
def test_a_convention_that_no_text_settles_is_disputed(kernel: str, case: str) -> None:
    result = judged(case, kernel)
    assert result.verdict is Verdict.MISMATCH
    assert result.convention is not None
    assert not result.convention.settled
    assert Flag.DISPUTED in result.flags


def test_numbers_for_a_length_beyond_the_cache_are_disputed_and_those_for_what_a_text_forbids_are_not() -> None:
    beyond = judged_on(OrtCpu(), "op=attention capacity=8 opset=25 steps=7-3r")
    assert beyond.verdict is Verdict.ERROR
    assert "nonpad_kv_seqlen exceeds the 8 rows of K" in beyond.message
    assert beyond.convention is not None
    assert beyond.convention.reading == "takes a nonpad_kv_seqlen beyond the rows of K"
    assert beyond.flags == (Flag.DISPUTED,)
    refused = judged_on(OrtCpu(), "op=attention capacity=8 opset=24 steps=7-3r")
    assert (refused.verdict, refused.flags) == (Verdict.PASS, ())
    forbidden = judged("op=gqa q_len=1+4+2 past_len=2+6+3 query_seqlens=true causal=false", "zeros")
    assert forbidden.verdict is Verdict.ERROR
    assert (forbidden.convention, forbidden.flags) == (None, ())


@pytest.mark.parametrize("axes", ["", "bias=SxT past_len=3", "bias=SxT holes=keys opset=23"])
def test_the_reference_evaluators_capped_scores_are_called_those_of_another_stage(axes: str) -> None:
    """Its output is right: softcap is not ignored, the scores that it gives as raw have it already."""
    result = judged_on(OnnxRef(), f"op=attention q_len=4 softcap=2 scores=raw {axes}")
    assert result.verdict is Verdict.MISMATCH
    assert result.convention is not None
    assert result.convention.reading == "gives scores after softcap"
    assert "softcap ignored" not in result.diagnosis


@pytest.mark.parametrize(
    "case",
    [
        "op=mha heads=2 head_dim=8 scale=4000 past_len=9+2+5",
        "op=decoder-mha heads=2 head_dim=8 scale=4000 past_len=9+2+5 capacity=12",
        "op=ms-attention heads=2 head_dim=8 scale=4000 q_len=6+3+2 causal=false",
    ],
)
def test_a_hidden_key_that_wins_by_its_score_is_called_by_what_was_added_to_it(case: str) -> None:
    for result in (judged(case, "hidden_key_filled"), judged_on(OrtCpu(), case)):
        assert result.verdict is Verdict.MISMATCH
        assert "-10000 added to the score of a hidden key" in result.diagnosis
        assert result.convention is not None
        assert "`mask_filter_value`" in result.convention.reading
        assert Flag.DISPUTED in result.flags


def test_shared_keys_in_the_other_layout_of_the_text_are_disputed_though_it_reads_slots_that_nobody_filled() -> None:
    result = judged("op=decoder-mha past_len=5 capacity=9", "key_cache_in_words")
    assert result.verdict is Verdict.NONFINITE
    assert result.convention is not None
    assert "by words of 16 bytes" in result.convention.reading
    assert Flag.DISPUTED in result.flags
    assert judged("op=mha past_len=5 capacity=9 q_len=1", "key_cache_in_words").convention is None


def test_a_mean_over_the_slots_of_a_longer_buffer_is_named_where_these_hold_numbers() -> None:
    """Where they hold what an entry never filled, it is NaN as well as a mean: both are said."""
    result = judged("op=attention q_len=5 kv_len=3 capacity=8", "empty_row_mean_of_buffer")
    assert "all slots of a longer buffer" in result.diagnosis
    assert result.convention is not None


def test_a_past_that_is_ignored_though_the_present_is_asked_for_is_a_fault_and_no_convention() -> None:
    result = judged("op=mha q_len=1 past_len=9", "past_ignored")
    assert result.verdict is Verdict.MISMATCH
    assert result.convention is None


def test_a_fault_that_is_no_convention_has_none() -> None:
    result = judged("op=gqa q_len=3 past_len=9", "last_key_dropped", OrtCpu())
    assert result.convention is None
    assert Flag.DISPUTED not in result.flags
