"""Wrong kernels of masks and packed roles: each shows where it is relevant, and is the right result of another case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attncheck.compare.diagnosis import diagnose
from attncheck.compare.judge import errors
from attncheck.oracle.attention import answer
from attncheck.oracle.wrong.catalogue import CATALOGUE
from tests.device import Work, work
from tests.drawing import scenario
from tests.dressing import masked, packed

BY_NAME = {wrong.name: wrong for wrong in CATALOGUE}


def small(**axes: Any) -> Work:
    return work(scenario(**({"q_len": (4, 4), "past_len": (5, 3)} | axes)))


def holes(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    return np.random.default_rng(5).random(shape) > 0.4


def shown(name: str, given: Work) -> float:
    """How far the wrong kernel is from the oracle, where it is relevant."""
    wrong = BY_NAME[name]
    assert wrong.relevant(given.problem)
    outputs = wrong.outputs(given.problem, given.inputs)
    found = [errors(outputs[each.output], each.values)[0][each.stated] for each in answer(given.problem, given.inputs)]
    return max(float(error.max()) for error in found)


def agrees(name: str, given: Work, other: Work) -> None:
    """The wrong kernel gives what the oracle says of `other`."""
    got = BY_NAME[name].outputs(given.problem, given.inputs)["output"]
    (expected, *_) = answer(other.problem, other.inputs)
    np.testing.assert_allclose(got[expected.stated], expected.values[expected.stated], rtol=0, atol=1e-12)


SHOWING = {
    "mask-to-length": masked(small(), holes((4, 9))),
    "mask-end-ignored": masked(small(), holes((4, 6))),
    "softcap-after-bias": masked(small(softcap=2.0), 3.0 * np.random.default_rng(6).standard_normal((4, 9))),
    "packed-key-for-value": packed(small()),
}


@pytest.mark.parametrize("name", SHOWING)
def test_without_masks_or_packing_none_is_relevant(name: str) -> None:
    assert not BY_NAME[name].relevant(small(softcap=2.0).problem)


def test_holes_taken_for_a_length() -> None:
    mask = holes((4, 9))
    given = masked(small(), mask)
    prefix = np.arange(9) < mask.sum(axis=-1, keepdims=True)
    assert shown("mask-to-length", given) > 1e-3
    agrees("mask-to-length", given, masked(small(), prefix))


def test_a_length_taken_for_a_length_is_right() -> None:
    given = masked(small(), np.arange(9) < np.array([[9], [3], [1], [0]]))
    assert shown("mask-to-length", given) < 1e-12


@pytest.mark.parametrize("kind", ["boolean", "additive", "broadcast"])
def test_keys_behind_the_end_of_a_mask(kind: str) -> None:
    mask: Any = {
        "boolean": holes((2, 1, 4, 6)),
        "additive": np.random.default_rng(6).standard_normal((4, 6)),
        "broadcast": np.ones(1, np.bool_),
    }[kind]
    given = masked(small(), mask, slots=6)
    wide = np.broadcast_to(mask, (*mask.shape[:-1], 6))
    end = np.ones((*mask.shape[:-1], 3), np.bool_) if mask.dtype == np.bool_ else np.zeros((*mask.shape[:-1], 3))
    assert shown("mask-end-ignored", given) > 1e-3
    agrees("mask-end-ignored", given, masked(small(), np.concatenate([wide, end], axis=-1)))
    assert not BY_NAME["mask-end-ignored"].relevant(masked(small(), holes((4, 9))).problem)


def test_softcap_after_the_bias() -> None:
    bias = 3.0 * np.random.default_rng(6).standard_normal((4, 9))
    assert shown("softcap-after-bias", masked(small(softcap=2.0), bias)) > 1e-3
    assert not BY_NAME["softcap-after-bias"].relevant(masked(small(), bias).problem)
    assert not BY_NAME["softcap-after-bias"].relevant(masked(small(softcap=2.0), holes((4, 9))).problem)


def test_packed_key_and_value_swapped() -> None:
    given, plain = packed(small()), small()
    inputs = {**plain.inputs, "key": plain.inputs["value"], "value": plain.inputs["key"]}
    assert shown("packed-key-for-value", given) > 1e-3
    agrees("packed-key-for-value", given, replace(plain, inputs=inputs))


@pytest.mark.parametrize("name", SHOWING)
def test_their_numbers_are_named(name: str) -> None:
    wrong, given = BY_NAME[name], SHOWING[name]
    answers = answer(given.problem, given.inputs)
    said = diagnose(given.problem, given.inputs, answers, wrong.outputs(given.problem, given.inputs), "f32").words
    assert said.startswith("equals the result with ")
    assert wrong.words in said
