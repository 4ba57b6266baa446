"""PyTorch's scaled_dot_product_attention as a worker's runtime.

What a Problem asks beyond it, appending new keys and values behind the past, is done here: that moves numbers and
computes none.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy as np
import roles
from failure import Failure

try:
    import torch
except ImportError as error:
    raise Failure("error", "the package torch is not installed (pip install torch)") from error

CALL = "scaled_dot_product_attention"
KERNELS = {
    "flash": "FLASH_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
}
"""What payload["sdpa"] may ask for -> PyTorch's name of it; "" leaves the choice to PyTorch."""

NOT_TAKEN = ("No available kernel", "No viable backend")
"""What PyTorch says where the one kernel that it may use does not take a call, in older and newer versions."""

UNGROUPED = "efficient"
"""The kernel that takes no more query heads than KV heads."""


class Runtime:
    """Computes Problems on one device."""

    def __init__(self, device: str) -> None:
        try:
            self.device = torch.device(device)
            torch.zeros(1, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise Failure("error", "PyTorch %s has no device %r: %s" % (torch.__version__, device, error)) from error
        accelerated = self.device.type == "cuda"
        self.provider = torch.cuda.get_device_name(self.device) if accelerated else self.device.type
        self.hello = {
            "versions": {"torch": torch.__version__, "numpy": np.__version__},
            "device": {"device": str(self.device), "provider": self.provider},
        }

    def prepare(self, payload: Dict[str, Any]) -> Dict[str, Any]:
        """payload: {"problem": Problem as a dict, "outputs": [{"name", "dtype", "shape"}]}."""
        return payload

    def run(self, prepared: Dict[str, Any], inputs: Dict[str, np.ndarray]) -> Tuple[Dict[str, np.ndarray], Any]:
        """Outputs by the graph's names, and as evidence the device and how the mask was given."""
        problem = prepared["problem"]
        query, key, value, how, options = self._operands(problem, inputs)
        kernel = prepared.get("sdpa", "")
        output = attend(problem, query, *_for(kernel, problem, key, value), options, kernel)
        found = {"output": output, "present_key": key, "present_value": value}
        asked = {role: _array(tensor) for role, tensor in found.items() if problem[role] is not None}
        evidence = {"provider": self.provider, "kernels": ["%s(%s)" % (CALL, how)]}
        return roles.graph_outputs(problem, asked, prepared["outputs"], inputs), evidence

    def time(
        self, prepared: Dict[str, Any], inputs: Dict[str, np.ndarray], runs: int, wake: float, sets: int
    ) -> Dict[str, Any]:
        """See main.py. Past and new rows are put into one buffer before: what is timed is the call alone."""
        import torch_timing  # a bundle's script, which times nothing, has no such file

        problem, kernel = prepared["problem"], prepared.get("sdpa", "")
        if inputs or "resident" not in prepared:
            query, key, value, _, options = self._operands(problem, inputs)
            operands = (query, *_for(kernel, problem, key, value))
            copies = [tuple(each.clone() for each in operands) for _ in range(sets)]
            prepared["resident"] = torch_timing.Resident(copies, options)

        def call(operands: Any, options: Dict[str, Any]) -> torch.Tensor:
            query, key, value = operands
            return attend(problem, query, key, value, options, kernel)

        found: Dict[str, Any] = torch_timing.timed(prepared["resident"], call, runs, wake, self.device)
        repeats = kernel == UNGROUPED and problem["heads"] != problem["kv_heads"]
        return dict(found, note="keys and values were repeated for every query head before" if repeats else "")

    def release(self, prepared: Dict[str, Any]) -> None:
        """Give up what `time` has left on the device."""
        prepared.pop("resident", None)

    def _operands(
        self, problem: Dict[str, Any], inputs: Dict[str, np.ndarray]
    ) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, str, Dict[str, Any]]:
        """Query, all keys and all values, how visibility is said, and the arguments that say it."""
        given = {role: self._tensor(array, problem) for role, array in roles.tensors(problem, inputs).items()}
        key = _present(problem, given["key"], given.get("past_key"))
        value = _present(problem, given["value"], given.get("past_value"))
        how, options = self._visibility(problem, given)
        return given["query"], key, value, how, options

    def _tensor(self, array: np.ndarray, problem: Dict[str, Any]) -> torch.Tensor:
        """A contiguous copy on the device; bfloat16 crosses as its bits in uint16."""
        tensor = torch.from_numpy(np.array(array, order="C", copy=True).view(_bits(array)))
        if problem["dtype"] == "bfloat16" and array.dtype == np.uint16:
            tensor = tensor.view(torch.bfloat16)
        return tensor.to(self.device)

    def _visibility(self, problem: Dict[str, Any], given: Dict[str, torch.Tensor]) -> Tuple[str, Dict[str, Any]]:
        """The argument that says which keys each query sees: none or is_causal where these say it, else a mask."""
        visible = problem["visible"]
        rows = np.arange(problem["rows"])
        if (visible[..., 0] <= 0).all() and not problem["masks"]:
            if (visible[..., 1] >= problem["capacity"]).all():
                return "", {}
            if problem["capacity"] == problem["rows"] and (visible[..., 1] == rows + 1).all():
                return "is_causal", {"is_causal": True}
        slots = np.arange(problem["capacity"])
        seen = torch.from_numpy(((slots >= visible[..., :1]) & (slots < visible[..., 1:]))[:, None]).to(self.device)
        bias = None
        for mask in problem["masks"]:
            array = given[mask["name"]].reshape(tuple(mask["shape"]))
            if mask["kind"] != "additive":
                seen = seen & _to_capacity(array.bool(), mask["slots"], problem["capacity"])
            else:
                added = _to_capacity(array, mask["slots"], problem["capacity"])
                seen = seen & (_slots(problem["capacity"], self.device) < mask["slots"])
                bias = added if bias is None else bias + added
        if bias is None:
            return "attn_mask", {"attn_mask": seen}
        return "attn_mask", {"attn_mask": torch.where(seen, bias, -torch.inf).to(given["query"].dtype)}


def _for(
    kernel: str, problem: Dict[str, Any], key: torch.Tensor, value: torch.Tensor
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Keys and values as the kernel takes them: each repeated for its query heads where it knows no groups."""
    group = problem["heads"] // problem["kv_heads"]
    if kernel != UNGROUPED or group == 1:
        return key, value
    return key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)


def attend(
    problem: Dict[str, Any],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    options: Dict[str, Any],
    kernel: str,
) -> torch.Tensor:
    """The call, by PyTorch's own choice of a kernel or by the one asked for.

    Raises Failure: "unsupported" where that kernel does not take it, "out-of-memory".
    """
    grouped = query.shape[1] != key.shape[1]
    call = torch.nn.functional.scaled_dot_product_attention
    try:
        if not kernel:
            return call(query, key, value, scale=problem["scale"], enable_gqa=grouped, **options)
        chosen = getattr(torch.nn.attention.SDPBackend, KERNELS[kernel])
        with torch.nn.attention.sdpa_kernel(chosen):
            return call(query, key, value, scale=problem["scale"], enable_gqa=grouped, **options)
    except torch.cuda.OutOfMemoryError as error:
        raise Failure("out-of-memory", "the device is out of memory: %s" % error) from error
    except RuntimeError as error:
        if kernel and any(words in str(error) for words in NOT_TAKEN):
            raise Failure("unsupported", "PyTorch's %s kernel does not take it" % kernel) from error
        raise


def start(options: Dict[str, Any]) -> Runtime:
    """options: {"device": a PyTorch device, or None for CUDA where there is one, else the CPU}."""
    device: Optional[str] = options.get("device")
    return Runtime(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def _present(problem: Dict[str, Any], new: torch.Tensor, past: Optional[torch.Tensor]) -> torch.Tensor:
    """Past and new rows in one buffer [batch, kv_heads, capacity, dim]; zeros where neither reaches."""
    batch, heads, _, dim = new.shape
    present = torch.zeros((batch, heads, problem["capacity"], dim), dtype=new.dtype, device=new.device)
    for entry, (kept, added) in enumerate(zip(problem["past_len"], problem["new_len"])):
        if past is not None:
            present[entry, :, :kept] = past[entry, :, :kept]
        present[entry, :, kept : kept + added] = new[entry, :, :added]
    return present


def _to_capacity(mask: torch.Tensor, slots: int, capacity: int) -> torch.Tensor:
    """A mask with a last axis of all slots of present; zeros (false: hidden) behind those that it speaks for."""
    spoken = mask.expand(*mask.shape[:-1], slots)
    return torch.nn.functional.pad(spoken, (0, capacity - slots))


def _slots(capacity: int, device: torch.device) -> torch.Tensor:
    """The slots of present, in order."""
    return torch.arange(capacity, device=device)


def _array(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu().contiguous()
    found: np.ndarray = (tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor).numpy()
    return found.view(np.uint16) if tensor.dtype is torch.bfloat16 else found


def _bits(array: np.ndarray) -> Any:
    """PyTorch takes no uint16 in its older versions."""
    return np.int16 if array.dtype == np.uint16 else array.dtype
