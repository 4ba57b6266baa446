"""Which packages a script needs, as pip writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping

from attncheck.backends.environments import project
from attncheck.bundle.subject import Subject

_ASKING = """\
import json, sys
from importlib import metadata

found = {}
for it in metadata.distributions():
    named = (it.read_text("top_level.txt") or "").split()
    named += [path.parts[0].removesuffix(".py") if hasattr(str, "removesuffix") else path.parts[0]
              for path in it.files or () if path.suffix == ".py" or len(path.parts) > 1]
    for module in set(named) & set(sys.argv[1:]):
        found.setdefault(module, (it.metadata["Name"], it.version))
print(json.dumps(found))
"""
"""What an interpreter is asked, from Python 3.8 on: which package brings a module, and in which version."""


def needed(subject: Subject, module: str, *further: str) -> tuple[str, ...]:
    """NumPy, `further`, and the package that brings `module`: as its environment requires, or as it was found.

    module   a module of the runtime, whose version the worker told under this name
    further  other packages, as pip writes them
    """
    base = ("numpy", *(need for need in further if project(need) not in map(project, subject.required)))
    if subject.required:
        return (*base, *(it for it in subject.required if project(it) != "numpy"))
    version = subject.hello.versions.get(module)
    package, _ = _installed(subject, [module]).get(module, (module.replace("_", "-"), ""))
    return (*base, f"{package}=={version}" if version else package)


def imported(subject: Subject, modules: Iterable[str]) -> tuple[str, ...]:
    """NumPy, and the packages that bring what a user's files import, with their versions; of an environment, its own.

    modules   top modules that are imported, of the standard library and of packages. What is not installed is tried in
              vain here too, and left out
    """
    if subject.required:
        return ("numpy", *(it for it in subject.required if project(it) != "numpy"))
    names = sorted({*modules} - {"numpy"} - sys.stdlib_module_names)
    return ("numpy", *sorted({f"{package}=={version}" for package, version in _installed(subject, names).values()}))


def _installed(subject: Subject, modules: Iterable[str]) -> Mapping[str, tuple[str, str]]:
    """Of modules that the backend's interpreter can import from a package: its name and version."""
    python = subject.launch.python or sys.executable
    asked = subprocess.run([python, "-c", _ASKING, *modules], capture_output=True, text=True, check=False)
    found = json.loads(asked.stdout) if asked.returncode == 0 else {}
    return {module: (name, version) for module, (name, version) in found.items()}
