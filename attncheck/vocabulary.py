"""The closed word lists of attncheck: verdicts, statuses, flags and exit codes.

Each word has its one definition here; help texts, reports, docs and tests are derived from it.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class _Word(str, Enum):
    """A word with the sentence that explains it."""

    meaning: str

    def __new__(cls, word: str, meaning: str = "") -> _Word:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member

    def __str__(self) -> str:
        return str(self.value)


class Verdict(_Word):
    """What was seen, for one case on one backend."""

    PASS = "pass", "every compared element is within its tolerance, and the backend proved that it ran"
    MISMATCH = "mismatch", "an element differs from the oracle by more than its tolerance"
    NONFINITE = "nonfinite", "NaN or infinity where the oracle has a finite number, or the reverse"
    OOB_WRITE = "oob-write", "a kernel wrote outside of its buffer"
    FALLBACK = "fallback", "the numbers came from another provider than the one asked for"
    CRASH = "crash", "the backend's process died"
    TIMEOUT = "timeout", "the backend did not answer within the time limit"
    OUT_OF_MEMORY = "out-of-memory", "the backend exceeded its memory limit"
    DEVICE_LOST = "device-lost", "the GPU device was lost while the case ran"
    MALFORMED = "malformed", "an output is missing or has the wrong shape or dtype"
    ERROR = "error", "the backend refused or failed with a message"
    UNSUPPORTED = "unsupported", "the backend declares that it does not cover this case"
    QUARANTINED = "quarantined", "not run: an expectation says that it would bring the backend down"


class Status(_Word):
    """What a verdict means after expectations; exit codes follow it."""

    PASSED = "passed", "the verdict is pass"
    FAILED = "failed", "the verdict is anything else"
    XFAILED = "xfailed", "failed as an expectation, or the baseline, said it would"
    XPASSED = "xpassed", "passed although an expectation said it would fail"
    SKIPPED = "skipped", "declared unsupported, quarantined, or not selected"


class Flag(_Word):
    """A remark beside a verdict."""

    VACUOUS = "vacuous", "the tolerance would let every known wrong kernel pass too, or an output of zeros"
    FLAKY = "flaky", "the verdict changes between repeats"
    NOT_BITWISE = "not-bitwise", "the bits of the result change between repeats"
    REFERENCE_REFUSED = "reference-refused", "the reference does not take this case; the oracle judged alone"
    DISPUTED = "disputed", "backends that agree, a published output, or an unsettled reading contradict the oracle"


class ExitCode(IntEnum):
    """The exit codes of every command; where kinds mix, the order is that of `PRECEDENCE`."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "every selected result is passed, xfailed, unsupported or quarantined, and at least one passed or xfailed"
    FAILED = 1, (
        "at least one failed or xpassed; minimize, bundle: the case does not fail, or the proof does not hold; "
        "bisect: no change was found; bench: a ratio fell below the share of the baseline's that was asked for"
    )
    USAGE = 2, "usage: bad option, or an invalid scenario or config file; nothing was run"
    INTERNAL = 3, "attncheck's own fault, or a file that it could not go on writing, as on a full disk"
    BACKEND = 4, "a backend or adapter asked for could not start"
    NOTHING = 5, "nothing was selected, or all was skipped; of one --shard of several: nothing was selected for any"
    UNFINISHED = 6, "minimize: the budget was spent, or the smallest case fails too seldom; the best so far is written"
    INTERRUPTED = 130, "interrupted; reports were flushed first"
    UNREAD = 141, "whoever read stdout left before its end, as `head` does; reports were flushed first"


class Answer(IntEnum):
    """The exit codes of ``check --predicate``, which other reducers and ``git bisect run`` know."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Answer:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    YES = 0, "interesting: the case fails (with --passes: it passes)"
    NO = 1, "not interesting"
    UNKNOWN = 125, "cannot tell: call or case cannot be read, the case is unsupported, or the backend does not start"


PRECEDENCE = (
    ExitCode.UNREAD,
    ExitCode.INTERRUPTED,
    ExitCode.INTERNAL,
    ExitCode.USAGE,
    ExitCode.FAILED,
    ExitCode.BACKEND,
    ExitCode.NOTHING,
    ExitCode.UNFINISHED,
)
