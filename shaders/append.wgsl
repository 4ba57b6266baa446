// append.wgsl: copies the valid rows of a tensor into consecutive slots of another; past and new rows into present.
// prelude    elem: type of the source; stored: type of the slots (f32 widens f16 queries for the kernels that follow)
// bindings   0 params  1 extents [batch] (first slot, rows copied)  2 source [batch, heads, rows, dim] by strides, from source_first on
//            3 slots [batch, heads, capacity, dim] by strides; slots outside of the extents are left as they were
// workgroup  64 invocations, one an element of the source; grid ceil(total / 64), folded over x, y, z
// numerics   a copy: bit-exact where elem and stored are one type

struct Params {
    total: u32,
    heads: u32,
    rows: u32,
    dim: u32,
    source_first: u32,
    source_batch: u32,
    source_head: u32,
    source_row: u32,
    slot_batch: u32,
    slot_head: u32,
    slot_row: u32,
}

struct Extent {
    first: u32,
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> extents: array<Extent>;
@group(0) @binding(2) var<storage, read> source: array<elem>;
@group(0) @binding(3) var<storage, read_write> slots: array<stored>;

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
    let extent = extents[batch];
    if (row >= extent.count) {
        return;
    }
    let from_row = params.source_first + batch * params.source_batch + head * params.source_head + row * params.source_row;
    let to_row = batch * params.slot_batch + head * params.slot_head + (extent.first + row) * params.slot_row;
    slots[to_row + dim] = stored(source[from_row + dim]);
}
