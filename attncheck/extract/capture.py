"""What a model computes on the way: chosen tensors, from ONNX Runtime's CPU provider in a process of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from attncheck.backends.ort_cpu import OrtCpu
from attncheck.engine.worker import Worker, WorkerFailed
from attncheck.extract.source import Source
from attncheck.graph import walk
from attncheck.graph.external import UnusableModel

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Limits:
    """Seconds that one run may take, bytes that its process may hold, and bytes that a case may take later."""

    seconds: float
    memory: int
    case: int


class Runner:
    """Runs parts of one model; after a part that could not be run, the next one gets a fresh process."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._worker = self._started()

    def _started(self) -> Worker:
        return Worker.started(OrtCpu().launch(), self._limits.memory)

    def close(self) -> None:
        """End the process."""
        self._worker.close()

    def values(self, proto: onnx.ModelProto, feeds: Arrays, wanted: Sequence[str]) -> Arrays:
        """The tensors named in `wanted`: inputs, initialisers or anything that a node of the graph gives.

        Raises UnusableModel with what ONNX Runtime says, or with how its process ended.
        """
        names = list(dict.fromkeys(name for name in wanted if name not in feeds))
        given = {name: feeds[name] for name in wanted if name in feeds}
        if not names:
            return given
        part = upstream(proto, names)
        payload = {
            "model": part.SerializeToString(),
            "folder": str(self._path.resolve().parent),
            "as_written": True,
        }
        taken = {value.name for value in part.graph.input}
        try:
            handle = self._worker.prepare(payload, self._limits.seconds)
            inputs = {name: array for name, array in feeds.items() if name in taken}
            found = self._worker.run(handle, inputs, self._limits.seconds)["outputs"]
            self._worker.release(handle, self._limits.seconds)
        except WorkerFailed as failure:
            self._worker.close()
            self._worker = self._started()
            raise UnusableModel(
                f"{self._path}: ONNX Runtime's CPU provider does not run the model as far as its attention: "
                f"{failure.verdict}: {failure.message}"
            ) from failure
        return {**given, **found}


@contextmanager
def runner(source: Source, limits: Limits) -> Iterator[Runner]:
    """Start a process that runs parts of a model. Raises BackendUnavailable where ONNX Runtime cannot start."""
    it = Runner(source.path, limits)
    try:
        yield it
    finally:
        it.close()


def upstream(proto: onnx.ModelProto, wanted: Iterable[str]) -> onnx.ModelProto:
    """The part of a model that gives the tensors in `wanted`, which become its outputs."""
    names = tuple(wanted)
    needed = set(names)
    nodes = []
    for node in reversed(proto.graph.node):
        if not needed.isdisjoint(node.output):
            nodes.append(node)
            needed.update(walk.read_by(node))
    part = onnx.ModelProto(ir_version=proto.ir_version)
    part.opset_import.extend(proto.opset_import)
    part.functions.extend(proto.functions)
    part.graph.name = proto.graph.name or "graph"
    part.graph.node.extend(reversed(nodes))
    part.graph.initializer.extend(it for it in proto.graph.initializer if it.name in needed)
    part.graph.sparse_initializer.extend(it for it in proto.graph.sparse_initializer if it.values.name in needed)
    part.graph.input.extend(value for value in proto.graph.input if value.name in needed)
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    return part
