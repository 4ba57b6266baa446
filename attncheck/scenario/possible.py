"""Which combinations of axis values can be: every rule that looks at more than one axis, whatever the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

from attncheck.scenario import operators, turning
from attncheck.scenario.complete import LENGTHS, Complete, Impossible, behind
from attncheck.scenario.diagnostics import Mistake
from attncheck.scenario.memory import Part, Shape, parts, readable

Rule = Callable[[Complete], Iterator[Impossible]]


def impossibilities(case: Complete, unusable: frozenset[str], memory_limit: int) -> Iterator[Impossible]:
    """Every rule that `case` breaks; one that needs an axis in `unusable`, whose mistake is known, stays silent."""
    for needs, rule in rules(memory_limit):
        if unusable.isdisjoint(needs):
            yield from rule(case)


@cache
def rules(memory_limit: int) -> tuple[tuple[frozenset[str], Rule], ...]:
    """Every rule, with the axes that it looks at: those that their values follow from, where left out, included."""
    listed: tuple[tuple[tuple[str, ...], Rule], ...] = (*_RULES, (_MEMORY_NEEDS, partial(_memory, memory_limit)))
    return tuple((behind(needs), rule) for needs, rule in listed)


def _batch(case: Complete) -> Iterator[Impossible]:
    for axis in LENGTHS:
        value = case.values[axis]
        if isinstance(value, tuple) and len(value) != case.batch:
            lists = {other: case.values[other] for other in LENGTHS}
            right = (other for other, one in lists.items() if isinstance(one, tuple) and len(one) == case.batch)
            against = f"batch is {case.batch}" if "batch" in case.written else f"`{next(right)}` lists {case.batch}"
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
    if heads % kv_heads:
        divisors = [n for n in range(1, min(heads, 4096) + 1) if heads % n == 0]
        near = min(divisors, key=lambda n: abs(n - kv_heads))
        message = f"heads must be a multiple of kv_heads: {heads} / {kv_heads} leaves {heads % kv_heads}"
        yield Impossible(
            Mistake.HEADS, ("kv_heads", "heads"), message, f"nearest kv_heads that divides {heads}: {near}"
        )


def _capacity(case: Complete) -> Iterator[Impossible]:
    capacity = case.values["capacity"]
    if not isinstance(capacity, int) or not case.lists_fit or case.values["window_cache"] is True:
        return
    past = case.largest("past_len")
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


_SIZES = ("batch", *LENGTHS)
_RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (_SIZES, _batch),
    (("heads", "kv_heads"), _heads),
    (("capacity", "window_cache", *_SIZES), _capacity),
    *turning.RULES,
    *operators.RULES,
)
_MEMORY_NEEDS = (
    "op",
    "dtype",
    *_SIZES,
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
)


def _memory(limit: int, case: Complete) -> Iterator[Impossible]:
    if not case.lists_fit:
        return
    capacity = case.values["capacity"]
    cache = case.values["rotary_cache"]
    rotates = case.values["rotary"] != "none" and isinstance(cache, int)
    shape = Shape(
        dtype=str(case.values["dtype"]),
        batch=case.batch,
        rows=case.largest("q_len"),
        slots=max(case.longest, capacity) if isinstance(capacity, int) else case.longest,
        heads=case.integer("heads"),
        # An operator with the KV heads repeated holds `heads` of them.
        kv_heads=case.integer("heads" if case.values["op"] == "mha" else "kv_heads"),
        head_dim=max(case.integer("head_dim"), case.integer("v_head_dim")),
        over_scores=sum(case.has(axis) for axis in ("bias", "mask", "scores")),
        rotary_cache=case.integer("rotary_cache") if rotates else 0,
        rotary_dim=case.integer("rotary_dim") if rotates else 0,
    )
    largest_first = sorted(parts(shape), key=lambda part: part.size, reverse=True)
    total = sum(part.size for part in largest_first)
    if total > limit:
        message = (
            f"this case would take {readable(total)}, more than the limit of {readable(limit)}: {largest_first[0]}"
        )
        blamed = _blamed(case, largest_first[0])
        yield Impossible(Mistake.MEMORY, blamed, message, "use smaller sizes, or raise the limit with --memory-limit")


def _blamed(case: Complete, part: Part) -> tuple[str, ...]:
    """The axes that make the largest arrays large, the largest number first."""
    axes = {
        "batch": ("batch",),
        "keys": ("capacity", "kv_len", "past_len", "q_len"),
        "head_dim": ("head_dim", "v_head_dim"),
        "rotary_dim/2": ("rotary_dim",),
    }
    written = {axis for name, _ in part.sizes for axis in axes.get(name, (name,)) if axis in case.written}
    numbers = {axis: case.largest(axis) for axis in written if not isinstance(case.values[axis], str)}
    return tuple(sorted(numbers, key=lambda axis: (-numbers[axis], axis)))
