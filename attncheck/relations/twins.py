"""The twin of a scenario by each relation: axes set anew under the language's own rules; or, in words, why none is."""

from __future__ import annotations

from attncheck.relations.relation import Twin
from attncheck.scenario import Scenario, ScenarioErrors, from_command_line
from attncheck.scenario.axes import DENSE, LINEARS, ROTARIES

ROOM = 5
"""Slots or rows by which a padded buffer is longer."""
CAP = 1000.0
"""A softcap far above scores: what it still takes off them is known, and allowed for."""
SHORT = 16
"""New tokens up to which each gets a call of its own."""
SHARED = ("mha", "decoder-mha", "ms-attention")
"""Operators that with a capacity have one buffer for past and present."""
ONE_COLUMN = "versions of the operator read a mask of one column differently"
TURNS = "it turns rows, and attends to nothing"
STATE = "linear attention has no softmax: its weights are what q·k is, and their sum is no 1"


def with_axes(scenario: Scenario, without: tuple[str, ...] = (), /, **axes: object) -> Twin:
    """`scenario` with these axes, and without those; where the language does not allow it, what it says."""
    written: dict[str, object] = {axis: value for axis, value in scenario.written if axis not in without}
    try:
        return from_command_line(" ".join(f"{axis}={value}" for axis, value in (written | axes).items()))
    except ScenarioErrors as wrong:
        told = ", ".join(f"{axis}={value}" for axis, value in axes.items())
        return f"its twin would have {told}: {wrong.diagnostics[0].message}"


def one_length(scenario: Scenario) -> bool:
    """Whether all batch entries have as many new tokens and as long a past."""
    return len(set(scenario.q_len)) == len(set(scenario.past_len)) == 1


def unrelated(it: Scenario) -> str:
    """Why no relation says anything of it, whatever its twin would be; or nothing."""
    if it.steps:
        return "it is a session; write its tokens as one call (`q_len`), and `one-by-one` and `in-chunks` divide them"
    forbidden = it.past == "full" or it.positions in ("negative", "beyond", "one-row")
    if forbidden or (it.rotary is not None and not it.rotary_cache):
        return "its operator must refuse it, so there are no numbers to compare"
    if it.beams > 1:
        return "its entries read the past of each other, so that no twin may move or divide them"
    if it.kv_cache is not None:
        return "its buffers hold integers: a twin has scales of its own, by the numbers that it holds"
    return ""


def one_by_one(it: Scenario) -> Twin:
    """Each new token by itself."""
    return _in_steps(it, 1) if max(it.q_len) <= SHORT else f"of more than {SHORT} tokens it would be as many calls"


def in_chunks(it: Scenario) -> Twin:
    """The first half, then the rest."""
    return _in_steps(it, (it.q_len[0] + 1) // 2)


def _in_steps(it: Scenario, first: int) -> Twin:
    """`first` tokens, then the rest by as many."""
    new = it.q_len[0]
    if len(set(it.q_len)) > 1:
        return "q_len differs over the batch, and each call has as many tokens of every entry"
    if it.packed_batch and it.batch > 1:
        return "the rows of all entries follow each other in one, and would do so call by call in another order"
    if it.bias is not None or it.mask is not None or it.cross or it.window_cache:
        return "a bias, a mask, cross attention or a cache of the window has no parts that belong to some tokens"
    if not it.causal or (it.op not in ROTARIES and it.positions not in ("implicit", "explicit")):
        return "where tokens see those that follow them, or count from elsewhere, parts are no whole"
    if new < 2:
        return f"{new} new token{'' if new == 1 else 's'} cannot be divided"
    whole, rest = divmod(new, first)
    steps = (f"{first}x{whole}" if whole > 1 else f"{first}") + (f"-{rest}" if rest else "")
    # The pages of a session are dealt out for its last call, as those of an exact table are for the one call.
    exact: dict[str, object] = {"capacity": "exact"} if it.op == "paged" else {}
    return with_axes(it, ("q_len",), steps=steps, batch=it.batch, **exact)


def repeated_heads(it: Scenario) -> Twin:
    """MultiHeadAttention, which has every head, or the same operator with as many KV heads as query heads."""
    if it.op in ROTARIES:
        return TURNS
    if it.op in SHARED:
        return f"the graph of {it.op} has each KV head once a query head already"
    if it.kv_heads >= it.heads:
        return "no KV head is shared"
    # A row without a key gives zeros on the one operator, and the mean of V on the other.
    if it.op == "gqa" and one_length(it) and it.holes in ("none", "keys"):
        dense = with_axes(it, op="mha")
        if isinstance(dense, Scenario):
            return dense
    packed: dict[str, object] = {"packed": "none"} if it.packed != "none" else {}
    return with_axes(it, kv_heads=it.heads, **packed)


def other_order(it: Scenario) -> Twin:
    """The scenario itself, whose batch entries are put in another order."""
    if it.packed_batch:
        return "the rows of all entries follow each other in one, which is one entry to the operator"
    return it if it.batch > 1 else "the batch is 1"


def other_buffer(it: Scenario) -> Twin:
    """Longer, where it is exact; exact, where it is longer."""
    if it.op in LINEARS:
        return "a state has no length"
    if it.op in ROTARIES:
        return _other_caches(it)
    if it.window_cache or it.cross:
        return "cross attention and a cache of the window have no buffer whose length is free"
    if not _any_opset(it):
        return ONE_COLUMN
    longest = max(*it.kv_len, max(it.past_len) + max(it.q_len))
    if it.op == "paged":
        return _other_table(it, longest)
    if it.capacity is None:
        return with_axes(it, ("opset",) if it.op == "attention" else (), capacity=longest + ROOM)
    if it.capacity == max(it.kv_len):
        return "the buffer is full"
    # To share a buffer of the very length is another thing than to have two: DecoderMaskedMultiHeadAttention shares.
    return with_axes(it, capacity=max(it.kv_len) if it.op == "decoder-mha" else "exact")


def _other_caches(it: Scenario) -> Twin:
    """Further rows of cos and sin, which no position names."""
    if it.positions == "scattered":
        return "where the positions are, any row of the caches, follows from how many there are"
    return with_axes(it, rotary_cache=it.rotary_cache + ROOM)


def _other_table(it: Scenario, longest: int) -> Twin:
    """A table with room for more pages of each sequence, or for none more."""
    needed = -(-longest // it.page)
    if it.capacity is not None and -(-it.capacity // it.page) > -(-max(it.kv_len) // it.page):
        return with_axes(it, capacity="exact")
    return with_axes(it, capacity=(needed + 1) * it.page)


def all_in_window(it: Scenario) -> Twin:
    """No window, or the shortest in which every key is."""
    if it.cross or it.window_cache or not it.causal:
        return "a window is of causal attention, without a cache of its own"
    if not _any_opset(it):
        return ONE_COLUMN
    if it.window is not None:
        return with_axes(it, window="none") if it.window >= max(it.kv_len) else "the window hides keys"
    return with_axes(it, ("opset",), window=max(it.kv_len))


def capped(it: Scenario) -> Twin:
    """A softcap that is far above the scores."""
    return "it has a softcap" if it.softcap else with_axes(it, softcap=CAP)


def shifted(it: Scenario) -> Twin:
    """With a bias where there is none yet; else the scenario itself, whose keys are moved."""
    if it.op in (*ROTARIES, *LINEARS):
        return TURNS if it.op in ROTARIES else STATE
    if it.sink or it.smooth:
        return "a sink is a score too, and would have to be shifted"
    if it.op in DENSE and it.mask is None and it.bias is None:
        return with_axes(it, bias="BxNxSxT")
    if it.rotary is not None or it.qk_norm is not None or it.softcap:
        return "a bias is there or cannot be, and keys that turn, are normalised or capped are not moved all alike"
    if it.packed != "none" or it.qkv_bias or it.op == "ms-attention":
        return "a bias is there or cannot be, and the keys are no tensor of their own"
    return it


def plain_values(it: Scenario) -> Twin:
    """Wherever every row sees a key, and V is a tensor of its own to which nothing is added."""
    if it.op in (*ROTARIES, *LINEARS):
        return TURNS if it.op in ROTARIES else STATE
    if it.holes not in ("none", "keys") or it.cross or it.window_right is not None or it.mask_len:
        return "a row may see no key"
    if it.sink or it.smooth:
        return "the weights of a sink's row do not sum to 1"
    if it.op == "ms-attention":
        return it if it.qkv_bias else "V is what the weights make of the input, which no bias can make constant"
    if it.packed != "none" or it.qkv_bias:
        return "V is no tensor of its own, or something is added to it"
    return "an entry of the batch is idle" if min(it.q_len) == 0 and it.op != "paged" else it


def other_packing(it: Scenario) -> Twin:
    """Query, key and value in one tensor or not; of rows that turn, all entries in one or not."""
    if it.op not in ROTARIES:
        return with_axes(it, packed="qkv" if it.packed == "none" else "none")
    if it.batch == 1 or len(set(it.q_len)) > 1:
        return "there is one entry" if it.batch == 1 else "q_len differs over the batch, and fills no rectangle"
    said: dict[str, object] = {"positions": "explicit"} if it.positions == "implicit" else {}
    return with_axes(it, packed_batch=str(not it.packed_batch).lower(), **said)


def other_layout(it: Scenario) -> Twin:
    """3-D for 4-D, or the other way round."""
    if it.qkv_bias:
        return "keys and values of 4 axes come from a cache, and the projection's bias is not added to them"
    return with_axes(it, layout="bsnh" if it.layout == "bnsh" else "bnsh")


def in_half(it: Scenario) -> Twin:
    """In float16."""
    return with_axes(it, dtype="float16") if it.dtype == "float32" else f"it is in {it.dtype}"


def empty_past(it: Scenario) -> Twin:
    """A past without a token, or a state of zeros, where there is none; or none, where there is one."""
    if it.op in ROTARIES:
        return TURNS
    if it.op in LINEARS:
        other = {"absent": "zeros", "zeros": "absent"}.get(it.past_state)
        return with_axes(it, past_state=other) if other else "there is a past"
    if it.cross or max(it.past_len) or it.capacity is not None or it.window_cache:
        return "there is a past, a buffer for one, or cross attention, which has none"
    if it.op not in DENSE:
        return f"{it.op} cannot do without its buffers"
    return with_axes(it, past="empty" if it.past == "auto" else "auto")


def plain_cache(it: Scenario) -> Twin:
    """GroupQueryAttention, whose cache has no pages."""
    if it.op != "paged":
        return f"it is of paged, and this is {it.op}"
    return with_axes(it, ("page", "capacity"), op="gqa", dtype=it.dtype, **_told_lengths(it))


def blocks_as_bias(it: Scenario) -> Twin:
    """GroupQueryAttention with a bias, which gets what the block masks hide."""
    if it.op != "sparse":
        return f"it is of sparse, and this is {it.op}"
    blocks = ("sparse_block", "sparse_layouts")
    return with_axes(it, blocks, op="gqa", bias="BxNxSxT", **_told_lengths(it))


def _told_lengths(it: Scenario) -> dict[str, object]:
    """What GroupQueryAttention needs to be told of several new tokens after a past, entry by entry."""
    told = it.batch > 1 and max(it.q_len) > 1 and max(it.past_len) > 0 and it.causal
    return {"query_seqlens": "true"} if told else {}


def dense_operator(it: Scenario) -> Twin:
    """MultiHeadAttention with one new token."""
    if it.op != "decoder-mha":
        return f"it is of decoder-mha, and this is {it.op}"
    # Keys of cross attention have four axes on both, so that the projection's bias is added to none of them.
    cross: dict[str, object] = {"causal": "false", "layout": "bnsh"} if it.cross else {}
    return with_axes(it, ("packed",), op="mha", **cross)


def _any_opset(it: Scenario) -> bool:
    """Whether all versions of the operator read the mask alike: from 24 on one column speaks for the first key only."""
    return all(shape is None or "T" in shape for shape in (it.bias, it.mask))
