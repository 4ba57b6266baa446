"""Watches a worker's process through one exchange: ends it when it takes too long, or holds too much memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time

import psutil

POLL = 0.02
"""Seconds between looks at the memory: an allocation that grows faster than this is seen late, but seen."""

FAMILY = 5
"""Every so many looks at the memory take in what the process has started: finding that is dear."""


class Watch:
    """One exchange with `process`. What ended it, when something did, is told by `timed_out` and `exceeded`.

    memory  the most that the process may hold, in bytes; None for no limit
    peak    the most resident memory seen, in bytes; 0 when the exchange was over before the first look
    """

    def __init__(self, process: subprocess.Popen[bytes], seconds: float, memory: int | None) -> None:
        self.timed_out = False
        self.exceeded = False
        self.peak = 0
        self.memory = memory
        self._process = process
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """The exchange is over."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        deadline = time.monotonic() + self._seconds
        looks = 0
        while not self._over.wait(max(0.0, min(POLL, deadline - time.monotonic()))):
            looks += 1
            self.peak = max(self.peak, resident(self._process.pid, family=looks % FAMILY == 0))
            if self.memory is not None and self.peak > self.memory:
                self.exceeded = True
            elif time.monotonic() >= deadline:
                self.timed_out = True
            if self.exceeded or self.timed_out or self._process.poll() is not None:
                end(self._process)
                return


def resident(pid: int, *, family: bool = False) -> int:
    """Bytes of memory that a process holds now, with `family` its descendants too; 0 for what has ended."""
    try:
        process = psutil.Process(pid)
        every = [process, *(process.children(recursive=True) if family else [])]
    except psutil.Error:
        return 0
    return sum(_resident(it) for it in every)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a worker and whatever it has started: a child that outlives it would hold our end of the pipe open."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # it was started as the leader of a session of its own
    process.kill()
