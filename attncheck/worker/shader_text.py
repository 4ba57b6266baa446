"""What a worker reads in a shader's text and in a compiler's complaint about it."""

from __future__ import annotations

import re
from typing import List

from failure import Failure

_BINDING = re.compile(r"@group\(0\)\s*@binding\((\d+)\)\s*var<\s*(uniform|storage)\s*(?:,\s*(read|read_write)\s*)?>")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PLACE = re.compile(r"┌─ [^\n]*?:(\d+):(\d+)")
_REASON = re.compile(r"Shader (?:'[^\n]*' )?(?:parsing|validation) error: ([^\n]*)")
_CAUSE = re.compile(r"^\s*= ([^\n]*)", re.MULTILINE)


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
    reason = _REASON.search(text)
    words = reason.group(1) if reason else " ".join(text.split())
    message = "; ".join([words, *_CAUSE.findall(text)])
    place = _PLACE.search(text)
    if place is None:
        return "%s: %s" % (file, message)
    return "%s:%d:%s: %s" % (file, int(place.group(1)) - prelude_lines, place.group(2), message)
