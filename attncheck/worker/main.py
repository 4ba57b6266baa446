"""The worker process: `python worker/main.py RUNTIME` serves one runtime module of this folder over stdin and stdout.

The first frame from the engine holds the runtime's options; the first frame back is ``{"hello": ...}``. Then, one
reply a request, in order:

    {"do": "prepare", "payload": ...}               -> {"ok": handle}
    {"do": "run", "handle": ..., "inputs": {...}}   -> {"ok": {"outputs": {...}, "evidence": {...}}}
    {"do": "release", "handle": ...}                -> {"ok": null}

A request that fails is answered with ``{"failed": verdict, "message": ...}``. A runtime module offers
``start(options)``, which gives an object with `hello`, `prepare(payload)`, `run(prepared, inputs)` and
`release(prepared)`; see ort.py, webgpu.py.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import Any, BinaryIO, Callable, Dict

import wire
from failure import Failure


def main() -> None:
    """Serve until the engine closes the stream."""
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


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    """Keep stdin and stdout for frames alone: whatever a runtime prints goes to stderr, and it reads nothing."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return requests, replies


def _serve(runtime: Any, requests: BinaryIO, replies: BinaryIO) -> None:
    prepared: Dict[int, Any] = {}
    while True:
        try:
            request = wire.receive(requests)
        except wire.Closed:
            return
        wire.send(replies, _answer(lambda: _do(runtime, prepared, request)))  # noqa: B023


def _do(runtime: Any, prepared: Dict[int, Any], request: Dict[str, Any]) -> Any:
    if request["do"] == "prepare":
        handle = max(prepared, default=0) + 1
        prepared[handle] = runtime.prepare(request["payload"])
        return handle
    if request["do"] == "run":
        outputs, evidence = runtime.run(prepared[request["handle"]], request["inputs"])
        return {"outputs": outputs, "evidence": evidence}
    if request["do"] == "release":
        runtime.release(prepared.pop(request["handle"]))
        return None
    raise Failure("error", "the worker does not know the request %r" % (request["do"],))


def _answer(work: Callable[[], Any]) -> Dict[str, Any]:
    """Run `work`; whatever a runtime raises is an answer, not the worker's end."""
    try:
        return {"ok": work()}
    except Failure as failure:
        return {"failed": failure.verdict, "message": failure.message}
    except MemoryError as error:
        return {"failed": "out-of-memory", "message": str(error) or "the backend ran out of memory"}
    except Exception as error:  # noqa: BLE001  a runtime may raise anything, and it is the case's verdict
        traceback.print_exc()
        return {"failed": "error", "message": "%s: %s" % (type(error).__name__, error)}


if __name__ == "__main__":
    main()
