"""Write the generated parts of docs/ anew; with --check only say which are stale (exit 1).

A generated part stands between `<!-- generated: NAME -->` and `<!-- end: NAME -->`; the rest is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from attncheck.vocabulary import PRECEDENCE, ExitCode

DOCS = Path(__file__).resolve().parents[1] / "docs"


def exit_codes() -> str:
    """The table of exit codes, and the order in which they win where kinds mix."""
    rows = "\n".join(f"| {code.value} | {code.meaning} |" for code in ExitCode)
    order = ", ".join(str(code.value) for code in PRECEDENCE)
    header = "| code | meaning |\n| --- | --- |"
    return f"{header}\n{rows}\n\nWhere kinds mix, the first that applies of these is given: {order}."


PARTS: dict[tuple[str, str], Callable[[], str]] = {
    ("exit-codes.md", "exit-codes"): exit_codes,
}
"""(page, name of the part) -> what writes it."""


def with_part(page: str, name: str, text: str) -> str:
    """The page with its part replaced. Raises ValueError when the page does not have the part exactly once."""
    begin, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    replaced, count = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n{text}\n{end}", page, flags=re.DOTALL
    )
    if count != 1:
        raise ValueError(f"the part between {begin} and {end} is there {count} times, not once")
    return replaced


def main(arguments: list[str]) -> int:
    """Write, or check, every part."""
    stale = []
    for (file_name, name), write in PARTS.items():
        path = DOCS / file_name
        before = path.read_text(encoding="utf-8")
        after = with_part(before, name, write())
        if after != before:
            stale.append(f"docs/{file_name}")
            if "--check" not in arguments:
                path.write_text(after, encoding="utf-8")
    for page in stale:
        print(f"{page}: " + ("stale, run `make docs`" if "--check" in arguments else "written"))
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
