"""The project's own kernels on Dawn, whose compiler is Tint: the same shaders as `wgsl`, seen by another compiler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from attncheck.backends.base import Launch
from attncheck.backends.wgsl import Wgsl
from attncheck.kernels.policy import Policy


class WgslDawn(Wgsl):
    """As Wgsl, on the package wgpudawn.

    robust   whether Dawn bounds every index that shaders compute, as browsers do
    """

    name = "wgsl-dawn"
    runtime = "dawn"

    def __init__(
        self,
        policy: Policy | None = None,
        adapter: str | None = None,
        shaders: Path | None = None,
        *,
        forced: bool = False,
        robust: bool = True,
    ) -> None:
        super().__init__(policy, adapter, shaders, forced=forced)
        self.robust = robust

    def launch(self) -> Launch:
        """A worker on Dawn, on the adapter asked for."""
        launch = super().launch()
        return replace(launch, options={**launch.options, "robust": self.robust})
