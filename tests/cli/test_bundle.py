"""``attncheck bundle``, ``check --predicate`` and ``bisect``, as a shell sees them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

from attncheck import shipped
from attncheck.vocabulary import Answer, ExitCode
from tests.cli.frozen import Ran, assert_golden, attncheck

CASE = "op=gqa q_len=1 past_len=3 heads=2 kv_heads=1 head_dim=8 present=absent"
KERNEL = """
import numpy as np

def zeros(model, inputs):
    return {"output": np.zeros((1, 1, 16), np.float32)}

def falls(model, inputs):
    import ctypes
    ctypes.string_at(0)
"""
HALVED = """
import numpy as np

def halved(model, inputs):
    import onnxruntime as ort
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    found = dict(zip([it.name for it in session.get_outputs()], session.run(None, inputs)))
    return {**found, "output": found["output"] / np.float32(1 + (inputs["query"].shape[1] > 1))}
"""
SECONDS = re.compile(r"\(\d+\.\ds\)")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(KERNEL, encoding="utf-8")
    return tmp_path


def check(folder: Path, *words: str) -> Ran:
    return attncheck("check", "--predicate", *words, folder=folder)


def bundle(folder: Path, *words: str, out: str = "b") -> Ran:
    return attncheck("bundle", "--case", CASE, "--reference", "none", "--out", out, *words, folder=folder)


def test_a_bundle_is_written_run_and_told_of(mine: Path) -> None:
    ran = bundle(mine, "--backend", "mine.py:zeros")
    assert ran.code == ExitCode.OK
    assert_golden("bundle.txt", SECONDS.sub("(TIME)", ran.text))
    command = [sys.executable, "-I", "repro.py"]
    done = subprocess.run(command, cwd=mine / "b", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "the failure shows" in done.stdout


def test_a_case_that_passes_leaves_nothing_to_pack(mine: Path) -> None:
    ran = attncheck("bundle", "--case", "op=gqa", "--backend", "ort-cpu", folder=mine)
    assert ran.code == ExitCode.FAILED
    assert_golden("bundle-passes.txt", ran.text)
    assert not (mine / "bundle").exists()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--out", "."), "bundle-folder-in-use"),
        ((), "bundle-nothing-named"),
        (("--backend", "wgsl"), "bundle-two-backends"),
    ],
)
def test_what_is_wrong_with_a_call_is_said_before_anything_runs(words: tuple[str, ...], name: str, mine: Path) -> None:
    named = () if name == "bundle-nothing-named" else ("--case", CASE)
    ran = attncheck("bundle", *named, "--backend", "mine.py:zeros", *words, folder=mine)
    assert ran.code == ExitCode.USAGE
    assert_golden(f"{name}.txt", ran.text)


@pytest.mark.slow
def test_a_predicate_answers_0_for_a_case_that_fails_1_for_one_that_does_not_and_125_where_it_cannot_tell(
    mine: Path,
) -> None:
    assert check(mine, "--case", CASE, "--backend", "mine.py:zeros").code == Answer.YES
    assert check(mine, "--case", CASE, "--backend", "wgsl").code == Answer.NO
    assert check(mine, "--case", "op=gqa head_dim=9", "--backend", "ort-cpu").code == Answer.UNKNOWN
    assert check(mine, "--case", "op=gqa head_dim=none", "--backend", "ort-cpu").code == Answer.UNKNOWN
    assert check(mine, "missing.yaml").code == Answer.UNKNOWN
    assert check(mine, "--case", CASE, "--backend", "missing.py:f").code == Answer.UNKNOWN
    assert check(mine).code == Answer.UNKNOWN


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--predicate", "--case", CASE, "--no-such-option"),
        ("check", "--predicate", "--case", CASE, "--time-limit", "soon"),
        ("check", "--predicate", "--case", CASE, "--verdict", "wrong"),
        ("check", "--predicate", "--case", CASE, "--shaders", "nowhere"),
        ("check", "--predicate", "--case", CASE, "--inputs", "nowhere.npz"),
        ("check", "--predicate", "--case", "op=gqa q_len=", "--backend", "ort-cpu"),
        ("check", "--case", CASE),
    ],
)
def test_a_call_of_check_that_cannot_be_read_is_no_answer(words: tuple[str, ...], mine: Path) -> None:
    """`git bisect run` would take 2 for bad, and a reducer 1 for not interesting."""
    assert attncheck(*words, folder=mine).code == Answer.UNKNOWN


def test_check_in_a_folder_whose_configuration_is_broken_is_no_answer(mine: Path) -> None:
    (mine / "attncheck.toml").write_text("backend = [\n", encoding="utf-8")
    assert check(mine, "--case", CASE).code == Answer.UNKNOWN
    assert attncheck("run", "--case", CASE, folder=mine).code == ExitCode.USAGE


@pytest.mark.slow
def test_a_predicate_may_be_asked_for_one_verdict_or_for_passing(mine: Path) -> None:
    falls = ("--case", CASE, "--backend", "mine.py:falls")
    assert check(mine, *falls, "--verdict", "crash").code == Answer.YES
    assert check(mine, *falls, "--verdict", "mismatch").code == Answer.NO
    assert check(mine, *falls, "--passes").code == Answer.NO
    assert check(mine, *falls, "--passes", "--verdict", "mismatch").code == Answer.UNKNOWN
    assert check(mine, "--case", CASE, "--backend", "wgsl", "--passes").code == Answer.YES


@pytest.mark.slow
def test_a_predicate_takes_a_bundle_packed_or_not_a_file_and_a_model_with_its_inputs(mine: Path) -> None:
    assert bundle(mine, "--backend", "mine.py:zeros").code == ExitCode.OK
    for words in (
        ("b", "--backend", "mine.py:zeros"),
        ("b.zip", "--backend", "mine.py:zeros"),
        ("b/case.yaml", "--backend", "mine.py:zeros"),
        ("b/model.onnx", "--inputs", "b/inputs.npz", "--backend", "mine.py:zeros"),
    ):
        ran = check(mine, *words)
        assert (ran.code, ran.stdout.split()[0]) == (Answer.YES, "mismatch"), ran.text
    (mine / "b" / "case.yaml").unlink()
    assert check(mine, "b", "--backend", "mine.py:zeros").code == Answer.YES
    (mine / "broken.zip").write_bytes(b"no archive")
    assert check(mine, "broken.zip").code == Answer.UNKNOWN


@pytest.mark.slow
def test_a_bundle_names_its_backend(mine: Path) -> None:
    case = ("--case", "op=attention scores=raw softcap=2")
    assert attncheck("bundle", *case, "--backend", "onnx-ref", folder=mine).code == ExitCode.OK
    ran = check(mine, "bundle.zip")
    assert (ran.code, ran.stdout.split()[0]) == (Answer.YES, "mismatch")
    again = attncheck("bundle", "bundle.zip", "--out", "again", folder=mine)
    assert again.code == ExitCode.OK
    assert (mine / "again" / "inputs.npz").read_bytes() == (mine / "bundle" / "inputs.npz").read_bytes()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--backend", "mine.py:zeros", "--versions", "1..2"), "bisect-no-package"),
        (("--backend", "ort-cpu@1.20.1", "--versions", "1..2"), "bisect-version-given"),
        (("--backend", "ort-cpu", "--versions", "newest"), "bisect-no-version"),
    ],
)
def test_what_cannot_be_bisected_is_said_before_anything_is_installed(
    words: tuple[str, ...], name: str, mine: Path
) -> None:
    ran = attncheck("bisect", "--case", CASE, *words, folder=mine)
    assert ran.code == ExitCode.USAGE
    assert_golden(f"{name}.txt", ran.text)


@pytest.mark.slow
def test_minimize_ends_with_a_bundle_of_the_smallest_case_and_takes_one(mine: Path) -> None:
    more = ("--backend", "mine.py:halved")
    (mine / "mine.py").write_text(HALVED, encoding="utf-8")
    case = "op=gqa q_len=3 past_len=2 heads=2 kv_heads=1 head_dim=8"
    ran = attncheck("minimize", "--case", case, *more, "--out", "small", folder=mine)
    assert ran.code == ExitCode.OK, ran.text
    assert "bundle: small.zip; repro.py in a fresh process: exit code 1: the failure shows" in ran.stdout
    issue = (mine / "small" / "issue.md").read_text(encoding="utf-8")
    assert "## The smallest case" in issue
    assert "## What its neighbours do" in issue
    runtime = metadata.version("onnxruntime")
    assert f"    pip install numpy onnxruntime=={runtime}\n" in issue
    assert f"pip install numpy onnxruntime=={runtime}\n" in (mine / "small" / "repro.py").read_text(encoding="utf-8")
    assert f"| onnxruntime | {runtime} |" in issue
    assert "| python |" not in issue
    again = attncheck("minimize", "small.zip", "--out", "again", "--no-bundle", *more, folder=mine)
    assert again.code == ExitCode.OK, again.text
    assert not (mine / "again.zip").exists()
    first, second = ((mine / it / "minimal.json").read_text(encoding="utf-8") for it in ("small", "again"))
    assert json.loads(first)["case"] == json.loads(second)["case"]
    assert attncheck("minimize", "--verify", "small", folder=mine).code == ExitCode.OK


SPARE = """
import attncheck.callable

@attncheck.callable.takes_problem
def spared(problem, tensors):
    import beside_it
    return {"output": beside_it.zeros(tensors)}
"""
BESIDE = """
import numpy as np

def zeros(tensors):
    return np.zeros_like(tensors["query"])
"""
FEW = "op=gqa q_len=2 past_len=1 heads=2 kv_heads=1 head_dim=8 present=absent"


@pytest.mark.slow
def test_a_bundle_is_run_again_wherever_it_lies(tmp_path: Path) -> None:
    """With its own copy of the function: by its name alone, packed and not, by minimize, and as its files say."""
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    away.mkdir()
    (home / "mine.py").write_text(SPARE, encoding="utf-8")
    (home / "beside_it.py").write_text(BESIDE, encoding="utf-8")
    start = "op=gqa q_len=2 heads=1 head_dim=1 present=absent"
    ran = attncheck("minimize", "--case", start, "--backend", "mine.py:spared", "--out", "s", folder=home)
    assert ran.code == ExitCode.OK, ran.text
    (home / "s.zip").rename(away / "s.zip")
    (home / "s").rename(away / "s")
    (home / "mine.py").unlink()
    for word in ("s", "s.zip"):
        ran = check(away, word)
        assert (ran.code, ran.stdout.split()[0]) == (Answer.YES, "mismatch"), ran.text
        ran = attncheck("minimize", "--verify", word, folder=away)
        assert ran.code == ExitCode.OK, ran.text
    (command,) = re.findall("in this folder: attncheck (.*)", (away / "s" / "case.yaml").read_text(encoding="utf-8"))
    ran = attncheck(*command.split(), folder=away / "s")
    assert (ran.code, "zeros everywhere" in ran.stdout) == (ExitCode.FAILED, True), ran.text
    again = attncheck("minimize", "s.zip", "--out", "t", "--no-bundle", folder=away)
    assert again.code == ExitCode.OK, again.text
    assert "attncheck-" not in again.text + (away / "t" / "minimal.json").read_text(encoding="utf-8")
    assert "smallest case of s.zip::" in again.stdout
    (command,) = re.findall(r"To run it:\n  attncheck (.*)", again.stdout)
    assert "--backend t/kernel/mine.py:spared" in command
    assert attncheck(*command.split(), folder=away).code == ExitCode.FAILED
    assert attncheck("minimize", "--verify", "t", folder=away).code == ExitCode.OK
    assert check(away, "t").code == Answer.YES


def test_a_table_of_the_configuration_goes_along_with_its_variables(tmp_path: Path) -> None:
    """The function is right without its variable, and the tolerance follows what the table promises."""
    home, away = tmp_path / "home", tmp_path / "away"
    (home / "kernels").mkdir(parents=True)
    away.mkdir()
    text = f"import os\n{HALVED}".replace("inputs[", 'os.environ.get("WRONG") == "yes" and inputs[')
    (home / "kernels" / "mine.py").write_text(text, encoding="utf-8")
    (home / "attncheck.toml").write_text(
        '[backends.own]\nuse = "kernels/mine.py:halved"\ncompute = "f32"\nenvironment = { WRONG = "yes" }\n',
        encoding="utf-8",
    )
    case = "op=gqa q_len=2 heads=1 head_dim=8"
    ran = attncheck("bundle", "--case", case, "--backend", "own", "--reference", "none", "--out", "b", folder=home)
    assert ran.code == ExitCode.OK, ran.text
    (home / "b.zip").rename(away / "b.zip")
    (home / "b").rename(away / "b")
    script = [sys.executable, "-I", str(away / "b" / "repro.py")]
    assert subprocess.run(script, capture_output=True, check=False).returncode == 1
    assert "WRONG" in (away / "b" / "issue.md").read_text(encoding="utf-8")
    assert check(away, "b.zip").code == Answer.YES
    assert check(away / "b", "case.yaml", "--backend", "own").code == Answer.YES
    ran = attncheck("minimize", "b.zip", "--out", "t", "--evaluations", "1", folder=away)
    assert ran.code == ExitCode.UNFINISHED
    (command,) = re.findall(r"To run it:\n  (.*)", ran.stdout)
    assert command == f"cd {away / 't'} && attncheck run case.yaml --backend own"
    assert check(away, "t").code == Answer.YES
    (away / "b" / "attncheck.toml").write_text("backend = ['wgsl']\n", encoding="utf-8")
    ran = attncheck("bundle", "b.zip", "--out", "b", folder=away)
    assert (ran.code, "attncheck.toml is a configuration of your own" in ran.stderr) == (ExitCode.USAGE, True)


@pytest.mark.slow
def test_edited_shaders_and_the_kernel_asked_for_go_along(tmp_path: Path) -> None:
    edited = tmp_path / "edited"
    edited.mkdir()
    for file in shipped.shaders_dir().glob("*.wgsl"):
        (edited / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    scores = edited / "naive_scores.wgsl"
    text = scores.read_text(encoding="utf-8")
    scores.write_text(text.replace("* (params.softcap * LOG2E)", "* (params.softcap * LOG2E * 1.5)"), encoding="utf-8")
    words = ("--backend", "wgsl", "--shaders", "edited", "--kernel", "naive")
    ran = attncheck("bundle", "--case", f"{FEW} softcap=1", *words, "--out", "w", folder=tmp_path)
    assert ran.code == ExitCode.OK, ran.text
    edited.rename(tmp_path / "gone")
    said = (tmp_path / "w" / "case.yaml").read_text(encoding="utf-8")
    assert "attncheck run case.yaml --backend wgsl --kernel naive --shaders shaders" in said
    for word in ("w", "w.zip"):
        ran = check(tmp_path, word)
        assert (ran.code, ran.stdout.split()[0]) == (Answer.YES, "mismatch"), ran.text
    assert check(tmp_path, "w", "--kernel", "online").code == Answer.NO


@pytest.mark.slow
@pytest.mark.parametrize("content", ['{"bundle": 99, "backend": "ort-cpu"}', "{", "[]", '{"bundle": 1}'])
def test_a_bundle_of_another_version_or_a_damaged_one_is_not_guessed_at(content: str, mine: Path) -> None:
    assert bundle(mine, "--backend", "mine.py:zeros").code == ExitCode.OK
    (mine / "b" / "environment.json").write_text(content, encoding="utf-8")
    ran = check(mine, "b")
    assert ran.code == Answer.UNKNOWN
    assert "in format" in ran.stderr or "environment.json cannot be read" in ran.stderr or "which backend" in ran.stderr
    assert attncheck("minimize", "b", folder=mine).code == ExitCode.USAGE
    assert not (mine / "minimal").exists()


def test_attncheck_can_be_run_as_a_module_inside_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SPARE, encoding="utf-8")
    (tmp_path / "beside_it.py").write_text(BESIDE, encoding="utf-8")
    ran = attncheck("bundle", "--case", FEW, "--backend", "mine.py:spared", "--out", "b", folder=tmp_path)
    assert ran.code == ExitCode.OK, ran.text
    assert attncheck("--version", folder=tmp_path / "b").code == ExitCode.OK


def test_what_a_graph_holds_itself_is_fed_to_no_graph_and_to_whoever_takes_the_problem(tmp_path: Path) -> None:
    """A model whose keys are constants: ONNX Runtime refuses to be given them, and a script must have them."""
    attncheck("show", "--case", FEW, "--onnx", "a.onnx", "--npz", "a.npz", folder=tmp_path)
    with np.load(tmp_path / "a.npz") as file:
        arrays = {name: file[name] for name in file.files}
    model = onnx.load(tmp_path / "a.onnx")
    model.ir_version = 9
    model.graph.initializer.append(onnx.numpy_helper.from_array(arrays.pop("key"), "key"))
    taken = [it for it in model.graph.input if it.name != "key"]
    del model.graph.input[:]
    model.graph.input.extend(taken)
    onnx.save(model, tmp_path / "a.onnx")
    np.savez(tmp_path / "a.npz", **arrays)
    (tmp_path / "off.py").write_text(
        "import attncheck.callable\nimport numpy as np\nimport onnxruntime as ort\n\n"
        "def plain(model, inputs):\n"
        "    opened = ort.InferenceSession(model)\n"
        "    found = opened.run(None, inputs)\n"
        "    return {it.name: array + np.float32(1) for it, array in zip(opened.get_outputs(), found)}\n\n"
        "@attncheck.callable.takes_problem\n"
        "def problem(problem, tensors):\n"
        "    assert tensors['key'].any()\n"
        "    return {'output': np.zeros(tensors['query'].shape, np.float32) + np.float32(9)}\n",
        encoding="utf-8",
    )
    for function in ("plain", "problem"):
        words = ("a.onnx", "--inputs", "a.npz", "--backend", f"off.py:{function}", "--out", function)
        ran = attncheck("bundle", *words, folder=tmp_path)
        assert ran.code == ExitCode.OK, ran.text
        environment = json.loads((tmp_path / function / "environment.json").read_text(encoding="utf-8"))
        assert environment["repro"]["shows"], ran.text
