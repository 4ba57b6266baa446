"""The command `minimize`: what it prints and writes, its exit codes, and that an ended search goes on."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import onnx
import pytest

from attncheck.graph.session import session
from attncheck.scenario import from_command_line
from attncheck.scenario.load import load

from .frozen import ROOT, Ran, assert_golden, attncheck, settled

PLANTED = f"{ROOT / 'tests' / 'callables' / 'planted.py'}"
START = "op=gqa q_len=7 past_len=5 heads=4 kv_heads=2 head_dim=8 softcap=50 window=4"


def shrink(folder: Path, fault: str, *more: str, start: str = START) -> Ran:
    words = ("--case", start, "--backend", f"{PLANTED}:{fault}", "--no-bundle")
    return attncheck("minimize", *words, *more, folder=folder)


def certificate(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "minimal" / "minimal.json").read_text(encoding="utf-8"))
    return data


def test_it_prints_the_smallest_case_its_neighbours_and_how_to_run_it(tmp_path: Path) -> None:
    ran = shrink(tmp_path, "softcap_ignored")
    assert ran.code == 0
    assert_golden("minimize.txt", settled(ran.text.replace(str(ROOT), "ROOT")))


@pytest.mark.slow
def test_the_folder_holds_a_case_that_fails_and_arrays_that_numpy_opens(tmp_path: Path) -> None:
    shrink(tmp_path, "softcap_ignored")
    again = attncheck("run", "minimal/case.yaml", "--backend", f"{PLANTED}:softcap_ignored", folder=tmp_path)
    assert again.code == 1
    assert "equals the result with softcap ignored" in again.stdout
    model = onnx.load(tmp_path / "minimal" / "model.onnx")
    inputs = np.load(tmp_path / "minimal" / "inputs.npz")
    assert {it.name for it in model.graph.input} == set(inputs.files)
    expected = np.load(tmp_path / "minimal" / "expected.npz")
    assert {it.name for it in model.graph.output} == set(expected.files)
    assert expected["output"].dtype == np.float64
    # Two keys with scores 0 and 1, capped at 1: the weight of the second is sigmoid(tanh(1)).
    assert expected["output"].ravel()[-1] == pytest.approx(1.0 / (1.0 + np.exp(-np.tanh(1.0))))


@pytest.mark.slow
def test_a_model_is_told_as_a_scenario_and_shrunk_as_one(tmp_path: Path) -> None:
    written = attncheck("show", "--case", START, "--onnx", "a.onnx", "--npz", "a.npz", folder=tmp_path)
    assert written.code == 0
    backend = f"{PLANTED}:softcap_ignored"
    ran = attncheck("minimize", "a.onnx", "--inputs", "a.npz", "--backend", backend, folder=tmp_path)
    assert ran.code == 0
    assert "a.onnx::GroupQueryAttention fails in the same way as a scenario: op=gqa,q_len=7,past_len=5," in ran.stderr
    found = certificate(tmp_path)
    shrink(tmp_path, "softcap_ignored", "--out", "other")
    other = json.loads((tmp_path / "other" / "minimal.json").read_text(encoding="utf-8"))
    assert (found["case"], found["one_minimal"]) == (other["case"], True)


@pytest.mark.slow
def test_the_numbers_of_a_models_bias_and_sink_go_along(tmp_path: Path) -> None:
    """Generated ones are never so large."""
    start = "q_len=2 heads=2 head_dim=2 bias=1xNxSxT sink=true"
    attncheck("show", "--case", start, "--onnx", "a.onnx", "--npz", "a.npz", folder=tmp_path)
    with np.load(tmp_path / "a.npz") as file:
        arrays = {name: file[name] for name in file.files}
    arrays["attention_bias"][0, 1, 1, 0] = 7.0
    arrays["head_sink"][0] = -6.0
    np.savez(tmp_path / "a.npz", **arrays)
    (tmp_path / "large.py").write_text(
        "def mine(model, inputs):\n"
        "    if (inputs['attention_bias'] > 5).any() and (inputs['head_sink'] < -5).any():\n"
        "        raise ValueError('too large')\n"
        "    raise KeyError('another')\n",
        encoding="utf-8",
    )
    ran = attncheck("minimize", "a.onnx", "--inputs", "a.npz", "--backend", "large.py:mine", folder=tmp_path)
    assert ran.code == 0, ran.text
    found = certificate(tmp_path)["case"]
    zeros = "q_values=0,k_values=0,v_values=0"
    assert found == f"op=gqa,heads=1,head_dim=1,bias=BxNxSxT,sink=true,{zeros},bias_values=7,sink_values=-6"


@pytest.mark.slow
def test_a_model_that_does_not_fail_as_a_scenario_is_not_shrunk_as_one(tmp_path: Path) -> None:
    attncheck("show", "--case", START, "--onnx", "a.onnx", "--npz", "a.npz", folder=tmp_path)
    model = onnx.load(tmp_path / "a.onnx")
    model.graph.name = "theirs"
    onnx.save(model, tmp_path / "a.onnx")
    (tmp_path / "name.py").write_text(
        "def mine(model, inputs):\n"
        "    if b'theirs' in model:\n"
        "        raise ValueError('not this graph')\n"
        "    raise RuntimeError('any other')\n",
        encoding="utf-8",
    )
    ran = attncheck("minimize", "a.onnx", "--inputs", "a.npz", "--backend", "name.py:mine", folder=tmp_path)
    assert ran.code == 2
    assert "no scenario that says what its node does fails in the same way" in ran.stderr


@pytest.mark.slow
def test_a_certificate_is_verified_and_one_that_does_not_hold_is_not(tmp_path: Path) -> None:
    shrink(tmp_path, "six_rows")
    assert certificate(tmp_path)["one_minimal"]
    good = attncheck("minimize", "--verify", "minimal", folder=tmp_path)
    assert (good.code, "verified: " in good.stdout) == (0, True)
    data = certificate(tmp_path)
    data["neighbours"].append({"change": "q_len 8 -> 7", "case": "op=gqa,q_len=7", "verdict": "pass", "same": False})
    (tmp_path / "minimal" / "minimal.json").write_text(json.dumps(data), encoding="utf-8")
    bad = attncheck("minimize", "--verify", "minimal", folder=tmp_path)
    assert bad.code == 1
    assert "a neighbour fails in the same way on planted.py:six_rows: q_len 8 -> 7" in bad.stderr
    mended = attncheck("minimize", "--verify", "minimal", "--backend", f"{PLANTED}:five_past", folder=tmp_path)
    assert mended.code == 1
    assert "it does not fail as it did (" in mended.stderr
    assert ") on planted.py:five_past: it is pass now" in " ".join(mended.stderr.split())


def test_verifying_what_was_not_certified_runs_the_neighbours_that_the_search_had_no_time_for(tmp_path: Path) -> None:
    shrink(tmp_path, "six_rows", "--evaluations", "4")
    assert certificate(tmp_path)["neighbours"] == []
    large = attncheck("minimize", "--verify", "minimal", folder=tmp_path)
    assert large.code == 1
    assert "a neighbour fails in the same way" in large.stderr
    assert "verified" not in large.stdout


def test_verifying_may_spend_its_budget_and_proves_nothing_then(tmp_path: Path) -> None:
    shrink(tmp_path, "six_rows")
    ran = attncheck("minimize", "--verify", "minimal", "--evaluations", "2", folder=tmp_path)
    assert ran.code == 6
    assert "not verified: the budget was spent after 2 evaluations" in ran.stderr
    assert "verified:" not in ran.stdout


def test_a_folder_in_which_another_search_is_at_work_is_left_to_it(tmp_path: Path) -> None:
    (tmp_path / "minimal").mkdir()
    with filelock.FileLock(tmp_path / "minimal" / "journal.lock"):
        ran = shrink(tmp_path, "six_rows")
    assert ran.code == 2
    assert "another attncheck minimize is at work in minimal; await its end, or name another folder" in ran.stderr
    assert [it.name for it in (tmp_path / "minimal").iterdir()] == ["journal.lock"]
    # What a search that was killed has left holds up nobody.
    (tmp_path / "minimal" / "journal.lock").touch()
    assert shrink(tmp_path, "six_rows", "--evaluations", "1").code == 6
    assert not (tmp_path / "minimal" / "journal.lock").exists()


def test_a_case_that_does_not_fail_is_exit_code_1(tmp_path: Path) -> None:
    ran = shrink(tmp_path, "six_rows", start="q_len=5")
    assert ran.code == 1
    assert "case::q_len=5 on planted.py:six_rows: it does not fail: pass; where it fails in some runs" in ran.stderr
    other = attncheck("minimize", "--case", "heads=1 head_dim=7", "--backend", "ort-cpu", folder=tmp_path)
    assert other.code == 1
    assert "it does not fail: unsupported: GroupQueryAttention takes only a head_dim that" in other.stderr
    assert "--runs" not in other.stderr
    assert not (tmp_path / "minimal").exists()


def test_a_search_that_cannot_begin_leaves_nothing_and_takes_no_folder_of_another(tmp_path: Path) -> None:
    words = ("minimize", "--case", "q_len=5", "--backend")
    ran = attncheck(*words, "missing.py:f", "--out", "a/b", folder=tmp_path)
    assert (ran.code, list(tmp_path.iterdir())) == (4, [])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine", encoding="utf-8")
    ran = attncheck(*words, f"{PLANTED}:six_rows", "--out", "full", folder=tmp_path)
    assert ran.code == 2
    assert "full is a folder with other things in it; name one that is empty or not there yet" in ran.stderr
    assert [it.name for it in (tmp_path / "full").iterdir()] == ["thesis.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of a file's size")
@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("minimize", "--case", START, "--out", "m"), "m/journal.ndjson"),
        (("bundle", "--case", START, "--out", "b", "--reference", "none"), "the bundle b"),
        (("show", "--case", START, "--npz", "a.npz"), "a.npz"),
    ],
)
def test_a_file_that_cannot_be_written_on_is_named_and_is_exit_code_3_everywhere(
    tmp_path: Path, words: tuple[str, ...], path: str
) -> None:
    backend = () if words[0] == "show" else ("--backend", f"{PLANTED}:softcap_ignored")
    call = [sys.executable, "-m", "attncheck", *words, *backend]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 4; exec "$@"', "sh", *call],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert f"{path} cannot be written: File too large" in done.stderr


@pytest.mark.slow
def test_a_spent_budget_is_exit_code_6_and_more_of_it_goes_on_from_there(tmp_path: Path) -> None:
    first = shrink(tmp_path, "softcap_ignored", "--evaluations", "20")
    assert first.code == 6
    assert "not certified: the budget was spent" in first.stdout
    assert not certificate(tmp_path)["one_minimal"]
    assert load([tmp_path / "minimal" / "case.yaml"])
    more = shrink(tmp_path, "softcap_ignored")
    assert more.code == 0
    assert "going on from minimal/journal.ndjson, which holds 20 evaluations" in more.stderr
    whole = certificate(tmp_path)
    (tmp_path / "afresh").mkdir()
    shrink(tmp_path / "afresh", "softcap_ignored")
    fresh = certificate(tmp_path / "afresh")
    assert [whole[key] for key in ("case", "neighbours")] == [fresh[key] for key in ("case", "neighbours")]


@pytest.mark.slow
def test_time_that_is_spent_is_exit_code_6_with_the_start_as_the_best_so_far(tmp_path: Path) -> None:
    ran = shrink(tmp_path, "six_rows", "--time", "0.001")
    assert ran.code == 6
    assert "not certified: the budget was spent" in ran.stdout
    (best,) = load([tmp_path / "minimal" / "case.yaml"])
    assert best.q_len == (7,)


@pytest.mark.slow
def test_a_case_that_is_asked_for_twice_is_run_once(tmp_path: Path) -> None:
    """By its content: two spellings of one case are one. Start and end are run three times, each by itself.

    The start's numbers are looked at again in workers that have run something else.
    """
    shrink(tmp_path, "five_past")
    lines = (tmp_path / "minimal" / "journal.ndjson").read_text(encoding="utf-8").splitlines()[1:]
    runs = [json.loads(line) for line in lines]
    counted = Counter((session(from_command_line(it["case"])).digest, it["alone"]) for it in runs)
    assert sorted(counted.values())[-3:] == [1, 1, 4]
    assert sorted(it["alone"] for it in runs if it["alone"] > 1) == [2, 2, 3, 3]
    assert len(lines) == certificate(tmp_path)["evaluations"]


@pytest.mark.slow
def test_as_many_workers_as_are_asked_for_lead_to_the_same_smallest_case(tmp_path: Path) -> None:
    found = []
    for jobs in ("1", "3"):
        assert shrink(tmp_path, "five_past", "--jobs", jobs, "--out", jobs).code == 0
        found.append(json.loads((tmp_path / jobs / "minimal.json").read_text(encoding="utf-8")))
    assert [it["case"] for it in found] == ["op=gqa,past_len=5,heads=1,head_dim=1,q_values=0,k_values=0,v_values=0"] * 2


@pytest.mark.slow
def test_what_fails_in_another_way_is_listed_with_its_smallest_case_and_not_followed(tmp_path: Path) -> None:
    ran = shrink(tmp_path, "crashes_on_the_way")
    assert ran.code == 0
    _, _, others = ran.stdout.partition("also found, and not followed:\n")
    assert others.splitlines()[0].strip() == "crash, the backend's process was ended by SIGSEGV"
    assert "attncheck run case::op=gqa,q_len=2," in others
    assert [it["failure"]["verdict"] for it in certificate(tmp_path)["also_found"]] == ["crash"]
    assert certificate(tmp_path)["case"].startswith("op=gqa,q_len=5,")


@pytest.mark.slow
def test_a_flaky_start_is_said_at_once_and_shrunk_under_as_many_of_as_many_runs(tmp_path: Path) -> None:
    ran = shrink(tmp_path, "flaky_from_three_rows", "--runs", "1/3", "--jobs", "1", start="q_len=4 heads=1 head_dim=2")
    assert ran.code == 0, ran.text
    said = "attncheck: warning: case::q_len=4,heads=1,head_dim=2 is flaky: it fails in 2 of 3 runs"
    assert ran.stderr.startswith(said)
    assert certificate(tmp_path)["runs"]["of"] == 3
    assert certificate(tmp_path)["case"].startswith("op=gqa,q_len=3,")
    assert "1-minimal: 2 cases one step simpler, and none fails in the same way in any of 3 runs" in ran.stdout


@pytest.mark.slow
def test_an_end_that_fails_less_often_than_the_start_is_not_taken_for_the_smallest_case(tmp_path: Path) -> None:
    start = "q_len=6 heads=1 head_dim=2"
    ran = shrink(tmp_path, "flaky_below_five_rows", "--jobs", "1", start=start)
    assert ran.code == 0, ran.text
    assert "is shrunk to a case that fails in 2 of 3 runs only: again, every case run up to 3 times" in ran.stderr
    found = certificate(tmp_path)
    assert found["case"].startswith("op=gqa,q_len=5,")
    assert found["runs"] == {"needed": 3, "of": 3, "confirmed": 3}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_is_shown_the_smallest_case_so_far_evaluations_and_the_time_left(tmp_path: Path) -> None:
    import pty

    reads, writes = pty.openpty()
    words = ["minimize", "--case", START, "--backend", f"{PLANTED}:five_past", "--no-bundle"]
    process = subprocess.Popen(
        [sys.executable, "-m", "attncheck", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "200"},
        stdout=subprocess.DEVNULL,
        stderr=writes,
    )
    os.close(writes)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal's end, on Linux
        while part := os.read(reads, 65536):
            shown += part
    os.close(reads)
    assert process.wait(timeout=60) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
    assert re.search(r"\d+ evaluations, \d+ s left  op=gqa,past_len=5,heads=1,", text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name the case to shrink"),
        (("--case", START, "--runs", "4/3"), "'4/3' is not M/N"),
        (("--case", START, "--backend", "wgsl", "--backend", "ort-cpu"), "one backend is minimised at a time"),
        (("--verify", "."), "minimal.json cannot be read"),
        (("--case", START, "--backend", "no-such"), "no-such"),
    ],
)
def test_a_call_that_cannot_be_meant_is_exit_code_2(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    ran = attncheck("minimize", *words, folder=tmp_path)
    assert ran.code == 2
    assert said in ran.stderr


def test_after_an_edit_of_the_kernel_it_says_so_and_searches_afresh_where_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("LIMIT = 6\n", encoding="utf-8")
    (tmp_path / "mine.py").write_text(
        "import helper\n\ndef mine(model, inputs):\n"
        "    if inputs['query'].shape[1] >= helper.LIMIT:\n        raise ValueError('too many rows')\n"
        "    return {}\n",
        encoding="utf-8",
    )
    call = ("minimize", "--case", "q_len=9 heads=2 head_dim=2", "--backend", "mine.py:mine", "--no-bundle")
    first = attncheck(*call, folder=tmp_path)
    assert (first.code, "q_len=6" in certificate(tmp_path)["case"]) == (0, True)
    before = {path.name: path.read_bytes() for path in (tmp_path / "minimal").iterdir()}
    (tmp_path / "helper.py").write_text("LIMIT = 8\n", encoding="utf-8")
    refused = attncheck(*call, folder=tmp_path)
    assert refused.code == 2
    assert_golden("minimize-edited.txt", refused.text)
    assert {path.name: path.read_bytes() for path in (tmp_path / "minimal").iterdir()} == before
    cut = attncheck(*call, "--restart", "--evaluations", "9", folder=tmp_path)
    assert (cut.code, certificate(tmp_path)["one_minimal"]) == (6, False)
    afresh = attncheck(*call, folder=tmp_path)
    assert (afresh.code, "q_len=8" in certificate(tmp_path)["case"]) == (0, True), afresh.text


def test_a_search_begun_afresh_whose_start_no_longer_fails_leaves_what_was_found(tmp_path: Path) -> None:
    shrink(tmp_path, "six_rows", "--evaluations", "9")
    before = {path.name: path.read_bytes() for path in (tmp_path / "minimal").iterdir()}
    assert shrink(tmp_path, "six_rows", "--restart", start="q_len=5").code == 1
    assert {path.name: path.read_bytes() for path in (tmp_path / "minimal").iterdir()} == before


def test_a_search_begun_afresh_leaves_no_certificate_of_the_one_before(tmp_path: Path) -> None:
    shrink(tmp_path, "six_rows")
    (tmp_path / "minimal" / "kernel").mkdir()
    ran = shrink(tmp_path, "five_past", "--restart", "--time", "0.001")
    assert ran.code == 6
    assert certificate(tmp_path)["start"]["case"].startswith("op=gqa,q_len=7,past_len=5")
    assert "planted.py:five_past" in certificate(tmp_path)["backend"]
    assert (tmp_path / "minimal" / "kernel").is_dir()


@pytest.mark.slow
def test_a_damaged_line_of_a_journal_is_named_with_what_to_do(tmp_path: Path) -> None:
    shrink(tmp_path, "six_rows", "--evaluations", "5", "--runs", "1/1")
    journal = tmp_path / "minimal" / "journal.ndjson"
    lines = journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([*lines[:2], b"\x00\xffgarbage\r", *lines[2:]]))
    ran = shrink(tmp_path, "six_rows", "--evaluations", "5", "--runs", "1/1")
    assert ran.code == 2
    assert "line 3 of the journal minimal/journal.ndjson is damaged: it is no JSON" in ran.stderr
    assert "remove that line, and what it held is run again; or search afresh, with --restart" in ran.stderr


def remembering(folder: Path) -> str:
    """A kernel that is wrong behind a past where the last call without one had two tokens or more."""
    (folder / "remembers.py").write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT / 'tests' / 'callables')!r})\n"
        "import numpy as np\nimport right\nimport attncheck.callable\nROWS = [0]\nRUNS = [0]\n"
        "@attncheck.callable.takes_problem\n"
        "def mine(problem, tensors):\n"
        "    found = right.attention(problem, tensors)\n"
        "    if not problem.past_len[0]:\n"
        "        ROWS[0] = problem.new_len[0]\n"
        "    elif ROWS[0] >= 2:\n"
        "        found['output'] = found['output'] + np.float32(1)\n"
        "    return found\n"
        "@attncheck.callable.takes_problem\n"
        "def third(problem, tensors):\n"
        "    found = right.attention(problem, tensors)\n"
        "    RUNS[0] += 1\n"
        "    if RUNS[0] % 3 == 0:\n"
        "        found['output'] = found['output'] + np.float32(1)\n"
        "    return found\n",
        encoding="utf-8",
    )
    return "remembers.py:mine"


@pytest.mark.slow
def test_what_fails_only_behind_another_case_in_the_same_process_is_not_taken_for_the_smallest(tmp_path: Path) -> None:
    call = ("--case", "op=gqa heads=1 head_dim=1 capacity=4 steps=3-1", "--backend", remembering(tmp_path))
    ran = attncheck("minimize", *call, "--no-bundle", folder=tmp_path)
    assert ran.code == 0, ran.text
    assert "does not fail in a process of its own" in ran.stderr
    assert "on from the last that does, each in a process of its own" in ran.stderr
    assert (certificate(tmp_path)["one_minimal"], "steps=2-1" in certificate(tmp_path)["case"]) == (True, True)


def test_what_fails_in_each_third_run_of_a_process_gets_a_bundle(tmp_path: Path) -> None:
    remembering(tmp_path)
    call = ("--case", "op=gqa heads=1 head_dim=1", "--backend", "remembers.py:third", "--reference", "none")
    ran = attncheck("bundle", *call, "--out", "b", folder=tmp_path)
    assert ran.code == 0, ran.text
    assert "repro.py in a fresh process: exit code 1: the failure shows" in ran.stdout


@pytest.mark.slow
def test_a_journal_with_a_failure_of_a_later_version_is_not_continued(tmp_path: Path) -> None:
    shrink(tmp_path, "six_rows", "--evaluations", "5")
    journal = tmp_path / "minimal" / "journal.ndjson"
    journal.write_text(journal.read_text(encoding="utf-8").replace('"look":', '"colour":1,"look":'), encoding="utf-8")
    ran = shrink(tmp_path, "six_rows", "--evaluations", "9")
    assert ran.code == 2
    assert "line 2 of its journal is another attncheck's" in ran.stderr


@pytest.mark.slow
def test_only_cases_that_the_same_kernels_computed_are_followed_where_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / "paths.py").write_text(
        "import attncheck.callable\n"
        "@attncheck.callable.declares('NumPy', 'short')\n"
        "def mine(model, inputs):\n"
        "    long = inputs['query'].shape[1] >= 9\n"
        "    setattr(mine, attncheck.callable.EVIDENCE, ('NumPy', ('long' if long else 'short',)))\n"
        "    from attncheck.graph import read\n"
        "    from attncheck.oracle import attention\n"
        "    from attncheck.tensors.dtypes import narrow\n"
        "    answers = attention.answer(read.problem(model, inputs), inputs)\n"
        "    return {it.output: narrow(it.values, 'float32') + (inputs['query'].shape[1] >= 6) for it in answers}\n",
        encoding="utf-8",
    )
    call = ("minimize", "--case", "q_len=12 heads=1 head_dim=2", "--backend", "paths.py:mine", "--runs", "1/1")
    assert attncheck(*call, folder=tmp_path).code == 0
    assert certificate(tmp_path)["case"].startswith("op=gqa,q_len=6,")


def started(folder: Path, backend: str = f"{PLANTED}:softcap_ignored") -> subprocess.Popen[bytes]:
    words = ["minimize", "--case", START, "--backend", backend, "--no-bundle"]
    return subprocess.Popen(
        [sys.executable, "-m", "attncheck", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_ctrl_c_ends_it_with_130_and_the_best_so_far(tmp_path: Path) -> None:
    # Slow enough that the search is not over before the signal comes, however busy the machine.
    (tmp_path / "slow.py").write_text(
        f"import sys, time\nsys.path.insert(0, {str(Path(PLANTED).parent)!r})\nimport planted\n\n"
        "def slow(model, inputs):\n    time.sleep(0.2)\n    return planted.softcap_ignored(model, inputs)\n",
        encoding="utf-8",
    )
    process = started(tmp_path, "slow.py:slow")
    journal = tmp_path / "minimal" / "journal.ndjson"
    while not (journal.exists() and journal.read_bytes().count(b"\n") > 12):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130, stderr
    assert b"the same call goes on" in stderr
    assert load([tmp_path / "minimal" / "case.yaml"])


def test_ctrl_c_before_the_start_has_failed_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\n\ndef slow(model, inputs):\n    pathlib.Path('begun').touch()\n    time.sleep(600)\n",
        encoding="utf-8",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "attncheck", "minimize", "--case", START, "--backend", "slow.py:slow"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert b"it was not yet known whether the case fails, and the same call begins again" in stderr
    assert not (tmp_path / "minimal").exists()


@pytest.mark.slow
def test_kill_9_at_a_random_moment_twenty_times_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    shrink(tmp_path / "whole", "softcap_ignored")
    wanted = certificate(tmp_path / "whole")
    chance = random.Random(5)
    journal = tmp_path / "minimal" / "journal.ndjson"
    held = 0
    for _ in range(20):
        process = started(tmp_path)
        before = journal.read_bytes().count(b"\n") if journal.exists() else 0
        until = before + chance.randrange(1, 6)
        while process.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") < until):
            time.sleep(0.005)
        time.sleep(chance.random() * 0.05)
        process.kill()
        process.communicate()
        now = journal.read_bytes().count(b"\n")
        assert now >= held
        held = now
        assert load([tmp_path / "minimal" / "case.yaml"])
    assert shrink(tmp_path, "softcap_ignored").code == 0
    found = certificate(tmp_path)
    assert [found[key] for key in ("case", "neighbours")] == [wanted[key] for key in ("case", "neighbours")]
    # One more line than evaluations: nothing that a killed run had paid for was paid for again.
    texts = [json.loads(line).get("case") for line in journal.read_bytes().splitlines()[1:]]
    assert len(texts) == found["evaluations"]
    assert len(texts) <= wanted["evaluations"] + 20
