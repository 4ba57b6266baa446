"""Which packages a script needs, as pip writes them."""

from __future__ import annotations

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
