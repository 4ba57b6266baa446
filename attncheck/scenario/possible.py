"""Which combinations of axis values can be: every rule that looks at more than one axis, whatever the operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial

from attncheck.scenario import buffers, masks, operators, packing, paging, recurring, session_rules, turning
from attncheck.scenario.axes import LINEARS, ROTARIES
from attncheck.scenario.complete import LENGTHS, MASKED, SIZES, Complete, Impossible, Rule, Rules, behind
from attncheck.scenario.diagnostics import Mistake
from attncheck.scenario.memory import Part, Shape, parts, readable


def impossibilities(case: Complete, unusable: frozenset[str], memory_limit: int) -> Iterator[Impossible]:
    """Every rule that `case` breaks; one that needs an axis in `unusable`, whose mistake is known, stays silent."""
    for needs, rule in rules(memory_limit):
        if unusable.isdisjoint(needs):
            yield from rule(case)


@cache
def rules(memory_limit: int) -> tuple[tuple[frozenset[str], Rule], ...]:
    """Every rule, with the axes that it looks at: those that their values follow from, where left out, included.

    A rule on lengths holds for each step of a session.
    """
    of_a_call: Rules = (*_RULES, (_MEMORY_NEEDS, partial(_memory, memory_limit)))
    of_all: Rules = (
        (SIZES, _batch),
        *session_rules.RULES,
        (_MEMORY_NEEDS, partial(_memory_together, memory_limit)),
    )
    return (
        *((behind(needs), rule) for needs, rule in of_all),
        *(_of_each_call(needs, rule) for needs, rule in of_a_call),
    )


def _of_each_call(needs: tuple[str, ...], rule: Rule) -> tuple[frozenset[str], Rule]:
    """A rule on one call; where it looks at what each step has of its own, on every step, whose lists must fit."""
    if not _on_lengths(needs):
        return behind(needs), rule
    # A step knows by the operator whether it has a past of some length.
    return behind((*needs, "op", "batch", *LENGTHS)), _of_steps(rule)


def _on_lengths(needs: tuple[str, ...]) -> bool:
    """Whether a rule looks at what each step of a session has of its own."""
    return "steps" in behind(needs) and "steps" not in needs


def _of_steps(rule: Rule) -> Rule:
    return partial(_in_each_step, rule)


def _in_each_step(rule: Rule, case: Complete) -> Iterator[Impossible]:
    """What the first step that breaks a rule says; one call by itself as it is."""
    if not case.session:
        yield from rule(case)
        return
    for number, call in enumerate(case.calls if case.lists_fit else (), 1):
        found = list(rule(call))
        for impossible in found:
            axes = tuple("steps" if axis == "q_len" else axis for axis in impossible.axes)
            yield replace(impossible, axes=axes, message=f"{impossible.message} (in step {number})")
        if found:
            return


def _batch(case: Complete) -> Iterator[Impossible]:
    axes = [axis for axis in LENGTHS if not (case.session and axis == "q_len")]
    for axis in axes:
        value = case.values[axis]
        if isinstance(value, tuple) and len(value) != case.batch:
            lists = {other: case.values[other] for other in axes}
            right = (other for other, one in lists.items() if isinstance(one, tuple) and len(one) == case.batch)
            longest = f"`{next(right, 'steps')}` lists {case.batch}"
            against = f"batch is {case.batch}" if "batch" in case.written else longest
            yield Impossible(
                Mistake.BATCH,
                (axis,),
                f"`{axis}` lists {_counted(len(value), 'length')}, but {against}",
                "one entry for each, or a single number for all",
            )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _heads(case: Complete) -> Iterator[Impossible]:
    heads, kv_heads = case.integer("heads"), case.integer("kv_heads")
    shared = case.op == "ms-linear" and kv_heads % heads == 0
    if heads % kv_heads and not shared:
        divisors = [n for n in range(1, min(heads, 4096) + 1) if heads % n == 0]
        near = min(divisors, key=lambda n: abs(n - kv_heads))
        message = f"heads must be a multiple of kv_heads: {heads} / {kv_heads} leaves {heads % kv_heads}"
        yield Impossible(
            Mistake.HEADS, ("kv_heads", "heads"), message, f"nearest kv_heads that divides {heads}: {near}"
        )


def _capacity(case: Complete) -> Iterator[Impossible]:
    capacity = case.values["capacity"]
    if not isinstance(capacity, int) or not case.lists_fit or case.values["window_cache"] is True or case.refused:
        return
    past = case.largest("past_len")
    if case.op == "gqa" and (case.follows or past <= capacity) and case.grows(capacity):
        return
    if case.cross:
        if case.longest > capacity:
            message = f"a kv_len of {case.longest} does not fit into a capacity of {capacity}"
            yield Impossible(Mistake.CAPACITY, ("capacity", "kv_len"), message, f"capacity: {case.longest} or more")
    elif past > capacity:
        message = f"a past_len of {past} does not fit into a capacity of {capacity}"
        yield Impossible(
            Mistake.CAPACITY, ("capacity", "past_len"), message, f"capacity: {case.longest} or more, or `exact`"
        )
    elif case.longest > capacity:
        message = f"past_len + q_len = {case.longest} keys do not fit into a capacity of {capacity}"
        yield Impossible(
            Mistake.CAPACITY,
            ("capacity", "q_len", "past_len"),
            message,
            f"capacity: {case.longest} or more, or `exact`",
        )


_RULES: Rules = (
    (("op", "heads", "kv_heads"), _heads),
    (("op", "capacity", "window_cache", "query_seqlens", *SIZES), _capacity),
    *turning.RULES,
    *recurring.RULES,
    *paging.RULES,
    *operators.RULES,
    *buffers.RULES,
    *masks.RULES,
    *packing.RULES,
)
_MEMORY_NEEDS = (
    "op",
    "dtype",
    *SIZES,
    "capacity",
    "heads",
    "kv_heads",
    "head_dim",
    "v_head_dim",
    "rotary",
    "rotary_dim",
    "rotary_cache",
    "bias",
    "mask",
    "scores",
    "input_dim",
)


def _shape(case: Complete) -> Shape:
    capacity = case.values["capacity"]
    cache = case.values["rotary_cache"]
    rotates = case.values["rotary"] != "none" and isinstance(cache, int)
    slots = max(case.longest, capacity) if isinstance(capacity, int) else case.longest
    return Shape(
        dtype=str(case.values["dtype"]),
        batch=case.batch,
        rows=case.largest("q_len"),
        slots=0 if case.op in (*ROTARIES, *LINEARS) else slots,
        heads=case.integer("heads"),
        # An operator with the KV heads repeated holds `heads` of them.
        kv_heads=case.integer("heads" if case.op in MASKED else "kv_heads"),
        head_dim=max(case.integer("head_dim"), case.integer("v_head_dim")),
        over_scores=sum(case.has(axis) for axis in ("bias", "mask", "scores")),
        input_dim=case.integer("input_dim") if case.op == "ms-attention" else 0,
        rotary_cache=case.integer("rotary_cache") if rotates else 0,
        rotary_dim=case.integer("rotary_dim") if rotates else 0,
        state_rows=case.integer("head_dim") if case.op in LINEARS else 0,
    )


def _memory(limit: int, case: Complete) -> Iterator[Impossible]:
    if not case.lists_fit:
        return
    largest_first = sorted(parts(_shape(case)), key=lambda part: part.size, reverse=True)
    total = sum(part.size for part in largest_first)
    if total > limit:
        message = (
            f"this case would take {readable(total)}, more than the limit of {readable(limit)}: {largest_first[0]}"
        )
        blamed = _blamed(case, largest_first[0])
        yield Impossible(Mistake.MEMORY, blamed, message, "use smaller sizes, or raise the limit with --memory-limit")


def _memory_together(limit: int, case: Complete) -> Iterator[Impossible]:
    """The steps of a session are held all at once."""
    if not case.session or not case.lists_fit:
        return
    total = sum(part.size for call in case.calls for part in parts(_shape(call)))
    if total > limit:
        message = f"these steps would take {readable(total)} together, more than the limit of {readable(limit)}"
        yield Impossible(Mistake.MEMORY, ("steps",), message, "fewer steps, or raise the limit with --memory-limit")


def _blamed(case: Complete, part: Part) -> tuple[str, ...]:
    """The axes that make the largest arrays large, the largest number first."""
    axes = {
        "batch": ("batch",),
        "keys": ("capacity", "kv_len", "past_len", "q_len"),
        "head_dim": ("head_dim", "v_head_dim"),
        "v_head_dim": ("head_dim", "v_head_dim"),
        "rotary_dim/2": ("rotary_dim",),
    }
    written = {axis for name, _ in part.sizes for axis in axes.get(name, (name,)) if axis in case.written}
    numbers = {axis: case.largest(axis) for axis in written if not isinstance(case.values[axis], str)}
    return tuple(sorted(numbers, key=lambda axis: (-numbers[axis], axis)))
