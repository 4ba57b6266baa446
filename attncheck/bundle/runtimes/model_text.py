"""The function of a script that builds its model."""

from __future__ import annotations

import textwrap

from attncheck.bundle import literals
from attncheck.bundle.runtimes.several import numbered
from attncheck.bundle.subject import Subject

_BUILT = '''\
def {name}():
    """The model: one node, and what goes in and out."""
    try:
        from onnx import TensorProto, helper
    except ImportError:  # without the package onnx: the same model, as a file
        return (HERE / "{file}").read_bytes()
{body}
'''

_FILE = '''\
def {name}():
    """The model, which holds more than a few plain nodes."""
    return (HERE / "{file}").read_bytes()
'''


_CHOSEN = '''\
def model(at):
    """The model of call `at`, from 0 on."""
    return ({names})[at]()
'''


def functions(subject: Subject) -> str:
    """`model()`, which gives a model's bytes: built by onnx.helper where these calls give the same model.

    Of several calls `model(at)`; calls of the same model share one function.
    """
    if not subject.earlier:
        return function(subject.case.model)
    told: dict[bytes, str] = {}
    texts = []
    for number, (call, file) in enumerate(zip(subject.calls, numbered("model.onnx", subject), strict=True), 1):
        if call.case.model not in told:
            told[call.case.model] = f"model_{number}"
            texts.append(function(call.case.model, f"model_{number}", file))
    names = ", ".join(told[call.case.model] for call in subject.calls)
    return "\n\n".join([*texts, _CHOSEN.format(names=names)])


def function(content: bytes, name: str = "model", file: str = "model.onnx") -> str:
    """One function of a script: it builds the model, or where it cannot reads it from `file`."""
    body = literals.model(content)
    if body is None:
        return _FILE.format(name=name, file=file)
    return _BUILT.format(name=name, file=file, body=textwrap.indent(f"{body}.SerializeToString()", "    "))
