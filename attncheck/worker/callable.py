"""A user's own function as a worker's runtime.

Its inputs are views into guarded buffers: what it writes around them, or into them, is found after the call. Whatever
else it does (prints, hangs, dies) happens in this process alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, Callable, Dict, Tuple

import guards
import numpy as np
import roles
from failure import Failure

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Runtime:
    """Calls one function."""

    def __init__(self, function: Callable[..., Any], file: str, conventions: ModuleType) -> None:
        self.function = function
        self.declines = conventions.Unsupported
        self.kinds = list(getattr(function, conventions.TAKES_PROBLEM, ()))
        name = getattr(function, "__name__", type(function).__name__)
        provider, kernels = getattr(function, conventions.EVIDENCE, (os.path.basename(file), ()))
        self.evidence = {"provider": provider, "kernels": list(kernels) or [name]}
        versions = {"python": sys.version.split()[0], "numpy": np.__version__}
        self.hello = {"versions": versions, "device": {"file": file, "function": name, "provider": provider}}
        if self.kinds:
            self.hello["device"]["kinds"] = self.kinds

    def prepare(self, payload: Dict[str, Any]) -> Dict[str, Any]:
        """payload: {"model": bytes, "fed": names of inputs that its graph takes, "problem": Problem as a dict,
        "outputs": [{"name", "dtype", "shape"}]}.
        """
        return payload

    def run(self, prepared: Dict[str, Any], inputs: Dict[str, np.ndarray]) -> Tuple[Dict[str, np.ndarray], Any]:
        """Outputs by the graph's names. Raises Failure: "oob-write", "malformed", "unsupported"."""
        buffers = {name: guards.Surrounded(array) for name, array in inputs.items()}
        views = {name: buffer.view for name, buffer in buffers.items()}
        try:
            outputs = self._outputs(prepared, views)
        except self.declines as declined:
            raise Failure("unsupported", "it says: %s" % (str(declined) or "it does not cover the case")) from declined
        finally:
            # A stray write may be what made the function fail, and explains it better.
            for name, buffer in buffers.items():
                _check(name, buffer)
        return outputs, self.evidence

    def release(self, prepared: Dict[str, Any]) -> None:
        """Nothing is kept."""

    def _outputs(self, prepared: Dict[str, Any], views: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
        if not self.kinds:
            return _arrays(self.function(prepared["model"], {name: views[name] for name in prepared["fed"]}))
        problem = prepared["problem"]
        given = self.function(_plain(problem), roles.tensors(problem, views))
        return roles.graph_outputs(problem, _arrays(given), prepared["outputs"], views)


def start(options: Dict[str, Any]) -> Runtime:
    """options: {"file": path of a Python file, "function": a name in it}. Raises Failure where there is none."""
    conventions = _attncheck_callable()
    module = _load(options["file"])
    function = getattr(module, options["function"], None)
    if function is None:
        there = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise Failure(
            "error",
            "%s has no function %r; it has %s" % (options["file"], options["function"], ", ".join(there) or "none"),
        )
    if not callable(function):
        raise Failure("error", "%s: %r is not a function" % (options["file"], options["function"]))
    return Runtime(function, options["file"], conventions)


def _attncheck_callable() -> ModuleType:
    """The module attncheck.callable of the attncheck that this worker belongs to, installed here or not."""
    init = os.path.join(PACKAGE, "__init__.py")
    spec = importlib.util.spec_from_file_location("attncheck", init, submodule_search_locations=[PACKAGE])
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["attncheck"] = package
    spec.loader.exec_module(package)
    return importlib.import_module("attncheck.callable")


def _load(file: str) -> ModuleType:
    """Run the user's file as a module of its own name, with its folder importable."""
    # This folder stood first on the path, and a user's `import wire` must not get ours: ours are loaded by now.
    sys.path[0] = os.path.dirname(file)
    name = os.path.splitext(os.path.basename(file))[0]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Failure("error", "%s is not a Python file" % file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise Failure("error", "%s cannot be imported: %s: %s" % (file, type(error).__name__, error)) from error
    return module


def _arrays(given: Any) -> Dict[str, np.ndarray]:
    """What the function returned, checked to be arrays by name, since nothing else can be compared."""
    if not isinstance(given, dict):
        raise Failure("malformed", "it returned %s instead of a dict of arrays by name" % _kind(given))
    for name, value in given.items():
        if not isinstance(name, str):
            raise Failure("malformed", "it returned a dict with the key %r; keys are names of outputs" % (name,))
        if not isinstance(value, np.ndarray):
            raise Failure("malformed", "output %s is %s instead of a NumPy array" % (name, _kind(value)))
        if value.dtype.hasobject:
            raise Failure("malformed", "output %s is an array of Python objects" % name)
    return {name: _stored(value) for name, value in given.items()}


def _stored(array: np.ndarray) -> np.ndarray:
    """Arrays of ml_dtypes' bfloat16 cross as their bits."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _kind(value: Any) -> str:
    return "None" if value is None else "a " + type(value).__name__


def _plain(data: Any) -> Any:
    """Dicts as attributes."""
    if isinstance(data, dict):
        return SimpleNamespace(**{key: _plain(value) for key, value in data.items()})
    return tuple(_plain(item) for item in data) if isinstance(data, list) else data


def _check(name: str, buffer: guards.Surrounded) -> None:
    stray = buffer.stray()
    if stray is not None:
        raise Failure("oob-write", "it wrote outside of the input %s: %s" % (name, stray))
    changed = buffer.changed()
    if changed:
        raise Failure("oob-write", "it changed its input %s: %s" % (name, changed))
