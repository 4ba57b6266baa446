"""The worker process: `python worker/main.py RUNTIME` serves one runtime module of this folder over stdin and stdout.

The first frame from the engine holds the runtime's options; the first frame back is ``{"hello": ...}``. Then, one
reply a request, in order, with the request's "id":

    {"do": "prepare", "payload": ...}               -> {"ok": handle}
    {"do": "run", "handle": ..., "inputs": {...}, "bind": {input: {"output": ..., "rows": ...}}}
                                                    -> {"ok": {"outputs": {...}, "evidence": {...}}}
    {"do": "time", "handle": ..., "inputs": {...}, "runs": ..., "wake": ..., "sets": ...}
                                                    -> {"ok": {"clock": ..., "seconds": array, "parts": [...], ...}}
    {"do": "release", "handle": ...}                -> {"ok": null}

Behind what a request has written to stderr stands a mark, wire.end_of_stderr: stderr has a pipe of its own, which may
be read later than the reply.

"bind" gives an input the array that the last run of any handle left as an output, cut to its first "rows" slots (the
last axis but one): a step eats the present of the one before as its past, rewound or whole, and the array does not
cross the pipe.

"time" measures and checks nothing: "inputs" go to the device once and stay there, `sets` times over, until the handle
is released; a later request with no inputs takes those that are there. After `wake` seconds of runs that are not
counted, of as few as can be where that is 0, "seconds" [runs] holds what each run took, without what is apart, and
"part_seconds" [runs, parts] what each of the "parts" took, told as {"name": ..., "apart": ..., "alone": ...}: apart are
those that only move rows into place, alone those that were timed by themselves in further runs. "clock" says what
measured, "note" what else there is to say, if anything.

A request that fails is answered with ``{"failed": verdict, "message": ..., "refused": whether the runtime said no to
it}``. A runtime module offers
``start(options)``, which gives an object with `hello`, `prepare(payload)`, `run(prepared, inputs)` and
`release(prepared)`, and `time(prepared, inputs, runs, wake, sets)` where it can be timed; see ort.py, webgpu.py.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import time
import traceback
from typing import Any, BinaryIO, Callable, Dict

import wire
from failure import Failure, is_refusal

HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    """Serve until the engine closes the stream, or is no more."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    requests, replies = _private_streams()
    try:
        options = wire.receive(requests)
    except wire.Closed:
        return
    started = _answer(lambda: importlib.import_module(sys.argv[1]).start(options))
    if "failed" in started:
        wire.send(replies, started)
        return
    runtime = started["ok"]
    wire.send(replies, {"hello": runtime.hello})
    _serve(runtime, requests, replies)


def _end_with_parent(parent: int) -> None:
    """A runtime that hangs does not see the stream close: end it when a parent that was killed has left it behind."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    """Keep stdin and stdout for frames alone: whatever a runtime prints goes to stderr, and it reads nothing."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return requests, replies


def _serve(runtime: Any, requests: BinaryIO, replies: BinaryIO) -> None:
    service = Service(runtime)
    worker = os.getpid()
    while True:
        try:
            request = wire.receive(requests)
        except wire.Closed:
            return
        answer = _answer(lambda: service.answer(request))  # noqa: B023
        if os.getpid() != worker:
            os._exit(0)  # a copy that the runtime has made of this process must not answer for it
        _close_stderr_of(request["id"])
        wire.send(replies, dict(answer, id=request["id"]))


def _close_stderr_of(request: int) -> None:
    """Flush what the request has printed, and mark where its part of stderr ends: none of it belongs to a later one."""
    for stream in (sys.stdout, sys.stderr):
        # A runtime may have closed or replaced it.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    with contextlib.suppress(OSError):
        os.write(2, wire.end_of_stderr(request))


class Service:
    """A runtime with what it has prepared, and the outputs of its last run, which the next one may be bound to."""

    def __init__(self, runtime: Any) -> None:
        self.runtime = runtime
        self.prepared: Dict[int, Any] = {}
        self.last: Dict[str, Any] = {}

    def answer(self, request: Dict[str, Any]) -> Any:
        """What "ok" holds in the reply."""
        if request["do"] == "prepare":
            handle = max(self.prepared, default=0) + 1
            self.prepared[handle] = self.runtime.prepare(request["payload"])
            return handle
        if request["do"] == "run":
            return self._run(request)
        if request["do"] == "time":
            return self._time(**{name: it for name, it in request.items() if name not in ("do", "id")})
        if request["do"] == "release":
            self.runtime.release(self.prepared.pop(request["handle"]))
            return None
        raise Failure("error", "the worker does not know the request %r" % (request["do"],))

    def _run(self, request: Dict[str, Any]) -> Dict[str, Any]:
        bound = request.get("bind", {})
        inputs = dict(request["inputs"], **{name: self._kept(**given) for name, given in bound.items()})
        self.last = {}
        outputs, evidence = self.runtime.run(self.prepared[request["handle"]], inputs)
        self.last = outputs
        return {"outputs": outputs, "evidence": evidence}

    def _time(self, handle: int, inputs: Dict[str, Any], runs: int, wake: float, sets: int) -> Any:
        if not hasattr(self.runtime, "time"):
            raise Failure("error", "this backend cannot be timed")
        return self.runtime.time(self.prepared[handle], inputs, runs, wake, sets)

    def _kept(self, output: str, rows: int) -> Any:
        """An output of the last run, cut to its first `rows` slots."""
        if output not in self.last:
            raise Failure("error", "no output %s of a last run to bind to" % output)
        array = self.last[output]
        if array.ndim < 4 or array.shape[-2] < rows:
            told = "output %s of the last run is %s, which has no %d slots on its last axis but one"
            raise Failure("error", told % (output, list(array.shape), rows))
        return array[..., :rows, :].copy() if array.shape[-2] > rows else array


def _answer(work: Callable[[], Any]) -> Dict[str, Any]:
    """Run `work`; whatever a runtime raises is an answer, not the worker's end."""
    try:
        return {"ok": work()}
    except Failure as failure:
        return {"failed": failure.verdict, "message": failure.message, "refused": failure.refused}
    except MemoryError as error:
        return {"failed": "out-of-memory", "message": _said(error) or "the backend ran out of memory"}
    except Exception as error:  # noqa: BLE001  a runtime may raise anything, and it is the case's verdict
        _print_traceback(error)
        told = "%s: %s" % (type(error).__name__, _said(error))
        return {"failed": "error", "message": told, "refused": is_refusal(error)}


def _print_traceback(error: Exception) -> None:
    """The traceback from where it leaves this folder: how attncheck calls a runtime says nothing to whom wrote that."""
    trace = error.__traceback__
    while trace is not None and os.path.dirname(os.path.abspath(trace.tb_frame.f_code.co_filename)) == HERE:
        trace = trace.tb_next
    # Where it never does, the fault is ours.
    traceback.print_exception(type(error), error, trace or error.__traceback__)


def _said(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  as above
        return "(its message cannot be written)"


if __name__ == "__main__":
    main()
