"""On what a contender computes: told by its runtime, by Vulkan's loader, by what there is, or known to be unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from attncheck.backends.base import Hello, Launch
from attncheck.backends.placed import Place, Placed
from attncheck.backends.wgsl import Wgsl
from attncheck.bench import adapter as adapters
from attncheck.bench.adapter import Adapter, adapter, told
from tests import swiftshader

WEBGPU = {"provider": "WebGpuExecutionProvider"}
GPU, OTHER = {"adapter": "Some GPU", "software": False}, {"adapter": "Other GPU", "software": False}
LLVMPIPE = {"adapter": "llvmpipe", "software": True}


@pytest.mark.parametrize(("device", "found"), [
    (GPU, Adapter("hardware", "Some GPU")),
    (LLVMPIPE, Adapter("software", "llvmpipe")),
    ({"software": None}, Adapter("unknown")),
    (WEBGPU, Adapter("unknown")),
    ({"provider": "DmlExecutionProvider"}, Adapter("unknown")),
    ({"provider": "CUDAExecutionProvider", "providers": []}, Adapter("hardware")),
    ({"provider": "kernel.py", "function": "attention"}, Adapter("unknown")),
    ({"provider": "CPUExecutionProvider"}, Adapter("processor")),
    ({"device": "cpu", "provider": "cpu"}, Adapter("processor")),
    ({"device": "cuda:0", "provider": "NVIDIA H200"}, Adapter("hardware", "NVIDIA H200")),
    ({"device": "mps", "provider": "mps"}, Adapter("hardware")),
])  # fmt: skip
def test_a_hello_says_on_what_its_worker_computes(device: Mapping[str, Any], found: Adapter) -> None:
    assert adapter(Hello({}, device)) == found


@pytest.mark.parametrize(("first", "second", "same"), [
    (Adapter("hardware", "NVIDIA H200"), Adapter("hardware", "NVIDIA H200"), True),
    (Adapter("hardware", "NVIDIA H200"), Adapter("hardware", "NVIDIA L4"), False),
    (Adapter("hardware", "AMD Radeon RX 7900 XTX (RADV NAVI31)"), Adapter("hardware", "AMD Radeon RX 7900 XTX"), True),
    (Adapter("hardware", "NVIDIA H200"), Adapter("hardware"), True),
    (Adapter("hardware", "NVIDIA H200"), Adapter("unknown"), True),
    (Adapter("hardware", "NVIDIA H200"), Adapter("unknown", "A third"), False),
    (Adapter("software", "llvmpipe (LLVM 15)"), Adapter("software", "SwiftShader (Subzero)"), False),
    (Adapter("software", "llvmpipe (LLVM 15)"), Adapter("software", "llvmpipe (LLVM 19)"), False),
    (Adapter("software", "llvmpipe"), Adapter("hardware"), False),
    (Adapter("software", "llvmpipe"), Adapter("processor"), False),
    (Adapter("unknown"), Adapter("processor"), False),
    (Adapter("processor"), Adapter("processor"), True),
])  # fmt: skip
def test_an_adapter_is_known_by_its_name(first: Adapter, second: Adapter, same: bool) -> None:
    assert first.same(second) is same
    assert second.same(first) is same


@pytest.mark.parametrize(("opened", "offered", "found"), [
    ("llvmpipe", [GPU, LLVMPIPE], {"adapter": "llvmpipe", "software": True}),
    ("Some GPU", [GPU, LLVMPIPE], {"adapter": "Some GPU", "software": False}),
    ("", [LLVMPIPE], {"adapter": "llvmpipe", "software": True}),
    ("", [GPU, GPU], {"adapter": "Some GPU", "software": False}),
    ("", [GPU, OTHER], {"software": False}),
    ("", [GPU, LLVMPIPE], {"software": None}),
    ("", [], {"software": None}),
    ("A third", [GPU, LLVMPIPE], {"adapter": "A third", "software": None}),
])  # fmt: skip
def test_what_is_software_for_sure_and_what_cannot_be_known(
    opened: str, offered: list[Mapping[str, Any]], found: Mapping[str, Any]
) -> None:
    assert adapters._found(opened, offered) == found


def test_a_worker_that_says_itself_what_it_computes_on_is_believed() -> None:
    for device in (GPU, {"provider": "CPUExecutionProvider"}):
        assert told(Hello({}, device), Launch("nothing that could be started")).device == device


def test_the_loader_says_which_device_a_worker_opens() -> None:
    """Of a backend that says itself which: the two agree."""
    place = Place(environment=swiftshader.environment())
    launch = Placed(Wgsl(), "it", place).launch()
    (offered,) = adapters._offered(launch)
    assert offered["software"] is True
    assert adapters._opened(launch) == offered["adapter"]
