"""``attncheck run model.onnx``: a user's own model on every backend, and what is said of one that cannot be run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from attncheck.vocabulary import ExitCode
from tests import models
from tests.cli.frozen import Ran, assert_golden, attncheck, settled

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
Value = onnx.ValueInfoProto


def value(name: str, *shape: int | str | None, dtype: int = FLOAT) -> Value:
    return helper.make_tensor_value_info(name, dtype, list(shape))


QKV = [value(name, 2, 4, 6, 8) for name in "QKV"]


def attention(names: Sequence[str] = "QKV", outputs: tuple[str, ...] = ("Y",), **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Attention", list(names), list(outputs), **attributes)


def model(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[Value],
    initializers: list[TensorProto] | None = None,
    outputs: tuple[str, ...] = ("Y",),
) -> Path:
    asked = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "graph", inputs, asked, initializers or [])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11), path)
    return path


def arrays(**changes: NDArray[Any] | None) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    made: dict[str, NDArray[Any] | None] = {name: rng.normal(size=(2, 4, 6, 8)).astype(np.float32) for name in "QKV"}
    return {name: array for name, array in {**made, **changes}.items() if array is not None}


def save(folder: Path, named: Mapping[str, NDArray[Any]]) -> None:
    np.savez(folder / "m.npz", allow_pickle=False, **named)


def run(folder: Path, *words: str, backend: str = "ort-cpu") -> Ran:
    return attncheck("run", *words, "--backend", backend, "--reference", "none", folder=folder)


@pytest.mark.parametrize("backend", ["ort-cpu", "onnx-ref", "wgsl"])
def test_a_model_of_one_node_runs_on_every_backend_with_and_without_arrays(folder: Path, backend: str) -> None:
    model(folder / "m.onnx", [attention(is_causal=1)], QKV)
    save(folder, arrays())
    for feed in ((), ("--inputs", "m.npz")):
        ran = run(folder, "m.onnx", *feed, backend=backend)
        assert ran.code == ExitCode.OK, ran.text
        assert "1 passed" in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["ort-cpu", "onnx-ref", "wgsl"])
def test_arrays_that_the_graph_holds_are_not_asked_for(folder: Path, backend: str) -> None:
    key = numpy_helper.from_array(arrays()["K"], "K")
    model(folder / "m.onnx", [attention()], [QKV[0], QKV[2]], [key])
    ran = run(folder, "m.onnx", backend=backend)
    assert ran.code == ExitCode.OK, ran.text


@pytest.mark.slow
def test_an_id_of_a_report_can_be_given_back_with_its_seed(folder: Path) -> None:
    model(folder / "my model.onnx", [attention()], QKV)
    listed = attncheck("run", "my model.onnx", "--seed", "7", "--list", folder=folder)
    assert listed.stdout == "my%20model.onnx::Attention@seed=7\n"
    again = attncheck("run", listed.stdout.strip(), "--list", folder=folder)
    assert again.stdout == listed.stdout
    assert run(folder, listed.stdout.strip()).code == ExitCode.OK


def digest(folder: Path, *words: str) -> str:
    (found,) = re.findall(r"digest (\w+)", attncheck("show", *words, folder=folder).stdout)
    return str(found)


@pytest.mark.slow
def test_another_seed_is_other_data_and_the_same_seed_the_same(folder: Path) -> None:
    model(folder / "m.onnx", [attention()], QKV)
    assert digest(folder, "m.onnx") == digest(folder, "m.onnx") == digest(folder, "m.onnx", "--seed", "0")
    assert digest(folder, "m.onnx") != digest(folder, "m.onnx", "--seed", "1")


@pytest.mark.slow
def test_symbolic_dimensions_are_said_by_name(folder: Path) -> None:
    model(folder / "m.onnx", [attention()], [value(name, "batch", 4, 6, 8) for name in "QKV"])
    assert run(folder, "m.onnx", "--dim", "batch=3").code == ExitCode.OK
    shown = attncheck("show", "m.onnx", "--dim", "batch=3", folder=folder)
    assert "Q  float32 [3, 4, 6, 8]" in shown.stdout


@pytest.mark.slow
def test_a_past_of_no_tokens_is_a_size(folder: Path) -> None:
    node = attention(["Q", "K", "V", "", "past_K", "past_V"], outputs=("Y", "present_K", "present_V"))
    pasts = [value(name, 2, 4, "past", 8) for name in ("past_K", "past_V")]
    model(folder / "m.onnx", [node], [*QKV, *pasts], outputs=("Y", "present_K", "present_V"))
    ran = run(folder, "m.onnx", "--dim", "past=0", backend="wgsl")
    assert ran.code == ExitCode.OK, ran.text
    assert "past_K  float32 [2, 4, 0, 8]" in attncheck("show", "m.onnx", "--dim", "past=0", folder=folder).stdout


@pytest.mark.slow
def test_a_model_and_scenarios_run_together_and_keywords_choose_among_them(folder: Path) -> None:
    model(folder / "m.onnx", [attention()], QKV)
    listed = attncheck("run", "m.onnx", "edges.yaml", "--list", folder=folder).stdout.split()
    assert listed[0] == "m.onnx::Attention"
    assert len(listed) == 4
    only = attncheck("run", "m.onnx", "edges.yaml", "-k", "attention or plain", "--list", folder=folder).stdout.split()
    assert only == ["m.onnx::Attention", "edges.yaml::plain"]
    tagged = attncheck("run", "m.onnx", "edges.yaml", "--tag", "fast", "--list", folder=folder).stdout.split()
    assert len(tagged) == 2
    assert all(case.startswith("edges.yaml") for case in tagged)


def test_show_says_what_is_read_of_a_model(folder: Path) -> None:
    model(folder / "m.onnx", [attention(is_causal=1)], QKV)
    ran = attncheck("show", "m.onnx", folder=folder)
    assert_golden("show-model.txt", settled(ran.text, [(re.compile("digest [0-9a-f]{16}"), "digest DIGEST")]))


def test_a_model_that_its_operator_forbids_must_be_refused(folder: Path) -> None:
    """A mask shorter than nonpad_kv_seqlen, as its text forbids."""
    inputs = [*QKV, value("mask", 6, 3), value("lengths", 2, dtype=INT64)]
    node = helper.make_node("Attention", ["Q", "K", "V", "mask", "", "", "lengths"], ["Y"])
    model(folder / "m.onnx", [node], inputs)
    save(folder, arrays(mask=np.zeros((6, 3), np.float32), lengths=np.array([6, 6])))
    ran = run(folder, "m.onnx", "--inputs", "m.npz", backend="wgsl")
    assert "unsupported" in ran.stdout
    assert "attn_mask is shorter than the largest nonpad_kv_seqlen" in " ".join(ran.stdout.split())


def feed(loose: bool = False, **changes: NDArray[Any] | None) -> Callable[[Path], tuple[str, ...]]:
    """Arrays for a model of fixed sizes, or `loose`, of any."""

    def make(folder: Path) -> tuple[str, ...]:
        unsized = [value(name, None, None, None, None) for name in "QKV"]
        model(folder / "m.onnx", [attention()], unsized if loose else QKV)
        save(folder, arrays(**changes))
        return ("m.onnx", "--inputs", "m.npz")

    return make


def graph(nodes: list[onnx.NodeProto], inputs: list[Value] = QKV, **more: Any) -> Callable[[Path], tuple[str, ...]]:
    def make(folder: Path) -> tuple[str, ...]:
        model(folder / "m.onnx", nodes, inputs, **more)
        return ("m.onnx",)

    return make


def text(content: bytes, *words: str) -> Callable[[Path], tuple[str, ...]]:
    def make(folder: Path) -> tuple[str, ...]:
        (folder / "m.onnx").write_bytes(content)
        return words or ("m.onnx",)

    return make


def outside(location: str) -> Callable[[Path], tuple[str, ...]]:
    def make(folder: Path) -> tuple[str, ...]:
        key = numpy_helper.from_array(arrays()["K"], "K")
        (folder / "inside").mkdir()
        (folder / "secret.bin").write_bytes(key.raw_data)
        (folder / "inside" / "link.bin").symlink_to(folder / "secret.bin")
        size = len(key.raw_data)
        key.ClearField("raw_data")
        key.data_location = TensorProto.EXTERNAL
        for name, said in (("location", location.format(folder=folder)), ("offset", "0"), ("length", str(size))):
            key.external_data.add(key=name, value=said)
        model(folder / "inside" / "m.onnx", [attention()], [QKV[0], QKV[2]], [key])
        return ("inside/m.onnx",)

    return make


def words(*more: str) -> Callable[[Path], tuple[str, ...]]:
    def make(folder: Path) -> tuple[str, ...]:
        model(folder / "m.onnx", [attention()], [value(name, "batch", 4, 6, 8) for name in "QKV"])
        save(folder, arrays())
        np.save(folder / "one.npy", arrays()["Q"])
        return more

    return make


def saved(proto: onnx.ModelProto) -> Callable[[Path], tuple[str, ...]]:
    def make(folder: Path) -> tuple[str, ...]:
        onnx.save(proto, folder / "m.onnx")
        return ("m.onnx",)

    return make


def in_a_branch() -> onnx.ModelProto:
    """ai.onnx Attention inside of an If, and nowhere else."""
    asked = [helper.make_tensor_value_info("Y", FLOAT, None)]
    then, other = (helper.make_graph([attention()], name, [], asked) for name in ("then", "else"))
    node = helper.make_node("If", ["cached"], ["Y"], then_branch=then, else_branch=other)
    cached = helper.make_tensor_value_info("cached", TensorProto.BOOL, [])
    graph = helper.make_graph([node], "graph", [*QKV, cached], asked)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


MISTAKES: Mapping[str, Callable[[Path], tuple[str, ...]]] = {
    "not-a-model": text(b"once upon a time\n"),
    "empty": text(b""),
    "missing": text(b"", "nowhere.onnx"),
    "no-attention": graph([helper.make_node("MatMul", ["Q", "K"], ["Y"])]),
    "in-a-branch": saved(in_a_branch()),
    "in-a-function": saved(models.nested()),
    "spelt-out": saved(models.bert(layers=1)),
    "two": graph([attention(outputs=("X",)), attention("XKV")]),
    "among-others": graph([attention(outputs=("X",)), helper.make_node("Relu", ["X"], ["Y"])]),
    "not-valid": graph([attention("QKW")]),
    "output-not-asked": graph([helper.make_node("Attention", ["Q", "K", "V"], ["Y", "present_key"])]),
    "ranks": graph([attention()], [value("Q", 8), value("K", 8), value("V", 8)]),
    "ranks-with-heads": graph(
        [attention(q_num_heads=2, kv_num_heads=2)], [value("Q", 8), value("K", 8), value("V", 8)]
    ),
    "heads": graph([attention()], [QKV[0], value("K", 2, 3, 6, 8), value("V", 2, 3, 6, 8)]),
    "head-dims": graph([attention()], [QKV[0], value("K", 2, 4, 6, 9), QKV[2]]),
    "rows": graph([attention()], [QKV[0], QKV[1], value("V", 2, 4, 7, 8)]),
    "mask": graph(
        [helper.make_node("Attention", ["Q", "K", "V", "M"], ["Y"])], [*QKV, value("M", 3, 1, 1, 6)]
    ),
    "positions": graph(
        [helper.make_node("Attention", ["Q", "K", "V", "", "", "", "L"], ["Y"])], [*QKV, value("L", 3, dtype=INT64)]
    ),
    "double": graph([attention()], [value(name, 2, 4, 6, 8, dtype=TensorProto.DOUBLE) for name in "QKV"]),
    "lengths-of-3d": graph([attention()], [value(name, 2, 6, 32) for name in "QKV"]),
    "external-absolute": outside("{folder}/secret.bin"),
    "external-above": outside("../secret.bin"),
    "external-link": outside("link.bin"),
    "external-missing": outside("nothing.bin"),
    "symbolic": words("m.onnx"),
    "dim-spelt-badly": words("m.onnx", "--dim", "batch"),
    "dim-foreign": words("m.onnx", "--dim", "batch=2", "--dim", "nope=1"),
    "dim-of-nothing": words("m.onnx", "--dim", "batch=0"),
    "dim-without-model": words("edges.yaml", "--dim", "batch=1"),
    "inputs-without-model": words("edges.yaml", "--inputs", "m.npz"),
    "inputs-and-seed": words("m.onnx", "--inputs", "m.npz", "--seed", "1"),
    "set": words("m.onnx", "--set", "q_len=1"),
    "inputs-no-npz": words("m.onnx", "--inputs", "edges.yaml"),
    "inputs-npy": words("m.onnx", "--inputs", "one.npy"),
    "other-name": words("m.onnx::GroupQueryAttention"),
    "too-large": words("m.onnx", "--dim", "batch=100000000"),
    "input-missing": feed(K=None),
    "input-foreign": feed(extra=np.zeros(1)),
    "input-rank": feed(Q=np.zeros((2, 6, 8), np.float32)),
    "input-shape": feed(Q=np.zeros((2, 4, 6, 9), np.float32)),
    "input-empty": feed(**{name: np.zeros((2, 4, 0, 8), np.float32) for name in "QKV"}, loose=True),
    "input-dtype": feed(Q=np.zeros((2, 4, 6, 8), np.float16)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be_run_is_said_and_nothing_is_run(folder: Path, mistake: str) -> None:
    ran = attncheck("run", *MISTAKES[mistake](folder), folder=folder)
    assert (ran.code, ran.stdout) == (ExitCode.USAGE, "")
    assert_golden(f"model-{mistake}.txt", ran.text.replace(str(folder), "FOLDER"))


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_a_padding_mask_that_leaves_no_key_is_disputed_and_what_the_reference_gives_is_named(
    folder: Path, unidirectional: int
) -> None:
    """No text says what such rows give; ONNX Runtime adds -10000 to the scores that causality leaves."""
    node = helper.make_node(
        "MultiHeadAttention", ["Q", "K", "V", "", "lengths"], ["Y"], domain="com.microsoft", num_heads=2,
        unidirectional=unidirectional,
    )  # fmt: skip
    lengths = numpy_helper.from_array(np.array([0, 5], np.int32), "lengths")
    inputs = [value(name, 2, 5, 16) for name in "QKV"]
    graph = helper.make_graph([node], "graph", inputs, [helper.make_tensor_value_info("Y", FLOAT, None)], [lengths])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "m.onnx")
    ran = run(folder, "m.onnx", "-v")
    assert ran.code == ExitCode.FAILED, ran.text
    assert "flags    1 disputed" in ran.stdout
    told = " ".join(ran.stdout.split())
    assert "another convention: it gives the softmax of the scores - 10000 (`mask_filter_value`)" in told
    assert "no text of it settles that" in told
