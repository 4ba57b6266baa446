"""The commands beside `run`, the help of all, and the one place that turns exceptions into exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import numpy as np
import onnx
import pytest

from attncheck import __version__
from attncheck.cli import inventory, main
from attncheck.cli.options import Bytes
from attncheck.graph import write
from attncheck.scenario import load
from attncheck.vocabulary import ExitCode, Flag
from tests.cli.frozen import ROOT, assert_golden, attncheck, settled

HEAVY = ("numpy", "onnx", "onnxruntime", "pydantic", "rich", "ruamel", "wgpu")


@pytest.mark.parametrize("command", [(), *((name,) for name in main.COMMANDS)], ids=lambda it: "-".join(("help", *it)))
def test_help_reads_as_frozen(command: tuple[str, ...], folder: Path) -> None:
    ran = attncheck(*command, "--help", folder=folder)
    assert ran.code == ExitCode.OK
    assert_golden("-".join(("help", *command)) + ".txt", ran.stdout)


@pytest.mark.parametrize("module", ["main", *main.COMMANDS])
def test_help_needs_nothing_heavy(module: str) -> None:
    code = f"import attncheck.cli.{module}, sys; print(*set(sys.modules) & set({HEAVY!r}))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", main.COMMANDS)
def test_the_environment_knows_every_option_by_its_long_name(name: str) -> None:
    command = main.cli.get_command(click.Context(main.cli), name)
    assert command is not None
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert all(f"--{str(option.name).replace('_', '-')}" in option.opts for option in options)


@pytest.mark.parametrize("word", ["nan", "-nan", "inf", "-inf", "Infinity", "1e400"])
@pytest.mark.parametrize("name", main.COMMANDS)
def test_no_option_takes_a_number_that_is_not_finite(name: str, word: str) -> None:
    command = main.cli.get_command(click.Context(main.cli), name)
    assert command is not None
    for option in command.params:
        try:
            value = option.type.convert(word, option, None)
        except click.BadParameter:
            continue
        assert not isinstance(value, int | float), f"{option.name} takes {word}"


THOUSANDS = pytest.param("9" * 5000, id="thousands")


@pytest.mark.parametrize("size", ["0", "00M", "²G", "٣", "4.5G", "nan", "-1", "", THOUSANDS])
def test_what_is_no_size_is_said_to_be_none(size: str) -> None:
    """Python calls more than 0 to 9 digits, and reads no integer of more than 4300."""
    with pytest.raises(click.BadParameter, match="is not a size"):
        Bytes().convert(size, None, None)
    assert Bytes().convert("007M", None, None) == 7 << 20


@pytest.mark.parametrize("name", main.COMMANDS)
def test_no_file_folder_or_case_has_an_empty_name(name: str) -> None:
    """It would be the folder that the call is in: a run of all that is there, where a variable was not set."""
    command = main.cli.get_command(click.Context(main.cli), name)
    assert command is not None
    naming = [it for it in command.params if re.search("FILE|DIR|PATH|CASE-ID|MODEL", str(it.metavar))]
    assert naming or name in {"explain", "backends", "doctor", "completion"}
    for it in naming:
        with pytest.raises(click.BadParameter, match="names no"):
            it.type.convert("", it, None)


@pytest.mark.parametrize("key", ["journal", "shaders", "paths", "expect"])
def test_a_configuration_has_no_empty_name_either(key: str, folder: Path) -> None:
    value = '[""]' if key in {"paths", "expect"} else '""'
    (folder / "attncheck.toml").write_text(f"{key} = {value}\n", encoding="utf-8")
    ran = attncheck("run", "edges.yaml", folder=folder)
    assert ran.code == ExitCode.USAGE
    assert f"attncheck.toml:1: {key} = " in ran.stderr


@pytest.mark.parametrize("place", ["words", "environment", "file"])
def test_a_number_that_is_not_finite_is_refused_wherever_it_stands(place: str, folder: Path) -> None:
    words = ("--time-limit", "nan") if place == "words" else ()
    if place == "file":
        (folder / "attncheck.toml").write_text("time-limit = nan\n", encoding="utf-8")
    variables = {"ATTNCHECK_TIME_LIMIT": "nan"} if place == "environment" else {}
    ran = attncheck("bench", "edges.yaml", *words, folder=folder, environment=variables)
    assert ran.code == ExitCode.USAGE
    assert "nan is not a finite number: write one above zero, as in 0.5 or 60" in ran.stderr


def test_the_help_of_fail_on_names_every_flag(folder: Path) -> None:
    text = " ".join(attncheck("run", "--help", folder=folder, width=100).stdout.split())
    assert all(str(flag) in text.replace("- ", "-") for flag in Flag)


def test_version(folder: Path) -> None:
    assert attncheck("--version", folder=folder).stdout == f"attncheck {__version__}\n"


def test_without_a_command_the_help_is_an_answer_to_a_mistake(folder: Path) -> None:
    ran = attncheck(folder=folder)
    assert (ran.code, ran.stdout) == (ExitCode.USAGE, "")
    assert "Commands:" in ran.stderr


@pytest.mark.parametrize("word", ["rnu", "edges.yaml", "zebra"])
def test_an_unknown_command_reads_as_frozen(word: str, folder: Path) -> None:
    ran = attncheck(word, folder=folder)
    assert ran.code == ExitCode.USAGE
    assert_golden(f"command-{word}.txt", ran.text)


def test_show_reads_as_frozen(folder: Path) -> None:
    ran = attncheck("show", "edges.yaml::window-edges:window=3", folder=folder)
    assert ran.code == ExitCode.OK
    digest = re.compile(r"digest [0-9a-f]{16}")
    assert_golden("show.txt", settled(ran.text, [(digest, "digest DIGEST")]))


def test_show_tells_rotary_ragged_lengths_and_an_unfiled_case(folder: Path) -> None:
    axes = "op=gqa batch=2 q_len=1 past_len=20+7 heads=4 kv_heads=2 head_dim=16 rotary=half window=5"
    ran = attncheck("show", "--case", axes, folder=folder)
    assert ran.code == ExitCode.OK, ran.text
    digest = re.compile(r"digest [0-9a-f]{16}")
    assert_golden("show-unfiled.txt", settled(ran.text, [(digest, "digest DIGEST")]))


def test_show_writes_the_model_and_the_inputs_that_a_run_uses(folder: Path) -> None:
    ran = attncheck("show", "edges.yaml::plain", "--onnx", "m.onnx", "--npz", "i.npz", folder=folder)
    assert ran.code == ExitCode.OK, ran.text
    case = write.build(next(it for it in load([folder / "edges.yaml"], folder) if it.id == "edges.yaml::plain"))
    onnx.checker.check_model(onnx.load(folder / "m.onnx"))
    assert (folder / "m.onnx").read_bytes() == case.model
    with np.load(folder / "i.npz") as written:
        assert sorted(written) == sorted(case.inputs)
        for name, array in case.inputs.items():
            np.testing.assert_array_equal(written[name], array, strict=True)
    assert sorted(path.name for path in folder.iterdir() if "onnx" in path.name or "npz" in path.name) == [
        "i.npz",
        "m.onnx",
    ]


def test_show_leaves_nothing_behind_where_it_cannot_write(folder: Path) -> None:
    ran = attncheck("show", "edges.yaml::plain", "--onnx", "nowhere/m.onnx", folder=folder)
    assert (ran.code, ran.stdout) == (ExitCode.USAGE, "")
    assert ran.stderr == "attncheck: nowhere/m.onnx cannot be written: No such file or directory\n"


def test_show_wants_one_case(folder: Path) -> None:
    ran = attncheck("show", "edges.yaml", folder=folder)
    assert ran.code == ExitCode.USAGE
    assert_golden("show-several.txt", ran.text)


DOCTOR = [
    (re.compile(r"^(  [a-z0-9_.-]+(?: [a-z]+)?) +\S.*$", re.MULTILINE), r"\1  VALUE"),
    (re.compile(r"(?<=^adapters\n)(  .*\n)+", re.MULTILINE), "  ADAPTERS\n"),
]


def test_doctor_reads_as_frozen(folder: Path) -> None:
    ran = attncheck("doctor", folder=folder)
    assert ran.code == ExitCode.OK, ran.text
    assert_golden("doctor.txt", settled(ran.text, DOCTOR))


@pytest.mark.slow
def test_doctor_marks_software_adapters_and_measures_the_subgroup(folder: Path) -> None:
    ran = attncheck("doctor", folder=folder)
    if "llvmpipe" not in ran.stdout:
        pytest.skip("this machine's adapter is not Mesa's software one")
    assert re.search(r"^  llvmpipe .*  software", ran.stdout, re.MULTILINE)
    assert re.search(r"^  subgroup +\d+ lanes, measured$", ran.stdout, re.MULTILINE)


def test_doctor_exits_with_4_and_says_what_to_install_where_no_adapter_is(folder: Path) -> None:
    ran = attncheck("doctor", folder=folder, environment={"VK_DRIVER_FILES": "/nonexistent"})
    assert ran.code == ExitCode.BACKEND
    assert "mesa-vulkan-drivers" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "a default backend cannot run here"


def test_a_fault_of_attncheck_exits_with_3_and_shows_its_traceback_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("one over nothing")

    monkeypatch.setattr(main, "_run", fail)
    assert main.invoke(["doctor"]) == ExitCode.INTERNAL
    quiet = capsys.readouterr().err
    assert "fault of attncheck" in quiet
    assert "ZeroDivisionError: one over nothing" in quiet
    assert "Traceback" not in quiet
    monkeypatch.setenv("ATTNCHECK_DEBUG", "1")
    assert main.invoke(["doctor"]) == ExitCode.INTERNAL
    assert "Traceback" in capsys.readouterr().err


def test_doctor_looks_for_every_package_that_attncheck_depends_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(inventory.PACKAGES) == sorted(re.split(r"[<>=!~ ;\[]", it)[0] for it in project["dependencies"])


def test_doctor_says_how_to_install_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "PACKAGES", ("numpy", "no-such-package"))
    assert inventory.missing() == ["no-such-package"]
    assert inventory.packages()[-1].text == f"  to install: {sys.executable} -m pip install no-such-package"
