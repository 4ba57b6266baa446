"""One function for every wrong kernel of the catalogue, by its name with underscores: `wrong.py:softcap_ignored`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attncheck.graph import read
from attncheck.oracle.wrong.catalogue import CATALOGUE
from attncheck.tensors.dtypes import narrow

Arrays = dict[str, np.ndarray[Any, Any]]


def __getattr__(name: str) -> Callable[[bytes, Arrays], Arrays]:
    for wrong in CATALOGUE:
        if wrong.name.replace("-", "_") == name:
            break
    else:
        raise AttributeError(name)

    def function(model: bytes, inputs: Arrays) -> Arrays:
        problem = read.problem(model, inputs)
        with np.errstate(all="ignore"):
            outputs = wrong.outputs(problem, inputs)
        return {output: narrow(values, problem.dtype) for output, values in outputs.items()}

    function.__name__ = name
    return function
