"""A worker process answers, and whatever it does instead is told as what it is."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from attncheck.backends.base import BackendUnavailable, Launch
from attncheck.engine.worker import MAIN, Worker, WorkerFailed
from attncheck.vocabulary import Verdict
from attncheck.worker import wire

LOADED_THERE = ("__init__.py", "callable.py")
"""Files of attncheck itself that a user's function may import in its worker."""

RUNTIMES = Path(__file__).parents[1] / "runtimes"


def faulty(**options: object) -> Launch:
    return Launch("faulty", options, environment={"PYTHONPATH": str(RUNTIMES)})


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker.started(faulty())
    yield worker
    worker.close()


def run(worker: Worker, how: str, limit: float = 20.0) -> dict[str, object]:
    handle = worker.prepare({"how": how}, limit)
    return worker.run(handle, {"x": np.arange(3, dtype=np.float16)}, limit)


@pytest.mark.parametrize(
    "data",
    [
        {"plain": [1, 2.5, "text", None, True], "nested": {"bytes": b"\x00\xff"}},
        [np.zeros((2, 0, 3), np.float32), np.array(5, np.int64), np.array([[np.nan, np.inf]], np.float16)],
    ],
)
def test_a_frame_comes_back_as_it_was_sent(data: object) -> None:
    stream = io.BytesIO()
    wire.send(stream, data)
    wire.send(stream, "next")
    stream.seek(0)
    back = wire.receive(stream)
    np.testing.assert_equal(back, data)
    assert wire.receive(stream) == "next"


def test_arrays_that_are_not_contiguous_cross_by_value() -> None:
    stream = io.BytesIO()
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    wire.send(stream, array)
    stream.seek(0)
    np.testing.assert_array_equal(wire.receive(stream), array)


@pytest.mark.parametrize("cut", [0, 4, 9, -1])
def test_a_stream_that_ends_inside_a_frame_is_closed(cut: int) -> None:
    stream = io.BytesIO()
    wire.send(stream, np.arange(4))
    with pytest.raises(wire.Closed):
        wire.receive(io.BytesIO(stream.getvalue()[:cut]))


def test_a_clean_answer_carries_outputs_and_evidence(worker: Worker) -> None:
    answer = run(worker, "nothing")
    assert answer["evidence"] == {"provider": "faulty", "kernels": ["nothing"]}
    np.testing.assert_array_equal(answer["outputs"]["x"], np.arange(3, dtype=np.float16))  # type: ignore[index]


def test_printing_to_stdout_does_not_break_the_protocol(worker: Worker) -> None:
    run(worker, "print")
    assert run(worker, "nothing")["evidence"] == {"provider": "faulty", "kernels": ["nothing"]}


@pytest.mark.skipif(os.name != "posix", reason="signals are named on POSIX only")
def test_a_segmentation_fault_is_a_crash_with_its_signal_and_stderr(worker: Worker) -> None:
    with pytest.raises(WorkerFailed) as caught:
        run(worker, "segfault")
    assert caught.value.verdict is Verdict.CRASH
    assert "SIGSEGV" in caught.value.message
    assert "about to fall" in worker.stderr


def test_an_exit_in_the_middle_of_a_request_is_a_crash_with_its_code(worker: Worker) -> None:
    with pytest.raises(WorkerFailed) as caught:
        run(worker, "exit")
    assert caught.value.verdict is Verdict.CRASH
    assert "exit code 7" in caught.value.message


def test_a_hang_is_a_timeout(worker: Worker) -> None:
    with pytest.raises(WorkerFailed) as caught:
        run(worker, "hang", limit=0.5)
    assert caught.value.verdict is Verdict.TIMEOUT
    assert "0.5 s" in caught.value.message


def test_an_exception_is_an_error_and_the_worker_goes_on(worker: Worker) -> None:
    with pytest.raises(WorkerFailed) as caught:
        run(worker, "raise")
    assert caught.value.verdict is Verdict.ERROR
    assert caught.value.message == "RuntimeError: the kernel is on fire"
    raised, *rest = re.findall(r'File "(.*?)", line', worker.stderr)
    assert not rest, "frames of attncheck's own are not told"
    assert Path(raised) == RUNTIMES / "faulty.py"
    run(worker, "nothing")


def test_a_runtime_that_refuses_to_start_says_why() -> None:
    with pytest.raises(BackendUnavailable, match=r"^no device here$"):
        Worker.started(faulty(refuse="no device here"))


def test_a_runtime_that_dies_at_the_start_leaves_its_last_words() -> None:
    with pytest.raises(BackendUnavailable, match="SIGABRT"):
        Worker.started(faulty(die=True))


def test_a_runtime_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(BackendUnavailable, match="no_such_runtime"):
        Worker.started(Launch("no_such_runtime"))


@pytest.mark.parametrize("file", [*sorted(MAIN.parent.glob("*.py")), *(MAIN.parents[1] / it for it in LOADED_THERE)])
def test_what_runs_in_a_worker_reads_under_an_older_python(file: Path) -> None:
    ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 8))


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_a_signal_without_a_name_is_told_by_its_number(worker: Worker) -> None:
    with pytest.raises(WorkerFailed, match="was ended by signal 35"):
        run(worker, "signal-35")


def test_an_interpreter_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("no interpreter")
    with pytest.raises(BackendUnavailable, match=r"cannot run the Python interpreter .*: Permission denied"):
        Worker(Launch("faulty", python=str(tmp_path / "python")))


def test_another_interpreter_does_not_get_what_the_caller_has_activated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(RUNTIMES))
    Worker.started(Launch("faulty")).close()
    with pytest.raises(BackendUnavailable, match="No module named 'faulty'"):
        Worker.started(Launch("faulty", python=sys.executable))


@pytest.mark.skipif(os.name != "posix", reason="getppid tells of a dead parent on POSIX only")
def test_a_worker_that_hangs_ends_with_a_parent_that_is_killed() -> None:
    code = (
        "from attncheck.engine.worker import Worker\nfrom attncheck.backends.base import Launch\nimport os\n"
        f"worker = Worker.started(Launch('faulty', environment={{'PYTHONPATH': {str(RUNTIMES)!r}}}))\n"
        "print(worker._process.pid, flush=True)\n"
        "worker.run(worker.prepare({'how': 'hang'}, 60.0), {}, 60.0)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.5)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the worker outlived its parent"
        time.sleep(0.1)


@pytest.mark.skipif(os.name != "posix", reason="fork is POSIX")
def test_a_copy_that_a_runtime_makes_of_its_process_does_not_answer_for_it(worker: Worker) -> None:
    for _ in range(3):
        assert run(worker, "fork")["evidence"] == {"provider": "faulty", "kernels": ["fork"]}


@pytest.mark.skipif(os.name != "posix", reason="sessions are POSIX")
def test_a_stray_child_that_holds_stderr_does_not_hold_us() -> None:
    worker = Worker.started(faulty())
    run(worker, "stray-child")
    began = time.monotonic()
    worker.close()
    assert time.monotonic() - began < 8


def test_a_message_cannot_steer_the_terminal(worker: Worker) -> None:
    with pytest.raises(WorkerFailed) as caught:
        run(worker, "escapes")
    assert caught.value.message.startswith("RuntimeError: \\x1b[31mred")
    assert caught.value.message.endswith("(88 more lines)")


def test_stderr_is_that_of_the_case_alone(worker: Worker) -> None:
    for _ in range(20):
        run(worker, "print")
        assert "garbage on stdout" in worker.stderr
        assert "raw garbage" in worker.stderr
        worker.prepare({"how": "clean"}, 20.0)
        assert worker.stderr == ""
    run(worker, "print")
    with pytest.raises(WorkerFailed):
        run(worker, "exit")
    assert "garbage on stdout" not in worker.stderr


def test_a_runtime_that_closes_stderr_still_answers(worker: Worker) -> None:
    for _ in range(3):
        assert run(worker, "closes-stderr")["outputs"]
