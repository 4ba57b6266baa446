"""The parent's side of one worker process: started, asked with a time limit, ended."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast

from attncheck.backends import environments
from attncheck.backends.base import BackendUnavailable, Hello, Launch
from attncheck.engine.watch import Watch, end
from attncheck.graph.session import Bound
from attncheck.scenario.memory import readable
from attncheck.vocabulary import Verdict
from attncheck.worker import wire

MAIN = Path(__file__).parent.parent / "worker" / "main.py"
START_LIMIT = 60.0
"""Seconds that a runtime may take to import and open its device."""

STDERR_LIMIT = 1.0
"""Seconds to wait for the end of a request's stderr after its reply."""
STDERR_LINES = 40
MESSAGE_LINES = 12
_OF_ITS_OWN: dict[str, Any] = (
    {"start_new_session": True}
    if os.name == "posix"
    else {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
)
"""Ctrl-C is the parent's to handle: it decides when a worker ends."""

NEAR = 0.8
"""Share of the memory limit from which on a killed process counts as out of memory."""


class WorkerFailed(Exception):
    """A request got no clean answer: `verdict` says how, the message what happened.

    refused   whether the runtime looked at the request and said no
    """

    def __init__(self, verdict: Verdict, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.refused = refused


class Worker:
    """One spawned process that serves one runtime. Not thread-safe, but for `kill`: one lane owns it."""

    def __init__(self, launch: Launch, memory_limit: int | None = None) -> None:
        """Spawn the process, which serves once it is greeted. Raises BackendUnavailable.

        memory_limit: the most resident memory in bytes that the process may hold while it answers; None for no limit.
        """
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self._stderr_read = threading.Condition()
        self._stderr_of = 0  # the last request whose part of stderr has been read
        self._memory_limit = memory_limit
        self._launch = launch
        self._asked = 0
        python = launch.python or sys.executable
        try:
            self._process = subprocess.Popen(
                [python, "-X", "utf8", str(MAIN), launch.runtime],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(launch),
                **_OF_ITS_OWN,
            )
        except OSError as error:
            raise BackendUnavailable(f"cannot run the Python interpreter {python}: {error.strerror}") from error
        self._drain = threading.Thread(target=self._read_stderr, daemon=True)
        self._drain.start()

    @classmethod
    def started(cls, launch: Launch, memory_limit: int | None = None) -> Worker:
        """A worker that has been greeted. Raises BackendUnavailable."""
        worker = cls(launch, memory_limit)
        worker.greet()
        return worker

    def greet(self) -> None:
        """Hand over the runtime's options and wait for its hello. Raises BackendUnavailable."""
        try:
            greeting = self._exchange(dict(self._launch.options), START_LIMIT)
        except WorkerFailed as failure:
            self.close()
            raise BackendUnavailable(_with_tail(failure.message, self.stderr)) from failure
        if "failed" in greeting:
            self.close()
            raise BackendUnavailable(printable(greeting["message"]))
        self.hello = Hello(greeting["hello"]["versions"], greeting["hello"].get("device", {}))

    @property
    def stderr(self) -> str:
        """The last lines that the process wrote to stderr (or that its runtime printed)."""
        return "\n".join(self._stderr)

    def prepare(self, payload: Any, limit: float) -> int:
        """Hand over a request's payload; the handle runs it. Raises WorkerFailed."""
        self._stderr.clear()  # what was said before is another case's
        return cast("int", self._ask({"do": "prepare", "payload": payload}, limit))

    def run(self, handle: int, inputs: Any, limit: float, bind: Mapping[str, Bound] | None = None) -> dict[str, Any]:
        """Run a prepared request: its "outputs" and "evidence". Raises WorkerFailed.

        bind   input name -> what it is given of this worker's last run, of whatever handle
        """
        bound = {name: {"output": it.output, "rows": it.rows} for name, it in (bind or {}).items()}
        request = {"do": "run", "handle": handle, "inputs": inputs, "bind": bound}
        answer = self._ask(request, limit)
        if not isinstance(answer, dict) or not isinstance(answer.get("evidence"), dict) or "outputs" not in answer:
            raise WorkerFailed(Verdict.CRASH, "the backend's process wrote into the stream of its answers")
        return answer

    def time(
        self, handle: int, inputs: Mapping[str, Any], limit: float, *, runs: int, wake: float, sets: int
    ) -> dict[str, Any]:
        """Time runs of a prepared request, as worker/main.py tells; no inputs: those of before. Raises WorkerFailed."""
        told = {"do": "time", "handle": handle, "inputs": inputs, "runs": runs, "wake": wake, "sets": sets}
        return cast("dict[str, Any]", self._ask(told, limit))

    def release(self, handle: int, limit: float) -> None:
        """Let a prepared request go. Raises WorkerFailed."""
        self._ask({"do": "release", "handle": handle}, limit)

    def kill(self) -> None:
        """End the process now, and what it started; safe from any thread. A request in flight fails."""
        end(self._process)

    def close(self) -> None:
        """Close the streams, which ends a healthy process, and wait; kill one that does not end."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # it died with our last words unread
                    stream.close()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        self.kill()
        self._drain.join(1.0)

    def _ask(self, request: dict[str, Any], limit: float) -> Any:
        self._asked += 1
        answer = self._exchange({**request, "id": self._asked}, limit)
        self._await_stderr()
        if "failed" in answer:
            refused = answer.get("refused") is True
            raise WorkerFailed(Verdict(answer["failed"]), printable(answer["message"]), refused=refused)
        return answer["ok"]

    def _exchange(self, data: dict[str, Any], limit: float) -> dict[str, Any]:
        """Send one frame and read one. The time limit holds for both: a process that does not read blocks us too."""
        watch = Watch(self._process, limit, self._memory_limit)
        try:
            wire.send(cast("BinaryIO", self._process.stdin), data)
            while True:
                answer = cast("dict[str, Any]", wire.receive(cast("BinaryIO", self._process.stdout)))
                # A copy of the worker, made by fork, may have answered an earlier request a second time.
                if answer.get("id", 0) == data.get("id", 0):
                    return answer
        except (wire.Closed, OSError) as error:
            raise self._ended(watch, limit) from error
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, MemoryError) as error:
            self.kill()
            raise WorkerFailed(Verdict.CRASH, "the backend's process wrote into the stream of its answers") from error
        finally:
            watch.end()

    def _ended(self, watch: Watch, limit: float) -> WorkerFailed:
        code = self._process.wait()
        self._drain.join(1.0)
        watch.end()
        if watch.timed_out:
            return WorkerFailed(
                Verdict.TIMEOUT, f"no answer within the time limit of {limit:g} s; its process was ended"
            )
        if watch.exceeded or _killed_for_memory(code, watch):
            assert watch.memory is not None, "without a limit none is exceeded"
            by = "it was ended" if watch.exceeded else "the system ended it"
            held, allowed = readable(watch.peak), readable(watch.memory)
            return WorkerFailed(
                Verdict.OUT_OF_MEMORY, f"the backend's process held {held} of the {allowed} that it may hold; {by}"
            )
        return WorkerFailed(Verdict.CRASH, f"the backend's process {_death(code)}")

    def _await_stderr(self) -> None:
        """Wait for what the request has written to stderr, which may come later than its reply.

        A runtime that has closed stderr marks no end there: it is waited for once.
        """
        with self._stderr_read:
            read = self._stderr_read.wait_for(lambda: self._stderr_of >= self._asked, STDERR_LIMIT)
        if not read:
            self._stderr_of = sys.maxsize

    def _read_stderr(self) -> None:
        """Read until every process that holds the other end has ended: one in a session of its own may outlive ours."""
        with cast("BinaryIO", self._process.stderr) as stream:
            for line in stream:
                self._keep(line)

    def _keep(self, line: bytes) -> None:
        ended = wire.ended_on_stderr(line)
        if ended is None:
            self._stderr.append(line.decode(errors="replace").rstrip())
            return
        if self._stderr and not self._stderr[-1]:
            self._stderr.pop()  # the mark begins a line of its own
        with self._stderr_read:
            self._stderr_of = max(self._stderr_of, ended)
            self._stderr_read.notify()


def printable(text: str) -> str:
    """`text` without what would steer a terminal, and no longer than a person reads."""
    lines = ["".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in it) for it in text.splitlines()]
    told = lines[:MESSAGE_LINES]
    return "\n".join([*told, *([f"({len(lines) - len(told)} more lines)"] if len(lines) > len(told) else [])])


def _killed_for_memory(code: int, watch: Watch) -> bool:
    """Whether a process that the system killed was near its limit: the kernel kills what takes the last memory."""
    killed = os.name == "posix" and code == -signal.SIGKILL
    return killed and watch.memory is not None and watch.peak > NEAR * watch.memory


def _death(code: int) -> str:
    if code < 0:
        named = {number.value: number.name for number in signal.Signals}
        return f"was ended by {named.get(-code, f'signal {-code}')}"
    return f"ended with exit code {code} in the middle of a request"


def _with_tail(message: str, stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    return f"{message}: {lines[-1]}" if lines else message


def _environment(launch: Launch) -> dict[str, str]:
    """The caller's environment, with private folders for temporary files and for what Vulkan drivers ask for.

    What the caller has activated would make another interpreter import this one's packages: it does not get it.
    """
    environment = dict(os.environ)
    if launch.python is not None:
        environment = {name: value for name, value in environment.items() if name not in environments.ACTIVATED}
    for name in ("TMPDIR", "TEMP", "TMP"):
        environment[name] = _private_dir()
    if os.name == "posix":
        environment.setdefault("XDG_RUNTIME_DIR", _private_dir())
    return environment | dict(launch.environment)


@cache
def _private_dir() -> str:
    """A folder of this process alone, removed with it: what a worker that is ended leaves behind goes along."""
    path = tempfile.mkdtemp(prefix="attncheck-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path
