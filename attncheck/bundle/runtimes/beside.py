"""Files of attncheck's own that a script needs beside it: parts of its worker, and the Problem as plain data."""

from __future__ import annotations

import json
from pathlib import Path

import attncheck
from attncheck.bundle.subject import Subject, plain

FOLDER = "beside"
PROBLEM = f"{FOLDER}/problem.json"

PATH = 'sys.path.insert(0, str(HERE / "beside"))'
"""The line of a script that makes these importable."""

PROBLEM_TEXT = '''\
def described():
    """The problem as attncheck describes it, and the outputs that must come back."""
    data = decoded(json.loads((HERE / "beside" / "problem.json").read_text(encoding="utf-8")))
    return data["problem"], data["outputs"]


def decoded(data):
    """JSON with its arrays."""
    if isinstance(data, dict):
        if data.keys() == {"dtype", "shape", "elements"}:
            return np.array(data["elements"], data["dtype"]).reshape(data["shape"])
        return {key: decoded(value) for key, value in data.items()}
    return [decoded(item) for item in data] if isinstance(data, list) else data
'''


def problem(subject: Subject) -> dict[str, bytes]:
    """The Problem and the outputs, as the worker was given them."""
    told = plain({"problem": subject.payload["problem"], "outputs": subject.payload["outputs"]})
    return {PROBLEM: json.dumps(told, indent=1).encode(), **worker_files("failure")}


def worker_files(*modules: str) -> dict[str, bytes]:
    """Modules of worker/, which need the standard library and NumPy alone."""
    folder = Path(attncheck.__file__).parent / "worker"
    return {f"{FOLDER}/{name}.py": (folder / f"{name}.py").read_bytes() for name in modules}
