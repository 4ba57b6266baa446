"""Backends by name: the one place that knows which there are, and what a name may look like."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.version import InvalidVersion, Version

from attncheck.backends import callable as functions
from attncheck.backends.base import Backend
from attncheck.backends.environments import project
from attncheck.backends.onnx_ref import OnnxRef
from attncheck.backends.ort import Ort
from attncheck.backends.ort_cpu import OrtCpu
from attncheck.backends.ort_webgpu import OrtWebgpu
from attncheck.backends.placed import Place, Placed
from attncheck.backends.tables import PLACE_KEYS, Table
from attncheck.backends.torch_sdpa import TorchSdpa
from attncheck.backends.wgsl import Wgsl
from attncheck.backends.wgsl_dawn import WgslDawn
from attncheck.kernels.policy import Policy


class UnknownBackend(Exception):
    """No backend has this name, or a table asks of one what it does not take. The message says what there is."""


@dataclass(frozen=True)
class Settings:
    """What the user may say about backends.

    policy    which kernel of our own runs; forced: it overrules what a scenario says
    adapters  GPU adapters by name or a part of it, one lane each; none takes the first, hardware before software
    shaders   a folder of edited shaders instead of the shipped one
    tables    backends of the configuration file, by name
    """

    policy: Policy = field(default_factory=Policy)
    forced: bool = False
    adapters: tuple[str, ...] = ()
    shaders: Path | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """One sort of backend.

    about    what it is, for people
    needs    what must be there for it
    make     from its name's own part, its table, and an adapter, the backend
    package  what NAME@VERSION installs, None where that has no meaning
    keys     keys of a table that it takes beside the place of its worker
    gpu      whether each adapter is a lane of its own
    """

    about: str
    needs: str
    make: Callable[[str, Table, str | None, Settings], Backend]
    package: str | None = None
    keys: tuple[str, ...] = ()
    gpu: bool = False


def _wgsl(_: str, __: Table, adapter: str | None, settings: Settings) -> Backend:
    return Wgsl(settings.policy, adapter, settings.shaders, forced=settings.forced)


def _wgsl_dawn(_: str, table: Table, adapter: str | None, settings: Settings) -> Backend:
    robust = table.robustness is not False
    return WgslDawn(settings.policy, adapter, settings.shaders, forced=settings.forced, robust=robust)


KINDS: Mapping[str, Kind] = {
    "ort-cpu": Kind(
        "ONNX Runtime's CPU provider, the reference",
        "the package onnxruntime, which comes with attncheck",
        lambda _, table, __, ___: OrtCpu(table.provider_options),
        "onnxruntime",
        ("provider-options",),
    ),
    "wgsl": Kind(
        "own shaders, compiled by naga in wgpu",
        "a Vulkan, Metal or D3D12 adapter, of hardware or of software",
        _wgsl,
        "wgpu",
        ("adapter",),
        gpu=True,
    ),
    "wgsl-dawn": Kind(
        "own shaders, compiled by Tint in Dawn",
        "the package wgpudawn (pip install 'attncheck[dawn]'), and an adapter that Dawn takes",
        _wgsl_dawn,
        "wgpudawn",
        ("adapter", "robustness"),
        gpu=True,
    ),
    "ort-webgpu": Kind(
        "ONNX Runtime's WebGPU provider, built in or as a plugin",
        "the package onnxruntime-webgpu, in an environment of its own (ort-webgpu@1.27.0), or the plugin package "
        "onnxruntime-ep-webgpu beside onnxruntime; and an adapter that Dawn takes",
        lambda _, table, __, ___: OrtWebgpu(table.plugin, table.provider_options),
        "onnxruntime-webgpu",
        ("plugin", "provider-options"),
    ),
    "onnx-ref": Kind(
        "ONNX's reference evaluator, for ai.onnx operators",
        "the package onnx, which comes with attncheck",
        lambda *_: OnnxRef(),
        "onnx",
    ),
    "torch": Kind(
        "PyTorch's scaled_dot_product_attention",
        "the package torch (pip install 'attncheck[torch]'), or an interpreter or environment that has it",
        lambda _, table, *__: TorchSdpa(table.device),
        "torch",
        ("device",),
    ),
}
PROVIDER = Kind(
    "any other provider of ONNX Runtime, by its name",
    "an onnxruntime that has it, named by requirements or by an interpreter",
    lambda name, table, __, ___: Ort(name, _provider(name), table.plugin, table.provider_options),
    keys=("plugin", "provider-options"),
)
FUNCTION = Kind(
    "a function of your own",
    "a file with that function",
    lambda name, table, _, __: functions.Callable(*_function(name), table.compute or "native"),
    keys=("compute",),
)

NAMES = tuple(KINDS)
FORMS: Mapping[str, Kind] = {"ort:PROVIDER": PROVIDER, "file.py:name": FUNCTION}
"""What a name may look like beside these."""

_PROVIDER = re.compile(r"ort:(\w+)")
_FUNCTION = re.compile(r"(.+\.py):(\w+)")


def create(name: str, settings: Settings) -> tuple[Backend, ...]:
    """The backend called `name`; several, one an adapter, where several adapters are asked for. Raises UnknownBackend.

    A name is one of `NAMES`, a table's, ``ort:PROVIDER``, ``file.py:name``; the first two also as ``NAME@VERSION``.
    """
    plain, at, version = _parts(name)
    table = settings.tables.get(plain, Table(plain))
    kind = _kind(table.use, name, settings)
    _check_keys(kind, table, plain)
    if at:
        table = replace(table, requirements=_pinned(kind, name, version, table.requirements))
    adapters = _adapters(kind, table, settings)
    return tuple(_one(kind, name, table, adapter, settings, many=len(adapters) > 1) for adapter in adapters)


def table_of(name: str, settings: Settings) -> Table | None:
    """The table that the backend `name` is told by, None where there is none."""
    plain, _, _ = _parts(name)
    return settings.tables.get(plain)


def use_of(name: str, settings: Settings) -> str:
    """The backend that `name` configures or pins: what its table uses, or else its own name without a version."""
    plain, _, _ = _parts(name)
    return settings.tables.get(plain, Table(plain)).use


def kind_of(name: str, settings: Settings) -> Kind:
    """The sort of backend that `name` is. Raises UnknownBackend."""
    return _kind(use_of(name, settings), name, settings)


def file_of(name: str, tables: Mapping[str, Table]) -> Path | None:
    """The file that holds the function which the backend `name` is; None where it is none."""
    plain, _, _ = _parts(name)
    use = tables.get(plain, Table(plain)).use
    return _function(use)[0] if _FUNCTION.fullmatch(use) is not None else None


def _parts(name: str) -> tuple[str, str, str]:
    """NAME, "@", VERSION. A file's path may hold an @ of its own."""
    return name.partition("@") if _FUNCTION.fullmatch(name) is None else (name, "", "")


def _one(kind: Kind, name: str, table: Table, adapter: str | None, settings: Settings, *, many: bool) -> Backend:
    made = kind.make(table.use, table, adapter, settings)
    shown = made.name if kind is FUNCTION and name not in settings.tables else name
    if many:
        shown = f"{shown}[{adapter}]"
    return made if shown == made.name and table.place == Place() else Placed(made, shown, table.place)


def _kind(use: str, name: str, settings: Settings) -> Kind:
    if use in KINDS:
        return KINDS[use]
    if _PROVIDER.fullmatch(use):
        return PROVIDER
    if _FUNCTION.fullmatch(use):
        return FUNCTION
    known = [*NAMES, *(table for table in settings.tables if table not in KINDS)]
    near = difflib.get_close_matches(use, known, n=1)
    hint = f", did you mean {near[0]!r}?" if near else "."
    asked = f"there is no backend {use!r}" if use == name else f"backend {name!r}: there is no backend {use!r}"
    raise UnknownBackend(f"{asked}{hint} There are: {', '.join([*known, *FORMS])}")


def _check_keys(kind: Kind, table: Table, of: str) -> None:
    blank = Table(table.use)
    said = [name for name, value in vars(table).items() if value != getattr(blank, name)]
    for key in (name.replace("_", "-") for name in said):
        if key not in (*PLACE_KEYS, *kind.keys):
            takes = ", ".join([*PLACE_KEYS, *kind.keys])
            raise UnknownBackend(f"[backends.{of}]: {table.use} takes no {key}; it takes {takes}")


def _pinned(kind: Kind, name: str, version: str, requirements: tuple[str, ...]) -> tuple[str, ...]:
    if kind.package is None:
        raise UnknownBackend(
            f"{name!r}: no one package gives this backend its version; name the requirements in a table, "
            '[backends.NAME] requirements = ["package==version"]'
        )
    try:
        Version(version)
    except InvalidVersion:
        raise UnknownBackend(f"{name!r}: {version!r} is not a version; write NAME@1.23.2") from None
    others = tuple(it for it in requirements if project(it) != kind.package)
    return (f"{kind.package}=={version}", *others)


def _adapters(kind: Kind, table: Table, settings: Settings) -> tuple[str | None, ...]:
    if not kind.gpu:
        return (None,)
    return (table.adapter,) if table.adapter is not None else settings.adapters or (None,)


def _provider(use: str) -> str:
    """ort:CUDA and ort:CUDAExecutionProvider are the same."""
    short = use.removeprefix("ort:")
    return short if short.endswith("ExecutionProvider") else f"{short}ExecutionProvider"


def _function(use: str) -> tuple[Path, str]:
    found = _FUNCTION.fullmatch(use)
    assert found is not None, "a function's name was matched before"
    return Path(found[1]).expanduser(), found[2]
