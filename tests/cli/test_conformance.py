"""``attncheck conformance onnx``: the official tests as cases like all others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest

from attncheck.vocabulary import ExitCode
from tests.cli.frozen import ROOT, assert_golden, attncheck, settled

pytestmark = pytest.mark.slow
"""The onnx package takes some seconds to generate its tests."""

VERSION = onnx.__version__
BFLOAT16 = 5


def frozen(text: str) -> str:
    return settled(text).replace(VERSION, "VERSION")


def test_the_list_names_every_test_of_attention_and_rotary(folder: Path) -> None:
    ran = attncheck("conformance", "onnx", "--list", folder=folder)
    assert (ran.code, ran.stderr) == (ExitCode.OK, "")
    assert_golden("conformance-list.txt", frozen(ran.stdout))


def test_own_kernels_pass_all_but_bfloat16_beside_the_reference(folder: Path) -> None:
    ran = attncheck("conformance", "onnx", "--journal", "run.jsonl", folder=folder)
    assert ran.code == ExitCode.OK, ran.text
    lines = [json.loads(line) for line in (folder / "run.jsonl").read_text().splitlines()]
    results = {
        (it["backend"], it["case"].partition("::")[2]): (it["verdict"], it["message"], it["flags"])
        for line in lines
        if line.get("event") == "CaseFinished"
        for it in line["results"]
    }
    own = {case: it for (backend, case), it in results.items() if backend == "wgsl"}
    left_out = {case: message for case, (verdict, message, _) in own.items() if verdict != "pass"}
    assert len(own) - len(left_out) >= 96
    assert len(left_out) == BFLOAT16
    assert all(case.endswith("bf16") and "bfloat16" in message for case, message in left_out.items())
    assert not [case for case, (_, _, flags) in results.items() if "disputed" in flags]


def test_run_and_show_take_the_id_that_is_printed(folder: Path) -> None:
    test = f"onnx-{VERSION}::attention_4d"
    ran = attncheck("run", test, "--backend", "ort-cpu", folder=folder)
    assert (ran.code, "1 passed" in ran.stdout) == (ExitCode.OK, True), ran.text
    shown = attncheck("show", test, folder=folder)
    assert (shown.code, shown.stderr) == (ExitCode.OK, "")
    assert test in shown.stdout
    changed = attncheck("run", test, "--set", "head_dim=8", folder=folder)
    assert (changed.code, "which has none" in changed.stderr) == (ExitCode.USAGE, True)
    near = attncheck("run", f"onnx-{VERSION}::attention_4dd", folder=folder)
    assert (near.code, f"near: {test}" in near.stderr) == (ExitCode.USAGE, True)


def test_the_page_says_how_many_tests_each_backend_passes(folder: Path) -> None:
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    if VERSION not in page:
        pytest.skip(f"the page is about another onnx than {VERSION}")
    rows = re.findall(r"^\| `([\w-]+)`.*?\| (\d+) \| (\d+) \|", page, re.MULTILINE)
    said = {
        name: f"{passed} pass" + (f", {unsupported} unsupported" if unsupported != "0" else "")
        for name, passed, unsupported in rows
    }
    words = [word for name in ("wgsl", "ort-cpu", "onnx-ref") for word in ("--backend", name)]
    ran = attncheck("conformance", "onnx", *words, "--reference", "none", "-v", folder=folder)
    assert dict(re.findall(r"^(wgsl|ort-cpu|onnx-ref) +(\d+ pass.*)$", ran.stdout, re.MULTILINE)) == said


def test_the_evaluator_of_onnx_passes_bfloat16_too(folder: Path) -> None:
    ran = attncheck(
        "conformance", "onnx", "-k", "bf16", "--backend", "onnx-ref", "--reference", "none", folder=folder
    )
    assert ran.code == ExitCode.OK, ran.text
    assert f"{BFLOAT16} passed in" in ran.stdout


def test_what_fails_can_be_run_alone_as_the_report_says(folder: Path) -> None:
    ran = attncheck("conformance", "onnx", "attention_4d_causal", "--backend", "ort-cpu", "-q", folder=folder)
    assert ran.code == ExitCode.OK
    assert frozen(ran.stdout) == "1 passed in TIME\n"
    whole = attncheck("conformance", "onnx", f"onnx-{VERSION}::attention_4d_causal", "--list", folder=folder)
    assert whole.stdout == f"onnx-{VERSION}::attention_4d_causal\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("attention_4d_casual",), ExitCode.USAGE),
        (("-k", "nothing-like-it"), ExitCode.NOTHING),
        (("-k", "attention and"), ExitCode.USAGE),
        (("-q", "-v"), ExitCode.USAGE),
    ],
    ids=["no-such-test", "keyword-leaves-none", "keyword-broken", "quiet-and-verbose"],
)
def test_mistakes_read_as_frozen(
    words: tuple[str, ...], code: ExitCode, folder: Path, request: pytest.FixtureRequest
) -> None:
    ran = attncheck("conformance", "onnx", *words, folder=folder)
    assert ran.code == code
    assert_golden(f"conformance-{request.node.callspec.id}.txt", frozen(ran.text))
