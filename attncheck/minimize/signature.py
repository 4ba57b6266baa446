"""The same failure: what must stay while a case gets smaller, so that no other fault is followed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attncheck.compare.difference import Difference
from attncheck.engine.events import Result
from attncheck.vocabulary import Verdict

SLIGHT = 10.0
"""Margin up to which an error is a slight one, which may be rounding that went astray."""

FAINT = 1e-6
"""Error up to which it is slight too, whatever the margin: where zeros are expected, so little is a memory's rest."""

STEADY = 8
"""Wrong elements from which on it is no chance that all of them err to one side."""

_NOT_FAILING = (Verdict.PASS, Verdict.UNSUPPORTED, Verdict.QUARANTINED)
_NUMBERS = {str(Verdict.MISMATCH), str(Verdict.NONFINITE)}
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?([eE][-+]?\d+)?|'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\{[^}]*\}|\([^)]*\)")


@dataclass(frozen=True)
class Signature:
    """How a case fails.

    verdict  as docs/verdicts says it
    outputs  the outputs that are wrong
    wrong    the known wrong kernels that give these numbers; empty where none does
    look     what stands in the wrong places: "NaN", "infinite", or "wrong"
    gross    whether the error is far beyond the tolerance
    side     "above" or "below" where every wrong element is too large or too small, else empty
    steady   whether so many elements err to that side that the fault is known by it
    text     for a failure without numbers: its message without numbers, names and shapes, so its class, or its signal
    kernels  where they are to stay: the kernels that ran, as the evidence tells, and any other that was wrong
    loose    whether the numbers are others from run to run, so that nothing can be told from them
    """

    verdict: str
    outputs: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    look: str = ""
    gross: bool = True
    side: str = ""
    steady: bool = False
    text: str = ""
    kernels: tuple[str, ...] = ()
    loose: bool = False

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Signature:
        """From what JSON holds of one. Raises TypeError, KeyError."""
        lists = {name: tuple(data[name]) for name in ("outputs", "wrong", "kernels")}
        return cls(**{**data, **lists})

    @property
    def loosened(self) -> Signature:
        """What is left where the numbers are others from run to run: that they are wrong, and in which outputs."""
        return Signature(self.verdict, self.outputs, kernels=self.kernels, loose=True)

    @property
    def words(self) -> str:
        """For a person: `mismatch in output, softcap-ignored`."""
        where = f" in {' and '.join(self.outputs)}" if self.outputs else ""
        side = {"above": "too large", "below": "too small"}.get(self.side, "") if self.steady else ""
        look = "other numbers from run to run" if self.loose else self.look if self.look != "wrong" else side
        what = ", or ".join(self.wrong) or look or self.text.replace("#", "...")
        return f"{self.verdict}{where}{f', {what}' if what else ''}"


def signature(result: Result, *, kernels: bool = False) -> Signature | None:
    """How `result` fails; None where it does not.

    kernels   whether the kernels that ran belong to it
    """
    if result.verdict in _NOT_FAILING:
        return None
    failing = [it for it in result.differences if not it.passed]
    found = Signature(str(result.verdict), kernels=_ran(result, failing) if kernels else ())
    if not failing:
        first = result.message.splitlines()[0] if result.message else ""
        return replace(found, text=" ".join(_VARIABLE.sub("#", first).split()))
    side = _side(failing)
    return replace(
        found,
        outputs=tuple(dict.fromkeys(it.role for it in failing)),
        wrong=result.wrong,
        look=_look(max(failing, key=lambda it: it.margin).got),
        gross=any(it.margin > SLIGHT and it.error > FAINT for it in failing),
        side=side,
        steady=bool(side) and sum(it.failing for it in failing) >= STEADY,
    )


def _ran(result: Result, failing: Sequence[Difference]) -> tuple[str, ...]:
    """The kernels that ran, and where a policy had a further one run beside the judged one, those that are wrong."""
    ran = result.evidence.kernels if result.evidence is not None else ()
    wrong = {it.subject for it in failing if it.against == "oracle"} - {result.kernel}
    return tuple(sorted({*ran, *wrong}))


def _side(failing: Sequence[Difference]) -> str:
    """Where every wrong element of every output lies; empty where they lie on both sides, or one is NaN."""
    above, wrong = sum(it.above for it in failing), sum(it.failing for it in failing)
    if any(math.isnan(it.got) or math.isnan(it.expected) for it in failing):
        return ""
    return {wrong: "above", 0: "below"}.get(above, "")


def _look(got: float) -> str:
    if math.isnan(got):
        return "NaN"
    return "infinite" if math.isinf(got) else "wrong"


def same(first: Signature, other: Signature) -> bool:
    """Whether `other` is the failure that `first` is, seen in a smaller case.

    Where a known wrong kernel was matched, one of those stays matched: several may give the same in a small case. Where
    none was, no further output is wrong, they look alike, a gross error does not become a slight one, and where many
    elements erred to one side, all that are left err to that side (docs/decisions/minimize.md). Of a loose one the
    outputs count, wrong numbers and NaN alike.
    """
    if first.loose:
        wrong = {first.verdict, other.verdict} <= _NUMBERS and first.kernels == other.kernels
        return wrong and set(first.outputs) >= set(other.outputs)
    if (first.verdict, first.text, first.kernels) != (other.verdict, other.text, other.kernels):
        return False
    if first.wrong:
        return not set(first.wrong).isdisjoint(other.wrong)
    if (first.gross and not other.gross) or (first.steady and first.side != other.side):
        return False
    return first.look == other.look and set(first.outputs) >= set(other.outputs)
