"""Copies of the shipped shaders with one place changed, and whether a case shows it."""

from __future__ import annotations

import shutil
from pathlib import Path

from attncheck import shipped
from attncheck.compare import judge
from attncheck.kernels.draft import Limits
from attncheck.kernels.roster import promise
from attncheck.oracle.answer import Answer
from tests.device import Work, compute, failing, worker_module


def broken(tmp_path: Path, shader: str, old: str, new: str) -> Path:
    """A folder of shaders, made in `tmp_path`, with `new` in the one place of a shader where `old` stands."""
    folder = tmp_path / "shaders"
    shutil.copytree(shipped.shaders_dir(), folder)
    file = folder / f"{shader}.wgsl"
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} must stand once in {file.name}"
    file.write_text(text.replace(old, new), encoding="utf-8")
    return folder


def shown(
    given: Work, answers: tuple[Answer, ...], kernel: str, shaders: Path, within: Limits | None = None
) -> bool:
    """Whether the case shows a difference, or the worker itself says that something is wrong."""
    failure = worker_module("failure").Failure
    try:
        outputs = compute(given, kernel, shaders, within)
    except failure as error:
        assert error.verdict == "oob-write"  # noqa: PT017 - a shader that does not compile proves nothing
        return True
    return bool(failing(judge.differences(given.problem, answers, outputs, promise(kernel), kernel)))
