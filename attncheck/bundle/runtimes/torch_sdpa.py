"""PyTorch's scaled_dot_product_attention in a script: by the file that attncheck's worker calls it with."""

from __future__ import annotations

from attncheck.bundle.runtimes.beside import PROBLEM_TEXT, constant, problems, worker_files
from attncheck.bundle.runtimes.packages import needed
from attncheck.bundle.runtimes.several import written
from attncheck.bundle.subject import Piece, Subject

_IMPORTS = '''\
import json

import numpy as np
import torch

sys.path.insert(0, str(HERE / "beside"))
import torch_sdpa'''

_RUN = '''\
def run(inputs{, at}):
    """Outputs by name."""
    problem, outputs = described({at})
    runtime = torch_sdpa.start({"device": DEVICE})
    prepared = runtime.prepare({"problem": problem, "outputs": outputs})
    values, ran = runtime.run(prepared, {name: array.copy() for name, array in inputs.items()})
    print(f"PyTorch {torch.__version__}: {ran}")
    return values
'''


def piece(subject: Subject) -> Piece:
    """PyTorch on the device that it ran on."""
    return Piece(
        needed(subject, "torch"),
        _IMPORTS,
        written(f"{_RUN}\n\n{PROBLEM_TEXT}", subject),
        f"DEVICE = {subject.launch.options.get('device')!r}\n{constant(subject)}",
        {**problems(subject), **worker_files("torch_sdpa", "roles")},
        held=True,
    )
