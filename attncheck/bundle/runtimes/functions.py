"""A user's own function in a script: its file, and what that imports from its folder, lie beside the script."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from attncheck import callable as conventions
from attncheck.bundle.runtimes.beside import PATH, PROBLEM_TEXT, constant, problems, worker_files
from attncheck.bundle.runtimes.several import listed, numbered, written
from attncheck.bundle.subject import Piece, Subject
from attncheck.vocabulary import Verdict

FOLDER = "kernel"
"""Of the user's files, so that none takes the name of one of ours."""

_LOAD = '''\
{once}def function():
    """FUNCTION of FILE, loaded with its own folder importable."""
    sys.path[:0] = [str(HERE / FILE.parent), str(HERE)]
    spec = importlib.util.spec_from_file_location(FILE.stem, HERE / FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[FILE.stem] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as missing:
        raise CannotRun(f"{FILE.name} imports what is not here: {missing}") from missing
    return getattr(module, FUNCTION)
'''

_RUN = '''\
def run(inputs{, at}):
    """Outputs by name."""
    call = function()
{given}
    print(f"calling {FILE.name}:{FUNCTION}")
{called}
{check}    return outputs
'''

_CALLED = '''\
    outputs = call((HERE / MODELS{[at]}).read_bytes(), given)'''

_CALLED_EITHER_WAY = '''\
    if getattr(call, "{mark}", False):
        problem, wanted = described({at})
        outputs = roles.graph_outputs(problem, call(attributes(problem), roles.tensors(problem, given)), wanted, given)
    else:
        outputs = call((HERE / MODELS{[at]}).read_bytes(), given)'''

_GIVEN = "    given = {name: array.copy() for name, array in inputs.items()}"

_GUARDED = '''\
    guarded = {name: guards.Surrounded(array) for name, array in inputs.items()}
    given = {name: it.view for name, it in guarded.items()}'''

_CHECKED = '''\
    for name, it in guarded.items():
        stray = it.stray() or it.changed()
        if stray is not None:
            raise StrayWrite(f"it wrote outside of its outputs, at the input {name}: {stray}")
'''


def piece(subject: Subject) -> Piece:
    """The function, called as attncheck calls it."""
    path = Path(subject.launch.options["file"])
    files = {f"{FOLDER}/{name}": content for name, content in _sources(path)}
    decorated = any(b"attncheck" in content for content in files.values())
    guarded = subject.result.verdict is Verdict.OOB_WRITE
    constants = [
        f'FILE = pathlib.Path("{FOLDER}") / {json.dumps(path.name)}',
        f"FUNCTION = {json.dumps(subject.launch.options['function'])}",
        listed("MODELS", [json.dumps(name) for name in numbered("model.onnx", subject)], subject),
        *([constant(subject)] if decorated else []),
    ]
    functions, called = [_LOAD], _CALLED
    if decorated:
        # The decorators, and nothing else of attncheck.
        package = Path(conventions.__file__).parent
        files |= {f"attncheck/{it}": (package / it).read_bytes() for it in ("__init__.py", "callable.py")}
        files |= {**problems(subject), **worker_files("roles")}
        called = _CALLED_EITHER_WAY.replace("{mark}", conventions.TAKES_PROBLEM)
    if guarded:
        files |= worker_files("guards")
    run = _RUN.replace("{given}", _GUARDED if guarded else _GIVEN).replace("{called}", called)
    functions.append(run.replace("{check}", _CHECKED if guarded else ""))
    functions += [PROBLEM_TEXT, _ATTRIBUTES] if decorated else []
    return Piece(
        ("numpy", *subject.required),
        _imports(decorated, guarded, several=bool(subject.earlier)),
        written("\n\n".join(functions), subject),
        "\n".join(constants),
        files,
    )


def _imports(decorated: bool, guarded: bool, *, several: bool) -> str:
    lines = ["import importlib.util", "", "import numpy as np"]
    beside = [name for name, wanted in (("roles", decorated), ("guards", guarded)) if wanted]
    if decorated:
        lines = [lines[0], "import json", "from types import SimpleNamespace", *lines[1:]]
    lines = ["import functools", *lines] if several else lines
    if beside:
        lines += ["", PATH, *(f"import {name}" for name in beside)]
    return "\n".join(lines)


_ATTRIBUTES = '''\
def attributes(data):
    """Dicts as attributes."""
    if isinstance(data, dict):
        return SimpleNamespace(**{key: attributes(value) for key, value in data.items()})
    return tuple(attributes(item) for item in data) if isinstance(data, list) else data
'''


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _sources(path: Path) -> Iterator[tuple[str, bytes]]:
    """The file and whatever it imports from its own folder, and so on."""
    waiting, told = [path.name], set()
    while waiting:
        name = waiting.pop()
        if name in told or not (path.parent / name).is_file():
            continue
        told.add(name)
        content = (path.parent / name).read_bytes()
        yield name, content
        waiting += [f"{module}.py" for module in _imported(content)]


def _imported(content: bytes) -> Iterator[str]:
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (it.name.partition(".")[0] for it in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module.partition(".")[0]
