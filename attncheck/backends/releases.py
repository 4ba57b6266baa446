"""Which versions of a package are released, as this machine's package index tells pip; and ranges of them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

RANGE = ".."
_AVAILABLE = re.compile(r"^Available versions: (.*)$", re.MULTILINE)


class UnknownReleases(Exception):
    """The versions cannot be told. The message says why, and what to do instead."""


def chosen(text: str, package: str, python: str) -> tuple[str, ...]:
    """The versions that `text` means, oldest first: a list `1.20.1,1.22.0`, or a range `1.20..1.32`, ends included.

    Of a range these are the final releases that `python` can install. 1.32 as an end means every 1.32.x.
    Raises UnknownReleases.
    """
    low, is_range, high = text.partition(RANGE)
    if not is_range:
        return tuple(sorted(dict.fromkeys(text.split(",")), key=_version))
    if _version(low) > _version(high) and not _begins(_version(low), _version(high)):
        raise UnknownReleases(f"{text!r} is reversed: {low} comes after {high}; write {high}{RANGE}{low}")
    found = within(released(package, python), low, high)
    if not found:
        raise UnknownReleases(f"no version of {package} from {low} to {high} is released for this Python")
    return found


def within(versions: Iterable[str], low: str, high: str) -> tuple[str, ...]:
    """The versions from `low` to `high`, oldest first; all of `high` included. Raises UnknownReleases."""
    first, last = _version(low), _version(high)
    fitting = (it for it in versions if first <= _version(it) and (_version(it) <= last or _begins(_version(it), last)))
    return tuple(sorted(fitting, key=_version))


def _begins(it: Version, end: Version) -> bool:
    return it.release[: len(end.release)] == end.release


def released(package: str, python: str) -> Iterable[str]:
    """The final releases that an interpreter can install, as its pip lists them. Raises UnknownReleases."""
    command = [python, "-I", "-m", "pip", "index", "versions", "--disable-pip-version-check", package]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    listed = _AVAILABLE.search(done.stdout)
    if done.returncode != 0 or listed is None:
        said = " ".join((done.stderr or done.stdout).split()) or "it said nothing"
        raise UnknownReleases(
            f"`pip index versions {package}` does not tell the versions ({said}); name them, as in "
            "--versions 1.20.1,1.22.0,1.23.2"
        )
    return [it.strip() for it in listed[1].split(",")]


def _version(text: str) -> Version:
    try:
        return Version(text.strip())
    except InvalidVersion:
        raise UnknownReleases(
            f"{text!r} is not a version; write a list, 1.20.1,1.22.0, or a range, 1.20{RANGE}1.32"
        ) from None
