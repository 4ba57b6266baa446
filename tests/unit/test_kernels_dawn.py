"""The shaders on Dawn, whose compiler is Tint: every prelude compiles, and every feature computes the same there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from attncheck import shipped
from attncheck.backends.base import Hello
from attncheck.backends.registry import Settings, create
from attncheck.backends.tables import Table
from attncheck.backends.wgsl import limits
from attncheck.compare import judge
from attncheck.engine.worker import Worker
from attncheck.kernels import planner
from attncheck.oracle.attention import answer
from tests import swiftshader
from tests.device import FAST_KERNELS, KERNELS, Work, failing, work
from tests.drawing import scenario
from tests.dressing import STAGES, masked, packed, scored, sunk

pytestmark = pytest.mark.slow

SECONDS = 60.0


@pytest.fixture(scope="module")
def dawn() -> Iterator[Worker]:
    table = Table("wgsl-dawn", environment=swiftshader.environment())
    (backend,) = create("wgsl-dawn", Settings(tables={"wgsl-dawn": table}))
    worker = Worker.started(backend.launch())
    backend.check(worker.hello)
    yield worker
    worker.close()


def wrongs(worker: Worker, given: Work) -> list[str]:
    hello: Hello = worker.hello
    answers = answer(given.problem, given.inputs)
    found = []
    for kernel in (*KERNELS, *FAST_KERNELS):
        plan = planner.plan(given.problem, kernel, limits(hello), shipped.shaders_dir())
        handle = worker.prepare({"plan": asdict(plan), "outputs": given.outputs}, SECONDS)
        outputs = worker.run(handle, given.inputs, SECONDS)["outputs"]
        found += failing(judge.differences(given.problem, answers, outputs, "f32", kernel))
        worker.release(handle, SECONDS)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rotary", [None, "half"])
def test_every_feature_is_right_on_dawn(dawn: Worker, dtype: str, rotary: str | None) -> None:
    if dtype == "float16" and not dawn.hello.device["f16"]:
        pytest.skip("SwiftShader has no f16")
    random = np.random.default_rng(2)
    axes: dict[str, Any] = {"q_len": (10, 10), "past_len": (37, 20), "head_dim": 8, "rotary": rotary, "softcap": 5.0}
    plain = work(scenario(dtype=dtype, **axes))
    holes = random.random((2, 4, 10, 47)) > 0.4
    holes[:, 1, 3:5] = False
    bias = np.where(holes, random.standard_normal(holes.shape), -np.inf)
    each = [
        plain,
        packed(plain),
        masked(masked(plain, holes[:, :1, :, :33]), bias),
        sunk(plain, random.standard_normal(4)),
    ]
    each += [masked(plain, bias).with_problem(empty_row="mean"), sunk(masked(plain, holes), None, smooth=True)]
    each += [scored(masked(sunk(plain, random.standard_normal(4)), bias), stage) for stage in STAGES]
    for given in each:
        assert not wrongs(dawn, given)
