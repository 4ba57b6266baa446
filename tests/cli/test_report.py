"""``--report`` in several formats, under GitHub Actions, and ``attncheck report``: real runs, whole files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from lxml import etree

from attncheck.cli import main
from attncheck.reports import document, github
from attncheck.reports.formats import FORMATS
from attncheck.vocabulary import Flag, Status, Verdict
from tests.cli.frozen import ROOT, attncheck

CALLABLES = ROOT / "tests" / "callables"
WRONG = f"{CALLABLES / 'planted.py'}:softcap_ignored"
CAPS = """\
scenarios:
  - {name: plain, q_len: 2, head_dim: 8}
  - {name: capped, q_len: 2, head_dim: 8, softcap: 1}
  - {name: more, q_len: 3, head_dim: 8, softcap: 1}
  - {name: none, q_len: 1, head_dim: 8}
"""

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls `attncheck report` in this process, in `tmp_path`: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def called(*words: str) -> tuple[int, str, str]:
        code = main.invoke(["report", *words])
        out = capsys.readouterr()
        return code, out.out, out.err

    return called


def unclocked(report: Any) -> Any:
    """A document without its durations."""
    if isinstance(report, dict):
        return {key: unclocked(value) for key, value in report.items() if key != "seconds"}
    return [unclocked(it) for it in report] if isinstance(report, list) else report


def written(path: Path) -> Any:
    return unclocked(json.loads(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a run and its two shards have left all that they can, as steps of a workflow."""
    folder = tmp_path_factory.mktemp("workspace") / "below"
    folder.mkdir()
    (folder / "caps.yaml").write_text(CAPS, encoding="utf-8")
    (folder / "summary.md").write_text("what an earlier command wrote\n", encoding="utf-8")
    actions = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(folder.parent),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    words = ("run", "caps.yaml", "--backend", WRONG, "--reference", "none")
    wishes = [word for name in ("json", "junit", "markdown") for word in ("--report", f"{name}=run.{name}")]
    whole = attncheck(*words, *wishes, "--journal", "run.journal", folder=folder, environment=actions)
    (folder / "stdout").write_text(whole.stdout, encoding="utf-8")
    (folder / "stderr").write_text(whole.stderr, encoding="utf-8")
    assert whole.code == 1, whole.text
    for number in (1, 2):
        part = attncheck(*words, "--shard", f"{number}/2", "--report", f"json={number}.json", folder=folder)
        assert part.code in {0, 1}, part.text
    return folder


def test_a_run_writes_the_reports_that_it_is_asked_for(ran: Path) -> None:
    (failure, _) = etree.parse(ran / "run.junit").iter("failure")
    assert failure.text.startswith("caps.yaml:3\n")
    assert failure.getparent().get("name") == "caps.yaml::capped"
    assert "## attncheck: 2 passed, 2 failed in " in (ran / "run.markdown").read_text(encoding="utf-8")
    assert "2 passed, 2 failed in" in (ran / "stdout").read_text(encoding="utf-8"), "the table stands beside them"


def test_under_github_actions_failures_are_annotated_unasked_and_the_step_is_summarised(ran: Path) -> None:
    told = [it for it in (ran / "stderr").read_text(encoding="utf-8").splitlines() if it.startswith("::")]
    assert [re.match(r"::error file=([^,]+),line=(\d+),", it).groups() for it in told] == [  # type: ignore[union-attr]
        ("below/caps.yaml", "3"),
        ("below/caps.yaml", "4"),
    ]
    summary = (ran / "summary.md").read_text(encoding="utf-8")
    assert summary == "what an earlier command wrote\n" + (ran / "run.markdown").read_text(encoding="utf-8")


def test_a_journal_is_converted_to_the_report_that_its_run_wrote(ran: Path, call: Call) -> None:
    code, out, _ = call("convert", str(ran / "run.journal"), "--report", "json", "--report", "markdown=run.md")
    assert (code, out) == (0, (ran / "run.json").read_text(encoding="utf-8"))
    assert Path("run.md").read_text(encoding="utf-8") == (ran / "run.markdown").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FORMATS)
def test_a_json_report_is_converted_to_every_format(ran: Path, call: Call, name: str) -> None:
    code, out, err = call("convert", str(ran / "run.json"), "--report", name)
    assert (code, err) == (0, "")
    assert out
    if (ran / f"run.{name}").exists():
        assert out == (ran / f"run.{name}").read_text(encoding="utf-8")


def test_two_shards_merged_are_the_whole(ran: Path, call: Call) -> None:
    code, out, _ = call("merge", str(ran / "1.json"), str(ran / "2.json"), "--report", "json")
    merged, whole = unclocked(json.loads(out)), written(ran / "run.json")
    merged["cases"].sort(key=lambda case: [it["id"] for it in whole["cases"]].index(case["id"]))
    assert (code, merged) == (0, whole)


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--exit-code",), 1)])
def test_a_report_of_failures_is_no_failure_of_the_conversion(
    ran: Path, call: Call, words: tuple[str, ...], code: int
) -> None:
    assert call("convert", str(ran / "run.json"), "--report", "markdown", *words)[0] == code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("convert", "{run}/run.json"), "say what to write, as in --report markdown"),
        (("convert", "{run}/1.json", "{run}/2.json", "--report", "json"), "convert takes one file, here are 2"),
        (("convert", "none.json", "--report", "json"), "cannot read the report none.json: No such file"),
        (("convert", "{run}/caps.yaml", "--report", "json"), "caps.yaml:1:1: no JSON: "),
        (("merge", "{run}/1.json", "--report", "json=no/folder.json"), "there is no folder no\nnothing was written"),
        (("merge", "{run}/1.json", "{run}/2.json", "{run}/1.json", "--report", "json"), "1.json is named twice: "),
        (("merge", "{run}/1.json", "--report", "json", "--report", "junit"), "two reports cannot share stdout"),
        (("mend", "{run}/1.json", "--report", "json"), "'mend' is not one of 'convert', 'merge'"),
    ],
)
def test_what_cannot_be_converted_is_refused(ran: Path, call: Call, words: tuple[str, ...], said: str) -> None:
    code, out, err = call(*(word.format(run=ran) for word in words))
    assert (code, out) == (2, "")
    assert said in err


def test_reports_of_a_configuration_file_are_for_runs(ran: Path, call: Call) -> None:
    Path("attncheck.toml").write_text('report = ["json=run.json"]\n', encoding="utf-8")
    assert call("convert", str(ran / "run.json"))[0] == 2
    assert not Path("run.json").exists()


def test_whoever_asks_for_annotations_has_them_there_alone(
    ran: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    _, out, err = call("convert", str(ran / "run.json"), "--report", "github")
    assert (out.count("::error "), err) == (2, "")
    assert Path("summary.md").read_text(encoding="utf-8").startswith("## attncheck: ")
    Path("summary.md").unlink()
    _, out, err = call("convert", str(ran / "run.json"), "--report", "github=annotations.txt")
    assert (out, err, Path("summary.md").exists()) == ("", "", False)


def test_a_summary_never_grows_beyond_what_github_takes(
    ran: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    for used in (github.SUMMARY_LIMIT - 1500, github.SUMMARY_LIMIT - 10, github.SUMMARY_LIMIT):
        Path("summary.md").write_text("x" * used, encoding="utf-8")
        assert call("convert", str(ran / "run.json"), "--report", "github")[0] == 0
        told = Path("summary.md").read_text(encoding="utf-8")[used:]
        assert used + len(told.encode()) <= github.SUMMARY_LIMIT
        assert ("would be too large for this place" in told) == (used == github.SUMMARY_LIMIT - 1500)


def test_a_summary_that_cannot_be_written_is_only_said(ran: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "no/such/folder.md")
    code, _, err = call("convert", str(ran / "run.json"), "--report", "github")
    assert code == 0
    assert "warning: cannot write the summary of the step, no/such/folder.md" in err


EVERY = """\
scenarios:
  - {name: plain, op: gqa, heads: 2, kv_heads: 1, head_dim: 8, q_len: 2, past_len: 3}
  - {name: odd-head, op: gqa, heads: 2, kv_heads: 1, head_dim: 20, q_len: 2}
  - {name: loose, op: gqa, heads: 2, kv_heads: 1, head_dim: 8, q_len: 2, tolerance: {"*": {max_abs: 1.0e+9}}}
"""
KNOWN = "reason: planted\n    link: https://example.org/issues/1"
FAULTY = {
    "wrong_dtype": Verdict.MALFORMED,
    "not_a_number": Verdict.NONFINITE,
    "writes_behind_an_input": Verdict.OOB_WRITE,
    "runs_elsewhere": Verdict.FALLBACK,
    "segfault": Verdict.CRASH,
    "hangs": Verdict.TIMEOUT,
    "eats_memory": Verdict.OUT_OF_MEMORY,
    "loses_the_device": Verdict.DEVICE_LOST,
    "raises": Verdict.ERROR,
    "abort": Verdict.QUARANTINED,
    "zeros": Verdict.MISMATCH,
    "answers_differently_each_time": Verdict.PASS,
}


@pytest.mark.slow
def test_a_real_run_with_every_verdict_status_and_flag_gives_every_format(tmp_path: Path, call: Call) -> None:
    faulty = CALLABLES / "faulty.py"
    (tmp_path / "every.yaml").write_text(EVERY, encoding="utf-8")
    (tmp_path / "attncheck.toml").write_text(
        "".join(f'[backends."{name}"]\nuse = "{faulty}:{name}"\n' for name in FAULTY)
        + f'[backends.right]\nuse = "{CALLABLES / "right.py"}:attention"\n[backends.twin]\nuse = "{faulty}:zeros"\n',
        encoding="utf-8",
    )
    (tmp_path / "expectations.yaml").write_text(
        "expectations:\n"
        f'  - case: "*"\n    backend: abort\n    verdict: crash\n    {KNOWN}\n'
        f'  - case: "*::plain"\n    backend: raises\n    verdict: error\n    {KNOWN}\n'
        f'  - case: "*::plain"\n    backend: right\n    verdict: error\n    {KNOWN}\n',
        encoding="utf-8",
    )
    backends = [word for name in (*FAULTY, "right") for word in ("--backend", name)]
    limits = ("--time-limit", "5", "--backend-memory", "400M", "--repeat", "3")
    first = attncheck("run", "every.yaml", *backends, *limits, "--journal", "first.journal", folder=tmp_path)
    assert first.code == 1, first.text
    # Two that agree against the oracle: the reference is what the candidate is.
    agree = ("--backend", "twin", "--reference", "zeros", "--report", "json=second.json")
    second = attncheck("run", "every.yaml", "-k", "plain", *agree, folder=tmp_path)
    assert second.code == 1, second.text

    wishes = [word for name in FORMATS for word in ("--report", f"{name}=every.{name}")]
    assert call("merge", "first.journal", "second.json", *wishes)[0] == 0
    report = document.read(tmp_path / "every.json")
    results = [it for case in report.cases for it in case.results]
    assert {it.verdict for it in results} == set(Verdict)
    assert {it.status for it in results} == set(Status)
    assert {flag for it in results for flag in it.flags} == set(Flag)

    def schema(name: str) -> Any:
        return jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / name).read_text(encoding="utf-8")))

    schema("report.schema.json").validate(json.loads((tmp_path / "every.json").read_text(encoding="utf-8")))
    for line in (tmp_path / "every.ndjson").read_text(encoding="utf-8").splitlines():
        schema("report-line.schema.json").validate(json.loads(line))
    root = etree.parse(tmp_path / "every.junit").getroot()
    etree.XMLSchema(etree.parse(ROOT / "tests" / "cli" / "junit.xsd")).assertValid(root)
    assert int(root.get("tests")) == len(results)
    assert (tmp_path / "every.github").read_text(encoding="utf-8").count("::error ") == github.MOST
    markdown = (tmp_path / "every.markdown").read_text(encoding="utf-8")
    assert all(f" {it} |" in markdown for it in Verdict if it not in {Verdict.PASS, Verdict.UNSUPPORTED, "quarantined"})
