// project.wgsl: new queries, keys or values of their input: each row times weights, plus a bias.
// prelude    elem: type of everything
// bindings   0 params  1 source [batch, rows, width] by strides, or without weights [batch, heads, rows, dim]
//            2 weights [width, columns]  3 bias [columns]  4 projected [batch, heads, rows, dim]
// workgroup  64 invocations, one an element of the result; grid ceil(total / 64), folded over x, y, z
// numerics   f32 accumulation over the input row in order, the bias last, rounded once when stored

struct Params {
    total: u32,
    heads: u32,
    rows: u32,
    dim: u32,
    source_first: u32,
    source_batch: u32,
    source_head: u32,
    source_row: u32,
    width: u32,
    columns: u32,
    weights_first: u32,
    bias_first: u32,
    biased: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<elem>;
@group(0) @binding(2) var<storage, read> weights: array<elem>;
@group(0) @binding(3) var<storage, read> bias: array<elem>;
@group(0) @binding(4) var<storage, read_write> projected: array<elem>;

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
    let dim = element % params.dim;
    let row = element / params.dim % params.rows;
    let head = element / params.dim / params.rows % params.heads;
    let batch = element / params.dim / params.rows / params.heads;
    let column = head * params.dim + dim;
    let base = params.source_first + batch * params.source_batch + row * params.source_row;
    var sum = 0.0;
    if (params.width == 0u) {
        sum = f32(source[base + head * params.source_head + dim]);
    }
    for (var i = 0u; i < params.width; i++) {
        sum += f32(source[base + i]) * f32(weights[i * params.columns + params.weights_first + column]);
    }
    if (params.biased != 0u) {
        sum += f32(bias[params.bias_first + column]);
    }
    projected[element] = elem(sum);
}
