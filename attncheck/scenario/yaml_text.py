"""YAML 1.2 into nodes that know their line and column.

Duplicate keys, aliases, tags and further documents are mistakes here, so that what remains is a plain tree.
"""

from __future__ import annotations

from collections.abc import Iterator

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from attncheck.scenario.diagnostics import Diagnostic, Mistake, shown
from attncheck.scenario.nodes import Document, Entry, Mapping, Node, scalar

DEPTH_LIMIT = 16
_NO_LINE_BREAKS = dict.fromkeys(map(ord, "\x85\u2028\u2029"), " ")
"""Line breaks in YAML 1.1 and to the parser, but neither in YAML 1.2 nor in an editor's count of lines."""


INSTEAD_OF_ALIASES = "put what scenarios share under `defaults`"


def read(file: str, text: str, instead_of_aliases: str = INSTEAD_OF_ALIASES) -> Document:
    """Read YAML. The document's `mistakes` hold what is not YAML, or is YAML that the language has no use for.

    instead_of_aliases   the hint where an alias stands
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = tuple(text.split("\n"))
    reader = _Reader(Document(file, lines), instead_of_aliases)
    root: Node | None = None
    try:
        root = reader.document(YAML(typ="safe", pure=True).parse(text.translate(_NO_LINE_BREAKS)))
    except MarkedYAMLError as error:
        reader.found(Mistake.YAML_SYNTAX, *_complaint(error))
    except YAMLError as error:
        place = _at(text, getattr(error, "position", 0))
        reader.found(Mistake.YAML_SYNTAX, place, "this is not YAML: a control character", "remove it")
    return Document(file, lines, root, tuple(reader.mistakes), frozenset(reader.unusable))


def _at(text: str, offset: int) -> Node:
    before = text[:offset]
    return Node(before.count("\n") + 1, offset - before.rfind("\n"), "", None)


_COMPLAINTS = (
    ("'\\t'", False, "a tab cannot indent", "use spaces"),
    (
        "mapping values are not allowed",
        False,
        "a `:` where no key can stand",
        "check the indentation, or quote the text",
    ),
    ("could not find expected ':'", True, "a key without its `:`", "write `key: value`"),
    ("block end", False, "indented unlike the lines above it", "line it up with its neighbours"),
    (
        "expected ',' or",
        True,
        "a bracket is not closed, or a comma is missing",
        "close it; line {} does not belong into it",
    ),
    ("unexpected end of stream", True, "a quote is not closed", "close it"),
    ("cannot start any token", False, "an unquoted text cannot begin so", "quote it"),
    ("chomping or indentation", False, "an unquoted `>` or `|` begins a block of text", "quote the text"),
    ("expected alphabetic or numeric character", False, "an unquoted `*` begins an alias", "quote the text"),
)
"""Words of the parser's problem; whether to show where the construct began; message and hint of the house."""


def _complaint(error: MarkedYAMLError) -> tuple[Node, str, str]:
    """The parser's complaint in the house's words, with its place and a hint."""
    problem = str(error.problem or error.context or "")
    marks = [mark for mark in (error.problem_mark, error.context_mark) if mark is not None]
    places = [Node(mark.line + 1, mark.column + 1, "", None) for mark in marks] or [Node(1, 1, "", None)]
    for part, at_start, message, hint in _COMPLAINTS:
        if part in problem:
            place = places[-1] if at_start else places[0]
            return place, f"this is not YAML: {message}", hint.format(places[0].line)
    return places[0], f"this is not YAML: {shown(problem, 120)}", ""


class _Reader:
    """Parser events into nodes; collects the mistakes it meets."""

    def __init__(self, document: Document, instead_of_aliases: str) -> None:
        self.empty = document
        self.instead_of_aliases = instead_of_aliases
        self.mistakes: list[Diagnostic] = []
        self.unusable: set[Node] = set()

    def found(self, kind: Mistake, place: Node, message: str, hint: str) -> None:
        self.mistakes.append(self.empty.mistake(kind, place, message, hint))

    def document(self, events: Iterator[Event]) -> Node | None:
        """The first document's root; a second one is a mistake."""
        root: Node | None = None
        for event in events:
            if isinstance(event, DocumentStartEvent):
                if root is not None:
                    place = _place(event, 3)
                    hint = "one file is one document: remove the `---`"
                    self.found(Mistake.YAML_FEATURE, place, "a second document begins here", hint)
                    return root
                root = self.node(next(events), events, 0)
        return root

    def node(self, event: Event, events: Iterator[Event], depth: int) -> Node:
        """The node that begins with `event`."""
        if depth > DEPTH_LIMIT:
            problem = f"nested more than {DEPTH_LIMIT} levels deep"
            raise MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        if isinstance(event, AliasEvent):
            place = _place(event)
            self.found(Mistake.YAML_FEATURE, place, "an alias: the language has none", self.instead_of_aliases)
            self.unusable.add(place)
            return place
        node = self._value(event, events, depth)
        if (tag := getattr(event, "tag", None)) is not None:
            name = shown(str(tag).replace("tag:yaml.org,2002:", "!!"))
            message = f"a tag, `{name}`: the language has none"
            self.found(Mistake.YAML_FEATURE, node, message, "write the value alone; quotes make a text")
            self.unusable.add(node)
        return node

    def _value(self, event: Event, events: Iterator[Event], depth: int) -> Node:
        if isinstance(event, MappingStartEvent):
            return self._mapping(event, events, depth)
        if isinstance(event, SequenceStartEvent):
            return self._list(event, events, depth)
        assert isinstance(event, ScalarEvent)
        place = _place(event)
        value = scalar(event.value) if event.style is None else event.value
        return Node(place.line, place.column, event.value, value, place.width)

    def _list(self, start: Event, events: Iterator[Event], depth: int) -> Node:
        items = []
        while not isinstance(event := next(events), SequenceEndEvent):
            items.append(self.node(event, events, depth + 1))
        place = _spanning(start, event)
        return Node(place.line, place.column, "", tuple(items), place.width)

    def _mapping(self, start: MappingStartEvent, events: Iterator[Event], depth: int) -> Node:
        entries: dict[str, Entry] = {}
        while not isinstance(event := next(events), MappingEndEvent):
            key = self.node(event, events, depth + 1)
            value = self.node(next(events), events, depth + 1)
            if key.text in entries:
                first = entries[key.text].key.line
                message = f"the key `{shown(key.text)}` stands twice in one mapping, first on line {first}"
                self.found(Mistake.DUPLICATE_KEY, key, message, "keep one of them")
            else:
                entries[key.text] = Entry(key, _beside(key, value))
        place = _spanning(start, event) if start.flow_style else next((e.key for e in entries.values()), _place(start))
        return Node(place.line, place.column, "", Mapping(tuple(entries.values())), place.width)


def _beside(key: Node, value: Node) -> Node:
    """`value`, or where there is none, nothing, at the place of its key: the parser would put it at the next one."""
    absent = value.value is None and not value.text and value.line != key.line
    return Node(key.line, key.column, "", None, key.width) if absent else value


def _place(event: Event, width: int | None = None) -> Node:
    if width is None:
        return _spanning(event, event)
    return Node(event.start_mark.line + 1, event.start_mark.column + 1, "", None, width)


def _spanning(first: Event, last: Event) -> Node:
    """A place from the start of `first` to the end of `last`, within the first line."""
    start, end = first.start_mark, last.end_mark
    width = end.column - start.column if end.line == start.line else 1
    return Node(start.line + 1, start.column + 1, "", None, max(1, width))
