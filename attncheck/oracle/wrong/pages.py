"""Wrong kernels with rows that lie scattered: other pages than the table's, other rows of them, others' tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from attncheck.oracle.wrong.entry import Wrong
from attncheck.oracle.wrong.recipe import Recipe
from attncheck.problem import Problem, Scattered, Tensor

Int = NDArray[np.int64]
Places = Callable[[Problem, Scattered], Int]
"""Where a wrong kernel takes the rows to lie, [batch, rows]; -1: nowhere."""

CACHES = ("past_key", "past_value", "present_key", "present_value")
PRESENTS = ("present_key", "present_value")
TOKENS = ("query", "key", "value")


def _by_table(choose: Callable[[Problem, Int, int], Int]) -> Places:
    """Other pages, by a table [batch, width] made of the right one and the number of pages there are."""

    def places(problem: Problem, at: Scattered) -> Int:
        table = choose(problem, _table(problem), at.shape[0])
        slot = np.arange(at.places.shape[1])
        found = table[:, slot // at.page] * at.page + slot % at.page
        return np.where((at.places < 0) | (found < 0), -1, found)

    return places


def _table(problem: Problem) -> Int:
    """The block table, as the past has it."""
    tensor = problem.past_key
    assert tensor is not None
    assert tensor.scattered is not None
    first = tensor.scattered.places[:, :: tensor.scattered.page].astype(np.int64)
    return np.where(first < 0, -1, first // tensor.scattered.page)


def _in_order(_: Problem, table: Int, pages: int) -> Int:
    return np.where(table < 0, -1, np.arange(table.size).reshape(table.shape) % pages)


def _of_entry_0(_: Problem, table: Int, __: int) -> Int:
    return np.broadcast_to(table[:1], table.shape)


def _halved(problem: Problem, at: Scattered) -> Int:
    """Pages of half their size: the table is asked for twice as many as it has, and gives its last for the rest."""
    table, half = _table(problem), max(1, at.page // 2)
    slot = np.arange(at.places.shape[1])
    last = np.maximum((table >= 0).sum(axis=1) - 1, 0)[:, None]
    page = np.take_along_axis(table, np.minimum(slot // half, last), axis=1)
    return np.where((at.places < 0) | (page < 0), -1, page * half + slot % half)


def _row_of_new(problem: Problem, at: Scattered) -> Int:
    """Each new row in its page, but at the row that counts from the first new one."""
    slot = np.arange(at.places.shape[1])
    past = np.array(problem.past_len)[:, None]
    moved = at.places // at.page * at.page + (slot - past) % at.page
    return np.where((at.places >= 0) & (slot >= past), moved, at.places)


def _one_early(_: Problem, at: Scattered) -> Int:
    """Every entry's tokens but the first's begin one too early."""
    early = at.places - (np.arange(len(at.places)) > 0)[:, None]
    return np.where(at.places < 0, -1, np.maximum(early, 0))


def _as_padded(_: Problem, at: Scattered) -> Int:
    """Each entry begins where it would if all had as many rows as the longest."""
    batch, rows = at.places.shape
    padded = np.arange(batch * rows).reshape(batch, rows)
    return np.where(at.places < 0, -1, np.minimum(padded, at.shape[0] - 1))


def _moved(problem: Problem, roles: tuple[str, ...], places: Places) -> dict[str, Tensor]:
    """Those of `roles` that the problem has, with their rows elsewhere."""
    found = {}
    for role in roles:
        tensor = cast("Tensor | None", getattr(problem, role))
        if tensor is not None and tensor.scattered is not None:
            other = places(problem, tensor.scattered).astype(np.int32)
            found[role] = replace(tensor, scattered=replace(tensor.scattered, places=other))
    return found


def _changed(problem: Problem, roles: tuple[str, ...], places: Places) -> bool:
    """Whether a row that shows would come from, or go to, another place."""
    return any(
        bool((_shows(problem, role) & (tensor.scattered.places != _places(problem, role))).any())
        for role, tensor in _moved(problem, roles, places).items()
        if tensor.scattered is not None
    )


def _places(problem: Problem, role: str) -> NDArray[np.int32]:
    return cast("NDArray[np.int32]", getattr(problem, role).scattered.places)


def _shows(problem: Problem, role: str) -> NDArray[np.bool_]:
    """Which rows of a scattered role show in an output: [batch, rows]."""
    row = np.arange(_places(problem, role).shape[1])
    past, end = (np.array(lengths)[:, None] for lengths in (problem.past_len, problem.kv_len))
    if role in PRESENTS:
        return (past <= row) & (row < end)
    if role in TOKENS:
        return row < np.array(problem.q_len)[:, None]
    low, high = problem.visible[..., 0, None], problem.visible[..., 1, None]
    return np.asarray((row < past) & ((low <= row) & (row < high)).any(axis=1))


def _wrong(name: str, words: str, roles: tuple[str, ...], places: Places) -> Wrong:
    return Wrong(
        name,
        words,
        lambda problem: problem.paged and _changed(problem, roles, places),
        lambda recipe: _with(recipe, _moved(recipe.problem, roles, places)),
    )


def _with(recipe: Recipe, moved: dict[str, Tensor]) -> Recipe:
    return replace(recipe, problem=replace(recipe.problem, **moved))  # type: ignore[arg-type]


PAGES = (
    _wrong("pages-in-order", "pages taken one after the other, whatever the block table says", CACHES,
           _by_table(_in_order)),
    _wrong("pages-of-entry-0", "the pages of batch entry 0 used for all", CACHES, _by_table(_of_entry_0)),
    _wrong("page-size-halved", "pages taken for half as long", CACHES, _halved),
    _wrong("page-row-of-new", "new keys written to the row of their page that counts from the first new one", PRESENTS,
           _row_of_new),
    _wrong("tokens-one-early", "the tokens of every batch entry after the first read one too early", TOKENS,
           _one_early),
    _wrong("tokens-as-padded", "tokens read as if every batch entry had as many as the longest", TOKENS, _as_padded),
)  # fmt: skip
