"""Whether an adapter's matrix units multiply right: found out in a process of its own, which a driver may take down.

`python matrix_units.py [ADAPTER]` multiplies matrices of small whole numbers, whose products are exact, by the forms
that shaders/matrix.wgsl uses, and exits with 0 where all are right; what is wrong stands on stderr.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Dict, Iterable, Optional

import numpy as np

FEATURE = "chromium-experimental-subgroup-matrix"
SECONDS = 60.0
"""A driver that takes longer hangs."""

SIZE = 16
ROUNDS = 3

_SHADER = """
enable f16;
enable subgroups;
enable chromium_experimental_subgroup_matrix;
diagnostic(off, chromium.subgroup_matrix_uniformity);

alias Left = subgroup_matrix_left<f16, 16, 16>;
alias Right = subgroup_matrix_right<f16, 16, 16>;
alias Sum = subgroup_matrix_result<f32, 16, 16>;

@group(0) @binding(0) var<storage, read> given: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> found: array<vec4<f32>>;

var<workgroup> odd: array<vec4<u32>, 3>;
var<workgroup> words: array<vec4<u32>, 96>;
var<workgroup> sums: array<vec4<u32>, 80>;

@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) lane: u32) {
    odd[lane % 3u] = vec4<u32>(lane);
    // left and right, 16 rows of 2 words each at a pitch of 3
    for (var word = lane; word < 64u; word += 32u) {
        words[word / 2u * 3u + word % 2u] = given[word];
    }
    workgroupBarrier();
    for (var round = 0u; round < 3u; round++) {
        var sum = Sum();
        let left = subgroupMatrixLoad<Left, row_major>(&words, 0u, 3u);
        if (round % 2u == 0u) {
            let right = subgroupMatrixLoad<Right, row_major>(&words, 48u, 3u);
            sum = subgroupMatrixMultiplyAccumulate(left, right, sum);
            sum = subgroupMatrixMultiplyAccumulate(left, right, sum);
        } else {
            let right = subgroupMatrixLoad<Right, col_major>(&words, 48u, 3u);
            sum = subgroupMatrixMultiplyAccumulate(left, right, sum);
        }
        subgroupMatrixStore<row_major>(&sums, 0u, sum, 5u);
        workgroupBarrier();
        for (var word = lane; word < 64u; word += 32u) {
            found[round * 64u + word] = bitcast<vec4<f32>>(sums[word / 4u * 5u + word % 4u]);
        }
        workgroupBarrier();
    }
}
"""


def tested(features: Iterable[str], adapter: Optional[str]) -> Dict[str, Any]:
    """{"usable": bool, "why": what stands against it, or empty}, of the adapter whose name holds `adapter`."""
    if not {FEATURE, "shader-f16", "subgroups"} <= set(features):
        return {"usable": False, "why": "the adapter offers no subgroup matrices"}
    command = [sys.executable, os.path.abspath(__file__), *([adapter] if adapter is not None else [])]
    try:
        ran = subprocess.run(
            command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=SECONDS, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return {"usable": False, "why": "the test of its matrix units did not end: %s" % error}
    if ran.returncode == 0:
        return {"usable": True, "why": ""}
    last = (ran.stderr.strip().splitlines() or ["nothing was said"])[-1]
    return {"usable": False, "why": "the test of its matrix units failed (exit code %d): %s" % (ran.returncode, last)}


def _expected(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """[ROUNDS, SIZE, SIZE]: twice the product, the product with the transposed, twice the product again."""
    once, turned = left @ right, left @ right.T
    return np.stack([2 * once, turned, 2 * once])


def _multiplied(adapter: Optional[str], left: np.ndarray, right: np.ndarray) -> np.ndarray:
    import adapters
    import wgpu

    device = adapters.open_device(adapters.choose(adapter), [FEATURE])
    storage = wgpu.BufferUsage.STORAGE
    given = device.create_buffer_with_data(data=np.stack([left, right]).astype(np.float16), usage=storage)
    found = device.create_buffer(size=4 * ROUNDS * SIZE * SIZE, usage=storage | wgpu.BufferUsage.COPY_SRC)
    module = device.create_shader_module(code=_SHADER)
    pipeline = device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
    entries = [
        {"binding": at, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
        for at, buffer in enumerate((given, found))
    ]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, group)
    compute.dispatch_workgroups(1)
    compute.end()
    device.queue.submit([encoder.finish()])
    return np.frombuffer(device.queue.read_buffer(found), np.float32).reshape(ROUNDS, SIZE, SIZE)


def main(adapter: Optional[str]) -> int:
    """Exit code: 0 where the matrix units are right."""
    import dawn  # wgpudawn in the place of wgpu

    dawn.begin(robust=True)
    numbers = np.random.default_rng(0)
    left, right = (numbers.integers(-8, 9, (SIZE, SIZE)).astype(np.float32) for _ in range(2))
    found, wanted = _multiplied(adapter, left, right), _expected(left, right)
    wrong = [int(at) for at in range(ROUNDS) if not np.array_equal(found[at], wanted[at])]
    if wrong:
        sys.stderr.write("wrong products in rounds %s\n" % wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
