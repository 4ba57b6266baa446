"""Starting a backend only to see whether it can be started."""

from __future__ import annotations

from attncheck.backends import environments
from attncheck.backends.base import Backend, Hello
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
