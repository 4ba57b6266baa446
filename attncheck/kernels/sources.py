"""The text of shaders: read from a folder, and the lines that may be prepended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

SHADERS = (
    "append", "norm", "project", "evict", "mask", "naive_scores", "naive_softmax", "naive_output", "online",
    "decode", "decode_merge", "score_output", "linear", "gather", "scatter", "flash", "matrix",
    "matrix_decode",
)  # fmt: skip
"""Every shader that a plan may name."""


class ShaderError(ValueError):
    """A shader cannot be read, or its text does not keep its contract with the planner. The message names the file."""


def read_shader(folder: Path, shader: str) -> tuple[str, str]:
    """A shader's text and its file. Raises ShaderError."""
    file = folder / f"{shader}.wgsl"
    try:
        return file.read_text(encoding="utf-8"), str(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        needed = ", ".join(f"{name}.wgsl" for name in SHADERS)
        raise ShaderError(
            f"{file}: cannot read the shader: {reason}; a folder of shaders must hold {needed} "
            "(copy the shipped ones, then edit)"
        ) from error


def prelude(aliases: Mapping[str, str], constants: Mapping[str, int], directives: Sequence[str] = ()) -> str:
    """The lines before a shader: directives (`enable f16;` where an alias needs it), aliases, constants (u32)."""
    lines = [*directives, *(["enable f16;"] if "f16" in aliases.values() else [])]
    lines += [f"alias {name} = {kind};" for name, kind in aliases.items()]
    lines += [f"const {name} = {value}u;" for name, value in constants.items()]
    return "".join(f"{line}\n" for line in lines)
