"""Options from files and from the environment: what wins, what is refused, and where it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from attncheck.vocabulary import ExitCode
from tests.cli.frozen import assert_golden, attncheck

ALONE = ("--reference", "none")


def configure(folder: Path, text: str, name: str = "attncheck.toml") -> None:
    (folder / name).write_text(text, encoding="utf-8")


def kernel_in_use(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> str:
    ran = attncheck("run", "edges.yaml", "-k", "plain", *ALONE, *arguments, folder=folder, environment=environment)
    assert ran.code == ExitCode.OK, ran.text
    row = next(line for line in ran.stdout.splitlines() if line.startswith("  plain"))
    return row.split()[2]


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(folder: Path) -> None:
    assert kernel_in_use(folder) == "naive*"
    configure(folder, 'kernel = "online"\n')
    assert kernel_in_use(folder) == "online"
    assert kernel_in_use(folder, environment={"ATTNCHECK_KERNEL": "naive"}) == "naive"
    assert kernel_in_use(folder, "--kernel", "auto", environment={"ATTNCHECK_KERNEL": "naive"}) == "naive*"


@pytest.mark.slow
def test_a_scenario_s_kernel_wins_over_the_file_and_loses_to_the_command_line(folder: Path) -> None:
    path = folder / "edges.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("past_len: 20", "past_len: 20\n    kernel: naive"))
    configure(folder, 'kernel = "online"\n')
    assert kernel_in_use(folder) == "naive"
    assert kernel_in_use(folder, "--kernel", "online") == "online"


def test_the_folder_of_the_file_is_the_base_of_case_ids(folder: Path) -> None:
    configure(folder, "")
    below = folder / "wrong"
    listed = attncheck("run", "--list", "../edges.yaml", "-k", "plain", folder=below)
    assert listed.stdout == "edges.yaml::plain\n"
    assert attncheck("run", "--list", "edges.yaml::plain", folder=below).stdout == "edges.yaml::plain\n"


def test_pyproject_counts_where_it_has_a_table_for_attncheck(folder: Path) -> None:
    below = folder / "wrong"
    configure(folder, '[project]\nname = "x"\n[tool.attncheck]\nquiet = true\n', "pyproject.toml")
    configure(below, '[project]\nname = "y"\n', "pyproject.toml")
    ran = attncheck("run", "../more.yaml", "-k", "odd", "--reference", "none", folder=below)
    assert len(ran.stdout.splitlines()) == 1, ran.text


def test_paths_in_the_file_are_relative_to_it(folder: Path) -> None:
    configure(folder, 'shaders = "no-shaders"\n')
    ran = attncheck("run", "../edges.yaml", folder=folder / "wrong")
    assert ran.code == ExitCode.USAGE
    assert "no-shaders' does not exist" in ran.stderr


MISTAKES = {
    "unknown-and-ill-typed": (
        "attncheck.toml",
        """\
kernle = "naive"
threshold = "many"
backend = "wgsl"
fail_fast = true
quiet = 1
memory-limit = "0"
time-limit = -1
list = true
kernel = 'fast'
paths = "edges.yaml"
""",
    ),
    "in-pyproject": ("pyproject.toml", '[project]\nname = "x"\n\n[tool.attncheck]\nquiet = true\n\nseed = -3\n'),
    "not-toml": ("attncheck.toml", "kernel = naive\n"),
    "not-a-table": ("pyproject.toml", "[tool]\nattncheck = 3\n"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_file_reads_as_frozen_and_runs_nothing(name: str, folder: Path) -> None:
    file, text = MISTAKES[name]
    configure(folder, text, file)
    ran = attncheck("run", "edges.yaml", folder=folder)
    assert (ran.code, ran.stdout) == (ExitCode.USAGE, "")
    assert_golden(f"configuration-{name}.txt", ran.text)


def test_a_mistake_in_the_environment_is_one_of_usage(folder: Path) -> None:
    ran = attncheck("run", "edges.yaml", folder=folder, environment={"ATTNCHECK_THRESHOLD": "many"})
    assert ran.code == ExitCode.USAGE
    assert "'many' is not a valid integer" in ran.stderr


def test_several_cases_in_the_environment_stand_between_semicolons(folder: Path) -> None:
    cases = "op=mha heads=2 head_dim=8 q_len=3; op=mha heads=2 head_dim=8 q_len=4"
    ran = attncheck("run", "--list", folder=folder, environment={"ATTNCHECK_CASE": cases})
    assert ran.stdout.count("case::") == 2


def test_the_file_is_read_also_for_show(folder: Path) -> None:
    configure(folder, "seed = 5\n")
    ran = attncheck("show", "edges.yaml::plain", folder=folder)
    assert "seed 5" in ran.stdout


def listed(folder: Path, *words: str) -> tuple[int, list[str], str]:
    ran = attncheck("run", "--list", *words, folder=folder)
    return ran.code, ran.stdout.splitlines(), ran.stderr


def test_a_run_that_names_nothing_runs_the_paths_of_the_file(folder: Path) -> None:
    configure(folder, 'paths = ["edges.yaml", "shipped/window.yaml"]\n')
    below = folder / "wrong"
    code, ids, _ = listed(below)
    assert code == ExitCode.OK
    assert {it.partition("::")[0] for it in ids} == {"edges.yaml", "shipped/window.yaml"}
    assert listed(below, "../edges.yaml", "-k", "plain")[1] == ["edges.yaml::plain"]
    assert listed(below, "-k", "plain")[1] == ["edges.yaml::plain"]
    assert all(it.startswith("shipped/") for it in listed(below, "shipped/*::*-band")[1])


def test_a_path_of_the_file_that_is_gone_is_told_where_it_would_run_and_nowhere_else(folder: Path) -> None:
    configure(folder, 'quiet = true\npaths = ["edges.yaml", "gone"]\n')
    code, _, said = listed(folder)
    assert (code, said.splitlines()[-1]) == (ExitCode.USAGE, "attncheck.toml:2: paths: there is no gone")
    assert listed(folder, "edges.yaml::plain")[:2] == (ExitCode.OK, ["edges.yaml::plain"])
