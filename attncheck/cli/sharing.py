"""The part of the selected cases that this machine runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from attncheck.cli.messages import Stop, progress, warning
from attncheck.engine.shards import Shard, shards
from attncheck.reports.document import Unreadable
from attncheck.reports.numbers import plural
from attncheck.reports.reading import earlier
from attncheck.vocabulary import ExitCode


class _Named(Protocol):
    @property
    def id(self) -> str: ...


Some = TypeVar("Some", bound=_Named)


def part(given: Mapping[str, Any]) -> Shard | None:
    """The part that ``--shard`` asks for; None for the whole, which 1/1 is too."""
    shard = Shard.read(given["shard"]) if given["shard"] is not None else None
    return shard if shard is not None and shard.of > 1 else None


@dataclass(frozen=True)
class Shared(Generic[Some]):
    """The cases that this machine runs, and the ids of those that others run."""

    cases: list[Some]
    elsewhere: frozenset[str] = frozenset()


def shared(cases: Sequence[Some], given: Mapping[str, Any]) -> Shared[Some]:
    """The cases of the part that ``--shard`` asks for, in their order. Raises Stop for times that cannot be read."""
    shard = part(given)
    if shard is None:
        return Shared(list(cases))
    seconds = _seconds(given["shard_times"])
    numbers = shards([case.id for case in cases], shard.of, seconds)
    kept = [case for case in cases if numbers[case.id] == shard.number]
    if seconds and not any(case.id in seconds for case in cases):
        warning("--shard-times knows none of these cases: the parts are made by their ids alone")
    progress(f"shard {shard}: {len(kept)} of {plural(len(cases), 'case')}")
    return Shared(kept, frozenset(case.id for case in cases if numbers[case.id] != shard.number))


def _seconds(files: Sequence[str]) -> dict[str, float]:
    """Case id -> seconds, by all `files`; of a case that several tell, the last one's."""
    try:
        cases = [case for file in files for case in earlier(Path(file)).cases]
    except Unreadable as wrong:
        raise Stop(f"--shard-times: {wrong}\nnothing was run", ExitCode.USAGE) from None
    return {case.id: sum(result.seconds for result in case.results) for case in cases}
