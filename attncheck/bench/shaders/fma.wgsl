// fma.wgsl: as many f32 multiplications and additions as an adapter gives, from registers alone.
// bindings   0 params  1 sums out [invocations] vec4<f32>, so that nothing can be left out
// workgroup  256 invocations; grid (workgroups, 1, 1)
// work       rounds x 8 chains x 4 lanes x 2 operations an invocation
struct Params {
    rounds: u32,
    factor: f32,
    term: f32,
    unused: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> sums: array<vec4<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let factor = vec4<f32>(params.factor);
    let term = vec4<f32>(params.term);
    let start = vec4<f32>(f32(id.x), 1.0, 2.0, 3.0);
    var a = start;
    var b = start + 1.0;
    var c = start + 2.0;
    var d = start + 3.0;
    var e = start + 4.0;
    var f = start + 5.0;
    var g = start + 6.0;
    var h = start + 7.0;
    for (var round = 0u; round < params.rounds; round++) {
        a = fma(a, factor, term);
        b = fma(b, factor, term);
        c = fma(c, factor, term);
        d = fma(d, factor, term);
        e = fma(e, factor, term);
        f = fma(f, factor, term);
        g = fma(g, factor, term);
        h = fma(h, factor, term);
    }
    sums[id.x] = a + b + c + d + e + f + g + h;
}
