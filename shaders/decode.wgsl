// decode.wgsl: four query rows against one slice of the keys of their KV head (a fast kernel: specialised).
// prelude    WIDTH, elements in 16 bytes of key or value: 8 of f16, 4 of f32; DIM, head_dim and v_head_dim rounded up to 64,
//            128 or 256; TEAMS of TEAM invocations each; POOL, which has room for both of its uses; query_elem: f16 or f32
// bindings   0 params  1 visible [batch, rows] (lo, hi, first, end)
//            2 query [batch, heads, rows, head_dim] by strides, from query_first on
//            3 key [batch, kv_heads, capacity, head_dim]  4 value [batch, kv_heads, capacity, v_head_dim], by strides, both
//            as words of 16 bytes  5 bias [batch, heads, rows, slots] f32 by strides (read where `masked` is not 0)
//            6 partials [batch, kv_heads, partial_rows, slices, v_head_dim + 2] f32: sums of weighted values, running
//            maximum, running sum
// workgroup  TEAMS * TEAM invocations; grid (row_tiles, slices, kv_heads, batch), flattened, the first fastest, folded
// parts      the members of batch x kv_heads from first_member on, whose keys and values may be bound from a word on, their skip
// order      packed rows are [head_group, rows], flattened; a vec4 is four of them. Invocations side by side share a key or a
//            value, 16 bytes each: they are a share of the keys, with a maximum and sums of its own, brought together at the
//            end. A slice is `slice` slots wherever it begins, so that neither kv_len nor other members of the batch move its
//            borders
// memory     under 13 KiB: products of words and what is added up at the end take turns
// numerics   f32; scores in log2 units as in online.wgsl; a row that goes over no slot of the slice leaves a sum of 0
// names      nothing that is indexed by a loop is private: compilers would move it to slow memory

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
    bias_batch: u32,
    bias_head: u32,
    bias_row: u32,
    masked: u32,
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

const LANES = TEAMS * TEAM;
const ROWS = 4u;
const PARTS = DIM / WIDTH;            // words of a key, one for each of the invocations that share it
const SHARES = LANES / PARTS;
const AT_ONCE = TEAM / PARTS;         // keys that a team reads at once
const ABREAST = 4u;                   // keys that an invocation reads before it computes with the first
const TILE = AT_ONCE * ABREAST;       // keys of a team between two barriers
const STEP = TEAMS * TILE;
const PITCH = PARTS + 1u;             // so that neighbours do not meet in one bank
const LOG2E: f32 = 1.4426950408889634;
const HIDDEN: f32 = -1.5e38;
const LIMIT: f32 = -1.4e38;
const ABSENT: f32 = -3.0e38;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<Visible>;
@group(0) @binding(2) var<storage, read> query: array<query_elem>;
@group(0) @binding(3) var<storage, read> key: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> value: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> bias: array<f32>;
@group(0) @binding(6) var<storage, read_write> partials: array<f32>;

var<workgroup> queries: array<vec4<f32>, DIM>;         // [WIDTH, PARTS]
var<workgroup> pool: array<vec4<f32>, POOL>;           // products [TEAMS, TILE, PITCH]; in the end sums [4, LANES]
var<workgroup> scores: array<f32, STEP * ROWS>;          // scalars: each is stored by another invocation
var<workgroup> tops: array<vec4<f32>, SHARES>;
var<workgroup> totals: array<vec4<f32>, SHARES>;

// Where a workgroup works.
struct Place {
    batch: u32,
    kv_head: u32,
    row: u32,    // the first of its packed rows
    first: u32,  // slots [first, end) of the slice that any of its rows goes over
    end: u32,
    key: u32,    // where slot 0 begins, in words
    value: u32,
}

// What four rows have at up to eight consecutive dims.
struct Eight {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
    e: vec4<f32>,
    f: vec4<f32>,
    g: vec4<f32>,
    h: vec4<f32>,
}

// A word of each of the keys, or of the values, in the slots slot, slot + AT_ONCE, ...
struct Words {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    d: vec4<u32>,
}

// The builtin tanh is only as good as sinh / cosh: poor near 0, NaN far out. Coefficients: Cephes, tanhf.c.
fn accurate_tanh(x: f32) -> f32 {
    let z = x * x;
    let series = (((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z;
    let near = x + x * z * (series - 3.33332819422e-1);
    let far = sign(x) * (1.0 - 2.0 / (exp2(min(abs(x), 20.0) * (2.0 * LOG2E)) + 1.0));
    return select(far, near, abs(x) < 0.625);
}

fn packed_rows() -> u32 {
    return params.head_group * params.rows;
}

// A packed row that there is: the last one stands in for those behind it, of which nothing is read afterwards.
fn row_of(each: u32, at: Place) -> u32 {
    return min(at.row + each, packed_rows() - 1u);
}

fn query_head(packed: u32, at: Place) -> u32 {
    return at.kv_head * params.head_group + packed / params.rows;
}

fn seen_by(packed: u32, at: Place) -> Visible {
    return visible[at.batch * params.rows + packed % params.rows];
}

// An element of a query in log2 units, where softcap does not come first; 0 beyond head_dim.
fn query_at(packed: u32, dim: u32, at: Place) -> f32 {
    if (dim >= params.head_dim) {
        return 0.0;
    }
    let base = params.query_first + at.batch * params.query_batch + query_head(packed, at) * params.query_head;
    let factor = select(params.scale, params.scale * LOG2E, params.softcap == 0.0);
    return f32(query[base + packed % params.rows * params.query_row + dim]) * factor;
}

// The four rows' queries at an element of a word.
fn queries_at(element: u32, part: u32) -> vec4<f32> {
    return queries[element * PARTS + part];
}

// Beyond the ends a row stands in that is gone over, whose score is then ABSENT, and beyond head_dim its last word.
fn load_keys(slot: u32, part: u32, at: Place) -> Words {
    let base = at.key + min(part, params.head_dim / WIDTH - 1u);
    let last = at.end - 1u;
    return Words(
        key[base + clamp(slot, at.first, last) * params.key_row],
        key[base + clamp(slot + AT_ONCE, at.first, last) * params.key_row],
        key[base + clamp(slot + 2u * AT_ONCE, at.first, last) * params.key_row],
        key[base + clamp(slot + 3u * AT_ONCE, at.first, last) * params.key_row],
    );
}

fn load_values(slot: u32, part: u32, at: Place) -> Words {
    let base = at.value + min(part, params.v_head_dim / WIDTH - 1u);
    let last = at.end - 1u;
    return Words(
        value[base + clamp(slot, at.first, last) * params.value_row],
        value[base + clamp(slot + AT_ONCE, at.first, last) * params.value_row],
        value[base + clamp(slot + 2u * AT_ONCE, at.first, last) * params.value_row],
        value[base + clamp(slot + 3u * AT_ONCE, at.first, last) * params.value_row],
    );
}

// The products of four rows and a word of a key.
fn product_of(word: vec4<u32>, q: Eight) -> vec4<f32> {
    if (WIDTH == 4u) {
        let k = bitcast<vec4<f32>>(word);
        return q.a * k.x + q.b * k.y + q.c * k.z + q.d * k.w;
    }
    let x = unpack2x16float(word.x);
    let y = unpack2x16float(word.y);
    let z = unpack2x16float(word.z);
    let w = unpack2x16float(word.w);
    return q.a * x.x + q.b * x.y + q.c * y.x + q.d * y.y + q.e * z.x + q.f * z.y + q.g * w.x + q.h * w.y;
}

// Whether a mask hides a key, of whose scores four are given, from all of the rows.
fn hides(scores: vec4<f32>) -> bool {
    return params.masked != 0u && all(scores < vec4<f32>(LIMIT));
}

// `sums` and a word of a value times the weights of four rows. What a mask hides from all of them may be NaN: 0 for it.
fn add_value(sums: Eight, found: vec4<u32>, hidden: bool, weight: vec4<f32>) -> Eight {
    var word = found;
    if (hidden && all(weight == vec4<f32>())) {
        word = vec4<u32>();
    }
    if (WIDTH == 4u) {
        let v = bitcast<vec4<f32>>(word);
        return Eight(
            sums.a + weight * v.x, sums.b + weight * v.y, sums.c + weight * v.z, sums.d + weight * v.w,
            sums.e, sums.f, sums.g, sums.h,
        );
    }
    let x = unpack2x16float(word.x);
    let y = unpack2x16float(word.y);
    let z = unpack2x16float(word.z);
    let w = unpack2x16float(word.w);
    return Eight(
        sums.a + weight * x.x, sums.b + weight * x.y, sums.c + weight * y.x, sums.d + weight * y.y,
        sums.e + weight * z.x, sums.f + weight * z.y, sums.g + weight * w.x, sums.h + weight * w.y,
    );
}

fn scaled(it: Eight, by: vec4<f32>) -> Eight {
    return Eight(it.a * by, it.b * by, it.c * by, it.d * by, it.e * by, it.f * by, it.g * by, it.h * by);
}

// The score of a row and a slot, from their product. A hidden key counts, as little as can be, only where a row that sees
// none is to get a mean.
fn score_of(product: f32, slot: u32, packed: u32, seen: Visible, at: Place) -> f32 {
    if (slot < seen.first || slot >= seen.end) {
        return ABSENT;
    }
    let hidden = select(ABSENT, HIDDEN, params.mean != 0u);
    if (slot < seen.lo || slot >= seen.hi) {
        return hidden;
    }
    var score = product;
    if (params.softcap != 0.0) {
        score = accurate_tanh(product / params.softcap) * (params.softcap * LOG2E);
    }
    if (params.masked == 0u) {
        return score;
    }
    let base = at.batch * params.bias_batch + query_head(packed, at) * params.bias_head;
    let added = bias[base + packed % params.rows * params.bias_row + slot];
    return select(score + added * LOG2E, hidden, added < LIMIT);
}

// The scores of the four rows and a key of the step.
fn scores_at(own_key: u32) -> vec4<f32> {
    let place = own_key * ROWS;
    return vec4<f32>(scores[place], scores[place + 1u], scores[place + 2u], scores[place + 3u]);
}

// Four of the sums that each invocation has, added up over the shares.
fn give_out(a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>, piece: u32, base: u32, pitch: u32, lane: u32) {
    pool[lane] = a;
    pool[LANES + lane] = b;
    pool[2u * LANES + lane] = c;
    pool[3u * LANES + lane] = d;
    workgroupBarrier();
    for (var own = lane; own < 4u * PARTS; own += LANES) {
        let source = own / PARTS * LANES + own % PARTS;
        var sum = pool[source];
        for (var share = 1u; share < SHARES; share++) {
            sum += pool[source + share * PARTS];
        }
        let dim = own % PARTS * WIDTH + piece * 4u + own / PARTS;
        if (dim < params.v_head_dim) {
            partials[base + dim] = sum.x;
            partials[base + pitch + dim] = sum.y;
            partials[base + 2u * pitch + dim] = sum.z;
            partials[base + 3u * pitch + dim] = sum.w;
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = group.x + (group.y + group.z * groups.y) * groups.x;
    if (index >= params.total) {
        return;
    }
    let slice = params.first_slice + index / params.row_tiles % params.slices;
    let kv = params.first_member + index / params.row_tiles / params.slices;
    var at: Place;
    at.batch = kv / params.kv_heads;
    at.kv_head = kv % params.kv_heads;
    at.row = index % params.row_tiles * ROWS;
    at.key = at.batch * params.key_batch + at.kv_head * params.key_head - params.key_skip;
    at.value = at.batch * params.value_batch + at.kv_head * params.value_head - params.value_skip;
    at.first = (slice + 1u) * params.slice;
    at.end = slice * params.slice;
    for (var each = 0u; each < ROWS; each++) {
        let seen = seen_by(row_of(each, at), at);
        if (seen.first < seen.end) {
            at.first = min(at.first, seen.first);
            at.end = max(at.end, seen.end);
        }
    }
    at.first = max(at.first, slice * params.slice);
    at.end = min(at.end, (slice + 1u) * params.slice);
    if (at.first >= at.end) {
        return;
    }

    let team = lane / TEAM;
    let member = lane % TEAM;
    let part = member % PARTS;
    let share = member / PARTS;
    let judged = row_of(member % ROWS, at);  // the row of which this invocation finds scores
    let seen = seen_by(judged, at);
    // Steps begin at multiples of their size, which divides a slice, wherever a window begins: none goes over its end.
    let begin = at.first / STEP * STEP;
    var keys = load_keys(begin + team * TILE + share, part, at);
    for (var dim = lane; dim < DIM; dim += LANES) {
        queries[dim % WIDTH * PARTS + dim / WIDTH] = vec4<f32>(
            query_at(row_of(0u, at), dim, at),
            query_at(row_of(1u, at), dim, at),
            query_at(row_of(2u, at), dim, at),
            query_at(row_of(3u, at), dim, at),
        );
    }
    workgroupBarrier();

    var running_max = vec4<f32>(HIDDEN);
    var running_sum = vec4<f32>();
    var sums = Eight();
    var start = begin + team * TILE;
    for (var step = begin; step < at.end; step += STEP) {
        let values = load_values(start + share, part, at);
        var q = Eight();
        q.a = queries_at(0u, part);
        q.b = queries_at(1u, part);
        q.c = queries_at(2u, part);
        q.d = queries_at(3u, part);
        if (WIDTH == 8u) {
            q.e = queries_at(4u, part);
            q.f = queries_at(5u, part);
            q.g = queries_at(6u, part);
            q.h = queries_at(7u, part);
        }
        // 0 times what stands in is no number where that is infinite.
        if (params.head_dim < DIM && part >= params.head_dim / WIDTH) {
            keys = Words();
        }
        let place = (team * TILE + share) * PITCH + part;
        pool[place] = product_of(keys.a, q);
        pool[place + AT_ONCE * PITCH] = product_of(keys.b, q);
        pool[place + 2u * AT_ONCE * PITCH] = product_of(keys.c, q);
        pool[place + 3u * AT_ONCE * PITCH] = product_of(keys.d, q);
        keys = load_keys(start + STEP + share, part, at);
        workgroupBarrier();
        for (var own = member; own < TILE * ROWS; own += TEAM) {
            let source = (team * TILE + own / ROWS) * PITCH;
            var product = pool[source][own % ROWS];
            for (var each = 1u; each < PARTS; each++) {
                product += pool[source + each][own % ROWS];
            }
            scores[team * TILE * ROWS + own] = score_of(product, start + own / ROWS, judged, seen, at);
        }
        workgroupBarrier();
        let own_key = team * TILE + share;
        let x = scores_at(own_key);
        let y = scores_at(own_key + AT_ONCE);
        let z = scores_at(own_key + 2u * AT_ONCE);
        let w = scores_at(own_key + 3u * AT_ONCE);
        let hidden = vec4<bool>(hides(x), hides(y), hides(z), hides(w));
        let top = max(max(running_max, max(x, y)), max(z, w));
        if (any(top > running_max)) {
            // Before the first visible key the sums are 0, and HIDDEN - HIDDEN is 0.
            let factor = exp2(running_max - top);
            running_max = top;
            running_sum *= factor;
            sums = scaled(sums, factor);
        }
        let weights_x = exp2(x - top);
        let weights_y = exp2(y - top);
        let weights_z = exp2(z - top);
        let weights_w = exp2(w - top);
        running_sum += (weights_x + weights_y) + (weights_z + weights_w);
        sums = add_value(sums, values.a, hidden.x, weights_x);
        sums = add_value(sums, values.b, hidden.y, weights_y);
        sums = add_value(sums, values.c, hidden.z, weights_z);
        sums = add_value(sums, values.d, hidden.w, weights_w);
        start += STEP;
    }

    // The shares come to their common maximum.
    if (part == 0u) {
        tops[team * AT_ONCE + share] = running_max;
    }
    workgroupBarrier();
    var top = tops[0];
    for (var each = 1u; each < SHARES; each++) {
        top = max(top, tops[each]);
    }
    let share_factor = exp2(running_max - top);
    sums = scaled(sums, share_factor);
    if (part == 0u) {
        totals[team * AT_ONCE + share] = running_sum * share_factor;
    }
    let row_size = params.v_head_dim + 2u;
    let pitch = params.slices * row_size;
    let base = (kv * params.partial_rows + at.row) * pitch + (slice - params.first_slice) * row_size;
    give_out(sums.a, sums.b, sums.c, sums.d, 0u, base, pitch, lane);
    if (WIDTH == 8u) {
        give_out(sums.e, sums.f, sums.g, sums.h, 1u, base, pitch, lane);
    }
    if (lane < ROWS) {
        var total = 0.0;
        for (var each = 0u; each < SHARES; each++) {
            total += totals[each][lane];
        }
        let place = base + lane * pitch + params.v_head_dim;
        partials[place] = top[lane];
        partials[place + 1u] = total;
    }
}
