"""A whole model into its attention nodes: found, run as far as they need, each told as a scenario or a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from attncheck.extract import branches, capture, einsum, inputs, language, masks, pattern
from attncheck.extract.capture import Limits, Runner
from attncheck.extract.pattern import Pattern
from attncheck.extract.single import Single, single
from attncheck.extract.source import Site, Source, is_attention, is_symbolic
from attncheck.graph import feeds, given, model_file, walk
from attncheck.graph.case import digest
from attncheck.graph.external import UnusableModel
from attncheck.scenario.complete import Value

Arrays = Mapping[str, NDArray[np.generic]]
_SHAPE = "attncheck/shape/"
_UNTAKEN = "it stands in the branch of an If that these inputs do not take"


@dataclass(frozen=True)
class Fed:
    """What the model was fed: the arrays, and in words where they are from."""

    arrays: Arrays
    about: str


@dataclass(frozen=True)
class Extract:
    """One distinct node, as it was called.

    sites    the nodes that are called alike: attributes, shapes and dtypes of inputs, outputs, lengths, hidden keys
    singles  each of them as a model of one node
    axes     what the scenario language says of it; empty where it cannot
    reason   why it cannot
    notes    what the scenario has otherwise, or does not keep; what the operator's text forbids here
    """

    sites: tuple[Site, ...]
    singles: tuple[Single, ...]
    axes: Mapping[str, Value]
    reason: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Missed:
    """A node that was found and not extracted, and why."""

    site: Site
    reason: str


@dataclass(frozen=True)
class Spelt:
    """A spelt-out attention, and what `--case` takes for the like of it, or "" and the reason why there is none."""

    pattern: Pattern
    case: str
    reason: str = ""


@dataclass(frozen=True)
class Found:
    """Everything that was found in a model."""

    extracts: tuple[Extract, ...]
    missed: tuple[Missed, ...]
    spelt: tuple[Spelt, ...]
    fed: Fed


Wanted = Callable[[onnx.NodeProto], bool]
Feed = Callable[[onnx.ModelProto, onnx.ModelProto], Fed]
"""The whole model, and the part of it that is to run -> what that is fed."""


def extract(source: Source, pattern_of_names: str, feed: Feed, limits: Limits) -> Found:
    """Find, run, tell. `pattern_of_names` chooses among the paths of nodes, with * and ?.

    Raises UnusableModel where the model cannot be run as far as its attention nodes, BackendUnavailable where ONNX
    Runtime cannot start.
    """
    wanted = {site.path for site in source.sites if fnmatchcase(site.path, pattern_of_names)}
    patterns = pattern.find if pattern_of_names == "*" else _no_patterns

    def is_wanted(node: onnx.NodeProto) -> bool:
        return is_attention(node) and node.name in wanted

    def is_looked_at(node: onnx.NodeProto) -> bool:
        return is_wanted(node) or (pattern_of_names == "*" and node.op_type == "Softmax")

    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    hidden = pattern.inside(proto.graph) if pattern_of_names == "*" else {}
    for path, it in hidden.items():
        it.softmax.name = path  # as sites are, so that it is known again where its branch is taken
    fed = feed(proto, capture.upstream(proto, _needs(proto.graph, is_wanted, is_looked_at, patterns(proto.graph))))
    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    with capture.runner(source, limits) as runner:
        _settle(proto, fed, runner, is_looked_at)
        spelt = patterns(proto.graph)
        reached = {node.name: node for node in proto.graph.node if is_wanted(node)}
        arrays, unreached = _given(source, proto, list(reached.values()), fed, runner)
        told = [*_spelt(source, proto, spelt, fed, runner), *_hidden(hidden, proto)]
        sites = [site for site in source.sites if site.path in wanted]
        why_not = {site.path: _why_missed(site, reached, proto) or unreached.get(site.path, "") for site in sites}
        left = {path for path, why in why_not.items() if why == _UNTAKEN}
        left |= {it.pattern.softmax.name for it in told if it.reason == _UNTAKEN}
        other = _untaken(source, whole, [site for site in sites if site.path in left], left, fed, runner)
    found = [Site(site.path, reached[site.path], site.opset) for site in sites if not why_not[site.path]]
    held = {tensor.name for tensor in proto.graph.initializer}
    extracts, refused = _told(source, proto, found, arrays, held, limits)
    # What follows from the branches that are not taken stands behind the rest.
    more, also_refused = _told(source, whole, other.sites, other.arrays, other.held, limits)
    extracts += [replace(it, notes=(f"{_UNTAKEN}; this is what it would be given", *it.notes)) for it in more]
    gone = {site.path for site in other.sites}
    missed = [Missed(site, why_not[site.path]) for site in sites if why_not[site.path] and site.path not in gone]
    cased = {it.pattern.softmax.name: it for it in other.spelt}
    spelt_out = tuple(cased.get(it.pattern.softmax.name, it) for it in told)
    return Found(tuple(extracts), (*missed, *refused, *also_refused), spelt_out, fed)


@dataclass(frozen=True)
class _Other:
    """What stands in branches that the inputs do not take, as it would be given if they did."""

    sites: tuple[Site, ...] = ()
    spelt: tuple[Spelt, ...] = ()
    arrays: Arrays = field(default_factory=dict)
    held: set[str] = field(default_factory=set)


def _untaken(
    source: Source, whole: onnx.ModelProto, sites: Sequence[Site], left: set[str], fed: Fed, runner: Runner
) -> _Other:
    """The nodes and patterns of `left`, by their names, with each If put in the way of the first of them that it holds.

    `whole` is changed so. Where ONNX Runtime cannot run it so, they stay what they are: left.
    """

    def is_left(node: onnx.NodeProto) -> bool:
        return node.name in left

    while taken := branches.towards(whole.graph, is_left):
        branches.settle(whole.graph, taken, is_left)
    reached = {node.name: node for node in whole.graph.node if is_left(node)}
    there = [site for site in sites if site.path in reached and site.readable]
    arrays: Arrays = {}
    unreached: Mapping[str, str] = {}
    if there:
        try:
            arrays, unreached = _given(source, whole, [reached[site.path] for site in there], fed, runner)
        except UnusableModel:
            there = []
    spelt = _spelt(source, whole, [it for it in pattern.find(whole.graph) if is_left(it.softmax)], fed, runner)
    held = {tensor.name for tensor in whole.graph.initializer}
    found = tuple(Site(it.path, reached[it.path], it.opset) for it in there if it.path not in unreached)
    return _Other(found, spelt, arrays, held)


def _given(
    source: Source, proto: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], fed: Fed, runner: Runner
) -> tuple[Arrays, Mapping[str, str]]:
    """What the nodes are given; and of those that the model cannot be run as far as, by name, why not.

    One run gives it all. Where ONNX Runtime refuses that, as it may refuse an attention node that others stand behind,
    each node is asked for by itself, but none that stands behind one that was not reached.
    Raises UnusableModel where no node is reached.
    """
    wanted = [[name for name in node.input if name] for node in nodes]
    try:
        return runner.values(proto, fed.arrays, [name for names in wanted for name in names]), {}
    except UnusableModel as refused:
        if len(nodes) < 2:
            raise
        last = refused
    arrays: dict[str, NDArray[np.generic]] = {}
    unreached: dict[str, str] = {}
    for node, names in zip(nodes, wanted, strict=True):
        above = {it.name for it in capture.upstream(proto, names).graph.node}
        why = next((why for name, why in unreached.items() if name in above), "")
        try:
            if not why:
                arrays |= runner.values(proto, fed.arrays, names)
        except UnusableModel as refused:
            last, why = refused, _shortened(source, refused)
        if why:
            unreached[node.name] = why
    if len(unreached) == len(nodes):
        raise last
    return arrays, unreached


def _shortened(source: Source, unusable: UnusableModel) -> str:
    """What is wrong, without the model's path before it."""
    return str(unusable).removeprefix(f"{source.path}: ").removeprefix(str(source.path)).strip()


def _no_patterns(_: onnx.GraphProto) -> tuple[Pattern, ...]:
    """Who asks for nodes by name asks for no patterns."""
    return ()


def _needs(
    graph: onnx.GraphProto, is_wanted: Wanted, is_looked_at: Wanted, spelt: Iterable[Pattern]
) -> list[str]:
    """What must be there before the wanted nodes can run, and the branches that hold something to look at."""
    nodes = [node for node in graph.node if any(is_wanted(inner) for inner in walk.below([node]))]
    nodes += branches.around(graph, is_looked_at)
    names = [name for node in nodes for name in walk.read_by(node)]
    made = {name for node in graph.node for name in node.output}
    made |= {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    return [name for name in dict.fromkeys((*names, *pattern.shapes_wanted(spelt))) if name in made]


def _settle(proto: onnx.ModelProto, fed: Fed, runner: Runner, wanted: Wanted) -> None:
    """Replace each If around wanted nodes by the branch that it takes, from the outermost inwards."""
    while around := branches.around(proto.graph, wanted):
        conditions = [node.input[0] for node in around]
        values = runner.values(proto, fed.arrays, conditions)
        branches.settle(proto.graph, {name: bool(values[name].reshape(-1)[0]) for name in conditions}, wanted)


def _why_missed(site: Site, reached: Mapping[str, onnx.NodeProto], proto: onnx.ModelProto) -> str:
    """Why a node is not extracted, or nothing."""
    if site.path in reached:
        return "" if site.readable else "attncheck does not read this operator"
    return _where(site.path, is_attention, proto)


def _hidden(inside: Mapping[str, Pattern], proto: onnx.ModelProto) -> Iterator[Spelt]:
    """The patterns that stood in sub-graphs, and still do or are gone with a branch."""
    reached = {node.name for node in proto.graph.node}
    for path, it in inside.items():
        if path not in reached:
            yield Spelt(it, "", _where(path, lambda node: node.op_type == "Softmax", proto))


def _where(path: str, wanted: Wanted, proto: onnx.ModelProto) -> str:
    """Where a node is that is not in the graph itself."""
    for node in proto.graph.node:
        if any(inner.name == path and wanted(inner) for inner in walk.below([node])):
            return f"it stands inside of {node.op_type} {node.name}, whose tensors cannot be captured"
    return _UNTAKEN


def _told(
    source: Source,
    proto: onnx.ModelProto,
    sites: Sequence[Site],
    arrays: Arrays,
    held: set[str],
    limits: Limits,
) -> tuple[list[Extract], list[Missed]]:
    """Every distinct node; and those whose one-node model attncheck would not run, with what it says of them."""
    alike: dict[str, list[Site]] = {}
    for site in sites:
        alike.setdefault(_call(site, arrays, held), []).append(site)
    extracts, missed = [], []
    for group in alike.values():
        singles = tuple(single(site, proto, arrays, held) for site in group)
        it = singles[0]
        try:
            file = model_file.usable(source.path, it.proto)
            case, problem = given.case(file, group[0].path, it.feeds, "")
        except UnusableModel as unusable:
            missed += [Missed(site, _shortened(source, unusable)) for site in group]
            continue
        told = language.said(case, problem, limits.case, is_symbolic(source.proto))
        forbidden = (f"its operator's text forbids it as it is fed: {problem.invalid}",) if problem.invalid else ()
        extracts.append(Extract(tuple(group), singles, told.axes, told.reason, (*told.notes, *forbidden)))
    return extracts, missed


def _call(site: Site, arrays: Arrays, held: set[str]) -> str:
    """What tells nodes apart: everything but names and the values of floats; of masks, the keys that they hide."""
    node = site.node
    inputs = []
    for name in node.input:
        array = arrays[name] if name else np.zeros(0)
        # A quantised cache holds integers of a byte or less, which are numbers like any others.
        small = array.tobytes().hex() if array.dtype.kind in "iu" and array.itemsize > 1 else ""
        inputs.append(f"{bool(name)} {name in held} {array.dtype} {array.shape} {small}")
    attributes = sorted(it.SerializeToString(deterministic=True).hex() for it in node.attribute)
    told = (site.op, site.opset, attributes, inputs, [bool(name) for name in node.output])
    hidden = masks.over_scores(node, arrays)
    return digest(repr(told).encode() + hidden, {})


def _spelt(
    source: Source, proto: onnx.ModelProto, found: Sequence[Pattern], fed: Fed, runner: Runner
) -> tuple[Spelt, ...]:
    """The patterns with their sizes, of whose keys and values only the shapes leave the process."""
    names = list(dict.fromkeys(pattern.shapes_wanted(found)))
    if not names:
        return ()
    measured = onnx.ModelProto()
    measured.CopyFrom(proto)
    measured.graph.node.extend(helper.make_node("Shape", [name], [_SHAPE + name]) for name in names)
    queries = [it.operands[0] for it in found]
    try:
        values = runner.values(measured, fed.arrays, [*(_SHAPE + name for name in names), *queries])
    except UnusableModel as refused:
        return tuple(Spelt(it, "", _shortened(source, refused)) for it in found)
    shapes = {name: tuple(int(size) for size in values[_SHAPE + name]) for name in names}
    over_keys = [it for it in found if pattern.is_over_keys(it, len(shapes[it.operands[0]]))]
    cases = [pattern.case(it, shapes, str(values[it.operands[0]].dtype)) for it in over_keys]
    return tuple(Spelt(it, case, "" if case else _no_case(it)) for it, case in zip(over_keys, cases, strict=True))


def _no_case(it: Pattern) -> str:
    if it.softcap is None:
        return "its scores go through a Tanh, and no constant says what softcap that is"
    equations = [text for text in map(einsum.equation, (it.before, it.behind)) if text]
    if equations:
        return f"the products are not those of attention by their equations, {' and '.join(equations)}"
    return "the tensors are not laid out as attention's"


def generated(source: Source, seed: int, said: Mapping[str, int], limit: int) -> Feed:
    """Feed a model with arrays made up by the shapes, names and dtypes of its inputs. Raises UnusableModel."""

    def feed(whole: onnx.ModelProto, part: onnx.ModelProto) -> Fed:
        it = inputs.entrance(source.path, part)
        sizes = inputs.sizes(it, said)
        arrays = feeds.generated(it, seed, sizes, limit, inputs.meaning(whole))
        words = f"inputs generated from seed {seed}"
        return Fed(arrays, words + (f", {' '.join(f'{name}={size}' for name, size in sizes.items())}" if sizes else ""))

    return feed


def fed_with(source: Source, arrays: Arrays, place: str | Path) -> Feed:
    """Feed a model with a user's arrays. Raises UnusableModel where one is missing or does not fit."""

    def feed(whole: onnx.ModelProto, part: onnx.ModelProto) -> Fed:
        needed = {value.name for value in part.graph.input}
        asked = inputs.entrance(source.path, whole)
        kept = tuple(value for value in asked.inputs if value.name in needed or value.name in arrays)
        it = inputs.Entrance(source.path, kept)
        return Fed(feeds.given(it, arrays, str(place)), f"inputs from {place}")

    return feed
