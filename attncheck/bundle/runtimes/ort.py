"""ONNX Runtime in a script: any provider, built in or from a plugin, with its profiler as the proof of what ran."""

from __future__ import annotations

import json

from attncheck.bundle.runtimes import model_text
from attncheck.bundle.runtimes.packages import needed
from attncheck.bundle.runtimes.several import written
from attncheck.bundle.subject import Piece, Subject

CPU = "CPUExecutionProvider"

_SESSION = '''\
def session(folder{, at}):
    """A session on PROVIDER{alone}, whose profiler writes into a folder."""
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = os.path.join(folder, "run")
{body}
'''

_BUILT_IN = '''\
    if PROVIDER not in ort.get_available_providers():
        raise CannotRun(f"this build of ONNX Runtime has {ort.get_available_providers()}, and no {PROVIDER}")
'''

_NO_FALLBACK = '''\
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
'''

_OPEN_CPU = '''\
    return ort.InferenceSession(model({at}), options, providers=[(PROVIDER, PROVIDER_OPTIONS)])
'''

_OPEN = '''\
    try:
        return ort.InferenceSession(model({at}), options, providers=[(PROVIDER, PROVIDER_OPTIONS)], enable_fallback=0)
    except RuntimeError as error:  # the provider itself does not start; ONNX Runtime's Python layer would take the CPU
        raise WrongProvider(f"ONNX Runtime would run this on CPU: {error}") from error
'''

_OPEN_PLUGIN = '''\
    ort.register_execution_provider_library("plugin", PLUGIN.get_library_path())
    devices = [device for device in ort.get_ep_devices() if device.ep_name == PROVIDER]
    if not devices:
        raise CannotRun(f"the plugin finds no device for {PROVIDER} here")
    options.add_provider_for_devices(devices[:1], PROVIDER_OPTIONS)
    return ort.InferenceSession(model({at}), options)
'''

_RUN = '''\
def run(inputs{, at}):
    """Outputs by name, once the profiler has said that PROVIDER computed them."""
    with tempfile.TemporaryDirectory() as folder:
        opened = session(folder{, at})
        names = [output.name for output in opened.get_outputs()]
        values = computed(opened, names, inputs)
        events = json.loads(pathlib.Path(opened.end_profiling()).read_text(encoding="utf-8"))
    nodes = [event["args"] for event in events if event.get("cat") == "Node" and "provider" in event.get("args", {})]
    ran = sorted({(node["provider"], node["op_name"]) for node in nodes})
    print(f"ONNX Runtime {ort.__version__}; the profiler says that ran: {ran}")
    if {provider for provider, _ in ran} != {PROVIDER}:
        raise WrongProvider(f"asked for {PROVIDER}, and {ran or 'nothing'} ran")
    return dict(zip(names, values))
'''

_PLAIN = '''\
def computed(opened, names, inputs):
    """One run."""
    return opened.run(names, inputs)
'''

_SHARED = '''\
def computed(opened, names, inputs):
    """One run, in which outputs that SHARED names lie where an input does."""
    binding = opened.io_binding()
    memory = {name: ort.OrtValue.ortvalue_from_numpy(np.array(array)) for name, array in inputs.items()}
    for name, value in memory.items():
        binding.bind_ortvalue_input(name, value)
    for name in names:
        if name in SHARED:
            binding.bind_ortvalue_output(name, memory[SHARED[name]])
        else:
            binding.bind_output(name)
    opened.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()
'''


def piece(subject: Subject) -> Piece:
    """ONNX Runtime on the provider that failed."""
    options, shared = subject.launch.options, subject.payload.get("shared") or {}
    provider, plugin = options["provider"], options.get("plugin") if subject.hello.device.get("plugin") else None
    constants = [f"PROVIDER = {json.dumps(provider)}", f"PROVIDER_OPTIONS = {options.get('provider_options') or {}!r}"]
    constants += [f"SHARED = {shared!r}"] if shared else []
    imports = ["import json", "import os", "import tempfile", "", "import numpy as np", "import onnxruntime as ort"]
    imports += [f"import {plugin} as PLUGIN"] if plugin else []
    session = _SESSION.replace("{body}\n", _opening(provider, plugin))
    session = session.replace("{alone}", "" if provider == CPU else ", which may not leave anything to the CPU")
    functions = [model_text.functions(subject), session, _SHARED if shared else _PLAIN, _RUN]
    return Piece(
        needed(subject, "onnxruntime", "onnx", *([_package(subject, plugin)] if plugin else [])),
        "\n".join(imports),
        written("\n\n".join(functions), subject),
        "\n".join(constants),
    )


def _opening(provider: str, plugin: str | None) -> str:
    if provider == CPU:
        return _OPEN_CPU
    return _NO_FALLBACK + _OPEN_PLUGIN if plugin else _BUILT_IN + _NO_FALLBACK + _OPEN


def _package(subject: Subject, plugin: str) -> str:
    """The package of a plugin, in the version that the worker told."""
    version = subject.hello.versions.get(plugin)
    return f"{plugin.replace('_', '-')}=={version}" if version else plugin.replace("_", "-")
