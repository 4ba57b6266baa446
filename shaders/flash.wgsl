// flash.wgsl: tiled attention in one pass over the keys, with scores and sums in registers (a fast kernel: specialised).
// prelude    elem: type of keys, values and output; query_elem: of queries; VALUE_COLUMNS: quads of v_head_dim an invocation
//            sums (2, 4 or 8, for up to 64, 128 or 256 dims); PARTS: quads of rows an invocation owns (1 or 2); KEY_CHUNK:
//            keys whose values are staged together, a multiple of 8; STAGE: vectors of `stage`
// bindings   0 params  1 visible [batch, rows] (lo, hi, first, end)  2 query [batch, heads, rows, head_dim] by strides, from
//            query_first on  3 key [batch, kv_heads, capacity, head_dim]  4 value [batch, kv_heads, capacity, v_head_dim] by strides
//            5 output [batch, heads, rows, v_head_dim] by strides, from output_first on; 2 to 5 are vectors of 4, and so are
//            their strides
//            6 bias [batch, heads, rows, slots] f32 by strides, 0 where it is broadcast (read where `masked` is not 0)
//            7 sink [heads] f32 (read where `sinks` is not 0)
// workgroup  128 invocations, 8 side by side on PARTS quads of rows; one workgroup a tile; grid (tiles), folded over x, y, z
// parts      `members` of batch x kv_heads from first_member on, whose keys and values may be bound from a vector on, their skip
// order      a tile is 64 x PARTS consecutive packed rows of one KV head against 64 keys at a time; packed rows are
//            [rows, head_group], flattened, so that the query heads that share keys share a tile, and a tile's rows see
//            much the same keys; the last rows, which see most, come first
// tiles      steps of 64 keys before the first and behind the last that any row of a tile goes over are not looked at
//            (empty); where every row sees every key, no key is judged (full); a mask makes all others partial
// memory     at most 16 KiB, 24 with PARTS 2: `stage` holds first queries and keys, 16 dims at a time, then weights and
//            values, KEY_CHUNK keys at a time
// numerics   f32 products and sums; scores in log2 units: `factor` is scale x log2 e, or scale / softcap, and `cap`
//            softcap x log2 e, 0 for none. A key that a row does not go over is ABSENT and weighs nothing; one that it goes
//            over but does not see is HIDDEN where `mean` is not 0, so that hidden keys weigh the same until the first one
//            that is seen, and ABSENT elsewhere; slots behind the last key are never read; values that a mask hides from
//            all rows of a tile, or that lie before the first key of all, are never multiplied; a sink, and one of 0 where
//            `zero_sink` is not 0, only count in the last division

struct Params {
    tiles: u32,
    members: u32,
    first_member: u32,
    key_skip: u32,
    value_skip: u32,
    kv_heads: u32,
    head_group: u32,
    rows: u32,
    head_quads: u32,
    value_quads: u32,
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
    factor: f32,
    cap: f32,
}

const LINES = 16u;
const ROW_QUADS = LINES * PARTS;
const FAR = LINES * (PARTS - 1u);
const DIM_QUADS = 4u;
const COLUMNS = 8u;
const KEYS = 64u;
const KEY_QUADS = 16u;
const ROWS = 4u * ROW_QUADS;
const LANES = COLUMNS * LINES;
const PART_SCORES = KEYS / COLUMNS;
const PART_SUMS = 4u * VALUE_COLUMNS;
const QUERY_BLOCKS = ROW_QUADS * DIM_QUADS;
const BLOCKS = QUERY_BLOCKS + KEY_QUADS * DIM_QUADS;
const QUERY_STAGE = 4u * QUERY_BLOCKS;
const WEIGHT_ROW = ROW_QUADS + 1u;
const WEIGHT_STAGE = KEY_CHUNK * WEIGHT_ROW;
const VALUE_ROW = COLUMNS * VALUE_COLUMNS;
const VALUE_LOADS = KEY_CHUNK * VALUE_ROW / LANES;
const CHUNKS = KEYS / KEY_CHUNK;
const REDUCTION_ROW = COLUMNS + 1u;
const LO = 0u;
const HI = ROW_QUADS;
const END = 2u * ROW_QUADS;
const QUERY = 3u * ROW_QUADS;
const BIAS = 4u * ROW_QUADS;
const LOG2E: f32 = 1.4426950408889634;
const ABSENT: f32 = -2.0e38;
const HIDDEN: f32 = -1.5e38;
const LIMIT: f32 = -1.4e38;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> query: array<vec4<query_elem>>;
@group(0) @binding(3) var<storage, read> key: array<vec4<elem>>;
@group(0) @binding(4) var<storage, read> value: array<vec4<elem>>;
@group(0) @binding(5) var<storage, read_write> output: array<vec4<elem>>;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
@group(0) @binding(7) var<storage, read> sink: array<f32>;

var<workgroup> stage: array<vec4<f32>, STAGE>;
var<workgroup> reduction: array<vec4<f32>, ROW_QUADS * REDUCTION_ROW>;
var<workgroup> table: array<vec4<u32>, 5u * ROW_QUADS>;
var<workgroup> weighing: array<atomic<u32>, 4>;

// Of one invocation, whose line and column are lane / COLUMNS and lane % COLUMNS. It owns the rows of the quads line, and
// with PARTS 2 line + LINES; of each part: its four rows with the keys column, column + 8, ... of a key tile; for each quad
// of v_head_dim, column, column + 8, ..., the sums of its four rows; and what its rows reached. All are indexed by constants
// only, once functions are inlined, which keeps them in registers.
alias Scores = array<vec4<f32>, PART_SCORES * PARTS>;
alias Sums = array<vec4<f32>, PART_SUMS * PARTS>;
alias Reached = array<vec4<f32>, PARTS>;

// The builtin tanh is only as good as sinh / cosh: poor near 0, NaN far out. Coefficients: Cephes, tanhf.c.
fn accurate_tanh(x: f32) -> f32 {
    let z = x * x;
    let series = (((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z;
    let near = x + x * z * (series - 3.33332819422e-1);
    let far = sign(x) * (1.0 - 2.0 / (exp2(min(abs(x), 20.0) * (2.0 * LOG2E)) + 1.0));
    return select(far, near, abs(x) < 0.625);
}

// What the rows of a quad see, and where their queries and biases begin. Rows behind the last repeat it, but see nothing.
fn fill_table(quad: u32, batch: u32, kv_head: u32, first: u32, packed_rows: u32) {
    var lo = vec4<u32>();
    var hi = vec4<u32>();
    var end = vec4<u32>();
    var queries = vec4<u32>();
    var biases = vec4<u32>();
    for (var each = 0u; each < 4u; each++) {
        let place = first + 4u * quad + each;
        let packed = min(place, packed_rows - 1u);
        let row = packed / params.head_group;
        let head = kv_head * params.head_group + packed % params.head_group;
        let seen = visible[batch * params.rows + row];
        if (place == packed) {
            lo[each] = seen.x;
            hi[each] = seen.y;
            end[each] = seen.w;
        }
        queries[each] = params.query_first + batch * params.query_batch + head * params.query_head + row * params.query_row;
        biases[each] = batch * params.bias_batch + head * params.bias_head + row * params.bias_row;
    }
    table[LO + quad] = lo;
    table[HI + quad] = hi;
    table[END + quad] = end;
    table[QUERY + quad] = queries;
    table[BIAS + quad] = biases;
}

// Where a quad stands in its line: turned by its dims, so that quads that are written or read together are in different
// banks.
fn swizzled(quad: u32, dim_quad: u32) -> u32 {
    return quad / 8u * 8u + (quad + 2u * dim_quad) % 8u;
}

// A block of 4 x 4: four rows of queries, or four keys, at one quad of head_dim.
struct Block {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
}

// Queries come first among the blocks of a stage.
fn load_block(block: u32, key_base: u32, start: u32, end: u32, dim_quad: u32) -> Block {
    var found = Block();
    let dim = dim_quad + block % DIM_QUADS;
    if (dim < params.head_quads && block < QUERY_BLOCKS) {
        let rows = table[QUERY + block / DIM_QUADS % ROW_QUADS] + dim;
        found.a = vec4<f32>(query[rows.x]) * params.factor;
        found.b = vec4<f32>(query[rows.y]) * params.factor;
        found.c = vec4<f32>(query[rows.z]) * params.factor;
        found.d = vec4<f32>(query[rows.w]) * params.factor;
    } else if (dim < params.head_quads && block < BLOCKS) {
        let quad = block / DIM_QUADS % KEY_QUADS;
        let slot = start + quad % COLUMNS + quad / COLUMNS * 32u;
        let last = end - 1u;
        let base = key_base + dim;
        found.a = vec4<f32>(key[base + min(slot, last) * params.key_row]);
        found.b = vec4<f32>(key[base + min(slot + 8u, last) * params.key_row]);
        found.c = vec4<f32>(key[base + min(slot + 16u, last) * params.key_row]);
        found.d = vec4<f32>(key[base + min(slot + 24u, last) * params.key_row]);
    }
    return found;
}

// Turned, so that a vector holds 4 rows of one dim.
fn store_block(block: u32, given: Block) {
    if (block < BLOCKS) {
        let own = block % DIM_QUADS;
        let quads = select(KEY_QUADS, ROW_QUADS, block < QUERY_BLOCKS);
        let quad = block / DIM_QUADS % quads;
        let place = select(QUERY_STAGE, 0u, block < QUERY_BLOCKS) + own * 4u * quads + swizzled(quad, own);
        stage[place] = vec4<f32>(given.a.x, given.b.x, given.c.x, given.d.x);
        stage[place + quads] = vec4<f32>(given.a.y, given.b.y, given.c.y, given.d.y);
        stage[place + 2u * quads] = vec4<f32>(given.a.z, given.b.z, given.c.z, given.d.z);
        stage[place + 3u * quads] = vec4<f32>(given.a.w, given.b.w, given.c.w, given.d.w);
    }
}

// Queries and keys of DIM_QUADS quads of head_dim from dim_quad on, a block or two an invocation.
fn stage_products(lane: u32, key_base: u32, start: u32, end: u32, dim_quad: u32) {
    let first = load_block(lane, key_base, start, end, dim_quad);
    var second = Block();
    if (BLOCKS > LANES) {
        second = load_block(lane + LANES, key_base, start, end, dim_quad);
    }
    workgroupBarrier();
    store_block(lane, first);
    if (BLOCKS > LANES) {
        store_block(lane + LANES, second);
    }
    workgroupBarrier();
}

fn add_product(scores: ptr<function, Scores>, first: u32, q: vec4<f32>, near: vec4<f32>, far: vec4<f32>) {
    (*scores)[first] += q * near.x;
    (*scores)[first + 1u] += q * near.y;
    (*scores)[first + 2u] += q * near.z;
    (*scores)[first + 3u] += q * near.w;
    (*scores)[first + 4u] += q * far.x;
    (*scores)[first + 5u] += q * far.y;
    (*scores)[first + 6u] += q * far.z;
    (*scores)[first + 7u] += q * far.w;
}

// The products of one dim: of both quads of rows with both quads of keys.
fn add_dim(scores: ptr<function, Scores>, q: vec4<f32>, far_q: vec4<f32>, near: vec4<f32>, far: vec4<f32>) {
    add_product(scores, 0u, q, near, far);
    if (PARTS > 1u) {
        add_product(scores, PART_SCORES, far_q, near, far);
    }
}

fn add_products(scores: ptr<function, Scores>, lane: u32) {
    let line = lane / COLUMNS % LINES;
    let column = lane % COLUMNS;
    for (var own = 0u; own < DIM_QUADS; own++) {
        let q = own * (4u * ROW_QUADS) + line / 8u * 8u + (line + 2u * own) % 8u;
        let k = QUERY_STAGE + own * (4u * KEY_QUADS) + (column + 2u * own) % 8u;
        let far = q + FAR;
        add_dim(scores, stage[q], stage[far], stage[k], stage[k + 8u]);
        add_dim(scores, stage[q + ROW_QUADS], stage[far + ROW_QUADS], stage[k + 16u], stage[k + 24u]);
        add_dim(scores, stage[q + 2u * ROW_QUADS], stage[far + 2u * ROW_QUADS], stage[k + 32u], stage[k + 40u]);
        add_dim(scores, stage[q + 3u * ROW_QUADS], stage[far + 3u * ROW_QUADS], stage[k + 48u], stage[k + 56u]);
    }
}

// Moves every score of a part one place to the front, `last` to the end: scores are never indexed by a variable.
fn rotate(scores: ptr<function, Scores>, first: u32, last: vec4<f32>) {
    (*scores)[first] = (*scores)[first + 1u];
    (*scores)[first + 1u] = (*scores)[first + 2u];
    (*scores)[first + 2u] = (*scores)[first + 3u];
    (*scores)[first + 3u] = (*scores)[first + 4u];
    (*scores)[first + 4u] = (*scores)[first + 5u];
    (*scores)[first + 5u] = (*scores)[first + 6u];
    (*scores)[first + 6u] = (*scores)[first + 7u];
    (*scores)[first + 7u] = last;
}

fn capped(score: vec4<f32>) -> vec4<f32> {
    let x = accurate_tanh(score.x);
    return params.cap * vec4<f32>(x, accurate_tanh(score.y), accurate_tanh(score.z), accurate_tanh(score.w));
}

// Scores of a quad of rows with one key, with bias, or what stands for a key that a row does not see.
fn judged(score: vec4<f32>, quad: u32, slot: u32, last: u32) -> vec4<f32> {
    let place = vec4<u32>(slot);
    let held = place < table[END + quad];
    let seen = held & (place >= table[LO + quad]) & (place < table[HI + quad]);
    var added = select(vec4<f32>(HIDDEN), vec4<f32>(0.0), seen);
    if (params.masked != 0u && any(seen)) {
        let at = table[BIAS + quad] + min(slot, last);
        added = select(added, vec4<f32>(bias[at.x], bias[at.y], bias[at.z], bias[at.w]), seen);
    }
    let unseen = select(vec4<f32>(ABSENT), vec4<f32>(HIDDEN), held & vec4<bool>(params.mean != 0u));
    return select(score + added * LOG2E, unseen, added < vec4<f32>(LIMIT));
}

// The scores of a part, capped where that is asked for, and judged where the tile is partial.
fn finish(
    scores: ptr<function, Scores>, first: u32, quad: u32, column: u32, start: u32, last: u32, partial: bool
) {
    for (var each = 0u; each < PART_SCORES; each++) {
        var score = (*scores)[first];
        if (params.cap != 0.0) {
            score = capped(score);
        }
        if (partial) {
            score = judged(score, quad, start + COLUMNS * each + column, last);
        }
        rotate(scores, first, score);
    }
}

fn most(scores: ptr<function, Scores>, first: u32) -> vec4<f32> {
    let near = max(max((*scores)[first], (*scores)[first + 1u]), max((*scores)[first + 2u], (*scores)[first + 3u]));
    let far = max(max((*scores)[first + 4u], (*scores)[first + 5u]), max((*scores)[first + 6u], (*scores)[first + 7u]));
    return max(near, far);
}

// Turns the scores of a part into weights, and what was summed before to their maximum.
fn weigh(
    scores: ptr<function, Scores>, sums: ptr<function, Sums>, highest: ptr<function, Reached>,
    sum: ptr<function, Reached>, part: u32, quad: u32
) {
    var top = (*highest)[part];
    for (var each = 0u; each < COLUMNS; each++) {
        top = max(top, reduction[quad * REDUCTION_ROW + each]);
    }
    let shrink = exp2((*highest)[part] - top);
    (*highest)[part] = top;
    let first = part * PART_SCORES;
    (*scores)[first] = exp2((*scores)[first] - top);
    (*scores)[first + 1u] = exp2((*scores)[first + 1u] - top);
    (*scores)[first + 2u] = exp2((*scores)[first + 2u] - top);
    (*scores)[first + 3u] = exp2((*scores)[first + 3u] - top);
    (*scores)[first + 4u] = exp2((*scores)[first + 4u] - top);
    (*scores)[first + 5u] = exp2((*scores)[first + 5u] - top);
    (*scores)[first + 6u] = exp2((*scores)[first + 6u] - top);
    (*scores)[first + 7u] = exp2((*scores)[first + 7u] - top);
    let near = ((*scores)[first] + (*scores)[first + 1u]) + ((*scores)[first + 2u] + (*scores)[first + 3u]);
    let far = ((*scores)[first + 4u] + (*scores)[first + 5u]) + ((*scores)[first + 6u] + (*scores)[first + 7u]);
    (*sum)[part] = (*sum)[part] * shrink + (near + far);
    shrink_sums(sums, part * PART_SUMS, shrink);
}

// Notes which keys of the tile weigh something: a value that a mask hides from all rows may be no number, and 0 x NaN is
// none either.
fn note_weights(scores: ptr<function, Scores>, first: u32, column: u32) {
    atomicOr(&weighing[0], weighs_at((*scores)[first], column) | weighs_at((*scores)[first + 1u], column + 8u));
    let second = weighs_at((*scores)[first + 2u], column + 16u) | weighs_at((*scores)[first + 3u], column + 24u);
    atomicOr(&weighing[0], second);
    atomicOr(&weighing[1], weighs_at((*scores)[first + 4u], column) | weighs_at((*scores)[first + 5u], column + 8u));
    let last = weighs_at((*scores)[first + 6u], column + 16u) | weighs_at((*scores)[first + 7u], column + 24u);
    atomicOr(&weighing[1], last);
}

fn weighs_at(weight: vec4<f32>, place: u32) -> u32 {
    return select(0u, 1u << place, any(weight > vec4<f32>()));
}

fn weighs(place: u32) -> bool {
    return ((atomicLoad(&weighing[place / 32u % 2u]) >> (place % 32u)) & 1u) != 0u;
}

fn stage_weight(scores: ptr<function, Scores>, first: u32, place: u32) {
    stage[place] = (*scores)[first];
    rotate(scores, first, vec4<f32>());
}

// The next KEY_CHUNK weights of every row, and the values that they weigh.
fn stage_values(
    lane: u32, scores: ptr<function, Scores>, value_base: u32, tile: u32, start: u32, lowest: u32, end: u32
) {
    let line = lane / COLUMNS % LINES;
    let column = lane % COLUMNS;
    workgroupBarrier();
    for (var each = 0u; each < VALUE_LOADS; each++) {
        let place = each * LANES + lane;
        let slot = clamp(start + place / VALUE_ROW, lowest, end - 1u);
        let dim_quad = min(place % VALUE_ROW, params.value_quads - 1u);
        var row = value[value_base + slot * params.value_row + dim_quad];
        if (params.masked != 0u && !weighs(start + place / VALUE_ROW - tile)) {
            row = vec4<elem>();
        }
        stage[WEIGHT_STAGE + place % (KEY_CHUNK * VALUE_ROW)] = vec4<f32>(row);
    }
    for (var each = 0u; each < KEY_CHUNK / COLUMNS; each++) {
        let place = (each * COLUMNS + column) * WEIGHT_ROW + line;
        stage_weight(scores, 0u, place);
        if (PARTS > 1u) {
            stage_weight(scores, PART_SCORES, place + LINES);
        }
    }
    workgroupBarrier();
}

fn add_row(sums: ptr<function, Sums>, first: u32, weight: vec4<f32>, row: vec4<f32>) {
    (*sums)[first] += weight.x * row;
    (*sums)[first + 1u] += weight.y * row;
    (*sums)[first + 2u] += weight.z * row;
    (*sums)[first + 3u] += weight.w * row;
}

// A quad of one key's values, weighed for every row.
fn add_quad(sums: ptr<function, Sums>, column: u32, near: vec4<f32>, far: vec4<f32>, row: vec4<f32>) {
    add_row(sums, 4u * column, near, row);
    if (PARTS > 1u) {
        add_row(sums, PART_SUMS + 4u * column, far, row);
    }
}

fn add_key(sums: ptr<function, Sums>, key: u32, lane: u32) {
    let own = key % KEY_CHUNK;
    let line = lane / COLUMNS % LINES;
    let near = stage[own * WEIGHT_ROW + line];
    let far = stage[own * WEIGHT_ROW + line + FAR];
    let base = WEIGHT_STAGE + own * VALUE_ROW + lane % COLUMNS;
    add_quad(sums, 0u, near, far, stage[base]);
    add_quad(sums, 1u, near, far, stage[base + 8u]);
    if (VALUE_COLUMNS > 2u) {
        add_quad(sums, 2u, near, far, stage[base + 16u]);
        add_quad(sums, 3u, near, far, stage[base + 24u]);
    }
    if (VALUE_COLUMNS > 4u) {
        add_quad(sums, 4u, near, far, stage[base + 32u]);
        add_quad(sums, 5u, near, far, stage[base + 40u]);
        add_quad(sums, 6u, near, far, stage[base + 48u]);
        add_quad(sums, 7u, near, far, stage[base + 56u]);
    }
}

fn add_values(sums: ptr<function, Sums>, lane: u32) {
    for (var each = 0u; each < KEY_CHUNK; each += 4u) {
        add_key(sums, each, lane);
        add_key(sums, each + 1u, lane);
        add_key(sums, each + 2u, lane);
        add_key(sums, each + 3u, lane);
    }
}

fn shrink_row(sums: ptr<function, Sums>, first: u32, shrink: vec4<f32>) {
    (*sums)[first] *= shrink.x;
    (*sums)[first + 1u] *= shrink.y;
    (*sums)[first + 2u] *= shrink.z;
    (*sums)[first + 3u] *= shrink.w;
}

fn shrink_sums(sums: ptr<function, Sums>, first: u32, shrink: vec4<f32>) {
    shrink_row(sums, first, shrink);
    shrink_row(sums, first + 4u, shrink);
    if (VALUE_COLUMNS > 2u) {
        shrink_row(sums, first + 8u, shrink);
        shrink_row(sums, first + 12u, shrink);
    }
    if (VALUE_COLUMNS > 4u) {
        shrink_row(sums, first + 16u, shrink);
        shrink_row(sums, first + 20u, shrink);
        shrink_row(sums, first + 24u, shrink);
        shrink_row(sums, first + 28u, shrink);
    }
}

// What turns the sums of four rows into their output. The heaviest key weighs 1: a sum of 0 says that there was none.
fn normaliser(highest: vec4<f32>, sum: vec4<f32>, heads: vec4<u32>) -> vec4<f32> {
    var given = vec4<f32>(HIDDEN);
    if (params.sinks != 0u) {
        given = LOG2E * vec4<f32>(sink[heads.x], sink[heads.y], sink[heads.z], sink[heads.w]);
    }
    let zero = vec4<f32>(select(HIDDEN, 0.0, params.zero_sink != 0u));
    let top = max(highest, max(given, zero));
    let factor = exp2(highest - top);
    let none = vec4<f32>();
    let limit = vec4<f32>(LIMIT);
    let sinks = select(none, exp2(given - top), given >= limit) + select(none, exp2(zero - top), zero >= limit);
    let total = sum * factor + sinks;
    return select(none, factor / select(vec4<f32>(1.0), total, sum > none), sum > none);
}

fn give(wanted: bool, place: u32, row: vec4<f32>) {
    if (wanted) {
        output[place] = vec4<elem>(row);
    }
}

fn give_row(
    sums: ptr<function, Sums>, first: u32, weight: vec4<f32>, inside: vec4<bool>, base: vec4<u32>, place: u32
) {
    if (place < params.value_quads) {
        give(inside.x, base.x + place, (*sums)[first] * weight.x);
        give(inside.y, base.y + place, (*sums)[first + 1u] * weight.y);
        give(inside.z, base.z + place, (*sums)[first + 2u] * weight.z);
        give(inside.w, base.w + place, (*sums)[first + 3u] * weight.w);
    }
}

// Writes the rows of a part.
fn give_rows(
    sums: ptr<function, Sums>, highest: ptr<function, Reached>, part: u32, quad: u32, column: u32, batch: u32,
    kv_head: u32, first: u32
) {
    var sum = vec4<f32>();
    for (var each = 0u; each < COLUMNS; each++) {
        sum += reduction[quad * REDUCTION_ROW + each];
    }
    let at = part * PART_SUMS;
    let packed_rows = params.head_group * params.rows;
    let packed = vec4<u32>(first + 4u * quad) + vec4<u32>(0u, 1u, 2u, 3u);
    let row = packed / params.head_group;
    let head = kv_head * params.head_group + packed % params.head_group;
    let inside = packed < vec4<u32>(packed_rows);
    let goes = table[END + quad] > vec4<u32>();
    let weight = select(vec4<f32>(), normaliser((*highest)[part], sum, select(vec4<u32>(), head, inside)), goes);
    let base = params.output_first + batch * params.output_batch + head * params.output_head + row * params.output_row;
    give_row(sums, at, weight, inside, base, column);
    give_row(sums, at + 4u, weight, inside, base, column + 8u);
    if (VALUE_COLUMNS > 2u) {
        give_row(sums, at + 8u, weight, inside, base, column + 16u);
        give_row(sums, at + 12u, weight, inside, base, column + 24u);
    }
    if (VALUE_COLUMNS > 4u) {
        give_row(sums, at + 16u, weight, inside, base, column + 32u);
        give_row(sums, at + 20u, weight, inside, base, column + 40u);
        give_row(sums, at + 24u, weight, inside, base, column + 48u);
        give_row(sums, at + 28u, weight, inside, base, column + 56u);
    }
}

@compute @workgroup_size(128)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let order = group.x + (group.y + group.z * groups.y) * groups.x;
    if (order >= params.tiles) {
        return;
    }
    let packed_rows = params.head_group * params.rows;
    let tile = (packed_rows + ROWS - 1u) / ROWS - 1u - order / params.members;
    let member = params.first_member + order % params.members;
    let kv_head = member % params.kv_heads;
    let batch = member / params.kv_heads;
    let first = tile * ROWS;

    var tile_lo = 0xffffffffu;
    var tile_hi = 0u;
    var open_lo = 0u;
    var open_hi = 0xffffffffu;
    let last_row = min(first + ROWS, packed_rows) - 1u;
    for (var row = first / params.head_group; row <= last_row / params.head_group; row++) {
        let seen = visible[batch * params.rows + row];
        if (seen.z < seen.w) {
            tile_lo = min(tile_lo, seen.z);
            tile_hi = max(tile_hi, seen.w);
            open_lo = max(open_lo, seen.x);
            open_hi = min(open_hi, seen.y);
        }
    }
    if (params.masked != 0u) {
        open_hi = 0u;
    }

    let line = lane / COLUMNS;
    let column = lane % COLUMNS;
    let busy = first + 4u * line < packed_rows;
    if (lane < ROW_QUADS) {
        fill_table(lane, batch, kv_head, first, packed_rows);
    }
    workgroupBarrier();

    let key_base = batch * params.key_batch + kv_head * params.key_head - params.key_skip;
    let value_base = batch * params.value_batch + kv_head * params.value_head - params.value_skip;
    var highest: Reached;
    var sum: Reached;
    highest[0] = vec4<f32>(HIDDEN);
    highest[PARTS - 1u] = vec4<f32>(HIDDEN);
    var sums: Sums;
    // Steps begin at multiples of KEYS: which keys a row takes together is its own, whatever rows share its tile.
    for (var start = tile_lo / KEYS * KEYS; start < tile_hi; start += KEYS) {
        var scores = Scores();
        if (lane < 2u) {
            atomicStore(&weighing[lane], 0u);
        }
        for (var dim = 0u; dim < params.head_quads; dim += DIM_QUADS) {
            stage_products(lane, key_base, start, tile_hi, dim);
            if (busy) {
                add_products(&scores, lane);
            }
        }
        let partial = start < open_lo || start + KEYS > open_hi;
        if (busy && (partial || params.cap != 0.0)) {
            finish(&scores, 0u, line, column, start, tile_hi - 1u, partial);
            if (PARTS > 1u) {
                finish(&scores, PART_SCORES, line + LINES, column, start, tile_hi - 1u, partial);
            }
        }
        reduction[line * REDUCTION_ROW + column] = most(&scores, 0u);
        if (PARTS > 1u) {
            reduction[(line + LINES) * REDUCTION_ROW + column] = most(&scores, PART_SCORES);
        }
        workgroupBarrier();
        weigh(&scores, &sums, &highest, &sum, 0u, line);
        if (PARTS > 1u) {
            weigh(&scores, &sums, &highest, &sum, 1u, line + LINES);
        }
        if (busy && params.masked != 0u) {
            note_weights(&scores, 0u, column);
            if (PARTS > 1u) {
                note_weights(&scores, PART_SCORES, column);
            }
        }
        for (var chunk = 0u; chunk < CHUNKS; chunk++) {
            stage_values(lane, &scores, value_base, start, start + chunk * KEY_CHUNK, tile_lo, tile_hi);
            if (busy) {
                add_values(&sums, lane);
            }
        }
    }

    workgroupBarrier();
    reduction[line * REDUCTION_ROW + column] = sum[0];
    reduction[(line + FAR) * REDUCTION_ROW + column] = sum[PARTS - 1u];
    workgroupBarrier();
    give_rows(&sums, &highest, 0u, line, column, batch, kv_head, first);
    if (PARTS > 1u) {
        give_rows(&sums, &highest, 1u, line + LINES, column, batch, kv_head, first);
    }
}
