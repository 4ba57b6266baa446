"""``pytest --attncheck``: cases on backends as pytest's own items. Sessions run in this process, for it has numpy."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from attncheck.cli.run import run
from attncheck.pytest_plugin.workers import FOR_PYTEST
from tests.quality.pages import File, do, read

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
SELECTING = re.findall(r"^    pytest (.*\S) +# (\d+)$", PAGE, re.MULTILINE)
"""What the page says of `-k`: the words of a call, and how many tests it selects."""
PLANTED = f"{ROOT.as_posix()}/tests/callables/planted.py:softcap_ignored"
WRONG = "planted.py:softcap_ignored"

SCENARIOS = """\
defaults: {op: gqa, heads: 4, kv_heads: 2, head_dim: 8}
scenarios:
  - name: plain
    tags: [easy]
    matrix: {q_len: [1, 4]}
  - name: capped
    q_len: 4
    softcap: 20
    data: large-logits
  - name: known
    q_len: 5
    softcap: 20
    data: large-logits
  - name: mended
    q_len: 2
  - name: deadly
    q_len: 3
  - name: vast
    tags: [huge]
    q_len: 6
"""

EXPECTATIONS = """\
expectations:
  - {case: "*::known", backend: "planted*", verdict: mismatch, max_abs: {from: 0.001, to: 10},
     reason: softcap is never read, link: "https://example.org/1"}
  - {case: "*::mended", backend: "planted*", verdict: mismatch, max_abs: {from: 0.001, to: 10},
     reason: it was once, link: "https://example.org/2"}
  - {case: "*::deadly", backend: "planted*", verdict: crash, reason: it dies, link: "https://example.org/3"}
"""

BACKENDS = """\
[backends.nowhere]
use = "ort-cpu"
python = "no-such-python"
"""


@pytest.fixture
def own(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with a scenario file, as a user would have it. Whether attncheck is installed makes no difference."""
    folder = pytester.path
    (folder / "own.yaml").write_text(SCENARIOS, encoding="utf-8")
    (folder / "expectations.yaml").write_text(EXPECTATIONS, encoding="utf-8")
    (folder / "attncheck.toml").write_text(BACKENDS, encoding="utf-8")
    pytester.plugins = []
    return pytester


def session(own: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    plugin = ("-p", "no:attncheck", "-p", "attncheck.pytest_plugin", "-p", "no:cacheprovider")
    return own.runpytest_inprocess(*plugin, *arguments)


def collected(own: pytest.Pytester, *arguments: str) -> list[str]:
    lines = session(own, "--attncheck", "--collect-only", "-q", *arguments).outlines
    return [line for line in lines if "::" in line]


def outcomes(path: Path) -> dict[str, tuple[str, str]]:
    """Name -> what became of it and what is said of that, of a JUnit file that pytest wrote."""
    found = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        said = next((it for it in case if it.tag != "properties"), None)
        kind = "passed" if said is None else said.get("type", said.tag).removeprefix("pytest.")
        found[case.get("name", "")] = (kind, "" if said is None else f"{said.get('message')}\n{said.text or ''}")
    return found


def properties(path: Path, name: str) -> dict[str, str]:
    (case,) = (it for it in ET.parse(path).getroot().iter("testcase") if it.get("name") == name)
    return {it.get("name", ""): it.get("value", "") for it in case.iter("property")}


def test_each_case_on_each_backend_is_an_item_by_its_id_and_huge_ones_are_left_out(own: pytest.Pytester) -> None:
    assert collected(own)[:4] == [
        *("own.yaml::plain:q_len=1[wgsl]", "own.yaml::plain:q_len=1[ort-cpu]"),
        *("own.yaml::plain:q_len=4[wgsl]", "own.yaml::plain:q_len=4[ort-cpu]"),
    ]
    assert len(collected(own)) == 12
    assert collected(own, "--attncheck-args=--tag huge") == [
        "own.yaml::vast[wgsl]",
        "own.yaml::vast[ort-cpu]",
    ]


def test_items_are_selected_by_id_by_keyword_and_by_tag(own: pytest.Pytester) -> None:
    assert collected(own, "own.yaml::capped") == ["own.yaml::capped[wgsl]", "own.yaml::capped[ort-cpu]"]
    assert collected(own, "-k", "easy and ort-cpu") == [f"own.yaml::plain:q_len={n}[ort-cpu]" for n in (1, 4)]
    changed = "own.yaml::plain:q_len=4@seed=3[wgsl]"
    assert collected(own, changed, "--attncheck-args", "--set seed=3 --reference none") == [changed]


def test_nothing_is_collected_without_the_option(own: pytest.Pytester) -> None:
    assert session(own, "--collect-only", "-q").ret is pytest.ExitCode.NO_TESTS_COLLECTED


def test_every_status_has_its_twin_and_a_failure_tells_what_the_table_tells(own: pytest.Pytester) -> None:
    written = own.path / "junit.xml"
    backends = ("--attncheck-backend", PLANTED, "--attncheck-backend", "nowhere")
    outcome = session(own, "--attncheck", *backends, "--junitxml", str(written), "-k", "not easy")
    found = outcomes(written)
    kinds = {name: kind for name, (kind, _) in found.items()}
    assert kinds == {
        f"capped[{WRONG}]": "failure",
        f"known[{WRONG}]": "xfail",
        f"mended[{WRONG}]": "failure",
        f"deadly[{WRONG}]": "skip",
        **{f"{case}[nowhere]": "error" for case in ("capped", "known", "mended", "deadly")},
        **{f"{case}[ort-cpu]": "passed" for case in ("capped", "known", "mended", "deadly")},
    }
    said = found[f"capped[{WRONG}]"][1]
    assert said.startswith("mismatch: equals the result with softcap ignored")
    assert f"{WRONG} is wrong: ort-cpu agrees with the oracle" in said
    assert f"attncheck run own.yaml::capped --backend {PLANTED}" in said
    assert f"attncheck minimize own.yaml::capped --backend {PLANTED}" in said
    assert f": attncheck show --result own.yaml::capped --backend {PLANTED}" in said
    assert "softcap is never read (https://example.org/1)" in found[f"known[{WRONG}]"][1]
    assert "passes, where expectations.yaml" in found[f"mended[{WRONG}]"][1]
    assert "attncheck minimize" not in found[f"mended[{WRONG}]"][1], "what passes cannot be made smaller"
    assert "it dies" in found[f"deadly[{WRONG}]"][1]
    assert "backend nowhere could not start: " in found["capped[nowhere]"][1]
    assert "no-such-python" in found["capped[nowhere]"][1]
    assert properties(written, f"capped[{WRONG}]")["verdict"] == "mismatch"
    assert float(properties(written, f"capped[{WRONG}]")["margin"]) > 1
    assert outcome.ret is pytest.ExitCode.TESTS_FAILED
    outcome.stdout.fnmatch_lines(["FAILED own.yaml::capped?planted.py:softcap_ignored? - mismatch: equals*"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--attncheck", "--attncheck-backend", "wgls"), "there is no backend 'wgls'"),
        (("--attncheck", "--attncheck-args", "--kernel fast"), "Invalid value for '--kernel'"),
        (("--attncheck", "--attncheck-args", "--journal it"), "--journal is not for here: pytest has --lf"),
        (("--attncheck", "--attncheck-args", "own.yaml"), "name files and ids as pytest's own arguments"),
        (("--attncheck-backend", "wgsl"), "go with --attncheck, which is not given"),
    ],
)
def test_what_a_run_would_not_take_is_a_mistake_of_usage(
    own: pytest.Pytester, arguments: tuple[str, ...], said: str
) -> None:
    outcome = session(own, *arguments)
    assert outcome.ret is pytest.ExitCode.USAGE_ERROR
    assert said in "\n".join(outcome.errlines)


def test_a_file_with_mistakes_is_an_error_with_every_one_of_them(own: pytest.Pytester) -> None:
    (own.path / "typo.yaml").write_text("scenarios:\n  - {name: a, q_lenn: 1}\n  - {name: b, heds: 2}\n", "utf-8")
    outcome = session(own, "--attncheck", "typo.yaml")
    assert outcome.ret is pytest.ExitCode.INTERRUPTED
    outcome.stdout.fnmatch_lines(["typo.yaml:2:15: unknown key `q_lenn`", "typo.yaml:3:15: unknown key `heds`"])


def test_what_is_refused_are_options_of_run() -> None:
    assert set(FOR_PYTEST) <= {option.name for option in run.params}


def test_pytest_finds_the_plugin_by_its_entry_point_and_without_the_option_it_loads_nothing_else() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        (module,) = tomllib.load(file)["project"]["entry-points"]["pytest11"].values()
    assert hasattr(importlib.import_module(module), "pytest_collect_file")
    loaded = f"import sys, pytest; before = {{*sys.modules}}; import {module}; print({{*sys.modules}} - before)"
    outcome = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=60)
    assert outcome.stdout.strip() in {f"{{'attncheck', '{module}'}}", f"{{'{module}', 'attncheck'}}"}


@pytest.mark.slow
def test_items_run_side_by_side_under_xdist(own: pytest.Pytester) -> None:
    outcome = session(own, "--attncheck", "-n", "2", "--attncheck-backend", PLANTED, "-k", "easy or capped")
    outcome.assert_outcomes(passed=5, failed=1)


@pytest.fixture
def tutorial(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with the files of the tutorial."""
    for step in read(ROOT / "docs" / "tutorial.md"):
        if isinstance(step, File):
            do(step, pytester.path, {})
    pytester.plugins = []
    return pytester


def test_the_page_shows_how_tests_are_selected() -> None:
    assert len(SELECTING) == 5


@pytest.mark.parametrize(("words", "selected"), SELECTING)
def test_a_selection_of_the_page_selects_as_many_tests_as_it_says(
    words: str, selected: str, tutorial: pytest.Pytester
) -> None:
    told = session(tutorial, "--collect-only", "-q", *shlex.split(words))
    assert sum("::" in line for line in told.outlines) == int(selected), told.outlines


def test_a_value_of_an_axis_is_no_expression_of_pytest_s(tutorial: pytest.Pytester) -> None:
    told = session(tutorial, "--collect-only", "--attncheck", "window.yaml", "-k", "window=5")
    assert told.ret == pytest.ExitCode.USAGE_ERROR
    told.stderr.fnmatch_lines(["*Wrong expression passed to '-k'*"])
