"""Who is timed: each kernel of our own on each backend that runs them, and every other backend as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from attncheck.backends.base import Backend
from attncheck.backends.registry import Settings, create, kind_of, use_of
from attncheck.scenario.model import Kernel

SDPA = ("flash", "cudnn", "efficient", "math")
"""Kernels of PyTorch's that are timed beside its own choice, where they take the case."""


@dataclass(frozen=True)
class Contender:
    """A backend, and the kernel that it is made to run; "" where it has no such axis.

    of     the backend's name: contenders of one name share a worker
    use    the backend that this one configures or pins, its own name where it does neither
    asked  what is added to the payload of its requests
    """

    of: str
    kernel: str
    backend: Backend
    use: str
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """As tables show it: "wgsl online", "ort-cpu"."""
        return f"{self.of} {self.kernel}".rstrip()


def contenders(names: Sequence[str], kernels: Sequence[Kernel], settings: Settings) -> tuple[Contender, ...]:
    """The contenders of the backends called `names`. Raises UnknownBackend."""
    found: list[Contender] = []
    for name in names:
        use = use_of(name, settings)
        if kind_of(name, settings).gpu:  # only those that run our own kernels take adapters, and kernels
            for kernel in kernels:
                forced = replace(settings, policy=replace(settings.policy, kernel=kernel), forced=True)
                found += [Contender(it.name, kernel, it, use) for it in create(name, forced)]
            continue
        (backend,) = create(name, settings)
        found.append(Contender(backend.name, "", backend, use))
        if backend.launch().runtime == "torch_sdpa":
            found += [Contender(backend.name, kernel, backend, use, {"sdpa": kernel}) for kernel in SDPA]
    return tuple(sorted(found, key=lambda it: [other.of for other in found].index(it.of)))
