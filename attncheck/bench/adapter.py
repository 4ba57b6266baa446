"""On what a contender computes: whether that is hardware, and which, as its driver calls it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from attncheck.backends.base import BackendUnavailable, Hello, Launch
from attncheck.engine import trial
from attncheck.engine.worker import Worker

Kind = Literal["hardware", "software", "processor", "unknown"]
"""A GPU; a program that stands in for one; the processor, by a backend that is made for it; one of the first two."""

UNTOLD = ("WebGpuExecutionProvider", "DmlExecutionProvider")
"""ONNX Runtime's providers that take a software adapter as well, and tell nobody what they took."""

PROCESSOR = ("CPUExecutionProvider", "cpu")

DEBUG = "VK_LOADER_DEBUG"
"""The variable by which Vulkan's loader says to stderr, among other things, on which device it opens a queue."""

OPENED = re.compile(r'Using "(?P<name>[^"]+)" with driver: ')
"""What it then says, of the loader 1.3.239, say; older ones say nothing."""


@dataclass(frozen=True)
class Adapter:
    """What computes; `name` is "" where nobody tells it."""

    kind: Kind = "unknown"
    name: str = ""

    @property
    def speaks(self) -> bool:
        """Whether absolute durations say something of a kernel."""
        return self.kind in ("hardware", "processor")

    @property
    def called(self) -> str:
        """Its name as every runtime says it: Mesa's drivers add in brackets what CUDA and HIP leave out."""
        plain = re.sub(r"\s*\(.*", "", self.name) if self.kind == "hardware" else ""
        return (plain or self.name).casefold()

    def same(self, other: Adapter) -> bool:
        """Whether the two are one adapter, as far as is known: what has no name may be any of its kind."""
        if self.kind != other.kind and "unknown" not in (self.kind, other.kind):
            return False
        if "processor" in (self.kind, other.kind):
            return self.kind == other.kind
        return not (self.name and other.name) or self.called == other.called


NOWHERE = Adapter()


def adapter(hello: Hello) -> Adapter:
    """What a worker computes on, as its hello tells, after `told`."""
    device = hello.device
    if "software" in device:
        kinds: Mapping[bool | None, Kind] = {True: "software", False: "hardware"}
        return Adapter(kinds.get(device["software"], "unknown"), str(device.get("adapter", "")))
    provider = str(device.get("provider", ""))
    if provider in PROCESSOR:
        return Adapter("processor")
    if "device" in device:  # PyTorch's, which has names for CUDA's alone
        return Adapter("hardware", provider if device["device"].startswith("cuda") else "")
    of_onnx_runtime = "providers" in device
    return Adapter("hardware" if of_onnx_runtime and provider not in UNTOLD else "unknown")


def told(hello: Hello, launch: Launch) -> Hello:
    """The hello with the adapter's name and whether it is software, where the runtime keeps these to itself.

    `software` is None where it cannot be known: there are adapters of both kinds, or none that wgpu finds, and the
    loader does not say which it is.
    launch   of the worker that greeted so, its environment made
    """
    if hello.device.get("provider") not in UNTOLD:
        return hello
    found = _found(_opened(launch), _offered(launch))
    return Hello(hello.versions, {**hello.device, **found})


def _found(opened: str, offered: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What `opened`, or whatever of those that are offered was, is called, and whether it is software."""
    meant = [it for it in offered if opened in ("", it["adapter"])]
    names, kinds = {str(it["adapter"]) for it in meant}, {bool(it["software"]) for it in meant}
    name = opened or (names.pop() if len(names) == 1 else "")
    return {**({"adapter": name} if name else {}), "software": kinds.pop() if len(kinds) == 1 else None}


def _opened(launch: Launch) -> str:
    """The Vulkan device that such a worker opens while it starts, by another one that the loader talks about."""
    words = ",".join(filter(None, (launch.environment.get(DEBUG), "layer")))
    try:
        worker = Worker.started(replace(launch, environment={**launch.environment, DEBUG: words}))
    except BackendUnavailable:
        return ""
    worker.close()
    return ([it["name"] for it in OPENED.finditer(worker.stderr)] or [""])[-1]


def _offered(launch: Launch) -> Sequence[Mapping[str, Any]]:
    """The adapters in such a worker's environment."""
    try:
        return trial.adapters(launch.environment)
    except BackendUnavailable:
        return ()
