// copy.wgsl: a buffer to another, 16 bytes at a time.
// bindings   0 params  1 source  2 target out, each [count] vec4<u32>
// workgroup  256 invocations of 4 elements each, neighbours beside each other; grid (workgroups, 1, 1)
struct Params {
    count: u32,
    unused_a: u32,
    unused_b: u32,
    unused_c: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> copied: array<vec4<u32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = group.x * 1024u + lane;
    for (var step = 0u; step < 4u; step++) {
        let at = first + step * 256u;
        if (at < params.count) {
            copied[at] = source[at];
        }
    }
}
