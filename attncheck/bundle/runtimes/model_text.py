"""The function of a script that builds its model."""

from __future__ import annotations

import textwrap

from attncheck.bundle import literals

_BUILT = '''\
def model():
    """The model: one node, and what goes in and out."""
    try:
        from onnx import TensorProto, helper
    except ImportError:  # without the package onnx: the same model, as a file
        return (HERE / "model.onnx").read_bytes()
{body}
'''

_FILE = '''\
def model():
    """The model, which holds more than a few plain nodes."""
    return (HERE / "model.onnx").read_bytes()
'''


def function(content: bytes) -> str:
    """`model()`, which gives a model's bytes: built by onnx.helper where these calls give the same model."""
    body = literals.model(content)
    if body is None:
        return _FILE
    return _BUILT.format(body=textwrap.indent(f"{body}.SerializeToString()", "    "))
