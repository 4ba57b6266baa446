"""Which backends a name can mean, what a table may say of one, and what each declares."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from attncheck.backends import refusals
from attncheck.backends.base import BackendUnavailable, Hello
from attncheck.backends.onnx_ref import OnnxRef
from attncheck.backends.ort import Ort
from attncheck.backends.ort_cpu import OrtCpu
from attncheck.backends.ort_webgpu import OrtWebgpu
from attncheck.backends.refusals import Refusal
from attncheck.backends.registry import FORMS, NAMES, Settings, UnknownBackend, create, kind_of
from attncheck.backends.tables import KEYS, Table, TableError, read, written
from attncheck.backends.torch_sdpa import TorchSdpa
from attncheck.graph import read as graph
from attncheck.graph import write
from attncheck.scenario.model import Scenario
from tests.drawing import scenario

BASE = Path("/base")


def refused(backend: Ort | TorchSdpa | OnnxRef, asked: Scenario, hello: Hello) -> str | None:
    case = write.build(asked)
    return backend.unsupported(case, graph.problem(case.model, case.inputs), hello)


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_name_is_a_backend_of_that_name(name: str) -> None:
    (backend,) = create(name, Settings())
    assert backend.name == name
    assert backend.launch().requirements == ()


@pytest.mark.parametrize(
    ("name", "requirement"),
    [
        ("ort-cpu@1.23.2", "onnxruntime==1.23.2"),
        ("ort-webgpu@1.27.0", "onnxruntime-webgpu==1.27.0"),
        ("wgsl@0.32.0", "wgpu==0.32.0"),
        ("wgsl-dawn@0.32.0.4", "wgpudawn==0.32.0.4"),
        ("torch@2.13.0", "torch==2.13.0"),
        ("onnx-ref@1.22.0rc1", "onnx==1.22.0rc1"),
    ],
)
def test_a_version_behind_a_name_is_a_requirement_and_a_column_of_its_own(name: str, requirement: str) -> None:
    (backend,) = create(name, Settings())
    assert backend.name == name
    assert backend.launch().requirements == (requirement,)


@pytest.mark.parametrize("name", ["ort:CUDA", "ort:CUDAExecutionProvider"])
def test_any_provider_can_be_named(name: str) -> None:
    (backend,) = create(name, Settings())
    assert backend.name == name
    assert backend.launch().options["provider"] == "CUDAExecutionProvider"


def test_a_function_is_a_column_by_its_files_name_wherever_the_file_lies() -> None:
    (backend,) = create("/some@where/kernels.py:attention", Settings())
    assert backend.name == "kernels.py:attention"
    with pytest.raises(BackendUnavailable, match=r"there is no file /some@where/kernels\.py"):
        backend.launch()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ort-gpu", "there is no backend 'ort-gpu', did you mean 'ort-cpu'?"),
        ("mine.py", "file.py:name"),
        ("ort-cpu@newest", "'newest' is not a version"),
        ("ort-cpu@", "'' is not a version"),
        ("ort:CUDA@1.23.2", "no one package"),
        ("oops@1.0", "there is no backend 'oops'"),
    ],
)
def test_a_name_that_means_nothing_is_refused_with_what_there_is(name: str, words: str) -> None:
    with pytest.raises(UnknownBackend) as caught:
        create(name, Settings())
    assert words in str(caught.value)


def test_each_of_several_adapters_is_a_lane_of_own_kernels_and_of_nothing_else() -> None:
    settings = Settings(adapters=("llvmpipe", "SwiftShader"))
    assert [it.name for it in create("wgsl", settings)] == ["wgsl[llvmpipe]", "wgsl[SwiftShader]"]
    assert [it.launch().options["adapter"] for it in create("wgsl-dawn", settings)] == ["llvmpipe", "SwiftShader"]
    assert [it.name for it in create("ort-cpu", settings)] == ["ort-cpu"]
    (alone,) = create("wgsl", Settings(adapters=("llvmpipe",)))
    assert (alone.name, alone.launch().options["adapter"]) == ("wgsl", "llvmpipe")


def test_a_table_gives_a_backend_a_name_a_place_and_options() -> None:
    table = read(
        "old",
        {
            "use": "ort-webgpu",
            "requirements": ["onnxruntime-webgpu==1.27.0"],
            "environment": {"VK_DRIVER_FILES": "/icd.json", "LEVEL": 3},
            "provider-options": {"validationMode": "full", "graph": True},
        },
        BASE,
    )
    (backend,) = create("old", Settings(tables={"old": table}))
    launch = backend.launch()
    assert backend.name == "old"
    assert launch.requirements == ("onnxruntime-webgpu==1.27.0",)
    assert launch.environment == {"VK_DRIVER_FILES": "/icd.json", "LEVEL": "3"}
    assert launch.options["provider_options"] == {"validationMode": "full", "graph": "1"}


def test_a_version_goes_before_the_tables_own_and_keeps_the_rest_of_it() -> None:
    table = Table("ort-cpu", requirements=("onnxruntime==1.20.1", "numpy<2"), environment={"A": "b"})
    (backend,) = create("ort-cpu@1.23.2", Settings(tables={"ort-cpu": table}))
    assert backend.launch().requirements == ("onnxruntime==1.23.2", "numpy<2")
    assert backend.launch().environment == {"A": "b"}


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("old", Table("ort-cpu", requirements=("onnxruntime==1.20.1", "numpy<2"), environment={"A.b": 'c "d" \\ é'})),
        ("a.b", Table("ort:CUDA", plugin="some_module", provider_options={"device_id": "1"}, device="cuda:1")),
        ("mine", Table("/kernels/mine.py:f", compute="mixed", robustness=False, adapter="NVIDIA", python="/bin/py")),
    ],
)
def test_a_table_that_is_written_is_read_back(name: str, table: Table, tmp_path: Path) -> None:
    (found,) = tomllib.loads(written(name, table))["backends"].items()
    assert found[0] == name
    assert read(name, found[1], tmp_path) == table


def test_paths_in_a_table_are_relative_to_its_file_and_words_are_not() -> None:
    assert read("mine", {"use": "kernels.py:attention"}, BASE).use == str(BASE / "kernels.py") + ":attention"
    assert read("mine", {"python": "venv/bin/python"}, BASE).python == str(BASE / "venv/bin/python")
    assert read("mine", {"python": "python3.12"}, BASE).python == "python3.12"
    assert read("mine", {"use": "ort:CUDA"}, BASE).use == "ort:CUDA"


def test_a_functions_arithmetic_is_what_its_table_promises() -> None:
    file = "kernels.py:attention"
    (exact,) = create("exact", Settings(tables={"exact": Table(file, compute="f32")}))
    (plain,) = create(file, Settings())
    case = write.build(scenario())
    problem = graph.problem(case.model, case.inputs)
    assert (exact.arithmetic(problem), plain.arithmetic(problem)) == ("f32", "native")


@pytest.mark.parametrize(
    ("raw", "key", "words"),
    [
        ({"requirement": ["x"]}, "requirement", "did you mean 'requirements'?"),
        ({"requirements": "onnxruntime"}, "requirements", "must be a list"),
        ({"requirements": ["==1.0"]}, "requirements", "no requirement"),
        ({"environment": ["A=b"]}, "environment", "must be a table"),
        ({"environment": {"A": ["b"]}}, "environment", "A must be a text or a number"),
        ({"use": 3}, "use", "must be a text"),
        ({"compute": "f16"}, "compute", "'f32' or 'mixed' or 'native'"),
        (["ort-cpu"], "", "must be a table"),
    ],
)
def test_a_mistake_in_a_table_is_told_with_its_key(raw: object, key: str, words: str) -> None:
    with pytest.raises(TableError) as caught:
        read("old", raw, BASE)
    assert caught.value.key == key
    assert words in caught.value.message


@pytest.mark.parametrize("name", ["a@b", "a:b", "1st", "a b", ""])
def test_a_table_cannot_have_a_name_that_means_something_else(name: str) -> None:
    with pytest.raises(TableError, match="cannot name a backend"):
        read(name, {"use": "ort-cpu"}, BASE)


def test_a_key_that_the_backend_does_not_take_is_refused() -> None:
    with pytest.raises(UnknownBackend, match=r"ort-cpu takes no adapter; it takes use, python, .*provider-options"):
        create("old", Settings(tables={"old": Table("ort-cpu", adapter="NVIDIA")}))


def test_a_table_that_uses_what_is_not_there_names_both() -> None:
    with pytest.raises(UnknownBackend, match="backend 'old': there is no backend 'ort-cpy', did you mean 'ort-cpu'"):
        kind_of("old", Settings(tables={"old": Table("ort-cpy")}))


@pytest.mark.parametrize(
    ("versions", "version", "holds"),
    [
        ("", "1.20.0", True),
        (">=1.22,<1.24", "1.22.0", True),
        (">=1.22,<1.24", "1.23.9", True),
        (">=1.22,<1.24", "1.24.0", False),
        (">=1.22", "1.21.1", False),
        ("<1.24", "1.23.0.dev20250101", True),
    ],
)
def test_a_refusal_holds_in_its_versions_alone(versions: str, version: str, holds: bool) -> None:
    case = write.build(scenario())
    refusal = Refusal(lambda *_: True, "it is so", versions)
    found = refusals.first(
        [refusal], case, graph.problem(case.model, case.inputs), Hello({"onnxruntime": version}), "onnxruntime"
    )
    assert found == ("it is so" if holds else None)


@pytest.mark.parametrize(
    ("backend", "versions"),
    [
        (OrtCpu(), {"onnxruntime": "1.19.2"}),
        (OrtWebgpu(), {"onnxruntime": "1.19.2"}),
        (TorchSdpa(), {"torch": "2.4.1+cpu"}),
    ],
)
def test_a_runtime_that_is_too_old_is_not_started_with(backend: Ort | TorchSdpa, versions: dict[str, str]) -> None:
    with pytest.raises(BackendUnavailable, match=r"too old.*pip install"):
        backend.check(Hello(versions))


def test_webgpu_refuses_padding_masks_and_float16_only_where_the_device_has_none() -> None:
    plain, none = Hello({"onnxruntime": "1.27.0"}), Hello({"onnxruntime": "1.27.0"}, {"refuses": {"float16": "no"}})
    ragged = scenario(op="mha", kv_heads=4, q_len=(1, 3), causal=False)
    assert refused(OrtWebgpu(), scenario(op="mha", kv_heads=4, q_len=(3, 3), causal=False), plain) is None
    assert "key_padding_mask" in (refused(OrtWebgpu(), ragged, plain) or "")
    assert refused(OrtWebgpu(), scenario(dtype="float16"), plain) is None
    assert "float16" in (refused(OrtWebgpu(), scenario(dtype="float16"), none) or "")
    assert refused(OrtWebgpu(), scenario(), none) is None


def test_torch_declares_what_its_function_has_no_argument_for() -> None:
    hello = Hello({"torch": "2.13.0+cpu"})
    assert refused(TorchSdpa(), scenario(window=2), hello) is None
    assert "softcap" in (refused(TorchSdpa(), scenario(softcap=2.0), hello) or "")
    assert "rotate" in (refused(TorchSdpa(), scenario(rotary="half"), hello) or "")


def test_a_constant_beside_the_node_changes_nothing_that_a_backend_declares() -> None:
    case = write.build(scenario(op="attention", opset=23, scale=-1.0))
    problem = graph.problem(case.model, case.inputs)
    model = onnx.load_model_from_string(case.model)
    model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["unused"], value_float=1.0))
    beside = replace(case, model=model.SerializeToString())
    assert (beside.node, beside.opset) == (case.node, 23)
    for backend, runtime in ((OrtCpu(), "onnxruntime"), (OnnxRef(), "onnx"), (OrtWebgpu(), "onnxruntime")):
        hello = Hello({runtime: "1.32.0"})
        assert backend.unsupported(beside, problem, hello) == backend.unsupported(case, problem, hello)
    reason = "Attention 23 and 24 take only a scale above 0"
    assert OrtCpu().unsupported(beside, problem, Hello({"onnxruntime": "1.32.0"})) == reason


def test_the_reference_evaluator_takes_standard_operators_alone() -> None:
    hello = Hello({"onnx": "1.23.2"}, {"opset": 25})
    assert "com.microsoft.GroupQueryAttention" in (refused(OnnxRef(), scenario(), hello) or "")
    with pytest.raises(BackendUnavailable, match="opset 22"):
        OnnxRef().check(Hello({"onnx": "1.17.0"}, {"opset": 22}))


def test_the_page_on_backends_names_each_one_and_each_key_of_a_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "backends.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| `")]
    named = [*(f"`{name}`" for name in PAGE_ORDER), *(f"`{key}`" for key in KEYS)]
    assert rows[: len(named)] == named, "behind them stand the fields that a function is given"
    assert {*NAMES, *FORMS} == set(PAGE_ORDER)


PAGE_ORDER = ("ort-cpu", "wgsl", "wgsl-dawn", "ort-webgpu", "ort:PROVIDER", "onnx-ref", "torch", "file.py:name")
