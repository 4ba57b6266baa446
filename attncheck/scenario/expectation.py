"""The Expectation: a known fault, written down with its reason, so that a run can tell it from a new one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet

from attncheck.scenario.model import Source
from attncheck.vocabulary import Verdict

QUARANTINED = (Verdict.CRASH, Verdict.TIMEOUT, Verdict.OUT_OF_MEMORY, Verdict.DEVICE_LOST)
"""Verdicts that cost a worker, or more: a case expected to end so is not run unless somebody asks for it."""

CAN_BE_EXPECTED = tuple(v for v in Verdict if v not in (Verdict.PASS, Verdict.UNSUPPORTED, Verdict.QUARANTINED))
"""Verdicts that can fail a run."""


@dataclass(frozen=True)
class Band:
    """Largest absolute errors that are expected, both ends included, in the output's units."""

    low: float
    high: float


@dataclass(frozen=True)
class Expectation:
    """One known fault. It means the cases, backends, versions and adapters that fit all that it says.

    cases      patterns as `select.matches` takes them, any of which may match
    backend    pattern of a backend's name: `*` is any text, `?` any character
    versions   package -> version range, held against what the backend's worker says of itself; all must fit
    adapter    pattern of the adapter's name, upper and lower case alike; None: any adapter, or none
    verdict    what is seen; one of CAN_BE_EXPECTED
    max_abs    the error band, for a mismatch and for nothing else
    says       words to be found in the diagnosis or the message, upper and lower case alike; empty: any
    reason     why this is so and is left so; `link`: where it is tracked
    """

    source: Source
    cases: tuple[str, ...]
    backend: str
    verdict: Verdict
    reason: str
    link: str
    versions: Mapping[str, SpecifierSet] = field(default_factory=dict)
    adapter: str | None = None
    max_abs: Band | None = None
    says: str = ""

    @property
    def place(self) -> str:
        """Where it is written, as `file:line`."""
        return f"{self.source.file}:{self.source.line}"
