// matrix.wgsl: as many f16 products with f32 sums as matrix units give, operands from workgroup memory.
// prelude    directives: f16, subgroups, subgroup matrices, whose uniformity is not analysed
// bindings   0 params  1 given: TILES blocks of 16 x 16 f16  2 sums out: blocks of 16 x 16 f32, of which workgroups share some
// workgroup  128 invocations, 4 subgroups of 32; grid (workgroups, 1, 1)
// work       rounds x 16 products of 16 x 16 x 16, 2 operations each, a subgroup
struct Params {
    rounds: u32,
    unused_a: u32,
    unused_b: u32,
    unused_c: u32,
}

const TILES = 16u;
const WORDS = 32u;
const PITCH = 3u;
const TILE = 16u * PITCH;
const SHARED = 64u;

alias Left = subgroup_matrix_left<f16, 16, 16>;
alias Right = subgroup_matrix_right<f16, 16, 16>;
alias Sum = subgroup_matrix_result<f32, 16, 16>;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> given: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> sums: array<vec4<u32>>;

var<workgroup> tiles: array<vec4<u32>, TILES * TILE>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    for (var word = lane; word < TILES * WORDS; word += 128u) {
        tiles[word / WORDS * TILE + word % WORDS / 2u * PITCH + word % 2u] = given[word];
    }
    workgroupBarrier();
    var s00 = Sum();
    var s01 = Sum();
    var s02 = Sum();
    var s03 = Sum();
    var s10 = Sum();
    var s11 = Sum();
    var s12 = Sum();
    var s13 = Sum();
    var s20 = Sum();
    var s21 = Sum();
    var s22 = Sum();
    var s23 = Sum();
    var s30 = Sum();
    var s31 = Sum();
    var s32 = Sum();
    var s33 = Sum();
    for (var round = 0u; round < params.rounds; round++) {
        let lefts = round % 4u * 4u;
        let rights = (round + 1u) % 4u * 4u;
        let l0 = subgroupMatrixLoad<Left, row_major>(&tiles, (lefts + 0u) * TILE, PITCH);
        let l1 = subgroupMatrixLoad<Left, row_major>(&tiles, (lefts + 1u) * TILE, PITCH);
        let l2 = subgroupMatrixLoad<Left, row_major>(&tiles, (lefts + 2u) * TILE, PITCH);
        let l3 = subgroupMatrixLoad<Left, row_major>(&tiles, (lefts + 3u) * TILE, PITCH);
        let r0 = subgroupMatrixLoad<Right, row_major>(&tiles, (rights + 0u) * TILE, PITCH);
        let r1 = subgroupMatrixLoad<Right, row_major>(&tiles, (rights + 1u) * TILE, PITCH);
        let r2 = subgroupMatrixLoad<Right, row_major>(&tiles, (rights + 2u) * TILE, PITCH);
        let r3 = subgroupMatrixLoad<Right, row_major>(&tiles, (rights + 3u) * TILE, PITCH);
        s00 = subgroupMatrixMultiplyAccumulate(l0, r0, s00);
        s01 = subgroupMatrixMultiplyAccumulate(l0, r1, s01);
        s02 = subgroupMatrixMultiplyAccumulate(l0, r2, s02);
        s03 = subgroupMatrixMultiplyAccumulate(l0, r3, s03);
        s10 = subgroupMatrixMultiplyAccumulate(l1, r0, s10);
        s11 = subgroupMatrixMultiplyAccumulate(l1, r1, s11);
        s12 = subgroupMatrixMultiplyAccumulate(l1, r2, s12);
        s13 = subgroupMatrixMultiplyAccumulate(l1, r3, s13);
        s20 = subgroupMatrixMultiplyAccumulate(l2, r0, s20);
        s21 = subgroupMatrixMultiplyAccumulate(l2, r1, s21);
        s22 = subgroupMatrixMultiplyAccumulate(l2, r2, s22);
        s23 = subgroupMatrixMultiplyAccumulate(l2, r3, s23);
        s30 = subgroupMatrixMultiplyAccumulate(l3, r0, s30);
        s31 = subgroupMatrixMultiplyAccumulate(l3, r1, s31);
        s32 = subgroupMatrixMultiplyAccumulate(l3, r2, s32);
        s33 = subgroupMatrixMultiplyAccumulate(l3, r3, s33);
    }
    let place = (group.x * 4u + lane / 32u) % SHARED * 1024u;
    subgroupMatrixStore<row_major>(&sums, place + 0u, s00, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 64u, s01, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 128u, s02, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 192u, s03, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 256u, s10, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 320u, s11, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 384u, s12, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 448u, s13, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 512u, s20, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 576u, s21, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 640u, s22, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 704u, s23, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 768u, s30, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 832u, s31, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 896u, s32, 4u);
    subgroupMatrixStore<row_major>(&sums, place + 960u, s33, 4u);
}
