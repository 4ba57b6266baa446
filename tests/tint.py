"""Tint, the compiler of Dawn, on shaders that no adapter here runs: its Null backend has all features, does nothing.

`python -m tests.tint` reads a JSON list of texts, and writes a list of what is wrong with each, "" for nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

FEATURES = ("chromium-experimental-subgroup-matrix", "shader-f16", "subgroups")


def complaints(texts: list[str]) -> list[str]:
    """What Dawn says against the pipeline of each shader within WebGPU's default limits, "" where it says nothing."""
    environment = {**os.environ, "WGPU_BACKEND_TYPE": "Null"}
    command = [sys.executable, "-m", "tests.tint"]
    root = Path(__file__).resolve().parents[1]
    ran = subprocess.run(
        command, input=json.dumps(texts), env=environment, cwd=root, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found: list[str] = json.loads(ran.stdout)
    return found


def main() -> None:
    import wgpudawn
    from wgpudawn.backends.dawn import extras

    extras.set_instance_extras(enable_toggles=["allow_unsafe_apis"])
    device = wgpudawn.gpu.request_adapter_sync().request_device_sync(required_features=FEATURES)
    found = []
    for text in json.load(sys.stdin):
        try:
            module = device.create_shader_module(code=text)
            device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
            found.append("")
        except wgpudawn.GPUError as error:
            found.append(str(error))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
