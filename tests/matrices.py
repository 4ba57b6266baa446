"""Matrix units, subgroups of 32 and f16 in plain WGSL, so that the shaders that want them run on any adapter, slowly.

An invocation has of a matrix 16 x 16 what it would multiply: of a left one its row, of a right one its 8 columns, of
a sum these 8 elements of the row. What subgroups exchange goes through workgroup memory.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from attncheck import shipped

SHADERS = ("matrix", "matrix_decode")
"""Those that want matrix units."""

_IN_PLACE = (
    (r"alias (Left|Right|Sum) = [^;]*;\n", ""),
    (r"subgroupMatrixLoad<(\w+), (\w+)>\(&arena, ", r"emulated_\1_\2("),
    (r"subgroupMatrixStore<row_major>\(&arena, ", "emulated_store("),
    (r"subgroupMatrixMultiplyAccumulate\(", "emulated_product("),
    (r"subgroup(Min|Max|Or|Any|ShuffleXor|BroadcastFirst)\(", r"emulated_\1("),
    (r"vec4<f16>\(", "emulated_rounded("),
    (r"bitcast<vec2<u32>>\(", "emulated_halves("),
    (r"@builtin\(subgroup_invocation_id\) lane: u32,\n", ""),
    (r"    let index = group\.x", r"    emulated_lane = invocation;\n    let lane = invocation % 32u;\n\g<0>"),
)

_EMULATION = """
struct Left { row: array<vec4<f32>, 4> }
struct Right { columns: array<vec4<f32>, 32> }
struct Sum { a: vec4<f32>, b: vec4<f32> }

var<private> emulated_lane: u32;
var<workgroup> emulated_words: array<u32, 256>;

fn emulated_halves(four: vec4<f32>) -> vec2<u32> {
    return vec2<u32>(pack2x16float(four.xy), pack2x16float(four.zw));
}
fn emulated_rounded(four: vec4<f32>) -> vec4<f32> {
    let halves = emulated_halves(four);
    return vec4<f32>(unpack2x16float(halves.x), unpack2x16float(halves.y));
}
fn emulated_four(word: vec4<u32>, half: u32) -> vec4<f32> {
    let two = select(word.xy, word.zw, half == 1u);
    return vec4<f32>(unpack2x16float(two.x), unpack2x16float(two.y));
}
fn emulated_element(word: vec4<u32>, at: u32) -> f32 {
    return unpack2x16float(word[at / 2u])[at % 2u];
}
fn emulated_Left_row_major(place: u32, pitch: u32) -> Left {
    let base = place + emulated_lane % 32u / 2u * pitch;
    var found: Left;
    for (var each = 0u; each < 4u; each++) {
        found.row[each] = emulated_four(arena[base + each / 2u], each % 2u);
    }
    return found;
}
fn emulated_Right_row_major(place: u32, pitch: u32) -> Right {
    var found: Right;
    for (var k = 0u; k < 16u; k++) {
        let word = arena[place + k * pitch + emulated_lane % 2u];
        found.columns[2u * k] = emulated_four(word, 0u);
        found.columns[2u * k + 1u] = emulated_four(word, 1u);
    }
    return found;
}
fn emulated_Right_col_major(place: u32, pitch: u32) -> Right {
    var found: Right;
    for (var k = 0u; k < 16u; k++) {
        for (var column = 0u; column < 8u; column++) {
            let word = arena[place + (emulated_lane % 2u * 8u + column) * pitch + k / 8u];
            found.columns[2u * k + column / 4u][column % 4u] = emulated_element(word, k % 8u);
        }
    }
    return found;
}
fn emulated_Sum_row_major(place: u32, pitch: u32) -> Sum {
    let base = place + emulated_lane % 32u / 2u * pitch + emulated_lane % 2u * 2u;
    return Sum(bitcast<vec4<f32>>(arena[base]), bitcast<vec4<f32>>(arena[base + 1u]));
}
fn emulated_store(place: u32, sum: Sum, pitch: u32) {
    let base = place + emulated_lane % 32u / 2u * pitch + emulated_lane % 2u * 2u;
    arena[base] = bitcast<vec4<u32>>(sum.a);
    arena[base + 1u] = bitcast<vec4<u32>>(sum.b);
}
fn emulated_product(given_left: Left, given_right: Right, given: Sum) -> Sum {
    var left = given_left;
    var right = given_right;
    var sum = given;
    for (var k = 0u; k < 16u; k++) {
        let it = left.row[k / 4u][k % 4u];
        sum.a += it * right.columns[2u * k];
        sum.b += it * right.columns[2u * k + 1u];
    }
    return sum;
}
fn emulated_given(word: u32) -> u32 {
    workgroupBarrier();
    emulated_words[emulated_lane] = word;
    workgroupBarrier();
    return emulated_lane / 32u * 32u;
}
fn emulated_Min(word: u32) -> u32 {
    let first = emulated_given(word);
    var found = word;
    for (var each = 0u; each < 32u; each++) {
        found = min(found, emulated_words[first + each]);
    }
    return found;
}
fn emulated_Max(word: u32) -> u32 {
    let first = emulated_given(word);
    var found = word;
    for (var each = 0u; each < 32u; each++) {
        found = max(found, emulated_words[first + each]);
    }
    return found;
}
fn emulated_Or(word: u32) -> u32 {
    let first = emulated_given(word);
    var found = word;
    for (var each = 0u; each < 32u; each++) {
        found |= emulated_words[first + each];
    }
    return found;
}
fn emulated_Any(it: bool) -> bool {
    return emulated_Or(select(0u, 1u, it)) != 0u;
}
fn emulated_ShuffleXor(it: f32, mask: u32) -> f32 {
    let first = emulated_given(bitcast<u32>(it));
    return bitcast<f32>(emulated_words[first + ((emulated_lane % 32u) ^ mask)]);
}
fn emulated_BroadcastFirst(word: u32) -> u32 {
    return emulated_words[emulated_given(word)];
}
"""


def emulated(folder: Path, given: Path | None = None) -> Path:
    """A folder of shaders, made in `folder`, whose matrix units are emulated: those in `given`, or the shipped ones."""
    made = folder / "emulated"
    shutil.copytree(given or shipped.shaders_dir(), made)
    for shader in SHADERS:
        file = made / f"{shader}.wgsl"
        file.write_text(in_plain_words(file.read_text(encoding="utf-8")), encoding="utf-8")
    return made


def in_plain_words(text: str) -> str:
    """The text of a shader with nothing in it that wants matrix units, subgroups or f16."""
    for pattern, words in _IN_PLACE:
        text, count = re.subn(pattern, words, text)
        assert count, pattern
    assert not re.search(r"subgroup(_matrix|[A-Z])|f16>", re.sub(r"//[^\n]*", "", text))
    return text + _EMULATION
