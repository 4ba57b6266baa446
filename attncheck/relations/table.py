"""The table of relations, the one definition of each. docs/relations.md is generated from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attncheck.relations import twins
from attncheck.relations.relation import Related, Relation, Roles, Twin
from attncheck.relations.twins import with_axes
from attncheck.scenario import Scenario

PRESENTS = ("present_key", "present_value")
ROOM = 5
"""Slots by which a padded buffer is longer."""
CAP = 1000.0
"""A softcap far above scores: what it still takes off them is known, and allowed for."""
SHORT = 16
"""New tokens up to which each gets a call of its own."""


def related(scenario: Scenario, names: Sequence[str] = ()) -> tuple[Related, ...]:
    """Every relation (of these names, where some are given) that says something of `scenario`."""
    pairs = ((RELATIONS[name], twin) for name, twin in _twins(scenario, names).items())
    return tuple(Related(relation, scenario, twin) for relation, twin in pairs if isinstance(twin, Scenario))


def unsaid(scenario: Scenario, names: Sequence[str] = ()) -> dict[str, str]:
    """Relation (of these names, where some are given) -> why it says nothing of `scenario`."""
    return {name: reason for name, reason in _twins(scenario, names).items() if isinstance(reason, str)}


def _twins(scenario: Scenario, names: Sequence[str]) -> dict[str, Twin]:
    wanted = (name for name in RELATIONS if not names or name in names)
    return {name: twins.unrelated(scenario, name) or RELATIONS[name].twin(scenario) for name in wanted}


def _same(_: Roles, twin: Sequence[Roles]) -> Roles:
    return twin[0]


def _joined(_: Roles, twin: Sequence[Roles]) -> Roles:
    """The outputs of all steps one after the other, and the presents of the last."""
    output = np.concatenate([step["output"] for step in twin], axis=2)
    return {**{role: array for role, array in twin[-1].items() if role in PRESENTS}, "output": output}


def _one_of_each_group(own: Roles, twin: Sequence[Roles]) -> Roles:
    """The presents of the repeated heads, each KV head once."""
    found = dict(twin[0])
    for role in PRESENTS:
        if role in own and role in found:
            found[role] = found[role][:, :: found[role].shape[1] // own[role].shape[1]]
    return found


def _output(_: Roles, twin: Sequence[Roles]) -> Roles:
    return {"output": twin[0]["output"]}


def _reversed(_: Roles, twin: Sequence[Roles]) -> Roles:
    return {role: array[::-1] for role, array in twin[0].items()}


def _constant(own: Roles, _: Sequence[Roles]) -> Roles:
    return {"output": np.full(own["output"].shape, twins.V)}


def _in_steps(it: Scenario, first: int) -> Twin:
    """`first` tokens, then the rest by as many."""
    new = it.q_len[0]
    if not twins.one_length(it):
        return "q_len or past_len differ over the batch, and a session has one length for all"
    if it.bias is not None or it.mask is not None or it.cross or it.window_cache:
        return "a bias, a mask, cross attention or a cache of the window has no parts that belong to some tokens"
    if not it.causal or it.positions not in ("implicit", "explicit"):
        return "where tokens see those that follow them, or count from elsewhere, parts are no whole"
    if new < 2:
        return f"{new} new tokens cannot be divided"
    whole, rest = divmod(new, first)
    steps = (f"{first}x{whole}" if whole > 1 else f"{first}") + (f"-{rest}" if rest else "")
    return with_axes(it, without=("q_len",), steps=steps, batch=it.batch)


def _one_by_one(it: Scenario) -> Twin:
    return _in_steps(it, 1) if max(it.q_len) <= SHORT else f"of more than {SHORT} tokens it would be as many calls"


def _chunks(it: Scenario) -> Twin:
    return _in_steps(it, (it.q_len[0] + 1) // 2)


def _repeated_heads(it: Scenario) -> Twin:
    if it.op != "gqa":
        return f"it is of gqa, and this is {it.op}"
    if it.kv_heads == it.heads:
        return "no KV head is shared"
    return with_axes(it, op="mha") if twins.one_length(it) else "q_len or past_len differ over the batch"


def _other_order(it: Scenario) -> Twin:
    return it if it.batch > 1 else "the batch is 1"


def _other_buffer(it: Scenario) -> Twin:
    """Longer, where it is exact; exact, where it is longer."""
    if it.window_cache or it.cross or it.op == "mha":
        return "mha, cross attention and a cache of the window have no buffer whose length is free"
    if not _any_opset(it):
        return ONE_COLUMN
    if it.capacity is not None:
        return with_axes(it, capacity="exact") if it.capacity > max(it.kv_len) else "the buffer is full"
    room = max(*it.kv_len, max(it.past_len) + max(it.q_len)) + ROOM
    return with_axes(it, without=("opset",) if it.op == "attention" else (), capacity=room)


def _all_in_window(it: Scenario) -> Twin:
    """No window, or the shortest in which every key is."""
    if it.cross or it.window_cache or not it.causal:
        return "a window is of causal attention, without a cache of its own"
    if not _any_opset(it):
        return ONE_COLUMN
    if it.window is not None:
        return with_axes(it, window="none") if it.window >= max(it.kv_len) else "the window hides keys"
    return with_axes(it, without=("opset",), window=max(it.kv_len))


def _capped(it: Scenario) -> Twin:
    return "it has a softcap" if it.softcap else with_axes(it, softcap=CAP)


def _biased(it: Scenario) -> Twin:
    """With a bias, where there is none yet."""
    if it.sink or it.smooth:
        return "a sink is a score too, and would have to be shifted"
    has = it.mask is not None or it.bias is not None
    return "it has a bias or a mask" if has else with_axes(it, bias="BxNxSxT")


def _other_packing(it: Scenario) -> Twin:
    return with_axes(it, packed="qkv" if it.packed == "none" else "none")


def _other_layout(it: Scenario) -> Twin:
    if it.qkv_bias:
        return "keys and values of 4 axes come from a cache, and the projection's bias is not added to them"
    return with_axes(it, layout="bsnh" if it.layout == "bnsh" else "bnsh")


def _in_half(it: Scenario) -> Twin:
    return with_axes(it, dtype="float16") if it.dtype == "float32" else f"it is in {it.dtype}"


ONE_COLUMN = "versions of the operator read a mask of one column differently"


def _any_opset(it: Scenario) -> bool:
    """Whether all versions of the operator read the mask alike: from 24 on one column speaks for the first key only."""
    return all(shape is None or "T" in shape for shape in (it.bias, it.mask))


def _plain_values(it: Scenario) -> Twin:
    """Wherever every row sees a key, and V is a tensor of its own to which nothing is added."""
    if it.holes not in ("none", "keys") or it.cross or it.window_right is not None or it.mask_len:
        return "a row may see no key"
    if it.sink or it.smooth:
        return "the weights of a sink's row do not sum to 1"
    if it.packed != "none" or it.qkv_bias:
        return "V is no tensor of its own, or something is added to it"
    return "an entry of the batch is idle" if min(it.q_len) == 0 else it


RELATIONS: dict[str, Relation] = {
    relation.name: relation
    for relation in (
        Relation(
            "one-by-one",
            "one call of S tokens equals S calls of one",
            "causality inside a call, positions, or what is appended and where",
            _one_by_one,
            "as many calls of one token",
            _joined,
        ),
        Relation(
            "in-chunks",
            "a prompt in two chunks equals the whole prompt",
            "the causal corner after a past, or tiles that cross the edge between past and new keys",
            _chunks,
            "the same tokens in two chunks",
            _joined,
        ),
        Relation(
            "repeated-heads",
            "GroupQueryAttention equals MultiHeadAttention with each KV head repeated",
            "which KV head a query head reads",
            _repeated_heads,
            "MultiHeadAttention with the heads repeated",
            _one_of_each_group,
        ),
        Relation(
            "batch-order",
            "permuting the batch permutes the answer",
            "lengths or strides of one batch entry used for another",
            _other_order,
            "the same batch in reverse order",
            _reversed,
            change=twins.reversed_batch,
        ),
        Relation(
            "padded-buffer",
            "a padded KV buffer equals an exact one",
            "the capacity used for the length, or slots that nobody filled",
            _other_buffer,
            "the same in a buffer of another length",
            _same,
        ),
        Relation(
            "wide-window",
            "a window of at least kv_len equals no window",
            "the edge of the window, or a path of its own that is wrong",
            _all_in_window,
            "the same with the window on or off",
            _output,
        ),
        Relation(
            "high-softcap",
            "a softcap far above all scores equals none, but for what it takes off them",
            "the place or the form of the softcap",
            _capped,
            f"the same with a softcap of {CAP:g}",
            _output,
            by_design=True,
        ),
        Relation(
            "shifted-scores",
            "adding a constant to all scores of a row changes nothing",
            "a maximum that is not taken off, or a bias read from another row",
            _biased,
            "the same with the scores of each row shifted by a bias",
            _output,
            change=twins.shifts,
        ),
        Relation(
            "constant-values",
            "where V is one number everywhere, so is the output",
            "weights that do not sum to 1, or slots of V that nobody may read",
            _plain_values,
            "the constant that V is",
            _constant,
            own=twins.constant_values,
            alone=True,
        ),
        Relation(
            "packed",
            "query, key and value packed in one tensor equal three tensors",
            "where the heads of each begin",
            _other_packing,
            "the same packed otherwise",
            _same,
        ),
        Relation(
            "four-axes",
            "3-D inputs equal 4-D inputs",
            "heads and rows taken for each other",
            _other_layout,
            "the same in the other layout",
            _same,
        ),
        Relation(
            "half-precision",
            "float16 lies near float32, as near as its rounding allows",
            "the path that float16 takes by itself",
            _in_half,
            "the same in float16",
            _same,
            by_design=True,
        ),
    )
}
