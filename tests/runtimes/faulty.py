"""A worker runtime that fails on request, for the tests of the engine's worker: the payload says how."""

import os
import subprocess
import sys
import time

from failure import Failure


def start(options):
    if options.get("refuse"):
        raise Failure("error", options["refuse"])
    if options.get("die"):
        print("last words", file=sys.stderr)
        sys.stderr.flush()
        os.abort()
    return Faulty()


class Faulty:
    def __init__(self):
        self.runs = 0
        self.hello = {"versions": {"faulty": "1"}, "device": {}}

    def prepare(self, payload):
        return payload

    def run(self, prepared, inputs):  # noqa: C901  one line a fault
        how = prepared["how"]
        if how == "segfault":
            print("about to fall", file=sys.stderr)
            sys.stderr.flush()
            import ctypes

            ctypes.string_at(0)
        if how == "hang":
            time.sleep(60)
        if how == "signal-35":
            os.kill(os.getpid(), 35)
        if how == "fork":
            os.fork()
        if how == "stray-child":
            subprocess.Popen(["sleep", "30"], start_new_session=True)
        if how == "escapes":
            raise RuntimeError("\x1b[31mred\n" * 100)
        if how == "exit":
            os._exit(7)
        if how == "raise":
            raise RuntimeError("the kernel is on fire")
        if how == "refuse":
            raise ValueError("no such graph here")
        if how == "print":
            print("garbage on stdout")
            os.write(1, b"\x00raw garbage\n")
        if how == "closes-stderr" and not self.runs:
            os.close(2)
        self.runs += 1
        if how == "raise-later" and self.runs > 1:
            raise RuntimeError("not this time")
        if how in ("wobble", "raise-later", "wrong", "shape", "dtype", "missing", "nan", "no-evidence", "elsewhere"):
            return self._spoiled(how, prepared["outputs"])
        return inputs, {"provider": "faulty", "kernels": [how]}

    def _spoiled(self, how, outputs):
        """Outputs of the right form, but for what `how` says."""
        import numpy as np

        fill = {"nan": np.nan, "wobble": 0.25 * self.runs}.get(how, 0.0)
        arrays = {output["name"]: np.full(output["shape"], fill, output["dtype"]) for output in outputs}
        first = next(iter(arrays))
        if how == "shape":
            arrays[first] = arrays[first][..., :-1]
        if how == "dtype":
            arrays[first] = arrays[first].astype("f8")
        if how == "missing":
            del arrays[first]
        provider = "elsewhere" if how == "elsewhere" else "faulty"
        return arrays, {"provider": provider, "kernels": [] if how == "no-evidence" else [how]}

    def release(self, prepared):
        pass
