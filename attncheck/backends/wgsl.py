"""The project's own kernels in shaders/, run by wgpu on a WebGPU device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from attncheck import shipped
from attncheck.backends.base import BackendUnavailable, CannotRequest, Evidence, Hello, Launch, Request
from attncheck.compare.arithmetic import Compute
from attncheck.graph.case import Case
from attncheck.kernels import planner
from attncheck.kernels.draft import Limits
from attncheck.kernels.policy import Policy
from attncheck.kernels.roster import promise
from attncheck.kernels.sources import SHADERS, ShaderError, read_shader
from attncheck.problem import AnyProblem


class Wgsl:
    """Naive and online attention in WGSL; computes in float32 whatever the dtype.

    policy   which kernels run; `forced` says that the user's word on the kernel goes before a scenario's own
    adapter  part of the name of the adapter to use; None: the first, hardware before software
    shaders  a folder of edited kernels instead of the shipped ones
    """

    name = "wgsl"
    runtime = "webgpu"

    def __init__(
        self,
        policy: Policy | None = None,
        adapter: str | None = None,
        shaders: Path | None = None,
        *,
        forced: bool = False,
    ) -> None:
        self.policy = policy or Policy()
        self.adapter = adapter
        self.shaders = shaders or shipped.shaders_dir()
        self.forced = forced

    def arithmetic(self, problem: AnyProblem) -> Compute:
        """Float32, whatever the dtype."""
        return "f32"

    def launch(self) -> Launch:
        """A WebGPU worker on the adapter asked for."""
        files = tuple(self.shaders / f"{shader}.wgsl" for shader in SHADERS)
        return Launch(self.runtime, {"adapter": self.adapter}, files=files)

    def check(self, hello: Hello) -> None:
        """Raise BackendUnavailable when the folder of shaders is not one."""
        for shader in SHADERS:
            try:
                read_shader(self.shaders, shader)
            except ShaderError as error:
                raise BackendUnavailable(str(error)) from error

    def unsupported(self, case: Case, problem: AnyProblem, hello: Hello) -> str | None:
        """What the kernels or the adapter cannot do."""
        return planner.refusal(problem, limits(hello))

    def requests(self, case: Case, problem: AnyProblem, hello: Hello) -> Sequence[Request]:
        """One plan a kernel that the policy chooses, the judged one first."""
        outputs = [{"name": output.name, "dtype": output.dtype, "shape": output.shape} for output in case.outputs]
        allowed = limits(hello)
        choice = self._policy(case).choose(problem, allowed)
        try:
            plans = [planner.plan(problem, kernel, allowed, self.shaders) for kernel in choice.kernels]
        except ShaderError as error:
            raise CannotRequest(str(error)) from error
        return [
            Request(
                plan.kernel,
                {"plan": asdict(plan), "outputs": outputs},
                choice.instead,
                promise(plan.kernel),
            )
            for plan in plans
        ]

    def fallback(self, evidence: Evidence) -> str | None:
        """Without a dispatched kernel there is no proof that anything ran."""
        return None if evidence.kernels else f"no kernel was dispatched on {evidence.provider}"

    def _policy(self, case: Case) -> Policy:
        if not self.forced and case.kernel is not None:
            return replace(self.policy, kernel=case.kernel)
        return self.policy


def limits(hello: Hello) -> Limits:
    """The worker's own words on its adapter, as the planner needs them. A guard zone takes its part of a binding."""
    offered = hello.device["limits"]
    return Limits(
        binding_bytes=offered["max-storage-buffer-binding-size"] - 2 * hello.device["guard_bytes"],
        workgroups=offered["max-compute-workgroups-per-dimension"],
        f16=hello.device["f16"],
        workgroup_bytes=offered["max-compute-workgroup-storage-size"],
        invocations=min(offered["max-compute-invocations-per-workgroup"], offered["max-compute-workgroup-size-x"]),
        software=hello.device["software"],
        buffer_bytes=offered["max-buffer-size"] - 2 * hello.device["guard_bytes"],
        matrix=hello.device.get("matrix", {}).get("usable", False) and hello.device["subgroup_size"] == 32,
    )
