"""What `attncheck extract` does: reads, runs, writes, and says what came of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click
import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import numpy_helper

from attncheck.backends.base import BackendUnavailable
from attncheck.cli import files, models
from attncheck.cli.messages import Stop, progress
from attncheck.cli.output import Printer
from attncheck.extract import folder, inputs, source
from attncheck.extract import run as driver
from attncheck.extract.capture import Limits
from attncheck.extract.folder import Written
from attncheck.extract.run import Feed
from attncheck.extract.source import Source
from attncheck.graph.external import UnusableModel
from attncheck.graph.model_file import stored
from attncheck.reports import extraction as report
from attncheck.reports.numbers import plural
from attncheck.vocabulary import ExitCode


def run(given: Mapping[str, Any]) -> ExitCode:
    """Do what the options in `given` ask. Raises Stop."""
    _refuse_contradictions(given)
    printer = Printer()
    try:
        it = source.load(given["model"], given["memory_limit"])
        if given["list"]:
            return _list(it, printer)
        limits = Limits(given["time_limit"], given["backend_memory"], given["memory_limit"])
        found = driver.extract(it, given["node"] or "*", _feed(it, given), limits)
    except UnusableModel as unusable:
        raise Stop(f"{unusable}\nnothing was written", ExitCode.USAGE) from None
    except BackendUnavailable as absent:
        raise Stop(f"ONNX Runtime could not start: {absent}", ExitCode.BACKEND) from None
    made, written = folder.content(found, given["model"], given["tensors"])
    out = given["out"] or Path(f"{given['model'].stem}-attention")
    if made:
        _write(out, made, given["force"])
    printer.print(report.report(it, found, written, printer.width))
    return _last_words(given, it, out, written)


def _list(it: Source, printer: Printer) -> ExitCode:
    lines = report.listed(it)
    printer.print(lines)
    if not lines:
        raise Stop(f"{it.path} holds no attention or rotary node, nor attention spelt out", ExitCode.NOTHING)
    return ExitCode.OK


def _refuse_contradictions(given: Mapping[str, Any]) -> None:
    if given["inputs"] is not None and (given["dim"] or given["seed"] is not None):
        other = "--dim" if given["dim"] else "--seed"
        raise Stop(f"--inputs gives the arrays that {other} would shape: give one of them", ExitCode.USAGE)


def _feed(it: Source, given: Mapping[str, Any]) -> Feed:
    if given["inputs"] is None:
        return driver.generated(it, given["seed"] or 0, models.sizes(given["dim"]), given["memory_limit"])
    place: Path = given["inputs"]
    return driver.fed_with(it, _of_folder(it, place) if place.is_dir() else models.arrays(str(place)), place)


def _of_folder(it: Source, place: Path) -> dict[str, NDArray[np.generic]]:
    """The arrays of a folder: NAME.npy, and tensors of ONNX's own test data, input_0.pb, by name or place.

    Raises UnusableModel.
    """
    names = [value.name for value in inputs.entrance(it.path, it.proto).inputs]
    arrays = {path.stem: _array(path) for path in sorted(place.glob("*.npy"))}
    for path in sorted(place.glob("input_*.pb")):
        tensor = _tensor(path)
        number = path.stem.removeprefix("input_")
        if not tensor.name and not (number.isdecimal() and int(number) < len(names)):
            raise UnusableModel(f"{path}: it has no name, and {it.path} has no input of this number")
        arrays[tensor.name or names[int(number)]] = stored(numpy_helper.to_array(tensor))
    if not arrays:
        raise UnusableModel(f"{place} holds no array: NAME.npy and input_0.pb are read")
    return arrays


def _array(path: Path) -> NDArray[np.generic]:
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise UnusableModel(f"{path} is not an .npy file of a plain array (np.save writes one)") from error


def _tensor(path: Path) -> onnx.TensorProto:
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(path.read_bytes())
    except (OSError, DecodeError) as error:
        raise UnusableModel(f"{path} cannot be read as an ONNX tensor") from error
    return tensor


def _write(out: Path, made: Mapping[str, bytes], force: bool) -> None:
    """Write every file, each whole or not at all; files that are there only with --force."""
    there = [name for name in made if (out / name).exists()]
    if there and not force:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise Stop(
            f"{out / there[0]}{more} is there already; --force overwrites, --out DIR writes elsewhere\n"
            "nothing was written",
            ExitCode.USAGE,
        )
    if there:
        progress(f"{plural(len(there), 'file')} of {out} overwritten: {', '.join(there)}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Stop(f"{out} cannot be made: {error.strerror}", ExitCode.USAGE) from None
    for name, content in made.items():
        files.replace(out / name, partial(_fill, content))


def _fill(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def _last_words(given: Mapping[str, Any], it: Source, out: Path, written: Sequence[Written]) -> ExitCode:
    """What to do next, or why there is nothing to do."""
    if written:
        click.echo(f"To run what was written:\n  attncheck run {os.fspath(out)}")
        return ExitCode.OK
    if not it.sites:
        why = f"{it.path} holds no attention or rotary node"
    elif given["node"] is not None:
        why = f"no node of {it.path} that --node {given['node']} leaves could be extracted (--list shows all)"
    else:
        why = f"no node of {it.path} could be extracted"
    raise Stop(f"{why}; nothing was written", ExitCode.NOTHING)
