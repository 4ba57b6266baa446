"""Which combinations of axis values can be: every rule that looks at more than one axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from attncheck.scenario.diagnostics import Mistake
from attncheck.scenario.memory import Part, Shape, parts, readable

Value = int | float | bool | str | tuple[int, ...]


@dataclass(frozen=True)
class Impossible:
    """A broken rule: the axis to point at (the first one written, of several), what is wrong, what to do."""

    kind: Mistake
    axes: tuple[str, ...]
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Complete:
    """Axis values with every default filled in. `written` are the axes that somebody wrote."""

    values: Mapping[str, Value]
    written: frozenset[str]
    batch: int

    def integer(self, axis: str) -> int:
        """The value of an axis that holds one integer."""
        value = self.values[axis]
        assert isinstance(value, int)
        return value

    def lengths(self, axis: str) -> tuple[int, ...]:
        """A value for each batch entry. Only sound after the batch rule."""
        value = self.values[axis]
        return value if isinstance(value, tuple) else (self.integer(axis),) * self.batch

    def largest(self, axis: str) -> int:
        """The largest value over the batch."""
        value = self.values[axis]
        return max(value) if isinstance(value, tuple) else self.integer(axis)

    @property
    def longest(self) -> int:
        """The largest kv_len. Only sound after the batch rule."""
        queries, pasts = self.values["q_len"], self.values["past_len"]
        if isinstance(queries, tuple) or isinstance(pasts, tuple):
            return max(map(sum, zip(self.lengths("q_len"), self.lengths("past_len"), strict=True)))
        return self.integer("q_len") + self.integer("past_len")


Rule = Callable[[Complete], Iterator[Impossible]]


def impossibilities(case: Complete, unusable: frozenset[str], memory_limit: int) -> Iterator[Impossible]:
    """Every rule that `case` breaks; one that needs an axis in `unusable`, whose mistake is known, stays silent."""
    for needs, rule in _RULES:
        if unusable.isdisjoint(needs):
            yield from rule(case)
    if unusable.isdisjoint(_MEMORY_NEEDS) and not any(_batch(case)):
        yield from _memory(case, memory_limit)


def _batch(case: Complete) -> Iterator[Impossible]:
    for axis in ("q_len", "past_len"):
        value = case.values[axis]
        if isinstance(value, tuple) and len(value) != case.batch:
            other = "past_len" if axis == "q_len" else "q_len"
            against = f"batch is {case.batch}" if "batch" in case.written else f"`{other}` lists {case.batch}"
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


_FEATURES = {"softcap": "none", "window": "none", "rotary": "none", "capacity": "exact"}


def _gqa_only(case: Complete) -> Iterator[Impossible]:
    if case.values["op"] != "mha":
        return
    for axis, off in _FEATURES.items():
        if case.values[axis] != off:
            hint = f"use `op: gqa`, or `{axis}: {off}`; in a matrix, exclude the combination"
            yield Impossible(
                Mistake.GQA_ONLY, (axis, "op"), f"`{axis}` does not exist on mha (MultiHeadAttention)", hint
            )


def _always_causal(case: Complete) -> Iterator[Impossible]:
    if case.values["op"] == "gqa" and case.values["causal"] is False:
        yield Impossible(
            Mistake.ALWAYS_CAUSAL,
            ("causal", "op"),
            "gqa (GroupQueryAttention) is always causal",
            "use `op: mha`, or `causal: true`",
        )


def _ragged(case: Complete) -> Iterator[Impossible]:
    if any(_batch(case)):
        return
    queries = case.values["q_len"]
    if isinstance(queries, tuple) and len(set(queries)) > 1 and case.largest("past_len") > 0:
        why = {
            "gqa": "GroupQueryAttention is told the total lengths only, and takes q_len = min(rows, kv_len)",
            "mha": "MultiHeadAttention's key padding mask cannot hold a past before new keys of different lengths",
        }[str(case.values["op"])]
        yield Impossible(
            Mistake.RAGGED,
            ("q_len", "past_len"),
            f"q_len may differ over the batch only where every past_len is 0: {why}",
            "use one q_len for all, or `past_len: 0`",
        )


def _capacity(case: Complete) -> Iterator[Impossible]:
    capacity = case.values["capacity"]
    if not isinstance(capacity, int) or any(_batch(case)):
        return
    past = case.largest("past_len")
    if past > capacity:
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


def _rotary(case: Complete) -> Iterator[Impossible]:
    if case.values["rotary"] == "none":
        for axis in ("rotary_dim", "rotary_cache"):
            if axis in case.written and "rotary" not in case.written:
                yield Impossible(
                    Mistake.ROTARY,
                    (axis,),
                    f"`{axis}` without `rotary` has no effect",
                    "add `rotary: half` or `interleaved`",
                )
        return
    turning, width = case.integer("rotary_dim"), case.integer("head_dim")
    if turning % 2:
        default = "" if "rotary_dim" in case.written else " (by default head_dim)"
        yield Impossible(
            Mistake.ROTARY,
            ("rotary_dim", "head_dim"),
            f"rotary_dim must be even, not {turning}{default}: elements turn in pairs",
            f"rotary_dim: {max(2, turning - 1)}",
        )
    if turning > width:
        yield Impossible(
            Mistake.ROTARY,
            ("rotary_dim", "head_dim"),
            f"a rotary_dim of {turning} exceeds a head_dim of {width}",
            "at most head_dim",
        )


def _rotary_cache(case: Complete) -> Iterator[Impossible]:
    if case.values["rotary"] == "none" or any(_batch(case)):
        return
    rows = case.integer("rotary_cache")
    if rows < case.longest:
        message = f"a rotary_cache of {rows} rows is too short: positions reach {case.longest - 1}"
        yield Impossible(Mistake.ROTARY, ("rotary_cache",), message, f"rotary_cache: {case.longest} or more")


_LENGTHS = ("batch", "q_len", "past_len")
_RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
    (_LENGTHS, _batch),
    (("heads", "kv_heads"), _heads),
    (("op", *_FEATURES), _gqa_only),
    (("op", "causal"), _always_causal),
    (("op", *_LENGTHS), _ragged),
    (("capacity", *_LENGTHS), _capacity),
    (("rotary", "rotary_dim", "head_dim"), _rotary),
    (("rotary", "rotary_cache", *_LENGTHS), _rotary_cache),
)
_MEMORY_NEEDS = (
    "dtype",
    *_LENGTHS,
    "capacity",
    "heads",
    "kv_heads",
    "head_dim",
    "rotary",
    "rotary_dim",
    "rotary_cache",
)


def _memory(case: Complete, limit: int) -> Iterator[Impossible]:
    capacity = case.values["capacity"]
    rotates = case.values["rotary"] != "none"
    shape = Shape(
        dtype=str(case.values["dtype"]),
        batch=case.batch,
        rows=case.largest("q_len"),
        slots=max(case.longest, capacity) if isinstance(capacity, int) else case.longest,
        heads=case.integer("heads"),
        # An operator with the KV heads repeated holds `heads` of them.
        kv_heads=case.integer("kv_heads" if case.values["op"] == "gqa" else "heads"),
        head_dim=case.integer("head_dim"),
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
        "keys": ("capacity", "past_len", "q_len"),
        "rotary_dim/2": ("rotary_dim",),
    }
    written = {axis for name, _ in part.sizes for axis in axes.get(name, (name,)) if axis in case.written}
    numbers = {axis: case.largest(axis) for axis in written if not isinstance(case.values[axis], str)}
    return tuple(sorted(numbers, key=lambda axis: (-numbers[axis], axis)))
