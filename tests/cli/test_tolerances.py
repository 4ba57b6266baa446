"""The tolerance as a user meets it: its column and the margin's, their fields, and a scenario's own in its place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from .frozen import attncheck

OWN = """\
defaults: {q_len: 4, head_dim: 16}
scenarios:
  - {name: derived}
  - {name: of-one, tolerance: {ort-cpu: {max_abs: 1.0e-12}}}
  - {name: of-the-others, tolerance: {ort-cpu: {max_abs: 5.0e-4}, "*": {max_abs: 1.0e-12}}}
  - {name: of-all, tolerance: {max_abs: 100}}
"""


def test_a_scenarios_own_tolerance_replaces_the_derived_one_for_the_backends_it_names(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN, encoding="utf-8")
    words = ("--backend", "wgsl", "--reference", "ort-cpu", "--report", "json=report.json", "--verbose")
    ran = attncheck("run", "own.yaml", *words, folder=tmp_path, width=160)
    assert ran.code == 1, ran.text
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    found: dict[tuple[str, str], dict[str, Any]] = {
        (case["id"].partition("::")[2], result["backend"]): result
        for case in document["cases"]
        for result in case["results"]
    }

    derived = found["derived", "wgsl"]
    assert 1e-7 < derived["tolerance"] < 1e-4
    assert 0 < derived["margin"] < 1
    assert derived["margin"] == derived["error"] / derived["tolerance"]

    # What is asked of one backend says nothing of the other, which keeps what is derived.
    assert (found["of-one", "ort-cpu"]["verdict"], found["of-one", "ort-cpu"]["tolerance"]) == ("mismatch", 1e-12)
    assert found["of-one", "wgsl"]["verdict"] == "pass"
    assert found["of-one", "wgsl"]["tolerance"] == derived["tolerance"]

    # A backend's own goes before the one of all.
    assert (found["of-the-others", "wgsl"]["verdict"], found["of-the-others", "wgsl"]["tolerance"]) == (
        "mismatch",
        1e-12,
    )
    assert found["of-the-others", "ort-cpu"]["verdict"] == "pass"
    assert found["of-the-others", "ort-cpu"]["tolerance"] == 5e-4

    assert {found["of-all", name]["tolerance"] for name in ("wgsl", "ort-cpu")} == {100}
    assert found["of-all", "wgsl"]["flags"] == ["vacuous"]

    assert re.search(r"backend +error +tol +margin +verdict", ran.stdout)
    assert re.search(r"of-all +wgsl naive\*? +\S+ +100 +<0\.001 +pass", ran.stdout), ran.stdout


def test_error_tolerance_and_margin_of_a_row_are_those_of_one_element(tmp_path: Path) -> None:
    """In float16 the largest difference is that of a large element, whose tolerance is larger still."""
    words = ("--case", "op=attention q_len=4 past_len=20 dtype=float16 softcap=1e5", "--reference", "none")
    ran = attncheck("run", *words, "--report", "json=report.json", folder=tmp_path, width=160)
    assert ran.code == 0, ran.text
    (result,) = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["cases"][0]["results"]
    assert result["max_abs"] > 1.5 * result["error"]
    row = re.search(r"softcap=100000 +wgsl \S+ +(\S+) +(\S+) +(\S+) +pass", ran.stdout)
    assert row, ran.stdout
    error, tolerance, margin = map(float, row.groups())
    assert error == pytest.approx(result["error"], rel=0.06)
    assert margin == pytest.approx(error / tolerance, rel=0.1)
