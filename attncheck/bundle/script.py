"""repro.py: a script that shows the failure by itself, with NumPy and the backend's own runtime alone."""

from __future__ import annotations

import shlex
import textwrap

from attncheck import __version__
from attncheck.bundle import endings, literals
from attncheck.bundle.runtimes import RUNTIMES
from attncheck.bundle.runtimes.several import numbered
from attncheck.bundle.subject import Piece, Subject

NAME = "repro.py"

_WHOLE = '''\
"""{title}

{about}

To install what it needs:  pip install {needs}
It was seen with Python {python}.
Exit code: 1 where the failure shows, 0 where it does not, 2 where it cannot run.
Written by attncheck {version}; it needs nothing of it.
"""

import pathlib
{system}
HERE = pathlib.Path(__file__).resolve().parent
{variables}
try:
{imports}
except ImportError as missing:
    print(f"it cannot run here: {{missing}}")
    raise SystemExit(2) from None
{constants}

{errors}
{run}

{inputs}

{ending}

if __name__ == "__main__":
    try:
        code = main()
    except CannotRun as why:
        print(f"it cannot run here: {{why}}")
        code = 2
    except Exception:
        traceback.print_exc()
        code = 2
    sys.exit(code)
'''

_VARIABLES = '''
# Variables of the process in which it was seen; some are read only when a process starts.
VARIABLES = {pairs}
unset = {{name: value for name, value in VARIABLES.items() if name not in os.environ}}
if unset:
    started = subprocess.run([sys.executable, *sys.argv], env={{**os.environ, **unset}})
    sys.exit(started.returncode)
'''

_ERRORS = {
    "CannotRun(Exception)": "What is needed is not here: nothing can be told.",
    "WrongProvider(CannotRun)": "Something else ran than what was asked for.",
    "StrayWrite(Exception)": "Something was written where nothing may be.",
}

_READ = '''\
# Too many numbers to be written out: they lie beside this script.
{names}
with np.load(HERE / "inputs.npz") as file:
    INPUTS = {{name: file[name] for name in file.files if name in NAMES}}
'''

_CALLS = '''\
{read}# What each call is given, the last being the one that goes wrong; and what it is left by the call before:
# input -> that one's output, and how many slots of it.
CALLS = [
{calls}
]


def every_call():
    """Outputs of the last call, all of them made one after the other in this process."""
    outputs = {{}}
    for at, (inputs, left) in enumerate(CALLS):
        kept = {{name: outputs[source][..., :slots, :].copy() for name, (source, slots) in left.items()}}
        print(f"call {{at + 1}} of {{len(CALLS)}}")
        outputs = run({{**inputs, **kept}}, at)
    return outputs
'''

_READ_EACH = '''\
def read(file, *names):
    """Arrays of a file that lies beside this script: they are too many to be written out."""
    with np.load(HERE / file) as arrays:
        return {name: arrays[name] for name in names}


'''


class Unscripted(Exception):
    """No script can show this failure. The message says why."""


def piece(subject: Subject) -> Piece:
    """What the runtime of the backend needs. Raises Unscripted."""
    if subject.launch.runtime not in RUNTIMES:
        raise Unscripted(f"nothing is known of how the runtime {subject.launch.runtime} runs by itself")
    return RUNTIMES[subject.launch.runtime](subject)


def text(subject: Subject, parts: Piece, title: str, about: str, python: str, runs: int = 1) -> str:
    """The script.

    about   paragraphs that say what is wrong; runs: how often it may run the case until the failure shows
    python  the version of the interpreter on which it was seen
    """
    variables = _VARIABLES.format(pairs=dict(subject.launch.environment)) if subject.launch.environment else ""
    child = endings.needs_child(subject.result.verdict)
    constants = f"\n{parts.constants}\n" if parts.constants else ""
    if "CHILD" in parts.run or child:
        constants += f'CHILD = "{endings.CHILD}"\n'
    ending = endings.main(subject, runs)
    return _WHOLE.format(
        title=_docstring(title),
        about=_docstring(about),
        needs=shlex.join(parts.needs),
        version=__version__,
        python=python,
        system=_system(child=child, variables=bool(variables)),
        variables=variables,
        imports=textwrap.indent(parts.imports, "    "),
        constants=constants,
        run=parts.run,
        inputs=_calls(subject, parts) if subject.earlier else _inputs(subject, parts),
        errors=_errors(parts.run + ending),
        ending=ending,
    )


def _system(*, child: bool, variables: bool) -> str:
    """Imports of the standard library that any script has, or one that starts another process."""
    wanted = {
        "os": variables,
        "signal": child,
        "subprocess": child or variables,
        "sys": True,
        "traceback": True,
    }
    return "".join(f"import {name}\n" for name, it in wanted.items() if it)


def _inputs(subject: Subject, parts: Piece) -> str:
    given = subject.calls[-1].feeds(held=parts.held)
    if literals.literal(given):
        return f"INPUTS = {literals.arrays(given, '')}\n"
    names = ", ".join(f'"{name}"' for name in given)
    return _READ.format(names="\n".join(literals.wrapped(f"NAMES = [{names}]", "")))


def _calls(subject: Subject, parts: Piece) -> str:
    """What every call is given: written out where all of it together is little, else each from its file."""
    feeds = [call.feeds(held=parts.held) for call in subject.calls]
    every = {f"{name} {at}": array for at, fed in enumerate(feeds) for name, array in fed.items()}
    written = literals.literal(every)
    lines = []
    for call, fed, file in zip(subject.calls, feeds, numbered("inputs.npz", subject), strict=True):
        left = {name: (bound.output, bound.rows) for name, bound in call.bind.items()}
        names = ", ".join(f'"{name}"' for name in (file, *fed))
        given = literals.arrays(fed, "    ") if written else f"read({names})"
        lines.append(f"    ({given}, {left!r}),")
    return _CALLS.format(calls="\n".join(lines), read="" if written else _READ_EACH)


def _errors(used: str) -> str:
    """The exceptions that the rest of the script names; CannotRun stands at its end."""
    named = {head: words for head, words in _ERRORS.items() if head.partition("(")[0] in f"{used} CannotRun"}
    return "\n".join(f'class {head}:\n    """{words}"""\n\n' for head, words in named.items())


def _docstring(words: str) -> str:
    return words.replace("\\", "/").replace('"""', "'''")
