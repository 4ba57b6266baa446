"""The faults of released software that need no GPU: each in a bundle whose script shows it without attncheck."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from attncheck.backends.registry import Settings, create
from attncheck.backends.tables import Table
from attncheck.bundle import contents, failing
from attncheck.bundle.contents import Bundle
from attncheck.engine.run import Options
from attncheck.scenario import from_command_line
from attncheck.vocabulary import ExitCode, Verdict
from tests import swiftshader
from tests.cli.frozen import attncheck

WEBGPU = "ort-webgpu@1.27.0"
ABSENT = "op=gqa q_len=1 past_len=20 heads=4 kv_heads=2 head_dim=16 present=absent"


def bundled(folder: Path, backend: str, case: str, table: Table | None = None) -> tuple[Verdict, Bundle]:
    settings = Settings(tables={} if table is None else {table.use: table})
    (used,), (reference,) = create(backend, settings), create("ort-cpu", Settings())
    scenario = from_command_line(case)
    options = Options(time_limit=120.0)
    subject = failing.subject(scenario, used, None if backend == "ort-cpu" else reference, options, lambda *_: None)
    return subject.result.verdict, contents.write(folder / "bundle", subject, scenario)


@pytest.mark.parametrize(
    ("backend", "case"),
    [
        pytest.param("ort-cpu", ABSENT, id="a GroupQueryAttention on CPU whose present is not asked for"),
        pytest.param("onnx-ref", "op=attention scores=raw softcap=2", id="raw scores of the reference evaluator"),
    ],
)
def test_what_is_wrong_in_what_is_installed_is_shown(backend: str, case: str, tmp_path: Path) -> None:
    verdict, bundle = bundled(tmp_path, backend, case)
    assert verdict is Verdict.MISMATCH
    assert bundle.rerun.shows, bundle.rerun.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "verdict"),
    [
        pytest.param("op=gqa q_len=16 heads=4 head_dim=32", Verdict.MISMATCH, id="prefill"),
        pytest.param("op=mha q_len=16 heads=4 head_dim=32", Verdict.MISMATCH, id="prefill of MultiHeadAttention"),
        pytest.param("op=gqa q_len=4 past_len=20 heads=4 head_dim=32", Verdict.MISMATCH, id="speculative"),
        pytest.param(
            "op=gqa q_len=1 past_len=100+50 batch=2 heads=4 kv_heads=2 head_dim=16",
            Verdict.NONFINITE,
            id="ragged decode",
        ),
        pytest.param(
            "op=gqa q_len=1 past_len=20 heads=4 kv_heads=2 head_dim=16 bias=1xNxSxT holes=first-row",
            Verdict.NONFINITE,
            id="a row that is masked as a whole",
        ),
    ],
)
def test_what_onnx_runtime_does_wrong_on_swiftshader_is_shown(case: str, verdict: Verdict, tmp_path: Path) -> None:
    table = Table("ort-webgpu", environment=swiftshader.environment())
    seen, bundle = bundled(tmp_path, WEBGPU, case, table)
    assert seen is verdict
    assert bundle.rerun.shows, bundle.rerun.output
    assert "WebGpuExecutionProvider" in bundle.rerun.output
    issue = (bundle.folder / "issue.md").read_text(encoding="utf-8")
    assert re.search(r"^\| adapters here \| SwiftShader .*\|$", issue, re.MULTILINE), "which ONNX Runtime does not say"


@pytest.mark.slow
def test_a_session_that_would_go_on_without_its_provider_is_shown(tmp_path: Path) -> None:
    """Debian's llvmpipe, which Dawn does not take."""
    seen, bundle = bundled(tmp_path, WEBGPU, "op=gqa")
    assert seen is Verdict.FALLBACK
    assert bundle.rerun.shows, bundle.rerun.output


@pytest.mark.slow
def test_a_fault_of_a_release_is_shrunk_to_a_certified_case_whose_script_shows_it(tmp_path: Path) -> None:
    """On four lanes keys 4 to 7 of a block are wrong, so that it takes a fifth; the kernel needs a head_dim of 8."""
    environment = ", ".join(f'{name} = "{value}"' for name, value in swiftshader.environment().items())
    (tmp_path / "attncheck.toml").write_text(
        '[backends.swift]\nuse = "ort-webgpu"\nrequirements = ["onnxruntime-webgpu==1.27.0"]\n'
        f"environment = {{ {environment} }}\n",
        encoding="utf-8",
    )
    words = ("--case", "op=gqa q_len=16 heads=4 head_dim=32", "--backend", "swift", "--out", "small")
    ran = attncheck("minimize", *words, folder=tmp_path, timeout=600.0)
    assert ran.code == ExitCode.OK, ran.text
    found = json.loads((tmp_path / "small" / "minimal.json").read_text(encoding="utf-8"))
    assert found["case"] == "op=gqa,q_len=5,heads=1,head_dim=8,q_values=0,k_values=0,v_values=1"
    assert found["one_minimal"]
    assert "repro.py in a fresh process: exit code 1: the failure shows" in ran.stdout


@pytest.mark.provisioning
def test_the_release_is_found_that_let_the_present_be_left_out_and_computed_it_wrong(tmp_path: Path) -> None:
    words = ("--case", ABSENT, "--backend", "ort-cpu", "--versions")
    ran = attncheck("bisect", *words, "1.25.0,1.26.0,1.27.0,1.32.0", folder=tmp_path, timeout=1200.0)
    assert ran.code == ExitCode.OK, ran.text
    assert "error becomes mismatch" in ran.stdout
    assert "of 4 versions were run" in ran.stdout
