// naive_scores.wgsl: the scores of a block of query rows against every key they see, materialised; pass 1 of naive.
// prelude    elem: type of the keys
// bindings   0 params  1 visible [batch, rows] (lo, hi, first, end)  2 query [batch, heads, rows, head_dim] f32 by strides,
//            from query_first on  3 key [batch, kv_heads, capacity, head_dim] by strides  4 scores out [block, span] f32
//            5 bias [batch, heads, rows, slots] f32 by strides, 0 where it is broadcast (read where `masked` is not 0)
// workgroup  64 invocations, one a score; grid ceil(total / 64), folded over x, y, z
// order      block row r is row first_row + r of [batch, heads, rows], flattened; total is block * span
// numerics   f32 sums; scores in log2 units (scale, then softcap, then bias, then times log2 e); of the slots [first, end)
//            that a row goes over, those outside of [lo, hi), and those that a mask hides, score HIDDEN and are not read;
//            others are neither read nor written

struct Params {
    total: u32,
    first_row: u32,
    span: u32,
    heads: u32,
    head_group: u32,
    rows: u32,
    head_dim: u32,
    query_first: u32,
    query_batch: u32,
    query_head: u32,
    query_row: u32,
    key_batch: u32,
    key_head: u32,
    key_row: u32,
    bias_batch: u32,
    bias_head: u32,
    bias_row: u32,
    masked: u32,
    scale: f32,
    softcap: f32,
}

struct Visible {
    lo: u32,
    hi: u32,
    first: u32,
    end: u32,
}

const LOG2E: f32 = 1.4426950408889634;
const HIDDEN: f32 = -1.5e38;
const LIMIT: f32 = -1.4e38;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<Visible>;
@group(0) @binding(2) var<storage, read> query: array<f32>;
@group(0) @binding(3) var<storage, read> key: array<elem>;
@group(0) @binding(4) var<storage, read_write> scores: array<f32>;
@group(0) @binding(5) var<storage, read> bias: array<f32>;

// The builtin tanh is only as good as sinh / cosh: poor near 0, NaN far out. Coefficients: Cephes, tanhf.c.
fn accurate_tanh(x: f32) -> f32 {
    let z = x * x;
    let series = (((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z;
    let near = x + x * z * (series - 3.33332819422e-1);
    let far = sign(x) * (1.0 - 2.0 / (exp2(min(abs(x), 20.0) * (2.0 * LOG2E)) + 1.0));
    return select(far, near, abs(x) < 0.625);
}

fn log2_score(product: f32) -> f32 {
    if (params.softcap == 0.0) {
        return product * (params.scale * LOG2E);
    }
    return accurate_tanh(product * (params.scale / params.softcap)) * (params.softcap * LOG2E);
}

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
    let slot = element % params.span;
    let flat_row = params.first_row + element / params.span;
    let row = flat_row % params.rows;
    let head = flat_row / params.rows % params.heads;
    let batch = flat_row / params.rows / params.heads;
    let seen = visible[batch * params.rows + row];
    if (slot < seen.first || slot >= seen.end) {
        return;
    }
    var added = select(HIDDEN, 0.0, slot >= seen.lo && slot < seen.hi);
    if (params.masked != 0u && added == 0.0) {
        added = bias[batch * params.bias_batch + head * params.bias_head + row * params.bias_row + slot];
    }
    if (added < LIMIT) {
        scores[element] = HIDDEN;
        return;
    }
    let query_row = params.query_first + row * params.query_row;
    let query_base = query_row + batch * params.query_batch + head * params.query_head;
    let key_base = batch * params.key_batch + head / params.head_group * params.key_head + slot * params.key_row;
    var product = 0.0;
    for (var dim = 0u; dim < params.head_dim; dim++) {
        product += query[query_base + dim] * f32(key[key_base + dim]);
    }
    scores[element] = log2_score(product) + added * LOG2E;
}
