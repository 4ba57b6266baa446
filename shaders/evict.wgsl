// evict.wgsl: copies keys or values of all slots into present buffers that hold fewer, or both in one, from row 0 on.
// prelude    elem: type of both
// bindings   0 params  1 extents [batch] (first slot kept, rows kept)  2 slots [batch, heads, capacity, dim] by strides
//            3 present [batch, heads, rows, dim] by strides, from present_first on; rows beyond those kept are left as they were
// workgroup  64 invocations, one an element of present; grid ceil(total / 64), folded over x, y, z
// numerics   a copy: bit-exact

struct Params {
    total: u32,
    heads: u32,
    rows: u32,
    dim: u32,
    slot_batch: u32,
    slot_head: u32,
    slot_row: u32,
    present_first: u32,
    present_batch: u32,
    present_head: u32,
    present_row: u32,
}

struct Extent {
    first: u32,
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> extents: array<Extent>;
@group(0) @binding(2) var<storage, read> slots: array<elem>;
@group(0) @binding(3) var<storage, read_write> present: array<elem>;

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
    let from_row = batch * params.slot_batch + head * params.slot_head + (extent.first + row) * params.slot_row;
    let to_row = params.present_first + batch * params.present_batch + head * params.present_head + row * params.present_row;
    present[to_row + dim] = slots[from_row + dim];
}
