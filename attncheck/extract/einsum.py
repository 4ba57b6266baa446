"""Products of spelt-out attention that an Einsum does: which axis is which, by the letters of its equations."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

Shape = Sequence[int]
Sizes = tuple[int, int, int, int, int, int]


def equation(node: onnx.NodeProto) -> str:
    """The equation of an Einsum without blanks; "" of any other node."""
    said = (it.s.decode() for it in node.attribute if it.name == "equation")
    return "".join(next(said, "").split()) if node.op_type == "Einsum" else ""


def sizes(before: str, behind: str, query: Shape, key: Shape, value: Shape) -> Sizes | None:
    """Batch, heads, q_len, head_dim, kv_len and v_head_dim, or None where the equations are not attention's.

    Of `bqhd,bkhd->bhqk` the last letter of the scores is the keys', which the query has not; the one that only the
    query has is the rows'; the one that is summed over head_dim's; and the others are batch and heads, or heads alone.
    The second product, whose letters are its own, sums over the keys and has one letter more, v_head_dim's.
    """
    first, second = _parts(before), _parts(behind)
    if first is None or second is None:
        return None
    (of_query, of_key, scores), (weights, of_value, output) = first, second
    known = _known((of_query, query), (of_key, key))
    rows, summed = set(of_query) - set(of_key), set(of_query) & set(of_key) - set(scores)
    shared = [letter for letter in scores if letter in of_query and letter in of_key]
    if known is None or len(rows) != 1 or len(summed) != 1 or len(shared) not in (1, 2) or scores[-1] in of_query:
        return None
    weighed = _known((weights, [known[letter] for letter in scores]), (of_value, value))
    added = set(of_value) - set(weights)
    if weighed is None or len(added) != 1 or set(output) != (set(weights) | added) - {weights[-1]}:
        return None
    batch, heads = [1, *(known[letter] for letter in shared)][-2:]
    return batch, heads, known[rows.pop()], known[summed.pop()], known[scores[-1]], weighed[added.pop()]


def _parts(equation: str) -> tuple[str, str, str] | None:
    """The letters of two factors and of their product, or None where it is another kind of equation."""
    factors, arrow, product = equation.partition("->")
    left, comma, right = factors.partition(",")
    plain = (left + right + product).isalpha() and arrow and comma and set(product) <= set(left + right)
    return (left, right, product) if plain else None


def _known(*several: tuple[str, Shape]) -> dict[str, int] | None:
    """The size of each letter, or None where the letters do not fit the shapes."""
    found: dict[str, int] = {}
    for letters, shape in several:
        if len(letters) != len(shape):
            return None
        for letter, size in zip(letters, shape, strict=True):
            if found.setdefault(letter, size) != size:
                return None
    return found
