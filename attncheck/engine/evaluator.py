"""An evaluator: cases judged on one backend on demand, by workers that stay warm; what `run` does, without its list."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import wait
from dataclasses import dataclass

from attncheck.backends import environments
from attncheck.backends.base import Backend, Hello
from attncheck.engine import run
from attncheck.engine.events import CaseFinished, Result
from attncheck.engine.lane import Lane, end
from attncheck.engine.related import Relating


@dataclass(frozen=True)
class Asked:
    """A case in a worker's hands; `result` waits for it and judges."""

    pending: run.Pending | Relating | CaseFinished
    options: run.Options

    @property
    def done(self) -> bool:
        """Whether `result` need not wait."""
        return isinstance(self.pending, CaseFinished) or all(it.done() for it in self.pending.futures)

    def result(self) -> Result:
        """The result, once the backend has answered."""
        if isinstance(self.pending, CaseFinished):
            return self.pending.results[0]
        wait(self.pending.futures)
        return run.judged(self.pending, None, self.options).results[0]


class Evaluator:
    """`lanes` workers of one backend. One thread asks and judges; the workers compute beside it."""

    def __init__(self, backend: Backend, options: run.Options, lanes: int = 1) -> None:
        self._options = options
        self._lanes = [
            Lane(backend, options.time_limit, options.repeat, memory_limit=options.memory_limit) for _ in range(lanes)
        ]
        self._busy: list[list[Asked]] = [[] for _ in self._lanes]

    def start(self, note: environments.Note) -> Hello:
        """Start every worker. Raises BackendUnavailable."""
        hellos = [started.result() for started in [lane.start(note) for lane in self._lanes]]
        return hellos[0]

    @property
    def hello(self) -> Hello:
        """What the first worker said of itself, once it has started."""
        return self._lanes[0].hello

    def ask(self, given: run.Given) -> Asked:
        """Hand a case to the worker with least to do."""
        return self._hand(given, self._idlest())

    def alone(self, given: run.Given, times: int) -> list[Asked]:
        """A case `times` times in a process that runs no other: what another has left behind is not there."""
        index = self._idlest()
        self._lanes[index].renew()
        return [self._hand(given, index) for _ in range(times)]

    def _idlest(self) -> int:
        self._busy = [[it for it in asked if not it.done] for asked in self._busy]
        return min(range(len(self._lanes)), key=lambda index: len(self._busy[index]))

    def _hand(self, given: run.Given, index: int) -> Asked:
        asked = Asked(run.submit(given, [self._lanes[index]], None, self._options), self._options)
        self._busy[index].append(asked)
        return asked

    def results(self, given: Sequence[run.Given]) -> list[Result]:
        """Every case, side by side."""
        return [asked.result() for asked in [self.ask(one) for one in given]]

    def end(self) -> None:
        """End every worker now, whatever it does."""
        end(self._lanes)
