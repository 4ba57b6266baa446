"""What one run of a case came to, and whether the numbers of several runs are the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attncheck.engine.events import Result
from attncheck.minimize.signature import Signature, signature
from attncheck.vocabulary import Verdict


@dataclass(frozen=True)
class Seen:
    """What a case came to: how it fails, None where it does not, and the verdict in a word.

    margins  of every output that is wrong the largest error as a multiple of its tolerance; none where no numbers came
    said     the first line of what was said where it does not pass and there are no numbers: an error, why it is
             unsupported
    """

    failure: Signature | None
    verdict: str
    margins: tuple[float, ...] = ()
    said: str = ""

    @property
    def words(self) -> str:
        """For a person: how it fails, or the verdict, and why it was not run."""
        if self.failure is not None:
            return self.failure.words
        return f"{self.verdict}: {self.said}" if self.said else self.verdict

    @classmethod
    def of(cls, result: Result, *, kernels: bool = False) -> Seen:
        """What a result says. kernels: whether the kernels that ran belong to the failure."""
        margins = tuple(it.margin for it in result.differences if not it.passed)
        said = "" if result.verdict is Verdict.PASS else next(iter(result.message.splitlines()), "")
        return cls(signature(result, kernels=kernels), str(result.verdict), margins, said)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Seen:
        """From what JSON holds of one. Raises TypeError, KeyError."""
        failure = None if data["failure"] is None else Signature.read(data["failure"])
        return cls(failure, str(data["verdict"]), tuple(map(float, data["margins"])), str(data.get("said", "")))


def wavers(seen: Sequence[Seen]) -> bool:
    """Whether the failing runs of one case came to different wrong numbers: further apart than the tolerance, or alike
    to other known wrong kernels. Then what they look like is chance.
    """
    failing = [it for it in seen if it.failure is not None and it.margins]
    return any(it.failure != failing[0].failure or _apart(it.margins, failing[0].margins) for it in failing[1:])


def _apart(one: Sequence[float], other: Sequence[float]) -> bool:
    if len(one) != len(other):
        return True
    pairs = zip(one, other, strict=True)
    return any(
        abs(first - second) > 1.0 if math.isfinite(first) and math.isfinite(second) else repr(first) != repr(second)
        for first, second in pairs
    )
