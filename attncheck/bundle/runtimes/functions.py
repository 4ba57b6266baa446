"""A user's own function in a script: its file, and what that imports from its folder, lie beside the script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from attncheck import callable as conventions
from attncheck.backends.sources import PACKAGE, imports, sources
from attncheck.bundle.runtimes.beside import FOLDER as BESIDE
from attncheck.bundle.runtimes.beside import PATH, PROBLEM_TEXT, constant, problems, worker_files
from attncheck.bundle.runtimes.packages import imported
from attncheck.bundle.runtimes.several import listed, numbered, written
from attncheck.bundle.subject import Piece, Subject
from attncheck.vocabulary import Verdict

FOLDER = "kernel"
"""Of the user's files, so that none takes the name of one of ours."""

_LOAD = '''\
@functools.cache  # one module for every run, as in a process that goes on
def function():
    """FUNCTION of FILE, loaded with its own folder importable."""
    sys.path.insert(0, str(HERE / FILE.parent))
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
        arguments = attributes(problem), roles.tensors(problem, given)
    else:
        arguments = (HERE / MODELS{[at]}).read_bytes(), given
    try:
        outputs = call(*arguments)
    except Unsupported as declined:
        raise CannotRun(f"{FILE.name}:{FUNCTION} declines the case: {declined}") from declined
    if getattr(call, "{mark}", False):
        outputs = roles.graph_outputs(problem, outputs, wanted, given)'''

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
    held = {file.relative_to(path.parent).as_posix(): content for file, content in sources(path)}
    files = {f"{FOLDER}/{name}": content for name, content in held.items()}
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
        files |= {f"{BESIDE}/{PACKAGE}/{it}": (package / it).read_bytes() for it in ("__init__.py", "callable.py")}
        files |= {**problems(subject), **worker_files("roles")}
        called = _CALLED_EITHER_WAY.replace("{mark}", conventions.TAKES_PROBLEM)
    if guarded:
        files |= worker_files("guards")
    run = _RUN.replace("{given}", _GUARDED if guarded else _GIVEN).replace("{called}", called)
    functions.append(run.replace("{check}", _CHECKED if guarded else ""))
    functions += [PROBLEM_TEXT, _ATTRIBUTES] if decorated else []
    return Piece(
        imported(subject, _packages(held)),
        _imports(decorated, guarded),
        written("\n\n".join(functions), subject),
        "\n".join(constants),
        files,
        _lacking(held),
        held=bool(subject.hello.device.get("kinds")),
    )


def _imports(decorated: bool, guarded: bool) -> str:
    lines = ["import importlib.util", "", "import numpy as np"]
    beside = [name for name, wanted in (("roles", decorated), ("guards", guarded)) if wanted]
    if decorated:
        lines = [lines[0], "import json", "from types import SimpleNamespace", *lines[1:]]
    lines = ["import functools", *lines]
    if beside:
        lines += ["", PATH, *(f"import {name}" for name in beside)]
        lines += ["from attncheck.callable import Unsupported"] if decorated else []
    return "\n".join(lines)


_ATTRIBUTES = '''\
def attributes(data):
    """Dicts as attributes."""
    if isinstance(data, dict):
        return SimpleNamespace(**{key: attributes(value) for key, value in data.items()})
    return tuple(attributes(item) for item in data) if isinstance(data, list) else data
'''


def _packages(held: Mapping[str, bytes]) -> set[str]:
    """Top modules that the files import from elsewhere, of the standard library too."""
    own = {name.partition("/")[0].removesuffix(".py") for name in held}
    found = {module.partition(".")[0] for content in held.values() for _, module in imports(content)}
    return found - own - {PACKAGE}


def _lacking(files: Mapping[str, bytes]) -> str:
    """Where a file imports more of attncheck than a bundle holds: which, and what to do."""
    held = {PACKAGE, conventions.__name__, f"{PACKAGE}.__version__"}
    for name, content in files.items():
        for line, module in sorted(imports(content)):
            if module.partition(".")[0] == PACKAGE and module not in held:
                return (
                    f"{name}, line {line}, imports {module}, and of attncheck a bundle holds {conventions.__name__} "
                    "alone, since its script must run where there is no attncheck; take what is needed of it into a "
                    "file beside your own"
                )
    return ""
