// online.wgsl: attention in one pass over the keys, with a running maximum and a running sum; scores never leave the tile.
// prelude    elem: type of keys, values and output
// bindings   0 params  1 visible [batch, rows] (lo, hi, first, end)  2 query [batch, heads, rows, head_dim] f32 by strides,
//            from query_first on  3 key [batch, kv_heads, capacity, head_dim], 4 value [batch, kv_heads, capacity,
//            v_head_dim], both by strides
//            5 state [tiles, ROWS, 2 + v_head_dim] f32: running maximum, running sum, sums of one dispatch for the next
//            6 output [batch, heads, rows, v_head_dim] by strides, from output_first on
//            7 bias [batch, heads, rows, slots] f32 by strides, 0 where it is broadcast (read where `masked` is not 0)
//            8 sink [heads] f32 (read where `sinks` is not 0)
// workgroup  64 invocations, one workgroup a tile; grid (tiles - first_tile), folded over x, y, z
// parts      the tiles [first_tile, tiles), whose keys and values may be bound from an element on, key_skip and value_skip
// order      a tile is ROWS consecutive packed rows of one KV head; packed rows are [head_group, rows], flattened, so
//            that the query heads that share keys share a tile
// sections   a dispatch goes over the slots [first_slot, end_slot); several in a row cover many keys, because llvmpipe
//            silently ends an invocation's loops after 65,535 rounds, counted over all of its loops together; they begin
//            at multiples of KEYS. The first
//            (`resume` 0) starts fresh, the others take up the state, the last (`finish` not 0) writes the output
// memory     9.3 KiB of workgroup memory; v_head_dim at most 256
// numerics   f32 sums; scores in log2 units (scale, then softcap, then bias, then times log2 e); of the slots [first, end)
//            that a row goes over, those outside of [lo, hi), and those that a mask hides, are HIDDEN and not read; a row
//            that sees none gives 0, or the mean of all where `mean` is not 0: as long as all are hidden they weigh the
//            same; a sink, and one of 0 where `zero_sink` is not 0, only count in the last division

struct Params {
    first_tile: u32,
    tiles: u32,
    first_slot: u32,
    end_slot: u32,
    resume: u32,
    finish: u32,
    kv_heads: u32,
    head_group: u32,
    rows: u32,
    head_dim: u32,
    v_head_dim: u32,
    query_first: u32,
    query_batch: u32,
    query_head: u32,
    query_row: u32,
    key_batch: u32,
    key_head: u32,
    key_row: u32,
    value_batch: u32,
    value_head: u32,
    value_row: u32,
    key_skip: u32,
    value_skip: u32,
    output_first: u32,
    output_batch: u32,
    output_head: u32,
    output_row: u32,
    bias_batch: u32,
    bias_head: u32,
    bias_row: u32,
    masked: u32,
    sinks: u32,
    zero_sink: u32,
    mean: u32,
    scale: f32,
    softcap: f32,
}

struct Visible {
    lo: u32,
    hi: u32,
    first: u32,
    end: u32,
}

const LANES = 64u;
const ROWS = 8u;
const KEYS = 32u;
const MAX_DIM = 256u;
const LOG2E: f32 = 1.4426950408889634;
const HIDDEN: f32 = -1.5e38;
const LIMIT: f32 = -1.4e38;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<Visible>;
@group(0) @binding(2) var<storage, read> query: array<f32>;
@group(0) @binding(3) var<storage, read> key: array<elem>;
@group(0) @binding(4) var<storage, read> value: array<elem>;
@group(0) @binding(5) var<storage, read_write> state: array<f32>;
@group(0) @binding(6) var<storage, read_write> output: array<elem>;
@group(0) @binding(7) var<storage, read> bias: array<f32>;
@group(0) @binding(8) var<storage, read> sink: array<f32>;

var<workgroup> row_visible: array<Visible, ROWS>;
var<workgroup> running_max: array<f32, ROWS>;
var<workgroup> running_sum: array<f32, ROWS>;
var<workgroup> rescale: array<f32, ROWS>;
var<workgroup> weights: array<f32, ROWS * KEYS>;
var<workgroup> sums: array<f32, ROWS * MAX_DIM>;

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

// Slots of [start, start + KEYS) that a tile row goes over, as [x, y); empty where y <= x.
fn row_slots(tile_row: u32, start: u32) -> vec2<u32> {
    return vec2<u32>(max(start, row_visible[tile_row].first), min(start + KEYS, row_visible[tile_row].end));
}

fn query_head(kv_head: u32, packed: u32) -> u32 {
    return kv_head * params.head_group + packed / params.rows;
}

// The scores of all pairs of a tile row and a slot of [start, start + KEYS) that it goes over, into `weights`.
fn score_keys(lane: u32, batch: u32, kv_head: u32, first: u32, start: u32) {
    for (var pair = lane; pair < ROWS * KEYS; pair += LANES) {
        let tile_row = pair / KEYS;
        let slot = start + pair % KEYS;
        let seen = row_visible[tile_row];
        if (slot < seen.first || slot >= seen.end) {
            continue;
        }
        let packed = first + tile_row;
        let head = query_head(kv_head, packed);
        let row = packed % params.rows;
        var added = select(HIDDEN, 0.0, slot >= seen.lo && slot < seen.hi);
        if (params.masked != 0u && added == 0.0) {
            added = bias[batch * params.bias_batch + head * params.bias_head + row * params.bias_row + slot];
        }
        if (added < LIMIT) {
            weights[pair] = HIDDEN;
            continue;
        }
        let query_row = params.query_first + row * params.query_row;
        let query_base = query_row + batch * params.query_batch + head * params.query_head;
        let key_base = batch * params.key_batch + kv_head * params.key_head + slot * params.key_row - params.key_skip;
        var product = 0.0;
        for (var dim = 0u; dim < params.head_dim; dim++) {
            product += query[query_base + dim] * f32(key[key_base + dim]);
        }
        weights[pair] = log2_score(product) + added * LOG2E;
    }
}

// One row's step of the online softmax: the scores in `weights` become weights relative to the new running maximum.
fn advance_row(tile_row: u32, start: u32) {
    let slots = row_slots(tile_row, start);
    let base = tile_row * KEYS;
    let old_max = running_max[tile_row];
    var new_max = old_max;
    for (var slot = slots.x; slot < slots.y; slot++) {
        new_max = max(new_max, weights[base + slot - start]);
    }
    var sum = 0.0;
    for (var slot = slots.x; slot < slots.y; slot++) {
        let score = weights[base + slot - start];
        if (score < LIMIT && (params.mean == 0u || new_max >= LIMIT)) {
            continue;
        }
        let weight = exp2(score - new_max);
        weights[base + slot - start] = weight;
        sum += weight;
    }
    // Before the first visible key the sum is 0 and the maximum a sentinel that must not be computed with.
    let factor = select(0.0, exp2(old_max - new_max), running_sum[tile_row] > 0.0);
    running_sum[tile_row] = running_sum[tile_row] * factor + sum;
    running_max[tile_row] = new_max;
    rescale[tile_row] = factor;
}

fn add_values(lane: u32, batch: u32, kv_head: u32, start: u32) {
    for (var element = lane; element < ROWS * params.v_head_dim; element += LANES) {
        let tile_row = element / params.v_head_dim;
        let dim = element % params.v_head_dim;
        let slots = row_slots(tile_row, start);
        let value_base = batch * params.value_batch + kv_head * params.value_head + dim - params.value_skip;
        var sum = 0.0;
        for (var slot = slots.x; slot < slots.y; slot++) {
            let weight = weights[tile_row * KEYS + slot - start];
            if (weight >= 0.0) {
                sum += weight * f32(value[value_base + slot * params.value_row]);
            }
        }
        sums[element] = sums[element] * rescale[tile_row] + sum;
    }
}

// What turns a tile row's sums into its output. The heaviest key weighs 1, so that a sum of 0 says that there was none.
fn normaliser(tile_row: u32, head: u32) -> f32 {
    if (running_sum[tile_row] == 0.0) {
        return 0.0;
    }
    var sinks = array<f32, 2>(HIDDEN, HIDDEN);
    if (params.sinks != 0u) {
        sinks[0] = sink[head] * LOG2E;
    }
    if (params.zero_sink != 0u) {
        sinks[1] = 0.0;
    }
    let top = max(running_max[tile_row], max(sinks[0], sinks[1]));
    let factor = exp2(running_max[tile_row] - top);
    var total = running_sum[tile_row] * factor;
    for (var each = 0u; each < 2u; each++) {
        if (sinks[each] >= LIMIT) {
            total += exp2(sinks[each] - top);
        }
    }
    return factor / total;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tile = params.first_tile + group.x + (group.y + group.z * groups.y) * groups.x;
    if (tile >= params.tiles) {
        return;
    }
    let packed_rows = params.head_group * params.rows;
    let head_tiles = (packed_rows + ROWS - 1u) / ROWS;
    let kv_head = tile / head_tiles % params.kv_heads;
    let batch = tile / head_tiles / params.kv_heads;
    let first = tile % head_tiles * ROWS;
    let count = min(ROWS, packed_rows - first);

    // Every invocation finds the slots that any row of the tile goes over, so that the key loop is uniform control flow.
    var tile_lo = params.end_slot;
    var tile_hi = params.first_slot;
    for (var tile_row = 0u; tile_row < count; tile_row++) {
        let seen = visible[batch * params.rows + (first + tile_row) % params.rows];
        if (seen.first < seen.end) {
            tile_lo = min(tile_lo, seen.first);
            tile_hi = max(tile_hi, seen.end);
        }
    }
    // Steps begin at multiples of KEYS, wherever a row or a section does: which keys a row takes together is its own.
    tile_lo = max(tile_lo, params.first_slot) / KEYS * KEYS;
    tile_hi = min(tile_hi, params.end_slot);

    let state_row = params.v_head_dim + 2u;
    let state_base = tile * ROWS * state_row;
    if (lane < ROWS) {
        row_visible[lane] = Visible(0u, 0u, 0u, 0u);
        if (lane < count) {
            let seen = visible[batch * params.rows + (first + lane) % params.rows];
            row_visible[lane] = Visible(seen.lo, seen.hi, seen.first, min(seen.end, params.end_slot));
        }
        running_max[lane] = HIDDEN;
        running_sum[lane] = 0.0;
        if (params.resume != 0u) {
            running_max[lane] = state[state_base + lane * state_row];
            running_sum[lane] = state[state_base + lane * state_row + 1u];
        }
    }
    for (var element = lane; element < ROWS * params.v_head_dim; element += LANES) {
        sums[element] = 0.0;
        if (params.resume != 0u) {
            let place = element / params.v_head_dim * state_row + element % params.v_head_dim;
            sums[element] = state[state_base + place + 2u];
        }
    }
    workgroupBarrier();

    for (var start = tile_lo; start < tile_hi; start += KEYS) {
        score_keys(lane, batch, kv_head, first, start);
        workgroupBarrier();
        if (lane < ROWS) {
            advance_row(lane, start);
        }
        workgroupBarrier();
        add_values(lane, batch, kv_head, start);
        workgroupBarrier();
    }

    if (params.finish == 0u) {
        if (lane < ROWS) {
            state[state_base + lane * state_row] = running_max[lane];
            state[state_base + lane * state_row + 1u] = running_sum[lane];
        }
        for (var element = lane; element < ROWS * params.v_head_dim; element += LANES) {
            let place = element / params.v_head_dim * state_row + element % params.v_head_dim;
            state[state_base + place + 2u] = sums[element];
        }
        return;
    }
    for (var element = lane; element < count * params.v_head_dim; element += LANES) {
        let tile_row = element / params.v_head_dim;
        let packed = first + tile_row;
        let head = query_head(kv_head, packed);
        let row = packed % params.rows;
        let output_row = params.output_first + row * params.output_row;
        let output_base = output_row + batch * params.output_batch + head * params.output_head;
        output[output_base + element % params.v_head_dim] = elem(sums[element] * normaliser(tile_row, head));
    }
}
