"""The entry point: the group of commands, and the one place where an exception becomes an exit code.

Nothing here or in the modules of the commands may import numpy, onnx, pydantic or rich at import time:
``attncheck --help`` answers within 0.2 seconds.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from attncheck import __version__
from attncheck.cli import streams
from attncheck.cli.messages import FULL, Stop, error
from attncheck.vocabulary import Answer, ExitCode

COMMANDS = {
    "init": "attncheck.cli.init:init",
    "run": "attncheck.cli.run:run",
    "relate": "attncheck.cli.relate:relate",
    "show": "attncheck.cli.show:show",
    "explain": "attncheck.cli.explain:explain",
    "report": "attncheck.cli.report:report",
    "minimize": "attncheck.cli.minimize:minimize",
    "extract": "attncheck.cli.extract:extract",
    "bundle": "attncheck.cli.bundle:bundle",
    "check": "attncheck.cli.check:check",
    "bisect": "attncheck.cli.bisect:bisect",
    "bench": "attncheck.cli.bench:bench",
    "tune": "attncheck.cli.tune:tune",
    "conformance": "attncheck.cli.conformance:conformance",
    "backends": "attncheck.cli.backends:backends",
    "doctor": "attncheck.cli.doctor:doctor",
    "completion": "attncheck.cli.completion:completion",
}
"""Command -> where it is defined; a module is imported when its command is named."""

PROGRAM = "attncheck"

COMPLETING = "_ATTNCHECK_COMPLETE"
"""The variable by which a shell asks for completions."""

ANSWERING = "check"
"""The command whose exit code is an answer."""

EPILOG = (
    "Every option can also be set in the environment (--fail-fast as ATTNCHECK_FAIL_FAST) or in attncheck.toml or "
    "[tool.attncheck] of pyproject.toml (fail-fast = true). The command line wins over the environment, and that "
    "over the file."
)


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports them when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        """The commands in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command `cmd_name`."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without any argument, show the help: nothing was asked for, which is a mistake of usage."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which ones there are."""
        from difflib import get_close_matches

        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the commands are {', '.join(COMMANDS)}"
            if not near and (Path(args[0]).exists() or "::" in args[0]):
                hint = f"to run it: attncheck run {args[0]}"
            ctx.fail(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="attncheck %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Differential testing of attention operators: say the case in YAML, run it everywhere, see who is wrong."""
    _configure(ctx, defaults=ctx.invoked_subcommand is not None)


def configured(command: str, arguments: Sequence[str]) -> click.Context:
    """The parameters of `command` called with `arguments`, as the environment and the configuration complete them.

    Raises Stop or click.UsageError for what the command line would not take.
    """
    group = click.Context(cli, info_name=PROGRAM)
    _configure(group, defaults=True)
    found = cli.get_command(group, command)
    assert found is not None, f"there is no command {command}"
    return found.make_context(command, list(arguments), parent=group)


def _configure(ctx: click.Context, *, defaults: bool) -> None:
    """Find the configuration, and let it give the commands' defaults."""
    from attncheck.cli import configuration

    found = configuration.find(Path.cwd())
    ctx.obj = found
    if found is not None and defaults:
        every = {name: command for name in COMMANDS if (command := cli.get_command(ctx, name)) is not None}
        ctx.default_map = configuration.defaults(found, every)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run attncheck and exit; every way to fail gets its exit code here."""
    streams.complete()
    # Before NumPy is imported. One thread: the cores are the backends', and the oracle adds up in one order everywhere.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(invoke(sys.argv[1:] if arguments is None else arguments))


def invoke(arguments: Sequence[str]) -> int:
    """Run attncheck with `arguments` and give its exit code.

    `git bisect run` takes 1 to 124 for bad, and a reducer 0 for interesting: a call of `check` that could not be read
    has answered nothing, and says so. One that was broken off ends them both.
    """
    code = _code(arguments)
    asked = next((word for word in arguments if not word.startswith("-")), "") == ANSWERING
    answered = {Answer.YES, Answer.NO, ExitCode.INTERRUPTED, ExitCode.UNREAD}
    return Answer.UNKNOWN if asked and code not in answered else code


def _code(arguments: Sequence[str]) -> int:
    """Run attncheck with `arguments` and give the exit code of whatever came of it."""
    try:
        code = _run(list(arguments))
        sys.stdout.flush()
    except Stop as stop:
        error(str(stop))
        return stop.code
    except click.ClickException as wrong:
        return _usage(wrong)
    except click.exceptions.Exit as wanted:
        return wanted.exit_code
    except (KeyboardInterrupt, click.Abort):
        error("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _swallow_output()
        return ExitCode.UNREAD
    except OSError as full:
        if full.errno not in FULL:
            return _internal(full)
        _swallow_output()
        error(f"{full.filename or 'the output'} could not be written: {full.strerror}")
        return ExitCode.INTERNAL
    except Exception as fault:  # noqa: BLE001 - the last stop: a fault of attncheck itself
        return _internal(fault)
    return code


def _run(arguments: list[str]) -> int:
    """Do what click's own `main` does, without its idea of exit codes."""
    completion = os.environ.get(COMPLETING)
    if completion:
        from attncheck.cli.shells import complete

        return complete(cli, PROGRAM, COMPLETING, completion)
    with cli.make_context(PROGRAM, arguments) as ctx:
        code = cli.invoke(ctx)
    return int(code) if isinstance(code, int) else ExitCode.OK


def _usage(wrong: click.ClickException) -> int:
    error(wrong.format_message())
    if isinstance(wrong, click.UsageError) and wrong.ctx is not None:
        click.echo(f"See {wrong.ctx.command_path} --help.", err=True)
    return ExitCode.USAGE


def _internal(fault: Exception) -> int:
    if os.environ.get("ATTNCHECK_DEBUG") not in {None, "", "0"}:
        traceback.print_exception(fault)
    where = traceback.extract_tb(fault.__traceback__)[-1]
    error(
        f"this is a fault of attncheck {__version__} itself, not of your scenarios or kernels.\n"
        f"{type(fault).__name__}: {fault} ({Path(where.filename).name}:{where.lineno})\n"
        "Set ATTNCHECK_DEBUG=1 to see the traceback; please report it with the command line and the output of "
        "`attncheck doctor`."
    )
    return ExitCode.INTERNAL


def _swallow_output() -> None:
    """Give the interpreter's last flush somewhere to go: the reader of stdout has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
