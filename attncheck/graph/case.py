"""A Case: one ONNX model and its named inputs, ready for any backend, and where it comes from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx
from numpy.typing import NDArray

from attncheck.scenario.model import Kernel, Scenario, Tolerance
from attncheck.tensors.data import GENERATOR_VERSION


@dataclass(frozen=True)
class Output:
    """A graph output as it must come back: name, dtype (ONNX name) and full shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class GivenModel:
    """Where a case comes from that nobody wrote as a scenario: a model that was there before.

    place   the file, or the package that generates it
    about   in a sentence: what the model is, and what its inputs are
    """

    id: str
    place: str
    about: str


Origin = Scenario | GivenModel


@dataclass(frozen=True)
class Case:
    """What every backend is given. `digest` names the content (model, inputs, generator version), not the address.

    published   outputs, by name, that whoever published the model says these inputs give; empty for most cases
    """

    id: str
    origin: Origin
    model: bytes
    inputs: Mapping[str, NDArray[np.generic]]
    outputs: tuple[Output, ...]
    digest: str
    published: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)

    @cached_property
    def fed(self) -> tuple[str, ...]:
        """The inputs that its graph takes: the others of `inputs` it holds itself, as constants."""
        graph = self._graph.graph
        held = {it.name for it in graph.initializer}
        return tuple(it.name for it in graph.input if it.name not in held)

    @cached_property
    def node(self) -> onnx.NodeProto:
        """The one node of its graph, beside constants."""
        nodes: list[onnx.NodeProto] = [node for node in self._graph.graph.node if node.op_type != "Constant"]
        (only,) = nodes
        return only

    @cached_property
    def opset(self) -> int:
        """The version of the node's domain that the model imports."""
        named: dict[str, int] = {it.domain or "ai.onnx": it.version for it in self._graph.opset_import}
        return named[self.node.domain or "ai.onnx"]

    @cached_property
    def _graph(self) -> onnx.ModelProto:
        return onnx.load_model_from_string(self.model)

    @property
    def kernel(self) -> Kernel | None:
        """The kernel that its scenario insists on, None for no wish."""
        return self.origin.kernel if isinstance(self.origin, Scenario) else None

    def tolerance(self, backend: str) -> Tolerance | None:
        """What its scenario puts in the place of the derived tolerance of `backend`, or of all backends."""
        given = self.origin.tolerance if isinstance(self.origin, Scenario) else {}
        return given.get(backend, given.get("*"))


def digest(model: bytes, inputs: Mapping[str, NDArray[np.generic]]) -> str:
    """SHA-256 over the generator's version, the model and every input: names the content, whatever its address."""
    content = hashlib.sha256(f"attncheck data {GENERATOR_VERSION}\n".encode())
    content.update(model)
    for name, array in inputs.items():
        content.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()
