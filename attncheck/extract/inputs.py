"""What a whole model is fed where nobody gives arrays: sizes of its symbolic dimensions, and integers by their meaning.

The names are those that exporters give: `input_ids`, `attention_mask`, `position_ids`, `past_key_values.0.key`,
`seqlens_k`, `total_sequence_length`. Floats are made up as for a model of one node (`graph.feeds`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from attncheck.graph import feeds, walk
from attncheck.graph.external import UnusableModel
from attncheck.graph.feeds import Arrays, Shapes

BATCH, NEW, PAST = 1, 8, 8
"""Sizes where nobody says any: sequences, new tokens, tokens in the past. ONNX Runtime's CPU attention takes these."""

UNKNOWN_ROWS = 8
"""Tokens are below this where it is not seen how many an embedding has."""

_STEP = 7919
"""A prime: consecutive tokens differ, whatever the number of rows."""


@dataclass(frozen=True)
class Entrance:
    """The inputs of a whole model that must be fed; a `feeds.Fed`."""

    path: Path
    inputs: tuple[onnx.ValueInfoProto, ...]
    constants: Arrays = field(default_factory=dict)


def entrance(path: Path, part: onnx.ModelProto) -> Entrance:
    """What `part` of the model in `path` must be fed: its inputs that no initialiser gives."""
    held = {tensor.name for tensor in part.graph.initializer}
    return Entrance(path, tuple(value for value in part.graph.input if value.name not in held))


def sizes(it: Entrance, said: Mapping[str, int]) -> dict[str, int]:
    """The sizes of all symbolic dimensions: those `said`, and for the others what their names mean.

    Raises UnusableModel with every name that means nothing, for a size of a dimension that there is not, and for a
    total that is said and does not fit its parts.
    """
    feeds.refuse_foreign(it, said)
    symbols = feeds.symbols(it)
    found = dict(said)
    for symbol in sorted(symbols, key=_follows):
        size = found.get(symbol, _size(symbol, found))
        if size is not None:
            found[symbol] = size
    unknown = [symbol for symbol in symbols if symbol not in found]
    if unknown:
        told = " ".join(f"--dim {symbol}=N" for symbol in unknown)
        raise UnusableModel(
            f"{it.path}: no size is known for the symbolic dimension{'s' if len(unknown) > 1 else ''} "
            f"{', '.join(unknown)}: say it with {told}, or give arrays with --inputs"
        )
    for symbol in said:
        _refuse_total(it, symbol, found)
    return {symbol: found[symbol] for symbol in symbols}


_SIZES = {"batch": BATCH, "total": 0, "past": PAST, "cache": PAST, "seq": NEW, "len": NEW}
"""A part of a symbolic dimension's name -> what it is most likely; the first that fits. A total is a sum of others."""


def _size(symbol: str, found: Mapping[str, int]) -> int | None:
    """What a dimension of this name is, beside those found before; None where its name says nothing."""
    if symbol in found or symbol.isdecimal():
        return found[symbol] if symbol in found else int(symbol)
    if "+" in symbol:
        parts = [_size(part.strip(), found) for part in symbol.split("+")]
        return None if None in parts else sum(part for part in parts if part is not None)
    word = _word(symbol)
    if word == "total":
        pasts, news = ([size for name, size in found.items() if _word(name) in words] for words in _PARTS)
        return (pasts[0] if pasts else 0) + (news[0] if news else NEW)
    return None if word is None else _SIZES[word]


def _refuse_total(it: Entrance, symbol: str, found: Mapping[str, int]) -> None:
    """Raise UnusableModel for a total that is neither past + new, nor inside of a past that has room for new tokens."""
    pasts, news = ([name for name in found if _word(name) in words] for words in _PARTS)
    if _word(symbol) != "total" or not pasts or not news:
        return
    total, past, new = found[symbol], found[pasts[0]], found[news[0]]
    if total == past + new or new <= total <= past:
        return
    room = f"from {new} to {past}" if new < past else str(new)
    shared = f", or {room} where the past has room for the new tokens" if new <= past else ""
    raise UnusableModel(
        f"{it.path}: --dim {symbol}={total}: with {news[0]}={new} and {pasts[0]}={past} it must be {past + new}"
        f"{shared}; say the others to fit, or leave it out and it follows"
    )


_PARTS = (("past", "cache"), ("seq", "len"))
"""What a total is made of: words of the past, words of new tokens."""


def _word(symbol: str) -> str | None:
    return next((word for word in _SIZES if word in symbol.lower() and "+" not in symbol), None)


def _follows(symbol: str) -> bool:
    """Whether a size follows from others, which must be found before."""
    return "+" in symbol or _word(symbol) == "total"


def meaning(proto: onnx.ModelProto) -> feeds.Rule:
    """The rule that makes up what an input holds: by its place where a node takes it with inputs that are fed, too.

    Otherwise by its name, tokens by the rows of the embedding they index.
    """
    rows = dict(_embedding_rows(proto))
    axes = _axes(proto)

    def made(value: onnx.ValueInfoProto, shape: tuple[int, ...], shapes: Shapes) -> NDArray[np.generic] | None:
        name, dtype = value.name.lower(), feeds.storage(value)
        placed = _placed(proto, value, shape, shapes)
        if placed is not None:
            return placed
        lengths = _lengths(shapes, axes)
        if dtype.kind == "f":
            return _float_mask(shape, dtype) if "mask" in name else None
        if dtype.kind == "b":
            if "mask" in name:
                return np.full(shape, True)
            return np.full(shape, lengths.past > 0) if "use_cache" in name or "past" in name else None
        if dtype.kind != "i" and dtype.kind != "u":
            return None
        for word, rule in _INTEGERS:
            if word in name:
                return np.broadcast_to(np.asarray(rule(shape, lengths)), shape).astype(dtype)
        if value.name in rows or "ids" in name or "token" in name:
            count = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
            return np.asarray((count + 1) * _STEP % rows.get(value.name, UNKNOWN_ROWS), dtype)
        return None

    return made


@dataclass(frozen=True)
class _Lengths:
    """Tokens of every batch entry, as the shapes of the other inputs tell them."""

    new: int
    past: int

    @property
    def total(self) -> int:
        return self.new + self.past


def _lengths(shapes: Shapes, axes: _Axes) -> _Lengths:
    """By names that exporters give, or else by the symbolic dimensions that mean a past or new tokens."""
    pasts = [shape[-2] for name, shape in shapes.items() if "past" in name.lower() and len(shape) >= 3]
    news = [shape[1] for name, shape in shapes.items() if _is_new(name.lower()) and len(shape) >= 2]
    masks = [shape[-1] for name, shape in shapes.items() if "mask" in name.lower() and len(shape) >= 2]
    past_said, new_said = ([shapes[name][axis] for name, axis in there if name in shapes] for there in axes)
    past = next(iter((*pasts, *past_said)), 0)
    new = max(masks[0] - past, 1) if masks else NEW
    return _Lengths(next(iter((*news, *new_said)), new), past)


_Axes = tuple[tuple[tuple[str, int], ...], ...]
"""Inputs with the axis whose symbolic dimension means the past, and those with that of new tokens."""


def _axes(proto: onnx.ModelProto) -> _Axes:
    named = [
        (value.name, axis, _word(dim.dim_param))
        for value in proto.graph.input
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.dim_param
    ]
    return tuple(tuple((name, axis) for name, axis, word in named if word in words) for words in _PARTS)


def _placed(
    proto: onnx.ModelProto, value: onnx.ValueInfoProto, shape: tuple[int, ...], shapes: Shapes
) -> NDArray[np.generic] | None:
    """What the first attention node that takes the input itself means by it, as far as its other inputs are fed."""
    for node in proto.graph.node:
        if value.name in node.input:
            try:
                found = feeds.by_place(node, value, shape, shapes)
            except (IndexError, KeyError):
                continue
            if found is not None:
                return found
    return None


def _is_new(name: str) -> bool:
    """Whether an input's name is that of the new tokens, a row each."""
    return "input_ids" in name or "inputs_embeds" in name or name in {"tokens", "ids", "input"}


_Made = Callable[[tuple[int, ...], _Lengths], NDArray[np.int64] | int]
_INTEGERS: Sequence[tuple[str, _Made]] = (
    ("position", lambda shape, it: it.past + np.arange(shape[-1] if shape else 1)),
    ("mask", lambda _, __: 1),
    ("token_type", lambda _, __: 0),
    ("segment", lambda _, __: 0),
    ("seqlens_k", lambda _, it: it.total - 1),
    ("total_seq", lambda _, it: it.total),
    ("past_seq", lambda _, it: it.past),
    ("past_len", lambda _, it: it.past),
    ("len", lambda _, it: it.new),
)
"""A part of an input's name -> what it holds where all rows are real and nothing is padded; the first that fits."""


def _float_mask(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    """Nothing hidden: ones where there is one number a key, zeros to be added to the scores."""
    return np.full(shape, 1.0 if len(shape) <= 2 else 0.0, dtype)


def _embedding_rows(proto: onnx.ModelProto) -> Iterator[tuple[str, int]]:
    """Inputs that index the rows of a table that the graph holds, with how many it has."""
    tables = {tensor.name: tuple(tensor.dims) for tensor in proto.graph.initializer}
    same: dict[str, str] = {}
    for node in walk.below(proto.graph.node):
        if node.op_type in {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"} and node.input:
            same[node.output[0]] = same.get(node.input[0], node.input[0])
        for index, table in _TABLES.get(node.op_type, ()):
            if max(index, table) < len(node.input) and tables.get(node.input[table]):
                yield same.get(node.input[index], node.input[index]), tables[node.input[table]][0]


_TABLES = {
    "Gather": ((1, 0),),
    "GatherBlockQuantized": ((1, 0),),
    "EmbedLayerNormalization": ((0, 2), (1, 4)),
}
"""Operator -> inputs with indices, each with the input that holds the table."""
