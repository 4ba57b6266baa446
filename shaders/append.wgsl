// append.wgsl: the valid rows of one tensor or of two go into consecutive slots of others, those of the first turned by their
//            positions where there is a rotary: new keys and values into present, in one pass
// prelude    elem: type of sources and caches; stored: type of the slots (f32 for queries, elem for keys and values)
// bindings   0 params  1 extents [batch] (first slot, rows stored)  2 positions [batch, positions_batch]
//            3 cosine  4 sine [cache rows, rotary_dim / 2]; 2 to 4 are read where rotary_dim is not 0
//            5 source [batch, heads, rows, dim] by strides, from source_first on  6 slots [batch, heads, capacity, dim] by strides
//            7 beside [batch, heads, rows, beside_dim]  8 beside_slots, likewise; slots outside of the extents are left as they were
// parts      the members (batch x heads) from first_member on; each of 5 to 8 may be bound from an element on, its `skip`
// workgroup  64 invocations, one an element of the source, then one an element of `beside`; grid ceil(total / 64), folded
// numerics   f32: x cos - y sin and y cos + x sin, rounded once when stored; dims past rotary_dim, and all of `beside`, are
//            copied: bit-exact where elem and stored are one type

struct Params {
    total: u32,
    first_beside: u32,
    heads: u32,
    rows: u32,
    dim: u32,
    beside_dim: u32,
    rotary_dim: u32,
    interleaved: u32,
    positions_batch: u32,
    source_first: u32,
    source_batch: u32,
    source_head: u32,
    source_row: u32,
    slot_batch: u32,
    slot_head: u32,
    slot_row: u32,
    beside_first: u32,
    beside_batch: u32,
    beside_head: u32,
    beside_row: u32,
    beside_slot_batch: u32,
    beside_slot_head: u32,
    beside_slot_row: u32,
    first_member: u32,
    source_skip: u32,
    slot_skip: u32,
    beside_skip: u32,
    beside_slot_skip: u32,
}

struct Extent {
    first: u32,
    count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> extents: array<Extent>;
@group(0) @binding(2) var<storage, read> positions: array<u32>;
@group(0) @binding(3) var<storage, read> cosine: array<elem>;
@group(0) @binding(4) var<storage, read> sine: array<elem>;
@group(0) @binding(5) var<storage, read> source: array<elem>;
@group(0) @binding(6) var<storage, read_write> slots: array<stored>;
@group(0) @binding(7) var<storage, read> beside: array<elem>;
@group(0) @binding(8) var<storage, read_write> beside_slots: array<stored>;

// The value of dim `dim` of the head that starts at `base`, turned by the angles of cache row `position`.
fn turned(base: u32, dim: u32, position: u32) -> f32 {
    let half = params.rotary_dim / 2u;
    var pair = dim % half;
    var second = dim >= half;
    var x_dim = pair;
    var y_dim = pair + half;
    if (params.interleaved != 0u) {
        pair = dim / 2u;
        second = dim % 2u == 1u;
        x_dim = 2u * pair;
        y_dim = x_dim + 1u;
    }
    let x = f32(source[base + x_dim]);
    let y = f32(source[base + y_dim]);
    let c = f32(cosine[position * half + pair]);
    let s = f32(sine[position * half + pair]);
    return select(x * c - y * s, y * c + x * s, second);
}

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
    let second = index >= params.first_beside;
    let element = select(index, index - params.first_beside, second);
    let width = select(params.dim, params.beside_dim, second);
    let dim = element % width;
    let row = element / width % params.rows;
    let member = params.first_member + element / width / params.rows;
    let head = member % params.heads;
    let batch = member / params.heads;
    let extent = extents[batch];
    if (row >= extent.count) {
        return;
    }
    let slot = extent.first + row;
    if (second) {
        let from_row = params.beside_first + batch * params.beside_batch + head * params.beside_head + row * params.beside_row;
        let to_row = batch * params.beside_slot_batch + head * params.beside_slot_head + slot * params.beside_slot_row;
        beside_slots[to_row + dim - params.beside_slot_skip] = stored(beside[from_row + dim - params.beside_skip]);
        return;
    }
    let source_first = params.source_first + batch * params.source_batch + head * params.source_head - params.source_skip;
    let from_row = source_first + row * params.source_row;
    let to_row = batch * params.slot_batch + head * params.slot_head + slot * params.slot_row - params.slot_skip;
    if (dim < params.rotary_dim) {
        slots[to_row + dim] = stored(turned(from_row, dim, positions[batch * params.positions_batch + row]));
    } else {
        slots[to_row + dim] = stored(source[from_row + dim]);
    }
}
