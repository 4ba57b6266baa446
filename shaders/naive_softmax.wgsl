// naive_softmax.wgsl: turns the scores of a block of query rows into weights, in place; pass 2 of naive.
// prelude    none
// bindings   0 params  1 visible [batch, rows] (lo, hi, even)  2 scores [block, span] f32 in log2 units, becomes weights
// workgroup  64 invocations, one workgroup a block row; grid (block), folded over x, y, z
// order      block row r is row first_row + r of [batch, heads, rows], flattened
// numerics   f32; the maximum, the sum and the division are separate passes over the keys that the row sees

struct Params {
    block: u32,
    first_row: u32,
    span: u32,
    heads: u32,
    rows: u32,
}

struct Visible {
    lo: u32,
    hi: u32,
    even: u32,
}

const LANES = 64u;
const LOWEST: f32 = -3.0e38;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<Visible>;
@group(0) @binding(2) var<storage, read_write> scores: array<f32>;

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

    var highest = LOWEST;
    for (var slot = seen.lo + lane; slot < seen.hi; slot += LANES) {
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

    var sum = 0.0;
    for (var slot = seen.lo + lane; slot < seen.hi; slot += LANES) {
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

    for (var slot = seen.lo + lane; slot < seen.hi; slot += LANES) {
        scores[base + slot] /= sum;
    }
}
