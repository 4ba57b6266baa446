"""The shipped scenarios hold what public bugs call for, and stay small."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from attncheck.scenario import Scenario, Source, load, select
from attncheck.scenario.memory import Shape, parts
from attncheck.scenario.select import HUGE, SET_APART
from attncheck.shipped import scenarios_dir

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(scenarios_dir().glob("*.yaml"))
HOSTILE = {"large-logits", "rising-scores", "huge-logit", "ties"}
THRESHOLD = 1024
EVERY = load([scenarios_dir()], base=scenarios_dir(), prefix="shipped/")
CASES = [case for case in EVERY if not set(SET_APART) & set(case.tags)]
"""What runs unless more is asked for."""
BY_HAND = [case for case in CASES if "pairs" not in case.tags]
"""Those whose every scenario is about one fault; the others are tested in test_pairs.py."""


def content(case: Scenario) -> Scenario:
    """The case without its address and words."""
    return replace(case, id="", source=Source("", 0), tags=(), about="", written=())


def features(case: Scenario) -> frozenset[str]:
    """What a path of a kernel may forget."""
    present = {
        "window": case.window is not None,
        "softcap": case.softcap > 0,
        "rotary": case.rotary is not None,
        "ragged": len(set(case.kv_len)) > 1,
        "padded": case.capacity is not None and case.capacity > max(case.kv_len),
        "one KV head": case.kv_heads == 1 < case.heads,
        "grouped heads": 1 < case.kv_heads < case.heads,
        "float16": case.dtype == "float16",
        "hostile data": case.data in HOSTILE,
        "new tokens after a past": max(case.q_len) > 1 and max(case.past_len) > 0,
        "own scale": case.scale is not None,
        "more keys than the threshold": max(case.kv_len) > THRESHOLD,
    }
    return frozenset(name for name, is_there in present.items() if is_there)


EXCLUSIVE = {frozenset({"one KV head", "grouped heads"})}
FEATURES = sorted(frozenset().union(*(features(case) for case in CASES)))


def test_there_are_the_six_files_of_the_language_and_those_of_other_operators_and_features() -> None:
    six = {"prefill", "decode", "speculative", "rotary", "window", "softcap"}
    others = {"attention", "masks", "gqa", "pairs", "projection", "rotary-alone", "linear"}
    assert {file.stem for file in FILES} >= six | others


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_names_its_schema_and_then_says_what_it_is_there_to_catch(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    schema = lines[0].removeprefix("# yaml-language-server: $schema=")
    assert (file.parent / schema).resolve() == ROOT / "docs" / "scenario.schema.json"
    opening = " ".join(line.lstrip("# ") for line in lines[1 : lines.index("defaults:")])
    assert ("Timed here:" if file.name.startswith("bench") else "Caught here:") in opening


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_is_valid_by_the_published_schema(file: Path) -> None:
    schema = json.loads((ROOT / "docs" / "scenario.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(YAML(typ="safe", pure=True).load(file))


def test_the_suite_is_large_enough_to_matter_and_small_enough_to_run_often() -> None:
    assert 100 <= len(BY_HAND) <= 600  # a hundred, of rotary, projections and linear attention, are tiny
    # Pairs of features, on sizes of a millisecond or two, of every operator that attends.
    assert len(CASES) <= 1200


def test_no_case_is_tested_twice() -> None:
    contents = [content(case) for case in CASES]
    assert [case.id for at, case in enumerate(CASES) if contents.index(content(case)) != at] == []


def test_every_scenario_says_what_it_catches() -> None:
    assert [case.id for case in CASES if not case.about] == []


def is_plain(case: Scenario) -> bool:
    """Whether MultiHeadAttention can say the case, and its file is not about GroupQueryAttention."""
    if any(len(set(step.q_len)) > 1 for step in case.steps):
        return False
    beyond = features(case) & {"window", "softcap", "rotary"} or case.capacity is not None
    return not beyond and not case.query_seqlens and case.holes in ("none", "keys") and "gqa" not in case.tags


def test_every_case_without_gqa_only_features_also_runs_as_mha() -> None:
    contents = [content(case) for case in CASES]
    plain = [case for case in BY_HAND if case.op == "gqa" and is_plain(case)]
    assert [case.id for case in plain if content(replace(case, op="mha")) not in contents] == []


NAMED: dict[str, dict[str, Any]] = {
    # name: what the table of hand-written scenarios says, values that it leaves open left out
    "prefill cold start, exact": {"batch": 1, "q": 16, "past": 0, "heads": (4, 4), "dim": 32, "capacity": None},
    "prefill cold start, padded": {"batch": 1, "q": 16, "past": 0, "heads": (4, 4), "dim": 32, "capacity": 128},
    "decode early": {"batch": 1, "q": 1, "past": 16, "heads": (4, 4), "dim": 32},
    "decode deep": {"batch": 1, "q": 1, "past": 64, "heads": (4, 4), "dim": 32},
    "speculative": {"batch": 1, "q": 4, "past": 20, "heads": (4, 4), "dim": 32},
    "batch prefill": {"batch": 4, "q": 16, "past": 0, "heads": (4, 4), "dim": 32},
    "batch decode": {"batch": 4, "q": 1, "past": 32, "heads": (4, 4), "dim": 32},
    "rotary interleaved": {
        "batch": 1, "q": 4, "past": 0, "heads": (4, 2), "dim": 16, "rotary": "interleaved", "scale": 0.25, "cache": 128
    },
    "rotary half": {"batch": 1, "q": 4, "past": 0, "heads": (4, 2), "dim": 16, "rotary": "half"},
    "rotary and window": {"batch": 1, "q": 16, "past": 0, "heads": (4, 2), "dim": 16, "rotary": "half", "window": 4},
    "all features": {
        "batch": 1, "q": 8, "past": 4, "heads": (4, 2), "dim": 16, "rotary": "half", "window": 4, "softcap": 50.0,
        "scale": 1.0
    },
}  # fmt: skip


def said(case: Scenario) -> dict[str, Any]:
    """A case in the columns of the table."""
    return {
        "batch": case.batch,
        "q": max(case.q_len),
        "past": max(case.past_len),
        "heads": (case.heads, case.kv_heads),
        "dim": case.head_dim,
        "capacity": case.capacity,
        "rotary": case.rotary,
        "cache": case.rotary_cache,
        "scale": case.scale,
        "window": case.window,
        "softcap": case.softcap,
    }


@pytest.mark.parametrize("name", NAMED)
def test_the_scenario_that_people_write_by_hand_is_there(name: str) -> None:
    wanted = NAMED[name].items()
    found = [case for case in CASES if "named" in case.tags and wanted <= said(case).items()]
    assert found
    beyond_mha = {"rotary", "window", "softcap"} & NAMED[name].keys() or NAMED[name].get("capacity")
    assert {case.op for case in found} == ({"gqa"} if beyond_mha else {"gqa", "mha"})


@pytest.mark.parametrize("pair", list(combinations(FEATURES, 2)), ids=" and ".join)
def test_each_pair_of_features_meets_in_some_case(pair: tuple[str, str]) -> None:
    together = [case.id for case in CASES if set(pair) <= features(case)]
    assert bool(together) != (frozenset(pair) in EXCLUSIVE)


def near(values: Iterable[int], block: int) -> bool:
    return bool({block - 1, block, block + 1} & set(values))


@pytest.mark.parametrize("block", [4, 8, 16, 32, 64, 128])
def test_query_and_key_counts_end_within_one_of_each_block(block: int) -> None:
    assert near((max(case.q_len) for case in CASES), block)
    assert near((max(case.kv_len) for case in CASES), block)


def test_head_dims_go_from_4_to_256_and_are_not_only_powers_of_two() -> None:
    assert {4, 8, 16, 32, 40, 64, 72, 80, 96, 128, 256} <= {case.head_dim for case in CASES}


def test_windows_lie_at_both_edges_of_the_keys() -> None:
    edges = {(case.window, max(case.kv_len)) for case in CASES if case.window and "window-edges" in case.id}
    (keys,) = {length for _, length in edges}
    assert {window for window, _ in edges} == {1, 2, 3, keys - 1, keys, keys + 1}


@pytest.mark.parametrize("lengths", ["q_len", "past_len"])
def test_ragged_batches_begin_with_the_shortest_of_three_or_more(lengths: str) -> None:
    ragged = [value for case in CASES if len(set(value := getattr(case, lengths))) > 1]
    assert ragged
    assert all(len(value) >= 3 and value[0] == min(value) for value in ragged)


def test_a_ragged_batch_has_an_entry_of_one_token() -> None:
    assert any(len(set(case.kv_len)) > 1 and min(case.kv_len) == 1 for case in CASES)


@pytest.mark.parametrize("kind", sorted(HOSTILE))
@pytest.mark.parametrize("op", ["gqa", "mha"])
def test_hostile_data_meets_each_operator(kind: str, op: str) -> None:
    assert any(case.data == kind and case.op == op for case in CASES)


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_hostile_data_lies_on_both_sides_of_the_step_to_the_online_kernel(kind: str) -> None:
    lengths = {max(case.kv_len) for case in CASES if case.data == kind}
    assert min(lengths) < THRESHOLD <= max(lengths)


def test_one_decode_goes_beyond_4096_keys_and_one_case_beyond_65535_rows() -> None:
    assert any(max(case.kv_len) > 4096 and max(case.q_len) == 1 for case in CASES)
    assert any(case.batch * case.heads * max(case.q_len) > 65_535 for case in CASES)


def test_no_key_loop_is_longer_than_a_software_gpu_runs_it() -> None:
    assert max(max(case.kv_len) for case in CASES) <= 65_535


def test_no_case_takes_more_than_200_mb() -> None:
    def size(case: Scenario) -> int:
        slots = max(*case.kv_len, case.capacity or 0)
        shape = Shape(case.dtype, case.batch, max(case.q_len), slots, case.heads, case.heads, case.head_dim)
        return sum(part.size for part in parts(shape))

    assert [case.id for case in CASES if size(case) > 200e6] == []


@pytest.mark.parametrize("style", ["half", "interleaved"])
def test_each_rotary_style_is_whole_and_partial_and_after_a_past_and_ragged(style: str) -> None:
    turned = [case for case in CASES if case.rotary == style]
    assert {case.rotary_dim == case.head_dim for case in turned} == {True, False}
    assert any(max(case.q_len) > 1 and min(case.past_len) > 0 for case in turned)
    assert any(len(set(case.kv_len)) > 1 for case in turned)


def test_a_smoke_run_is_a_handful_with_every_file() -> None:
    smoke = select(CASES, tags=["smoke"])
    assert {case.id.split("::")[0] for case in smoke} == {case.id.split("::")[0] for case in BY_HAND}
    assert len(smoke) <= 40


@pytest.mark.parametrize(("tag", "holds"), [
    ("f16", lambda case: case.dtype == "float16"),
    ("hostile", lambda case: case.data in HOSTILE),
    ("ragged", lambda case: len(set(case.kv_len)) > 1),
    ("rotary", lambda case: case.rotary is not None),
    ("softcap", lambda case: case.softcap > 0),
    ("window", lambda case: case.window is not None),
    ("large", lambda case: max(case.kv_len) > 1000 or case.batch > 1000),
])  # fmt: skip
def test_a_tag_means_what_it_says(tag: str, holds: Any) -> None:
    assert {case.id for case in BY_HAND if tag in case.tags} == {case.id for case in BY_HAND if holds(case)}


@pytest.mark.parametrize(("limit", "is_beyond"), [
    ("128 MiB in a binding", lambda it: (it.capacity or 0) * it.kv_heads * it.head_dim * 4 > 128 * 2**20),
    ("65,535 workgroups", lambda it: it.batch > 65_535),
    ("65,535 rows of a sequence", lambda it: max(it.q_len) > 65_535),
    ("65,535 keys", lambda it: max(it.kv_len) > 65_535 and it.op == "gqa"),
])  # fmt: skip
def test_one_case_beyond_each_limit_is_tagged_huge(limit: str, is_beyond: Any) -> None:
    assert any(is_beyond(case) for case in EVERY if HUGE in case.tags)
    assert not any(is_beyond(case) for case in CASES)
