"""The axes and keys of the scenario language: the one definition of each.

The pydantic models, the JSON Schema, the docs, `--case` and `--set` are all derived from these tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from attncheck.scenario.diagnostics import listed
from attncheck.scenario.model import DataKind, DType, Kernel, Op, RotaryStyle

INT32 = 2**31 - 1
BATCH_LIMIT = 65_536
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""Names of scenarios and tags: no character that a shell, a glob or a case id treats specially."""


@dataclass(frozen=True)
class Integer:
    """An integer within bounds, or one word in its place."""

    minimum: int
    maximum: int = INT32
    word: str | None = None

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        upper = f" to {self.maximum:,}" if self.maximum != INT32 else " up"
        return f"an integer from {self.minimum}{upper}" + (f", or `{self.word}`" if self.word else "")


@dataclass(frozen=True)
class Positive:
    """A finite number above 0, or one word in its place."""

    word: str | None = None

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        return "a number above 0" + (f", or `{self.word}`" if self.word else "")


@dataclass(frozen=True)
class Choice:
    """One of a closed list of words."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        return listed(self.words)


@dataclass(frozen=True)
class Boolean:
    """true or false."""

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        return "`true` or `false`"


@dataclass(frozen=True)
class PerBatch:
    """An integer for every batch entry, or a list with one for each."""

    minimum: int

    @property
    def allowed(self) -> str:
        """What may stand here, as messages and docs say it."""
        return f"an integer from {self.minimum} up, or a list of them, one a batch entry"


Values = Integer | Positive | Choice | Boolean | PerBatch


@dataclass(frozen=True)
class Axis:
    """One axis: what it may be, what it is when left out, what it means.

    default       the value when left out; None where it follows from other axes or from outside
    otherwise     the default in words, where `default` is None
    """

    name: str
    values: Values
    meaning: str
    unit: str = ""
    default: int | float | bool | str | None = None
    otherwise: str = ""

    @property
    def default_text(self) -> str:
        """The default as the docs show it."""
        if self.default is None:
            return self.otherwise
        return f"`{str(self.default).lower() if isinstance(self.default, bool) else self.default}`"


@dataclass(frozen=True)
class Key:
    """A key of the language that is not an axis."""

    name: str
    allowed: str
    meaning: str


AXES: dict[str, Axis] = {
    axis.name: axis
    for axis in (
        Axis(
            "op",
            Choice(get_args(Op)),
            "the operator: `com.microsoft.GroupQueryAttention` or "
            "`com.microsoft.MultiHeadAttention` with the KV heads repeated",
            default="gqa",
        ),
        Axis(
            "dtype", Choice(get_args(DType)), "element type of every floating-point input and output", default="float32"
        ),
        Axis(
            "batch",
            Integer(1, BATCH_LIMIT),
            "independent sequences in one call",
            "sequences",
            otherwise="length of the lists in `q_len` and `past_len`, else 1",
        ),
        Axis("q_len", PerBatch(1), "new tokens of each batch entry: rows of query, key and value", "tokens", default=1),
        Axis("past_len", PerBatch(0), "tokens already in the KV cache; 0 everywhere: prefill", "tokens", default=0),
        Axis(
            "capacity",
            Integer(1, word="exact"),
            "length of the KV buffers, at least past_len + q_len; `exact`: no longer than needed; gqa only",
            "tokens",
            default="exact",
        ),
        Axis("heads", Integer(1), "query heads", "heads", default=4),
        Axis("kv_heads", Integer(1), "key/value heads; divides `heads`", "heads", otherwise="`heads`"),
        Axis("head_dim", Integer(1), "width of a head, of values too", "elements", default=16),
        Axis(
            "scale",
            Positive("default"),
            "factor on q·k; `default`: 1/sqrt(head_dim), the operator's own",
            default="default",
        ),
        Axis(
            "softcap",
            Positive("none"),
            "score becomes softcap · tanh(score / softcap), before the softmax; gqa only",
            default="none",
        ),
        Axis(
            "window", Integer(1, word="none"), "keys a query sees, itself included; gqa only", "tokens", default="none"
        ),
        Axis("causal", Boolean(), "a query sees no later key; gqa is always causal", default=True),
        Axis(
            "rotary",
            Choice(("none", *get_args(RotaryStyle))),
            "rotary embedding of queries and new keys: "
            "`half` pairs d with d + rotary_dim/2, `interleaved` pairs 2d with 2d + 1; gqa only",
            default="none",
        ),
        Axis(
            "rotary_dim",
            Integer(2),
            "leading elements of a head that turn; even, at most head_dim",
            "elements",
            otherwise="`head_dim`",
        ),
        Axis(
            "rotary_cache",
            Integer(1),
            "rows of the cos and sin caches; at least the largest past_len + q_len",
            "rows",
            otherwise="the largest past_len + q_len",
        ),
        Axis("data", Choice(get_args(DataKind)), "kind of numbers in the inputs", default="normal"),
        Axis("seed", Integer(0, 2**32 - 1), "seed of the inputs", default=0),
        Axis(
            "kernel",
            Choice(get_args(Kernel)),
            "attncheck's own kernel path; `auto` runs both and compares them",
            otherwise="the command line's `--kernel`",
        ),
    )
}

KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key(
            "name",
            "a name of letters, digits, `.`, `_` and `-`, beginning with a letter or digit",
            "names the scenario, once a file",
        ),
        Key("about", "a text", "what kind of fault the scenario is there to catch"),
        Key("tags", "a list of names, like [smoke, f16]", "words to select by; those of `defaults` are added"),
        Key("matrix", "a mapping of axes to lists of values", "axes to sweep: a case for each combination"),
        Key(
            "exclude",
            "a list of mappings of axes to values, like [{op: mha, window: 3}]",
            "combinations to leave out; inside `matrix`",
        ),
        Key(
            "tolerance",
            "{max_abs: NUMBER} or {BACKEND: {max_abs: NUMBER}}",
            "replaces the derived tolerance, everywhere or for the backends named",
        ),
        Key("max_abs", "a number above 0", "the largest absolute error that passes"),
        Key(
            "defaults",
            "a mapping of axes and keys to values",
            "what every scenario of the file has unless it says otherwise",
        ),
        Key("scenarios", "a list of scenarios, each a mapping with a name", "what to test"),
    )
}


def spell(value: object) -> str:
    """The one spelling of an axis value, in ids and on the command line: `3`, `0.25`, `true`, `3+1+5`, `half`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value).removesuffix(".0").replace("e+", "e")
    if isinstance(value, (list, tuple)):
        return "+".join(spell(item) for item in value)
    return str(value)
