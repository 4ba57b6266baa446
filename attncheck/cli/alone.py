"""One case on one backend, as a call names them: for the commands that look at a single failure."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from attncheck.backends.base import Backend
from attncheck.backends.registry import Settings, create
from attncheck.backends.tables import Table
from attncheck.bundle.again import ENVIRONMENT, FOLDERS, MINIMAL, OPTIONS, TABLE, Again, Unreadable, read
from attncheck.bundle.contents import CASE, INPUTS, MODEL
from attncheck.cli import configuration, options, selection
from attncheck.cli.choosing import known, placing
from attncheck.cli.invocation import KEPT, Invocation, said
from attncheck.cli.messages import Stop
from attncheck.engine.run import Given, Options
from attncheck.vocabulary import ExitCode

ZIP = ".zip"


@dataclass(frozen=True)
class Alone:
    """The case, where to run it (the first, `backend`, unless the call says otherwise), and how.

    named      the backend's name as the call or the bundle says it
    reference  None where there is none, or the backend is it
    shaping    options that the call or the bundle says and that decide what the case comes to, by parameter name
    known      the verdict that a bundle is of, "" where it is none
    """

    given: Given
    named: str
    settings: Settings
    reference: Backend | None
    options: Options
    shaping: Mapping[str, Any]
    known: str = ""

    @property
    def backend(self) -> Backend:
        """The one that is tested."""
        return backend(self.named, self.settings)


@contextmanager
def alone(ctx: click.Context, given: Mapping[str, Any]) -> Iterator[Alone]:
    """Read a call: a case as `run` takes it, or a bundle, folder or zip. Raises Stop, or click.UsageError.

    A bundle that was packed lies unpacked for as long as the block lasts.
    """
    if not (given["what"] or given["case"]):
        raise click.UsageError("name the case: its id, a bundle, a scenario file with one case, or --case AXES", ctx)
    with bundled(ctx, given) as words:
        case = single(ctx, words)
        settings = _settings(ctx, words)
        named = _one(words["backend"]) or options.DEFAULT_CANDIDATE
        reference = words["reference"]
        wanted = None if reference in {options.NO_REFERENCE, named} else backend(reference, settings)
        limits = Options(time_limit=words["time_limit"], memory_limit=words["backend_memory"])
        yield Alone(case, named, settings, wanted, limits, shaping(ctx), words.get("known", ""))


@contextmanager
def bundled(
    ctx: click.Context, given: Mapping[str, Any], lasting: Path | None = None
) -> Iterator[Mapping[str, Any]]:
    """The parameters of a call in which a bundle is the one word: those of what is in it, of its backend and options.

    Any other call's are as they were; `folder` is where the bundle lies, unpacked. What a bundle says counts as said by
    the call, where the call names no other backend and does not say it itself; `table_in` is then the folder with the
    table of that backend, where there is one, and `known` the verdict that the bundle is of. Raises Stop.

    lasting   a folder that outlasts the call: files that the backend of a zip file is made of are put there
    """
    with unpacked(given["what"]) as there:
        if there is None:
            yield given
            return
        # Where the backend has a table, commands that are printed go to its folder: paths in them must hold there.
        bundle = there.absolute() if (there / TABLE).is_file() else there
        found, place = _read(bundle), bundle
        if found is not None and lasting is not None and _packed(given["what"]):
            place = lasting.absolute() if (there / TABLE).is_file() else lasting
            found = _lasting(found, bundle, place, over=given["restart"])
        taken = _again(ctx, found, given)
        beside = {"table_in": place} if taken and (place / TABLE).is_file() else {}
        known = {"known": found.verdict} if found is not None else {}
        yield {**given, "folder": bundle, **_within(bundle, given), **taken, **beside, **known}


def tables(ctx: click.Context, words: Mapping[str, Any]) -> dict[str, Table]:
    """The tables of backends that count for a call that `bundled` has read: the user's own before that of a bundle."""
    own = configuration.backends(ctx.obj)
    place = words.get("table_in")
    return own if place is None else {**configuration.backends(configuration.at(place / TABLE)), **own}


def invocation(ctx: click.Context, words: Mapping[str, Any]) -> Invocation:
    """How such a call runs a case alone: where only the bundle knows the backend, in its folder."""
    told = Invocation.of(ctx, "attncheck", "run", kept=KEPT - {"inputs", "dim"})
    theirs = set(tables(ctx, words)) - set(configuration.backends(ctx.obj))
    return replace(told, folder=words["table_in"]) if theirs else told


def single(ctx: click.Context, words: Mapping[str, Any]) -> Given:
    """The case of a call that `bundled` has read; one that came in a zip file is called by that. Raises Stop."""
    case = selection.single(ctx.obj, words)
    if not _packed(ctx.params["what"]):
        return case
    return replace(case, id=f"{ctx.params['what'][0]}::{case.id.rpartition('::')[2]}")


def shaping(ctx: click.Context) -> dict[str, Any]:
    """The options of a call, its bundle's among them, that decide what a case comes to, by parameter name."""
    return {name: ctx.params[name] for name in OPTIONS if name in ctx.params and said(ctx, name)}


def _packed(what: Sequence[str]) -> bool:
    """Whether a call's one word is a zip file."""
    return len(what) == 1 and Path(what[0]).suffix == ZIP


def _read(bundle: Path) -> Again | None:
    try:
        return read(bundle)
    except Unreadable as unreadable:
        raise Stop(str(unreadable), ExitCode.USAGE) from None


def _lasting(found: Again, bundle: Path, folder: Path, *, over: bool) -> Again:
    """What a bundle says of how to run it, its files copied into `folder`.

    Raises Stop where others are there, unless these are to be written `over`.
    """
    for name in (TABLE, *(f"{it}/**/*" for it in FOLDERS)):
        for file in (it for it in sorted(bundle.glob(name)) if it.is_file()):
            there = folder / file.relative_to(bundle)
            if not over and there.is_file() and there.read_bytes() != file.read_bytes():
                raise Stop(
                    f"{there} is another than the bundle's; --restart puts that of the bundle there and searches "
                    "afresh, --out DIR does so in another folder",
                    ExitCode.USAGE,
                )
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(file.read_bytes())

    def moved(value: Any) -> Any:
        return value.replace(str(bundle), str(folder), 1) if isinstance(value, str) else value

    return replace(found, backend=moved(found.backend), options={k: moved(it) for k, it in found.options.items()})


def _again(ctx: click.Context, found: Again | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The backend of a bundle and its options, noted as said by this call: so printed commands have them too."""
    if found is None or (said(ctx, "backend") and given["backend"] != (found.backend,)):
        return {}
    taken = {name: value for name, value in found.options.items() if name in given and not said(ctx, name)}
    taken["backend"] = (found.backend,)
    for name, value in taken.items():
        ctx.params[name] = value
        ctx.set_parameter_source(name, click.core.ParameterSource.COMMANDLINE)
    return taken


def backend(name: str, settings: Settings) -> Backend:
    """The backend of this name, on the first adapter. Raises Stop."""
    with known():
        return create(name, settings)[0]


def _settings(ctx: click.Context, given: Mapping[str, Any]) -> Settings:
    return placing(given, tables(ctx, given), given["kernel"], forced=said(ctx, "kernel"))


def _one(names: Sequence[str]) -> str | None:
    if len(names) > 1:
        raise Stop(f"one backend is looked at; this call names {', '.join(names)}", ExitCode.USAGE)
    return names[0] if names else None


@contextmanager
def unpacked(what: Sequence[str]) -> Iterator[Path | None]:
    """The folder of the bundle, where the call names one."""
    word = what[0] if len(what) == 1 else ""
    path = Path(word)
    if word and path.is_dir() and any((path / it).is_file() for it in (ENVIRONMENT, MINIMAL, CASE, MODEL)):
        yield path
    elif path.suffix == ZIP and path.is_file():
        with tempfile.TemporaryDirectory(prefix="attncheck-") as folder:
            yield _extracted(path, Path(folder))
    else:
        yield None


def _extracted(path: Path, folder: Path) -> Path:
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
    except (zipfile.BadZipFile, OSError) as error:
        raise Stop(f"{path} cannot be unpacked: {error}", ExitCode.USAGE) from None
    found = next((it.parent for name in (CASE, MODEL) for it in sorted(folder.rglob(name))), None)
    if found is None:
        raise Stop(f"{path} is no bundle: there is neither {CASE} nor {MODEL} in it", ExitCode.USAGE)
    return found


def _within(bundle: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """The words that name the case of a bundle: its scenario, or else its model with its inputs."""
    if (bundle / CASE).is_file():
        return {"what": (str(bundle / CASE),)}
    model = bundle / MODEL
    inputs = bundle / INPUTS
    if not model.is_file():
        raise Stop(f"{bundle} holds neither {CASE} nor {MODEL}", ExitCode.USAGE)
    return {"what": (str(model),), "inputs": given["inputs"] or (str(inputs) if inputs.is_file() else None)}
