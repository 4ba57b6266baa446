"""Attention on matrix units: tiles of 128 packed query rows, one dispatch over all keys."""

from __future__ import annotations

from attncheck.kernels.draft import Draft, Limits, View
from attncheck.kernels.operands import Operands
from attncheck.kernels.parts import larger
from attncheck.problem import Problem

ROWS = 128
"""ROWS of matrix.wgsl."""

DIMS = (32, 64, 128)
"""What HEAD_DIM and V_DIM of matrix.wgsl may be."""

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
    return larger(problem, limits)


def attend(draft: Draft[Problem], given: Operands, output: View) -> None:
    """One dispatch."""
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
    params |= given.query.place("query") | output.strides("output") | given.bias.params | given.sinks.params
    for role, view in (("key", given.key), ("value", given.value)):
        strides = view.strides(role)
        del strides[f"{role}_row"]  # rows of a present buffer follow on each other
        params |= strides
    bindings = (
        *(given.visible, given.query.buffer, given.key.buffer, given.value.buffer),
        *(output.buffer, given.bias.buffer, given.sinks.buffer),
    )
    dims = {"HEAD_DIM": problem.head_dim, "V_DIM": problem.v_head_dim}
    draft.dispatch("matrix", {}, params, bindings, tiles, dims, DIRECTIVES)
