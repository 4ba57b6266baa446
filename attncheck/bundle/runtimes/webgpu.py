"""Own kernels in a script: the WGSL in full, and every buffer and dispatch of the plan, on wgpu or Dawn."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attncheck.bundle import literals
from attncheck.bundle.runtimes.packages import needed
from attncheck.bundle.runtimes.several import listed, written
from attncheck.bundle.subject import Piece, Subject
from attncheck.kernels.uniforms import fields

_RUN = '''\
{once}def device():
    """A device on the adapter whose name holds ADAPTER, or the first argument of this script."""
    wanted = next((word for word in sys.argv[1:] if word != CHILD), ADAPTER)
    adapters = wgpu.gpu.enumerate_adapters_sync()
    chosen = [it for it in adapters if wanted.lower() in it.info["device"].lower()]
    if not chosen:
        raise CannotRun(f"no adapter is called {wanted!r} here: {[it.info['device'] for it in adapters]}")
    features = [it for it in ("shader-f16", "subgroup", "subgroups") if it in chosen[0].features]
    limits = {it: chosen[0].limits[it] for it in ("max-storage-buffer-binding-size", "max-buffer-size")}
    print(f"{chosen[0].info['device']}, {chosen[0].info['description']} ({chosen[0].info['backend_type']})")
    return chosen[0].request_device_sync(required_features=features, required_limits=limits)


def guarded(content):
    """Bytes with a guard zone behind, inside of what is bound: a write past a binding would show nothing."""
    size = -(-(content.nbytes + 4096) // 16) * 16 - content.nbytes
    return np.concatenate([content, np.full(size // 2 + 1, 0xFFC3, "<u2").view(np.uint8)[:size]])


def before(inputs{, at}):
    """What each buffer holds before: an input, given words, or 0xff in every byte."""
    found = {}
    for name, size, source, _ in BUFFERS{[at]}:
        if source is None:
            content = np.full(size, 0xFF, np.uint8)
        else:
            array = inputs[source] if isinstance(source, str) else source
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)[:size]
        found[name] = guarded(content)
    return found


def packed(params):
    """`struct Params` of a shader: whole numbers as 32 bits, others as f32, filled up to 16 bytes."""
    numbers = params.values()
    words = [struct.pack("<f", it) if isinstance(it, float) else struct.pack("<I", it & 0xFFFFFFFF) for it in numbers]
    return b"".join(words) + bytes(-4 * len(words) % 16)


def run(inputs{, at}):
    """Outputs by name: every dispatch in one submission, then every buffer is read back."""
    gpu = device()
    contents = before(inputs{, at})
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    buffers = {name: gpu.create_buffer_with_data(data=it, usage=usage) for name, it in contents.items()}
    encoder = gpu.create_command_encoder()
    compute = encoder.begin_compute_pass()
    for shader, types, params, names, grid, *ranges in DISPATCHES{[at]}:
        module = gpu.create_shader_module(code=SHADERS[shader], label=shader)
        layout = gpu.create_bind_group_layout(
            entries=[
                {"binding": at, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
                for at, kind in enumerate(types)
            ]
        )
        pipeline = gpu.create_compute_pipeline(
            layout=gpu.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": module, "entry_point": "main"},
        )
        uniforms = gpu.create_buffer_with_data(data=packed(params), usage=wgpu.BufferUsage.UNIFORM)
        parts = dict(ranges[0]) if ranges else {}
        bound = [(uniforms, 0, uniforms.size)]
        for binding, it in enumerate(map(buffers.get, names), 1):
            offset, size = parts.get(binding, (0, it.size))  # of a part, as much more as a guard zone takes
            bound.append((it, offset, min(-(-(size + 4096) // 16) * 16, it.size - offset)))
        entries = [
            {"binding": binding, "resource": {"buffer": it, "offset": offset, "size": size}}
            for binding, (it, offset, size) in enumerate(bound)
        ]
        compute.set_pipeline(pipeline)
        compute.set_bind_group(0, gpu.create_bind_group(layout=layout, entries=entries))
        compute.dispatch_workgroups(*grid)
    compute.end()
    gpu.queue.submit([encoder.finish()])
    images = {name: np.frombuffer(gpu.queue.read_buffer(it), np.uint8) for name, it in buffers.items()}
    print(f"dispatched {', '.join(dict.fromkeys(shader for shader, *_ in DISPATCHES{[at]}))}")
    outputs = {}
    for name, size, source, output in BUFFERS{[at]}:
        kept = contents[name] if source is not None else np.concatenate([images[name][:size], contents[name][size:]])
        if (images[name] != kept).any():
            at = int(np.flatnonzero(images[name] != kept)[0])
            raise StrayWrite(f"a kernel wrote at byte {at} of {name}, whose {size} bytes it may not leave or change")
        if output is not None:
            dtype, shape = OUTPUTS{[at]}[output]
            outputs[output] = images[name][:size].view(dtype).reshape(shape)
    return outputs
'''

_BINDING = re.compile(r"@group\(0\)\s*@binding\((\d+)\)\s*var<\s*(uniform|storage)\s*(?:,\s*(read|read_write)\s*)?>")

_WGPU = """\
import wgpu
from wgpu.backends.wgpu_native.extras import set_instance_extras

set_instance_extras(backends=["Primary"])  # no OpenGL, which fails on these shaders"""
_DAWN = """\
import wgpudawn

wgpudawn.install_as_wgpu()
import wgpu
from wgpudawn.backends.dawn import extras

extras.set_instance_extras(backends=["Primary"], enable_toggles=["vulkan_enable_f16_on_nvidia"])"""


def piece(subject: Subject) -> Piece:
    """The plan that failed, and those of the calls before it."""
    plans = [call.payload["plan"] for call in subject.calls]
    module = "wgpudawn" if subject.launch.runtime == "dawn" else "wgpu"
    names = _shader_names(plans)
    outputs = [
        {it["name"]: (it["dtype"], tuple(it["shape"])) for it in call.payload["outputs"]} for call in subject.calls
    ]
    constants = [
        f"ADAPTER = {json.dumps(subject.hello.device['adapter'])}",
        listed("OUTPUTS", list(map(repr, outputs)), subject),
        "",
        "# Name, bytes, what fills it (an input by name, given words, None for nothing), and the output that it is.",
        *_told("BUFFERS", [_buffers(plan) for plan in plans]),
        "",
        "# Shader, kinds of its bindings, its Params, the buffers bound from 1 on, workgroups; and by binding what is",
        "# bound of a buffer, where that is not all: its first byte, and how many.",
        *_told("DISPATCHES", [_dispatches(plan, names) for plan in plans]),
        "",
        "# The kernels as they are compiled, what is put in front of them included.",
        "SHADERS = {}",
        *_shaders(plans, names),
    ]
    imports = f"import struct\n\nimport numpy as np\n{_DAWN if module == 'wgpudawn' else _WGPU}"
    return Piece(
        needed(subject, module),
        f"import functools\n{imports}" if subject.earlier else imports,
        written(_RUN, subject),
        "\n".join(constants),
        held=True,
    )


def _told(name: str, calls: Sequence[Sequence[str]]) -> list[str]:
    """A list as lines: of one call its items, of several one list each."""
    if len(calls) == 1:
        return [f"{name} = [", *(f"    {line}" for line in calls[0]), "]"]
    each = [line for lines in calls for line in ("    [", *(f"        {line}" for line in lines), "    ],")]
    return [f"{name} = [", *each, "]"]


def _shader_names(plans: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """A name for each shader with its prelude: the shader's own, numbered where it has several."""
    found: dict[tuple[str, str], str] = {}
    for it in (it for plan in plans for it in plan["dispatches"]):
        key = (it["shader"], it["prelude"])
        many = sum(shader == it["shader"] for shader, _ in found)
        found.setdefault(key, it["shader"] if not many else f"{it['shader']}_{many + 1}")
    return found


def _buffers(plan: Mapping[str, Any]) -> list[str]:
    lines = []
    for it in plan["buffers"]:
        source = "None" if it["input"] is None else json.dumps(it["input"])
        if it["content"] is not None:
            source = literals.array(np.frombuffer(it["content"], np.int32 if len(it["content"]) % 4 == 0 else np.uint8))
        output = "None" if it["output"] is None else json.dumps(it["output"])
        lines += literals.wrapped(f"({json.dumps(it['name'])}, {it['nbytes']}, {source}, {output}),", "")
    return lines


def _dispatches(plan: Mapping[str, Any], names: Mapping[tuple[str, str], str]) -> list[str]:
    lines = []
    for it in plan["dispatches"]:
        text, file = plan["sources"][it["shader"]]
        kinds = _kinds(text)
        params = ", ".join(f"{name}={value}" for name, value in _params(text, file, it["uniforms"]))
        words = [json.dumps(names[it["shader"], it["prelude"]]), json.dumps(kinds), f"dict({params})"]
        words += [json.dumps(list(it["bindings"])), str(tuple(it["grid"]))]
        parts = {at: (part["offset"], part["nbytes"]) for at, part in enumerate(it["ranges"], 1) if part is not None}
        words += [str(parts)] if parts else []
        lines += literals.wrapped(f"({', '.join(words)}),", "")
    return lines


def _kinds(text: str) -> list[str]:
    """What each binding of a shader is bound as, from 0 on."""
    kinds = {("uniform", ""): "uniform", ("storage", "read_write"): "storage"}
    found = {int(at): kinds.get((space, mode), "read-only-storage") for at, space, mode in _BINDING.findall(text)}
    return [found[at] for at in sorted(found)]


def _params(text: str, file: str, uniforms: bytes) -> list[tuple[str, str]]:
    found = []
    for at, (name, kind) in enumerate(fields(text, file).items()):
        (value,) = struct.unpack_from({"u32": "<I", "i32": "<i", "f32": "<f"}[kind], uniforms, 4 * at)
        found.append((name, literals.number(np.float32(value)) if kind == "f32" else str(value)))
    return found


def _shaders(plans: Sequence[Mapping[str, Any]], names: Mapping[tuple[str, str], str]) -> list[str]:
    sources = {shader: text for plan in plans for shader, (text, _) in plan["sources"].items()}
    lines = []
    for (shader, prelude), name in names.items():
        text = (prelude + sources[shader]).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
        lines += [f'SHADERS["{name}"] = """\\', text.rstrip("\n"), '"""', ""]
    return lines
