"""What a worker reads in a shader's text and in a compiler's complaint about it."""

from __future__ import annotations

import re
from typing import List, Tuple

from failure import Failure

_BINDING = re.compile(r"@group\(0\)\s*@binding\((\d+)\)\s*var<\s*(uniform|storage)\s*(?:,\s*(read|read_write)\s*)?>")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# naga, in wgpu
_PLACE = re.compile(r"┌─ [^\n]*?:(\d+):(\d+)")
_REASON = re.compile(r"Shader (?:'[^\n]*' )?(?:parsing|validation) error: ([^\n]*)")
_CAUSE = re.compile(r"^\s*= ([^\n]*)", re.MULTILINE)
# Tint, in Dawn
_TINT = re.compile(r"^(?:Error while parsing WGSL: )?[^\n:]*:(\d+):(\d+) (error|note): ([^\n]*)", re.MULTILINE)
_WHILE = re.compile(r"\n\s*- While [^\n]*")


def binding_types(text: str, file: str, buffers: int) -> List[str]:
    """Buffer types of the bindings 0, 1, ... that a shader declares: the uniforms, then `buffers` storage buffers."""
    declared = {
        int(number): "uniform" if space == "uniform" else "storage" if access == "read_write" else "read-only-storage"
        for number, space, access in _BINDING.findall(_COMMENT.sub("", text))
    }
    if sorted(declared) != list(range(buffers + 1)) or declared[0] != "uniform":
        found = ", ".join("%d %s" % (number, declared[number]) for number in sorted(declared))
        raise Failure(
            "error",
            "%s: must declare in @group(0) the uniforms at @binding(0) and storage buffers at 1 to %d; it declares %s"
            % (file, buffers, found or "none"),
        )
    return [declared[number] for number in range(buffers + 1)]


def compile_message(text: str, file: str, prelude_lines: int) -> str:
    """The compiler's reason with the place in the file itself, without the lines that were prepended."""
    told = _TINT.findall(text)
    if told:
        sentences = "; ".join(_first_of_tint(told, prelude_lines))
        return "%s:%d:%s: %s" % (file, int(told[0][0]) - prelude_lines, told[0][1], sentences)
    reason = _REASON.search(text)
    words = reason.group(1) if reason else " ".join(_WHILE.sub("", text).split())
    message = "; ".join([words, *_CAUSE.findall(text)])
    place = _PLACE.search(text)
    if place is None:
        return "%s: %s" % (file, message)
    return "%s:%d:%s: %s" % (file, int(place.group(1)) - prelude_lines, place.group(2), message)


def _first_of_tint(told: List[Tuple[str, str, str, str]], prelude_lines: int) -> List[str]:
    """Tint's first error and the notes that belong to it, each of these with its place."""
    sentences = [told[0][3]]
    for line, column, kind, words in told[1:]:
        if kind == "error":
            break
        sentences.append("%s (%d:%s)" % (words, int(line) - prelude_lines, column))
    return sentences
