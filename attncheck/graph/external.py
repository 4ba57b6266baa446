"""External data of a model: never read from outside of the model's folder, and never more than was allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

import onnx
from onnx.external_data_helper import ExternalDataInfo, load_external_data_for_model, uses_external_data


class UnusableModel(Exception):
    """A file or its inputs cannot be run as a case. The message says what, where, and what would do."""


def refuse_large(path: Path, size: int, limit: int) -> None:
    """Raise UnusableModel where the model takes more than `limit` bytes."""
    if size > limit:
        raise UnusableModel(f"{path} with its data takes {size} bytes, above --memory-limit {limit}")


def refuse_outside(path: Path, proto: onnx.ModelProto) -> tuple[onnx.TensorProto, ...]:
    """The tensors with external data, sub-graphs and functions included.

    Raises UnusableModel where one lies outside of the folder of `path`, symbolic links followed.
    """
    folder = path.resolve().parent
    external = tuple(tensor for tensor in tensors(proto) if uses_external_data(tensor))
    outside = [tensor for tensor in external if not _inside(folder, tensor)]
    if outside:
        where = Path(ExternalDataInfo(outside[0]).location)
        leads = (folder / where).resolve()
        link = "" if where.is_absolute() or ".." in where.parts else f", by a symbolic link in {str(leads)!r}"
        raise UnusableModel(
            f"{path}: the tensor {outside[0].name} lies in {str(where)!r}{link}, outside of the model's folder; "
            "attncheck reads external data from the model's folder only"
        )
    return external


def load(path: Path, proto: onnx.ModelProto, limit: int) -> None:
    """Put the external data into `proto`. Raises UnusableModel where it lies outside or takes more than `limit`."""
    external = refuse_outside(path, proto)
    refuse_large(path, path.stat().st_size + sum(map(_elements_bytes, external)), limit)
    try:
        load_external_data_for_model(proto, str(path.resolve().parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise UnusableModel(f"{path}: its external data cannot be read: {str(error).splitlines()[0]}") from error


def tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor that a model holds, at any depth."""
    yield from _of_graph(proto.graph)
    for function in proto.functions:
        yield from _of_nodes(function.node)


def _of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
            for graph in (attribute.g, *attribute.graphs):
                yield from _of_graph(graph)


def _elements_bytes(tensor: onnx.TensorProto) -> int:
    """Bytes that a tensor of this shape takes, a byte an element at least; an external file's own word is no proof."""
    return int(max(ExternalDataInfo(tensor).length or 0, prod(tensor.dims)))


def _inside(folder: Path, tensor: onnx.TensorProto) -> bool:
    """Whether external data stays in the folder, symbolic links followed."""
    where = Path(ExternalDataInfo(tensor).location)
    return not where.is_absolute() and (folder / where).resolve().is_relative_to(folder)
