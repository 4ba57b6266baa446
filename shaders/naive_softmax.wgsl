// naive_softmax.wgsl: turns the scores of a block of query rows into weights, in place; pass 2 of naive.
// prelude    none
// bindings   0 params  1 visible [batch, rows] (lo, hi, first, end)  2 scores [block, span] f32 in log2 units, becomes weights
//            3 sink [heads] f32 (read where `sinks` is not 0)
// workgroup  64 invocations, one workgroup a block row; grid (block), folded over x, y, z
// order      block row r is row first_row + r of [batch, heads, rows], flattened
// numerics   f32; the maximum, the sum and the division are separate passes over the slots [first, end); hidden ones stay
//            HIDDEN; a row that sees none has no weights, or the same for all where `mean` is not 0; a sink, and one of 0
//            where `zero_sink` is not 0, only count in the maximum and the sum

struct Params {
    block: u32,
    first_row: u32,
    span: u32,
    heads: u32,
    rows: u32,
    sinks: u32,
    zero_sink: u32,
    mean: u32,
}

struct Visible {
    lo: u32,
    hi: u32,
    first: u32,
    end: u32,
}

const LANES = 64u;
const LOG2E: f32 = 1.4426950408889634;
const HIDDEN: f32 = -1.5e38;
const LIMIT: f32 = -1.4e38;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<Visible>;
@group(0) @binding(2) var<storage, read_write> scores: array<f32>;
@group(0) @binding(3) var<storage, read> sink: array<f32>;

var<workgroup> partial: array<f32, LANES>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let block_row = group.x + (group.y + group.z * groups.y) * groups.x;
    if (block_row >= params.block) {
        return;
    }
    let flat_row = params.first_row + block_row;
    let seen = visible[flat_row / params.rows / params.heads * params.rows + flat_row % params.rows];
    let base = block_row * params.span;

    var highest = HIDDEN;
    for (var slot = seen.first + lane; slot < seen.end; slot += LANES) {
        highest = max(highest, scores[base + slot]);
    }
    partial[lane] = highest;
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            partial[lane] = max(partial[lane], partial[lane + half]);
        }
    }
    workgroupBarrier();
    highest = partial[0];
    workgroupBarrier();

    let even = highest < LIMIT && params.mean != 0u;
    var sinks = array<f32, 2>(HIDDEN, HIDDEN);
    if (params.sinks != 0u) {
        sinks[0] = sink[flat_row / params.rows % params.heads] * LOG2E;
    }
    if (params.zero_sink != 0u) {
        sinks[1] = 0.0;
    }
    highest = max(highest, max(sinks[0], sinks[1]));

    var sum = 0.0;
    for (var slot = seen.first + lane; slot < seen.end; slot += LANES) {
        if (scores[base + slot] < LIMIT && !even) {
            continue;
        }
        let weight = exp2(scores[base + slot] - highest);
        scores[base + slot] = weight;
        sum += weight;
    }
    partial[lane] = sum;
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            partial[lane] += partial[lane + half];
        }
    }
    workgroupBarrier();
    sum = partial[0];
    for (var each = 0u; each < 2u; each++) {
        if (sinks[each] >= LIMIT) {
            sum += exp2(sinks[each] - highest);
        }
    }

    for (var slot = seen.first + lane; slot < seen.end; slot += LANES) {
        if (scores[base + slot] >= LIMIT) {
            scores[base + slot] /= sum;
        }
    }
}
