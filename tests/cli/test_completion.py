"""Completion in a shell: what is offered, what bash puts in the place of its word, and that nothing is ever said."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from attncheck.cli import completing, shells
from attncheck.cli.main import COMPLETING, PROGRAM, cli, invoke
from attncheck.scenario import load
from attncheck.vocabulary import ExitCode, Verdict
from tests.cli.frozen import ROOT

EDGES = ["edges.yaml::window-edges:window=3", "edges.yaml::window-edges:window=21"]


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    source = """
import x
TILE = 8
def mine(model, inputs):
    def inner(a, b): ...
def tuned(model, inputs, tile=8): ...
def anything(*given): ...
@x.jit
def decorated(problem): ...
def one(q): ...
def three(a, b, c): ...
def named(a, b, *, c): ...
def _hidden(a, b): ...
async def later(a, b): ...
class Both: ...
"""
    (folder / "kernel.py").write_text(source, encoding="utf-8")
    return folder


def offered(*words: str) -> list[str]:
    """What click's own completion gives for the last word."""
    *before, incomplete = words
    return [it.value for it in ShellComplete(cli, {}, PROGRAM, COMPLETING).get_completions(before, incomplete)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("re",), ["relate", "report"]),
        (("run", "e"), ["edges.yaml"]),
        (("run", "wr"), ["wrong/"]),
        (("run", "wrong/"), ["wrong/mistakes.yaml"]),
        (("run", "edges.yaml::"), ["edges.yaml::window-edges", "edges.yaml::plain"]),
        (("run", "edges.yaml::p"), ["edges.yaml::plain"]),
        (("run", "edges.yaml::w"), EDGES),
        (("run", "edges.yaml::window-edges"), EDGES),
        (("run", "edges.yaml::window-edges:"), EDGES),
        (("run", "edges.yaml::window-edges:window=2"), EDGES[1:]),
        (("minimize", "edges.yaml::p"), ["edges.yaml::plain"]),
        (("show", "./edges.yaml::p"), ["./edges.yaml::plain"]),
        (("run", "wrong/mistakes.yaml::k"), ["wrong/mistakes.yaml::kind"]),
        (("run", "gone.yaml::"), []),
        (("run", "shipped/win"), ["shipped/window.yaml"]),
        (("run", "shipped/window.yaml::narrow"), ["shipped/window.yaml::narrow-band"]),
        (("run", "--backend", "ort-c"), ["ort-cpu"]),
        (("run", "--backend", "k"), ["kernel.py:"]),
        (("run", "--backend", "kernel.py:"), [f"kernel.py:{it}" for it in ("mine", "tuned", "anything", "decorated")]),
        (("run", "--reference", "n"), ["none"]),
        (("run", "--kernel", "na"), ["naive"]),
        (("run", "--fail-on", "f"), ["flaky"]),
        (("run", "--report", "j"), ["json=", "junit="]),
        (("explain", "dev"), ["device-lost"]),
        (("backends", "onnx"), ["onnx-ref"]),
        (("relate", "--relation", "four"), ["four-axes"]),
        (("completion", "z"), ["zsh"]),
    ],
)
def test_what_is_offered(words: tuple[str, ...], expected: list[str], here: Path) -> None:
    assert offered(*words) == expected


def test_every_verdict_is_offered_where_one_is_asked_for(here: Path) -> None:
    assert offered("check", "--verdict", "") == [str(it) for it in Verdict if it is not Verdict.PASS]


def test_a_backend_of_the_configuration_is_offered(here: Path) -> None:
    (here / "attncheck.toml").write_text('[backends.nightly]\nuse = "ort-cpu"\n', encoding="utf-8")
    assert offered("run", "--backend", "night") == ["nightly"]


def test_every_case_of_a_file_can_be_reached(here: Path) -> None:
    (here / "more").mkdir()
    (here / "more" / "it.yaml").write_text((ROOT / "scenarios" / "window.yaml").read_text("utf-8"), encoding="utf-8")
    ids = {it.id for it in load([here / "more" / "it.yaml"], here)}
    names = {id_.partition("::")[2].partition(":")[0] for id_ in ids}
    assert {it.partition("::")[2] for it in offered("run", "more/it.yaml::")} == names
    assert {found for name in names for found in offered("run", f"more/it.yaml::{name}:")} == {
        id_ for id_ in ids if ":" in id_.partition("::")[2]
    }


def test_ids_are_kept_until_the_file_changes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    real = completing._loaded
    monkeypatch.setattr(completing, "_loaded", lambda path: loaded.append(path) or real(path))  # type: ignore[func-returns-value]
    assert offered("run", "edges.yaml::w") == offered("run", "edges.yaml::w") == EDGES
    assert len(loaded) == 1
    text = (here / "edges.yaml").read_text(encoding="utf-8")
    (here / "edges.yaml").write_text(text.replace("[3, 21]", "[4]"), encoding="utf-8")
    assert offered("run", "edges.yaml::w") == ["edges.yaml::window-edges:window=4"]


def test_names_alone_need_no_scenario_to_be_loaded(here: Path) -> None:
    code = (
        "import sys; from attncheck.cli.main import cli, PROGRAM; from click.shell_completion import ShellComplete\n"
        "found = ShellComplete(cli, {}, PROGRAM, '').get_completions(['run'], 'edges.yaml::')\n"
        "print(len(found), *set(sys.modules) & {'numpy', 'onnx', 'pydantic', 'ruamel.yaml', 'rich'})"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2"]


@pytest.mark.parametrize("broken", ["backends = 3\n", "= no toml", "[backends.x]\nuse = 'nothing'\n"])
def test_nothing_is_said_whatever_is_wrong(
    broken: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "attncheck.toml").write_text(broken, encoding="utf-8")
    monkeypatch.setenv(COMPLETING, "bash_complete")
    for line in ("attncheck run edges.yaml::p", "attncheck run --backend o", "attncheck run 'edges", "attncheck zzz "):
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_POINT", str(len(line)))
        assert invoke([]) in {ExitCode.OK, ExitCode.FAILED}
        said = capsys.readouterr()
        assert said.err == ""
        assert "Error" not in said.out


def test_a_shell_of_every_kind_gets_its_script(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in shells.SHELLS:
        assert invoke(["completion", shell]) == ExitCode.OK
        assert f"{COMPLETING}={shell}_complete" in capsys.readouterr().out


LINES = {
    "attncheck run edges.yaml::": ["window-edges", "plain"],
    "attncheck run edges.yaml::window-edges:": ["window=3", "window=21"],
    "attncheck run edges.yaml::window-edges:window=2": ["21"],
    "attncheck run -q --kernel=na": ["naive"],
    "attncheck run --backend ort-w": ["ort-webgpu"],
    # Inside quotes words do not end at a colon; a word that goes on is gone into, for bash closes the quote behind it.
    "attncheck run 'edges.yaml::w": [f"edges.yaml::window-edges:window={it}" for it in (3, 21)],
    "attncheck run edges.yaml::'pl": ["plain"],
    "attncheck run 'ed": ["edges.yaml::window-edges", "edges.yaml::plain"],
}


def test_bash_gets_what_it_can_put_behind_its_last_colon(here: Path) -> None:
    (here / "bin").mkdir()
    program = here / "bin" / "attncheck"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m attncheck "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    # `complete` names the function to call; readline would do no more than this with its result.
    asks = "\n".join(
        f'COMP_LINE="{line}" COMP_POINT={len(line)}; _attncheck_completion attncheck; echo "${{COMPREPLY[*]}}"'
        for line in LINES
    )
    script = f'eval "$(attncheck completion bash)"\ncomplete -p attncheck\n{asks}\n'
    environment = {**os.environ, "PATH": f"{here / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, check=True)
    told, *found = done.stdout.splitlines()
    assert told.endswith("-F _attncheck_completion attncheck")
    assert [it.split() for it in found] == list(LINES.values())
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("line", "inside"),
    [
        ("run 'a.yaml::b", "a.yaml::b"),
        ('run "a', "a"),
        ("run '", ""),
        ("run a", None),
        ("run 'a'", None),
        ("run 'a' \"it's", "it's"),
        ("run it\\'s", None),
        ('run "a\\"b', 'a\\"b'),
        ("run 'a\\' b", None),
    ],
)
def test_a_quote_that_is_open_is_found_as_a_shell_finds_it(line: str, inside: str | None) -> None:
    assert shells.behind_open_quote(line) == inside


posix = pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX's")


@posix
@pytest.mark.parametrize("quote", "'\"")
def test_a_quoted_id_keeps_its_file_in_a_real_bash(quote: str, here: Path) -> None:
    # Of a line that fits readline writes only what it adds, and all of it where it replaces more.
    begin = 'eval "$(attncheck completion bash)"'
    shown = typed(["bash", "--norc", "--noprofile", "-i"], begin, f"{quote}edges.yaml::pl", f"ain{quote}", here)
    assert f"edges.yaml::plain{quote}" in shown


@posix
@pytest.mark.slow
def test_a_real_zsh_completes_an_id_up_to_where_ids_part(here: Path) -> None:
    begin = 'autoload -U compinit; compinit -u; eval "$(attncheck completion zsh)"'
    shown = typed(["zsh", "-f", "-i"], begin, "edges.yaml::wi", "window=", here)
    assert "attncheck run edges.yaml::window-edges:window=" in shown


@posix
@pytest.mark.slow
def test_a_real_fish_offers_the_ids_of_a_file(here: Path) -> None:
    asked = 'attncheck completion fish | source; complete -C "attncheck run edges.yaml::wi"'
    told = subprocess.run(
        ["fish", "--no-config", "-c", asked],
        env=with_attncheck(here), capture_output=True, text=True, timeout=60, check=True,
    )
    assert told.stdout.splitlines() == EDGES


def with_attncheck(folder: Path) -> dict[str, str]:
    """An environment whose `attncheck` is the one under test."""
    program = folder / "attncheck"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m attncheck "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "TERM": "dumb", "INPUTRC": os.devnull}


def typed(shell: list[str], begin: str, word: str, until: str, folder: Path) -> str:
    """What an interactive `shell` shows, after the line `begin`, of `attncheck run word` and a Tab."""
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        shell, stdin=theirs, stdout=theirs, stderr=theirs, env=with_attncheck(folder), start_new_session=True
    ) as process:
        os.close(theirs)
        os.write(ours, f'{begin}; echo rea""dy\n'.encode())
        read_until(ours, b"ready\r\n")
        os.write(ours, f"attncheck run {word}\t".encode())
        shown = read_until(ours, until.encode())
        process.kill()
    os.close(ours)
    return shown.decode()


def read_until(terminal: int, mark: bytes) -> bytes:
    """What the terminal shows until `mark` is there, or for 20 seconds."""
    shown, end = b"", time.monotonic() + 20
    while mark not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 4096)
    return shown
