"""Which steps can follow each other, and what can stand beside them. Each step must also be possible by itself."""

from __future__ import annotations

from collections.abc import Iterator

from attncheck.scenario.axes import LINEARS
from attncheck.scenario.complete import SIZES, Complete, Impossible, Rules
from attncheck.scenario.diagnostics import Mistake
from attncheck.scenario.steps import LIMIT, Written, over, pasts, spelled, unrolled
from attncheck.scenario.turning import FREE


def _number(case: Complete) -> Iterator[Impossible]:
    number = sum(step.repeat for step in case.session)
    if number > LIMIT:
        message = f"these are {number} steps, more than {LIMIT}"
        yield Impossible(Mistake.STEPS, ("steps",), message, "repeat less, or make several scenarios")


def _beside(case: Complete) -> Iterator[Impossible]:
    if not case.session:
        return
    if "q_len" in case.written:
        message = "`q_len` is said by each step, so there is none beside `steps`"
        yield Impossible(Mistake.STEPS, ("q_len", "steps"), message, "remove it, or say `q_len` inside a step")
    if case.cross:
        message = "a step has past_len + q_len keys, so there is no `kv_len` beside `steps`"
        yield Impossible(Mistake.STEPS, ("kv_len", "steps"), message, "remove one of the two")
    for axis, refused in (("rotary_cache", ("absent",)), ("positions", ("negative", "beyond", "one-row"))):
        if case.values["rotary"] != "none" and case.values[axis] in refused:
            message = f"a graph with `{axis}: {case.values[axis]}` must be refused, so no step can follow it"
            yield Impossible(Mistake.STEPS, (axis, "steps"), message, "remove one of the two")


def _handed_on(case: Complete) -> Iterator[Impossible]:
    """The present of a step is the past of the next, but where the caller keeps the cache."""
    callers = case.op == "attention" and case.has("capacity")
    if case.session and case.values["present"] == "absent" and not callers:
        message = "with `present: absent` a step leaves nothing that the next one could have as its past"
        yield Impossible(Mistake.STEPS, ("present", "steps"), message, "use `present: asked`")


def _rewound(case: Complete) -> Iterator[Impossible]:
    """A state cannot go back, nor a cache of the window's keys once it has evicted any for a dropped token."""
    if not case.session or not case.lists_fit:
        return
    calls = unrolled(case.session, case.batch)
    if case.op in LINEARS and any(step.accept != step.q_len for step in calls):
        message = f"the state of {case.op} cannot be rewound: what a dropped token did to it stays"
        yield Impossible(Mistake.STEPS, ("steps", "op"), message, "leave out `accept`")
    if case.values["window_cache"] is not True:
        return
    held = next((it for axis in ("capacity", "window") if isinstance(it := case.values[axis], int)), None)
    if held is None:
        return
    for step, past in zip(calls, pasts(calls, case.lengths("past_len")), strict=True):
        tokens = max(
            (before + new for before, new, kept in zip(past, step.q_len, step.accept, strict=True) if kept < new),
            default=0,
        )
        if tokens > held:
            message = (
                f"a `window_cache` of {held} rows cannot be rewound from {tokens} tokens: the keys that it evicted for "
                "the dropped ones do not come back"
            )
            hint = f"leave out `accept`, or give `capacity: {tokens}` or more"
            yield Impossible(Mistake.STEPS, ("steps", "window_cache"), message, hint)
            return


def _lengths(case: Complete) -> Iterator[Impossible]:
    for step in case.session:
        yield from _of_step(case, step)


def _of_step(case: Complete, step: Written) -> Iterator[Impossible]:
    called = f"the step `{step.label or spelled([step])}`"
    for name, lengths in (("q_len", step.q_len), ("accept", step.accept)):
        if isinstance(lengths, tuple) and len(lengths) != case.batch:
            message = f"{called} has {len(lengths)} numbers in `{name}`, but the batch is {case.batch}"
            yield Impossible(Mistake.BATCH, ("steps",), message, "one for each entry, or a single number for all")
            return
    if step.accept is None:
        return
    for new, kept in zip(over(step.q_len, case.batch), over(step.accept, case.batch), strict=True):
        if kept > new:
            message = f"{called} keeps {kept} tokens of {new}"
            yield Impossible(Mistake.STEPS, ("steps",), message, f"accept: {new} at most, or leave it out to keep all")
            return


def _order(case: Complete) -> Iterator[Impossible]:
    """What no later step can have as its past."""
    if not case.session or not case.lists_fit or case.op not in ("mha", "ms-attention"):
        return
    *before, _ = unrolled(case.session, case.batch)
    if any(len(set(step.q_len)) > 1 or len(set(step.accept)) > 1 for step in before):
        message = "this operator keeps no lengths: what a ragged step leaves cannot be the past of the next"
        hint = "use one `q_len` and one `accept` for the whole batch, or `op: gqa`"
        yield Impossible(Mistake.RAGGED, ("steps", "op"), message, hint)


def _refused(case: Complete) -> Iterator[Impossible]:
    """A step that must be refused comes last, once, and goes beyond something."""
    if not case.session or not case.lists_fit:
        return
    for step in (*case.session[:-1], *((case.session[-1],) if case.session[-1].repeat > 1 else ())):
        if step.refused:
            message = "what must be refused leaves no present, so that no step can follow it"
            hint = "say `refused` of the last step alone, without `repeat`"
            yield Impossible(Mistake.STEPS, ("steps",), message, hint)
            return
    *_, last = case.calls
    if last.refused and not (_beyond_capacity(last) or _beyond_caches(last)):
        message = "the operator allows this last step: it goes beyond no capacity, and beyond no rotary caches"
        hint = "leave out `refused`, or add a `capacity` or `rotary_cache` that ends before it does"
        yield Impossible(Mistake.STEPS, ("steps",), message, hint)


def _beyond_capacity(call: Complete) -> bool:
    """Whether the keys of a call do not fit: into buffers, that is, which do not grow; pages are added at will."""
    capacity = call.values["capacity"]
    fixed = call.values["window_cache"] is not True and call.op != "paged"
    if not fixed or not isinstance(capacity, int) or call.longest <= capacity:
        return False
    return call.op != "gqa" or not call.grows(capacity)


def _beyond_caches(call: Complete) -> bool:
    rows = call.values["rotary_cache"]
    reads = call.values["rotary"] != "none" and call.op != "ms-attention"
    return reads and isinstance(rows, int) and str(call.values["positions"]) not in FREE and call.positions > rows


_BUFFERS = ("steps", "op", "capacity", "window_cache", "query_seqlens", "rotary", "rotary_cache", "positions")
RULES: Rules = (
    (("steps",), _number),
    (("steps", "q_len", "kv_len", "rotary", "rotary_cache", "positions"), _beside),
    (("steps", "op", "present", "capacity"), _handed_on),
    (("steps", "batch"), _lengths),
    (("steps", "op", "capacity", "window", "window_cache", *SIZES), _rewound),
    (("steps", "op", *SIZES), _order),
    ((*_BUFFERS, *SIZES), _refused),
)
