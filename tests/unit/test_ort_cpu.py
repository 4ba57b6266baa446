"""The reference, ONNX Runtime's CPU provider, agrees with the oracle and refuses what its file declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attncheck.backends.base import BackendUnavailable, Evidence, Hello
from attncheck.backends.ort_cpu import PROVIDER, OrtCpu
from attncheck.compare import judge
from attncheck.engine.worker import Worker, WorkerFailed
from attncheck.graph import read, write
from attncheck.graph.case import Case
from attncheck.graph.session import Bound
from attncheck.oracle import ask
from attncheck.problem import Arrays
from attncheck.scenario import from_command_line
from attncheck.scenario.model import Scenario
from attncheck.vocabulary import Verdict
from tests.drawing import (
    attention_scenarios,
    featured_scenarios,
    projected_scenarios,
    rotary_scenarios,
    scenario,
    scenarios,
)

BACKEND = OrtCpu()
WINDOW_CACHE = "op=gqa past_len=3 window=4 window_cache=true"
PADDED_CHUNK = "op=gqa query_seqlens=true q_len=1+5 past_len=9+3 rotary=half head_dim=16"


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker.started(BACKEND.launch())
    yield worker
    worker.close()


@pytest.mark.parametrize(
    "taken",
    [
        scenario(op="attention", opset=25, bias="1xT"),
        scenario(op="attention", opset=25, bias="SxT", mask_len=3),
        scenario(op="attention", opset=25, past_len=(3,), present=False),
        scenario(op="attention", opset=24, q_len=(1,), past_len=(3,), bias="1xT"),
        scenario(op="mha", v_head_dim=8),
        scenario(op="mha", past_len=(3,), capacity=7),
        scenario(op="mha", kv_len=(9,), layout="bnsh", causal=False, qkv_bias=True),
        scenario(op="decoder-mha", q_len=(1,), past_len=(3,), capacity=4, bias="1x1xSxT", qkv_bias=True),
        scenario(op="decoder-mha", q_len=(1,), kv_len=(5,), scores="biased"),
        scenario(op="decoder-mha", q_len=(1,), past_len=(3,), capacity=6, dtype="float16"),
        scenario(op="ms-attention", past_len=(3,), qkv_bias=True),
        scenario(op="ms-attention", bias="1x1xSxT"),
        from_command_line(f"{WINDOW_CACHE} head_dim=48 kv_cache=int8"),
        from_command_line(f"{WINDOW_CACHE} head_dim=64 kv_cache=int4"),
        from_command_line(f"{WINDOW_CACHE} head_dim=24"),
    ],
    ids=lambda taken: f"{taken.op}-{taken.opset}",
)
def test_what_lies_beside_a_declared_refusal_is_taken(worker: Worker, taken: Scenario) -> None:
    agrees(worker, taken)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(featured_scenarios(), attention_scenarios(), projected_scenarios(("float32", "float16"))))
def test_it_agrees_with_the_oracle_on_every_feature(worker: Worker, drawn: Scenario) -> None:
    agrees(worker, drawn)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(scenarios(dtypes=("float32", "float16")))
def test_it_agrees_with_the_oracle_wherever_it_does_not_declare_a_refusal(worker: Worker, drawn: Scenario) -> None:
    agrees(worker, drawn)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rotary_scenarios(dtypes=("float32", "float16")))
def test_it_turns_as_the_oracle_does(worker: Worker, drawn: Scenario) -> None:
    agrees(worker, drawn)


def agrees(worker: Worker, drawn: Scenario) -> None:
    """Fail where ONNX Runtime takes the case and departs from the oracle."""
    case = write.build(drawn)
    problem = read.any_problem(case.model, case.inputs)
    if BACKEND.unsupported(case, problem, worker.hello) is not None:
        return
    handle = worker.prepare({"model": case.model}, 20.0)
    answer = worker.run(handle, dict(case.inputs), 20.0)
    assert answer["evidence"]["provider"] == PROVIDER
    assert judge.malformed(case.outputs, answer["outputs"]) is None
    answers = ask.answer(problem, case.inputs)
    found = judge.differences(problem, answers, answer["outputs"], BACKEND.arithmetic(problem), "", None)
    assert all(difference.passed for difference in found), max(found, key=lambda it: it.margin)


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (scenario(head_dim=12), "multiple of 8"),
        (scenario(head_dim=24, rotary="half", rotary_dim=16), "multiples of 16"),
        (scenario(head_dim=32, rotary="half", rotary_dim=8), "multiples of 16"),
        (scenario(q_len=(2, 2), past_len=(3, 5)), "only for batch 1"),
        (from_command_line("op=sparse q_len=2 head_dim=4"), "SparseAttention takes only a head_dim"),
        (scenario(past_len=(3,), query_seqlens=True, present=False), "only where the present is asked for"),
        (from_command_line("op=gqa q_len=6+33 window=4 window_cache=true"), "only with query_seqlens"),
        (from_command_line("op=gqa q_len=2+5 window=40 window_cache=true kv_cache=int8"), "only with query_seqlens"),
        (from_command_line(f"{PADDED_CHUNK} rotary_cache=10"), "shorter than total_sequence_length"),
        (from_command_line(f"{PADDED_CHUNK} rotary_cache=13"), "shorter than total_sequence_length"),
        (from_command_line("op=gqa past_len=3 kv_cache=int8 present=absent"), "only where the present is asked for"),
        (from_command_line(f"{WINDOW_CACHE} head_dim=24 kv_cache=int8"), "multiple of 16"),
        (from_command_line(f"{WINDOW_CACHE} head_dim=48 kv_cache=int4"), "32 for 4 bits"),
        (scenario(op="attention", opset=24, bias="1xT"), "broadcast over the queries"),
        (scenario(op="attention", opset=24, bias="SxT", mask_len=3), "shorter than the keys"),
        (scenario(op="attention", opset=23, bias="Sx1"), "shorter than the keys"),
        (scenario(op="attention", opset=24, past_len=(3,), present=False), "only where the present is asked for"),
        (scenario(op="rotary", rotary="half", q_len=(4,), rotary_cache=3, positions="scattered"), "no more rows than"),
        (scenario(op="attention", opset=25, window=3, softmax_precision="bfloat16"), "softmax_precision of bfloat16"),
        (scenario(op="mha", past_len=(3,), v_head_dim=8), "only where v_head_dim is head_dim"),
        (scenario(op="mha", past_len=(3,), capacity=9, present=False), "only where the present is asked for"),
        (scenario(op="mha", packed="qkv"), "no packed query, key and value"),
        (scenario(op="mha", packed="kv"), "nor packed key and value"),
        (scenario(op="decoder-mha", q_len=(1,), past_len=(3,)), "only where the two share a buffer"),
        (scenario(op="decoder-mha", q_len=(1,)), "only where the two share a buffer"),
        (scenario(op="decoder-mha", q_len=(1,), past_len=(3,), capacity=5, packed="qkv"), "no packed query"),
        (scenario(op="decoder-mha", q_len=(1,), kv_len=(5,), bias="1x1xSxT"), "no attention_bias in cross attention"),
        (scenario(op="ms-attention", past_len=(3,), bias="1x1xSxT"), "no attention_bias beside a past"),
        (scenario(op="ms-attention", past_len=(3,), capacity=9), "no buffer that past and present share"),
        (scenario(op="ms-attention", past_len=(3,), present=False), "only where the present is asked for"),
    ],
)
def test_each_declared_refusal_is_a_real_one(worker: Worker, refused: Scenario, words: str) -> None:
    case = write.build(refused)
    reason = BACKEND.unsupported(case, read.any_problem(case.model, case.inputs), worker.hello)
    assert reason is not None
    assert words in reason
    with pytest.raises(WorkerFailed):
        worker.run(worker.prepare({"model": case.model}, 20.0), dict(case.inputs), 20.0)


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_a_mask_of_four_axes_is_refused_as_declared(worker: Worker, unidirectional: int) -> None:
    """Of as many tokens as there are, which the language does not write, and a given model may be."""
    case = write.build(from_command_line("op=ms-attention batch=2 q_len=5 mask=BxSxT causal=false"))
    proto = onnx.load_model_from_string(case.model)
    name = proto.graph.node[0].input[3]
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("unidirectional", unidirectional))
    value = next(value for value in proto.graph.input if value.name == name)
    value.CopyFrom(onnx.helper.make_tensor_value_info(name, value.type.tensor_type.elem_type, [2, 1, 5, 5]))
    inputs = {**case.inputs, name: case.inputs[name].reshape(2, 1, 5, 5)}
    four = replace(case, model=proto.SerializeToString(), inputs=inputs)
    problem = read.problem(four.model, four.inputs)
    assert problem.invalid == ""
    reason = BACKEND.unsupported(four, problem, worker.hello)
    assert reason is not None
    assert "mask_index of four axes" in reason
    with pytest.raises(WorkerFailed, match="4D"):
        worker.run(worker.prepare({"model": four.model}, 20.0), dict(four.inputs), 20.0)


def test_an_onnx_runtime_that_is_too_old_says_what_to_install() -> None:
    with pytest.raises(BackendUnavailable, match=r"1\.16\.3 is too old.*1\.20"):
        BACKEND.check(Hello({"onnxruntime": "1.16.3"}))
    BACKEND.check(Hello({"onnxruntime": "1.20.0"}))


def test_another_provider_in_the_profile_is_a_fallback() -> None:
    assert BACKEND.fallback(Evidence(PROVIDER, ("GroupQueryAttention",))) is None
    assert "WebGpuExecutionProvider" in (BACKEND.fallback(Evidence("WebGpuExecutionProvider")) or "")


def test_a_step_bound_to_the_present_of_the_last_one_continues_its_past(worker: Worker) -> None:
    first = write.build(scenario(q_len=(3,), past_len=(4,)))
    second = write.build(scenario(q_len=(1,), past_len=(7,)))
    worker.run(worker.prepare({"model": first.model}, 20.0), dict(first.inputs), 20.0)
    fed = {name: array for name, array in second.inputs.items() if not name.startswith("past_")}
    bind = {"past_key": Bound("present_key", 7), "past_value": Bound("present_value", 7)}
    bound = worker.run(worker.prepare({"model": second.model}, 20.0), fed, 20.0, bind)["outputs"]
    key = np.concatenate([first.inputs["past_key"], _heads(first.inputs["key"]), _heads(second.inputs["key"])], axis=2)
    np.testing.assert_array_equal(bound["present_key"], key)


def test_a_binding_to_an_output_that_was_not_there_is_an_error(worker: Worker) -> None:
    case = write.build(scenario(q_len=(1,), past_len=(7,)))
    handle = worker.prepare({"model": case.model}, 20.0)
    with pytest.raises(WorkerFailed, match="no output yesterday of a last run"):
        worker.run(handle, dict(case.inputs), 20.0, {"past_key": Bound("yesterday", 7)})


def test_a_binding_gives_as_many_slots_as_it_says_from_the_first_on(worker: Worker) -> None:
    first = write.build(scenario(q_len=(3,), past_len=(4,)))
    rewound = write.build(scenario(q_len=(1,), past_len=(5,)))
    worker.run(worker.prepare({"model": first.model}, 20.0), dict(first.inputs), 20.0)
    fed = {name: array for name, array in rewound.inputs.items() if not name.startswith("past_")}
    handle = worker.prepare({"model": rewound.model}, 20.0)
    bind = {"past_key": Bound("present_key", 5), "past_value": Bound("present_value", 5)}
    bound = worker.run(handle, fed, 20.0, bind)["outputs"]
    kept = _heads(first.inputs["key"])[:, :, :1]
    key = np.concatenate([first.inputs["past_key"], kept, _heads(rewound.inputs["key"])], axis=2)
    np.testing.assert_array_equal(bound["present_key"], key)
    with pytest.raises(WorkerFailed, match="which has no 7 slots"):
        worker.run(handle, fed, 20.0, {"past_key": Bound("present_key", 7)})


def _heads(new: NDArray[np.generic]) -> NDArray[np.generic]:
    """[1, rows, 2 * 16] as [1, 2, rows, 16]."""
    return new.reshape(1, -1, 2, 16).transpose(0, 2, 1, 3)


def edited(case: Case, **changes: Any) -> bytes:
    """The case's model with its node's operator, or its IR version, replaced."""
    model = onnx.load_model_from_string(case.model)
    if "op" in changes:
        model.graph.node[0].op_type = changes["op"]
    model.ir_version = changes.get("ir_version", model.ir_version)
    return bytes(model.SerializeToString())


def test_only_an_answer_to_the_graph_is_a_refusal_of_it() -> None:
    """Nor is it of a model that cannot be loaded, an operator that has no kernel or is not there, missing arrays."""
    case = write.build(scenario(rotary="half", rotary_dim=16, rotary_cache=0))
    paged = write.build(scenario(op="paged", dtype="float16"))
    unrelated: tuple[tuple[bytes, Arrays], ...] = (
        (edited(case, op="NoSuchAttention"), case.inputs),
        (paged.model, paged.inputs),
        (edited(case, ir_version=200), case.inputs),
        (b"no model", case.inputs),
        (case.model, {}),
    )
    worker = Worker.started(OrtCpu().launch())
    try:
        for model, inputs, refused in ((case.model, case.inputs, True), *((*each, False) for each in unrelated)):
            with pytest.raises(WorkerFailed) as told:
                worker.run(worker.prepare({"model": model}, 60.0), inputs, 60.0)
            assert (told.value.verdict, told.value.refused) == (Verdict.ERROR, refused), told.value.message
    finally:
        worker.close()
