"""What `attncheck extract` says: the nodes that were found, where each was written, and what could not be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attncheck.extract import pattern
from attncheck.extract.folder import Written
from attncheck.extract.pattern import Pattern
from attncheck.extract.run import Found, Spelt
from attncheck.extract.source import Site, Source
from attncheck.reports.lines import Line, line, paragraph
from attncheck.reports.numbers import plural
from attncheck.scenario.axes import spell

MOST = 4
"""Nodes named of those that are called alike."""


def listed(source: Source) -> list[Line]:
    """One line a node, its path and operator; and one for each attention that is spelt out."""
    width = max((len(it.path) for it in source.sites), default=0)
    lines = [line(f"{it.path.ljust(width)}  {_operator(it)}") for it in source.sites]
    graph = source.proto.graph
    found = [_nodes(it) for it in pattern.find(graph)]
    found += [_nodes(it, path) for path, it in pattern.inside(graph).items()]
    return lines + [line(f"spelt out: {nodes}") for nodes in found]


def report(source: Source, found: Found, written: Sequence[Written], width: int | None) -> list[Line]:
    """Everything that was found, and where it is now."""
    lines = [line(f"{source.path}: {_counts(source, found)}", "heading")]
    if found.extracts or found.missed or found.spelt:
        lines += [line(f"  {found.fed.about}")]
    for it in written:
        lines += _extract(it, width)
    alike: dict[tuple[str, str], list[Site]] = {}
    for missed in found.missed:
        alike.setdefault((f"{missed.site.op} {missed.site.opset}", missed.reason), []).append(missed.site)
    for (operator, reason), sites in alike.items():
        lines += [line(f"  {operator}", "caution"), *paragraph(f"not extracted: {reason}", width, "    ")]
        lines += _named(sites, width)
    return [*lines, *_spelt(found.spelt, width)]


def _counts(source: Source, found: Found) -> str:
    nodes = sum(len(it.sites) for it in found.extracts) + len(found.missed)
    whole = len(source.sites)
    said = plural(whole, "attention node") if nodes == whole else f"{nodes} of {plural(whole, 'attention node')}"
    if found.extracts:
        said += f", {len(found.extracts)} distinct"
    if found.spelt:
        said += f"; {plural(len(found.spelt), 'spelt-out attention')}"
    return said


def _operator(it: Site) -> str:
    return f"{it.op} {it.opset}" + ("" if it.readable else " (not read by attncheck)")


def _extract(it: Written, width: int | None) -> Iterator[Line]:
    sites = it.extract.sites
    yield line(f"  {it.name}  {_operator(sites[0])}", "title")
    yield line(f"    written to {_files(it.files)}")
    if it.extract.axes:
        axes = " ".join(f"{axis}={spell(value)}" for axis, value in it.extract.axes.items())
        yield from paragraph(axes, width, "    ")
    else:
        yield from paragraph(f"a model, for {it.extract.reason}", width, "    ")
    for note in it.extract.notes:
        yield from paragraph(f"note: {note}", width, "    ")
    yield from _named(sites, width)


def _files(names: Sequence[str]) -> str:
    """The scenario file and the models of the first nodes, two files each."""
    most = 1 + 2 * MOST
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _named(sites: Sequence[Site], width: int | None) -> list[Line]:
    named = [site.path for site in sites[:MOST]]
    more = [f"and {len(sites) - MOST} more"] if len(sites) > MOST else []
    return paragraph(f"{plural(len(sites), 'node')}: {', '.join([*named, *more])}", width, "    ")


def _nodes(it: Pattern, path: str = "") -> str:
    """The nodes of a pattern by their names, the softmax by its path where it stands in a sub-graph."""
    names = (it.before.name, path or it.softmax.name, it.behind.name)
    nodes = zip((it.before, it.softmax, it.behind), names, strict=True)
    return ", ".join(f"{node.op_type} {name or node.output[0]}" for node, name in nodes)


def _spelt(found: Sequence[Spelt], width: int | None) -> Iterator[Line]:
    """Attention that is spelt out, and what to do about it; those of the same sizes together."""
    if not found:
        return
    yield from paragraph(
        "Attention spelt out in plain operators, which onnxruntime.transformers.optimizer may fuse into one. For each "
        "a case of the same sizes, at the operator's own scale:",
        width,
        "  ",
    )
    alike: dict[tuple[str, str], list[Pattern]] = {}
    for it in found:
        alike.setdefault((it.case, it.reason), []).append(it.pattern)
    for (case, reason), patterns in alike.items():
        yield from (line(f"  {_nodes(it)}", "caution") for it in patterns[:MOST])
        if len(patterns) > MOST:
            yield line(f"  and {len(patterns) - MOST} more", "caution")
        if case:
            yield line(f"    attncheck run --case '{case}'")
        else:
            yield from paragraph(f"no case: {reason}", width, "    ")
