"""The table of relations, the one definition of each. docs/relations.md is generated from it."""

from __future__ import annotations

from collections.abc import Sequence

from attncheck.relations import changes, outputs, twins
from attncheck.relations.relation import Related, Relation, Twin
from attncheck.scenario import Scenario


def related(scenario: Scenario, names: Sequence[str] = ()) -> tuple[Related, ...]:
    """Every relation (of these names, where some are given) that says something of `scenario`."""
    pairs = ((RELATIONS[name], twin) for name, twin in _twins(scenario, names).items())
    return tuple(Related(relation, scenario, twin) for relation, twin in pairs if isinstance(twin, Scenario))


def unsaid(scenario: Scenario, names: Sequence[str] = ()) -> dict[str, str]:
    """Relation (of these names, where some are given) -> why it says nothing of `scenario`."""
    return {name: reason for name, reason in _twins(scenario, names).items() if isinstance(reason, str)}


def _twins(scenario: Scenario, names: Sequence[str]) -> dict[str, Twin]:
    wanted = (name for name in RELATIONS if not names or name in names)
    return {name: twins.unrelated(scenario) or RELATIONS[name].twin(scenario) for name in wanted}


RELATIONS: dict[str, Relation] = {
    relation.name: relation
    for relation in (
        Relation(
            "one-by-one",
            "one call of S tokens equals S calls of one",
            "causality inside a call, positions, or what is appended and where",
            twins.one_by_one,
            "as many calls of one token",
            outputs.joined,
        ),
        Relation(
            "in-chunks",
            "a prompt in two chunks equals the whole prompt",
            "the causal corner after a past, or tiles that cross the edge between past and new keys",
            twins.in_chunks,
            "the same tokens in two chunks",
            outputs.joined,
        ),
        Relation(
            "repeated-heads",
            "query heads that share a KV head, or a state, give what they give with one each",
            "which KV head a query head reads",
            twins.repeated_heads,
            "the same with the heads repeated",
            outputs.one_of_each_group,
            change=changes.repeated_heads,
        ),
        Relation(
            "batch-order",
            "permuting the batch permutes the answer",
            "lengths or strides of one batch entry used for another",
            twins.other_order,
            "the same batch in reverse order",
            outputs.reversed_batch,
            change=changes.reversed_batch,
        ),
        Relation(
            "padded-buffer",
            "a padded buffer equals an exact one, whether it holds keys, pages or angles",
            "the capacity used for the length, or slots that nobody filled",
            twins.other_buffer,
            "the same in a buffer of another length",
            outputs.same,
        ),
        Relation(
            "wide-window",
            "a window of at least kv_len equals no window",
            "the edge of the window, or a path of its own that is wrong",
            twins.all_in_window,
            "the same with the window on or off",
            outputs.rows,
        ),
        Relation(
            "high-softcap",
            "a softcap far above all scores equals none, but for what it takes off them",
            "the place or the form of the softcap",
            twins.capped,
            f"the same with a softcap of {twins.CAP:g}",
            outputs.rows,
            by_design=True,
        ),
        Relation(
            "shifted-scores",
            "adding a constant to all scores of a row changes nothing",
            "a maximum that is not taken off, or a bias read from another row",
            twins.shifted,
            "the same with the scores of each row shifted",
            outputs.rows,
            change=changes.shifted,
            by_design=True,
        ),
        Relation(
            "constant-values",
            "where V is one number everywhere, so is the output",
            "weights that do not sum to 1, or slots of V that nobody may read",
            twins.plain_values,
            "the constant that V is",
            outputs.constant,
            own=changes.constant_values,
            alone=True,
        ),
        Relation(
            "packed",
            "what shares one tensor, query, key and value or the rows of all entries, equals tensors of their own",
            "where the heads, or the entries, of each begin",
            twins.other_packing,
            "the same packed otherwise",
            outputs.other_packing,
        ),
        Relation(
            "four-axes",
            "3-D inputs equal 4-D inputs",
            "heads and rows taken for each other",
            twins.other_layout,
            "the same in the other layout",
            outputs.same,
        ),
        Relation(
            "half-precision",
            "float16 lies near float32, as near as its rounding allows",
            "the path that float16 takes by itself",
            twins.in_half,
            "the same in float16",
            outputs.same,
            by_design=True,
        ),
        Relation(
            "empty-past",
            "a past without a token, or a state of zeros, equals no past",
            "a path of its own for the first call",
            twins.empty_past,
            "the same with an empty past, or without one",
            outputs.same,
        ),
        Relation(
            "plain-cache",
            "PagedAttention equals GroupQueryAttention with the same tokens in a plain buffer",
            "which page a slot lies in, or where the tokens of a sequence begin",
            twins.plain_cache,
            "GroupQueryAttention with a plain buffer",
            outputs.rows,
        ),
        Relation(
            "blocks-as-bias",
            "SparseAttention equals GroupQueryAttention with a bias of -inf where its block masks hide keys",
            "which block mask a head has, or which block a position is in",
            twins.blocks_as_bias,
            "GroupQueryAttention with the block masks as a bias",
            outputs.same,
            change=changes.blocks_as_bias,
        ),
        Relation(
            "dense-operator",
            "DecoderMaskedMultiHeadAttention equals MultiHeadAttention with one new token",
            "the order of keys in the shared buffer, or what the mask hides",
            twins.dense_operator,
            "MultiHeadAttention with one new token",
            outputs.same,
        ),
    )
}
