"""Options that several commands share, and their parameter types. Light: nothing but click at import time."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from attncheck.cli import completing
from attncheck.reports.formats import FORMATS
from attncheck.scenario.memory import DEFAULT_LIMIT
from attncheck.scenario.model import Kernel
from attncheck.vocabulary import Flag

Command = TypeVar("Command", bound=Callable[..., Any])

CONTEXT = {"auto_envvar_prefix": "ATTNCHECK", "help_option_names": ["-h", "--help"], "max_content_width": 100}
"""One flat ATTNCHECK_* namespace for the options of every command."""

DEFAULT_CANDIDATE = "wgsl"
DEFAULT_REFERENCE = "ort-cpu"
NO_REFERENCE = "none"
NO_EXPECTATIONS = "none"

if TYPE_CHECKING:
    _Text = click.ParamType[str]
    _Number = click.ParamType[int]
else:  # click before 8.3 has no type arguments here
    _Text = _Number = click.ParamType

UNSET = "; was a variable empty?"
"""What to ask of a name that is empty."""

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


class Semicolons(_Text):
    """Text that may hold blanks; an environment variable separates several of them by semicolons."""

    envvar_list_splitter = ";"

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: Any, *_: object) -> str:
        """Keep the text: the scenario language reads it."""
        return str(value)


class Name(_Text):
    """What may name a file or a folder, or something else. An empty name would be the folder that the call is in."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a name that is empty."""
        if value == "":
            self.fail(f"it names nothing{UNSET}", param, ctx)
        return str(value)


class Place(click.Path):
    """A file or a folder by its name, which is not empty.

    suffix  what the name of a file must end in that is always written in one format
    """

    def __init__(self, *, suffix: str = "", **checks: Any) -> None:
        super().__init__(**checks)
        self.suffix = suffix

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Look at the name, then at what it names."""
        wrong = self.misnamed(os.fspath(value))
        if wrong is not None:
            self.fail(wrong, param, ctx)
        return super().convert(value, param, ctx)

    def misnamed(self, name: str) -> str | None:
        """Why nothing can be called so; None where something can."""
        if not name:
            what = "nothing" if self.file_okay and self.dir_okay else "no file" if self.file_okay else "no folder"
            return f"it names {what}{UNSET}"
        if not name.lower().endswith(self.suffix):
            return f"{name!r} does not end in {self.suffix}, the one kind of file that is written"
        return None


class Amount(click.FloatRange):
    """A finite number above zero. click's own ranges take NaN, which no later comparison with it would refuse."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read ``0.5``, ``60``."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number: write one above zero, as in 0.5 or 60", param, ctx)
        return number


class Bytes(_Number):
    """A number of bytes, with K, M or G for binary multiples."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read ``4G``, ``512M``, ``1073741824``."""
        if isinstance(value, int):
            return value
        text = value.strip().lower().removesuffix("ib").removesuffix("b")
        digits = text.rstrip("kmg")
        unit = text[len(digits) :]
        if unit not in _UNITS or re.fullmatch("0*[1-9][0-9]{0,18}", digits) is None:
            self.fail(f"{value!r} is not a size: write a whole number above zero, with K, M or G as in 4G", param, ctx)
        return int(digits) * _UNITS[unit]

    @staticmethod
    def written(value: int) -> str:
        """Write what `convert` reads, in the largest unit that divides it: ``4G``."""
        unit = max((it for it in _UNITS if value % _UNITS[it] == 0), key=lambda it: _UNITS[it])
        return f"{value // _UNITS[unit]}{unit.upper()}"


class ReportWish(_Text):
    """A report: its format, one of those that the command writes, and behind ``=`` the file to write."""

    name = "report"

    def __init__(self, formats: Iterable[str] = FORMATS) -> None:
        self.formats = tuple(formats)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the format; the file is looked at before the run begins."""
        text = str(value)
        name, mark, path = text.partition("=")
        if name not in self.formats:
            allowed = ", ".join(self.formats)
            self.fail(f"{text!r} names no format: write FORMAT=FILE, with one of {allowed}", param, ctx)
        if mark and not path:
            self.fail(f"{text!r} names no file: write {name}=FILE, or {name} alone for stdout{UNSET}", param, ctx)
        return text


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make one decorator of several, in the order in which help shows them."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


KEYWORD = click.option("-k", "--keyword", metavar="EXPR", help="Only cases whose id fits: 'window and not mha'.")
LIST = click.option("--list", is_flag=True, help="Print the ids of the selected cases, and run nothing.")

MEMORY_LIMIT = click.option(
    "--memory-limit",
    type=Bytes(),
    default=f"{DEFAULT_LIMIT // 2**30}G",
    show_default=True,
    metavar="SIZE",
    help="Refuse cases that would need more memory.",
)

CASES = together(
    click.argument(
        "what", nargs=-1, type=Name(), metavar="[PATH|CASE-ID|MODEL.onnx]...", shell_complete=completing.cases
    ),
    KEYWORD,
    click.option("--tag", multiple=True, metavar="TAG", help="Only cases with this tag (repeatable: any of)."),
    click.option(
        "--case",
        multiple=True,
        type=Semicolons("text"),
        metavar="AXES",
        help="A case without a file: 'op=gqa q_len=4 past_len=20 window=3' (repeatable).",
    ),
    click.option(
        "--set",
        multiple=True,
        type=Semicolons("text"),
        metavar="AXIS=VALUE",
        help="Change an axis of every selected case (repeatable).",
    ),
    click.option(
        "--inputs",
        type=Place(exists=True, dir_okay=False, path_type=str),
        metavar="FILE.npz",
        help="What to feed the model named; without, data is generated by its shapes.",
    ),
    click.option(
        "--dim",
        multiple=True,
        type=Semicolons("text"),
        metavar="NAME=N",
        help="Size of a symbolic dimension of the model named (repeatable).",
    ),
    click.option("--seed", type=click.IntRange(0, 2**32 - 1), metavar="N", help="Seed of the data of every case."),
)

SELECTION = together(CASES, MEMORY_LIMIT)

BACKEND = together(
    click.option(
        "--backend",
        multiple=True,
        metavar="NAME",
        help=f"What to test (repeatable).  [default: {DEFAULT_CANDIDATE}]",
        shell_complete=completing.backends,
    ),
)

REFERENCE = together(
    click.option(
        "--reference",
        default=DEFAULT_REFERENCE,
        show_default=True,
        metavar="NAME|none",
        help="What to compare with; the float64 oracle judges it too.",
        shell_complete=completing.backends,
    ),
)

ADAPTER = click.option(
    "--adapter",
    multiple=True,
    type=Semicolons("text"),
    metavar="TEXT",
    help="GPU adapter, by a part of its name (repeatable; see attncheck doctor).",
)

SHADERS = click.option(
    "--shaders",
    type=Place(exists=True, file_okay=False, path_type=str),
    metavar="DIR",
    help="Run the kernels in this folder instead of the shipped ones.",
)

RULES = together(
    click.option(
        "--threshold",
        type=click.IntRange(min=1),
        metavar="KEYS",
        help="From how many keys on auto chooses online, where no rule takes another kernel.",
    ),
    click.option(
        "--thresholds",
        type=Place(exists=True, dir_okay=False, path_type=str),
        metavar="FILE",
        help="Rules by which auto chooses, as attncheck tune writes them, instead of the shipped ones.",
    ),
)

PLACING = together(
    ADAPTER,
    click.option(
        "--kernel",
        type=click.Choice(get_args(Kernel)),
        default="auto",
        show_default=True,
        help="Attention kernel; auto chooses by the sizes and the adapter, and runs a plain one too.",
    ),
    RULES,
    SHADERS,
)

BACKENDS = together(BACKEND, REFERENCE, PLACING)

LIMITS = together(
    click.option(
        "--time-limit",
        type=Amount(),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="What a backend may take for one case.",
    ),
    click.option(
        "--backend-memory",
        type=Bytes(),
        default="8G",
        show_default=True,
        metavar="SIZE",
        help="What a backend's process may hold.",
    ),
)

REPORT = click.option(
    "--report",
    multiple=True,
    type=ReportWish(),
    metavar="FORMAT[=FILE]",
    help=f"Write a report (repeatable), of {', '.join(FORMATS)}; without FILE it goes to stdout, in the place of the "
    "table.",
    shell_complete=completing.reports,
)

REPEAT = click.option(
    "--repeat",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    metavar="N",
    help="Run each case so often; what changes is flagged, a verdict that changes fails.",
)

EXPECTING = together(
    click.option(
        "--expect",
        multiple=True,
        type=Place(path_type=str),
        metavar="FILE|none",
        help="Known failures (repeatable), instead of the expectations.yaml beside the configuration.",
    ),
    click.option("--run-quarantined", is_flag=True, help="Run also what is expected to crash or hang."),
)

JUDGEMENT = together(
    click.option("-x", "--fail-fast", is_flag=True, help="Stop after the first failing case."),
    LIMITS,
    REPEAT,
    REPORT,
    click.option("--sharpness", is_flag=True, help="Tell how many wrong kernels each case would notice (slow)."),
    click.option("--shuffle", is_flag=True, help="Run the cases in random order."),
    click.option(
        "--shuffle-seed",
        type=click.IntRange(0, 2**32 - 1),
        metavar="N",
        help="The order that an earlier --shuffle took.",
    ),
    click.option(
        "--journal",
        type=Place(dir_okay=False, path_type=str),
        metavar="FILE",
        help="Write every result down at once.",
    ),
    click.option(
        "--resume",
        type=Place(exists=True, dir_okay=False, path_type=str),
        metavar="FILE",
        help="Go on from a journal, and continue it: cases that stand there are not run again.",
    ),
    EXPECTING,
    click.option("--exit-zero", is_flag=True, help="Exit with 0 where failing cases would give 1."),
    click.option(
        "--fail-on",
        type=click.Choice([str(flag) for flag in Flag]),
        multiple=True,
        metavar="FLAG",
        help="Fail when a result has this flag (repeatable): " + ", ".join(map(str, Flag)) + ".",
    ),
)

DETAIL = together(
    click.option("-q", "--quiet", is_flag=True, help="Only failures and the summary."),
    click.option("-v", "--verbose", is_flag=True, help="All rows, adapters, versions, what the data is."),
)
