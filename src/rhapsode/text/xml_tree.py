"""Parses small XML documents of strangers: no entities, and bounds on elements and depth."""

from __future__ import annotations

from xml.etree.ElementTree import Element, ParseError, TreeBuilder
from xml.parsers import expat

MOST_ELEMENTS, MOST_DEPTH = 50_000, 64


def parse_xml(data: bytes) -> Element:
    """Returns the root of a document; raises `ParseError` if it is not well formed, or larger than is read here."""
    parser, builder = expat.ParserCreate(namespace_separator="}"), _Builder()
    parser.buffer_text = True
    parser.StartElementHandler = builder.begin
    parser.EndElementHandler = builder.finish
    parser.CharacterDataHandler = builder.text
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError) as error:
        raise ParseError(str(error)) from None
    return builder.root()


class _Builder:
    """Builds the tree of a document, as long as it is small."""

    def __init__(self) -> None:
        self._builder = TreeBuilder()
        self._elements = self._depth = 0

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        self._depth += 1
        if self._elements > MOST_ELEMENTS or self._depth > MOST_DEPTH:
            raise ParseError("the document has too many elements")
        self._builder.start(_named(tag), {_named(name): value for name, value in attributes.items()})

    def finish(self, tag: str) -> None:
        self._depth -= 1
        self._builder.end(_named(tag))

    def text(self, text: str) -> None:
        self._builder.data(text)

    def root(self) -> Element:
        return self._builder.close()


def _named(name: str) -> str:
    """Returns a name with its namespace as ElementTree writes it: `{namespace}name`."""
    return "{" + name if "}" in name else name


def _refuse_entity(*_: object) -> None:
    raise ParseError("the document declares entities")
