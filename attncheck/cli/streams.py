"""The three streams of a process, there even where the caller has closed them: ``attncheck run >&-``."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def complete() -> None:
    """Put what reads as empty, and takes everything, in the place of each stream that is closed.

    A free descriptor would go to the next file that is opened, a report, say, and into it what anybody writes to
    descriptor 2. What writes a stream would find None.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        if not _taken(number):
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            os.set_inheritable(number, True)
        nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115  for as long as the process lasts
        setattr(sys, name, nowhere)


def _taken(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
