// naive_output.wgsl: the weighted sum of the values for a block of query rows; pass 3 of naive.
// prelude    elem: type of values and output
// bindings   0 params  1 visible [batch, rows] (lo, hi, first, end)  2 weights [block, span] f32, below 0 where hidden
//            3 value [batch, kv_heads, capacity, v_head_dim] by strides  4 output [batch, heads, rows, v_head_dim] by
//            strides, from output_first on
// workgroup  64 invocations, DIMS output dims of one block row by PARTS interleaved parts of its keys;
//            grid (block * ceil(v_head_dim / DIMS)), folded over x, y, z
// order      block row r is row first_row + r of [batch, heads, rows], flattened
// numerics   f32 sums, one a part, added in order; hidden keys are not read; a row that sees none gives 0;
//            parts keep loops short: llvmpipe silently ends an invocation's loops after 65,535 rounds

struct Params {
    block: u32,
    first_row: u32,
    span: u32,
    heads: u32,
    head_group: u32,
    rows: u32,
    v_head_dim: u32,
    value_batch: u32,
    value_head: u32,
    value_row: u32,
    output_first: u32,
    output_batch: u32,
    output_head: u32,
    output_row: u32,
}

struct Visible {
    lo: u32,
    hi: u32,
    first: u32,
    end: u32,
}

const DIMS = 8u;
const PARTS = 8u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<Visible>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read> value: array<elem>;
@group(0) @binding(4) var<storage, read_write> output: array<elem>;

var<workgroup> part_sums: array<f32, DIMS * PARTS>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.x + (group.y + group.z * groups.y) * groups.x;
    let dim_groups = (params.v_head_dim + DIMS - 1u) / DIMS;
    let block_row = index / dim_groups;
    if (block_row >= params.block) {
        return;
    }
    let flat_row = params.first_row + block_row;
    let row = flat_row % params.rows;
    let head = flat_row / params.rows % params.heads;
    let batch = flat_row / params.rows / params.heads;
    let seen = visible[batch * params.rows + row];
    let dim = index % dim_groups * DIMS + lane % DIMS;
    let weight_base = block_row * params.span;
    let value_base = batch * params.value_batch + head / params.head_group * params.value_head + dim;

    var sum = 0.0;
    if (dim < params.v_head_dim) {
        for (var slot = seen.first + lane / DIMS; slot < seen.end; slot += PARTS) {
            let weight = weights[weight_base + slot];
            if (weight >= 0.0) {
                sum += weight * f32(value[value_base + slot * params.value_row]);
            }
        }
    }
    part_sums[lane] = sum;
    workgroupBarrier();
    if (lane >= DIMS || dim >= params.v_head_dim) {
        return;
    }
    sum = 0.0;
    for (var part = 0u; part < PARTS; part++) {
        sum += part_sums[part * DIMS + lane];
    }
    let output_row = params.output_first + row * params.output_row;
    let output_base = output_row + batch * params.output_batch + head * params.output_head;
    output[output_base + dim] = elem(sum);
}
