"""How a script tells whether the failure shows, by verdict: its function `main`, which gives the exit code.

1 where the failure shows, 0 where it does not; what cannot be told is raised, and becomes 2.
"""

from __future__ import annotations

import math

import numpy as np

from attncheck.bundle import literals
from attncheck.bundle.subject import Subject, index
from attncheck.reports import describe
from attncheck.tensors import dtypes
from attncheck.vocabulary import Verdict

CHILD = "--in-child"
"""The argument of the process of its own that what ends a process is run in."""

STARTING = 20.0
"""Seconds that such a process gets beside the time limit of its case."""

_NUMBERS = '''\
# The worst place: {place}
OUTPUT, PLACE = "{output}", {index}
EXPECTED = {expected}  # in float64
TOLERANCE = {tolerance}  # how far rounding may lead from it


def main():
    """Hold the worst place against what must stand there."""
    actual = {read}
    wrong = {wrong}
    print(f"{{OUTPUT}}{{list(PLACE)}}: expected {{EXPECTED}}, got {{actual}}")
{beyond}    print("the failure shows" if wrong else "right: the failure does not show here")
    return 1 if wrong else 0
'''

_BFLOAT16 = '''

def widened(bits):
    """bfloat16, written as its bits, as a number."""
    return (np.uint32(bits) << np.uint32(16)).view(np.float32)
'''

_RAISES = '''\
def main():
    """It must run; what it raises is the failure. Seen: {seen}"""
    try:
        run(INPUTS)
    except CannotRun:
        raise
    except Exception as error:
        print(f"the failure shows: {{type(error).__name__}}: {{error}}")
        return 1
    print("it ran without an error: the failure does not show here")
    return 0
'''

_MUST_REFUSE = '''\
def main():
    """It must be refused: {why}"""
    try:
        run(INPUTS)
    except CannotRun:
        raise
    except Exception as error:
        print(f"refused, as it must be: {{type(error).__name__}}: {{error}}")
        return 0
    print("the failure shows: it gave numbers for a graph that must be refused")
    return 1
'''

_FALLBACK = '''\
def main():
    """It must run where it is asked to. Seen: {seen}"""
    try:
        run(INPUTS)
    except WrongProvider as error:
        print(f"the failure shows: {{error}}")
        return 1
    print("the provider that was asked for ran: the failure does not show here")
    return 0
'''

_MALFORMED = '''\
# Outputs as they must come back. Seen: {seen}
FORMS = {forms}


def main():
    """Look at which outputs come back, and in which form."""
    try:
        outputs = run(INPUTS)
    except CannotRun:
        raise
    except Exception as error:  # what puts them into the graph's layouts has no place for them
        print(f"the failure shows: {{type(error).__name__}}: {{error}}")
        return 1
    forms = {{name: (it.dtype.name, it.shape) for name, it in outputs.items()}}
    print(f"expected {{FORMS}}")
    print(f"got      {{forms}}")
    wrong = any(forms.get(name) != form for name, form in FORMS.items())
    print("the failure shows" if wrong else "right: the failure does not show here")
    return 1 if wrong else 0
'''

_STRAY = '''\
def main():
    """It may write into its outputs only. Seen: {seen}"""
    try:
        run(INPUTS)
    except StrayWrite as error:
        print(f"the failure shows: {{error}}")
        return 1
    print("nothing was written outside of the outputs: the failure does not show here")
    return 0
'''

_CHILD = '''\
def main():
    """Run it in a process of its own, which it is said to end or to stall. Seen: {seen}"""
    if CHILD in sys.argv:
        run(INPUTS)
        return 0
    print("this case ends or stalls its process, so it runs in a child; seen: {plainly}", flush=True)
    try:
        child = subprocess.run([sys.executable, __file__, CHILD, *sys.argv[1:]], timeout={limit})
    except subprocess.TimeoutExpired:
        print("the failure shows: the child did not end within {limit} seconds")
        return 1
    if child.returncode in (0, 2):
        print("the child ended well: the failure does not show here" if child.returncode == 0 else "it cannot run here")
        return child.returncode
    ended = signal.Signals(-child.returncode).name if child.returncode < 0 else f"exit code {{child.returncode}}"
    print(f"the failure shows: the child ended by {{ended}}")
    return 1
'''

_REPEATED = '''

def main():
    """Try it {runs} times: it does not fail in every run.{how}"""
    for attempt in range({attempts}):
        print(f"run {{attempt + 1}}", flush=True)
        code = once()
        if code != 0:
            return code
    print("in none of the runs the failure showed")
    return 0
'''

_IN_CHILDREN = " So does each child."
_CHILDREN_ONCE = " A child runs it once."

_CHILDREN = (Verdict.CRASH, Verdict.TIMEOUT, Verdict.OUT_OF_MEMORY)


def needs_child(verdict: Verdict) -> bool:
    """Whether the failure takes its process down."""
    return verdict in _CHILDREN


def main(subject: Subject, runs: int) -> str:
    """The text of `main`, and of what it compares with.

    runs   how often it tries, until the failure shows. What ends its process may do so in a run of a process that is
           not the first, or by chance in some processes: it is tried so often in each of so many
    """
    text = _main(subject)
    if runs > 1:
        text = text.replace("def main():", "def once():") + _repeated(subject.result.verdict, runs)
    return text.replace("run(INPUTS)", "every_call()") if subject.earlier else text


def _repeated(verdict: Verdict, runs: int) -> str:
    if verdict is Verdict.TIMEOUT:  # a child has the time of one run
        return _REPEATED.format(runs=runs, how=_CHILDREN_ONCE, attempts=f"1 if CHILD in sys.argv else {runs}")
    return _REPEATED.format(runs=runs, how=_IN_CHILDREN if needs_child(verdict) else "", attempts=runs)


def _main(subject: Subject) -> str:
    result = subject.result
    seen = " ".join(result.message.split()).replace("\\", "/").replace('"', "'") or str(result.verdict)
    if subject.problem.invalid and result.verdict is Verdict.ERROR and result.evidence is not None:
        return _MUST_REFUSE.format(why=subject.problem.invalid)
    if result.verdict in _CHILDREN:
        plainly = seen.replace("{", "(").replace("}", ")")
        return _CHILD.format(seen=seen, plainly=plainly, limit=math.ceil(subject.time_limit + STARTING))
    if subject.worst is not None:
        return _numbers(subject)
    if result.verdict is Verdict.MALFORMED:
        storage = {it.name: np.dtype(dtypes.dtype(it.dtype).storage).name for it in subject.case.outputs}
        forms = {it.name: (storage[it.name], tuple(it.shape)) for it in subject.case.outputs}
        return _MALFORMED.format(seen=seen, forms=forms)
    text = {Verdict.FALLBACK: _FALLBACK, Verdict.OOB_WRITE: _STRAY}.get(result.verdict, _RAISES)
    return text.format(seen=seen)


def _numbers(subject: Subject) -> str:
    worst = subject.worst
    assert worst is not None, "a verdict on numbers has a difference out of tolerance"
    read, helper = "run(INPUTS)[OUTPUT][PLACE]", ""
    if dtypes.dtype(subject.problem.dtype).storage == np.uint16:
        read, helper = f"widened({read})", _BFLOAT16
    wrong = "not abs(float(actual) - EXPECTED) <= TOLERANCE"
    if not math.isfinite(worst.expected):
        wrong = "not np.isnan(actual)" if math.isnan(worst.expected) else "actual != EXPECTED"
    beyond = '    print(f"off by {abs(float(actual) - EXPECTED):.3g}, tolerance {TOLERANCE:.3g}")\n'
    text = _NUMBERS.format(
        place=describe.place(worst.place, worst.role),
        output=worst.place.output,
        index=index(subject, worst),
        expected=literals.number(np.float64(worst.expected)),
        tolerance=literals.number(np.float64(worst.tolerance)),
        read=read,
        wrong=wrong,
        beyond=beyond if math.isfinite(worst.expected) else "",
    )
    return text + helper
