"""One `minimize` as the terminal sees it: the search, its folder and journal, its end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import filelock

from attncheck import __version__
from attncheck.backends.base import Backend, Hello, contents_of
from attncheck.backends.registry import Settings, table_of
from attncheck.bundle import contents
from attncheck.cli import alone, options, packing
from attncheck.cli.choosing import placing, serving
from attncheck.cli.invocation import Invocation, said
from attncheck.cli.messages import Stop, error, progress, unwritten, warning
from attncheck.cli.output import Printer, Ticker
from attncheck.engine import run as engine
from attncheck.engine.evaluator import Evaluator
from attncheck.engine.events import Result
from attncheck.graph.case import Case
from attncheck.minimize import folder as kept
from attncheck.minimize import stripped
from attncheck.minimize.candidate import Candidate, start
from attncheck.minimize.certificate import Step, certificate, neighbours
from attncheck.minimize.head import Head
from attncheck.minimize.journal import Damaged, Unfitting
from attncheck.minimize.ledger import Budget, Ledger, Runs, Spent
from attncheck.minimize.order import NUMBERS
from attncheck.minimize.search import DoesNotFail, Minimum, Progress, minimize
from attncheck.minimize.seen import Seen
from attncheck.minimize.signature import same, signature
from attncheck.reports import minimized
from attncheck.reports.numbers import plural
from attncheck.scenario.axes import spell
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import ExitCode

REMEMBERED = ("kernel", "threshold", "thresholds", "shaders", "adapter", "time_limit", "backend_memory", "same_kernel")
"""Options that decide what a case comes to: a certificate keeps them, and is verified under them."""


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for. `told` are the options of REMEMBERED that it said itself.

    shaping   options that it or its bundle says and that decide what a case comes to
    restart   search afresh where another search has left its folder
    """

    backends: tuple[str, ...]
    settings: Mapping[str, Any]
    told: frozenset[str]
    tables: Mapping[str, Any]
    kernel_forced: bool
    folder: Path
    budget: Budget
    runs: Runs
    jobs: int
    quiet: bool
    bundle: bool
    shaping: Mapping[str, Any]
    invocation: Invocation
    restart: bool


def wanted(ctx: click.Context, given: Mapping[str, Any]) -> Wanted:
    """Read the options of a call."""
    return Wanted(
        backends=given["backend"],
        settings={name: given[name] for name in REMEMBERED},
        told=frozenset(name for name in REMEMBERED if said(ctx, name)),
        tables=alone.tables(ctx, given),
        kernel_forced=said(ctx, "kernel"),
        folder=Path(given["out"]),
        budget=Budget(given["time"], given["evaluations"]),
        runs=Runs(*given["runs"]),
        jobs=given["jobs"],
        quiet=given["quiet"],
        bundle=given["bundle"],
        shaping=alone.shaping(ctx),
        invocation=alone.invocation(ctx, given),
        restart=given["restart"],
    )


@contextmanager
def place(folder: Path) -> Iterator[Path]:
    """The folder of a search, for it alone. Raises Stop where it may hold what is not ours, where another search is at
    work in it, and where the search is interrupted.

    One that was not there, or empty, is left so where the search has not found that its start fails.
    """
    try:
        if not (folder / kept.JOURNAL).is_file():
            contents.check_place(folder)
        missing = [it for it in (folder, *folder.parents) if not it.exists()]
        empty = bool(missing) or not any(folder.iterdir())
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / kept.LOCK)
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise Stop(
            f"another attncheck minimize is at work in {folder}; await its end, or name another folder with --out\n"
            "nothing was run",
            ExitCode.USAGE,
        ) from None
    except contents.NoPlace as occupied:
        raise Stop(f"{occupied}\nnothing was run", ExitCode.USAGE) from None
    except OSError as failed:
        raise unwritten(folder, failed) from None
    try:
        yield folder
    except KeyboardInterrupt:
        best = folder / kept.CASE
        far = f"the smallest case so far is {best}, and the same call goes on" if best.is_file() else (
            "it was not yet known whether the case fails, and the same call begins again"
        )
        raise Stop(f"interrupted; {far}", ExitCode.INTERRUPTED) from None
    finally:
        (folder / kept.LOCK).unlink(missing_ok=True)
        lock.release()
        if empty and not (folder / kept.CASE).exists():
            for it in folder.iterdir():
                shutil.rmtree(it) if it.is_dir() else it.unlink()
            for made in missing:
                made.rmdir()


def shrink(case: engine.Given, asked: Wanted) -> ExitCode:
    """Shrink `case` and give the exit code."""
    name = _one(asked.backends or (options.DEFAULT_CANDIDATE,))
    backend = _backend(name, asked.settings, asked)
    with _evaluator(backend, asked.settings, asked.jobs) as evaluator, Ticker(wanted=not asked.quiet) as ticker:
        ledger = _ledger(evaluator, asked, ticker)
        try:
            begin = _begin(case, evaluator, asked)
            _journal(ledger, backend, evaluator.hello, begin.like, asked)
            return _search(begin, backend, name, ledger, evaluator, asked, ticker)
        except DoesNotFail as passing:
            error(f"{case.id} on {backend.name}: {passing}")
            return ExitCode.FAILED
        except OSError as failed:
            raise unwritten(asked.folder, failed, ran=True, then="the same call goes on from its journal") from None
        finally:
            ledger.close()


def _begin(case: engine.Given, evaluator: Evaluator, asked: Wanted) -> Candidate:
    """Where to begin: a scenario as it is, a model as a scenario that fails as it does. Raises DoesNotFail, Stop."""
    if not isinstance(case, Case):
        return start(case)
    same_kernel = asked.settings["same_kernel"]
    result = evaluator.ask(case).result()
    wanted = signature(result, kernels=same_kernel)
    if wanted is None:
        raise DoesNotFail(f"it does not fail: {Seen.of(result).words}")
    for candidate in stripped.scenarios(case):
        seen = signature(evaluator.ask(candidate.scenario).result(), kernels=same_kernel)
        if seen is not None and same(wanted, seen):
            progress(f"{case.id} fails in the same way as a scenario: {without_numbers(candidate)}")
            return replace(candidate, like=replace(candidate.like, id=case.id))
    raise Stop(
        f"{case.id} fails ({wanted.words}), but no scenario that says what its node does fails in the same way: "
        "there is nothing whose axes could be made smaller",
        ExitCode.USAGE,
    )


def without_numbers(case: Candidate) -> str:
    """A candidate in a line, its lists of numbers left out."""
    return ",".join(f"{axis}={spell(value)}" for axis, value in case.axes if axis not in NUMBERS)


def _search(
    begin: Candidate, backend: Backend, name: str, ledger: Ledger, evaluator: Evaluator, asked: Wanted, ticker: Ticker
) -> ExitCode:
    began = begin.like

    def told(found: Progress) -> None:
        if asked.restart and not ledger.begun:
            contents.clear(asked.folder)
        kept.keep_case(asked.folder, found.case, f"smallest case so far of {began.id} on {backend.name}")
        ledger.begin()
        ticker.subject = found.case.text

    minimum = minimize(begin, ledger, asked.runs, told, lambda text: warning(f"{began.id} is {text}"))
    result = _shown(evaluator, minimum)
    heading = minimized.said(began.id, backend.name, minimum.failure)
    files = kept.keep(asked.folder, minimum, name, asked.settings, heading)
    printer = Printer()
    with ticker.aside():
        printer.print(minimized.lines(minimum, result, printer.width, asked.invocation.command, quiet=asked.quiet))
        click.echo(f"\n{asked.folder}: {', '.join(files)}")
        click.echo(f"To run it:\n  {asked.invocation.command(str(asked.folder / kept.CASE))}")
        click.echo(f"{plural(minimum.evaluations, 'evaluation')} in {minimum.seconds:.1f}s")
    if asked.bundle:
        evaluator.end()  # the script that is run next gets the cores, and what the GPU's memory holds
        limits = _limits(asked.settings)
        case = minimum.case.scenario
        table = table_of(name, Settings(tables=asked.tables))
        packing.pack_again(case, backend, limits, asked.folder, asked.runs.of, asked.shaping, table)
    return ExitCode.OK if minimum.certified else ExitCode.UNFINISHED


def _shown(evaluator: Evaluator, minimum: Minimum) -> Result:
    """A run of the smallest case by itself that fails as it did, where one does."""
    results = [it.result() for it in evaluator.alone(minimum.case.scenario, minimum.runs.of)]
    alike = (it for it in results if (seen := signature(it)) is not None and same(minimum.failure, seen))
    return next(alike, results[0])


def verify(ctx: click.Context, given: Mapping[str, Any]) -> ExitCode:
    """Run a certificate's case and neighbours again; exit code 1 where one of them has become another."""
    with alone.bundled(ctx, {**given, "what": (given["verify"],)}) as words:
        return _verify(wanted(ctx, words), words.get("folder", Path(given["verify"])))


def _verify(asked: Wanted, folder: Path) -> ExitCode:
    try:
        found = kept.certificate(folder)
    except kept.Unusable as unusable:
        raise Stop(str(unusable), ExitCode.USAGE) from None
    settings = {**found.settings, **{name: asked.settings[name] for name in asked.told}}
    backend = _backend(_one(asked.backends or (found.backend,)), settings, asked)
    with _evaluator(backend, settings, asked.jobs) as evaluator, Ticker(wanted=not asked.quiet) as ticker:
        ledger = _ledger(evaluator, asked, ticker, settings)
        ledger.runs = Runs(*found.runs)
        ledger.isolated = True
        try:
            fails = ledger.fails(found.case, found.failure)
            seen = certificate(_steps(found), ledger, found.failure)
        except Spent:
            raise Stop(
                f"not verified: the budget was spent after {plural(ledger.evaluations, 'evaluation')}; "
                "give more --time or --evaluations",
                ExitCode.UNFINISHED,
            ) from None
    changed = [it.change for it in seen if it.same]
    Printer().print(minimized.table(seen))
    if not fails:
        now = ledger.seen(found.case)[0]
        error(f"it does not fail as it did ({found.failure.words}) on {backend.name}: it is {now.words} now")
    for change in changed:
        error(f"a neighbour fails in the same way on {backend.name}: {change}")
    if fails and not changed:
        click.echo(f"verified: {minimized.counted(seen, ledger.runs)}, on {backend.name}")
    return ExitCode.OK if fails and not changed else ExitCode.FAILED


def _steps(found: kept.Certificate) -> list[Step]:
    """The neighbours that a certificate lists, and those that its case has without being listed.

    A search whose budget was spent has listed none, and an earlier attncheck may have known fewer.
    """
    listed = {it.case for it in found.neighbours}
    return [*found.neighbours, *(it for it in neighbours(found.case) if it.case not in listed)]


def _one(names: tuple[str, ...]) -> str:
    if len(names) > 1:
        raise Stop(f"one backend is minimised at a time; this call names {', '.join(names)}", ExitCode.USAGE)
    return names[0]


def _backend(name: str, settings: Mapping[str, Any], asked: Wanted) -> Backend:
    return alone.backend(name, placing(settings, asked.tables, settings["kernel"], forced=asked.kernel_forced))


@contextmanager
def _evaluator(backend: Backend, settings: Mapping[str, Any], jobs: int) -> Iterator[Evaluator]:
    """Warm workers for the length of the block. Raises Stop (exit code 4)."""
    evaluator = Evaluator(backend, _limits(settings), jobs)
    try:
        with serving(backend.name):
            evaluator.start(lambda note: progress(f"{backend.name}: {note}"))
            yield evaluator
    finally:
        evaluator.end()


def _limits(settings: Mapping[str, Any]) -> engine.Options:
    return engine.Options(time_limit=settings["time_limit"], memory_limit=settings["backend_memory"])


def _ledger(evaluator: Evaluator, asked: Wanted, ticker: Ticker, settings: Mapping[str, Any] | None = None) -> Ledger:
    def told(ledger: Ledger) -> None:
        left = f", {ledger.left:.0f} s left" if ledger.left is not None else ""
        ticker.say(f"{plural(ledger.evaluations, 'evaluation')}{left}")

    same_kernel = (settings or asked.settings)["same_kernel"]
    return Ledger(evaluator, asked.budget, same_kernel=same_kernel, lanes=asked.jobs, told=told)


def _journal(ledger: Ledger, backend: Backend, hello: Hello, case: Scenario, asked: Wanted) -> None:
    """Go on from the journal of the folder, or begin one. Raises Stop where it is of another search."""
    path = asked.folder / kept.JOURNAL
    try:
        before = ledger.keep(path, _head(backend, hello, case, asked), case, afresh=asked.restart)
    except Damaged as damaged:
        raise Stop(str(damaged), ExitCode.USAGE) from None
    except Unfitting as differs:
        raise Stop(_another(asked, differs), ExitCode.USAGE) from None
    except OSError as failed:
        raise unwritten(path, failed) from None
    if before:
        progress(f"going on from {path}, which holds {plural(before, 'evaluation')}")


def _head(backend: Backend, hello: Hello, case: Scenario, asked: Wanted) -> Head:
    """What this search is told by."""
    launch, rules = backend.launch(), asked.settings["thresholds"]
    adapter = {"adapter": str(hello.device["adapter"])} if "adapter" in hello.device else {}
    return Head(
        start=start(case).text,
        backend=backend.name,
        place=launch.place,
        files={**launch.contents, **(contents_of([Path(rules)]) if rules is not None else {})},
        versions={"attncheck": __version__, **hello.versions, **adapter},
        settings={name: value for name, value in asked.settings.items() if name != "adapter"},
    )


def _another(asked: Wanted, differs: Unfitting) -> str:
    """That the folder is of another search, how that differs, and what there is to do."""
    lines = [
        f"{asked.folder} holds another search than this call asks for: {differs}",
        "nothing was run",
        f"  the same call with --restart searches afresh, in {asked.folder}",
        "  the same call with --out DIR does so in another folder",
    ]
    best = asked.folder / kept.CASE
    if best.is_file():
        lines.append(f"  {asked.invocation.command(str(best))} runs the smallest case that was found")
    return "\n".join(lines)
