"""Past and present: what the buffers that hold them need, and who reads of them."""

from __future__ import annotations

from collections.abc import Iterator

from attncheck.scenario.axes import spell
from attncheck.scenario.complete import MASKED, SIZES, TEXTS, Complete, Impossible, Rules
from attncheck.scenario.diagnostics import Mistake


def _told(case: Complete) -> Iterator[Impossible]:
    """What query_seqlens needs: past buffers. Of present it says by itself that every chunk fits, padding included."""
    if case.values["query_seqlens"] is not True or not case.lists_fit:
        return
    if case.values["window_cache"] is True:
        return
    capacity, longest = case.values["capacity"], case.largest("past_len")
    if longest == 0 and capacity == "exact" and case.values["past"] != "empty":
        message = "`query_seqlens` needs past buffers, but there is no past"
        hint = "add a `past_len`, a `capacity`, or `past: empty`"
        yield Impossible(Mistake.BUFFERS, ("query_seqlens",), message, hint)


def _quantised(case: Complete) -> Iterator[Impossible]:
    """What buffers of integers need: a past whose type says so, and two elements for each byte."""
    kind = case.values["kv_cache"]
    if kind == "same":
        if case.has("kv_scales"):
            message = "`kv_scales` without `kv_cache` has no effect"
            yield Impossible(Mistake.BUFFERS, ("kv_scales",), message, "add `kv_cache: int8`")
        return
    no_past = case.lists_fit and case.largest("past_len") == 0 and not case.has("capacity")
    if no_past and case.values["window_cache"] is not True:
        message = f"`kv_cache: {kind}` needs past buffers with slots, but there is no past"
        yield Impossible(Mistake.BUFFERS, ("kv_cache",), message, "add a `past_len`, or a `capacity`")
    if kind == "int4" and case.integer("head_dim") % 2:
        message = f"`kv_cache: int4` packs two elements into a byte, but head_dim is {case.integer('head_dim')}"
        yield Impossible(Mistake.BUFFERS, ("kv_cache", "head_dim"), message, "use an even head_dim")


def _window_cache(case: Complete) -> Iterator[Impossible]:
    """What a cache of the window's keys needs: a window, room for it, and no feature whose shape nobody states."""
    if case.values["window_cache"] is not True:
        return
    window, capacity = case.values["window"], case.values["capacity"]
    if not isinstance(window, int):
        message = "`window_cache` without a `window` keeps no key"
        yield Impossible(Mistake.WINDOW, ("window_cache", "window"), message, "add a `window`")
    elif isinstance(capacity, int) and capacity < window:
        message = f"a window_cache of {capacity} slots is smaller than its window of {window}"
        yield Impossible(Mistake.CAPACITY, ("capacity", "window"), message, f"capacity: {window} or more, or `exact`")
    if case.has("scores"):
        message = "`scores` with `window_cache`: no text says over which keys they are given"
        yield Impossible(Mistake.BUFFERS, ("scores", "window_cache"), message, "remove one of the two")
    if case.values["past"] == "empty":
        message = "`window_cache` needs past buffers with room for the window"
        yield Impossible(Mistake.BUFFERS, ("past", "window_cache"), message, "use `past: auto`")


def _cross(case: Complete) -> Iterator[Impossible]:
    if not case.cross:
        return
    if case.largest("past_len") > 0:
        message = "`kv_len` stands in place of past_len + q_len, so there is no `past_len` beside it"
        yield Impossible(Mistake.BUFFERS, ("kv_len", "past_len"), message, "remove one of the two")
    if min(case.lengths("kv_len")) == 0 and not (case.op == "attention" and case.has("capacity")):
        message = "a kv_len of 0 can be said of a cache only"
        yield Impossible(
            Mistake.BUFFERS, ("kv_len",), message, "use `op: attention` with a `capacity`, or 1 key or more"
        )


def _buffers(case: Complete) -> Iterator[Impossible]:
    if case.values["past"] == "full":
        yield from _full(case)
    if case.op in MASKED and case.has("capacity") and case.cross:
        op = case.op
        message = f"a buffer that past and present of {op} share holds past_len + q_len keys, so there is no `kv_len`"
        yield Impossible(Mistake.BUFFERS, ("capacity", "kv_len"), message, "use `past_len`, or `capacity: exact`")
    if case.values["past"] != "empty":
        return
    for axis, off in (("past_len", 0), ("capacity", "exact"), ("kv_len", "auto")):
        value = case.values[axis]
        if value != off and not (isinstance(value, tuple) and set(value) == {0}):
            message = f"`past: empty` is a past without a slot, but `{axis}` is {spell(value)}"
            yield Impossible(Mistake.BUFFERS, ("past", axis), message, f"use `{axis}: {off}`, or `past: auto`")


def _full(case: Complete) -> Iterator[Impossible]:
    if case.op not in MASKED:
        message = f"`past: full` does not exist on {case.op} ({TEXTS[case.op]})"
        yield Impossible(Mistake.FOREIGN, ("past", "op"), message, "use `op: mha`, or `past: auto`")
    elif case.largest("past_len") == 0:
        message = "`past: full` needs a past that fills the buffer, but there is no `past_len`"
        yield Impossible(Mistake.BUFFERS, ("past",), message, "add a `past_len`, or use `past: auto`")
    elif case.has("capacity"):
        message = "`past: full` is a buffer of past_len slots, so there is no `capacity` beside it"
        yield Impossible(Mistake.BUFFERS, ("past", "capacity"), message, "remove one of the two")


def _beams(case: Complete) -> Iterator[Impossible]:
    """What beams need: whole sequences of them, of one length, and a buffer that past and present share."""
    beams = case.integer("beams")
    if beams == 1 or not case.lists_fit:
        return
    if case.batch % beams:
        message = f"a batch of {case.batch} is no whole number of sequences of {beams} beams"
        yield Impossible(Mistake.BATCH, ("beams", "batch"), message, f"batch: {beams}, or a multiple of it")
    if not case.has("capacity") or case.cross:
        message = "`beams` are of a past in the buffer that it shares with the present"
        yield Impossible(Mistake.BUFFERS, ("beams", "capacity"), message, "add a `capacity`, and a `past_len`")
    elif case.largest("past_len") == 0:
        message = "`beams` without a past have nothing to read of each other"
        yield Impossible(Mistake.BUFFERS, ("past_len", "beams"), message, "add a `past_len`")
    if case.differs("past_len"):
        message = "the beams of a sequence have one past_len: a token that one of them reads is at its place in all"
        yield Impossible(Mistake.RAGGED, ("past_len", "beams"), message, "use one past_len for all")
    if case.session:
        message = "`beams` of a session would be chosen anew at each step"
        yield Impossible(Mistake.STEPS, ("beams", "steps"), message, "use one call")


RULES: Rules = (
    (("query_seqlens", "window_cache", "past", "capacity", *SIZES), _told),
    (("kv_cache", "kv_scales", "window_cache", "capacity", "head_dim", *SIZES), _quantised),
    (("window_cache", "window", "capacity", "scores", "past"), _window_cache),
    (("op", "capacity", *SIZES), _cross),
    (("op", "past", "capacity", *SIZES), _buffers),
    (("op", "beams", "capacity", "steps", *SIZES), _beams),
)
