"""The writing half: a Scenario becomes a Case, an ONNX model with inputs. One file an operator."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from attncheck.graph.case import Case
from attncheck.graph.write import attention, gqa, mha
from attncheck.graph.write.parts import Parts
from attncheck.scenario.model import Scenario
from attncheck.tensors.data import GENERATOR_VERSION

_WRITERS = {"gqa": gqa.write, "mha": mha.write, "attention": attention.write}


def build(scenario: Scenario) -> Case:
    """Write `scenario` as an ONNX model with its input arrays. Pure: the same scenario gives the same bytes."""
    parts: Parts = _WRITERS[scenario.op](scenario)
    return Case(
        id=scenario.id,
        scenario=scenario,
        model=parts.model,
        inputs=parts.inputs,
        outputs=parts.outputs,
        digest=_digest(parts.model, parts.inputs),
    )


def _digest(model: bytes, inputs: Mapping[str, NDArray[np.generic]]) -> str:
    """SHA-256 over the generator's version, the model and every input: names the content, whatever its address."""
    digest = hashlib.sha256(f"attncheck data {GENERATOR_VERSION}\n".encode())
    digest.update(model)
    for name, array in inputs.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
