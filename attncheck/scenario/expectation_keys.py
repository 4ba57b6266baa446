"""The keys of an expectations file: the one definition of each. Reading, JSON Schema and docs are derived from it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from attncheck.scenario.diagnostics import listed, nearest, shown
from attncheck.scenario.expectation import CAN_BE_EXPECTED, Band
from attncheck.scenario.nodes import Node
from attncheck.vocabulary import Verdict

VERDICTS = tuple(str(verdict) for verdict in CAN_BE_EXPECTED)

Complain = Callable[[Node, str, str], None]
"""Takes a mistake: its node, the message, the hint."""


@dataclass(frozen=True)
class ExpectationKey:
    """A key of one expectation.

    allowed    what may stand there, as messages and docs say it
    schema     the same as JSON Schema
    read       the node as a value, or None once every mistake in it has been complained of
    required   whether every expectation must have it
    """

    name: str
    allowed: str
    meaning: str
    schema: Mapping[str, Any]
    read: Callable[[Node, Complain], object | None]
    required: bool = False


def _must_be(name: str, node: Node, complain: Complain, hint: str = "") -> None:
    allowed = KEYS[name].allowed
    if node.value is None:
        complain(node, f"`{name}` has no value: it must be {allowed}", hint or "give it one, or remove the key")
    else:
        complain(node, f"`{name}` must be {allowed}, not {node.described()}", hint)


def _text(name: str) -> Callable[[Node, Complain], str | None]:
    def read(node: Node, complain: Complain) -> str | None:
        if isinstance(node.value, str) and node.value.strip():
            return " ".join(node.value.split())
        number = isinstance(node.value, (bool, int, float))
        _must_be(name, node, complain, f'quote it: "{shown(node.text)}"' if number else "")
        return None

    return read


def _cases(node: Node, complain: Complain) -> tuple[str, ...] | None:
    patterns = node.items() or (node,)
    good = [it.value for it in patterns if isinstance(it.value, str) and it.value.strip()]
    if len(good) == len(patterns):
        return tuple(good)
    for it in patterns:
        if not (isinstance(it.value, str) and it.value.strip()):
            _must_be("case", it, complain, "`*` stands for any text, `?` for any character")
    return None


def _verdict(node: Node, complain: Complain) -> Verdict | None:
    if isinstance(node.value, str) and node.value in VERDICTS:
        return Verdict(node.value)
    hints = {
        "pass": "what passes needs no entry",
        "unsupported": "a backend declares that itself, and it never fails a run",
        "quarantined": "name the verdict that it would have; crash, timeout, out-of-memory and device-lost quarantine",
    }
    _must_be("verdict", node, complain, hints.get(node.text) or nearest(node.text, VERDICTS))
    return None


def _link(node: Node, complain: Complain) -> str | None:
    if isinstance(node.value, str) and re.fullmatch(r"https?://[^\s/]\S*", node.value):
        return node.value
    _must_be("link", node, complain, "no issue yet? file one: an expectation that nobody tracks stays for ever")
    return None


def _versions(node: Node, complain: Complain) -> dict[str, SpecifierSet] | None:
    if not node.entries():
        _must_be("versions", node, complain)
        return None
    found: dict[str, SpecifierSet] = {}
    for entry in node.entries():
        ranges = _range(entry.key.text, entry.value, complain)
        if ranges is not None:
            found[canonicalize_name(entry.key.text)] = ranges
    return found if len(found) == len(node.entries()) else None


def _range(package: str, node: Node, complain: Complain) -> SpecifierSet | None:
    if isinstance(node.value, str) and node.value.strip():
        try:
            return SpecifierSet(node.value)
        except InvalidSpecifier:
            pass
    hint = f'write "=={shown(node.text)}" for exactly this version' if re.fullmatch(r"\d[\w.]*", node.text) else ""
    message = f"the versions of `{shown(package)}` must be a range like `>=1.32,<1.33` or `==0.4.*`"
    complain(node, f"{message}, not {node.described()}", hint or "commas join conditions that must all hold; quote it")
    return None


_BAND = ("from", "to")


def _band(node: Node, complain: Complain) -> Band | None:
    if not node.entries():
        number = isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
        _must_be("max_abs", node, complain, f"write {{from: 0, to: {shown(node.text)}}}" if number else "")
        return None
    ends: dict[str, float] = {"from": 0.0}
    good = True
    for entry in node.entries():
        name, value = entry.key.text, entry.value.value
        if name not in _BAND:
            near = nearest(name, _BAND) or f"allowed: {', '.join(_BAND)}"
            complain(entry.key, f"unknown key `{shown(name)}` in `max_abs`", near)
            good = False
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            complain(entry.value, f"`{name}` must be a number from 0 up, not {entry.value.described()}", "")
            good = False
        else:
            ends[name] = float(value)
    if good and "to" not in ends:
        complain(node, "`max_abs` without `to`", "`to` is the largest error that is still the known fault")
        good = False
    if not good:
        return None
    if ends["from"] > ends["to"] or ends["to"] == 0:
        complain(node, f"`max_abs` from {ends['from']:g} to {ends['to']:g} holds no error", "`from` is the smaller end")
        return None
    return Band(ends["from"], ends["to"])


_SOME_TEXT = {"type": "string", "pattern": r"\S"}
_END = {"type": "number", "minimum": 0}

KEYS: dict[str, ExpectationKey] = {
    key.name: key
    for key in (
        ExpectationKey(
            "case",
            "a pattern of case ids, like `window.yaml::edges*`, or a list of them",
            "the cases that are meant, as `attncheck run` takes them: `*` is any text, `?` any character",
            {"anyOf": [_SOME_TEXT, {"type": "array", "items": _SOME_TEXT, "minItems": 1}]},
            _cases,
            required=True,
        ),
        ExpectationKey(
            "backend",
            "a pattern of backend names, like `ort-webgpu*`",
            "the backends that are meant, the reference too where it fits",
            _SOME_TEXT,
            _text("backend"),
            required=True,
        ),
        ExpectationKey(
            "versions",
            'a mapping of packages to version ranges, like {onnxruntime: ">=1.32,<1.33"}',
            "only where the backend runs on these versions, as `attncheck run -v` shows them",
            {"type": "object", "minProperties": 1, "additionalProperties": _SOME_TEXT},
            _versions,
        ),
        ExpectationKey(
            "adapter",
            "a pattern of adapter names, like `NVIDIA*`",
            "only on these GPU adapters; a backend that names none is not meant",
            _SOME_TEXT,
            _text("adapter"),
        ),
        ExpectationKey(
            "verdict",
            listed(VERDICTS),
            "what is seen instead of a pass",
            {"enum": list(VERDICTS)},
            _verdict,
            required=True,
        ),
        ExpectationKey(
            "max_abs",
            "{from: NUMBER, to: NUMBER}",
            "the band of the largest absolute error, both ends included; with `mismatch`, where it must be given",
            {
                "type": "object",
                "properties": {"from": {**_END, "default": 0}, "to": {"type": "number", "exclusiveMinimum": 0}},
                "required": ["to"],
                "additionalProperties": False,
            },
            _band,
        ),
        ExpectationKey(
            "says",
            "a text",
            "words that the diagnosis or the message must hold, such as `softcap ignored` or `SIGSEGV`",
            _SOME_TEXT,
            _text("says"),
        ),
        ExpectationKey(
            "reason", "a text", "why it fails, and why that is left so", _SOME_TEXT, _text("reason"), required=True
        ),
        ExpectationKey(
            "link",
            "an address that begins with `https://` or `http://`",
            "where the fault is tracked",
            {"type": "string", "pattern": r"^https?://[^\s/]\S*$"},
            _link,
            required=True,
        ),
    )
}
