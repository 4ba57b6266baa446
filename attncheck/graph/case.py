"""A Case: one ONNX model and its named inputs, ready for any backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attncheck.scenario.model import Scenario


@dataclass(frozen=True)
class Output:
    """A graph output as it must come back: name, dtype (ONNX name) and full shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """What every backend is given. `digest` names the content (model, inputs, generator version), not the address."""

    id: str
    scenario: Scenario
    model: bytes
    inputs: Mapping[str, NDArray[np.generic]]
    outputs: tuple[Output, ...]
    digest: str
