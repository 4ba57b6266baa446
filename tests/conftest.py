"""What every test runs under: the same settings whatever the caller's environment says."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

import hypothesis

_CI_SETTINGS = ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE")
_OUTPUT_SETTINGS = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


def _settle_environment() -> None:
    """Drop what would change the tool's options or output; give GPU drivers the runtime folder that some ask for."""
    for name in [*_CI_SETTINGS, *_OUTPUT_SETTINGS, *(name for name in os.environ if name.startswith("ATTNCHECK_"))]:
        os.environ.pop(name, None)
    if "XDG_RUNTIME_DIR" not in os.environ:
        os.environ["XDG_RUNTIME_DIR"] = runtime_dir = tempfile.mkdtemp(prefix="attncheck-tests-")
        atexit.register(shutil.rmtree, runtime_dir, ignore_errors=True)


def _settle_signals() -> None:
    """Let Ctrl-C reach what the tests start: a shell that runs pytest in the background has its children ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _settle_hypothesis() -> None:
    """No deadline: a software GPU's first dispatch takes as long as it takes. On CI the same examples every time."""
    parent = hypothesis.settings.get_profile("ci" if os.environ.get("CI") else "default")
    hypothesis.settings.register_profile("attncheck", parent, deadline=None)
    hypothesis.settings.load_profile("attncheck")


_settle_environment()
_settle_signals()
_settle_hypothesis()
