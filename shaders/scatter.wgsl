// scatter.wgsl: copies rows in order to where they lie scattered in an array: tokens without padding, or the pages of a cache.
// prelude    elem: type of both
// bindings   0 params  1 places [batch, rows] (-1: the row is not copied)  2 rows [batch, heads, rows, dim] by strides
//            3 target [places, place]; places that no row has are left as they were
// workgroup  64 invocations, one an element of the rows; grid ceil(total / 64), folded over x, y, z
// numerics   a copy: bit-exact. Rows that share a place hold the same numbers

struct Params {
    total: u32,
    heads: u32,
    rows: u32,
    dim: u32,
    place: u32,
    row_batch: u32,
    row_head: u32,
    row_row: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> places: array<i32>;
@group(0) @binding(2) var<storage, read> rows: array<elem>;
@group(0) @binding(3) var<storage, read_write> scattered: array<elem>;

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
    let place = places[batch * params.rows + row];
    if (place < 0) {
        return;
    }
    let from_row = batch * params.row_batch + head * params.row_head + row * params.row_row;
    scattered[u32(place) * params.place + head * params.dim + dim] = rows[from_row + dim];
}
