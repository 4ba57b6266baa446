"""The bundle of a failure: its script shows it without attncheck, and does not where it is mended."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from attncheck import shipped
from attncheck.backends import wgsl
from attncheck.backends.base import BackendUnavailable, Hello, Launch
from attncheck.backends.registry import Settings, create
from attncheck.bundle import contents, failing, fresh, script, words
from attncheck.bundle.contents import Bundle
from attncheck.engine import sessions
from attncheck.engine.run import Given, Options
from attncheck.graph import read
from attncheck.graph.session import session
from attncheck.oracle import ask
from attncheck.scenario import Scenario, from_command_line, load

CALLABLES = Path(__file__).parents[1] / "callables"
SMALL = "op=gqa q_len=2 past_len=3 heads=2 kv_heads=1 head_dim=16"

FILES = ("case.yaml", "environment.json", "expected.npz", "inputs.npz", "issue.md", "model.onnx", "repro.py")

PLAIN = """
import numpy as np
import beside_it

def zeros(model, inputs):
    return {"output": np.zeros((1, 2, 32), np.float32)}

def stray(model, inputs):
    inputs["query"][0, 0, 0] = 7.0
    return zeros(model, inputs)

def falls(model, inputs):
    import ctypes
    ctypes.string_at(0)

def hangs(model, inputs):
    import time
    time.sleep(600)

def raises(model, inputs):
    raise ValueError("no kernel for this")

def another_form(model, inputs):
    return {"output": np.zeros((1, 2, 31), np.float32)}

def leans_on_attncheck(model, inputs):
    import attncheck.oracle.ask
    return zeros(model, inputs)
"""
MENDED = """
import numpy as np

def zeros(model, inputs):
    return {"output": np.load("expected.npz")["output"].astype(np.float32)}

stray = falls = hangs = raises = another_form = zeros
"""


def silent(_backend: str, _note: str) -> None:
    pass


def made(folder: Path, backend: str, case: Given, settings: Settings | None = None, time_limit: float = 60.0) -> Bundle:
    (used,) = create(backend, settings or Settings())
    (reference,) = create("ort-cpu", Settings()) if backend != "ort-cpu" else (None,)
    subject = failing.subject(case, used, reference, Options(time_limit=time_limit), silent)
    return contents.write(folder, subject, case if isinstance(case, Scenario) else None)


def again(bundle: Bundle) -> int | None:
    return fresh.rerun(bundle.folder / "repro.py", None, {}).code


def told(bundle: Bundle) -> dict[str, object]:
    found: dict[str, object] = json.loads((bundle.folder / "environment.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(PLAIN, encoding="utf-8")
    (tmp_path / "beside_it.py").write_text("import and_this\n", encoding="utf-8")
    (tmp_path / "and_this.py").write_text("import a_package.part\n", encoding="utf-8")
    (tmp_path / "a_package").mkdir()
    for name in ("__init__.py", "part.py"):
        (tmp_path / "a_package" / name).write_text("", encoding="utf-8")
    return path


def test_a_bundle_of_onnx_runtime_holds_what_anyone_needs(tmp_path: Path) -> None:
    case = from_command_line("op=gqa q_len=1 past_len=20 heads=4 kv_heads=2 head_dim=16 present=absent")
    bundle = made(tmp_path / "b", "ort-cpu", case)
    assert bundle.rerun.shows
    assert bundle.files == FILES
    with zipfile.ZipFile(bundle.archive) as archive:
        assert sorted(archive.namelist()) == [f"b/{name}" for name in FILES]
        assert all(archive.read(f"b/{name}") == (bundle.folder / name).read_bytes() for name in FILES)
    (loaded,) = load([bundle.folder / "case.yaml"])
    assert session(loaded).digest == session(case).digest
    (written,) = session(case).cases
    assert (bundle.folder / "model.onnx").read_bytes() == written.model
    with np.load(bundle.folder / "inputs.npz", allow_pickle=False) as arrays:
        assert {name: arrays[name].tobytes() for name in arrays.files} == {
            name: array.tobytes() for name, array in written.inputs.items()
        }
    (answer,) = ask.answer(read.any_problem(written.model, written.inputs), written.inputs)
    with np.load(bundle.folder / "expected.npz", allow_pickle=False) as arrays:
        assert arrays["output"].dtype == np.float64
        assert np.array_equal(arrays["output"], answer.values, equal_nan=True)
    text = (bundle.folder / "repro.py").read_text(encoding="utf-8")
    assert "helper.make_node(" in text
    assert "import attncheck" not in text
    assert not [it for it in tmp_path.iterdir() if it.name.startswith(".")]


def test_the_script_shows_nothing_where_the_runtime_gives_what_is_expected(tmp_path: Path) -> None:
    """The same script, told to expect what the evaluator gives, and so that a right runtime is not accused."""
    bundle = made(tmp_path / "b", "onnx-ref", from_command_line("op=attention scores=raw softcap=2"))
    assert bundle.rerun.shows
    path = bundle.folder / "repro.py"
    text = path.read_text(encoding="utf-8")
    right = text.replace("softcap=2.0", "softcap=0.0")
    assert right != text
    path.write_text(right, encoding="utf-8")
    assert again(bundle) == 0


@pytest.mark.slow
def test_own_kernels_are_spelt_out_and_a_mended_shader_shows_nothing(tmp_path: Path) -> None:
    shaders = tmp_path / "shaders"
    shaders.mkdir()
    for file in shipped.shaders_dir().glob("*.wgsl"):
        (shaders / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    right, wrong = "* (params.softcap * LOG2E)", "* (params.softcap * LOG2E * 1.01)"
    edited = shaders / "naive_scores.wgsl"
    edited.write_text(edited.read_text(encoding="utf-8").replace(right, wrong), encoding="utf-8")
    bundle = made(tmp_path / "b", "wgsl", from_command_line(f"{SMALL} softcap=3"), Settings(shaders=shaders))
    assert bundle.rerun.shows
    kernels = {f"shaders/{file.name}" for file in shaders.iterdir()}
    assert set(bundle.files) == {*FILES, *kernels}
    path = bundle.folder / "repro.py"
    text = path.read_text(encoding="utf-8")
    assert text.count(wrong) == 1
    path.write_text(text.replace(wrong, right), encoding="utf-8")
    assert again(bundle) == 0
    path.write_text(text.replace('ADAPTER = "', 'ADAPTER = "another '), encoding="utf-8")
    assert again(bundle) == 2


def test_keys_that_are_bound_in_parts_are_bound_so_in_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure shows as it is, and not where the uniform that says where a part begins is as it should be."""
    offered = wgsl.limits
    monkeypatch.setattr(wgsl, "limits", lambda hello: replace(offered(hello), binding_bytes=2 * 4 * 49 * 24 + 256))
    shaders = tmp_path / "shaders"
    shutil.copytree(shipped.shaders_dir(), shaders)
    right, wrong = "* params.value_head + dim - params.value_skip", "* params.value_head + dim"
    edited = shaders / "online.wgsl"
    edited.write_text(edited.read_text(encoding="utf-8").replace(right, wrong), encoding="utf-8")
    case = from_command_line("op=gqa batch=3 q_len=1 past_len=48+3+9 heads=4 kv_heads=2 head_dim=24")
    bundle = made(tmp_path / "b", "wgsl", case, Settings(shaders=shaders))
    assert bundle.rerun.shows, bundle.rerun.output
    path = bundle.folder / "repro.py"
    path.write_text(path.read_text(encoding="utf-8").replace(f"{wrong};", f"{right};"), encoding="utf-8")
    assert again(bundle) == 0


@pytest.mark.parametrize(
    "name",
    [
        *("zeros", "stray", "falls"),
        pytest.param("raises", marks=pytest.mark.slow),
        pytest.param("another_form", marks=pytest.mark.slow),
    ],
)
def test_a_users_function_goes_along_with_what_it_imports_and_a_mended_one_shows_nothing(
    name: str, kernels: Path, tmp_path: Path
) -> None:
    bundle = made(tmp_path / "b", f"{kernels}:{name}", from_command_line(f"{SMALL} present=absent"))
    assert bundle.rerun.shows, bundle.rerun.output
    beside = ("kernels.py", "beside_it.py", "and_this.py", "a_package/part.py")
    assert {f"kernel/{it}" for it in beside} <= set(bundle.files)
    (bundle.folder / "kernel" / "kernels.py").write_text(MENDED, encoding="utf-8")
    assert again(bundle) == 0


def test_a_function_that_declines_in_the_script_tells_nothing(tmp_path: Path) -> None:
    bundle = made(tmp_path / "b", f"{CALLABLES / 'faulty.py'}:zeros", from_command_line(SMALL))
    kernel = bundle.folder / "kernel" / "faulty.py"
    mended = kernel.read_text(encoding="utf-8").replace("def zeros(problem, tensors):", "def zeros(problem, tensors):\n"
        "    raise attncheck.callable.Unsupported('not my operator')\n")  # fmt: skip
    kernel.write_text(mended, encoding="utf-8")
    found = fresh.rerun(bundle.folder / "repro.py", None, {})
    assert (found.code, "it cannot run here: faulty.py:zeros declines the case: not my" in found.output) == (2, True)


@pytest.mark.slow
def test_a_function_that_hangs_is_given_the_time_that_its_case_had(kernels: Path, tmp_path: Path) -> None:
    case = from_command_line(f"{SMALL} present=absent")
    bundle = made(tmp_path / "b", f"{kernels}:hangs", case, time_limit=1.0)
    assert bundle.rerun.shows
    assert "did not end within 21 seconds" in bundle.rerun.output


FLAKY = """
import ctypes
import pathlib
import numpy as np

COUNT = pathlib.Path(__file__).with_name("count")
PROCESS = int(COUNT.read_text()) if COUNT.is_file() else 0
COUNT.write_text(str(PROCESS + 1))
RUNS = []

def third_run(model, inputs):
    RUNS.append(1)
    if len(RUNS) == 3:
        ctypes.string_at(0)
    return {"output": np.load(RIGHT)["output"].astype(np.float32)}

def fourth_process(model, inputs):
    if PROCESS % 4 == 3:
        ctypes.string_at(0)
    return {"output": np.load(RIGHT)["output"].astype(np.float32)}
"""


@pytest.mark.parametrize("name", ["third_run", "fourth_process"])
def test_what_ends_its_process_in_some_runs_only_is_tried_so_often_in_children(name: str, tmp_path: Path) -> None:
    case = from_command_line(f"{SMALL} present=absent")
    ((answer,),) = [step.answers for step in sessions.steps(session(case))]
    np.savez(tmp_path / "right.npz", output=answer.values)
    (tmp_path / "count").write_text("3", encoding="utf-8")
    text = f"RIGHT = {str(tmp_path / 'right.npz')!r}\n{FLAKY}"
    (tmp_path / "flaky.py").write_text(text, encoding="utf-8")
    bundle = made(tmp_path / "b", f"{tmp_path / 'flaky.py'}:{name}", case)
    assert told(bundle)["verdict"] == "crash"
    assert bundle.rerun.shows, bundle.rerun.output
    assert "the child ended by SIGSEGV" in bundle.rerun.output


def test_wrong_numbers_of_a_function_that_takes_the_problem_are_shown(tmp_path: Path) -> None:
    case = from_command_line("op=gqa heads=1 head_dim=2 past_len=6")
    bundle = made(tmp_path / "b", f"{CALLABLES / 'sessions.py'}:wrong_in_the_third_call", case)
    assert bundle.rerun.shows, bundle.rerun.output
    assert "off by 1, tolerance" in bundle.rerun.output


def test_a_function_that_takes_the_problem_needs_no_attncheck(tmp_path: Path) -> None:
    bundle = made(tmp_path / "b", f"{CALLABLES / 'faulty.py'}:segfault", from_command_line(SMALL))
    assert bundle.rerun.shows
    assert "SIGSEGV" in bundle.rerun.output
    assert {"beside/problem.json", "beside/roles.py", "beside/attncheck/callable.py"} <= set(bundle.files)


def test_a_script_that_would_need_attncheck_is_told_not_to_show_it(kernels: Path, tmp_path: Path) -> None:
    case = from_command_line(f"{SMALL} present=absent")
    bundle = made(tmp_path / "b", f"{kernels}:leans_on_attncheck", case)
    assert bundle.rerun.code == 2
    assert not bundle.rerun.shows
    assert told(bundle)["repro"]["shows"] is False  # type: ignore[index]
    issue = (bundle.folder / "issue.md").read_text(encoding="utf-8")
    assert "could not run" in issue
    line = 1 + PLAIN.splitlines().index("    import attncheck.oracle.ask")
    told_why = f"kernels.py, line {line}, imports attncheck.oracle.ask, and of attncheck a bundle holds"
    assert told_why in issue
    assert bundle.wanting.startswith(told_why)


def test_many_inputs_are_read_from_the_file_beside_and_few_are_written_out(kernels: Path, tmp_path: Path) -> None:
    few = made(tmp_path / "few", f"{kernels}:zeros", from_command_line(f"{SMALL} present=absent"))
    assert "np.load" not in (few.folder / "repro.py").read_text(encoding="utf-8")
    (few.folder / "inputs.npz").unlink()
    assert again(few) == 1
    larger = from_command_line(f"{SMALL} present=absent".replace("past_len=3", "past_len=200"))
    many = made(tmp_path / "many", f"{kernels}:zeros", larger)
    assert "np.load" in (many.folder / "repro.py").read_text(encoding="utf-8")
    assert many.rerun.shows


def test_what_minimize_found_is_told_with_the_neighbours(kernels: Path, tmp_path: Path) -> None:
    neighbours = [
        {"change": "q_len 2 -> 1", "case": "op=gqa", "verdict": "pass", "same": False},
        {"change": "head_dim 16 -> 15", "case": "op=gqa", "verdict": "mismatch", "same": True},
        {"change": "without batch entry 0", "case": "op=gqa", "verdict": "crash", "same": False},
        {"change": "head_dim 16 -> 9", "case": "op=gqa", "verdict": "mismatch", "same": False},
        {"change": "heads 2 -> 1", "case": "op=gqa", "verdict": "unsupported", "same": False, "said": "no: 1 | 2"},
        {"change": "q_len 2 -> 0", "case": "op=gqa", "verdict": "error", "same": False, "said": "x" * 90 + " no " * 30},
    ]
    folder = tmp_path / "b"
    folder.mkdir()
    minimal = {"minimal": 1, "one_minimal": True, "neighbours": neighbours}
    (folder / "minimal.json").write_text(json.dumps(minimal), encoding="utf-8")
    bundle = made(folder, f"{kernels}:zeros", from_command_line(f"{SMALL} present=absent"))
    assert "minimal.json" in bundle.files
    issue = (folder / "issue.md").read_text(encoding="utf-8")
    rows = [line for line in issue.splitlines() if (line.startswith("| ") and "->" in line) or "batch entry" in line]
    assert rows == [
        "| head_dim 16 -> 15 | wrong in the same way |",
        "| without batch entry 0 | crash |",
        "| head_dim 16 -> 9 | wrong in another way: other numbers |",
        "| heads 2 -> 1 | not run: no: 1 \\| 2 |",
        f"| q_len 2 -> 0 | error: ... {' '.join(['no'] * 30)} |",
        "| q_len 2 -> 1 | right |",
    ]
    assert "## The smallest case" in issue
    assert "equals the result with zeros everywhere" in issue
    assert (bundle.folder / "repro.py").read_text(encoding="utf-8") in issue


def test_a_case_that_nothing_is_simpler_than_is_said_to_be_one(kernels: Path, tmp_path: Path) -> None:
    (used,) = create(f"{kernels}:zeros", Settings())
    subject = failing.subject(from_command_line(SMALL), used, None, Options(), silent)
    contents.write(tmp_path / "b", subject, None, {"minimal": 1, "one_minimal": True, "neighbours": []})
    issue = (tmp_path / "b" / "issue.md").read_text(encoding="utf-8")
    assert "There is no case one step simpler than this one." in issue


def test_a_flaky_failure_is_called_one_and_is_tried_as_often_as_it_is_rare(tmp_path: Path) -> None:
    (tmp_path / "seldom.py").write_text(
        "import numpy as np\n\n"
        "def seldom(model, inputs):\n"
        "    return {'output': np.zeros_like(inputs['query'])}\n",
        encoding="utf-8",
    )
    (used,) = create(f"{tmp_path / 'seldom.py'}:seldom", Settings())
    case = from_command_line(f"{SMALL} present=absent")
    subject = failing.subject(case, used, None, Options(), silent)
    neighbours = [{"change": "q_len 2 -> 1", "case": "op=gqa", "verdict": "pass", "same": False}]
    minimal = {"minimal": 1, "one_minimal": True, "neighbours": neighbours}
    contents.write(tmp_path / "b", subject, case, {**minimal, "runs": {"needed": 1, "of": 20, "confirmed": 2}})
    issue = (tmp_path / "b" / "issue.md").read_text(encoding="utf-8")
    assert ", in some runs only (" in issue.splitlines()[0]
    assert "- flaky: it failed in 2 of 20 runs" in issue
    assert "each run up to 20 times" in issue
    # 0.9 ** 66 is less than a thousandth, 0.9 ** 65 is not
    assert "for attempt in range(66)" in (tmp_path / "b" / "repro.py").read_text(encoding="utf-8")
    contents.write(tmp_path / "c", subject, case, {**minimal, "runs": {"needed": 1, "of": 1, "confirmed": 3}})
    assert "flaky" not in (tmp_path / "c" / "issue.md").read_text(encoding="utf-8")


def test_what_no_text_settles_is_not_called_wrong(tmp_path: Path) -> None:
    """A row that is masked as a whole: NaN of ONNX Runtime, zeros of the oracle, and nobody's text decides."""
    case = from_command_line("op=gqa heads=1 head_dim=8 bias=BxNxSxT holes=first-row")
    issue = (made(tmp_path / "b", "ort-cpu", case).folder / "issue.md").read_text(encoding="utf-8")
    first, *_, last = issue.splitlines()
    assert first.startswith("# GroupQueryAttention: gives NaN for a query without a key, which no text of it settles (")
    assert "its reading of the operator's text, which leaves that open" in last


def test_a_crash_on_a_graph_that_must_be_refused_says_so_and_what_the_reference_does(
    kernels: Path, tmp_path: Path
) -> None:
    case = from_command_line(f"{SMALL} rotary=half rotary_cache=absent")
    bundle = made(tmp_path / "b", f"{kernels}:falls", case)
    issue = (bundle.folder / "issue.md").read_text(encoding="utf-8")
    assert "- it must be refused, by an error: " in issue
    assert "- ort-cpu refuses it" in issue
    assert "what is expected is" not in issue


def test_variables_that_choose_a_gpu_are_told_and_a_program_that_prints_in_colour_is_told_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESA_OF_A_TEST", "chosen")
    (tmp_path / "red.py").write_text(
        "import numpy as np\n\n"
        "def red(model, inputs):\n"
        "    print('\\x1b[1;31mred\\x1b[m')\n"
        "    return {'output': np.zeros_like(inputs['query'])}\n",
        encoding="utf-8",
    )
    bundle = made(tmp_path / "b", f"{tmp_path / 'red.py'}:red", from_command_line(f"{SMALL} present=absent"))
    assert told(bundle)["gpu"]["MESA_OF_A_TEST"] == "chosen"  # type: ignore[index]
    issue = (bundle.folder / "issue.md").read_text(encoding="utf-8")
    assert "| `MESA_OF_A_TEST` | chosen |" in issue
    assert "\nred\n" in issue


def test_the_wrong_kernel_of_the_larger_case_is_told_where_the_small_one_is_like_many(tmp_path: Path) -> None:
    """Of one token, whose output is its value, zeros are those of a causal mask that lets no query see its own key."""
    (tmp_path / "none.py").write_text(
        "import numpy as np\n\n"
        "def none(model, inputs):\n"
        "    return {'output': np.zeros_like(inputs['query'])}\n",
        encoding="utf-8",
    )
    (used,) = create(f"{tmp_path / 'none.py'}:none", Settings())
    case = from_command_line("op=gqa heads=1 head_dim=1 q_values=0 k_values=0 v_values=1 present=absent")
    subject = failing.subject(case, used, None, Options(), silent)
    assert subject.result.wrong[0] != "causal-one-behind"
    line = "was shrunk from equals the result with the causal mask off by one: no query sees its own key"
    assert line in "\n".join(words.numbers(subject, {"failure": {"wrong": ["causal-one-behind"]}}))
    assert line not in "\n".join(words.numbers(subject, {"failure": {"wrong": [subject.result.wrong[0]]}}))
    assert line not in "\n".join(words.numbers(subject))


def test_a_convention_is_called_sure_only_where_the_case_before_shrinking_follows_it_too(tmp_path: Path) -> None:
    """A window of one key less, and any kernel that ignores the newest key of two: alike where there are two keys."""
    (tmp_path / "short.py").write_text(
        "import onnx\n"
        "import onnxruntime as ort\n\n"
        "def short(model, inputs):\n"
        "    graph = onnx.load_model_from_string(model)\n"
        "    (window,) = (it for it in graph.graph.node[0].attribute if it.name == 'local_window_size')\n"
        "    window.i += 1\n"
        "    session = ort.InferenceSession(graph.SerializeToString())\n"
        "    return dict(zip([it.name for it in session.get_outputs()], session.run(None, inputs)))\n",
        encoding="utf-8",
    )
    (used,) = create(f"{tmp_path / 'short.py'}:short", Settings())
    case = from_command_line("op=gqa q_len=4 window=2 heads=2 kv_heads=1 head_dim=16")
    subject = failing.subject(case, used, None, Options(), silent)
    assert subject.result.convention is not None
    told = {
        wrong: "\n".join(words.numbers(subject, {"failure": {"wrong": [wrong]}}))
        for wrong in (*subject.result.wrong, "zeros")
    }
    assert "in this smallest case only, and so perhaps by chance, like another convention" in told["zeros"]
    assert "shrunk from is alike" in told["window-one-long"]
    assert "by chance" not in told["window-one-long"]


def test_a_step_of_a_session_is_bundled_by_itself(kernels: Path, tmp_path: Path) -> None:
    case = from_command_line("op=gqa heads=2 kv_heads=1 head_dim=16 steps=2-1x2")
    path = tmp_path / "later.py"
    path.write_text(
        "import numpy as np\n\n"
        "def late(model, inputs):\n"
        "    new, past = inputs['query'].shape[1], inputs['seqlens_k'].max() + 1\n"
        "    import onnxruntime as ort\n"
        "    session = ort.InferenceSession(model)\n"
        "    names = [it.name for it in session.get_outputs()]\n"
        "    found = dict(zip(names, session.run(names, inputs)))\n"
        "    return found | {'output': found['output'] + np.float32(past >= 4)}\n",
        encoding="utf-8",
    )
    bundle = made(tmp_path / "b", f"{path}:late", case)
    assert bundle.rerun.shows
    (loaded,) = load([bundle.folder / "case.yaml"])
    assert session(loaded).digest == session(case).digest
    graph = onnx.load(bundle.folder / "model.onnx").graph
    past = next(it for it in graph.input if it.name == "past_key")
    assert [dim.dim_value for dim in past.type.tensor_type.shape.dim] == [1, 1, 3, 16]


SECOND = "op=gqa heads=2 kv_heads=1 head_dim=16 steps=1-2-1"
"""Its first step sees one key, so that its output is a value, exactly; later ones round."""


def strict(folder: Path, text: str) -> Scenario:
    """A session within a tolerance that nothing keeps where numbers round."""
    axes = ", ".join(word.replace("=", ": ") for word in text.split() if not word.startswith("steps"))
    (folder / "strict.yaml").write_text(
        f"scenarios:\n  - {{name: strict, {axes}, tolerance: {{max_abs: 1.0e-12}}, "
        "steps: [{q_len: 1}, {q_len: 2}, {q_len: 1}]}\n",
        encoding="utf-8",
    )
    (found,) = load([folder / "strict.yaml"])
    return found


def test_a_failure_that_shows_only_behind_an_earlier_step_is_shown_behind_it(kernels: Path, tmp_path: Path) -> None:
    """What the first call left where nobody looks is taken up by the second; by itself the second finds nothing."""
    case = from_command_line("op=gqa capacity=3 heads=1 head_dim=1 steps=1-1-1")
    bundle = made(tmp_path / "b", f"{CALLABLES / 'sessions.py'}:leaves_something_behind", case)
    assert bundle.rerun.shows, bundle.rerun.output
    assert "call 2 of 2" in bundle.rerun.output
    assert {"model.onnx", "model-1.onnx", "inputs-1.npz", "expected-1.npz"} <= set(bundle.files)
    (loaded,) = load([bundle.folder / "case.yaml"])
    assert session(loaded).digest == session(case).digest
    assert "steps 1-1-1" in (bundle.folder / "issue.md").read_text(encoding="utf-8")
    kernel = bundle.folder / "kernel" / "sessions.py"
    text = kernel.read_text(encoding="utf-8")
    kernel.write_text(text.replace("(before[:, :, past] == 7.0).all()", "False"), encoding="utf-8")
    assert again(bundle) == 0
    alone = made(bundle.folder, f"{kernels}:zeros", from_command_line(f"{SMALL} present=absent"))
    assert alone.rerun.shows
    assert not list(bundle.folder.glob("*-1.*"))


def test_what_a_function_remembers_from_call_to_call_is_remembered_in_its_script(tmp_path: Path) -> None:
    path = tmp_path / "remembers.py"
    path.write_text(
        "import onnxruntime as ort\n"
        "CALLS = []\n\n"
        "def later(model, inputs):\n"
        "    CALLS.append(model)\n"
        "    if len(CALLS) > 1:\n"
        "        raise ValueError('not a second time')\n"
        "    session = ort.InferenceSession(model)\n"
        "    return dict(zip([it.name for it in session.get_outputs()], session.run(None, inputs)))\n",
        encoding="utf-8",
    )
    bundle = made(tmp_path / "b", f"{path}:later", from_command_line(SECOND))
    assert bundle.rerun.shows, bundle.rerun.output
    assert "call 2 of 2" in bundle.rerun.output
    assert "not a second time" in bundle.rerun.output


@pytest.mark.parametrize(
    ("backend", "text"),
    [
        ("ort-cpu", SECOND),
        ("onnx-ref", SECOND.replace("op=gqa", "op=attention")),
        pytest.param("wgsl", SECOND, marks=pytest.mark.slow),
        pytest.param("wgsl", SECOND.replace("head_dim=16", "head_dim=200"), marks=pytest.mark.slow),
    ],
)
def test_every_runtime_can_run_several_calls(
    backend: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step fails by itself as well, which is not looked at here, so that the script of a session is seen."""
    monkeypatch.setattr(failing, "_alike", lambda *_: False)
    bundle = made(tmp_path / "b", backend, strict(tmp_path, text))
    assert bundle.rerun.shows, bundle.rerun.output
    assert "call 2 of 2" in bundle.rerun.output
    script_text = (bundle.folder / "repro.py").read_text(encoding="utf-8")
    assert "import attncheck" not in script_text
    assert ("inputs-1.npz" in script_text) is ("200" in text)
    told = [line for line in bundle.rerun.output.splitlines() if line.startswith("off by")]
    assert 1e-12 < float(told[0].split()[2].rstrip(",")) < 1e-5


def test_what_passes_is_not_bundled(tmp_path: Path) -> None:
    with pytest.raises(failing.NotFailing, match="it does not fail on ort-cpu: pass"):
        made(tmp_path / "b", "ort-cpu", from_command_line(SMALL))
    assert not (tmp_path / "b").exists()


def test_a_backend_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="there is no file"):
        made(tmp_path / "b", f"{tmp_path / 'none.py'}:f", from_command_line(SMALL))


def test_a_folder_with_other_things_in_it_is_left_alone(kernels: Path, tmp_path: Path) -> None:
    with pytest.raises(contents.NoPlace, match="other things in it"):
        made(tmp_path, f"{kernels}:zeros", from_command_line(f"{SMALL} present=absent"))
    left = {it.name for it in tmp_path.iterdir()} - {"__pycache__"}
    assert left == {"a_package", "and_this.py", "beside_it.py", "kernels.py"}


def test_outputs_that_lie_where_an_input_does_are_bound_so(tmp_path: Path) -> None:
    """A tolerance that nothing keeps makes a right runtime fail, so that the script is seen to get so far."""
    text = (
        "scenarios:\n  - {name: strict, op: sparse, q_len: 1, past_len: 3, heads: 2, kv_heads: 1, head_dim: 8, "
        "tolerance: {max_abs: 1.0e-12}}\n"
    )
    (tmp_path / "strict.yaml").write_text(text, encoding="utf-8")
    (case,) = load([tmp_path / "strict.yaml"])
    bundle = made(tmp_path / "b", "ort-cpu", case)
    assert bundle.rerun.shows, bundle.rerun.output
    assert "binding.bind_ortvalue_output(name, memory[SHARED[name]])" in (bundle.folder / "repro.py").read_text()
    assert 'tolerance: {"max_abs": 1e-12}' in (bundle.folder / "case.yaml").read_text()


def test_a_provider_from_a_plugin_is_registered_and_nothing_else_may_run() -> None:
    """The text alone: no software device takes the plugin, so that what it shows needs a GPU."""
    case = from_command_line("op=gqa q_len=1 past_len=20 heads=4 kv_heads=2 head_dim=16 present=absent")
    (cpu,) = create("ort-cpu", Settings())
    seen = failing.subject(case, cpu, None, Options(), silent)
    options = {"provider": "WebGpuExecutionProvider", "plugin": "onnxruntime_ep_webgpu", "provider_options": {}}
    subject = replace(
        seen,
        launch=Launch("ort", options),
        hello=Hello(
            {"onnxruntime": "1.32.0", "onnxruntime_ep_webgpu": "0.4.0"},
            {"provider": "WebGpuExecutionProvider", "plugin": True},
        ),
    )
    text = script.text(subject, script.piece(subject), "title", "about", "3.11.7")
    compile(text, "repro.py", "exec")
    assert "import onnxruntime_ep_webgpu as PLUGIN" in text
    assert 'ort.register_execution_provider_library("plugin", PLUGIN.get_library_path())' in text
    assert '"session.disable_cpu_ep_fallback", "1"' in text
    assert script.piece(subject).needs == ("numpy", "onnx", "onnxruntime-ep-webgpu==0.4.0", "onnxruntime==1.32.0")
    found = contents.versions(subject, script.piece(subject).needs)
    assert found == subject.hello.versions, "a package once, by whichever name"
    held = replace(subject, required=("onnxruntime==1.32.0", "onnxruntime-ep-webgpu==0.4.0"))
    assert script.piece(held).needs == ("numpy", "onnx", "onnxruntime==1.32.0", "onnxruntime-ep-webgpu==0.4.0")


def test_a_runtime_that_only_pythonpath_knows_is_found_by_the_script_and_attncheck_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {name: tmp_path / name for name in ("runtime", "checkout", "bundle")}
    for place in places.values():
        place.mkdir()
    (places["runtime"] / "only_here.py").write_text("", encoding="utf-8")
    (places["checkout"] / "attncheck").mkdir()
    path = places["bundle"] / "repro.py"
    path.write_text("import only_here, sys\nsys.exit(1)\n", encoding="utf-8")
    assert "No module named 'only_here'" in fresh.rerun(path, None, {}).output
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(places[name]) for name in ("runtime", "checkout")))
    assert fresh.rerun(path, None, {}).output == ""
    (places["runtime"] / "numpy.py").write_text("", encoding="utf-8")
    path.write_text("import numpy\nprint(numpy.__file__)\n", encoding="utf-8")
    assert fresh.rerun(path, None, {}).output.strip() == str(places["runtime"] / "numpy.py"), "as any Python has it"
    path.write_text("import os, sys\nprint(os.environ['PYTHONPATH'])\nimport attncheck\n", encoding="utf-8")
    told = fresh.rerun(path, None, {}).output
    assert str(places["runtime"]) in told.splitlines()
    assert "attncheck is kept away" in told
