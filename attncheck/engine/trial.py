"""Starting a backend only to see whether it can be started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attncheck.backends import environments
from attncheck.backends.base import Backend, Hello, Launch
from attncheck.engine.worker import Worker


def start(backend: Backend, note: environments.Note) -> Hello:
    """What the backend's worker says of itself, started as a run would start it, and ended. Raises BackendUnavailable.

    note: is told when the worker's environment has to be made first.
    """
    worker = Worker.started(environments.ready(backend.launch(), note))
    try:
        backend.check(worker.hello)
        return worker.hello
    finally:
        worker.close()


def adapters(environment: Mapping[str, str] | None = None) -> Sequence[Mapping[str, Any]]:
    """Every adapter that wgpu finds, the default one first. Raises BackendUnavailable.

    environment   variables of the process that looks
    """
    worker = Worker.started(Launch("survey", environment=environment or {}))
    try:
        found: Sequence[Mapping[str, Any]] = worker.hello.device["adapters"]
        return found
    finally:
        worker.close()
