"""What a call writes: never over what it reads, nor over what else it writes, and also where it selects nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attncheck.cli.main import invoke
from attncheck.reports import json_report
from attncheck.reports.document import read, report
from attncheck.reports.formats import FORMATS
from attncheck.vocabulary import ExitCode
from tests.cli import events

READ = {
    "edges.yaml": ("edges.yaml",),
    "more.yaml": ("edges.yaml", "more.yaml::odd-head", "--journal", "j"),
    "sub/deep.yml": ("sub",),
    "kk.py": ("edges.yaml", "--backend", "kk.py:mine"),
    "table.py": ("edges.yaml", "--backend", "mine"),
    "reference.py": ("edges.yaml", "--reference", "reference.py:mine"),
    "known.yaml": ("edges.yaml", "--expect", "known.yaml"),
    "expectations.yaml": ("edges.yaml",),
    "then.json": ("edges.yaml", "--baseline", "then.json"),
    "times.json": ("edges.yaml", "--shard", "1/2", "--shard-times", "times.json"),
    "rules.toml": ("edges.yaml", "--thresholds", "rules.toml"),
    "shaders/online.wgsl": ("edges.yaml", "--shaders", "shaders"),
    "went.ndjson": ("edges.yaml", "--resume", "went.ndjson"),
    "attn.onnx": ("attn.onnx",),
    "attn.inputs.npz": ("attn.onnx",),
    "fed.npz": ("attn.onnx", "--inputs", "fed.npz"),
    "attncheck.toml": ("edges.yaml",),
}
"""A file -> the words of a run that reads it."""


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", READ)
def test_no_report_takes_the_place_of_what_the_run_reads(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for it in (here / file for file in READ):
        it.parent.mkdir(exist_ok=True)
        if not it.exists():
            it.write_text("", encoding="utf-8")
    (here / "attncheck.toml").write_text('[backends.mine]\nuse = "table.py:mine"\n', encoding="utf-8")
    (here / "link").symlink_to(here / name)
    before = (here / name).read_bytes()
    for path in (name, f"./wrong/../{name}", "link"):
        assert invoke(["run", *READ[name], "--report", f"html={path}"]) == ExitCode.USAGE
        said = capsys.readouterr().err
        assert f"--report html={path} would overwrite {name}, " in said.replace(f"{here}/", "")
        assert "nothing was run" in said
    assert (here / name).read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--report", "html=a.x", "--report", "json=./a.x"), "--report html=a.x and --report json=./a.x are one file"),
        (("--report", "json=z", "--journal", "z"), "--report json=z and --journal z are one file"),
        (("--report", "html="), "'html=' names no file: write html=FILE, or html alone for stdout; was a variable"),
        (("--journal", ""), "Invalid value for '--journal': it names no file; was a variable empty?"),
        (("--list", "--report", "json=a.x"), "--list runs nothing, so that --report has nothing to write"),
    ],
)
def test_outputs_that_cannot_be_are_a_mistake_of_usage(
    words: tuple[str, ...], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["run", "edges.yaml", *words]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert not (here / "a.x").exists()
    assert not (here / "z").exists()


def test_two_reports_may_go_where_nothing_is_kept(here: Path) -> None:
    both = ("--report", "json=/dev/null", "--report", "html=/dev/null")
    assert invoke(["run", "edges.yaml", "-k", "nothing", *both]) == ExitCode.NOTHING


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--report", "json=edges.yaml"), "--report json=edges.yaml would overwrite edges.yaml, which this call reads"),
        (("--report", "json=a.svg", "--plot", "a.svg"), "--report json=a.svg and --plot a.svg are one file"),
        (("--baseline", "b.svg", "--plot", "b.svg"), "--plot b.svg would overwrite b.svg, the file of"),
        (("--plot", "a.png"), "'a.png' does not end in .svg, the one kind of file that is written"),
        (("--plot", "a"), "'a' does not end in .svg"),
        (("--plot", ""), "Invalid value for '--plot': it names no file; was a variable empty?"),
        (("--list", "--plot", "a.svg"), "--list runs nothing, so that --plot has nothing to write"),
    ],
)
def test_a_bench_keeps_what_it_reads_too(
    words: tuple[str, ...], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "b.svg").write_text("", encoding="utf-8")
    assert invoke(["bench", "edges.yaml", "--backend", "ort-cpu", *words]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert not (here / "a.png").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "edges.yaml::plain", "--onnx", "edges.yaml"), "--onnx edges.yaml would overwrite edges.yaml, which"),
        (("show", "edges.yaml::plain", "--onnx", "a", "--npz", "a"), "--onnx a and --npz a are one file"),
        (("tune", "--shaders", "wrong", "--out", "wrong/mistakes.yaml"), "--out wrong/mistakes.yaml would overwrite"),
    ],
)
def test_other_commands_keep_what_they_read_too(
    words: tuple[str, ...], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([*words]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert not (here / "a").exists()


def test_what_a_configuration_names_by_default_is_kept_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "attncheck.toml").write_text('paths = ["edges.yaml"]\n', encoding="utf-8")
    assert invoke(["run", "--report", "html=edges.yaml"]) == ExitCode.USAGE
    assert "--report html=edges.yaml would overwrite edges.yaml, which this call reads" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("convert", "a.json"), ("merge", "b.json", "a.json")])
def test_a_report_is_not_converted_into_itself(
    words: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.json", "b.json"):
        (here / name).write_text(json_report.text(report(events.everything())), encoding="utf-8")
    assert invoke(["report", *words, "--report", "markdown=a.json"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "--report markdown=a.json would overwrite a.json, which this call reads: name" in said
    assert "nothing was written" in said
    assert json.loads((here / "a.json").read_text(encoding="utf-8"))["report"] == 1


@pytest.mark.parametrize("command", ["run", "relate"])
def test_a_selection_of_nothing_has_its_reports_too(command: str, here: Path) -> None:
    wishes = [word for name in FORMATS for word in ("--report", f"{name}=of-{name}")]
    assert invoke([command, "edges.yaml", "-k", "nothing", *wishes]) == ExitCode.NOTHING
    found = read(here / "of-json")
    assert (found.selected, found.cases, found.interrupted) == (0, (), False)
    assert all((here / f"of-{name}").is_file() for name in FORMATS)
