"""WebGPU through wgpu as a worker's runtime: runs plans of buffers and dispatches, and knows nothing of attention.

Every buffer is bound with a guard zone behind its tensor, inside the bound range: a write past a binding is dropped by
WebGPU and would show nothing. After a run the guard zones and the inputs must be as they were.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import adapters
import guards
import numpy as np
import readback
import shader_text
import timing
import wgpu
from adapters import list_adapters
from failure import Failure

__all__ = ["Runtime", "list_adapters", "start"]

UNIFORM_ALIGNMENT = 256

_SUBGROUP_SIZE = """
@group(0) @binding(0) var<storage, read_write> size: u32;
@compute @workgroup_size(64)
fn main(@builtin(subgroup_size) subgroup: u32, @builtin(local_invocation_index) lane: u32) {
    if (lane == 0u) { size = subgroup; }
}
"""


def start(options: Dict[str, Any]) -> "Runtime":
    """options: {"adapter": part of an adapter's name, or None}. Raises Failure when there is no such adapter."""
    return Runtime(adapters.choose(options.get("adapter")))


class Prepared:
    """A payload with its pipelines compiled."""

    def __init__(self, payload: Dict[str, Any], pipelines: List[Any]) -> None:
        self.buffers = payload["plan"]["buffers"]
        self.dispatches = payload["plan"]["dispatches"]
        self.sources = payload["plan"]["sources"]
        self.outputs = {output["name"]: output for output in payload["outputs"]}
        self.pipelines = pipelines
        self.apart: List[bool] = payload.get("apart") or [False] * len(self.dispatches)
        self.resident: Optional[timing.Resident] = None


class Runtime:
    """One device, and its compiled pipelines."""

    def __init__(self, adapter: Any, features: Sequence[str] = ()) -> None:
        self.device = adapters.open_device(adapter, features)
        self.pipelines: Dict[Tuple[str, str], Any] = {}
        self.readback = readback.Readback(self.device)
        described = adapters.describe(adapter)
        described["limits"] = dict(self.device.limits)
        described["guard_bytes"] = guards.GUARD_BYTES
        described["subgroup_size"] = self._subgroup_size()
        self.provider = "%s (%s)" % (described["adapter"], described["backend"])
        self.hello = {
            "versions": {"wgpu": wgpu.__version__, "numpy": np.__version__},
            "device": described,
        }

    def prepare(self, payload: Dict[str, Any]) -> Prepared:
        """payload: {"plan": Plan as a dict, "outputs": [{"name", "dtype", "shape"}]}. A bad shader is a Failure."""
        sources = payload["plan"]["sources"]
        pipelines = []
        for dispatch in payload["plan"]["dispatches"]:
            text, file = sources[dispatch["shader"]]
            pipelines.append(self._pipeline(dispatch["prelude"], text, file, len(dispatch["bindings"])))
        return Prepared(payload, pipelines)

    def run(self, prepared: Prepared, inputs: Dict[str, np.ndarray]) -> Tuple[Dict[str, np.ndarray], Dict[str, Any]]:
        """Outputs by name, and as evidence the adapter and the shaders that were dispatched."""
        contents = {buffer["name"]: _content(buffer, inputs) for buffer in prepared.buffers}
        images = _gpu(lambda: self._submit(prepared, contents))
        for buffer in prepared.buffers:
            _check_guard(buffer, images[buffer["name"]])
        for buffer in prepared.buffers:
            _check_unchanged(buffer, contents[buffer["name"]], images[buffer["name"]])
        outputs = {
            buffer["output"]: _array(prepared.outputs[buffer["output"]], images[buffer["name"]][: buffer["nbytes"]])
            for buffer in prepared.buffers
            if buffer["output"] in prepared.outputs
        }
        kernels = list(dict.fromkeys(dispatch["shader"] for dispatch in prepared.dispatches))
        return outputs, {"provider": self.provider, "kernels": kernels}

    def time(
        self, prepared: Prepared, inputs: Dict[str, np.ndarray], runs: int, wake: float, sets: int
    ) -> Dict[str, Any]:
        """See main.py; payload["apart"], a bool each dispatch, names those that only move rows into place."""

        def work() -> Dict[str, Any]:
            if inputs or prepared.resident is None:
                self.release(prepared)
                prepared.resident = self._resident(prepared, inputs, sets)
            return timing.timed(prepared.resident, prepared.dispatches, prepared.pipelines, runs, wake)

        found: Dict[str, Any] = _gpu(work)
        return found

    def release(self, prepared: Prepared) -> None:
        """Give up what `time` has left on the device. Buffers of a run live for one run, pipelines for the process."""
        if prepared.resident is not None:
            prepared.resident.destroy()
            prepared.resident = None

    def _pipeline(self, prelude: str, text: str, file: str, buffers: int) -> Any:
        """The compute pipeline of a shader that takes so many buffers; each prelude and text is compiled once."""
        if (prelude, text) not in self.pipelines:
            types = shader_text.binding_types(text, file, buffers)
            self.pipelines[prelude, text] = self._compile(prelude, text, file, types)
        return self.pipelines[prelude, text]

    def _compile(self, prelude: str, text: str, file: str, types: List[str]) -> Any:
        """Compiled with the bindings that the text declares: an edited shader need not use them all."""
        try:
            module = self.device.create_shader_module(code=prelude + text, label=file)
            bindings = self.device.create_bind_group_layout(
                entries=[
                    {"binding": binding, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
                    for binding, kind in enumerate(types)
                ]
            )
            return self.device.create_compute_pipeline(
                layout=self.device.create_pipeline_layout(bind_group_layouts=[bindings]),
                compute={"module": module, "entry_point": "main"},
            )
        except wgpu.GPUError as error:
            raise Failure("error", shader_text.compile_message(str(error), file, prelude.count("\n"))) from error

    def _submit(self, prepared: Prepared, contents: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """Run all dispatches in one submission and read back: buffer name -> its bytes (of scratch, the guard zone)."""
        buffers = {name: self._filled(content) for name, content in contents.items()}
        uniforms = self._uniforms(prepared)
        groups = self._groups(prepared, buffers, uniforms)
        encoder = self.device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        for dispatch, pipeline, group in zip(prepared.dispatches, prepared.pipelines, groups):
            compute.set_pipeline(pipeline)
            compute.set_bind_group(0, group)
            compute.dispatch_workgroups(*dispatch["grid"])
        compute.end()
        ranges = {buffer["name"]: _read_range(buffer) for buffer in prepared.buffers}
        images = self.readback.read(encoder, buffers, ranges)
        for buffer in [*buffers.values(), uniforms]:
            buffer.destroy()
        return images

    def _groups(self, prepared: Prepared, buffers: Dict[str, Any], uniforms: Any) -> List[Any]:
        """The bind group of each dispatch: its uniforms, and its buffers with their guard zones."""
        groups = []
        for index, (dispatch, pipeline) in enumerate(zip(prepared.dispatches, prepared.pipelines)):
            bound = [_entry(0, uniforms, index * UNIFORM_ALIGNMENT, len(dispatch["uniforms"]))]
            for binding, name in enumerate(dispatch["bindings"], start=1):
                bound.append(_entry(binding, buffers[name], *_bound(dispatch, binding - 1, buffers[name].size)))
            groups.append(self.device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=bound))
        return groups

    def _resident(self, prepared: Prepared, inputs: Dict[str, np.ndarray], sets: int) -> timing.Resident:
        """All buffers on the device, each set as a run leaves it.

        What is timed writes into the same buffers in every set: a run that wrote into its own could begin before the
        last one has ended, and both would seem shorter.
        """
        uniforms = self._uniforms(prepared)
        shared = {
            name
            for dispatch, apart in zip(prepared.dispatches, prepared.apart)
            if not apart
            for name in _written(prepared.sources, dispatch)
        }
        once = {it["name"]: self._filled(_content(it, inputs)) for it in prepared.buffers if it["name"] in shared}
        made, groups = [uniforms, *once.values()], []
        for _ in range(sets):
            own = {it["name"]: self._filled(_content(it, inputs)) for it in prepared.buffers if it["name"] not in once}
            groups.append(self._groups(prepared, {**once, **own}, uniforms))
            made += own.values()
        parts = timing.parts_of(prepared.dispatches, prepared.apart)
        resident = timing.Resident(self.device, parts, groups, made)
        timing.fill(resident, prepared.dispatches, prepared.pipelines)
        return resident

    def _filled(self, content: np.ndarray) -> Any:
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
        return self.device.create_buffer_with_data(data=content, usage=usage)

    def _uniforms(self, prepared: Prepared) -> Any:
        """One buffer for the uniforms of all dispatches, each at its aligned place."""
        packed = bytearray(UNIFORM_ALIGNMENT * max(1, len(prepared.dispatches)))
        for index, dispatch in enumerate(prepared.dispatches):
            place = index * UNIFORM_ALIGNMENT
            packed[place : place + len(dispatch["uniforms"])] = dispatch["uniforms"]
        return self.device.create_buffer_with_data(data=packed, usage=wgpu.BufferUsage.UNIFORM)

    def _subgroup_size(self) -> Any:
        """Measured in a shader, since adapters misreport it; None where shaders cannot say."""
        if not {"subgroup", "subgroups"} & set(self.device.features):
            return None
        enable = "enable subgroups;" if adapters.DAWN else ""  # a line that naga does not know
        module = self.device.create_shader_module(code=enable + _SUBGROUP_SIZE)
        pipeline = self.device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
        buffer = self._filled(np.zeros(4, np.uint8))
        group = self.device.create_bind_group(
            layout=pipeline.get_bind_group_layout(0), entries=[_entry(0, buffer, 0, buffer.size)]
        )
        encoder = self.device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        compute.set_pipeline(pipeline)
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(1)
        compute.end()
        return int(self.readback.read(encoder, {"size": buffer}, {"size": (0, 4)})["size"].view("<u4")[0])


def _bound(dispatch: Dict[str, Any], binding: int, size: int) -> Tuple[int, int]:
    """Offset and size of what a dispatch binds of a buffer: all, or a range and as much behind it as a guard zone."""
    ranges = dispatch["ranges"]
    part = ranges[binding] if binding < len(ranges) else None
    if part is None:
        return 0, size
    return part["offset"], min(guards.bound_bytes(part["nbytes"]), size - part["offset"])


def _written(sources: Dict[str, Any], dispatch: Dict[str, Any]) -> List[str]:
    """The buffers that a dispatch may write into, by what its shader declares."""
    text, file = sources[dispatch["shader"]]
    types = shader_text.binding_types(text, file, len(dispatch["bindings"]))
    return [name for name, kind in zip(dispatch["bindings"], types[1:]) if kind == "storage"]


def _content(buffer: Dict[str, Any], inputs: Dict[str, np.ndarray]) -> np.ndarray:
    """The bytes that a buffer holds before the run, guard zone included."""
    nbytes = buffer["nbytes"]
    if buffer["content"] is not None:
        return guards.guarded(np.frombuffer(buffer["content"], np.uint8))
    if buffer["input"] is None:
        return guards.poisoned(nbytes)
    if buffer["input"] not in inputs:
        raise Failure("error", "the case has no input %r, which the kernels need" % buffer["input"])
    given = np.ascontiguousarray(inputs[buffer["input"]]).reshape(-1).view(np.uint8)
    if given.nbytes < nbytes:
        raise Failure("error", "input %r has %d bytes; the kernels read %d" % (buffer["input"], given.nbytes, nbytes))
    return guards.guarded(given[:nbytes])


def _read_range(buffer: Dict[str, Any]) -> Tuple[int, int]:
    """What must come back of a buffer: all of it, but only the guard zone (from an aligned byte on) of scratch."""
    scratch = buffer["content"] is None and buffer["input"] is None and buffer["output"] is None
    start = buffer["nbytes"] // guards.ALIGNMENT * guards.ALIGNMENT if scratch else 0
    return start, guards.bound_bytes(buffer["nbytes"])


def _check_guard(buffer: Dict[str, Any], image: np.ndarray) -> None:
    nbytes = buffer["nbytes"]
    zone = image[image.nbytes - (guards.bound_bytes(nbytes) - nbytes) :]
    broken = guards.first_broken(nbytes, zone)
    if broken >= 0:
        raise Failure("oob-write", "a kernel wrote past the end of %s: %s" % (buffer["name"], _offset(broken, nbytes)))


def _check_unchanged(buffer: Dict[str, Any], before: np.ndarray, image: np.ndarray) -> None:
    if buffer["input"] is None and buffer["content"] is None:
        return
    changed = np.flatnonzero(before != image)
    if changed.size:
        raise Failure(
            "oob-write", "a kernel wrote into the input %s, first at byte %d" % (buffer["name"], int(changed[0]))
        )


def _offset(broken: int, nbytes: int) -> str:
    return "the first stray byte is %d bytes behind its %d bytes" % (broken, nbytes)


def _array(output: Dict[str, Any], data: np.ndarray) -> np.ndarray:
    values: np.ndarray = data.view(np.dtype(output["dtype"])).reshape(output["shape"])
    return values


def _entry(binding: int, buffer: Any, offset: int, size: int) -> Dict[str, Any]:
    return {"binding": binding, "resource": {"buffer": buffer, "offset": offset, "size": size}}


def _gpu(work: Callable[[], Any]) -> Any:
    """Run `work`; what the GPU's own errors mean."""
    try:
        return work()
    except wgpu.GPUOutOfMemoryError as error:
        raise Failure("out-of-memory", "the adapter is out of memory: %s" % " ".join(str(error).split())) from error
    except (wgpu.GPUError, RuntimeError) as error:
        words = " ".join(str(error).split())
        if "lost" in words.lower():
            raise Failure("device-lost", "the GPU device was lost: %s" % words) from error
        raise Failure("error", "WebGPU refused the plan: %s" % words) from error
