// naive_output.wgsl: the weighted sum of the values for a block of query rows; pass 3 of naive.
// prelude    elem: type of values and output
// bindings   0 params  1 visible [batch, rows] (lo, hi, even)  2 weights [block, span] f32
//            3 value [batch, kv_heads, capacity, v_head_dim] by strides  4 output [batch, heads, rows, v_head_dim] by strides
// workgroup  64 invocations, one an element of the output; grid ceil(total / 64), folded over x, y, z
// order      block row r is row first_row + r of [batch, heads, rows], flattened; total is block * v_head_dim
// numerics   f32 sums by chunks of CHUNK keys, which also keeps every loop below the 65,535 rounds that llvmpipe runs;
//            keys that a row does not see are not read; a row that sees none gives 0

struct Params {
    total: u32,
    first_row: u32,
    span: u32,
    heads: u32,
    head_group: u32,
    rows: u32,
    v_head_dim: u32,
    value_batch: u32,
    value_head: u32,
    value_row: u32,
    output_batch: u32,
    output_head: u32,
    output_row: u32,
}

struct Visible {
    lo: u32,
    hi: u32,
    even: u32,
}

const CHUNK = 256u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<Visible>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read> value: array<elem>;
@group(0) @binding(4) var<storage, read_write> output: array<elem>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let element = (group.x + (group.y + group.z * groups.y) * groups.x) * 64u + lane;
    if (element >= params.total) {
        return;
    }
    let dim = element % params.v_head_dim;
    let block_row = element / params.v_head_dim;
    let flat_row = params.first_row + block_row;
    let row = flat_row % params.rows;
    let head = flat_row / params.rows % params.heads;
    let batch = flat_row / params.rows / params.heads;
    let seen = visible[batch * params.rows + row];
    let weight_base = block_row * params.span;
    let value_base = batch * params.value_batch + head / params.head_group * params.value_head + dim;
    var sum = 0.0;
    for (var chunk = seen.lo; chunk < seen.hi; chunk += CHUNK) {
        var chunk_sum = 0.0;
        for (var slot = chunk; slot < min(chunk + CHUNK, seen.hi); slot++) {
            chunk_sum += weights[weight_base + slot] * f32(value[value_base + slot * params.value_row]);
        }
        sum += chunk_sum;
    }
    let output_base = batch * params.output_batch + head * params.output_head + row * params.output_row;
    output[output_base + dim] = elem(sum);
}
