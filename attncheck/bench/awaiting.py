"""Work that a request to end early need not wait for: done on a thread, while the caller looks for the request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from attncheck.engine.run import POLL

SHORTLY = 2.0
"""Seconds that work has, once it is to end, to come back with what there is of it."""

Found = TypeVar("Found")


class Interrupted(Exception):
    """The work was to end, and has not come back."""


def awaited(work: Callable[[], Found], cancelled: threading.Event, end: Callable[[], None]) -> Found:
    """What `work` gives, or raises. Raises Interrupted where it does not come back shortly after `cancelled` was set.

    end   is called when that happens, and takes from the work what it waits for; arithmetic of our own is left behind
          on its thread, which does not keep the process alive
    """
    future: Future[Found] = Future()
    try:
        threading.Thread(target=_do, args=(work, future), daemon=True).start()
        while wait([future], timeout=POLL).not_done and not cancelled.is_set():
            pass
    except KeyboardInterrupt:
        end()  # whoever closes what the work still reads from would wait for it
        raise
    if cancelled.is_set():
        end()
        if wait([future], timeout=SHORTLY).not_done:
            raise Interrupted
    return future.result()


def _do(work: Callable[[], Found], future: Future[Found]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001  whoever waits gets it
        future.set_exception(error)
