"""Which packages a script needs, as pip writes them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import metadata

from attncheck.backends.environments import project
from attncheck.bundle.subject import Subject


def needed(subject: Subject, module: str, *further: str) -> tuple[str, ...]:
    """NumPy, `further`, and the package that brings `module`: as its environment requires, or as it was found.

    module   a module of the runtime, whose version the worker told under this name
    """
    base = ("numpy", *(name for name in further if name not in map(project, subject.required)))
    if subject.required:
        return (*base, *(it for it in subject.required if project(it) != "numpy"))
    version = subject.hello.versions.get(module)
    package = module.replace("_", "-")
    if subject.launch.python is None:
        package = next(iter(metadata.packages_distributions().get(module, ())), package)
    return (*base, f"{package}=={version}" if version else package)


def imported(subject: Subject, modules: Iterable[str]) -> tuple[str, ...]:
    """NumPy, and the packages that bring what a user's files import, with their versions; of an environment, its own.

    modules   top modules that are imported, of the standard library and of packages. What is not installed is tried in
              vain here too, and left out
    """
    if subject.required:
        return ("numpy", *(it for it in subject.required if project(it) != "numpy"))
    names = sorted({*modules} - {"numpy"} - sys.stdlib_module_names)
    if subject.launch.python is not None:
        return ("numpy", *(name.replace("_", "-") for name in names))
    packages = metadata.packages_distributions()
    found = sorted({packages[name][0] for name in names if name in packages})
    return ("numpy", *(f"{package}=={metadata.version(package)}" for package in found))
