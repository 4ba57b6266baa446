"""`attncheck backends`, tables of backends in a configuration, and several lanes of one kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attncheck.vocabulary import ExitCode
from tests import swiftshader
from tests.cli.frozen import assert_golden, attncheck, settled
from tests.cli.test_configuration import configure

CALLABLES = Path(__file__).parents[1] / "callables"
VERSIONS = (
    (re.compile(r"\b\d+(\.\d+)+\b"), "VERSION"),
    (re.compile(re.escape(str(CALLABLES))), "CALLABLES"),
)


def rows(text: str) -> dict[str, str]:
    """Name and state of each backend of a listing."""
    found = [re.fullmatch(r"(\S+) +(ready|cannot start|falls back|by name) .*", line) for line in text.splitlines()]
    return {row[1]: row[2] for row in found if row is not None}


def test_the_listing_reads_as_frozen(folder: Path) -> None:
    configure(folder, f'[backends.mine]\nuse = "{CALLABLES}/right.py:attention"\n')
    ran = attncheck("backends", "ort-cpu", "onnx-ref", "mine", folder=folder, width=100)
    assert ran.code == ExitCode.OK
    assert_golden("backends.txt", settled(ran.text, VERSIONS))


def test_every_backend_is_listed_and_what_cannot_start_says_what_it_needs(folder: Path) -> None:
    configure(folder, '[backends.gone]\nuse = "gone.py:attention"\n')
    ran = attncheck("backends", folder=folder, environment={"VK_DRIVER_FILES": "/nonexistent"})
    assert ran.code == ExitCode.OK, ran.text
    found = rows(ran.stdout)
    assert list(found) == [
        *("ort-cpu", "wgsl", "wgsl-dawn", "ort-webgpu", "onnx-ref", "torch", "gone"),
        *("ort:PROVIDER", "file.py:name", "NAME@VERSION"),
    ]
    assert (found["ort-cpu"], found["onnx-ref"], found["wgsl"]) == ("ready", "ready", "cannot start")
    text = " ".join(ran.stdout.split())
    assert "mesa-vulkan-drivers" in text
    assert f"there is no file {folder}/gone.py" in text
    assert "needs a file with that function" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wgsl", "ort:Nonexistent"])
def test_a_backend_asked_for_by_name_that_cannot_start_is_exit_4(folder: Path, name: str) -> None:
    nothing = {"VK_DRIVER_FILES": "/nonexistent"}
    assert attncheck("backends", "ort-cpu", name, folder=folder, environment=nothing).code == ExitCode.BACKEND
    ran = attncheck("run", "edges.yaml", "-k", "plain", "--backend", name, folder=folder, environment=nothing)
    assert ran.code == ExitCode.BACKEND
    assert f"backend {name} could not start: " in ran.stderr


def test_a_name_that_means_nothing_is_a_mistake_of_usage(folder: Path) -> None:
    ran = attncheck("backends", "ort-gpu", folder=folder)
    assert ran.code == ExitCode.USAGE
    assert "did you mean 'ort-cpu'?" in ran.stderr


def test_a_table_is_a_column_of_its_own(folder: Path) -> None:
    configure(folder, f'[backends.mine]\nuse = "{CALLABLES}/right.py:attention"\n')
    ran = attncheck("run", "edges.yaml", "-k", "plain", "--backend", "mine", "--backend", "ort-cpu", folder=folder)
    assert ran.code == ExitCode.OK, ran.text
    assert re.search(r"^mine +1 pass$", ran.stdout, re.MULTILINE)


def test_a_function_needs_no_table(folder: Path) -> None:
    file = f"{CALLABLES}/faulty.py"
    ran = attncheck("run", "edges.yaml", "-k", "plain", "--backend", f"{file}:wrong_shape", folder=folder)
    assert ran.code == ExitCode.FAILED
    assert "faulty.py:wrong_shape" in ran.stdout
    assert "malformed" in ran.stdout


def test_mistakes_in_tables_are_told_with_their_lines(folder: Path) -> None:
    configure(
        folder,
        'quiet = true\n[backends.old]\nuse = "ort-cpu"\nrequirement = ["onnxruntime==1.23.2"]\n'
        '[backends."a@b"]\nuse = "ort-cpu"\n\n[backends.new]\nuse = "ort-cpu"\nrequirements = "onnxruntime"\n',
    )
    ran = attncheck("run", "edges.yaml", folder=folder)
    assert ran.code == ExitCode.USAGE
    assert_golden("configuration-bad-backends.txt", ran.text)


def test_a_table_in_pyproject_counts_the_same(folder: Path) -> None:
    table = '[tool.attncheck.backends.old]\nuse = "ort-cpu"\nadapter = "NVIDIA"\n'
    configure(folder, f'[project]\nname = "x"\n{table}', "pyproject.toml")
    ran = attncheck("run", "edges.yaml", "--backend", "old", folder=folder)
    assert ran.code == ExitCode.USAGE
    assert "[backends.old]: ort-cpu takes no adapter" in ran.stderr


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("a/k.py:f", "b/k.py:f", "two backends have one name: k.py:f, k.py:f"),
        ("ort-cpu", "ort-cpu", "a backend is named twice"),
    ],
)
def test_two_columns_of_one_name_are_refused(folder: Path, first: str, second: str, words: str) -> None:
    ran = attncheck("run", "edges.yaml", "--backend", first, "--backend", second, "--reference", "none", folder=folder)
    assert ran.code == ExitCode.USAGE
    assert words in ran.stderr


@pytest.mark.slow
def test_each_adapter_is_a_lane_of_its_own(folder: Path) -> None:
    """Mesa's and SwiftShader's drivers both, as a machine with two GPUs has them."""
    mesa = next(Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))
    both = {"VK_DRIVER_FILES": f"{mesa}:{swiftshader.environment()['VK_DRIVER_FILES']}"}
    lanes = ("--adapter", "llvmpipe", "--adapter", "SwiftShader")
    ran = attncheck("run", "edges.yaml", "-k", "plain", *lanes, folder=folder, environment=both)
    assert ran.code == ExitCode.OK, ran.text
    assert re.search(r"^wgsl\[llvmpipe\] +1 pass$", ran.stdout, re.MULTILINE)
    assert re.search(r"^wgsl\[SwiftShader\] +1 pass$", ran.stdout, re.MULTILINE)


@pytest.mark.slow
def test_provisioning_is_told_on_stderr_and_a_version_that_is_not_there_is_exit_4(folder: Path) -> None:
    ran = attncheck("run", "edges.yaml", "-k", "plain", "--backend", "ort-cpu@0.0.99", folder=folder)
    assert ran.code == ExitCode.BACKEND
    assert "attncheck: ort-cpu@0.0.99: installing onnxruntime==0.0.99 with " in ran.stderr
    assert "onnxruntime==0.0.99 could not be made" in ran.stderr
