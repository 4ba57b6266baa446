"""ONNX Runtime as a worker's runtime: one session a prepared model, with its profiler as evidence of what ran.

Any execution provider is served: built into the package, or from a plugin package that is registered first. Falling
back to the CPU provider is switched off for every other one, in ONNX Runtime and in its Python layer, and told as what
it is.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import tempfile
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import onnxruntime as ort
import ort_timing
from failure import Failure

CPU = "CPUExecutionProvider"
REGISTRATION = "attncheck"
DEVICES = {"WebGpuExecutionProvider": "webgpu", "CUDAExecutionProvider": "cuda", "DmlExecutionProvider": "dml"}
"""What ONNX Runtime calls the device of a provider where something is bound there."""

EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
"""ONNX Runtime's key for where the external data of a model lies that comes as bytes."""


def start(options: Dict[str, Any]) -> Runtime:
    """Start on one execution provider.

    options: "provider", its name; "plugin", the Python module of a plugin package that brings it when the build has it
    not, or None; "provider_options", strings by name; "probes", models of float16 inputs, by name, each tried once.
    Raises Failure("error") when there is no such provider.
    """
    runtime = Runtime(options["provider"], options.get("plugin"), options.get("provider_options") or {})
    for name, model in (options.get("probes") or {}).items():
        runtime.probe(name, model)
    return runtime


class Prepared:
    """A session, and the evidence of its first run once there was one."""

    def __init__(self, session: ort.InferenceSession, payload: Dict[str, Any]) -> None:
        self.session = session
        self.payload = payload
        self.shared: Dict[str, str] = payload.get("shared") or {}
        self.resident: Optional[ort_timing.Resident] = None
        self.evidence: Dict[str, Any] = {}


class Runtime:
    """Runs ONNX models on one execution provider."""

    def __init__(self, provider: str, plugin: Optional[str], provider_options: Dict[str, str]) -> None:
        self.provider = provider
        self.provider_options = provider_options
        self.devices: List[Any] = []
        # A GPU provider gives its device up with its last session, and the next one would open it anew: hold the first.
        self.held: Optional[ort.InferenceSession] = None
        versions = {"onnxruntime": ort.__version__, "numpy": np.__version__}
        if provider not in ort.get_available_providers():
            self.devices = _plugin_devices(provider, plugin)
            versions[str(plugin)] = importlib.metadata.version(str(plugin))
        self.profiles = tempfile.TemporaryDirectory(prefix="attncheck-")
        self.hello: Dict[str, Any] = {
            "versions": versions,
            "device": {"provider": provider, "providers": ort.get_available_providers(), "plugin": bool(self.devices)},
        }

    def prepare(self, payload: Dict[str, Any]) -> Prepared:
        """Open a session on payload["model"], bytes; payload["shared"]: outputs that lie where an input does.

        payload["folder"]: where its external data lies; payload["as_written"]: true to run its nodes as they are,
        without ONNX Runtime's own changes to the graph.

        Raises Failure: "error" when ONNX Runtime refuses the model, "fallback" when its Python layer would go on
        without the provider.
        """
        try:
            session = self._session(payload)
        except RuntimeError as error:
            # ONNX Runtime's own errors are no RuntimeErrors: this is the provider failing to start, which the Python
            # layer answers by a banner on stdout and a session on CPU, unless it is told not to.
            if self.provider == CPU:
                raise Failure("error", _sentence(error)) from error
            raise Failure("fallback", "ONNX Runtime would run this on CPU: " + _sentence(error)) from error
        except Exception as error:  # ONNX Runtime's exceptions share no base class of their own
            raise Failure("error", _sentence(error), _refuses(error)) from error
        if self.provider != CPU and self.held is None:
            self.held = session
        return Prepared(session, payload)

    def run(self, prepared: Prepared, inputs: Dict[str, np.ndarray]) -> Tuple[Dict[str, np.ndarray], Dict[str, Any]]:
        """One run: outputs by the graph's names, and the evidence of the session's first run."""
        names = [output.name for output in prepared.session.get_outputs()]
        # The model itself may hold some of the arrays, and then does not take them.
        taken = {given.name for given in prepared.session.get_inputs()}
        try:
            feeds = {name: it for name, it in inputs.items() if name in taken}
            values = _run_shared(prepared, names, feeds) if prepared.shared else prepared.session.run(names, feeds)
        except Exception as error:
            raise Failure("error", _sentence(error), _refuses(error)) from error
        if not prepared.evidence:
            prepared.evidence = _evidence(prepared.session.end_profiling())
        return dict(zip(names, values)), prepared.evidence

    def time(
        self, prepared: Prepared, inputs: Dict[str, np.ndarray], runs: int, wake: float, sets: int
    ) -> Dict[str, Any]:
        """See main.py. Each call has a session of its own, for a profile that holds no other runs."""
        device = DEVICES.get(self.provider, "cpu")

        def open_session(model: bytes, profiled: bool) -> ort.InferenceSession:
            return self._session(dict(prepared.payload, model=model), profiled=profiled, alone=True)

        try:
            if inputs or prepared.resident is None:
                prepared.resident = ort_timing.resident(open_session, prepared.payload, inputs, sets, device)
            return ort_timing.timed(open_session, prepared.payload, prepared.resident, prepared.shared, runs, wake)
        except Failure:
            raise
        except Exception as error:
            raise Failure("error", _sentence(error)) from error

    def probe(self, name: str, model: bytes) -> None:
        """Try a model of float16 inputs, and greet with why it fails: by its name, or as "fallback" when any would."""
        device: Dict[str, Any] = self.hello["device"]
        try:
            prepared = self.prepare({"model": model})
            inputs = prepared.session.get_inputs()
            self.run(prepared, {given.name: np.zeros(given.shape, np.float16) for given in inputs})
        except Failure as failure:
            if failure.verdict == "fallback":
                device["fallback"] = failure.message
            else:
                device.setdefault("refuses", {})[name] = failure.message

    def release(self, prepared: Prepared) -> None:
        """Let the session go, and what `time` has left on the device."""
        del prepared.session
        prepared.resident = None

    def _session(
        self, payload: Dict[str, Any], *, profiled: bool = True, alone: bool = False
    ) -> ort.InferenceSession:
        """`alone`: no other backend runs at the same time."""
        model = payload["model"]
        options = ort.SessionOptions()
        if payload.get("as_written"):
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        if payload.get("folder"):
            options.add_session_config_entry(EXTERNAL_FOLDER, payload["folder"])
        options.enable_profiling = profiled
        options.profile_file_prefix = os.path.join(self.profiles.name, "run")
        if not alone:
            # Spinning threads would take a core from the other backends, which run at the same time.
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        if self.provider != CPU:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        if self.devices:
            options.add_provider_for_devices(self.devices, self.provider_options)
            return ort.InferenceSession(model, options)
        providers = [(self.provider, self.provider_options)]
        return ort.InferenceSession(model, options, providers=providers, enable_fallback=0)


def _run_shared(prepared: Prepared, names: List[str], feeds: Dict[str, np.ndarray]) -> List[np.ndarray]:
    """One run in which outputs are written into the memory of inputs, whose own arrays stay as they are."""
    binding = prepared.session.io_binding()
    values = {name: ort.OrtValue.ortvalue_from_numpy(np.array(array)) for name, array in feeds.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    for name in names:
        if name in prepared.shared:
            binding.bind_ortvalue_output(name, values[prepared.shared[name]])
        else:
            binding.bind_output(name)
    prepared.session.run_with_iobinding(binding)
    outputs: List[np.ndarray] = binding.copy_outputs_to_cpu()
    return outputs


def _plugin_devices(provider: str, plugin: Optional[str]) -> List[Any]:
    """Register the plugin package's library and take the first device that it offers."""
    there = "this build of ONNX Runtime %s has no %s; it has %s" % (
        ort.__version__,
        provider,
        ", ".join(ort.get_available_providers()),
    )
    if plugin is None:
        raise Failure("error", there)
    try:
        module = importlib.import_module(plugin)
    except ImportError as error:
        package = plugin.replace("_", "-")
        raise Failure("error", "%s, and the plugin package %s is not installed" % (there, package)) from error
    try:
        ort.register_execution_provider_library(REGISTRATION, module.get_library_path())
    except Exception as error:
        raise Failure("error", "the plugin %s could not be loaded: %s" % (plugin, _sentence(error))) from error
    devices = [device for device in ort.get_ep_devices() if device.ep_name == provider]
    if not devices:
        raise Failure("error", "the plugin %s finds no device for %s here" % (plugin, provider))
    return devices[:1]


def _evidence(profile: str) -> Dict[str, Any]:
    """Which providers and kernels the profiler saw: node events name both, API events the GPU programs below them."""
    with open(profile, encoding="utf-8") as file:
        events = json.load(file)
    os.unlink(profile)
    nodes = [event["args"] for event in events if event.get("cat") == "Node" and "provider" in event.get("args", {})]
    programs = [event["name"].strip("&").replace("&", "/") for event in events if event.get("cat") == "Api"]
    return {
        "provider": "+".join(sorted({args["provider"] for args in nodes})),
        "kernels": sorted({args["op_name"] for args in nodes}) + sorted(set(programs)),
    }


_REFUSALS = ("Fail", "InvalidArgument", "InvalidGraph", "NotImplemented", "RuntimeException")
"""ONNX Runtime's exceptions for a model or arrays that it does not take; others are of files, devices and loading."""
_BOUND = "Error in execution: Non-zero status code returned while running "
_UNRELATED = (
    "allocate",
    "could not find an implementation",
    "ir version",
    "no such file",
    "not a registered function/op",
    "released onnx opset",
    "out of memory",
)
"""What a message of theirs says where the operator was never asked, or there was no room for it; in lower case."""


def _refuses(error: Exception) -> bool:
    """Whether ONNX Runtime looked at the node and its inputs and said no, by the kind of its error and its text."""
    own = type(error).__module__.startswith("onnxruntime") and type(error).__name__ in _REFUSALS
    # A run into memory that is bound has its errors wrapped.
    own = own or (type(error) is RuntimeError and str(error).startswith(_BOUND))
    said = str(error).lower()
    return own and not any(text in said for text in _UNRELATED)


def _sentence(error: Exception) -> str:
    """ONNX Runtime's message on one line, without the C++ function and condition in front of it."""
    return " ".join(str(error).split()).rpartition(" was false. ")[2]
