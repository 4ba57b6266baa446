"""ONNX's reference evaluator in a script."""

from __future__ import annotations

from attncheck.bundle.runtimes import model_text
from attncheck.bundle.runtimes.packages import needed
from attncheck.bundle.runtimes.several import written
from attncheck.bundle.subject import Piece, Subject

_RUN = '''\
def run(inputs{, at}):
    """Outputs by name."""
    evaluator = ReferenceEvaluator(onnx.load_model_from_string(model({at})))
    types = {value.name: value.type.tensor_type.elem_type for value in evaluator.proto_.graph.input}
    values = evaluator.run(None, {name: as_declared(array, types[name]) for name, array in inputs.items()})
    print(f"onnx {onnx.__version__}, reference evaluator")
    arrays = dict(zip(evaluator.output_names, map(np.asarray, values)))
    return {name: it.view(np.uint16) if it.dtype.name == "bfloat16" else it for name, it in arrays.items()}


def as_declared(array, element):
    """bfloat16 is written here as its bits in uint16; the evaluator wants the type itself."""
    if element != onnx.TensorProto.BFLOAT16:
        return array
    import ml_dtypes

    return array.view(ml_dtypes.bfloat16)
'''


def piece(subject: Subject) -> Piece:
    """The evaluator of the package onnx."""
    return Piece(
        needed(subject, "onnx"),
        "import numpy as np\nimport onnx\nfrom onnx.reference import ReferenceEvaluator",
        written("\n\n".join([model_text.functions(subject), _RUN]), subject),
    )
