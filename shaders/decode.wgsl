// decode.wgsl: few query rows against one slice of the keys, for all query heads of a KV head (a fast kernel: specialised).
// prelude    WIDTH, elements in 16 bytes of key or value: 8 of f16, 4 of f32; DIM, head_dim and v_head_dim rounded up to 64,
//            128 or 256; TEAMS of invocations, each with four query rows; TEAM, invocations of one; BLOCK, keys between two
//            steps of the running maximum
// bindings   0 params  1 visible [batch, rows] (lo, hi, first, end)  2 query [batch, heads, rows, head_dim] f32 by strides
//            3 key [batch, kv_heads, capacity, head_dim]  4 value [batch, kv_heads, capacity, v_head_dim], by strides, both
//            as words of 16 bytes  5 bias [batch, heads, rows, slots] f32 by strides (read where `masked` is not 0)
//            6 partials [batch, kv_heads, partial_rows, slices, v_head_dim + 2] f32: sums of weighted values, running
//            maximum, running sum
// workgroup  TEAMS * TEAM invocations; grid (row_tiles, slices, kv_heads, batch), flattened, the first fastest, folded
// parts      the members of batch x kv_heads from first_member on, whose keys and values may be bound from a word on, their skip
// order      packed rows are [head_group, rows], flattened; a vec4 is four of them. Invocations side by side share a key or a
//            value, 16 bytes each. A slice is `slice` slots wherever it begins, so that neither kv_len nor other members of
//            the batch move its borders
// memory     for a team 64 TEAM bytes for partial products, an eighth more at DIM 64, and 16 BLOCK for scores
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
const PARTS = DIM / WIDTH;            // words of a key, one for each of the invocations that share it
const AT_ONCE = TEAM / PARTS;         // keys that a team reads at once
const ABREAST = 4u;                   // keys that an invocation reads before it computes with the first
const TILE = AT_ONCE * ABREAST;
const PITCH = PARTS + 1u;             // so that neighbours do not meet in one bank
const POOL = TILE * PITCH;
const LOG2E: f32 = 1.4426950408889634;
const HIDDEN: f32 = -1.5e38;
const LIMIT: f32 = -1.4e38;
const OUTSIDE: f32 = -2.5e38;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> visible: array<Visible>;
@group(0) @binding(2) var<storage, read> query: array<f32>;
@group(0) @binding(3) var<storage, read> key: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> value: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> bias: array<f32>;
@group(0) @binding(6) var<storage, read_write> partials: array<f32>;

var<workgroup> pool: array<vec4<f32>, TEAMS * POOL>;     // products of parts of a key; maxima; sums
var<workgroup> weights: array<vec4<f32>, TEAMS * BLOCK>; // scores, then weights

// Where a workgroup works.
struct Place {
    batch: u32,
    kv_head: u32,
    first: u32,  // slots [first, end) of the slice that any of its rows goes over
    end: u32,
    key: u32,    // where slot 0 begins, in words
    value: u32,
}

// Who an invocation is.
struct Invocation {
    member: u32,   // of its team
    packed: u32,   // first row of the team
    pool: u32,     // where the team's part of the pool begins
    weights: u32,
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

struct Words {
    a: vec4<u32>,
    b: vec4<u32>,
    c: vec4<u32>,
    d: vec4<u32>,
}

// What four rows see: a component each.
struct Seen {
    lo: vec4<u32>,
    hi: vec4<u32>,
    first: vec4<u32>,
    end: vec4<u32>,
}

// The builtin tanh is only as good as sinh / cosh: poor near 0, NaN far out. Coefficients: Cephes, tanhf.c.
fn accurate_tanh(x: vec4<f32>) -> vec4<f32> {
    let z = x * x;
    let series = (((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z;
    let near = x + x * z * (series - 3.33332819422e-1);
    let far = sign(x) * (1.0 - 2.0 / (exp2(min(abs(x), vec4<f32>(20.0)) * (2.0 * LOG2E)) + 1.0));
    return select(far, near, abs(x) < vec4<f32>(0.625));
}

fn packed_rows() -> u32 {
    return params.head_group * params.rows;
}

fn query_head(packed: u32, at: Place) -> u32 {
    return at.kv_head * params.head_group + packed / params.rows;
}

fn seen_by(packed: u32, at: Place) -> Visible {
    if (packed < packed_rows()) {
        return visible[at.batch * params.rows + packed % params.rows];
    }
    return Visible(0u, 0u, 0u, 0u);
}

// What the team's rows see.
fn seen_by_team(me: Invocation, at: Place) -> Seen {
    let x = seen_by(me.packed, at);
    let y = seen_by(me.packed + 1u, at);
    let z = seen_by(me.packed + 2u, at);
    let w = seen_by(me.packed + 3u, at);
    return Seen(
        vec4<u32>(x.lo, y.lo, z.lo, w.lo),
        vec4<u32>(x.hi, y.hi, z.hi, w.hi),
        vec4<u32>(x.first, y.first, z.first, w.first),
        vec4<u32>(x.end, y.end, z.end, w.end),
    );
}

// An element of a query in log2 units, where softcap does not come first; 0 beyond head_dim and beyond the last row.
fn query_at(packed: u32, dim: u32, at: Place) -> f32 {
    if (packed >= packed_rows() || dim >= params.head_dim) {
        return 0.0;
    }
    let base = at.batch * params.query_batch + query_head(packed, at) * params.query_head;
    let factor = select(params.scale, params.scale * LOG2E, params.softcap == 0.0);
    return query[base + packed % params.rows * params.query_row + dim] * factor;
}

// The team's queries into the pool [DIM], each dim once.
fn load_queries(me: Invocation, at: Place) {
    for (var index = me.member; index < DIM; index += TEAM) {
        var four = vec4<f32>();
        for (var each = 0u; each < 4u; each++) {
            four[each] = query_at(me.packed + each, index, at);
        }
        pool[me.pool + index] = four;
    }
}

// Four keys, or four values, of the slots slot, slot + AT_ONCE, ...: of each the word that is this invocation's. Beyond the
// end any row will do that holds numbers: it weighs 0. So will any word beyond head_dim, where the queries are 0.
fn load_keys(slot: u32, me: Invocation, at: Place) -> Words {
    let base = at.key + min(me.member % PARTS, params.head_dim / WIDTH - 1u);
    let last = at.end - 1u;
    return Words(
        key[base + clamp(slot, at.first, last) * params.key_row],
        key[base + clamp(slot + AT_ONCE, at.first, last) * params.key_row],
        key[base + clamp(slot + 2u * AT_ONCE, at.first, last) * params.key_row],
        key[base + clamp(slot + 3u * AT_ONCE, at.first, last) * params.key_row],
    );
}

fn load_values(slot: u32, me: Invocation, at: Place) -> Words {
    let base = at.value + min(me.member % PARTS, params.v_head_dim / WIDTH - 1u);
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

// `sums` and a word of a value times the weights of four rows. What a mask hides from all of them may be NaN: 0 for it.
fn add_value(sums: Eight, found: vec4<u32>, weight: vec4<f32>) -> Eight {
    var word = found;
    if (params.masked != 0u && all(weight == vec4<f32>())) {
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

// The biases of the team's rows and a slot, where they are seen.
fn bias_of(seen: vec4<bool>, slot: u32, me: Invocation, at: Place) -> vec4<f32> {
    var found = vec4<f32>(HIDDEN);
    for (var each = 0u; each < 4u; each++) {
        if (seen[each]) {
            let packed = me.packed + each;
            let base = at.batch * params.bias_batch + query_head(packed, at) * params.bias_head;
            found[each] = bias[base + packed % params.rows * params.bias_row + slot];
        }
    }
    return found;
}

// The scores of the team's rows and a slot, from their products.
fn scores_of(products: vec4<f32>, slot: u32, rows: Seen, me: Invocation, at: Place) -> vec4<f32> {
    let slots = vec4<u32>(slot);
    let seen = (slots >= rows.lo) & (slots < rows.hi);
    var added = select(vec4<f32>(HIDDEN), vec4<f32>(), seen);
    if (params.masked != 0u) {
        added = bias_of(seen, slot, me, at);
    }
    var scores = products;
    if (params.softcap != 0.0) {
        scores = accurate_tanh(products / params.softcap) * (params.softcap * LOG2E);
    }
    scores = select(scores + added * LOG2E, vec4<f32>(HIDDEN), added < vec4<f32>(LIMIT));
    return select(vec4<f32>(OUTSIDE), scores, (slots >= rows.first) & (slots < rows.end));
}

// Four of the sums that each invocation of a team has, added up over the invocations that have the same word.
fn give_out(a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32>, piece: u32, base: u32, pitch: u32, me: Invocation) {
    pool[me.pool + me.member] = a;
    pool[me.pool + TEAM + me.member] = b;
    pool[me.pool + 2u * TEAM + me.member] = c;
    pool[me.pool + 3u * TEAM + me.member] = d;
    workgroupBarrier();
    for (var own = me.member; own < PARTS * 4u; own += TEAM) {
        let source = me.pool + own % 4u * TEAM + own / 4u;
        var sum = pool[source];
        for (var other = PARTS; other < TEAM; other += PARTS) {
            sum += pool[source + other];
        }
        let dim = own / 4u * WIDTH + piece * 4u + own % 4u;
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
    let tile_row = index % params.row_tiles * TEAMS * 4u;
    var at: Place;
    at.batch = kv / params.kv_heads;
    at.kv_head = kv % params.kv_heads;
    at.key = at.batch * params.key_batch + at.kv_head * params.key_head - params.key_skip;
    at.value = at.batch * params.value_batch + at.kv_head * params.value_head - params.value_skip;
    at.first = (slice + 1u) * params.slice;
    at.end = slice * params.slice;
    for (var each = 0u; each < min(TEAMS * 4u, packed_rows() - tile_row); each++) {
        let seen = visible[at.batch * params.rows + (tile_row + each) % params.rows];
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
    let me = Invocation(lane % TEAM, tile_row + team * 4u, team * POOL, team * BLOCK);
    let part = me.member % PARTS;
    let own_key = me.member / PARTS;
    let rows = seen_by_team(me, at);
    var start = at.first / BLOCK * BLOCK;
    var keys = load_keys(start + own_key, me, at);
    load_queries(me, at);
    workgroupBarrier();
    let own_query = me.pool + part * WIDTH;
    var q = Eight();
    q.a = pool[own_query];
    q.b = pool[own_query + 1u];
    q.c = pool[own_query + 2u];
    q.d = pool[own_query + 3u];
    if (WIDTH == 8u) {
        q.e = pool[own_query + 4u];
        q.f = pool[own_query + 5u];
        q.g = pool[own_query + 6u];
        q.h = pool[own_query + 7u];
    }
    workgroupBarrier();

    var running_max = vec4<f32>(HIDDEN);
    var running_sum = vec4<f32>();  // of this invocation's own weights
    var sums = Eight();
    for (; start < at.end; start += BLOCK) {
        let count = min((at.end - start + TILE - 1u) / TILE * TILE, BLOCK);
        var largest = vec4<f32>(HIDDEN);
        for (var first = 0u; first < count; first += TILE) {
            let place = me.pool + own_key * PITCH + part;
            pool[place] = product_of(keys.a, q);
            pool[place + AT_ONCE * PITCH] = product_of(keys.b, q);
            pool[place + 2u * AT_ONCE * PITCH] = product_of(keys.c, q);
            pool[place + 3u * AT_ONCE * PITCH] = product_of(keys.d, q);
            keys = load_keys(start + first + TILE + own_key, me, at);
            workgroupBarrier();
            if (me.member < TILE) {
                let source = me.pool + me.member * PITCH;
                var products = pool[source];
                for (var each = 1u; each < PARTS; each++) {
                    products += pool[source + each];
                }
                let scores = scores_of(products, start + first + me.member, rows, me, at);
                weights[me.weights + first + me.member] = scores;
                largest = max(largest, scores);
            }
            workgroupBarrier();
        }
        var values = load_values(start + own_key, me, at);
        if (me.member < TILE) {
            pool[me.pool + me.member] = largest;
        }
        workgroupBarrier();
        var top = running_max;
        for (var each = 0u; each < TILE; each++) {
            top = max(top, pool[me.pool + each]);
        }
        // Before the first visible key the sums are 0, and HIDDEN - HIDDEN is 0.
        let factor = exp2(running_max - top);
        running_max = top;
        running_sum *= factor;
        sums = scaled(sums, factor);
        let skipping = (top >= vec4<f32>(LIMIT)) | vec4<bool>(params.mean == 0u);
        for (var own = me.member; own < count; own += TEAM) {
            let scores = weights[me.weights + own];
            let none = (scores <= vec4<f32>(OUTSIDE)) | ((scores < vec4<f32>(LIMIT)) & skipping);
            let weight = select(exp2(scores - top), vec4<f32>(), none);
            weights[me.weights + own] = weight;
            running_sum += weight;
        }
        workgroupBarrier();
        for (var first = 0u; first < count; first += TILE) {
            let ahead = load_values(start + first + TILE + own_key, me, at);
            let place = me.weights + first + own_key;
            sums = add_value(sums, values.a, weights[place]);
            sums = add_value(sums, values.b, weights[place + AT_ONCE]);
            sums = add_value(sums, values.c, weights[place + 2u * AT_ONCE]);
            sums = add_value(sums, values.d, weights[place + 3u * AT_ONCE]);
            values = ahead;
        }
        workgroupBarrier();
    }

    let row_size = params.v_head_dim + 2u;
    let pitch = params.slices * row_size;
    let row = kv * params.partial_rows + me.packed;
    let base = row * pitch + (slice - params.first_slice) * row_size;
    give_out(sums.a, sums.b, sums.c, sums.d, 0u, base, pitch, me);
    if (WIDTH == 8u) {
        give_out(sums.e, sums.f, sums.g, sums.h, 1u, base, pitch, me);
    }
    pool[me.pool + me.member] = running_sum;
    workgroupBarrier();
    if (me.member < 4u) {
        var total = 0.0;
        for (var each = 0u; each < TEAM; each++) {
            total += pool[me.pool + each][me.member];
        }
        let place = base + me.member * pitch + params.v_head_dim;
        partials[place] = running_max[me.member];
        partials[place + 1u] = total;
    }
}
