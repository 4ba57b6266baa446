"""``attncheck extract``: the attention of whole models as scenarios and one-node models, which then run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from attncheck.scenario import load
from attncheck.vocabulary import ExitCode
from tests import models
from tests.cli.frozen import Ran, assert_golden, attncheck, settled

MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "decoder": lambda: models.decoder(window=5),
    "multi-head": lambda: models.fused_bert(models.bert(), multi_head=True),
    "packed-weights": lambda: models.fused_bert(models.bert(), multi_head=False),
    "nested": models.nested,
    "spelt-out": models.bert,
}


def save(folder: Path, name: str, proto: onnx.ModelProto | None = None) -> str:
    onnx.save(MODELS[name]() if proto is None else proto, folder / f"{name}.onnx")
    return f"{name}.onnx"


def extract(folder: Path, *words: str) -> Ran:
    return attncheck("extract", *words, folder=folder, width=120)


def axes(folder: Path, name: str) -> dict[str, Mapping[str, str]]:
    """The axes of every scenario that was written, by its name."""
    found = load([folder / f"{name}-attention" / "scenarios.yaml"])
    return {case.id.rpartition("::")[2]: dict(case.written) for case in found}


def arrays(folder: Path, name: str) -> dict[str, NDArray[Any]]:
    with np.load(folder / f"{name}.inputs.npz") as file:
        return {key: file[key] for key in file.files}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["decoder", "nested", "multi-head", "packed-weights"])
def test_what_is_written_of_a_model_runs_on_every_backend(folder: Path, name: str) -> None:
    assert extract(folder, save(folder, name), "--tensors").code == ExitCode.OK
    ran = attncheck("run", f"{name}-attention", "--backend", "wgsl", "--backend", "ort-cpu", folder=folder)
    assert ran.code == ExitCode.OK, ran.text
    assert "failed" not in ran.stdout


@pytest.mark.parametrize("name", MODELS)
def test_what_is_said_of_a_model_reads_as_frozen(folder: Path, name: str) -> None:
    ran = extract(folder, save(folder, name))
    written = folder / f"{name}-attention" / "scenarios.yaml"
    content = written.read_text(encoding="utf-8") if written.exists() else ""
    assert_golden(f"extract-{name}.txt", settled(ran.text) + (f"--- scenarios.yaml\n{content}" if content else ""))


def test_layers_that_are_called_alike_are_one_scenario_with_their_real_axes(folder: Path) -> None:
    extract(folder, save(folder, "decoder"), "--dim", "batch_size=3", "--dim", "sequence_length=1")
    ((name, said),) = axes(folder, "decoder").items()
    assert name == "model-layers.0-attn-GroupQueryAttention"
    assert said == {
        "op": "gqa", "dtype": "float32", "batch": "3", "q_len": "1", "past_len": "8", "heads": "4", "kv_heads": "2",
        "head_dim": "16", "scale": "0.25", "window": "5", "packed": "qkv", "rotary": "half", "rotary_dim": "16",
        "rotary_cache": "64", "dims": "symbolic",
    }  # fmt: skip


def test_tensors_are_those_that_the_node_is_given_in_the_model(folder: Path) -> None:
    """The function of `nested` doubles its input for the query, and hands it on as key and value."""
    given = np.random.default_rng(3).normal(size=(2, 4, 6, 8)).astype(np.float32)
    np.savez(folder / "x.npz", x=given)
    extract(folder, save(folder, "nested"), "--inputs", "x.npz", "--tensors")
    query, key, value = arrays(folder / "nested-attention", "layers.0-attend").values()
    np.testing.assert_array_equal(query, 2 * given)
    np.testing.assert_array_equal(key, given)
    np.testing.assert_array_equal(value, given)


@pytest.mark.parametrize("taken", [True, False])
def test_of_an_if_both_branches_are_extracted_and_the_one_that_is_not_taken_is_noted(folder: Path, taken: bool) -> None:
    save(folder, "nested", models.nested(taken))
    ran = extract(folder, "nested.onnx")
    found = axes(folder, "nested")
    assert found["cached-then_branch-with"]["scale"] == "0.5"
    assert found["cached-else_branch-without"]["scale"] == "0.25"
    left = "cached/else_branch/without" if taken else "cached/then_branch/with"
    note = "note: it stands in the branch of an If that these inputs do not take; this is what it would be given"
    assert f"{note}\n    1 node: {left}\n" in ran.stdout
    assert ran.stdout.count(note) == 1
    assert "inside of Loop loop, whose tensors cannot be captured\n    1 node: loop/body/again\n" in ran.stdout


@pytest.mark.parametrize("taken", [True, False])
def test_attention_spelt_out_in_sub_graphs_and_by_einsum_is_told_with_its_place(folder: Path, taken: bool) -> None:
    save(folder, "inside", models.spelt_inside(taken))
    ran = extract(folder, "inside.onnx")
    assert (ran.code, "5 spelt-out attentions" in ran.stdout) == (ExitCode.NOTHING, True), ran.text
    case = "op=attention dtype=float32 batch=1 heads=2 head_dim=8 q_len=3 kv_len=5 causal=false"
    alike = ran.stdout.partition(f"    attncheck run --case '{case}'\n")[0]
    for softmax in ("of_letters", "cached/then_branch/soft", "cached/else_branch/soft"):
        assert f"Softmax {softmax}, " in alike
    for kind in ("Loop", "Scan"):
        name = kind.lower()
        told = f"Softmax {name}/body/soft, MatMul mean\n    no case: it stands inside of {kind} {name}, whose tensors"
        assert told in ran.stdout
    listed = extract(folder, "inside.onnx", "--list").stdout
    assert listed.count("spelt out: ") == 5
    assert "Softmax scan/body/soft" in listed


def test_nodes_before_one_that_the_runtime_refuses_are_written_and_those_behind_are_named(folder: Path) -> None:
    """ONNX Runtime's GroupQueryAttention turns no head of 8, so that nothing behind the first one is computed."""
    save(folder, "small", models.decoder(layers=3, dim=8))
    ran = extract(folder, "small.onnx", "--tensors")
    assert ran.code == ExitCode.OK, ran.text
    assert list(axes(folder, "small")) == ["model-layers.0-attn-GroupQueryAttention"]
    assert arrays(folder / "small-attention", "model-layers.0-attn-GroupQueryAttention")
    assert "does not run the model as far as its attention" in " ".join(ran.stdout.split())
    assert "2 nodes: /model/layers.1/attn/GroupQueryAttention, /model/layers.2/" in " ".join(ran.stdout.split())


def test_external_data_in_the_models_folder_is_used(folder: Path) -> None:
    (folder / "deep").mkdir()
    models.external(models.decoder(), folder / "deep" / "ext.onnx")
    ran = extract(folder, "deep/ext.onnx", "--tensors")
    assert ran.code == ExitCode.OK, ran.text
    assert arrays(folder / "ext-attention", "model-layers.0-attn-GroupQueryAttention")


@pytest.mark.parametrize("location", ["../secret.bin", "{folder}/secret.bin", "link.bin"])
def test_external_data_outside_of_the_models_folder_is_refused(folder: Path, location: str) -> None:
    (folder / "inside").mkdir()
    proto = models.decoder()
    weight = next(it for it in proto.graph.initializer if it.name == "embed")
    (folder / "secret.bin").write_bytes(weight.raw_data)
    (folder / "inside" / "link.bin").symlink_to(folder / "secret.bin")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value=location.format(folder=folder))
    onnx.save(proto, folder / "inside" / "m.onnx")
    ran = extract(folder, "inside/m.onnx")
    assert ran.code == ExitCode.USAGE
    assert "outside of the model's folder" in ran.stderr
    assert not (folder / "m-attention").exists()


@pytest.mark.slow
def test_a_folder_of_test_data_feeds_a_model_as_an_archive_does(folder: Path) -> None:
    given = {"x": np.random.default_rng(3).normal(size=(2, 4, 6, 8)).astype(np.float32)}
    save(folder, "nested")
    np.savez(folder / "x.npz", allow_pickle=False, **given)
    for name in ("named", "numbered", "npy"):
        (folder / name).mkdir()
    (folder / "named" / "input_0.pb").write_bytes(numpy_helper.from_array(given["x"], "x").SerializeToString())
    (folder / "numbered" / "input_0.pb").write_bytes(numpy_helper.from_array(given["x"]).SerializeToString())
    np.save(folder / "npy" / "x.npy", given["x"])
    found = []
    for source in ("x.npz", "named", "numbered", "npy"):
        ran = extract(folder, "nested.onnx", "--inputs", source, "--tensors", "--out", f"of-{source}")
        assert ran.code == ExitCode.OK, ran.text
        found.append((folder / f"of-{source}" / "layers.0-attend.inputs.npz").read_bytes())
    assert len(set(found)) == 1


def test_a_past_may_be_empty(folder: Path) -> None:
    ran = extract(folder, save(folder, "decoder"), "--dim", "past_sequence_length=0")
    assert ran.code == ExitCode.OK, ran.text
    ((_, said),) = axes(folder, "decoder").items()
    assert (said["q_len"], said["past_len"], said["past"]) == ("8", "0", "empty")


def test_of_nodes_that_are_chosen_it_is_told_of_how_many(folder: Path) -> None:
    ran = extract(folder, save(folder, "nested"), "--node", "layers.1/*")
    assert "nested.onnx: 1 of 5 attention nodes, 1 distinct\n" in ran.stdout


def layers(folder: Path, *masks: NDArray[Any]) -> str:
    """A model of as many Attention nodes, each with a mask that the model holds."""
    names = [f"mask.{layer}" for layer in range(len(masks))]
    nodes = [
        helper.make_node("Attention", ["x" if layer == 0 else f"y.{layer - 1}", "k", "v", mask], [f"y.{layer}"],
                         name=f"attend.{layer}")
        for layer, mask in enumerate(names)
    ]  # fmt: skip
    inputs = [models.value(name, [1, 2, 4, 8]) for name in "xkv"]
    held = [numpy_helper.from_array(mask, name) for name, mask in zip(names, masks, strict=True)]
    graph = helper.make_graph(nodes, "g", inputs, [models.value(nodes[-1].output[0], None)], held)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    return save(folder, "layers", proto)


def test_masks_are_told_apart_by_the_keys_that_they_hide(folder: Path) -> None:
    """A causal triangle is said; of a window that the model holds as a mask too, only the shape is, which is told."""
    triangle, window = np.tri(4, dtype=bool), np.tri(4, dtype=bool) & ~np.tri(4, k=-2, dtype=bool)
    lowest = np.where(triangle, 0.0, -np.inf).astype(np.float32)
    ran = extract(folder, layers(folder, triangle, window, triangle, lowest), "--tensors")
    written = (folder / "layers-attention" / "scenarios.yaml").read_text(encoding="utf-8")
    assert_golden("extract-masks.txt", f"{settled(ran.text)}--- scenarios.yaml\n{written}")
    again = attncheck("run", "layers-attention", "--backend", "wgsl", folder=folder)
    assert again.code == ExitCode.OK, again.text


def test_with_tensors_each_of_the_nodes_called_alike_is_a_model(folder: Path) -> None:
    """Each with the query that it is given: what the node before it gives."""
    extract(folder, layers(folder, *[np.tri(4, dtype=bool)] * 3), "--tensors")
    files = sorted(path.name for path in (folder / "layers-attention").glob("*.onnx"))
    assert files == ["attend.0.onnx", "attend.1.onnx", "attend.2.onnx"]
    queries = [next(iter(arrays(folder / "layers-attention", f"attend.{layer}").values())) for layer in range(3)]
    assert len({it.tobytes() for it in queries}) == 3


def test_files_that_are_there_are_overwritten_only_when_asked_and_then_told(folder: Path) -> None:
    save(folder, "nested")
    extract(folder, "nested.onnx")
    kept = folder / "nested-attention" / "scenarios.yaml"
    kept.write_text("mine", encoding="utf-8")
    again = extract(folder, "nested.onnx")
    assert again.code == ExitCode.USAGE
    assert "scenarios.yaml is there already; --force overwrites" in again.stderr
    assert kept.read_text(encoding="utf-8") == "mine"
    forced = extract(folder, "nested.onnx", "--force")
    assert "1 file of nested-attention overwritten: scenarios.yaml" in forced.stderr
    assert kept.read_text(encoding="utf-8") != "mine"


def test_nodes_are_chosen_by_their_path(folder: Path) -> None:
    save(folder, "nested")
    assert extract(folder, "nested.onnx", "--node", "layers.1/*").code == ExitCode.OK
    assert list(axes(folder, "nested")) == ["layers.1-attend"]


def test_the_nodes_of_a_model_are_listed_without_running_it(folder: Path) -> None:
    listed = "".join(extract(folder, save(folder, name), "--list").stdout for name in ("nested", "spelt-out"))
    assert_golden("extract-list.txt", listed)
    assert not (folder / "nested-attention").exists()


def unsayable(folder: Path) -> tuple[str, ...]:
    """What hidden keys have added to their scores, other than the operator's own -10000."""
    node = helper.make_node(
        "MultiHeadAttention",
        ["q", "k", "v", "", "lengths"],
        ["y"],
        name="odd",
        domain=models.MICROSOFT,
        num_heads=2,
        mask_filter_value=-20000.0,
    )
    lengths = numpy_helper.from_array(np.array([3, 3], np.int32), "lengths")
    inputs = [models.value(name, [2, 3, 16]) for name in "qkv"]
    graph = helper.make_graph([node], "g", inputs, [models.value("y", None)], [lengths])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(models.MICROSOFT, 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), folder / "odd.onnx")
    return ("odd.onnx",)


def test_a_node_that_the_language_cannot_say_is_a_model_with_the_reason_and_runs(folder: Path) -> None:
    ran = extract(folder, *unsayable(folder))
    assert_golden("extract-unsayable.txt", settled(ran.text))
    again = attncheck("run", "odd-attention", "--backend", "ort-cpu", "--reference", "none", folder=folder)
    assert again.code == ExitCode.OK, again.text
    assert "1 passed" in again.stdout


def test_a_folders_models_are_fed_with_the_arrays_beside_them_and_their_ids_select_them(folder: Path) -> None:
    extract(folder, *unsayable(folder))
    (only,) = attncheck("run", "odd-attention", "--list", folder=folder).stdout.split()
    assert only == "odd-attention/odd.onnx::MultiHeadAttention"
    shown = attncheck("show", only, folder=folder, width=200).stdout
    assert "fed with odd-attention/odd.inputs.npz" in shown
    other = attncheck("run", "odd-attention", "--seed", "0", "--list", folder=folder).stdout.split()
    assert other == ["odd-attention/odd.onnx::MultiHeadAttention@seed=0"]
    assert "generated from seed 0" in attncheck("show", *other, folder=folder).stdout
    changed = attncheck("run", "odd-attention", "--set", "head_dim=8", folder=folder)
    assert (changed.code, changed.stdout) == (ExitCode.USAGE, "")


def looping(folder: Path) -> tuple[str, ...]:
    """Attention behind a Loop that does not end within anybody's patience."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["go"]), helper.make_node("Sin", ["s"], ["t"])],
        "body",
        [models.value("i", [], models.INT64), models.value("going", [], models.BOOL), models.value("s", [1, 2, 3, 8])],
        [models.value("go", [], models.BOOL), models.value("t", [1, 2, 3, 8])],
    )
    trips = numpy_helper.from_array(np.array(2**60), "trips")
    nodes = [
        helper.make_node("Loop", ["trips", "", "x"], ["y"], name="loop", body=body),
        helper.make_node("Attention", ["y", "y", "y"], ["z"], name="attend"),
    ]
    graph = helper.make_graph(nodes, "g", [models.value("x", [1, 2, 3, 8])], [models.value("z", None)], [trips])
    imports = [helper.make_opsetid("", 23)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=11), folder / "m.onnx")
    return ("m.onnx", "--time-limit", "2")


def unknown_dimension(folder: Path) -> tuple[str, ...]:
    proto = models.bert()
    for it in proto.graph.input:
        it.type.tensor_type.shape.dim[0].dim_param = "n"
        it.type.tensor_type.shape.dim[1].dim_param = "m"
    return (save(folder, "m", proto),)


def unknown_integers(folder: Path) -> tuple[str, ...]:
    proto = models.nested()
    proto.graph.node.insert(0, helper.make_node("Gather", ["rows", "which"], ["x"], name="choose"))
    proto.graph.input[0].name = "rows"
    proto.graph.input.append(models.value("which", [2], models.INT64))
    return (save(folder, "m", proto),)


def fed_wrongly(folder: Path) -> tuple[str, ...]:
    np.savez(folder / "x.npz", x=np.zeros((2, 4, 6, 7), np.float32))
    return (save(folder, "m", models.nested()), "--inputs", "x.npz")


def of_no_arrays(folder: Path) -> tuple[str, ...]:
    (folder / "data").mkdir()
    return (save(folder, "m", models.nested()), "--inputs", "data")


def not_runnable(folder: Path) -> tuple[str, ...]:
    proto = models.decoder()
    proto.graph.node[0].op_type = "ReduceTo42"
    return (save(folder, "m", proto),)


def without_attention(folder: Path) -> tuple[str, ...]:
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [models.value("x", [2])], [models.value("y", [2])])
    return (save(folder, "m", helper.make_model(graph, ir_version=10)),)


MISTAKES: Mapping[str, Callable[[Path], tuple[str, ...]]] = {
    "missing": lambda _: ("nowhere.onnx",),
    "not-in-time": looping,
    "unknown-dimension": unknown_dimension,
    "unknown-integers": unknown_integers,
    "no-such-dimension": lambda folder: (save(folder, "m", models.bert()), "--dim", "bach_size=2"),
    "total-that-does-not-fit": lambda folder: (
        save(folder, "m", models.decoder(layers=1)), "--dim", "total_sequence_length=3"
    ),
    "no-batch": lambda folder: (save(folder, "m", models.decoder(layers=1)), "--dim", "batch_size=0"),
    "shape": fed_wrongly,
    "no-arrays": of_no_arrays,
    "inputs-and-seed": lambda folder: (*of_no_arrays(folder), "--seed", "1"),
    "not-runnable": not_runnable,
    "without-attention": without_attention,
    "without-attention-listed": lambda folder: (*without_attention(folder), "--list"),
    "no-such-node": lambda folder: (save(folder, "m", models.nested()), "--node", "nobody*"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_cannot_be_extracted_is_said_and_nothing_is_written(folder: Path, mistake: str) -> None:
    ran = extract(folder, *MISTAKES[mistake](folder))
    assert_golden(f"extract-{mistake}.txt", settled(ran.text))
    assert not (folder / "m-attention").exists()


RECOGNISER = "ch_PP-OCRv4_rec_infer.onnx"


@pytest.mark.provisioning
def test_a_recogniser_that_a_registry_ships_has_two_attentions_spelt_out_whose_case_runs(folder: Path) -> None:
    """PP-OCRv4 of rapidocr-onnxruntime: 10 MB of convolutions with two small transformer blocks behind them."""
    wheel = ("rapidocr-onnxruntime==1.4.4", "--no-deps", "--only-binary", ":all:", "--dest", str(folder))
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *wheel], check=True, timeout=600)
    (package,) = folder.glob("rapidocr_onnxruntime-*.whl")
    with zipfile.ZipFile(package) as held:
        (folder / RECOGNISER).write_bytes(held.read(f"rapidocr_onnxruntime/models/{RECOGNISER}"))
    sizes = {"p2o.DynamicDimension.0": 1, "?": 48, "p2o.DynamicDimension.1": 320}
    ran = extract(folder, RECOGNISER, *(word for name, size in sizes.items() for word in ("--dim", f"{name}={size}")))
    assert ran.code == ExitCode.NOTHING, ran.text
    assert "0 attention nodes; 2 spelt-out attentions" in ran.text
    (command,) = set(re.findall(r"attncheck (run --case '.+')", ran.text))
    assert "heads=8 head_dim=15 q_len=40 causal=false" in command
    again = attncheck(*shlex.split(command), "--backend", "wgsl", "--backend", "ort-cpu", folder=folder)
    assert again.code == ExitCode.OK, again.text
    assert "failed" not in again.stdout
