"""One case on one backend, evaluated as a run would, with the reference beside it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from attncheck.backends.base import Backend, BackendUnavailable, Hello
from attncheck.engine.events import BackendFailed, BackendPreparing, BackendReady, CaseFinished, Result
from attncheck.engine.run import Given, Options, run

Told = Callable[[str, str], None]
"""Takes a backend's name and a line on what goes on: making an environment may take a minute."""


@dataclass(frozen=True)
class Seen:
    """What the case came to on the backend; `reference` is None where there is none, or it could not start."""

    result: Result
    reference: Result | None
    hello: Hello


def evaluate(given: Given, backend: Backend, reference: Backend | None, options: Options, told: Told) -> Seen:
    """Run the case. Raises BackendUnavailable where the backend cannot start."""
    hello: Hello | None = None
    results: tuple[Result, ...] = ()
    with closing(run([given], [backend], reference, options)) as events:
        for event in events:
            match event:
                case BackendPreparing():
                    told(event.backend, event.note)
                case BackendReady() if event.backend == backend.name:
                    hello = event.hello
                case BackendFailed() if event.backend == backend.name:
                    raise BackendUnavailable(event.message)
                case CaseFinished():
                    results = event.results
    assert hello is not None, "a backend that gave a result has started"
    of_reference = next((it for it in results if it.reference and it.backend != backend.name), None)
    return Seen(next(it for it in results if it.backend == backend.name), of_reference, hello)
