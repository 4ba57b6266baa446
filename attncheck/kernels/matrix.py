"""Attention on matrix units: tiles of 128 packed query rows over all keys, or of 16 over slices of them and a merge."""

from __future__ import annotations

from attncheck.kernels.decode import MOST_ROWS
from attncheck.kernels.draft import Draft, Limits, View
from attncheck.kernels.operands import Operands
from attncheck.kernels.parts import larger
from attncheck.kernels.slices import merge, sliced, span_of, split
from attncheck.problem import Problem

ROWS = 128
"""ROWS of matrix.wgsl."""

FEW_ROWS = 16
"""ROWS of matrix_decode.wgsl."""

KEYS = 64
"""KEYS of matrix_decode.wgsl, of which a slice is a multiple."""

SLICE = 512
"""Keys of a slice, where partial results are few enough."""

WORD = 8
"""Elements of f16 in a word of the keys and values of matrix_decode.wgsl."""

DIMS = (32, 64, 128)
"""What HEAD_DIM and V_DIM may be."""

WORKGROUP_BYTES = 48 << 10
INVOCATIONS = 256

DIRECTIVES = (
    "enable f16;",
    "enable subgroups;",
    "enable chromium_experimental_subgroup_matrix;",
    "diagnostic(off, chromium.subgroup_matrix_uniformity);",
    "diagnostic(off, subgroup_uniformity);",
)


def lacks(problem: Problem, limits: Limits) -> str | None:
    """Anything but f16 of a head_dim in DIMS on matrix units that were found to be right."""
    if not limits.matrix or not limits.f16:
        return "an adapter without matrix units that WebGPU reaches (Dawn's subgroup matrices, f16, subgroups of 32)"
    if limits.workgroup_bytes < WORKGROUP_BYTES or limits.invocations < INVOCATIONS:
        return f"an adapter with less than {WORKGROUP_BYTES} bytes of workgroup memory or {INVOCATIONS} invocations"
    if problem.dtype != "float16":
        return f"dtype {problem.dtype}: the matrix units multiply float16"
    for name, dim in (("head_dim", problem.head_dim), ("v_head_dim", problem.v_head_dim)):
        if dim not in DIMS:
            return f"{name} {dim}: it has {', '.join(map(str, DIMS))}"
    if problem.rotary is not None:
        return "queries turned in float32 (rotary): the matrix units would round them"
    return None if _decodes(problem) else larger(problem, limits)


def attend(draft: Draft[Problem], given: Operands, output: View) -> None:
    """Over slices of the keys where there are few query rows of a batch entry, in one dispatch where there are more."""
    (_decode if _decodes(draft.problem) else _prefill)(draft, given, output)


def slice_of(problem: Problem) -> int:
    """Keys of a slice: by the shape of a key and its rows only, so that no length moves the borders."""
    return max(SLICE, span_of(problem, problem.group * problem.rows, KEYS))


def _decodes(problem: Problem) -> bool:
    return problem.rows <= MOST_ROWS


def _decode(draft: Draft[Problem], given: Operands, output: View) -> None:
    problem = draft.problem
    slices = sliced(draft, slice_of(problem), problem.group * problem.rows)
    params = {name: stride // WORD for name, stride in _heads(given).items()}
    split(draft, given, slices, "matrix_decode", FEW_ROWS, WORD, params, {}, _dims(problem), DIRECTIVES)
    merge(draft, given, slices, output)


def _prefill(draft: Draft[Problem], given: Operands, output: View) -> None:
    problem = draft.problem
    tiles = problem.batch * problem.kv_heads * -(-problem.group * problem.rows // ROWS)
    params: dict[str, int | float] = {
        "tiles": tiles,
        "kv_heads": problem.kv_heads,
        "head_group": problem.group,
        "rows": problem.rows,
        "mean": int(problem.averages_empty_rows),
        "scale": problem.scale,
        "softcap": problem.softcap,
    }
    params |= given.query.place("query") | output.place("output") | given.bias.params | given.sinks.params
    bindings = (
        *(given.visible, given.query.buffer, given.key.buffer, given.value.buffer),
        *(output.buffer, given.bias.buffer, given.sinks.buffer),
    )
    draft.dispatch("matrix", {}, params | _heads(given), bindings, tiles, _dims(problem), DIRECTIVES)


def _heads(given: Operands) -> dict[str, int]:
    """Where the heads of keys and values begin; rows of a present buffer follow on each other."""
    strides = given.key.strides("key") | given.value.strides("value")
    return {name: stride for name, stride in strides.items() if not name.endswith("_row")}


def _dims(problem: Problem) -> dict[str, int]:
    return {"HEAD_DIM": problem.head_dim, "V_DIM": problem.v_head_dim}
