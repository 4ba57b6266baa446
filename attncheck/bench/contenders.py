"""Who is timed: each kernel of our own on each backend that runs them, and every other backend as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from attncheck.backends.base import Backend
from attncheck.backends.registry import Settings, create, kind_of
from attncheck.kernels.policy import Policy
from attncheck.scenario.model import Kernel


@dataclass(frozen=True)
class Contender:
    """A backend, and the kernel that it is made to run; "" where it has no such axis.

    of   the backend's name: contenders of one name share a worker
    """

    of: str
    kernel: str
    backend: Backend

    @property
    def label(self) -> str:
        """As tables show it: "wgsl online", "ort-cpu"."""
        return f"{self.of} {self.kernel}".rstrip()


def contenders(names: Sequence[str], kernels: Sequence[Kernel], settings: Settings) -> tuple[Contender, ...]:
    """The contenders of the backends called `names`. Raises UnknownBackend."""
    found: list[Contender] = []
    for name in names:
        if not kind_of(name, settings).gpu:  # only those that run our own kernels take adapters, and kernels
            found += [Contender(it.name, "", it) for it in create(name, settings)]
            continue
        for kernel in kernels:
            forced = replace(settings, policy=Policy(kernel, settings.policy.threshold), forced=True)
            found += [Contender(it.name, kernel, it) for it in create(name, forced)]
    return tuple(sorted(found, key=lambda it: [other.of for other in found].index(it.of)))
