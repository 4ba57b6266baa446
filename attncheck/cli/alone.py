"""One case on one backend, as a call names them: for the commands that look at a single failure."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from attncheck.backends.base import Backend
from attncheck.backends.registry import Settings, UnknownBackend, create
from attncheck.bundle.contents import CASE, ENVIRONMENT, INPUTS, MODEL
from attncheck.cli import configuration, options, selection
from attncheck.cli.choosing import policy
from attncheck.cli.invocation import said
from attncheck.cli.messages import Stop
from attncheck.engine.run import Given, Options
from attncheck.vocabulary import ExitCode

ZIP = ".zip"


@dataclass(frozen=True)
class Alone:
    """The case, where to run it (the first, `backend`, unless the call says otherwise), and how.

    named      the backend's name as the call or the bundle says it
    reference  None where there is none, or the backend is it
    """

    given: Given
    named: str
    settings: Settings
    reference: Backend | None
    options: Options

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
    with bundled(given) as words:
        case = selection.single(ctx.obj, words)
        settings = _settings(ctx, given)
        named = _one(words["backend"]) or options.DEFAULT_CANDIDATE
        reference = given["reference"]
        wanted = None if reference in {options.NO_REFERENCE, named} else backend(reference, settings)
        limits = Options(time_limit=given["time_limit"], memory_limit=given["backend_memory"])
        yield Alone(case, named, settings, wanted, limits)


@contextmanager
def bundled(given: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The parameters of a call in which a bundle is the one word: those of what is in it, and of its backend.

    Any other call's are as they were. Raises Stop.
    """
    with _unpacked(given["what"]) as bundle:
        if bundle is None:
            yield given
        else:
            backends = given["backend"] or tuple(filter(None, [_backend_of(bundle)]))
            yield {**given, "backend": backends, **_within(bundle, given)}


def backend(name: str, settings: Settings) -> Backend:
    """The backend of this name, on the first adapter. Raises Stop."""
    try:
        return create(name, settings)[0]
    except UnknownBackend as unknown:
        raise Stop(str(unknown), ExitCode.USAGE) from None


def _settings(ctx: click.Context, given: Mapping[str, Any]) -> Settings:
    return Settings(
        policy=policy(given["kernel"], given["threshold"], given["thresholds"]),
        forced=said(ctx, "kernel"),
        adapters=given["adapter"],
        shaders=Path(given["shaders"]) if given["shaders"] is not None else None,
        tables=configuration.backends(ctx.obj),
    )


def _one(names: Sequence[str]) -> str | None:
    if len(names) > 1:
        raise Stop(f"one backend is looked at; this call names {', '.join(names)}", ExitCode.USAGE)
    return names[0] if names else None


@contextmanager
def _unpacked(what: Sequence[str]) -> Iterator[Path | None]:
    """The folder of the bundle, where the call names one."""
    word = what[0] if len(what) == 1 else ""
    path = Path(word)
    if word and path.is_dir() and any((path / it).is_file() for it in (ENVIRONMENT, CASE, MODEL)):
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


def _backend_of(bundle: Path) -> str | None:
    """The backend that a bundle is about, where it says so."""
    try:
        found = json.loads((bundle / ENVIRONMENT).read_text(encoding="utf-8"))["backend"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None
