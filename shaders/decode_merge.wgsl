// decode_merge.wgsl: the partial results of all slices of a query row become its output.
// prelude    elem: type of the output
// bindings   0 params  1 visible [batch, rows] (lo, hi, first, end)
//            2 partials [batch, kv_heads, partial_rows, slices, v_head_dim + 2] f32, as decode.wgsl or matrix_decode.wgsl writes them
//            3 sink [heads] f32 (read where `sinks` is not 0)  4 output [batch, heads, rows, v_head_dim] by strides, from
//            output_first on
// workgroup  256 invocations: DIMS elements of a row by SIDES slices at once; grid (dim_blocks, packed rows, kv_heads,
//            batch), flattened, the first fastest, folded over x, y, z
// order      packed rows are [head_group, rows], flattened; of a row only the slices that it goes over are read
// numerics   f32, relative to the largest of the running maxima; a sink, and one of 0 where `zero_sink` is not 0, only count
//            in the last division, once; a row with no weight gives 0

struct Params {
    total: u32,
    dim_blocks: u32,
    partial_rows: u32,
    slices: u32,
    first_slice: u32,
    slice: u32,
    kv_heads: u32,
    head_group: u32,
    rows: u32,
    v_head_dim: u32,
    output_first: u32,
    output_batch: u32,
    output_head: u32,
    output_row: u32,
    sinks: u32,
    zero_sink: u32,
}

struct Visible {
    lo: u32,
    hi: u32,
    first: u32,
    end: u32,
}

const DIMS = 32u;
const SIDES = 8u;
const LANES = 256u;
const LOG2E: f32 = 1.4426950408889634;
const HIDDEN: f32 = -1.5e38;
const LIMIT: f32 = -1.4e38;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<Visible>;
@group(0) @binding(2) var<storage, read> partials: array<f32>;
@group(0) @binding(3) var<storage, read> sink: array<f32>;
@group(0) @binding(4) var<storage, read_write> output: array<elem>;

var<workgroup> tops: array<f32, LANES>;
var<workgroup> totals: array<f32, LANES>;
var<workgroup> sums: array<f32, LANES>;

// What turns the sums of a row, relative to `top`, into its output.
fn normaliser(top: f32, total: f32, head: u32) -> f32 {
    if (total == 0.0) {
        return 0.0;
    }
    var sinks = array<f32, 2>(HIDDEN, HIDDEN);
    if (params.sinks != 0u) {
        sinks[0] = sink[head] * LOG2E;
    }
    if (params.zero_sink != 0u) {
        sinks[1] = 0.0;
    }
    let above = max(top, max(sinks[0], sinks[1]));
    let factor = exp2(top - above);
    var all = total * factor;
    for (var each = 0u; each < 2u; each++) {
        if (sinks[each] >= LIMIT) {
            all += exp2(sinks[each] - above);
        }
    }
    return factor / all;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.x + (group.y + group.z * groups.y) * groups.x;
    if (index >= params.total) {
        return;
    }
    let dim = index % params.dim_blocks * DIMS + lane % DIMS;
    let packed = index / params.dim_blocks % (params.head_group * params.rows);
    let member = index / params.dim_blocks / (params.head_group * params.rows);
    let batch = member / params.kv_heads;
    let head = member % params.kv_heads * params.head_group + packed / params.rows;
    let row = packed % params.rows;

    let seen = visible[batch * params.rows + row];
    let row_size = params.v_head_dim + 2u;
    let base = (member * params.partial_rows + packed) * params.slices * row_size;
    var first = 0u;
    var end = 0u;
    if (seen.first < seen.end) {
        first = seen.first / params.slice - params.first_slice;
        end = (seen.end + params.slice - 1u) / params.slice - params.first_slice;
    }

    var top = HIDDEN;
    var total = 0.0;
    var sum = 0.0;
    for (var slice = first + lane / DIMS; slice < end; slice += SIDES) {
        let at = base + slice * row_size;
        let higher = max(top, partials[at + params.v_head_dim]);
        let before = exp2(top - higher);
        let weight = exp2(partials[at + params.v_head_dim] - higher);
        top = higher;
        total = total * before + partials[at + params.v_head_dim + 1u] * weight;
        if (dim < params.v_head_dim) {
            sum = sum * before + partials[at + dim] * weight;
        }
    }
    tops[lane] = top;
    totals[lane] = total;
    sums[lane] = sum;
    workgroupBarrier();
    if (lane >= DIMS || dim >= params.v_head_dim) {
        return;
    }
    for (var side = DIMS; side < LANES; side += DIMS) {
        top = max(top, tops[lane + side]);
    }
    let before = exp2(tops[lane] - top);
    total *= before;
    sum *= before;
    for (var side = DIMS; side < LANES; side += DIMS) {
        let weight = exp2(tops[lane + side] - top);
        total += totals[lane + side] * weight;
        sum += sums[lane + side] * weight;
    }
    let place = params.output_first + batch * params.output_batch + head * params.output_head + row * params.output_row;
    output[place + dim] = elem(sum * normaliser(top, total, head));
}
