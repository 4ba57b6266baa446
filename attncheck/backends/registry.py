"""Backends by name: the one place that knows which there are."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from attncheck.backends.base import Backend
from attncheck.backends.ort_cpu import OrtCpu
from attncheck.backends.wgsl import Wgsl
from attncheck.kernels.policy import Policy


class UnknownBackend(Exception):
    """No backend has this name. The message lists those that there are."""


@dataclass(frozen=True)
class Settings:
    """What the user may say about backends.

    policy    which kernel of our own runs; forced: it overrules what a scenario says
    adapter   an adapter's name or a part of it; None takes the first, hardware before software
    shaders   a folder of edited shaders instead of the shipped one
    """

    policy: Policy = field(default_factory=Policy)
    forced: bool = False
    adapter: str | None = None
    shaders: Path | None = None


_BACKENDS: dict[str, Callable[[Settings], Backend]] = {
    "ort-cpu": lambda _: OrtCpu(),
    "wgsl": lambda settings: Wgsl(
        policy=settings.policy, forced=settings.forced, adapter=settings.adapter, shaders=settings.shaders
    ),
}

NAMES = tuple(_BACKENDS)


def create(name: str, settings: Settings) -> Backend:
    """The backend called `name`. Raises UnknownBackend."""
    if name not in _BACKENDS:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f", did you mean {near[0]!r}?" if near else "."
        raise UnknownBackend(f"there is no backend {name!r}{hint} There are: {', '.join(NAMES)}")
    return _BACKENDS[name](settings)
