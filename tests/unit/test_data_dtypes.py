"""Dtypes and poison."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attncheck.tensors import poison
from attncheck.tensors.dtypes import dtype, narrow, widen

FORMATS = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("name", FORMATS)
def test_roundoff_and_smallest_normal_are_those_of_the_format(name: str) -> None:
    info = ml_dtypes.finfo(FORMATS[name])  # type: ignore[no-untyped-call]
    assert dtype(name).roundoff == float(info.eps) / 2
    assert dtype(name).smallest_normal == float(info.smallest_normal)


@given(st.lists(st.floats(-6e4, 6e4), min_size=1), st.sampled_from(sorted(FORMATS)))
def test_narrow_rounds_once_to_the_nearest(numbers: list[float], name: str) -> None:
    values = np.array(numbers)
    stored = narrow(values, name)
    assert stored.dtype == dtype(name).storage
    exact = widen(stored, name)
    np.testing.assert_array_less(
        np.abs(exact - values), np.abs(values) * dtype(name).roundoff + dtype(name).smallest_normal * 1.01
    )
    assert np.array_equal(narrow(exact, name), stored)


@pytest.mark.parametrize("bits", [0x3F80, 0xBF81, 0x0001, 0x7F7F, 0x3C13])
def test_bfloat16_is_not_rounded_twice(bits: int) -> None:
    """Just above the middle between two neighbours, by less than float32 can hold: the upper one is right."""
    here, above = (widen(np.array([b], np.uint16), "bfloat16")[0] for b in (bits, bits + 1 if bits != 0x7F7F else bits))
    middle = (here + above) / 2
    nudged = middle + (above - here) * 2.0**-30
    wanted = bits if bits == 0x7F7F else bits + 1
    assert narrow(np.array([nudged]), "bfloat16").tolist() == [wanted]


def test_bfloat16_agrees_with_ml_dtypes_on_every_bit_pattern() -> None:
    every = np.arange(2**16, dtype=np.uint16)
    values = widen(every, "bfloat16")
    real = ~np.isnan(values)
    assert np.array_equal(values[real], every[real].view(ml_dtypes.bfloat16).astype(np.float64))
    assert (every[~real] & 0x7FFF).min() == 0x7F81
    assert np.array_equal(narrow(values[real], "bfloat16"), every[real])
    assert np.isnan(widen(narrow(values[~real], "bfloat16"), "bfloat16")).all()


def test_an_unknown_dtype_is_named() -> None:
    with pytest.raises(ValueError, match="unknown dtype 'float8'; attncheck knows float32, float16"):
        dtype("float8")


def test_poison_reaches_the_rows_it_is_meant_for_and_no_other() -> None:
    values = np.ones((2, 3, 2, 4))
    kept = np.array([[True, False], [True, True]])
    blank = poison.blank_unread(values, kept)
    assert np.isnan(blank[0, :, 1]).all()
    assert np.isnan(blank).sum() == 12
    hidden = poison.overwrite_hidden(values, kept)
    assert (hidden[0, :, 1] == 1e4).all()
    assert (hidden == 1e4).sum() == 12
    assert (values == 1).all()
