"""The project's own kernels on Dawn, whose compiler is Tint: the same shaders as `wgsl`, seen by another compiler."""

from __future__ import annotations

from attncheck.backends.wgsl import Wgsl


class WgslDawn(Wgsl):
    """As Wgsl, on the package wgpudawn."""

    name = "wgsl-dawn"
    runtime = "dawn"
