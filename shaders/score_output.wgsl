// score_output.wgsl: gives out the scores or weights of a block of query rows.
// prelude    none: the output is written in whole words, f16 as halves of them
// bindings   0 params  1 visible [batch, rows] (lo, hi, first, end)  2 scores [block, span] f32, HIDDEN where hidden
//            3 output [batch, heads, rows, slots], f32 or f16, packed into words
// workgroup  64 invocations, one a word; grid ceil(total / 64), folded over x, y, z
// order      block row r is row first_row + r of [batch, heads, rows], flattened; halves of a word that belong to
//            another block, or to none, stay as they are
// numerics   f32, rounded once when stored; a hidden score is `hidden_bits` (minus infinity, or 0 among weights), which a
//            uniform brings because WGSL has no infinity; so is one that a bias leaves near f32's lowest, or below f16's

struct Params {
    block: u32,
    first_row: u32,
    span: u32,
    heads: u32,
    rows: u32,
    slots: u32,
    first_word: u32,
    total: u32,
    per_word: u32,
    hidden_bits: u32,
    unit: f32,
}

struct Visible {
    lo: u32,
    hi: u32,
    first: u32,
    end: u32,
}

const NEAR_LOWEST: f32 = -0.85e38;
const LOWEST_F16: f32 = -65504.0;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<Visible>;
@group(0) @binding(2) var<storage, read> scores: array<f32>;
@group(0) @binding(3) var<storage, read_write> output: array<u32>;

fn bits_of(element: u32) -> u32 {
    let flat_row = element / params.slots;
    let slot = element % params.slots;
    let seen = visible[flat_row / params.rows / params.heads * params.rows + flat_row % params.rows];
    if (slot < seen.first || slot >= seen.end) {
        return params.hidden_bits;
    }
    let score = scores[(flat_row - params.first_row) * params.span + slot] * params.unit;
    if (score < NEAR_LOWEST) {
        return params.hidden_bits;
    }
    if (params.per_word == 1u) {
        return bitcast<u32>(score);
    }
    if (score < LOWEST_F16) {
        return params.hidden_bits;
    }
    return pack2x16float(vec2<f32>(score, 0.0));
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
    let word = params.first_word + index;
    let begin = params.first_row * params.slots;
    let end = begin + params.block * params.slots;
    if (params.per_word == 1u) {
        output[word] = bits_of(word);
        return;
    }
    var bits = output[word];
    for (var half = 0u; half < 2u; half++) {
        let element = word * 2u + half;
        if (element >= begin && element < end) {
            bits = (bits & (0xffff0000u >> (half * 16u))) | ((bits_of(element) & 0xffffu) << (half * 16u));
        }
    }
    output[word] = bits;
}
