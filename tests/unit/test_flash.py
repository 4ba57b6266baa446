"""The flash kernel in both forms: tiles of every class, their borders, what it lacks, loops that software allows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attncheck.kernels import flash
from attncheck.kernels.draft import Limits
from attncheck.kernels.policy import Choice, Policy
from attncheck.kernels.roster import ROSTER
from attncheck.scenario.model import Kernel
from tests.device import Work, assert_same_bits, compute, differences, failing, plan, work
from tests.drawing import scenario
from tests.dressing import alone, masked

SOFTWARE = Limits(binding_bytes=128 << 20, workgroups=65535, f16=True, workgroup_bytes=32 << 10, software=True)
HARDWARE = replace(SOFTWARE, software=False)
FORMS: dict[Kernel, flash.Form] = {"flash": flash.SMALL, "flash-large": flash.LARGE}
KEYS = 64

both_forms = pytest.mark.parametrize("kernel", FORMS)


def right(given: Work, kernel: Kernel) -> bool:
    return not failing(differences(given, kernel))


@both_forms
@pytest.mark.parametrize(
    "axes",
    [
        {"q_len": (150,), "past_len": (70,)},
        {"q_len": (150,), "past_len": (70,), "window": 33},
        {"q_len": (64,), "past_len": (64,), "window": 64},
        {"q_len": (90,), "op": "mha", "kv_heads": 4, "causal": False},
        {"q_len": (100, 7, 64), "softcap": 3.0},
        {"q_len": (1, 1), "past_len": (130, 3), "heads": 6},
        {"q_len": (150,), "head_dim": 100, "heads": 2},
    ],
    ids=["causal", "window", "window-of-a-tile", "open", "ragged-and-capped", "decode", "wide"],
)
def test_empty_partial_and_full_tiles(axes: dict[str, Any], kernel: Kernel) -> None:
    assert right(work(scenario(data="rising-scores", **axes)), kernel)


@both_forms
@pytest.mark.parametrize("keys", [KEYS - 1, KEYS, KEYS + 1])
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_borders_of_tiles(beyond: int, keys: int, kernel: Kernel) -> None:
    """Two query heads a KV head: so many rows fill a tile, or do not."""
    rows = 32 * FORMS[kernel].parts + beyond
    assert right(work(scenario(q_len=(rows,), past_len=(KEYS + keys - rows,))), kernel)


@both_forms
def test_masks_make_tiles_partial(kernel: Kernel) -> None:
    given = work(scenario(q_len=(70,), past_len=(70,)))
    holes = np.random.default_rng(3).random((1, 4, 70, 140)) > 0.5
    holes[:, :, 5] = False
    bias = np.where(holes, np.random.default_rng(4).standard_normal(holes.shape), -np.inf)
    assert right(masked(given, bias), kernel)
    assert right(masked(given, bias).with_problem(empty_row="mean"), kernel)


@both_forms
def test_an_answer_does_not_depend_on_the_other_members_of_the_batch(kernel: Kernel) -> None:
    together = work(scenario(q_len=(40, 40), past_len=(90, 31), data="large-logits"))
    given = alone(together, work(scenario(q_len=(40,), past_len=(90,), data="large-logits")))
    assert_same_bits(compute(together, kernel)["output"][:1], compute(given, kernel)["output"])


@both_forms
def test_what_it_lacks_online_takes(kernel: Kernel) -> None:
    given = work(scenario(head_dim=6))
    instead = f"{kernel} does not cover head_dim 6, no multiple of 4"
    assert Policy(kernel).choose(given.problem, HARDWARE) == Choice(("online",), instead)
    assert "online" in {dispatch.shader for dispatch in plan(given, kernel).dispatches}
    assert right(given, kernel)
    narrow = replace(work(scenario()).problem, v_head_dim=10)
    assert ROSTER[kernel].lacks(narrow, HARDWARE) == "v_head_dim 10, no multiple of 4"


def test_the_large_form_wants_more_of_an_adapter_and_covers_narrower_heads() -> None:
    common = replace(HARDWARE, workgroup_bytes=16 << 10)
    given = work(scenario()).problem
    assert flash.SMALL.lacks(given, common) is None
    assert flash.LARGE.lacks(given, HARDWARE) is None
    assert flash.LARGE.lacks(given, common) == "an adapter with less than 24576 bytes of workgroup memory"
    wide = replace(given, v_head_dim=132)
    assert flash.SMALL.lacks(wide, HARDWARE) is None
    assert flash.LARGE.lacks(wide, HARDWARE) == "v_head_dim 132, above 128"


@both_forms
def test_more_keys_than_software_loops_over_are_for_online_there(kernel: Kernel) -> None:
    form = FORMS[kernel]
    most = form.most_keys(work(scenario(head_dim=4)).problem)
    fitting = work(scenario(q_len=(1,), past_len=(most - 1,), heads=1, kv_heads=1, head_dim=4)).problem
    beyond = work(scenario(q_len=(1,), past_len=(most,), heads=1, kv_heads=1, head_dim=4)).problem
    assert form.lacks(fitting, SOFTWARE) is None
    assert form.lacks(beyond, SOFTWARE) == f"kv_len {most + 1}, above {most} on a software adapter"
    assert form.lacks(beyond, HARDWARE) is None


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "head_dim"), [("flash", 4), ("flash", 128), ("flash", 256), ("flash-large", 128)])
def test_the_most_keys_that_software_loops_over_are_all_counted(kernel: Kernel, head_dim: int) -> None:
    """llvmpipe silently ends the loops of an invocation after 65,535 rounds; the last keys weigh most here."""
    most = FORMS[kernel].most_keys(work(scenario(head_dim=head_dim)).problem)
    drawn = scenario(q_len=(1,), past_len=(most - 1,), heads=1, kv_heads=1, head_dim=head_dim, data="rising-scores")
    assert right(work(drawn), kernel)


@pytest.mark.parametrize(("head_dim", "columns"), [(4, 2), (64, 2), (68, 4), (128, 4), (132, 8), (256, 8)])
def test_heads_are_rounded_up_to_three_widths(head_dim: int, columns: int) -> None:
    (prelude,) = {
        dispatch.prelude
        for dispatch in plan(work(scenario(head_dim=head_dim)), "flash").dispatches
        if dispatch.shader == "flash"
    }
    assert re.findall(r"const VALUE_COLUMNS = (\d+)u;", prelude) == [str(columns)]
