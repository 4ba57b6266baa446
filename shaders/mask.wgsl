// mask.wgsl: one mask, broadcast and added to those before it; also turns sinks, one a head, into numbers to compute with.
// prelude    none: masks come in the case's dtype or as booleans, and all are read as words
// bindings   0 params  1 mask [batch, heads, rows, slots] by strides, 0 where it is broadcast, from mask_first on; f32, f16,
//            bytes or i32, packed  2 bias out [batch, heads, rows, slots] f32, as wide as the widest of all masks along
//            each axis, but for the rows: a block of them
// workgroup  64 invocations, one a bias; grid ceil(total / 64), folded over x, y, z
// order      the first mask (`more` 0) writes its bias, the others add theirs
// numerics   HIDDEN says that a key is hidden: by false, by an infinity (told by its bits, since WGSL may assume that there
//            is none), or because the mask ends before it; other biases are kept within +-LARGEST, so that neither their
//            sums nor differences of scores overflow

struct Params {
    total: u32,
    heads: u32,
    rows: u32,
    slots: u32,
    mask_first: u32,
    mask_batch: u32,
    mask_head: u32,
    mask_row: u32,
    mask_slot: u32,
    mask_slots: u32,
    format: u32,
    more: u32,
}

const F32 = 0u;
const F16 = 1u;
const BOOLEAN = 2u;
const MINUS_INFINITY = 0xff800000u;
const MINUS_INFINITY_F16 = 0xfc00u;
const HIDDEN: f32 = -1.5e38;
const LIMIT: f32 = -1.4e38;
const LARGEST: f32 = 0.9e38;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> mask: array<u32>;
@group(0) @binding(2) var<storage, read_write> bias: array<f32>;

fn bias_of(element: u32) -> f32 {
    if (params.format == F32) {
        let bits = mask[element];
        if (bits == MINUS_INFINITY) {
            return HIDDEN;
        }
        return clamp(bitcast<f32>(bits), -LARGEST, LARGEST);
    }
    if (params.format == F16) {
        let word = mask[element / 2u];
        let bits = select(word & 0xffffu, word >> 16u, element % 2u == 1u);
        if (bits == MINUS_INFINITY_F16) {
            return HIDDEN;
        }
        return unpack2x16float(bits).x;
    }
    if (params.format == BOOLEAN) {
        let byte = (mask[element / 4u] >> (element % 4u * 8u)) & 0xffu;
        return select(HIDDEN, 0.0, byte != 0u);
    }
    return select(HIDDEN, 0.0, mask[element] != 0u);
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
    let slot = element % params.slots;
    let row = element / params.slots % params.rows;
    let head = element / params.slots / params.rows % params.heads;
    let batch = element / params.slots / params.rows / params.heads;
    var own = HIDDEN;
    if (slot < params.mask_slots) {
        let row_base = params.mask_first + batch * params.mask_batch + head * params.mask_head + row * params.mask_row;
        own = bias_of(row_base + slot * params.mask_slot);
    }
    if (params.more != 0u && own > LIMIT) {
        let before = bias[element];
        own = select(HIDDEN, clamp(before + own, -LARGEST, LARGEST), before > LIMIT);
    }
    bias[element] = own;
}
