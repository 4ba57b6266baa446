"""One function for every wrong kernel of the catalogues, by its name with underscores: `wrong.py:softcap_ignored`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from attncheck.graph import read
from attncheck.oracle.wrong.catalogue import CATALOGUE
from attncheck.oracle.wrong.lineup import lineup
from attncheck.oracle.wrong.readings import READINGS
from attncheck.oracle.wrong.recurrences import RECURRENCES
from attncheck.oracle.wrong.turning import TURNING
from attncheck.problem import role_of
from attncheck.tensors.dtypes import narrow

Arrays = dict[str, np.ndarray[Any, Any]]


def __getattr__(name: str) -> Callable[[bytes, Arrays], Arrays]:
    if name not in {wrong.name.replace("-", "_") for wrong in (*CATALOGUE, *READINGS, *TURNING, *RECURRENCES)}:
        raise AttributeError(name)

    def function(model: bytes, inputs: Arrays) -> Arrays:
        problem = read.any_problem(model, inputs)
        tried = lineup(problem, inputs)
        wrong = next(it for it in chain(tried.known, *tried.further) if it.name.replace("-", "_") == name)
        with np.errstate(all="ignore"):
            outputs = wrong.outputs(None)
        return {output: narrow(values, role_of(problem.outputs, output).dtype) for output, values in outputs.items()}

    function.__name__ = name
    return function
