// linear.wgsl: linear attention over some rows: the state decays, is corrected and added to, and answers, token by token.
// prelude    elem: type of inputs and output
// bindings   0 params  1 query [batch, rows, heads * dim]  2 key [batch, rows, kv_heads * dim]
//            3 value [batch, rows, kv_heads * v_dim]  4 decay [batch, rows, kv_heads * decay_dim] where decays is 1
//            5 beta [batch, rows, beta_heads] where beta_heads is not 0  6 state [batch, kv_heads, dim, v_dim], f32
//            7 output [batch, rows, out_heads * v_dim]; rows outside of [first_row, end_row) are left as they were
// workgroup  64 invocations, one a column of the state; grid ceil(total / 64), folded over x, y, z
// numerics   f32: S = exp(decay) S, then S + k beta (v - S^T k), without the correction where delta is 0; scale S^T q

struct Params {
    total: u32,
    heads: u32,
    kv_heads: u32,
    out_heads: u32,
    rows: u32,
    dim: u32,
    v_dim: u32,
    first_row: u32,
    end_row: u32,
    fresh: u32,
    delta: u32,
    decays: u32,
    decay_dim: u32,
    beta_heads: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> query: array<elem>;
@group(0) @binding(2) var<storage, read> key: array<elem>;
@group(0) @binding(3) var<storage, read> value: array<elem>;
@group(0) @binding(4) var<storage, read> decay: array<elem>;
@group(0) @binding(5) var<storage, read> beta: array<elem>;
@group(0) @binding(6) var<storage, read_write> state: array<f32>;
@group(0) @binding(7) var<storage, read_write> output: array<elem>;

// Lets the state at `base` decay, or begin at zero: what it then holds under the key at `start`.
fn decayed(base: u32, start: u32, decays: u32, begins: bool) -> f32 {
    var held = 0.0;
    for (var i = 0u; i < params.dim; i++) {
        var entry = select(state[base + i * params.v_dim], 0.0, begins);
        if (params.decays != 0u) {
            entry *= exp(f32(decay[decays + select(0u, i, params.decay_dim > 1u)]));
        }
        state[base + i * params.v_dim] = entry;
        held += entry * f32(key[start + i]);
    }
    return held;
}

// The answer of the state at `base` to the query at `start`.
fn answered(base: u32, start: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < params.dim; i++) {
        sum += state[base + i * params.v_dim] * f32(query[start + i]);
    }
    return params.scale * sum;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let column = (group.x + (group.y + group.z * groups.y) * groups.x) * 64u + lane;
    if (column >= params.total) {
        return;
    }
    let j = column % params.v_dim;
    let head = column / params.v_dim % params.kv_heads;
    let batch = column / params.v_dim / params.kv_heads;
    let base = (batch * params.kv_heads + head) * params.dim * params.v_dim + j;
    let share = params.out_heads / params.kv_heads;
    for (var row = params.first_row; row < params.end_row; row++) {
        let at = batch * params.rows + row;
        let start = (at * params.kv_heads + head) * params.dim;
        let begins = params.fresh != 0u && row == params.first_row;
        let held = decayed(base, start, (at * params.kv_heads + head) * params.decay_dim, begins);
        var added = f32(value[(at * params.kv_heads + head) * params.v_dim + j]);
        if (params.delta != 0u) {
            added -= held;
        }
        if (params.beta_heads != 0u) {
            added *= f32(beta[at * params.beta_heads + head % params.beta_heads]);
        }
        for (var i = 0u; i < params.dim; i++) {
            state[base + i * params.v_dim] += f32(key[start + i]) * added;
        }
        for (var s = 0u; s < share; s++) {
            let asker = head * share + s;
            let query_head = asker * params.heads / params.out_heads;
            let answer = answered(base, (at * params.heads + query_head) * params.dim);
            output[(at * params.out_heads + asker) * params.v_dim + j] = elem(answer);
        }
    }
}
