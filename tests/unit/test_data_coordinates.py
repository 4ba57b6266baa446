"""The generator's bits: the documented recipe, repeated here in plain Python integers, and published vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncheck.tensors import coordinates

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def fnv(name: str) -> int:
    z = 0xCBF29CE484222325
    for byte in name.encode():
        z = ((z ^ byte) * 0x100000001B3) & WORD
    return z


def bits(seed: int, tensor: str, *coordinates: int) -> int:
    z = 0
    for x in (seed, fnv(tensor), *coordinates):
        z = mix(((z ^ (x & WORD)) + GOLDEN) & WORD)
    return z


def third(word: int, index: int) -> float:
    return ((word >> 21 * index) % 2**21 - 2**20) / 2**20


def test_the_finaliser_is_that_of_splitmix64() -> None:
    """The first outputs of splitmix64 from state 1234567, as Vigna's reference code and Rosetta Code print them."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    states = [(1234567 + GOLDEN * step) & WORD for step in range(1, 5)]
    assert [mix(state) for state in states] == published
    assert coordinates._mix(np.array(states, np.uint64)).tolist() == published


def test_the_tensors_name_enters_by_fnv_1a() -> None:
    """Vectors from the FNV reference page."""
    published = {"": 0xCBF29CE484222325, "a": 0xAF63DC4C8601EC8C, "foobar": 0x85944171F73967E8}
    assert {name: coordinates._fnv(name) for name in published} == published
    assert {name: fnv(name) for name in published} == published


@given(
    seed=st.integers(-(2**63), 2**63 - 1),
    tensor=st.sampled_from(("q", "k", "v")),
    s=st.integers(-(2**40), 2**40),
)
def test_bits_follow_the_documented_recipe(seed: int, tensor: str, s: int) -> None:
    rows = coordinates.rows_bits(seed, tensor, 2, 3, np.array([[s, s + 1], [s - 7, 0]]))
    elements = coordinates.element_bits(rows, 5)
    assert elements.shape == (2, 3, 2, 5)
    for b, h, row, d in np.ndindex(elements.shape):
        position = [[s, s + 1], [s - 7, 0]][b][row]
        assert int(elements[b, h, row, d]) == bits(seed, tensor, b, h, position, d)


@given(st.integers(0, WORD))
def test_values_are_cut_from_the_bits_as_documented(word: int) -> None:
    array = np.array([word], np.uint64)
    assert coordinates.uniform(array)[0] == third(word, 0)
    assert coordinates.normal(array)[0] == third(word, 0) + third(word, 1) + third(word, 2)


def test_normal_has_mean_0_and_variance_1() -> None:
    rows = coordinates.rows_bits(1, "q", 1, 1, np.arange(4000)[None])
    values = coordinates.normal(coordinates.element_bits(rows, 50))
    assert values.mean() == pytest.approx(0.0, abs=4 / 200_000**0.5)
    assert values.var() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_neighbours_along_every_coordinate_are_uncorrelated(axis: int) -> None:
    rows = coordinates.rows_bits(1, "k", 12, 12, np.broadcast_to(np.arange(-6, 6), (12, 12)).copy())
    values = coordinates.normal(coordinates.element_bits(rows, 12))
    here, next_ = np.moveaxis(values, axis, 0)[:-1].ravel(), np.moveaxis(values, axis, 0)[1:].ravel()
    assert abs(np.corrcoef(here, next_)[0, 1]) < 4 / here.size**0.5
