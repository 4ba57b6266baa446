"""A page of the docs as something to do: files to save, commands to type, and what is shown of what comes.

A block of code with ``title="kernel.py"`` behind its language is a file. In a block ``console`` a line after ``$`` is a
command, which ends with 0 unless ``# exit code N`` stands behind it. What follows is its output: ``...`` stands for any
lines, and a number that rounding or the clock may change stands for any other.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(
    r"^```(?P<language>\w+)(?: title=\"(?P<name>[^\"]+)\")?\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)
EXIT_CODE = re.compile(r"\s+# exit code (\d+)$")
MEASURED = re.compile(r"(?<![\w.])-?(?:\d+\.\d+(?:e-?\d+)?|\d+e-?\d+)(?![\w.]\d)|(?<= in )\d+(?=s\b)")
ANY = "..."


@dataclass(frozen=True)
class File:
    """A file that the page says to save."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command, what it ends with, and the lines that the page shows of its output."""

    text: str
    code: int
    shown: tuple[str, ...]


def read(page: Path) -> Iterator[File | Command]:
    """What there is to do, in the page's order."""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["name"]:
            yield File(block["name"], block["text"])
        elif block["language"] == "console":
            yield from _commands(block["text"])


def _commands(text: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, *shown = part.rstrip("\n").split("\n")
        code = EXIT_CODE.search(line)
        yield Command(EXIT_CODE.sub("", line), int(code[1]) if code else 0, tuple(shown))


def plain(line: str) -> str:
    """The line without what may differ: measured numbers, the blanks that align them, bars drawn of them.

    A line without any, like the header of a table, is to be spaced as it comes.
    """
    rounded = re.sub(r"[▁▂▃▄▅▆▇█]+", "█", MEASURED.sub("#", line))
    return line.rstrip() if rounded == line else re.sub(r"\s+", " ", rounded).strip()


def fits(shown: tuple[str, ...], output: list[str]) -> bool:
    """Whether the output is what is shown, where ``...`` stands for any lines, blank ones counting for nothing."""
    wanted = [ANY if line.strip() == ANY else plain(line) for line in shown if line.strip()]
    there = [plain(line) for line in output if line.strip()]
    pattern = "".join(r"(?:.*\n)*?" if line == ANY else re.escape(line) + r"\n" for line in wanted)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in there)) is not None


def do(step: File | Command, folder: Path, replaced: dict[str, str]) -> None:
    """Save the file, or run the command as a shell in `folder` would; fails where it is not as the page says.

    replaced   words that stand for something of the reader's -> what they stand for here
    """
    if isinstance(step, File):
        (folder / step.name).write_text(step.text, encoding="utf-8")
        return
    text = step.text
    for word, meant in replaced.items():
        text = text.replace(word, meant)
    outcome = subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=environment(folder / ".venv"),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    told = f"$ {text}\n{outcome.stdout}{outcome.stderr}"
    assert outcome.returncode == step.code, f"exit code {outcome.returncode}\n{told}"
    if step.shown:
        assert fits(step.shown, outcome.stdout.splitlines()), "the page shows\n" + "\n".join(step.shown) + f"\n\n{told}"


def environment(own: Path) -> dict[str, str]:
    """A reader's: the environment that the page has told to make, and nothing of the checkout's; else this one."""
    found = dict(os.environ)
    scripts = Path(sys.executable).parent
    if own.exists():
        scripts = own / "bin"
        found.pop("PYTHONPATH", None)
        found.pop("VIRTUAL_ENV", None)
    return found | {"PATH": f"{scripts}{os.pathsep}{found['PATH']}"}
