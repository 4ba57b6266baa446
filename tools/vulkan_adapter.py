"""Print the adapters that attncheck's kernels can run on, one a line; exit 1 and say why where there is none.

Used by tools/setup.sh. OpenGL does not count: WebGPU's compute shaders need more than it promises.
"""

from __future__ import annotations

import os
import sys
import tempfile

USABLE = {"Vulkan", "Metal", "D3D12"}


def usable_adapters() -> list[str]:
    """The names of the usable adapters, as the driver gives them."""
    import wgpu

    adapters = wgpu.gpu.enumerate_adapters_sync()
    return [f"{a.info['device']} ({a.info['backend_type']})" for a in adapters if a.info["backend_type"] in USABLE]


def main() -> int:
    """Enumerate, print, and tell by the exit code whether there was one."""
    with tempfile.TemporaryDirectory() as runtime_dir:
        os.environ.setdefault("XDG_RUNTIME_DIR", runtime_dir)  # some drivers complain aloud without one
        try:
            found = usable_adapters()
        except (ImportError, OSError, RuntimeError) as error:
            print(f"the adapters could not be listed: {error}", file=sys.stderr)
            return 1
    if not found:
        print("no Vulkan, Metal or D3D12 adapter was found", file=sys.stderr)
        return 1
    print("\n".join(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
