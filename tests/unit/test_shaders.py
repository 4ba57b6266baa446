"""The shipped shaders: each compiles with every prelude in use, keeps its contract and WebGPU's default limits."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from attncheck import shipped
from attncheck.kernels import flash
from attncheck.kernels.attention import MAX_HEAD_DIM
from attncheck.kernels.matrix import DIMS, DIRECTIVES
from attncheck.kernels.matrix import WORKGROUP_BYTES as MATRIX_BYTES
from attncheck.kernels.roster import ROSTER
from attncheck.kernels.sources import SHADERS
from attncheck.kernels.sources import prelude as written
from attncheck.kernels.uniforms import fields
from tests import matrices
from tests.device import FAST_KERNELS, KERNELS, has_f16, plan, runtime, work
from tests.drawing import scenario
from tests.dressing import STAGES, masked, packed, scored, sunk
from tests.tint import complaints

FILES = sorted(shipped.shaders_dir().glob("*.wgsl"))
MATRIX = set(matrices.SHADERS)
"""Those that need matrix units, which no adapter here has: Tint compiles them for none, and they run emulated."""
every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
every_shader = pytest.mark.parametrize(
    "file", [file for file in FILES if file.stem not in MATRIX], ids=lambda file: file.stem
)

WORKGROUP_BYTES = 16384
INVOCATIONS = 256
STORAGE_BUFFERS = 8


@cache
def specialisations() -> frozenset[tuple[str, str]]:
    """(shader, prelude) of every plan: each dtype, with rotary and without, with a past, packed, with every feature."""
    plain = [
        work(scenario(dtype=dtype, rotary=rotary, past_len=(3,)))
        for dtype in ("float32", "float16")
        for rotary in (None, "half")
    ]
    cached = [
        work(scenario(dtype=dtype, past_len=(9,), window=3, window_cache=True, qk_norm="plain"))
        for dtype in ("float32", "float16")
    ]
    merged = [
        work(scenario(dtype=dtype, op="ms-attention", past_len=(3,), qkv_bias=True)) for dtype in ("float32", "float16")
    ]
    featured = [
        scored(sunk(masked(packed(given), mask), np.zeros(4), smooth=True), stage)
        for given in plain
        for mask in (np.ones((4, 7), np.bool_), np.ones((4, 7)))
        for stage in STAGES
    ]
    linear = [work(scenario(op="linear", dtype=dtype, past_state="given")) for dtype in ("float32", "float16")]
    paged = [work(scenario(op="paged", dtype="float16", past_len=(3,)))]
    wide = [work(scenario(dtype=dtype, head_dim=dim)) for dtype in ("float32", "float16") for dim in (128, 256)]
    return frozenset(
        (dispatch.shader, dispatch.prelude)
        for given in (*plain, *cached, *merged, *linear, *paged, *wide, *featured)
        for kernel in (*KERNELS, *FAST_KERNELS)
        for dispatch in plan(given, kernel).dispatches
    )


def code(file: Path) -> str:
    return re.sub(r"//[^\n]*", "", file.read_text(encoding="utf-8"))


def test_the_shipped_files_are_the_shaders_that_plans_name() -> None:
    assert [file.stem for file in FILES] == sorted(SHADERS)
    assert {shader for shader, _ in specialisations()} == set(SHADERS) - MATRIX


def test_every_shader_compiles_with_every_prelude_in_use() -> None:
    for shader, prelude in sorted(specialisations()):
        if "f16" in prelude and not has_f16():
            continue
        text = (shipped.shaders_dir() / f"{shader}.wgsl").read_text(encoding="utf-8")
        bindings = len(re.findall(r"@binding\(", text))
        runtime()._pipeline(prelude, text, shader, bindings - 1)


def test_shaders_for_matrix_units_compile_in_every_width_within_the_memory_that_is_asked_for() -> None:
    """By Tint, for no adapter: its only complaint may be about WebGPU's default memory, and says how much it takes."""
    dims = [{"HEAD_DIM": head_dim, "V_DIM": v_head_dim} for head_dim in DIMS for v_head_dim in DIMS]
    texts = [(shipped.shaders_dir() / f"{shader}.wgsl").read_text(encoding="utf-8") for shader in sorted(MATRIX)]
    for said in complaints([written({}, each, DIRECTIVES) + text for text in texts for each in dims]):
        taken = re.match(r"The total use of workgroup storage \((\d+) bytes\) is larger", said)
        assert not said or taken, said
        assert not taken or int(taken.group(1)) <= MATRIX_BYTES


def test_shapes_and_features_specialise_nothing() -> None:
    """Pipelines cost most of a cold start: a few for all cases there are."""
    assert len([shader for shader, _ in specialisations() if not fast(shader)]) <= 26


@pytest.mark.parametrize(("shader", "widths"), [("flash", 5), ("decode", 3)])
def test_a_fast_kernel_is_specialised_by_few_values(shader: str, widths: int) -> None:
    """Three widths of a head, two in flash's large form, in two dtypes, a second of compiling each; in float16 queries
    may be in float32."""
    dtypes = 3 if ROSTER[shader].as_given else 2
    assert 0 < len([each for each, _ in specialisations() if each == shader]) <= widths * dtypes


def test_only_enable_aliases_and_the_constants_of_fast_kernels_are_prepended() -> None:
    for shader, prelude in specialisations():
        constants = r"(const [A-Z_]+ = \d+u;\n)*" if fast(shader) else ""
        assert re.fullmatch(r"(enable f16;\n)?(alias \w+ = (f32|f16);\n)*" + constants, prelude)


def fast(shader: str) -> bool:
    return shader.startswith(FAST_KERNELS)


@every_file
def test_a_shader_opens_with_its_contract(file: Path) -> None:
    contract = file.read_text(encoding="utf-8").split("\n\n")[0]
    assert contract.startswith(f"// {file.name}: ")
    assert all(line.startswith("// ") for line in contract.splitlines())
    for word in ("prelude", "bindings", "workgroup", "numerics"):
        assert f"// {word} " in contract


@every_file
def test_a_shader_takes_its_sizes_from_uniforms(file: Path) -> None:
    text = code(file)
    assert fields(text, str(file))
    assert "arrayLength" not in text
    assert "override " not in text


@every_shader
def test_a_shader_does_not_know_subgroups(file: Path) -> None:
    assert "subgroup" not in code(file)


@every_shader
def test_a_shader_keeps_to_the_default_limits(file: Path) -> None:
    text = code(file)
    assert len(re.findall(r"var<storage", text)) <= STORAGE_BUFFERS
    for prelude in {prelude for shader, prelude in specialisations() if shader == file.stem}:
        assert invocations(prelude + text) <= INVOCATIONS
        large = "const PARTS = 2u;" in prelude
        assert workgroup_bytes(prelude + text) <= (flash.LARGE.workgroup_bytes if large else WORKGROUP_BYTES)


def invocations(text: str) -> int:
    """Invocations of a workgroup."""
    (size,) = re.findall(r"@workgroup_size\((\w+)\)", text)
    return number(size, text)


def workgroup_bytes(text: str) -> int:
    """Bytes of the workgroup variables, from the constants of the text; Visible is four words."""
    element = {"f32": 4, "u32": 4, "Visible": 16, "vec4<f32>": 16, "vec4<u32>": 16, "atomic<u32>": 4}
    declared = re.findall(r"var<workgroup> \w+: array<([\w<>]+), ([^>]+)>;", text)
    assert len(re.findall("var<workgroup>", text)) == len(declared)
    return sum(element[kind] * number(count, text) for kind, count in declared)


def number(expression: str, text: str) -> int:
    """A whole number in the words of WGSL: sums, products and quotients of numbers and constants."""
    constants = dict(re.findall(r"const (\w+) = ([^;]+);", text))

    def quotient(word: str) -> int:
        first, *divisors = (factor(each.strip()) for each in word.split("/"))
        for each in divisors:
            first //= each
        return first

    def factor(word: str) -> int:
        digits = word.removesuffix("u")
        return int(digits) if digits.isdigit() else number(constants[word], text)

    return sum(math.prod(quotient(word) for word in term.split("*")) for term in expression.split("+"))


def test_the_widest_head_fits_the_online_tile() -> None:
    assert f"const MAX_DIM = {MAX_HEAD_DIM}u;" in (shipped.shaders_dir() / "online.wgsl").read_text(encoding="utf-8")


def test_all_kernels_cap_scores_by_the_same_words() -> None:
    """WGSL has no include: the twin functions must stay twins."""

    def twins(shader: str) -> list[str]:
        text = (shipped.shaders_dir() / f"{shader}.wgsl").read_text(encoding="utf-8")
        return re.findall(r"(?ms)^fn (?:accurate_tanh|log2_score)\b.*?^}", text)

    assert len(twins("online")) == 2
    assert twins("online") == twins("naive_scores")
    assert twins("online")[:1] == twins("flash") == twins("decode") == twins("matrix")


def test_both_forms_of_the_matrix_kernel_treat_scores_by_the_same_words() -> None:
    def twins(shader: str) -> list[str]:
        return re.findall(
            r"(?ms)^fn (?:accurate_tanh|log2_scores|seen_scores|weighing|head_of)\b.*?^}",
            (shipped.shaders_dir() / f"{shader}.wgsl").read_text(encoding="utf-8"),
        )

    assert len(twins("matrix")) == 5
    assert sorted(twins("matrix")) == sorted(twins("matrix_decode"))


def test_all_shaders_that_know_hidden_keys_agree_on_their_number() -> None:
    def numbers(name: str) -> set[str]:
        texts = [code(file) for file in FILES]
        return {value for text in texts for value in re.findall(rf"const {name}: f32 = ([^;]+);", text)}

    assert numbers("HIDDEN") == {"-1.5e38"}
    assert numbers("LIMIT") == {"-1.4e38"}
    assert numbers("LOG2E") == {"1.4426950408889634"}


def test_no_difference_of_two_scores_overflows() -> None:
    """The largest bias in log2 units against the number of hidden keys, and against its own opposite."""
    (largest,) = re.findall(r"const LARGEST: f32 = ([^;]+);", code(shipped.shaders_dir() / "mask.wgsl"))
    score = float(largest) * math.log2(math.e)
    assert score < 1.4e38
    assert 1.5e38 + score < float(np.finfo(np.float32).max)
    assert 2.0 * score < float(np.finfo(np.float32).max)
