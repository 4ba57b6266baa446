"""The protocol between the engine and a backend, and what comes back from one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from attncheck.compare.arithmetic import Compute
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem
from attncheck.vocabulary import Verdict


class BackendUnavailable(Exception):
    """A backend cannot start here. The message says why and what to do next; the run ends with exit code 4."""


class CannotRequest(Exception):
    """A backend cannot form its requests for a case: an edited shader, say. The message says why."""


@dataclass(frozen=True)
class Launch:
    """How to start a backend's worker.

    runtime       module in worker/; options: what its `start` is given
    python        the interpreter, None for attncheck's own
    requirements  packages that the interpreter must have; environments.ready makes it so before the worker starts
    environment   variables added to the worker's
    files         what decides the numbers beside attncheck and the packages: edited shaders, a user's own code
    """

    runtime: str
    options: Mapping[str, Any] = field(default_factory=dict)
    python: str | None = None
    requirements: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()

    @property
    def identity(self) -> str:
        """What would compute, in a few letters: differs where another runtime, place or content of a file would run."""
        return _letters(repr((self.place, sorted(self.contents.items()))).encode())

    @property
    def place(self) -> str:
        """As `identity`, but for the contents of the files."""
        told = (self.runtime, sorted(self.options.items()), sorted(self.environment.items()))
        return _letters(repr((*told, self.python, self.requirements)).encode())

    @property
    def contents(self) -> dict[str, str]:
        """Letters for what is in each of its files, by name."""
        return contents_of(self.files)


def contents_of(files: Sequence[Path]) -> dict[str, str]:
    """Letters for what is in each file, "missing" where there is none; by its path from the folder of the first."""
    return {
        Path(os.path.relpath(file, files[0].parent)).as_posix(): (
            _letters(file.read_bytes()) if file.is_file() else "missing"
        )
        for file in files
    }


def _letters(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@dataclass(frozen=True)
class Hello:
    """What a started worker says of itself: runtime versions, and for a GPU its adapter, features and limits."""

    versions: Mapping[str, str]
    device: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """One way to compute a case on a backend; `kernel` names the way ("" where there is only one).

    `instead` says why it is not the kernel that was asked for, or is empty; `compute` is what this way promises to
    compute in, None where the backend has one arithmetic for all (`Backend.arithmetic`).
    The first request of a case is the one judged first; further ones must agree with it.
    `payload` is JSON-able plain data (bytes and arrays allowed) that the backend's runtime in worker/ understands.
    """

    kernel: str
    payload: Mapping[str, Any]
    instead: str = ""
    compute: Compute | None = None


@dataclass(frozen=True)
class Evidence:
    """What ran: provider or adapter, and the kernels that the runtime itself says were executed."""

    provider: str
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What one request gave: outputs with evidence, or `failure`, the verdict that ended it, with its message.

    `instead` and `compute` are the request's; `refused` tells a runtime that looked at it and said no from one that
    fell over it.
    """

    kernel: str
    outputs: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    evidence: Evidence | None = None
    failure: Verdict | None = None
    message: str = ""
    stderr: str = ""
    seconds: float = 0.0
    instead: str = ""
    refused: bool = False
    compute: Compute | None = None


class Backend(Protocol):
    """One file a backend. Lives in the parent process; pure except for what the engine asks through its worker."""

    name: str

    def arithmetic(self, problem: AnyProblem) -> Compute:
        """What it promises to compute this problem in, whatever it stores: its tolerance follows."""

    def launch(self) -> Launch:
        """How to start this backend's worker."""

    def check(self, hello: Hello) -> None:
        """Raise BackendUnavailable when the started runtime cannot serve (too old, no adapter)."""

    def unsupported(self, case: Case, problem: AnyProblem, hello: Hello) -> str | None:
        """The declared reason why this backend does not cover the case, or None."""

    def requests(self, case: Case, problem: AnyProblem, hello: Hello) -> Sequence[Request]:
        """The requests that compute the case, the judged one first. Raises CannotRequest."""

    def fallback(self, evidence: Evidence) -> str | None:
        """Why this evidence shows that something else than this backend computed the numbers, or None."""
