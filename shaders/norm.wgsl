// norm.wgsl: RMS normalisation of each head of new queries or keys by a gain, before any rotary embedding.
// prelude    elem: type of source, gain and result
// bindings   0 params  1 extents [batch] (unused, valid rows)  2 gain [dim]
//            3 source [batch, heads, rows, dim] by strides, from source_first on  4 normed [batch, heads, rows, dim]
// workgroup  64 invocations, one a row of a head; grid ceil(total / 64), folded over x, y, z
// numerics   f32: x / sqrt(mean(x^2) + epsilon) * gain, the squares summed in order, rounded once when stored

struct Params {
    total: u32,
    heads: u32,
    rows: u32,
    dim: u32,
    source_first: u32,
    source_batch: u32,
    source_head: u32,
    source_row: u32,
    epsilon: f32,
}

struct Extent {
    first: u32,
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> extents: array<Extent>;
@group(0) @binding(2) var<storage, read> gain: array<elem>;
@group(0) @binding(3) var<storage, read> source: array<elem>;
@group(0) @binding(4) var<storage, read_write> normed: array<elem>;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = (group.x + (group.y + group.z * groups.y) * groups.x) * 64u + lane;
    if (index >= params.total) {
        return;
    }
    let row = index % params.rows;
    let head = index / params.rows % params.heads;
    let batch = index / params.rows / params.heads;
    if (row >= extents[batch].count) {
        return;
    }
    let from_row = params.source_first + batch * params.source_batch + head * params.source_head + row * params.source_row;
    var squares = 0.0;
    for (var dim = 0u; dim < params.dim; dim++) {
        let x = f32(source[from_row + dim]);
        squares += x * x;
    }
    let root = sqrt(squares / f32(params.dim) + params.epsilon);
    for (var dim = 0u; dim < params.dim; dim++) {
        let x = f32(source[from_row + dim]);
        normed[index * params.dim + dim] = elem(x / root * f32(gain[dim]));
    }
}
