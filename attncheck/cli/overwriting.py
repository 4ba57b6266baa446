"""What a call writes, held against what it reads and what else it writes: no file is lost because of a slip."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attncheck.cli import configuration, expectations, models
from attncheck.cli.addresses import SEPARATOR, Addresses
from attncheck.cli.configuration import Configuration
from attncheck.cli.messages import Stop
from attncheck.cli.options import NO_REFERENCE
from attncheck.cli.reported import NOT_RUN, Wish
from attncheck.vocabulary import ExitCode

OUTPUTS = ("journal", "plot", "onnx", "npz", "out")
"""Options that name a file to write, beside ``--report``."""


@dataclass(frozen=True)
class Named:
    """A file, and how a message names it: by the words of the call, or by what it is."""

    how: str
    path: Path

    @property
    def identity(self) -> object:
        """The same for two paths to one file, whether it is there or not; links are followed."""
        try:
            it = self.path.stat()
        except OSError:
            return self.path.resolve()
        return it.st_dev, it.st_ino

    @property
    def lasting(self) -> bool:
        """Whether something could be lost: not on a terminal or a pipe."""
        return self.path.is_file() or not self.path.exists()


def refuse(written: Sequence[Named], read: Iterable[Named], then: str = NOT_RUN) -> None:
    """Raise Stop (exit code 2) where one of `written` is one of `read`, or another of `written`; `then`: what it says.

    An output that is there from an earlier call is overwritten, as is usual.
    """
    outputs: dict[object, Named] = {}
    for it in (it for it in written if it.lasting):
        other = outputs.setdefault(it.identity, it)
        if other is not it:
            raise Stop(
                f"{other.how} and {it.how} are one file, of which only one would be left: give each its own\n{then}",
                ExitCode.USAGE,
            )
    for source in read if outputs else ():
        lost = outputs.get(source.identity)
        if lost is not None:
            raise Stop(f"{lost.how} would overwrite {source.how}: name another file\n{then}", ExitCode.USAGE)


def refuse_in_call(found: Configuration | None, given: Mapping[str, Any]) -> None:
    """Raise Stop (exit code 2) where a call would overwrite what it reads, or one of its outputs another."""
    written = [*reports(given.get("report", ()))]
    written += [Named(f"--{name} {given[name]}", Path(given[name])) for name in OUTPUTS if given.get(name)]
    refuse(written, _sources(found, given))


def reports(wishes: Sequence[str]) -> Iterator[Named]:
    """The files of ``--report``."""
    for text in wishes:
        path = Wish.read(text).path
        if path is not None:
            yield Named(f"--report {text}", path)


def _sources(found: Configuration | None, given: Mapping[str, Any]) -> Iterator[Named]:
    """What a call reads, and what it goes on from."""
    for word in given.get("what", ()):
        yield from (Named(f"{path}, which this call reads", path) for path in _files(found, word))
    for option in ("inputs", "thresholds", "baseline", "resume"):
        if given.get(option):
            yield Named(f"{given[option]}, the file of --{option}", Path(given[option]))
    for name in given.get("shard_times", ()):
        yield Named(f"{name}, a file of --shard-times", Path(name))
    if given.get("shaders"):
        yield from (Named(f"{path}, a shader of --shaders", path) for path in sorted(Path(given["shaders"]).iterdir()))
    for path in expectations.files(found, given["expect"]) if "expect" in given else ():
        yield Named(f"{path}, the expectations", path)
    yield from _functions(found, given)
    if found is not None:
        yield Named(f"{found.path}, the configuration", found.path)


def _functions(found: Configuration | None, given: Mapping[str, Any]) -> Iterator[Named]:
    from attncheck.backends.registry import file_of

    tables = configuration.backends(found)
    reference = given.get("reference")
    for name in (*given.get("backend", ()), *([] if reference in {None, NO_REFERENCE} else [reference])):
        path = file_of(name, tables)
        if path is not None:
            yield Named(f"{path}, the file of the backend {name}", path)


def _files(found: Configuration | None, word: str) -> Iterator[Path]:
    """The scenario files, models and arrays that a word of the call means."""
    base = found.base if found is not None else Path.cwd()
    file, mark, _ = word.partition(SEPARATOR)
    for path in Addresses(base, 0).files(file) if mark else [Path(word)]:
        if path.is_dir():
            from attncheck.scenario.load import scenario_files

            yield from scenario_files(path)
        for one in models.with_arrays(path) if path.is_dir() else [path]:
            yield from (one, models.beside(one)) if models.is_model(str(one)) else (one,)
