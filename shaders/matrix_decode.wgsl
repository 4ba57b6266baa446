// matrix_decode.wgsl: few query rows against one slice of the keys on the matrix units of a GPU (a fast kernel: specialised).
// prelude    directives: f16, subgroups, subgroup matrices, whose uniformity is not analysed; HEAD_DIM, V_DIM: 32, 64 or 128
// bindings   0 params  1 visible [batch, rows] (lo, hi, first, end)  2 query [batch, heads, rows, head_dim] from query_first on,
//            by strides of elements  3 key [batch, kv_heads, capacity, head_dim]
//            4 value [batch, kv_heads, capacity, v_head_dim], by strides of words, as 3; 2 to 4 f16, in words of eight
//            5 bias [batch, heads, rows, slots] f32 by strides (read where `masked` is not 0)
//            6 partials [batch, kv_heads, partial_rows, slices, v_head_dim + 2] f32: sums of weighted values, running
//            maximum, running sum
// workgroup  128 invocations, 4 subgroups of 32; grid (row_tiles, slices, kv_heads, batch), flattened, the first fastest, folded
// parts      the members of batch x kv_heads from first_member on, whose keys and values may be bound from a word on, their skip
// order      a tile is ROWS consecutive packed rows of one KV head, [head_group, rows], flattened: a row of a matrix each, so
//            that 16 of them cost what one does. A slice is `slice` slots wherever it begins, a multiple of KEYS, so that
//            neither kv_len nor other members of the batch move its borders, nor those of its steps
// memory     24 KiB of workgroup memory, one arena: keys, then values over them; scores, then scratch; weights; at last sums
// subgroups  a subgroup has 16 keys of the scores, 4 rows to soften, a quarter of v_head_dim of the sums; of 32, where there are
//            but two blocks, the last two subgroups compute what the first two do and give nothing
// numerics   f32 sums; weights are rounded to f16, times 2^LIFT, and the denominator sums what was rounded; the maximum follows
//            only when it moved by more than LAZY, as in matrix.wgsl; a row that goes over no slot of the slice leaves a sum
//            of 0; where there is a mask, a value that weighs nothing in any row is taken for 0, since it may be NaN
// Arrays of matrices are indexed by constants only, and loops that hold a barrier are written out, as in matrix.wgsl.

struct Params {
    total: u32,
    first_member: u32,
    key_skip: u32,
    value_skip: u32,
    row_tiles: u32,
    partial_rows: u32,
    slices: u32,
    first_slice: u32,
    slice: u32,
    kv_heads: u32,
    head_group: u32,
    rows: u32,
    v_head_dim: u32,
    query_first: u32,
    query_batch: u32,
    query_head: u32,
    query_row: u32,
    key_batch: u32,
    key_head: u32,
    value_batch: u32,
    value_head: u32,
    bias_batch: u32,
    bias_head: u32,
    bias_row: u32,
    masked: u32,
    mean: u32,
    scale: f32,
    softcap: f32,
}

const LANES = 128u;
const SUBGROUPS = 4u;
const ROWS = 16u;
const KEYS = 64u;
const BLOCK = 16u;
const STEPS = HEAD_DIM / BLOCK;
const BLOCKS = V_DIM / BLOCK;
const COLUMNS = (BLOCKS + SUBGROUPS - 1u) / SUBGROUPS;
const KEY_WORDS = HEAD_DIM / 8u;
const VALUE_WORDS = V_DIM / 8u;
const KEY_PITCH = KEY_WORDS + 1u;
const VALUE_PITCH = VALUE_WORDS + 1u;
const SCORE_PITCH = KEYS / 4u + 1u;
const WEIGHT_PITCH = KEYS / 8u + 1u;
const SUM_WORDS = V_DIM / 4u;
const SUM_PITCH = SUM_WORDS + 1u;
const KEY_ROWS = LANES / KEY_WORDS;      // keys that the workgroup loads at once
const VALUE_ROWS = LANES / VALUE_WORDS;
const KEY_LOADS = KEYS / KEY_ROWS;
const VALUE_LOADS = KEYS / VALUE_ROWS;
const SCORES = KEYS * max(KEY_PITCH, VALUE_PITCH);
const SCRATCH = SCORES;
const WEIGHTS = SCORES + ROWS * SCORE_PITCH;
const ARENA = WEIGHTS + ROWS * WEIGHT_PITCH;
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
@group(0) @binding(5) var<storage, read> bias: array<f32>;
@group(0) @binding(6) var<storage, read_write> partials: array<f32>;

var<workgroup> arena: array<vec4<u32>, ARENA>;
var<workgroup> row_factor: array<f32, ROWS>;
var<workgroup> weighed: array<vec4<u32>, SUBGROUPS>;
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

struct Tile {
    batch: u32,
    kv_head: u32,
    first: u32,
    count: u32,
}

fn head_of(tile: Tile, row: u32) -> u32 {
    return tile.kv_head * params.head_group + (tile.first + row) / params.rows;
}

// What a row of the tile sees, of its last row behind that.
fn seen_by(tile: Tile, row: u32) -> vec4<u32> {
    return visible[tile.batch * params.rows + (tile.first + min(row, tile.count - 1u)) % params.rows];
}

// A block of sums, each row times its factor.
fn rescaled(sums: Sum, subgroup: u32, lane: u32) -> Sum {
    let place = SCRATCH + subgroup * 64u;
    subgroupMatrixStore<row_major>(&arena, place, sums, 4u);
    workgroupBarrier();
    for (var word = lane; word < 64u; word += 32u) {
        let scaled = bitcast<vec4<f32>>(arena[place + word]) * row_factor[word / 4u];
        arena[place + word] = bitcast<vec4<u32>>(scaled);
    }
    workgroupBarrier();
    let after = subgroupMatrixLoad<Sum, row_major>(&arena, place, 4u);
    workgroupBarrier();
    return after;
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

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let index = group.x + (group.y + group.z * groups.y) * groups.x;
    if (index >= params.total) {
        return;
    }
    let slice = params.first_slice + index / params.row_tiles % params.slices;
    let member = params.first_member + index / params.row_tiles / params.slices;
    let first_row = index % params.row_tiles * ROWS;
    let count = min(ROWS, params.partial_rows - first_row);
    let tile = Tile(member / params.kv_heads, member % params.kv_heads, first_row, count);
    let subgroup = subgroupBroadcastFirst(invocation / 32u);

    // The slots of the slice that any row goes over, [x, y), and those that every row sees, [z, w).
    let one = seen_by(tile, lane % ROWS);
    let goes = one.z < one.w;
    let all = vec4<u32>(
        max(subgroupMin(select(0xffffffffu, one.z, goes)), slice * params.slice),
        min(subgroupMax(select(0u, one.w, goes)), (slice + 1u) * params.slice),
        subgroupMax(one.x),
        subgroupMin(one.y),
    );
    if (invocation == 0u) {
        extent = all;
        moved = vec4<u32>(0u);
    }
    let slots = workgroupUniformLoad(&extent);
    if (slots.x >= slots.y) {
        return;
    }
    let last = slots.y - 1u;
    var start = slots.x / KEYS * KEYS;

    // Keys and values of the first step are asked for early. Outside of the slots any row will do that some row goes over: it
    // weighs nothing.
    let key_word = invocation % KEY_WORDS;
    let value_word = invocation % VALUE_WORDS;
    let key_slot = invocation / KEY_WORDS;
    let value_slot = invocation / VALUE_WORDS;
    let key_base = tile.batch * params.key_batch + tile.kv_head * params.key_head - params.key_skip + key_word;
    let value_base = tile.batch * params.value_batch + tile.kv_head * params.value_head - params.value_skip + value_word;
    let key_place = key_slot * KEY_PITCH + key_word;
    let value_place = value_slot * VALUE_PITCH + value_word;
    var keys: array<vec4<u32>, KEY_LOADS>;
    var values: array<vec4<u32>, VALUE_LOADS>;
    for (var each = 0u; each < KEY_LOADS; each++) {
        keys[each] = key[key_base + clamp(start + key_slot + each * KEY_ROWS, slots.x, last) * KEY_WORDS];
    }
    for (var each = 0u; each < VALUE_LOADS; each++) {
        values[each] = value[value_base + clamp(start + value_slot + each * VALUE_ROWS, slots.x, last) * VALUE_WORDS];
    }

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
    var queries: array<Left, STEPS>;
    for (var step = 0u; step < STEPS; step++) {
        queries[step] = subgroupMatrixLoad<Left, row_major>(&arena, step * 2u, KEY_PITCH);
    }
    workgroupBarrier();

    var sums: array<Sum, 2>;
    sums[0] = Sum();
    sums[1] = Sum();
    let column = subgroup * COLUMNS % BLOCKS;
    // Of the scores an invocation has eight keys of one row, as its seven neighbours have.
    let row = invocation / 8u;
    let seen = seen_by(tile, row);
    let own_row = min(row, tile.count - 1u);
    let bias_base = tile.batch * params.bias_batch + head_of(tile, own_row) * params.bias_head
        + (tile.first + own_row) % params.rows * params.bias_row;
    let score_place = SCORES + row * SCORE_PITCH + invocation % 8u * 2u;
    var top = HIDDEN;
    var total = 0.0;

    for (; start < slots.y; start += KEYS) {
        for (var each = 0u; each < KEY_LOADS; each++) {
            arena[key_place + each * KEY_ROWS * KEY_PITCH] = keys[each];
        }
        workgroupBarrier();
        for (var each = 0u; each < KEY_LOADS; each++) {
            let slot = start + KEYS + key_slot + each * KEY_ROWS;
            keys[each] = key[key_base + clamp(slot, slots.x, last) * KEY_WORDS];
        }
        var products = Sum();
        for (var step = 0u; step < STEPS; step++) {
            let k = subgroupMatrixLoad<Right, col_major>(&arena, subgroup * BLOCK * KEY_PITCH + step * 2u, KEY_PITCH);
            products = subgroupMatrixMultiplyAccumulate(queries[step], k, products);
        }
        subgroupMatrixStore<row_major>(&arena, SCORES + subgroup * 4u, products, SCORE_PITCH);
        workgroupBarrier();
        for (var each = 0u; each < VALUE_LOADS; each++) {
            arena[value_place + each * VALUE_ROWS * VALUE_PITCH] = values[each];
        }
        for (var each = 0u; each < VALUE_LOADS; each++) {
            let slot = start + KEYS + value_slot + each * VALUE_ROWS;
            values[each] = value[value_base + clamp(slot, slots.x, last) * VALUE_WORDS];
        }

        // One step of the online softmax of a row: its scores become weights.
        var a = log2_scores(bitcast<vec4<f32>>(arena[score_place]));
        var b = log2_scores(bitcast<vec4<f32>>(arena[score_place + 1u]));
        // A full step: every row sees all of its slots.
        if (params.masked != 0u || start < slots.z || start + KEYS > slots.w) {
            let slot = start + invocation % 8u * 8u;
            a = seen_scores(a, seen, bias_base, slot);
            b = seen_scores(b, seen, bias_base, slot + 4u);
        }
        let highest = max(a, b);
        let pair = max(highest.xy, highest.zw);
        var now = max(pair.x, pair.y);
        now = max(now, subgroupShuffleXor(now, 1u));
        now = max(now, subgroupShuffleXor(now, 2u));
        now = max(now, subgroupShuffleXor(now, 4u));
        let moves = now > top + LAZY;
        let factor = select(1.0, exp2(top - now), moves);
        // Where nothing has been summed, there is nothing to rescale: so it is in the first step of a slice.
        if (subgroupAny(moves && total != 0.0) && lane == 0u) {
            moved.x = 1u;
        }
        top = select(top, now, moves);
        let weights_a = vec4<f16>(exp2(a - top + LIFT));
        let weights_b = vec4<f16>(exp2(b - top + LIFT));
        let each = vec4<f32>(weights_a) + vec4<f32>(weights_b);
        total = total * factor + ((each.x + each.y) + (each.z + each.w));
        let weights = vec4<u32>(bitcast<vec2<u32>>(weights_a), bitcast<vec2<u32>>(weights_b));
        arena[WEIGHTS + row * WEIGHT_PITCH + invocation % 8u] = weights;
        if (invocation % 8u == 0u) {
            row_factor[row] = factor;
        }
        // A value that a mask hides from all rows may be no number, and 0 x NaN is NaN: 0 takes its place.
        if (params.masked != 0u) {
            let some = weighing(weights, lane);
            if (lane == 0u) {
                weighed[subgroup] = vec4<u32>(some, 0u, 0u);
            }
            workgroupBarrier();
            let any_row = (weighed[0] | weighed[1]) | (weighed[2] | weighed[3]);
            for (var each = 0u; each < VALUE_LOADS; each++) {
                let slot = value_slot + each * VALUE_ROWS;
                if (((select(any_row.x, any_row.y, slot >= 32u) >> (slot % 32u)) & 1u) == 0u) {
                    arena[value_place + each * VALUE_ROWS * VALUE_PITCH] = vec4<u32>(0u);
                }
            }
        }
        if (workgroupUniformLoad(&moved).x != 0u) {
            sums[0] = rescaled(sums[0], subgroup, lane);
            if (COLUMNS > 1u) {
                sums[1] = rescaled(sums[1], subgroup, lane);
            }
            if (invocation == 0u) {
                moved.x = 0u;
            }
        }
        for (var step = 0u; step < KEYS / BLOCK; step++) {
            let p = subgroupMatrixLoad<Left, row_major>(&arena, WEIGHTS + step * 2u, WEIGHT_PITCH);
            for (var each = 0u; each < COLUMNS; each++) {
                let place = step * BLOCK * VALUE_PITCH + (column + each) * 2u;
                let v = subgroupMatrixLoad<Right, row_major>(&arena, place, VALUE_PITCH);
                sums[each] = subgroupMatrixMultiplyAccumulate(p, v, sums[each]);
            }
        }
        workgroupBarrier();
    }

    if (subgroup * COLUMNS < BLOCKS) {
        subgroupMatrixStore<row_major>(&arena, column * 4u, sums[0], SUM_PITCH);
        if (COLUMNS > 1u) {
            subgroupMatrixStore<row_major>(&arena, column * 4u + 4u, sums[1], SUM_PITCH);
        }
    }
    total += subgroupShuffleXor(total, 1u);
    total += subgroupShuffleXor(total, 2u);
    total += subgroupShuffleXor(total, 4u);
    workgroupBarrier();
    let row_size = params.v_head_dim + 2u;
    let pitch = params.slices * row_size;
    let base = (member * params.partial_rows + tile.first) * pitch + (slice - params.first_slice) * row_size;
    for (var word = invocation; word < tile.count * SUM_WORDS; word += LANES) {
        let four = bitcast<vec4<f32>>(arena[word / SUM_WORDS * SUM_PITCH + word % SUM_WORDS]);
        let place = base + word / SUM_WORDS * pitch + word % SUM_WORDS * 4u;
        partials[place] = four.x;
        partials[place + 1u] = four.y;
        partials[place + 2u] = four.z;
        partials[place + 3u] = four.w;
    }
    if (invocation % 8u == 0u && row < tile.count) {
        let place = base + row * pitch + params.v_head_dim;
        partials[place] = top - LIFT;
        partials[place + 1u] = total;
    }
}
