"""``pytest --attncheck scenarios/``: every case on every backend as a test item of pytest.

pytest loads this module in every project that has attncheck installed: it imports nothing but pytest until the option
is given.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from attncheck.pytest_plugin.items import ScenarioFile
    from attncheck.pytest_plugin.workers import Workers

WORKERS: pytest.StashKey[Workers] = pytest.StashKey()
"""Where a session that runs scenarios keeps its workers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("attncheck", "attention kernels against their specification")
    group.addoption("--attncheck", action="store_true", help="Run the scenario files (*.yaml) that are collected.")
    group.addoption(
        "--attncheck-backend",
        action="append",
        default=[],
        metavar="NAME",
        help="What to test (repeatable), as --backend of `attncheck run`.",
    )
    group.addoption(
        "--attncheck-args",
        action="append",
        default=[],
        metavar="OPTIONS",
        help="Further options of `attncheck run` (repeatable): --attncheck-args='--reference none --set seed=7'.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Read the options. Raises pytest.UsageError for what `attncheck run` would not take."""
    if config.getoption("attncheck"):
        from attncheck.pytest_plugin.workers import Workers

        config.stash[WORKERS] = Workers.of(config)
    elif config.getoption("attncheck_backend") or config.getoption("attncheck_args"):
        raise pytest.UsageError("--attncheck-backend and --attncheck-args go with --attncheck, which is not given")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """Take the files that `attncheck run` would take of the same folder."""
    if WORKERS not in parent.config.stash:
        return None
    from attncheck.pytest_plugin.items import ScenarioFile

    return ScenarioFile.of(file_path, parent)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the workers, also where the session was interrupted."""
    workers = session.config.stash.get(WORKERS, None)
    if workers is not None:
        workers.end()
