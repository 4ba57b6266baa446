"""The values of one case with every default filled in, and how a broken rule is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from attncheck.scenario import steps
from attncheck.scenario.axes import AXES, LINEARS, SHIFT
from attncheck.scenario.diagnostics import Mistake

LENGTHS = ("q_len", "past_len", "kv_len")
"""The axes that may hold a list over the batch."""
SIZES = ("batch", *LENGTHS)
"""What a rule looks at that asks for lengths."""

TEXTS = {
    "gqa": "GroupQueryAttention",
    "mha": "MultiHeadAttention",
    "decoder-mha": "DecoderMaskedMultiHeadAttention",
    "ms-attention": "com.microsoft Attention",
    "attention": "ai.onnx Attention",
    "rotary": "ai.onnx RotaryEmbedding",
    "ms-rotary": "com.microsoft RotaryEmbedding",
    "linear": "ai.onnx LinearAttention",
    "ms-linear": "com.microsoft LinearAttention",
    "sparse": "SparseAttention",
    "paged": "PagedAttention",
}
"""The name of each operator in messages."""
MASKED = {"mha": "key_padding_mask", "decoder-mha": "mask_index", "ms-attention": "mask_index"}
"""Operators that say ragged lengths with a mask of keys, and its name."""

_BEHIND: dict[str, tuple[str, ...]] = {
    "batch": (*LENGTHS, "steps", "beams"),
    "q_len": ("steps",),
    "past_len": ("steps",),
    "kv_heads": ("heads",),
    "rotary": ("op",),
    "dtype": ("op",),
    "rotary_dim": ("head_dim",),
    "v_head_dim": ("head_dim",),
    "input_dim": ("heads", "head_dim"),
    "opset": ("window", "window_right", "capacity", "mask_len"),
    "rotary_cache": ("positions", "batch", *LENGTHS, "steps"),
}
"""Axis -> those that its value follows from where it is left out."""

Value = int | float | bool | str | tuple[int, ...] | tuple[float, ...] | tuple[steps.Written, ...]


def session_of(values: Mapping[str, Value]) -> tuple[steps.Written, ...]:
    """The steps that axis values hold; none where they say one call."""
    return cast("tuple[steps.Written, ...]", values.get("steps", ()))


@dataclass(frozen=True)
class Impossible:
    """A broken rule: the axis to point at (the first one written, of several), what is wrong, what to do."""

    kind: Mistake
    axes: tuple[str, ...]
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Complete:
    """Axis values with every default filled in.

    written  the axes that somebody wrote
    refused  whether this is a step that goes further than the operator allows
    follows  whether this is a later step of a session
    """

    values: Mapping[str, Value]
    written: frozenset[str]
    batch: int
    refused: bool = False
    follows: bool = False

    @property
    def op(self) -> str:
        """The operator."""
        return str(self.values["op"])

    def differs(self, axis: str) -> bool:
        """Whether the value of an axis differs over the batch."""
        value = self.values[axis]
        return isinstance(value, tuple) and len(set(value)) > 1

    def integer(self, axis: str) -> int:
        """The value of an axis that holds one integer."""
        value = self.values[axis]
        assert isinstance(value, int)
        return value

    def lengths(self, axis: str) -> tuple[int, ...]:
        """A value for each batch entry. Only sound after the batch rule."""
        value = self.values[axis]
        return cast("tuple[int, ...]", value) if isinstance(value, tuple) else (self.integer(axis),) * self.batch

    def largest(self, axis: str) -> int:
        """The largest value over the batch."""
        value = self.values[axis]
        return max(cast("tuple[int, ...]", value)) if isinstance(value, tuple) else self.integer(axis)

    def has(self, axis: str) -> bool:
        """Whether an axis is set to something else than its default, written or not."""
        return self.values.get(axis) != AXES[axis].default

    @property
    def lists_fit(self) -> bool:
        """Whether every list over the batch is as long as the batch."""
        lists = (value for axis in LENGTHS if isinstance(value := self.values[axis], tuple))
        own = (value for step in self.session for value in (step.q_len, step.accept) if isinstance(value, tuple))
        return all(len(one) == self.batch for one in (*lists, *own))

    @property
    def session(self) -> tuple[steps.Written, ...]:
        """The steps of a session, as they were written; none: one call."""
        return session_of(self.values)

    @property
    def calls(self) -> Iterator[Complete]:
        """Each call of a session as a case of its own; one call as it is. Only sound after the batch rule."""
        if not self.session:
            yield self
            return
        every = steps.unrolled(self.session, self.batch)
        for number, (step, past) in enumerate(zip(every, steps.pasts(every, self.lengths("past_len")), strict=True)):
            values = {axis: value for axis, value in self.values.items() if axis != "steps"}
            # Linear attention has a state for a past, which has no length.
            past_len = self.values["past_len"] if self.op in LINEARS else past
            values |= {"q_len": step.q_len, "past_len": past_len, "kv_len": "auto"}
            if number:
                values["past"] = "auto"
            yield Complete(values, self.written - {"steps"}, self.batch, step.refused, number > 0)

    def grows(self, capacity: int) -> bool:
        """Whether a buffer of GroupQueryAttention grows: its past fills it, or the graph says which tokens are new."""
        return self.values["query_seqlens"] is True or self.largest("past_len") >= capacity

    @property
    def cross(self) -> bool:
        """Whether kv_len is said, and is not past_len + q_len."""
        return self.values["kv_len"] != "auto"

    @property
    def kv_len(self) -> tuple[int, ...]:
        """Keys of each batch entry. Only sound after the batch rule."""
        return self.lengths("kv_len") if self.cross else steps.after(self.lengths("past_len"), self.lengths("q_len"))

    @property
    def positions(self) -> int:
        """How many rotary positions there are. Only sound after the batch rule."""
        return self.longest + (SHIFT if self.values["positions"] == "shifted" else 0)

    @property
    def positions_with_padding(self) -> int:
        """As `positions`, and for padded rows of a chunk after the longest past. Only sound after the batch rule."""
        if self.values["query_seqlens"] is not True:
            return self.positions
        return max(self.positions, self.largest("past_len") + self.largest("q_len"))

    @property
    def lowest_opset(self) -> int:
        """The oldest ai.onnx Attention that has what the case needs."""
        if self.has("window") or self.has("window_right"):
            return 25
        return 24 if self.has("capacity") or self.has("mask_len") else 23

    @property
    def longest(self) -> int:
        """The largest kv_len. Only sound after the batch rule."""
        if self.cross:
            return self.largest("kv_len")
        queries, pasts = self.values["q_len"], self.values["past_len"]
        if isinstance(queries, tuple) or isinstance(pasts, tuple):
            return max(map(sum, zip(self.lengths("q_len"), self.lengths("past_len"), strict=True)))
        return self.integer("q_len") + self.integer("past_len")


Rule = Callable[[Complete], Iterator[Impossible]]
Rules = tuple[tuple[tuple[str, ...], Rule], ...]
"""Each rule behind the axes that it needs to be usable, beside those that they follow from."""


def behind(axes: Iterable[str]) -> frozenset[str]:
    """`axes`, and those that their values follow from where they are left out."""
    given = frozenset(axes)
    return given.union(*(_BEHIND.get(axis, ()) for axis in given))
