"""Uniform bytes, packed from the `struct Params` that a shader's own text declares: each field has one definition."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

from attncheck.kernels.sources import ShaderError

_STRUCT = re.compile(r"\bstruct\s+Params\s*\{([^}]*)\}")
_FIELD = re.compile(r"(\w+)\s*:\s*(\w+)\s*,?")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FORMAT = {"u32": "I", "i32": "i", "f32": "f"}
_ALIGNMENT = 16


def fields(text: str, file: str) -> dict[str, str]:
    """Name -> scalar type of the fields of `struct Params` in a shader's text, in order."""
    found = _STRUCT.search(_COMMENT.sub("", text))
    if found is None:
        raise ShaderError(f"{file}: no `struct Params`; it must declare the uniforms at binding 0")
    declared = dict(_FIELD.findall(found.group(1)))
    for name, kind in declared.items():
        if kind not in _FORMAT:
            raise ShaderError(f"{file}: Params.{name} is a {kind}; uniforms are {', '.join(_FORMAT)} only")
    return declared


def pack(text: str, file: str, values: Mapping[str, int | float]) -> bytes:
    """The bytes of `Params`, padded to 16. `values` must name exactly the fields that the shader declares."""
    declared = fields(text, file)
    unknown, unused = declared.keys() - values.keys(), values.keys() - declared.keys()
    if unknown or unused:
        wrong = [f"declares {name}, which has no value" for name in sorted(unknown)]
        wrong += [f"lacks {name}" for name in sorted(unused)]
        raise ShaderError(f"{file}: struct Params {'; '.join(wrong)}; the planner gives {', '.join(values)}")
    layout = "<" + "".join(_FORMAT[kind] for kind in declared.values())
    packed = struct.pack(layout, *(values[name] for name in declared))
    return packed + bytes(-len(packed) % _ALIGNMENT)
