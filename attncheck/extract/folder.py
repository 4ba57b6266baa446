"""What is written of an extract: one scenario file, and models of one node with their arrays beside them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attncheck import __version__
from attncheck.extract.run import Extract, Found
from attncheck.extract.single import Single
from attncheck.extract.source import Site
from attncheck.scenario.complete import Value

SCENARIOS = "scenarios.yaml"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_COMMENT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]|[^\x00-\uffff]")


@dataclass(frozen=True)
class Written:
    """An extract with its name and the files that hold it.

    name    as its scenario and its model are called
    files   relative to the folder, the scenario file among them where the language can say the node
    """

    name: str
    extract: Extract
    files: tuple[str, ...]


def names(sites: Sequence[Site]) -> tuple[str, ...]:
    """A name that scenarios and files may have for each node, made of its path, all different."""
    found: list[str] = []
    for it in sites:
        base = _UNSAFE.sub("-", it.path).strip("-._") or it.node.op_type
        name, number = base, 2
        while name.lower() in {other.lower() for other in found}:  # files on some systems know no case
            name, number = f"{base}-{number}", number + 1
        found.append(name)
    return tuple(found)


def content(found: Found, model: Path, tensors: bool) -> tuple[Mapping[str, bytes], tuple[Written, ...]]:
    """Every file by its name in the folder, and what stands where.

    tensors   whether each node is also to be a model of its own with its real arrays; of those called alike that the
              language cannot say, the first always is
    """
    files: dict[str, bytes] = {}
    written = []
    # The first nodes first: their names are those of the scenarios, whatever else is written.
    sites = [it.sites[0] for it in found.extracts] + [site for it in found.extracts for site in it.sites[1:]]
    named = dict(zip((site.path for site in sites), names(sites), strict=True))
    for it in found.extracts:
        mine = [SCENARIOS] if it.axes else []
        models = len(it.sites) if tensors else 0 if it.axes else 1
        for site, single in list(zip(it.sites, it.singles, strict=True))[:models]:
            name = named[site.path]
            files[f"{name}.onnx"] = single.proto.SerializeToString(deterministic=True)
            files[f"{name}.inputs.npz"] = _archive(single)
            mine += [f"{name}.onnx", f"{name}.inputs.npz"]
        written.append(Written(named[it.sites[0].path], it, tuple(mine)))
    said = [it for it in written if it.extract.axes]
    if said:
        files[SCENARIOS] = _scenarios(said, found, model).encode()
    return files, tuple(written)


def _archive(it: Single) -> bytes:
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **dict(it.feeds))
    return file.getvalue()


def _scenarios(written: Iterable[Written], found: Found, model: Path) -> str:
    head = f"# Written by attncheck {__version__} from {_plain(model.name)}, {_plain(found.fed.about)}."
    return "\n".join([head, "scenarios:", *(_scenario(it, model) for it in written), ""])


def _scenario(it: Written, model: Path) -> str:
    sites = it.extract.sites
    lines = [f"  # {_plain(site.path)}" for site in sites]
    lines += [f"  # Note: {_plain(note)}" for note in it.extract.notes]
    others = f", and {len(sites) - 1} more called alike" if len(sites) > 1 else ""
    about = f"the node {sites[0].path} of {model.name}{others}"
    lines += [f"  - name: {_text(it.name)}", f"    about: {_text(about)}"]
    lines += [f"    {axis}: {_spelt(value)}" for axis, value in it.extract.axes.items()]
    return "\n".join(lines)


def _spelt(value: Value) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value).strip('"')


def _text(text: str) -> str:
    """A quoted YAML scalar: JSON's strings are YAML's."""
    return json.dumps(text)


def _plain(text: str) -> str:
    """Text that can stand in a comment: on one line, of characters that YAML takes."""
    return _COMMENT.sub("?", text)
