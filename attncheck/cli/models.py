"""Models among the words of a call: which file, fed with what."""

from __future__ import annotations

import os
import urllib.parse
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncheck.cli.messages import Stop
from attncheck.graph import feeds, given, model_file
from attncheck.graph.case import Case
from attncheck.graph.model_file import ModelFile, UnusableModel
from attncheck.problem import AnyProblem, LinearProblem, Problem, RotaryProblem
from attncheck.scenario import memory
from attncheck.scenario.command_line import SET
from attncheck.scenario.load import address
from attncheck.vocabulary import ExitCode

SUFFIX = ".onnx"
ARRAYS = ".inputs.npz"
"""Ends the file of a model's arrays, beside the model and named as it is: attn.onnx, attn.inputs.npz."""
SEED = "seed="


def is_model(word: str) -> bool:
    """Whether `word` is a path to a model, or the id of one."""
    return word.partition("::")[0].lower().endswith(SUFFIX)


def case(word: str, base: Path, options: Mapping[str, Any]) -> Case:
    """The case of a model: a path, or the id that an earlier report gave it. Raises Stop (exit code 2).

    base      the folder that ids are relative to
    options   the call's `inputs`, `dim`, `seed` and `memory_limit`
    """
    try:
        it = model_file.load(_path(word, base), options["memory_limit"])
        _refuse_other_name(word, it)
        found, problem = _fed(word, it, f"{address(it.path, base)}::{it.node.op_type}", options)
    except UnusableModel as unusable:
        raise Stop(f"{unusable}\nnothing was run", ExitCode.USAGE) from None
    _refuse_large(found, problem, options["memory_limit"])
    return found


def with_arrays(folder: Path) -> list[Path]:
    """The models in a folder, at any depth, that have their arrays beside them: what `attncheck extract` writes."""
    found = [Path(at, name) for at, _, names in os.walk(folder) for name in names if name.lower().endswith(SUFFIX)]
    return sorted(path for path in found if beside(path).is_file())


def beside(path: Path) -> Path:
    """Where the arrays of a model lie when nobody says where."""
    return path.with_suffix(ARRAYS)


def _fed(word: str, it: ModelFile, name: str, options: Mapping[str, Any]) -> tuple[Case, AnyProblem]:
    """The case and its Problem: with the arrays given, else with those beside the model, else with generated ones."""
    seed = options["seed"] if options["seed"] is not None else _seed(word)
    source = options["inputs"]
    if source is None and seed is None and not options["dim"] and beside(it.path).is_file():
        source = str(beside(it.path))
    if source is not None:
        fed = feeds.given(it, arrays(source), source)
        return given.case(it, name, fed, f"{_what(it)}, fed with {source}")
    said = sizes(options["dim"])
    feeds.refuse_foreign(it, said)
    fed = feeds.generated(it, seed or 0, said, options["memory_limit"], feeds.of_node(it))
    # Beside arrays that would be taken, also seed 0 must be said.
    suffix = f"{SET}{SEED}{seed or 0}" if seed or beside(it.path).is_file() else ""
    return given.case(it, name + suffix, fed, f"{_what(it)}, fed with data generated from seed {seed or 0}")


def _path(word: str, base: Path) -> Path:
    """The file: a path as it is, the file of an id as ids write it."""
    file, separator, _ = word.partition("::")
    if not separator:
        return Path(file)
    written = urllib.parse.unquote(file)
    found = next((path for path in (base / written, Path(written)) if path.exists()), Path(written))
    return found.relative_to(Path.cwd()) if found.is_relative_to(Path.cwd()) else found


def _seed(word: str) -> int | None:
    """The seed that stands in an id behind ``@``, or None."""
    changes = word.partition("::")[2].partition(SET)[2]
    if not changes:
        return None
    if not changes.startswith(SEED) or not changes.removeprefix(SEED).isdecimal():
        raise Stop(f"{word}: behind {SET} of a model's id only {SEED}N can stand\nnothing was run", ExitCode.USAGE)
    return int(changes.removeprefix(SEED))


def _refuse_other_name(word: str, it: ModelFile) -> None:
    name = word.partition("::")[2].partition(SET)[0]
    if name not in {"", "*", it.node.op_type}:
        raise UnusableModel(f"{it.path} holds no {name}; its node is {it.node.op_type}")


def _what(it: ModelFile) -> str:
    return f"a model that is one {it.node.domain or 'ai.onnx'}.{it.node.op_type} {it.opset}"


def arrays(path: str) -> dict[str, NDArray[np.generic]]:
    """The arrays of an .npz file. Raises UnusableModel."""
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise UnusableModel(f"{path} holds one array without a name; np.savez writes arrays by name")
        with file:
            return {name: np.asarray(file[name]) for name in file.files}
    except OSError as error:
        raise UnusableModel(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UnusableModel(f"{path} is not an .npz file of plain arrays (np.savez writes one)") from error


def sizes(words: tuple[str, ...]) -> dict[str, int]:
    """The sizes of symbolic dimensions, written NAME=N. Raises UnusableModel."""
    said = {}
    for word in words:
        name, _, size = word.partition("=")
        if not name or not size.isdecimal():
            raise UnusableModel(f"--dim {word}: write NAME=N, a symbolic dimension and its size, as in --dim batch=2")
        said[name] = int(size)
    return said


def _refuse_large(found: Case, it: AnyProblem, limit: int) -> None:
    needed = memory.parts(_shape(it))
    if sum(part.size for part in needed) > limit:
        told = "\n".join(f"  {part}" for part in needed)
        raise Stop(
            f"{found.id} would take more than --memory-limit {memory.readable(limit)}:\n{told}\nnothing was run",
            ExitCode.USAGE,
        )


def _shape(it: AnyProblem) -> memory.Shape:
    sizes = it.dtype, it.batch, it.rows
    match it:
        case Problem():
            return memory.Shape(*sizes, it.capacity, it.heads, it.kv_heads, max(it.head_dim, it.v_head_dim))
        case LinearProblem():
            widest = max(it.head_dim, it.v_head_dim)
            return memory.Shape(*sizes, 0, it.heads, it.kv_heads, widest, state_rows=it.head_dim)
        case RotaryProblem():
            return memory.Shape(*sizes, 0, it.heads, it.heads, it.head_dim)
