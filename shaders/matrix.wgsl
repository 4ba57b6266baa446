// matrix.wgsl: attention on the matrix units of a GPU, through subgroup matrices: f16 operands, f32 sums (a fast kernel: specialised).
// prelude    directives: f16, subgroups, subgroup matrices, whose uniformity is not analysed; HEAD_DIM, V_DIM: 32, 64 or 128
// bindings   0 params  1 visible [batch, rows] (lo, hi, first, end)  2 query [batch, heads, rows, head_dim] from query_first on
//            3 key [batch, kv_heads, capacity, head_dim]  4 value [batch, kv_heads, capacity, v_head_dim]
//            5 output [batch, heads, rows, v_head_dim] from output_first on; 2 to 5 f16 by strides, in words of eight
//            6 bias [batch, heads, rows, slots] f32 by strides (read where `masked` is not 0)
//            7 sink [heads] f32 (read where `sinks` is not 0)
// workgroup  256 invocations, 8 subgroups of 32; grid (tiles), folded over x, y, z
// order      a tile is ROWS consecutive packed rows of one KV head, as in online.wgsl; the last tiles, which see the most keys, first
// memory     46 KiB of workgroup memory, one arena: keys, then scores over them, then weights, values and scratch beside each other
// subgroups  a subgroup has 32 rows x 32 keys of the scores, 16 rows to soften, 32 rows x half of v_head_dim of the output
// numerics   f32 sums; weights are rounded to f16, times 2^LIFT, and the denominator sums what was rounded; the maximum follows
//            only when it moved by more than LAZY (FlashAttention 4): factors stay exact, and sums are seldom rescaled; where
//            there is a mask, a value that weighs nothing in any row is taken for 0, since it may be NaN
// Arrays of matrices are indexed by constants only, and loops that hold a barrier are written out: where a driver does
// not unroll, such an array goes to memory, and the kernel takes twice as long.

struct Params {
    tiles: u32,
    kv_heads: u32,
    head_group: u32,
    rows: u32,
    query_first: u32,
    query_batch: u32,
    query_head: u32,
    query_row: u32,
    key_batch: u32,
    key_head: u32,
    value_batch: u32,
    value_head: u32,
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

const LANES = 256u;
const ROWS = 128u;
const KEYS = 64u;
const BLOCK = 16u;
const STEPS = HEAD_DIM / BLOCK;
const COLUMNS = V_DIM / 2u / BLOCK;
const KEY_WORDS = HEAD_DIM / 8u;
const VALUE_WORDS = V_DIM / 8u;
const KEY_PITCH = KEY_WORDS + 1u;
const VALUE_PITCH = VALUE_WORDS + 1u;
const SCORE_PITCH = KEYS / 4u + 2u;
const WEIGHT_PITCH = KEYS / 8u + 1u;
const KEY_LOADS = KEYS * KEY_WORDS / LANES;
const VALUE_LOADS = KEYS * VALUE_WORDS / LANES;
const VALUES = ROWS * WEIGHT_PITCH;
const SCRATCH = VALUES + KEYS * VALUE_PITCH;
const ARENA = max(ROWS * SCORE_PITCH, SCRATCH + LANES / 32u * 64u);
const LOG2E: f32 = 1.4426950408889634;
const HIDDEN: f32 = -1.5e38;
const LIMIT: f32 = -1.4e38;
const ABSENT: f32 = -3.0e38;
const LAZY: f32 = 8.0;
const LIFT: f32 = 7.0;

alias Left = subgroup_matrix_left<f16, 16, 16>;
alias Right = subgroup_matrix_right<f16, 16, 16>;
alias Sum = subgroup_matrix_result<f32, 16, 16>;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> query: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> key: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> value: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> output: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
@group(0) @binding(7) var<storage, read> sink: array<f32>;

var<workgroup> arena: array<vec4<u32>, ARENA>;
var<workgroup> row_visible: array<vec4<u32>, ROWS>;
var<workgroup> row_factor: array<f32, ROWS>;
var<workgroup> extents: array<vec4<u32>, 8>;
var<workgroup> weighed: array<vec4<u32>, 8>;
var<workgroup> extent: vec4<u32>;
var<workgroup> moved: vec4<u32>;

// The builtin tanh is only as good as sinh / cosh: poor near 0, NaN far out. Coefficients: Cephes, tanhf.c.
fn accurate_tanh(x: f32) -> f32 {
    let z = x * x;
    let series = (((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z;
    let near = x + x * z * (series - 3.33332819422e-1);
    let far = sign(x) * (1.0 - 2.0 / (exp2(min(abs(x), 20.0) * (2.0 * LOG2E)) + 1.0));
    return select(far, near, abs(x) < 0.625);
}

fn log2_scores(products: vec4<f32>) -> vec4<f32> {
    if (params.softcap == 0.0) {
        return products * (params.scale * LOG2E);
    }
    let x = products * (params.scale / params.softcap);
    let bent = vec4<f32>(accurate_tanh(x.x), accurate_tanh(x.y), accurate_tanh(x.z), accurate_tanh(x.w));
    return bent * (params.softcap * LOG2E);
}

// The scores of a row and the slots slot ... slot + 3 as they count: ABSENT where the row does not go over the slot.
fn seen_scores(scores: vec4<f32>, seen: vec4<u32>, bias_base: u32, slot: u32) -> vec4<f32> {
    var out = scores;
    let hidden = select(ABSENT, HIDDEN, params.mean != 0u);
    for (var each = 0u; each < 4u; each++) {
        let at = slot + each;
        if (at < seen.z || at >= seen.w) {
            out[each] = ABSENT;
        } else if (at < seen.x || at >= seen.y) {
            out[each] = hidden;
        } else if (params.masked != 0u) {
            let added = bias[bias_base + at];
            out[each] = select(scores[each] + added * LOG2E, hidden, added < LIMIT);
        }
    }
    return out;
}

// A block of sums, each row times its factor.
fn rescaled(sums: Sum, subgroup: u32, lane: u32, first_row: u32) -> Sum {
    let place = SCRATCH + subgroup * 64u;
    subgroupMatrixStore<row_major>(&arena, place, sums, 4u);
    workgroupBarrier();
    for (var word = lane; word < 64u; word += 32u) {
        let scaled = bitcast<vec4<f32>>(arena[place + word]) * row_factor[first_row + word / 4u];
        arena[place + word] = bitcast<vec4<u32>>(scaled);
    }
    workgroupBarrier();
    let after = subgroupMatrixLoad<Sum, row_major>(&arena, place, 4u);
    workgroupBarrier();
    return after;
}

fn rounded(a: vec4<f32>, b: vec4<f32>) -> vec4<u32> {
    return vec4<u32>(bitcast<vec2<u32>>(vec4<f16>(a)), bitcast<vec2<u32>>(vec4<f16>(b)));
}

// What turns a row's sums into its output.
fn normaliser(top: f32, sum: f32, head: u32) -> f32 {
    if (sum == 0.0) {
        return 0.0;
    }
    var sinks = array<f32, 2>(HIDDEN, HIDDEN);
    if (params.sinks != 0u) {
        sinks[0] = sink[head] * LOG2E;
    }
    if (params.zero_sink != 0u) {
        sinks[1] = 0.0;
    }
    let highest = max(top, max(sinks[0], sinks[1]));
    let factor = exp2(top - highest - LIFT);
    var total = sum * factor;
    for (var each = 0u; each < 2u; each++) {
        if (sinks[each] >= LIMIT) {
            total += exp2(sinks[each] - highest);
        }
    }
    return factor / total;
}

// Whether a slot is one of [x, y).
fn goes_over(slot: u32, slots: vec4<u32>) -> bool {
    return slot >= slots.x && slot < slots.y;
}

struct Tile {
    batch: u32,
    kv_head: u32,
    first: u32,
    count: u32,
}

fn head_of(tile: Tile, row: u32) -> u32 {
    return tile.kv_head * params.head_group + (tile.first + row) / params.rows;
}

// A block of sums, normalised, to the output.
fn give(sums: Sum, tile: Tile, subgroup: u32, lane: u32, first_row: u32, column: u32) {
    let place = SCRATCH + subgroup * 64u;
    subgroupMatrixStore<row_major>(&arena, place, sums, 4u);
    workgroupBarrier();
    let row = first_row + lane / 2u;
    if (row < tile.count) {
        let factor = row_factor[row];
        let a = bitcast<vec4<f32>>(arena[place + lane * 2u]) * factor;
        let b = bitcast<vec4<f32>>(arena[place + lane * 2u + 1u]) * factor;
        let base = params.output_first + tile.batch * params.output_batch + head_of(tile, row) * params.output_head
            + (tile.first + row) % params.rows * params.output_row;
        output[(base + column) / 8u + lane % 2u] = rounded(a, b);
    }
    workgroupBarrier();
}

// Four rows of a subgroup, eight lanes a row, eight keys a lane: the running maximum and sum of one row.
struct Running {
    top: f32,
    sum: f32,
}

fn scores_at(row: u32, lane: u32, half: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(arena[row * SCORE_PITCH + lane % 8u * 2u + half]);
}

// One step of the online softmax of a row: its scores become weights. Says whether what was summed before is to be rescaled:
// the maximum moved, and this lane has summed something, which it has not where a row's keys begin.
fn soften(running: ptr<function, Running>, row: u32, lane: u32, a: vec4<f32>, b: vec4<f32>) -> bool {
    let highest = max(a, b);
    let pair = max(highest.xy, highest.zw);
    var top = max(pair.x, pair.y);
    top = max(top, subgroupShuffleXor(top, 1u));
    top = max(top, subgroupShuffleXor(top, 2u));
    top = max(top, subgroupShuffleXor(top, 4u));
    let before = *running;
    let moves = top > before.top + LAZY;
    let now = select(before.top, top, moves);
    let factor = select(1.0, exp2(before.top - now), moves);
    let weights_a = vec4<f16>(exp2(a - now + LIFT));
    let weights_b = vec4<f16>(exp2(b - now + LIFT));
    let each = vec4<f32>(weights_a) + vec4<f32>(weights_b);
    (*running).sum = before.sum * factor + ((each.x + each.y) + (each.z + each.w));
    (*running).top = now;
    arena[row * WEIGHT_PITCH + lane % 8u] = vec4<u32>(bitcast<vec2<u32>>(weights_a), bitcast<vec2<u32>>(weights_b));
    if (lane % 8u == 0u) {
        row_factor[row] = factor;
    }
    return moves && before.sum != 0.0;
}

// Which of the keys of a step weigh something in the rows of this subgroup, a bit each, of a lane's eight weights.
fn weighing(weights: vec4<u32>, lane: u32) -> vec2<u32> {
    let even = select(vec4<u32>(), vec4<u32>(1u, 4u, 16u, 64u), (weights & vec4<u32>(0xffffu)) != vec4<u32>());
    let odd = select(vec4<u32>(), vec4<u32>(2u, 8u, 32u, 128u), (weights >> vec4<u32>(16u)) != vec4<u32>());
    let both = even | odd;
    let bits = ((both.x | both.y) | (both.z | both.w)) << (lane % 4u * 8u);
    let low = lane % 8u < 4u;
    return vec2<u32>(subgroupOr(select(0u, bits, low)), subgroupOr(select(bits, 0u, low)));
}

fn weights_at(row: u32, lane: u32) -> vec4<u32> {
    return arena[row * WEIGHT_PITCH + lane % 8u];
}

fn finished(running: Running, tile: Tile, row: u32, lane: u32) {
    var sum = running.sum;
    sum += subgroupShuffleXor(sum, 1u);
    sum += subgroupShuffleXor(sum, 2u);
    sum += subgroupShuffleXor(sum, 4u);
    if (lane % 8u == 0u && row < tile.count) {
        row_factor[row] = normaliser(running.top, sum, head_of(tile, row));
    }
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let index = group.x + (group.y + group.z * groups.y) * groups.x;
    if (index >= params.tiles) {
        return;
    }
    let packed_rows = params.head_group * params.rows;
    let head_tiles = (packed_rows + ROWS - 1u) / ROWS;
    let members = params.tiles / head_tiles;
    let member = index % members;
    let first = (head_tiles - 1u - index / members) * ROWS;
    let tile = Tile(member / params.kv_heads, member % params.kv_heads, first, min(ROWS, packed_rows - first));
    let subgroup = subgroupBroadcastFirst(invocation / 32u);
    let block_rows = subgroup / 2u * 32u;
    let half = subgroup % 2u;

    // The slots that any row goes over, [x, y), and those that every row sees, [z, w).
    var seen = vec4<u32>(0u);
    var mine = vec4<u32>(0xffffffffu, 0u, 0u, 0xffffffffu);
    if (invocation < ROWS) {
        if (invocation < tile.count) {
            seen = visible[tile.batch * params.rows + (tile.first + invocation) % params.rows];
            let goes = seen.z < seen.w;
            mine = vec4<u32>(select(0xffffffffu, seen.z, goes), select(0u, seen.w, goes), seen.x, seen.y);
        }
        row_visible[invocation] = seen;
    }
    mine = vec4<u32>(subgroupMin(mine.x), subgroupMax(mine.y), subgroupMax(mine.z), subgroupMin(mine.w));
    if (lane == 0u) {
        extents[subgroup] = mine;
    }
    workgroupBarrier();
    if (invocation == 0u) {
        var all = extents[0];
        for (var each = 1u; each < 8u; each++) {
            let one = extents[each];
            all = vec4<u32>(min(all.x, one.x), max(all.y, one.y), max(all.z, one.z), min(all.w, one.w));
        }
        extent = all;
        moved = vec4<u32>(0u);
    }
    let slots = workgroupUniformLoad(&extent);
    // Steps begin at multiples of KEYS: which keys a row takes together is its own, whatever rows share its tile.
    let begin = slots.x / KEYS * KEYS;

    // Queries, by way of the arena.
    for (var word = invocation; word < ROWS * KEY_WORDS; word += LANES) {
        let row = word / KEY_WORDS;
        var packed = vec4<u32>(0u);
        if (row < tile.count) {
            let base = params.query_first + tile.batch * params.query_batch + head_of(tile, row) * params.query_head
                + (tile.first + row) % params.rows * params.query_row;
            packed = query[base / 8u + word % KEY_WORDS];
        }
        arena[row * KEY_PITCH + word % KEY_WORDS] = packed;
    }
    workgroupBarrier();
    var queries: array<Left, 2u * STEPS>;
    for (var step = 0u; step < STEPS; step++) {
        queries[step] = subgroupMatrixLoad<Left, row_major>(&arena, block_rows * KEY_PITCH + step * 2u, KEY_PITCH);
        queries[STEPS + step] =
            subgroupMatrixLoad<Left, row_major>(&arena, (block_rows + BLOCK) * KEY_PITCH + step * 2u, KEY_PITCH);
    }
    workgroupBarrier();

    var sums: array<Sum, 8>;
    for (var each = 0u; each < 8u; each++) {
        sums[each] = Sum();
    }
    let row0 = subgroup * 16u + lane / 8u;
    var running0 = Running(HIDDEN, 0.0);
    var running1 = Running(HIDDEN, 0.0);
    var running2 = Running(HIDDEN, 0.0);
    var running3 = Running(HIDDEN, 0.0);

    let key_base = (tile.batch * params.key_batch + tile.kv_head * params.key_head) / 8u;
    let value_base = (tile.batch * params.value_batch + tile.kv_head * params.value_head) / 8u;
    let key_slot = invocation / KEY_WORDS;
    let value_slot = invocation / VALUE_WORDS;
    let key_place = key_slot * KEY_PITCH + invocation % KEY_WORDS;
    let value_place = VALUES + value_slot * VALUE_PITCH + invocation % VALUE_WORDS;
    var keys: array<vec4<u32>, KEY_LOADS>;
    var values: array<vec4<u32>, VALUE_LOADS>;
    for (var each = 0u; each < KEY_LOADS; each++) {
        let slot = begin + key_slot + each * (LANES / KEY_WORDS);
        keys[each] = vec4<u32>(0u);
        if (goes_over(slot, slots)) {
            keys[each] = key[key_base + slot * KEY_WORDS + invocation % KEY_WORDS];
        }
    }

    for (var start = begin; start < slots.y; start += KEYS) {
        for (var each = 0u; each < KEY_LOADS; each++) {
            arena[key_place + each * (LANES / KEY_WORDS) * KEY_PITCH] = keys[each];
        }
        workgroupBarrier();
        // Values of this step and keys of the next are asked for early, and stored when their place is free.
        for (var each = 0u; each < VALUE_LOADS; each++) {
            let slot = start + value_slot + each * (LANES / VALUE_WORDS);
            values[each] = vec4<u32>(0u);
            if (goes_over(slot, slots)) {
                values[each] = value[value_base + slot * VALUE_WORDS + invocation % VALUE_WORDS];
            }
        }
        var s00 = Sum();
        var s01 = Sum();
        var s10 = Sum();
        var s11 = Sum();
        for (var step = 0u; step < STEPS; step++) {
            let place = half * 32u * KEY_PITCH + step * 2u;
            let k0 = subgroupMatrixLoad<Right, col_major>(&arena, place, KEY_PITCH);
            let k1 = subgroupMatrixLoad<Right, col_major>(&arena, place + BLOCK * KEY_PITCH, KEY_PITCH);
            s00 = subgroupMatrixMultiplyAccumulate(queries[step], k0, s00);
            s01 = subgroupMatrixMultiplyAccumulate(queries[step], k1, s01);
            s10 = subgroupMatrixMultiplyAccumulate(queries[STEPS + step], k0, s10);
            s11 = subgroupMatrixMultiplyAccumulate(queries[STEPS + step], k1, s11);
        }
        workgroupBarrier();
        let score_place = block_rows * SCORE_PITCH + half * 8u;
        subgroupMatrixStore<row_major>(&arena, score_place, s00, SCORE_PITCH);
        subgroupMatrixStore<row_major>(&arena, score_place + 4u, s01, SCORE_PITCH);
        subgroupMatrixStore<row_major>(&arena, score_place + BLOCK * SCORE_PITCH, s10, SCORE_PITCH);
        subgroupMatrixStore<row_major>(&arena, score_place + BLOCK * SCORE_PITCH + 4u, s11, SCORE_PITCH);
        workgroupBarrier();
        for (var each = 0u; each < KEY_LOADS; each++) {
            let slot = start + KEYS + key_slot + each * (LANES / KEY_WORDS);
            keys[each] = vec4<u32>(0u);
            if (goes_over(slot, slots)) {
                keys[each] = key[key_base + slot * KEY_WORDS + invocation % KEY_WORDS];
            }
        }
        var a0 = log2_scores(scores_at(row0, lane, 0u));
        var b0 = log2_scores(scores_at(row0, lane, 1u));
        var a1 = log2_scores(scores_at(row0 + 4u, lane, 0u));
        var b1 = log2_scores(scores_at(row0 + 4u, lane, 1u));
        var a2 = log2_scores(scores_at(row0 + 8u, lane, 0u));
        var b2 = log2_scores(scores_at(row0 + 8u, lane, 1u));
        var a3 = log2_scores(scores_at(row0 + 12u, lane, 0u));
        var b3 = log2_scores(scores_at(row0 + 12u, lane, 1u));
        workgroupBarrier();
        for (var each = 0u; each < VALUE_LOADS; each++) {
            arena[value_place + each * (LANES / VALUE_WORDS) * VALUE_PITCH] = values[each];
        }
        // A full tile: every row sees all of its slots.
        if (params.masked != 0u || start < slots.z || start + KEYS > slots.w) {
            let slot = start + lane % 8u * 8u;
            for (var each = 0u; each < 4u; each++) {
                let row = row0 + each * 4u;
                let see = row_visible[row];
                let bias_base = tile.batch * params.bias_batch + head_of(tile, row) * params.bias_head
                    + (tile.first + row) % params.rows * params.bias_row;
                switch (each) {
                    case 0u: { a0 = seen_scores(a0, see, bias_base, slot); b0 = seen_scores(b0, see, bias_base, slot + 4u); }
                    case 1u: { a1 = seen_scores(a1, see, bias_base, slot); b1 = seen_scores(b1, see, bias_base, slot + 4u); }
                    case 2u: { a2 = seen_scores(a2, see, bias_base, slot); b2 = seen_scores(b2, see, bias_base, slot + 4u); }
                    default: { a3 = seen_scores(a3, see, bias_base, slot); b3 = seen_scores(b3, see, bias_base, slot + 4u); }
                }
            }
        }
        let moves0 = soften(&running0, row0, lane, a0, b0);
        let moves1 = soften(&running1, row0 + 4u, lane, a1, b1);
        let moves2 = soften(&running2, row0 + 8u, lane, a2, b2);
        let moves3 = soften(&running3, row0 + 12u, lane, a3, b3);
        if (subgroupAny(moves0 || moves1 || moves2 || moves3) && lane == 0u) {
            moved.x = 1u;
        }
        // A value that a mask hides from all rows may be no number, and 0 x NaN is NaN: 0 takes its place.
        if (params.masked != 0u) {
            let weights = (weights_at(row0, lane) | weights_at(row0 + 4u, lane))
                | (weights_at(row0 + 8u, lane) | weights_at(row0 + 12u, lane));
            let some = weighing(weights, lane);
            if (lane == 0u) {
                weighed[subgroup] = vec4<u32>(some, 0u, 0u);
            }
            workgroupBarrier();
            let any_row = ((weighed[0] | weighed[1]) | (weighed[2] | weighed[3]))
                | ((weighed[4] | weighed[5]) | (weighed[6] | weighed[7]));
            for (var each = 0u; each < VALUE_LOADS; each++) {
                let slot = value_slot + each * (LANES / VALUE_WORDS);
                if (((select(any_row.x, any_row.y, slot >= 32u) >> (slot % 32u)) & 1u) == 0u) {
                    arena[value_place + each * (LANES / VALUE_WORDS) * VALUE_PITCH] = vec4<u32>(0u);
                }
            }
        }
        workgroupBarrier();
        if (workgroupUniformLoad(&moved).x != 0u) {
            sums[0] = rescaled(sums[0], subgroup, lane, block_rows);
            sums[4] = rescaled(sums[4], subgroup, lane, block_rows + BLOCK);
            if (COLUMNS > 1u) {
                sums[1] = rescaled(sums[1], subgroup, lane, block_rows);
                sums[5] = rescaled(sums[5], subgroup, lane, block_rows + BLOCK);
            }
            if (COLUMNS > 2u) {
                sums[2] = rescaled(sums[2], subgroup, lane, block_rows);
                sums[6] = rescaled(sums[6], subgroup, lane, block_rows + BLOCK);
                sums[3] = rescaled(sums[3], subgroup, lane, block_rows);
                sums[7] = rescaled(sums[7], subgroup, lane, block_rows + BLOCK);
            }
            if (invocation == 0u) {
                moved.x = 0u;
            }
        }
        for (var step = 0u; step < KEYS / BLOCK; step++) {
            let p0 = subgroupMatrixLoad<Left, row_major>(&arena, block_rows * WEIGHT_PITCH + step * 2u, WEIGHT_PITCH);
            let p1 =
                subgroupMatrixLoad<Left, row_major>(&arena, (block_rows + BLOCK) * WEIGHT_PITCH + step * 2u, WEIGHT_PITCH);
            for (var column = 0u; column < COLUMNS; column++) {
                let place = VALUES + step * BLOCK * VALUE_PITCH + (half * COLUMNS + column) * 2u;
                let v = subgroupMatrixLoad<Right, row_major>(&arena, place, VALUE_PITCH);
                sums[column] = subgroupMatrixMultiplyAccumulate(p0, v, sums[column]);
                sums[4u + column] = subgroupMatrixMultiplyAccumulate(p1, v, sums[4u + column]);
            }
        }
        workgroupBarrier();
    }

    finished(running0, tile, row0, lane);
    finished(running1, tile, row0 + 4u, lane);
    finished(running2, tile, row0 + 8u, lane);
    finished(running3, tile, row0 + 12u, lane);
    workgroupBarrier();
    let column = half * COLUMNS * BLOCK;
    give(sums[0], tile, subgroup, lane, block_rows, column);
    give(sums[4], tile, subgroup, lane, block_rows + BLOCK, column);
    if (COLUMNS > 1u) {
        give(sums[1], tile, subgroup, lane, block_rows, column + BLOCK);
        give(sums[5], tile, subgroup, lane, block_rows + BLOCK, column + BLOCK);
    }
    if (COLUMNS > 2u) {
        give(sums[2], tile, subgroup, lane, block_rows, column + 2u * BLOCK);
        give(sums[6], tile, subgroup, lane, block_rows + BLOCK, column + 2u * BLOCK);
        give(sums[3], tile, subgroup, lane, block_rows, column + 3u * BLOCK);
        give(sums[7], tile, subgroup, lane, block_rows + BLOCK, column + 3u * BLOCK);
    }
}
