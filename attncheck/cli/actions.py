"""GitHub Actions: what a run there tells unasked, and where its files are."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attncheck.cli.messages import warning

if TYPE_CHECKING:
    from attncheck.reports.document import Report

FORMAT = "github"


def running(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process is a step of a workflow."""
    return environment.get("GITHUB_ACTIONS") == "true"


def unasked(formats: Collection[str]) -> bool:
    """Whether to annotate although no report asks for it: whoever asks has said where the annotations are to go."""
    return running() and FORMAT not in formats


def annotated(report: Report) -> str:
    """The workflow commands, with the scenarios' files as GitHub knows them."""
    from attncheck.reports import github

    return github.text(_in_repository(report, Path.cwd(), os.environ.get("GITHUB_WORKSPACE")))


def summarise(report: Report) -> None:
    """Append the Markdown to the summary of the step, as far as there is room. That it cannot be is only said."""
    from attncheck.reports import github, markdown

    name = os.environ.get("GITHUB_STEP_SUMMARY")
    if not running() or not name:
        return
    path = Path(name)
    try:
        used = path.stat().st_size if path.exists() else 0
        with path.open("ab") as file:
            file.write(markdown.fitted(report, github.SUMMARY_LIMIT - used).encode())
    except OSError as failed:
        warning(f"cannot write the summary of the step, {path}: {failed.strerror or failed}")


def _in_repository(report: Report, folder: Path, workspace: str | None) -> Report:
    """`report`, its files as the workspace has them where it was made in a folder below."""
    if not workspace or not folder.is_relative_to(workspace):
        return report
    below = folder.relative_to(workspace)

    def told(file: str) -> str:
        if file.startswith("--") or Path(file).is_absolute():
            return file
        return Path(os.path.normpath(below / file)).as_posix()

    return replace(report, cases=tuple(replace(it, file=told(it.file)) for it in report.cases))
