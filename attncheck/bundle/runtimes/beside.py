"""Files of attncheck's own that a script needs beside it: parts of its worker, and the Problem as plain data."""

from __future__ import annotations

import json
from pathlib import Path

import attncheck
from attncheck.bundle.runtimes.several import listed, numbered
from attncheck.bundle.subject import Subject, plain

FOLDER = "beside"
PROBLEM = "problem.json"

PATH = 'sys.path.insert(0, str(HERE / "beside"))'
"""The line of a script that makes these importable."""

PROBLEM_TEXT = '''\
def described({at}):
    """The problem as attncheck describes it, and the outputs that must come back."""
    data = decoded(json.loads((HERE / "beside" / PROBLEMS{[at]}).read_text(encoding="utf-8")))
    return data["problem"], data["outputs"]


def decoded(data):
    """JSON with its arrays."""
    if isinstance(data, dict):
        if data.keys() == {"dtype", "shape", "elements"}:
            return np.array(data["elements"], data["dtype"]).reshape(data["shape"])
        return {key: decoded(value) for key, value in data.items()}
    return [decoded(item) for item in data] if isinstance(data, list) else data
'''


def problems(subject: Subject) -> dict[str, bytes]:
    """The Problem of each call and its outputs, as the worker was given them."""
    found = {}
    for name, call in zip(numbered(PROBLEM, subject), subject.calls, strict=True):
        told = plain({"problem": call.payload["problem"], "outputs": call.payload["outputs"]})
        found[f"{FOLDER}/{name}"] = json.dumps(told, indent=1).encode()
    return {**found, **worker_files("failure")}


def constant(subject: Subject) -> str:
    """The line of a script that `described` needs."""
    return listed("PROBLEMS", [json.dumps(name) for name in numbered(PROBLEM, subject)], subject)


def worker_files(*modules: str) -> dict[str, bytes]:
    """Modules of worker/, which need the standard library and NumPy alone."""
    folder = Path(attncheck.__file__).parent / "worker"
    return {f"{FOLDER}/{name}.py": (folder / f"{name}.py").read_bytes() for name in modules}
