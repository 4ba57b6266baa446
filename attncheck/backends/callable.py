"""A user's own function, named as ``file.py:name``; attncheck/callable.py says how it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from attncheck.backends.base import BackendUnavailable, Evidence, Hello, Launch, Request
from attncheck.backends.sources import sources
from attncheck.compare.arithmetic import Compute
from attncheck.graph.case import Case
from attncheck.problem import AnyProblem


class Callable:
    """A Python function in a file.

    file      the file; its own folder is importable from it
    function  the function's name in it
    compute   the arithmetic that the function promises, which its tolerance follows
    """

    def __init__(self, file: Path, function: str, compute: Compute = "native") -> None:
        self.file = file
        self.function = function
        self.name = f"{file.name}:{function}"
        self._compute: Compute = compute

    def arithmetic(self, problem: AnyProblem) -> Compute:
        """What its decorator or table says."""
        return self._compute

    def launch(self) -> Launch:
        """A worker that imports the file. Raises BackendUnavailable where there is none."""
        if not self.file.is_file():
            raise BackendUnavailable(f"there is no file {self.file}")
        options = {"file": str(self.file.absolute()), "function": self.function}
        return Launch("callable", options, files=tuple(path for path, _ in sources(self.file)))

    def check(self, hello: Hello) -> None:
        """Whatever imports can be tried."""

    def unsupported(self, case: Case, problem: AnyProblem, hello: Hello) -> str | None:
        """A kind of problem that the function does not say; what else it does not cover it says when asked."""
        kinds = hello.device.get("kinds", ())
        if not kinds or problem.kind in kinds:
            return None
        return f"it takes problems of {' and '.join(kinds)} only (takes_problem in attncheck.callable)"

    def requests(self, case: Case, problem: AnyProblem, hello: Hello) -> Sequence[Request]:
        """One call."""
        outputs = [asdict(output) for output in case.outputs]
        plain = {"kind": problem.kind, **asdict(problem)}
        payload = {"model": case.model, "fed": list(case.fed), "problem": plain, "outputs": outputs}
        return (Request("", payload),)

    def fallback(self, evidence: Evidence) -> str | None:
        """What a function runs on is its own word."""
        return None
