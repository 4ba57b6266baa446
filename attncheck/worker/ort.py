"""ONNX Runtime as a worker's runtime: one session a prepared model, with its profiler as evidence of what ran."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Dict, Tuple

import numpy as np
import onnxruntime as ort
from failure import Failure


def start(options: Dict[str, Any]) -> "Runtime":
    """options: {"provider": an execution provider's name}."""
    return Runtime(options["provider"])


class Prepared:
    """A session, and the evidence of its first run once there was one."""

    def __init__(self, session: ort.InferenceSession) -> None:
        self.session = session
        self.evidence: Dict[str, Any] = {}


class Runtime:
    """Runs ONNX models on one execution provider."""

    def __init__(self, provider: str) -> None:
        if provider not in ort.get_available_providers():
            raise Failure(
                "error",
                "this build of ONNX Runtime %s has no %s; it has %s"
                % (ort.__version__, provider, ", ".join(ort.get_available_providers())),
            )
        self.provider = provider
        self.profiles = tempfile.TemporaryDirectory(prefix="attncheck-")
        self.hello = {
            "versions": {"onnxruntime": ort.__version__, "numpy": np.__version__},
            "device": {"provider": provider, "providers": ort.get_available_providers()},
        }

    def prepare(self, payload: Dict[str, Any]) -> Prepared:
        """payload: {"model": bytes}. Raises Failure("error") when ONNX Runtime refuses the model."""
        options = ort.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(self.profiles.name, "run")
        # Spinning threads would take a core from the other backends, which run at the same time.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        try:
            return Prepared(ort.InferenceSession(payload["model"], options, providers=[self.provider]))
        except Exception as error:  # ONNX Runtime's exceptions share no base class of their own
            raise Failure("error", _sentence(error)) from error

    def run(self, prepared: Prepared, inputs: Dict[str, np.ndarray]) -> Tuple[Dict[str, np.ndarray], Dict[str, Any]]:
        """One run: outputs by the graph's names, and the evidence of the session's first run."""
        names = [output.name for output in prepared.session.get_outputs()]
        try:
            values = prepared.session.run(names, inputs)
        except Exception as error:  # as above
            raise Failure("error", _sentence(error)) from error
        if not prepared.evidence:
            prepared.evidence = _evidence(prepared.session.end_profiling())
        return dict(zip(names, values)), prepared.evidence

    def release(self, prepared: Prepared) -> None:
        """Let the session go."""
        del prepared.session


def _evidence(profile: str) -> Dict[str, Any]:
    """Which providers and kernels the profiler saw. Every kernel event names both."""
    with open(profile, encoding="utf-8") as file:
        events = json.load(file)
    os.unlink(profile)
    ran = [event["args"] for event in events if event.get("cat") == "Node" and "provider" in event.get("args", {})]
    return {
        "provider": "+".join(sorted({args["provider"] for args in ran})),
        "kernels": sorted({args["op_name"] for args in ran}),
    }


def _sentence(error: Exception) -> str:
    """ONNX Runtime's message without its code prefix and node path."""
    return " ".join(str(error).split())
