"""`attncheck run` from the outside: whole outputs and exit codes of real processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attncheck.shipped import shaders_dir
from attncheck.vocabulary import ExitCode
from tests.cli.frozen import ROOT, assert_golden, attncheck, settled

PASSING = ("edges.yaml", "more.yaml")


def test_passing_cases_exit_with_0_and_read_as_frozen(folder: Path) -> None:
    ran = attncheck("run", *PASSING, folder=folder)
    assert ran.code == ExitCode.OK, ran.text
    assert_golden("run-passing.txt", settled(ran.text))


def test_verbose_adds_devices_all_rows_and_the_data(folder: Path) -> None:
    ran = attncheck("run", "-v", *PASSING, folder=folder)
    devices = (re.compile(r"^(wgsl|ort-cpu): .*$", re.MULTILINE), r"\1: VERSIONS")
    assert_golden("run-verbose.txt", settled(ran.text, [devices]))
    assert re.search(r"^wgsl: wgpu \d.*, Vulkan", ran.stdout, re.MULTILINE)


def test_quiet_prints_the_summary_alone_when_all_pass(folder: Path) -> None:
    ran = attncheck("run", "-q", "edges.yaml", folder=folder)
    assert settled(ran.stdout) == "3 passed in TIME\n"
    assert ran.stderr == ""


def broken_shaders(folder: Path) -> Path:
    """A copy of the kernels in which the online one scales its scores by half as much again."""
    shaders = folder / "shaders"
    shutil.copytree(shaders_dir(), shaders)
    online = shaders / "online.wgsl"
    text = online.read_text(encoding="utf-8")
    broken = text.replace("params.scale", "(1.5 * params.scale)")
    assert broken != text
    online.write_text(broken, encoding="utf-8")
    return shaders


def test_a_broken_kernel_exits_with_1_names_the_place_and_says_how_to_see_it_again(folder: Path) -> None:
    broken_shaders(folder)
    ran = attncheck("run", "edges.yaml", "--shaders", "shaders", "--kernel", "online", folder=folder)
    assert ran.code == ExitCode.FAILED, ran.text
    place = r"^ {4}output\[batch \d, head \d, query \d, dim \d+\], online against oracle$"
    assert re.search(place, ran.stdout, re.MULTILINE)
    assert re.search(r"^ {4}got \S+, expected \S+; [\d,]+ of [\d,]+ elements fail$", ran.stdout, re.MULTILINE)
    command = next(line for line in ran.stdout.splitlines() if line.startswith("  attncheck run"))
    again = attncheck(*command.split()[1:], folder=folder)
    assert again.code == ExitCode.FAILED
    assert " 1 failed in" in f" {again.stdout.splitlines()[-1]}"


@pytest.mark.slow
def test_exit_zero_turns_failing_cases_into_0_and_nothing_else(folder: Path) -> None:
    broken_shaders(folder)
    arguments = ("--shaders", "shaders", "--kernel", "online", "--exit-zero")
    ran = attncheck("run", "edges.yaml", *arguments, folder=folder)
    assert ran.code == ExitCode.OK, ran.text
    assert attncheck("run", "missing.yaml", "--exit-zero", folder=folder).code == ExitCode.USAGE


def test_fail_fast_stops_at_the_first_failing_case(folder: Path) -> None:
    broken_shaders(folder)
    ran = attncheck("run", "edges.yaml", "--shaders", "shaders", "--kernel", "online", "-x", folder=folder)
    assert settled(ran.stdout).splitlines()[-1] == "1 failed in TIME"


def test_a_shader_that_does_not_compile_is_told_with_file_and_line(folder: Path) -> None:
    online = broken_shaders(folder) / "online.wgsl"
    lines = online.read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, start=1) if text.startswith(") {"))
    lines.insert(line, "    let wrong = no_such_name;")
    online.write_text("\n".join(lines), encoding="utf-8")
    ran = attncheck("run", "edges.yaml", "-k", "plain", "--shaders", "shaders", folder=folder, width=200)
    assert ran.code == ExitCode.FAILED, ran.text
    assert "no_such_name" in ran.stdout
    assert re.search(rf"online\.wgsl:{line + 1}\b", ran.stdout)


@pytest.mark.slow
def test_fail_on_makes_a_flag_fail(folder: Path) -> None:
    arguments = ("more.yaml", "-k", "odd-head")
    assert attncheck("run", *arguments, folder=folder).code == ExitCode.OK
    strict = attncheck("run", *arguments, "--fail-on", "reference-refused", folder=folder)
    assert strict.code == ExitCode.FAILED
    assert strict.stderr == "attncheck: --fail-on reference-refused: 1 case has this flag, more.yaml::odd-head\n"


def test_three_mistakes_in_a_file_are_all_told_and_nothing_runs(folder: Path) -> None:
    ran = attncheck("run", "wrong", *PASSING, folder=folder)
    assert ran.code == ExitCode.USAGE
    assert ran.stdout == ""
    assert len(re.findall(r"^wrong/mistakes\.yaml:\d+:\d+: ", ran.stderr, re.MULTILINE)) == 3
    assert_golden("run-mistakes.txt", ran.text)


SELECTION_MISTAKES = {
    "missing-path": (("egdes.yaml",), ExitCode.USAGE),
    "unknown-case": (("edges.yaml::window-edge",), ExitCode.USAGE),
    "unmatched-pattern": (("edges.yaml::wimdow*",), ExitCode.NOTHING),
    "unmatched-beside-matched": (("edges.yaml", "more.yaml::zebra*"), ExitCode.USAGE),
    "keyword-leaves-none": (("edges.yaml", "-k", "zebra"), ExitCode.NOTHING),
    "unknown-tag": (("edges.yaml", "--tag", "fats"), ExitCode.USAGE),
    "bad-case": (("--case", "op=gqa q_len=4 windw=3"), ExitCode.USAGE),
    "bad-case-of-several": (("--case", "op=gqa", "--case", "op=gqb", "--case", "q_len=4 windw=3"), ExitCode.USAGE),
    "bad-set": (("edges.yaml", "--set", "heads=5"), ExitCode.USAGE),
    "unknown-backend": (("edges.yaml", "--backend", "wgls"), ExitCode.USAGE),
    "backend-twice": (("edges.yaml", "--backend", "wgsl", "--backend", "wgsl"), ExitCode.USAGE),
    "unknown-option": (("edges.yaml", "--kernle", "naive"), ExitCode.USAGE),
    "bad-kernel": (("edges.yaml", "--kernel", "fast"), ExitCode.USAGE),
    "bad-size": (("edges.yaml", "--memory-limit", "lots"), ExitCode.USAGE),
    "too-little-memory": (("edges.yaml", "--memory-limit", "1K"), ExitCode.USAGE),
    "quiet-and-verbose": (("edges.yaml", "-q", "-v"), ExitCode.USAGE),
    "missing-shaders": (("edges.yaml", "--shaders", "nowhere"), ExitCode.USAGE),
}


@pytest.mark.parametrize("name", SELECTION_MISTAKES)
def test_a_mistake_on_the_command_line_reads_as_frozen_and_runs_nothing(name: str, folder: Path) -> None:
    arguments, code = SELECTION_MISTAKES[name]
    ran = attncheck("run", *arguments, folder=folder)
    assert ran.code == code, ran.text
    assert ran.stdout == ""
    assert_golden(f"run-{name}.txt", ran.text)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs file permissions, which root does not have")
def test_a_file_without_permission_to_read_is_told(folder: Path) -> None:
    (folder / "edges.yaml").chmod(0)
    ran = attncheck("run", "edges.yaml", folder=folder)
    assert (ran.code, "cannot be read" in ran.stderr) == (ExitCode.USAGE, True)


def test_a_file_that_cannot_be_read_as_one_is_told(folder: Path) -> None:
    (folder / "loop.yaml").symlink_to("loop.yaml")
    ran = attncheck("run", "loop.yaml", folder=folder)
    assert (ran.code, "loop.yaml: cannot be read" in ran.stderr) == (ExitCode.USAGE, True)


def test_without_a_gpu_adapter_the_run_exits_with_4_and_says_what_to_install(folder: Path) -> None:
    ran = attncheck("run", "edges.yaml", folder=folder, environment={"VK_DRIVER_FILES": "/nonexistent"})
    assert ran.code == ExitCode.BACKEND
    assert_golden("run-no-adapter.txt", settled(ran.text))


def test_an_adapter_that_is_not_there_exits_with_4(folder: Path) -> None:
    ran = attncheck("run", "edges.yaml", "--adapter", "no such adapter", folder=folder)
    assert ran.code == ExitCode.BACKEND
    assert "no adapter matches 'no such adapter'" in ran.stderr


def test_what_a_healthy_backend_gave_is_kept_when_another_cannot_start(folder: Path) -> None:
    without = {"VK_DRIVER_FILES": "/nonexistent"}
    arguments = ("edges.yaml", "-k", "window", "--backend", "wgsl", "--backend", "ort-cpu")
    ran = attncheck("run", *arguments, folder=folder, environment=without)
    assert ran.code == ExitCode.BACKEND, ran.text
    assert settled(ran.stdout).splitlines()[-1] == "2 passed in TIME"


def test_all_cases_declared_unsupported_exit_with_5(folder: Path) -> None:
    arguments = ("more.yaml", "-k", "odd-head", "--backend", "ort-cpu", "--reference", "none")
    ran = attncheck("run", *arguments, folder=folder)
    assert ran.code == ExitCode.NOTHING, ran.text
    assert_golden("run-unsupported.txt", settled(ran.text))


def test_list_prints_ids_that_run_takes_back(folder: Path) -> None:
    listed = attncheck("run", "--list", *PASSING, folder=folder)
    assert_golden("run-list.txt", listed.text)
    ids = listed.stdout.splitlines()
    assert attncheck("run", "--list", *reversed(ids), folder=folder).stdout.splitlines() == ids[::-1]


def test_patterns_paths_and_unfiled_cases_add_up_without_doubles(folder: Path) -> None:
    words = ("edges.yaml::window*", "edges.yaml", "--case", "op=mha heads=2 head_dim=8 q_len=3")
    ids = attncheck("run", "--list", *words, folder=folder).stdout.splitlines()
    assert len(ids) == len(set(ids)) == 4
    assert ids[-1].startswith("case::")


def test_a_pattern_may_stand_in_the_file_s_name(folder: Path) -> None:
    ids = attncheck("run", "--list", "*.yaml::*e*d*", folder=folder).stdout.splitlines()
    assert {case.partition("::")[0] for case in ids} == {"edges.yaml", "more.yaml"}


@pytest.mark.slow
def test_without_a_path_the_shipped_scenarios_are_meant(folder: Path) -> None:
    ids = attncheck("run", "--list", folder=folder).stdout.splitlines()
    assert len(ids) >= 80
    assert all(case.startswith("shipped/") for case in ids)
    assert attncheck("run", "--list", ids[0], folder=folder).stdout.splitlines() == ids[:1]


def test_set_and_seed_change_every_selected_case_and_stand_in_its_id(folder: Path) -> None:
    ran = attncheck("run", "edges.yaml", "-k", "plain", "--set", "head_dim=8", "--seed", "7", folder=folder)
    assert ran.code == ExitCode.OK, ran.text
    assert "plain@head_dim=8,seed=7 " in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "label"),
    [
        ((), "wgsl naive*"),
        (("--threshold", "10"), "wgsl online*"),
        (("--kernel", "naive"), "wgsl naive "),
        (("--kernel", "online"), "wgsl online "),
    ],
    ids=["auto", "auto-from-10-keys", "naive", "online"],
)
def test_the_kernel_stands_in_the_row_and_auto_is_marked(folder: Path, arguments: tuple[str, ...], label: str) -> None:
    ran = attncheck("run", "edges.yaml", "-k", "window=21", *arguments, folder=folder)
    assert f" {label}" in ran.stdout


def test_a_pipe_gets_plain_text_and_whole_ids(folder: Path) -> None:
    arguments = ("--case", "op=gqa q_len=4 past_len=20 window=3 heads=4 kv_heads=2 head_dim=16 rotary=half seed=123")
    ran = attncheck("run", *arguments, folder=folder, environment={"COLUMNS": ""})
    assert "\x1b" not in ran.text
    assert "window=3" in ran.stdout
    assert ".." not in ran.stdout


@pytest.mark.slow
def test_force_color_styles_a_pipe_and_no_color_wins_over_it(folder: Path) -> None:
    arguments = ("run", "edges.yaml", "-k", "plain")
    colour = attncheck(*arguments, folder=folder, environment={"FORCE_COLOR": "1", "TERM": "xterm"})
    plain = attncheck(*arguments, folder=folder, environment={"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm"})
    assert "\x1b[32mpass" in colour.stdout
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", plain.stdout)


@pytest.mark.skipif(os.name != "posix", reason="signals to another process are POSIX's")
def test_an_interrupt_prints_what_was_judged_and_exits_with_130(folder: Path) -> None:
    values = ", ".join(str(past) for past in range(2000))
    text = (
        f"scenarios:\n  - {{name: many, op: gqa, heads: 2, head_dim: 8, q_len: 1, matrix: {{past_len: [{values}]}}}}\n"
    )
    (folder / "many.yaml").write_text(text, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "attncheck", "run", "many.yaml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED, stderr
    assert " pass" in first[1]
    assert re.fullmatch(r"\d+ passed, interrupted in \d+\.\ds", stdout.splitlines()[-1])
    assert "Traceback" not in stderr


@pytest.mark.skipif(os.name != "posix", reason="closing a pipe early is told by EPIPE on POSIX")
@pytest.mark.parametrize(
    "words",
    [
        ["run", *PASSING, "--report", "json=report.json"],
        ["run", "--list", *PASSING],
        ["show", "--case", "op=gqa q_len=1"],
        ["check", "--predicate", "--case", "op=gqa q_len=1", "--backend", "ort-cpu"],
        ["doctor"],
        ["explain"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_where_the_reader_leaves_early_every_command_ends_quietly_with_the_code_of_other_tools(
    words: list[str], folder: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "attncheck", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGPIPE == ExitCode.UNREAD
    assert stderr == b""
    if "--report" in words:
        assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["interrupted"]


@pytest.mark.skipif(os.name != "posix", reason="the shell of other systems closes no streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", *PASSING, "--report", "json=report.json"], ExitCode.OK),
        (["run", *PASSING, "--report", "json"], ExitCode.OK),
        (["run", "--case", "op=nothing"], ExitCode.USAGE),
        (["bench", "--case", "op=gqa q_len=2", "--runs", "1", "--report", "json=report.json"], ExitCode.OK),
        (["show", "--case", "op=gqa q_len=1"], ExitCode.OK),
        (["doctor"], ExitCode.OK),
        (["explain"], ExitCode.OK),
        (["nonsense"], ExitCode.USAGE),
        ([], ExitCode.USAGE),
        (["--help"], ExitCode.OK),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else str(it),
)
def test_where_a_stream_is_closed_from_the_beginning_every_command_does_its_work(
    words: list[str], code: ExitCode, closed: str, folder: Path
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "attncheck", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120.0,
        check=False,
    )
    assert done.returncode == code
    assert "Error" not in done.stderr
    assert (code == ExitCode.USAGE) is (done.stderr != "") or "2>&-" in closed
    if "json=report.json" in words:
        assert not json.loads((folder / "report.json").read_text(encoding="utf-8"))["interrupted"]


def test_help_answers_fast(folder: Path) -> None:
    attncheck("--help", folder=folder)
    began = time.perf_counter()
    attncheck("--help", folder=folder)
    assert time.perf_counter() - began < 2.0, "a tenth of a second is usual; this only guards against heavy imports"


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX's")
@pytest.mark.parametrize("streams", ["both", "stderr"])
def test_a_terminal_gets_colours_and_a_bar_that_leaves_no_trace(folder: Path, streams: str) -> None:
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "attncheck", "run", "edges.yaml", "-k", "plain"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=theirs if streams == "both" else subprocess.PIPE,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        screen = b"".join(iter(lambda: _read(ours), b""))
        piped = process.stdout.read().decode() if process.stdout is not None else ""
    os.close(ours)
    assert process.returncode == ExitCode.OK
    assert b"0/1" in screen, "the bar was there"
    assert b"\x1b[2K" in screen, "and was taken away"
    if streams == "both":
        assert b"\x1b[32mpass" in screen
    else:
        assert "\x1b" not in piped
        assert "1 passed in" in piped


def _read(terminal: int) -> bytes:
    """What the terminal shows next; nothing once the other side has closed it."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def test_cases_tagged_huge_are_left_out_and_told_unless_they_are_asked_for(folder: Path) -> None:
    text = "scenarios: [{name: small}, {name: large, tags: [huge]}, {name: other, tags: [huge], q_len: 2}]\n"
    (folder / "mine.yaml").write_text(text, encoding="utf-8")

    left = attncheck("run", "mine.yaml", "--list", folder=folder)
    asked = attncheck("run", "mine.yaml", "--list", "--tag", "huge", folder=folder)
    alone = attncheck("run", "mine.yaml::large", "--list", folder=folder)

    assert left.stdout.split() == ["mine.yaml::small"]
    assert left.stderr == "attncheck: 2 cases tagged huge left out; to run them: --tag huge\n"
    assert asked.stdout.split() == ["mine.yaml::large", "mine.yaml::other"]
    assert alone.stdout.split() == ["mine.yaml::large"]
    assert alone.stderr == ""


@pytest.mark.slow
def test_what_is_there_to_be_timed_is_left_out_and_its_memory_looked_at_where_it_is_meant(folder: Path) -> None:
    text = "scenarios: [{name: small}, {name: vast, tags: [bench], q_len: 65536, head_dim: 128, heads: 32}]\n"
    (folder / "mine.yaml").write_text(text, encoding="utf-8")

    left = attncheck("run", "mine.yaml", "--list", folder=folder)
    asked = attncheck("run", "mine.yaml", "--list", "--tag", "bench", folder=folder)
    allowed = attncheck("run", "mine.yaml", "--list", "--tag", "bench", "--memory-limit", "99999G", folder=folder)

    assert left.stdout.split() == ["mine.yaml::small"]
    assert left.stderr == "attncheck: 1 case tagged bench left out; to run them: --tag bench\n"
    assert asked.code == 2
    assert "mine.yaml:1:1: this case would take" in asked.stderr
    assert "(in the case mine.yaml::vast)" in asked.stderr
    assert allowed.stdout.split() == ["mine.yaml::vast"]
