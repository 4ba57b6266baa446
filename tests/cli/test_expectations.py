"""`attncheck run` with expectations, from the outside: statuses, exit codes and words of real processes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from attncheck.shipped import shaders_dir
from attncheck.vocabulary import ExitCode
from tests.cli.frozen import Ran, assert_golden, attncheck, settled

BROKEN = ("run", "edges.yaml", "--kernel", "online", "--reference", "none", "--shaders", "shaders")


@pytest.fixture
def broken(folder: Path) -> Path:
    """A folder whose online kernel scales its scores by half as much again."""
    shutil.copytree(shaders_dir(), folder / "shaders")
    online = folder / "shaders" / "online.wgsl"
    text = online.read_text(encoding="utf-8")
    changed = text.replace("params.scale", "(1.5 * params.scale)")
    assert changed != text
    online.write_text(changed, encoding="utf-8")
    return folder


def entry(case: str, verdict: str = "mismatch", *more: str) -> str:
    """One expectation of wgsl; a mismatch may have any size that a wrong scale gives."""
    banded = verdict != "mismatch" or any("max_abs" in it for it in more)
    band = [] if banded else ["max_abs: {from: 0.001, to: 3}"]
    known = ["reason: the scale is half as much again", "link: https://example.org/issues/1"]
    return "\n    ".join([f'  - case: "{case}"', "backend: wgsl", f"verdict: {verdict}", *band, *more, *known]) + "\n"


def write(folder: Path, *entries: str, name: str = "expectations.yaml") -> None:
    (folder / name).write_text("expectations:\n" + "".join(entries), encoding="utf-8")


def last(ran: Ran) -> str:
    return settled(ran.stdout).splitlines()[-1]


def test_known_failures_leave_the_run_well(broken: Path) -> None:
    write(broken, entry("edges.yaml"))
    ran = attncheck(*BROKEN, folder=broken)
    assert (ran.code, last(ran)) == (ExitCode.OK, "3 xfailed in TIME"), ran.text
    assert ran.stderr == ""
    assert ran.stdout.count("as expected: mismatch with max_abs from 0.001 to 3") == 3
    assert "example.org" not in ran.stdout


@pytest.mark.slow
def test_verbose_tells_reason_and_link_of_a_known_failure(broken: Path) -> None:
    write(broken, entry("edges.yaml::plain"))
    ran = attncheck(*BROKEN, "-v", "-k", "plain", folder=broken, width=200)
    line = "expectations.yaml:2: the scale is half as much again (https://example.org/issues/1)"
    assert line in [it.strip() for it in ran.stdout.splitlines()]
    assert "online against oracle" in ran.stdout


def test_a_pass_fails_the_run_and_says_which_entry_to_remove(folder: Path) -> None:
    write(folder, entry("edges.yaml::plain"))
    ran = attncheck("run", "edges.yaml", "--reference", "none", folder=folder, width=200)
    assert (ran.code, last(ran)) == (ExitCode.FAILED, "2 passed, 1 xpassed in TIME"), ran.text
    assert "passes, where expectations.yaml:2 expects mismatch" in ran.stdout
    assert "the scale is half as much again (https://example.org/issues/1)" in ran.stdout
    assert "\n  attncheck run edges.yaml::plain --reference none\n" in ran.stdout


@pytest.mark.slow
def test_a_larger_error_than_expected_fails_and_says_what_was_expected(broken: Path) -> None:
    write(broken, entry("edges.yaml", "mismatch", "max_abs: {to: 1.0e-4}"))
    ran = attncheck(*BROKEN, "-k", "plain", folder=broken, width=200)
    assert (ran.code, last(ran)) == (ExitCode.FAILED, "1 failed in TIME")
    assert re.search(
        r"^ {4}expectations\.yaml:2 expects mismatch with max_abs from 0 to 0\.0001, "
        r"but its largest error, 0\.\d+, lies above that$",
        ran.stdout,
        re.MULTILINE,
    )


def test_what_is_expected_to_crash_is_not_run_unless_asked_for(folder: Path) -> None:
    write(folder, entry("edges.yaml::window-edges", "crash"))
    arguments = ("run", "edges.yaml", "--reference", "none")
    ran = attncheck(*arguments, folder=folder)
    assert (ran.code, last(ran)) == (ExitCode.OK, "1 passed, 2 skipped in TIME"), ran.text
    assert_golden("run-quarantined.txt", settled(ran.text))
    asked = attncheck(*arguments, "--run-quarantined", folder=folder)
    assert (asked.code, last(asked)) == (ExitCode.FAILED, "1 passed, 2 xpassed in TIME"), asked.text
    assert "--reference none --run-quarantined\n" in asked.stdout


@pytest.mark.slow
def test_all_quarantined_is_nothing_tested(folder: Path) -> None:
    write(folder, entry("edges.yaml", "timeout"))
    ran = attncheck("run", "edges.yaml", folder=folder)
    assert (ran.code, last(ran)) == (ExitCode.NOTHING, "3 skipped in TIME"), ran.text


@pytest.mark.slow
def test_files_are_named_or_turned_off_in_place_of_the_one_beside_the_configuration(broken: Path) -> None:
    write(broken, entry("edges.yaml"))
    write(broken, entry("edges.yaml::plain"), name="one.yaml")
    write(broken, entry("edges.yaml::window-edges"), name="two.yaml")
    assert last(attncheck(*BROKEN, "--expect", "none", folder=broken)) == "3 failed in TIME"
    ran = attncheck(*BROKEN, "--expect", "one.yaml", folder=broken)
    assert last(ran) == "2 failed, 1 xfailed in TIME"
    assert "--expect one.yaml" in ran.stdout
    both = attncheck(*BROKEN, "--expect", "one.yaml", "--expect", "two.yaml", folder=broken)
    assert last(both) == "3 xfailed in TIME"


@pytest.mark.slow
def test_the_file_beside_the_configuration_holds_in_folders_below(broken: Path) -> None:
    (broken / "attncheck.toml").write_text('kernel = "online"\n', encoding="utf-8")
    write(broken, entry("edges.yaml::plain"))
    (broken / "below").mkdir()
    arguments = ("run", "../edges.yaml", "-k", "plain", "--reference", "none", "--shaders", "../shaders")
    assert last(attncheck(*arguments, folder=broken / "below")) == "1 xfailed in TIME"


@pytest.mark.slow
def test_the_configuration_names_files_relative_to_itself(broken: Path) -> None:
    (broken / "attncheck.toml").write_text('expect = ["known/here.yaml"]\n', encoding="utf-8")
    (broken / "known").mkdir()
    write(broken / "known", entry("edges.yaml::plain"), name="here.yaml")
    (broken / "below").mkdir()
    arguments = ("run", "../edges.yaml", "-k", "plain", "--reference", "none", "--shaders", "../shaders")
    assert last(attncheck(*arguments, "--kernel", "online", folder=broken / "below")) == "1 xfailed in TIME"
    (broken / "attncheck.toml").write_text('expect = ["none"]\n', encoding="utf-8")
    write(broken, entry("edges.yaml::plain"))
    assert last(attncheck(*BROKEN, "-k", "plain", folder=broken)) == "1 failed in TIME"


def test_an_entry_for_other_versions_is_a_warning_and_no_failure(folder: Path) -> None:
    write(folder, entry("edges.yaml", "error", 'versions: {wgpu: "<0.1"}'))
    ran = attncheck("run", "edges.yaml", "-k", "plain", "--reference", "none", folder=folder)
    assert ran.code == ExitCode.OK, ran.text
    assert re.fullmatch(
        r"attncheck: warning: expectations\.yaml:2: unused, error on wgsl: wgpu is [\d.]+, not <0\.1\n", ran.stderr
    )


def test_mistakes_are_all_told_and_nothing_runs(folder: Path) -> None:
    text = "expectations:\n  - {case: edges.yaml, backend: wgsl, verdict: crsh, reason: it does}\n  - {}\n"
    (folder / "expectations.yaml").write_text(text, encoding="utf-8")
    ran = attncheck("run", "edges.yaml", folder=folder)
    assert (ran.code, ran.stdout) == (ExitCode.USAGE, "")
    assert_golden("run-bad-expectations.txt", ran.text)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (("expectation.yaml",), "did you mean `expectations.yaml`?"),
        (("none", "expectations.yaml"), "--expect none and --expect expectations.yaml exclude each other"),
    ],
)
def test_a_file_that_is_not_there_and_a_contradiction_are_refused(
    files: tuple[str, ...], said: str, folder: Path
) -> None:
    write(folder, entry("edges.yaml"))
    ran = attncheck("run", "edges.yaml", *(word for file in files for word in ("--expect", file)), folder=folder)
    assert (ran.code, ran.stdout) == (ExitCode.USAGE, "")
    assert said in ran.stderr
