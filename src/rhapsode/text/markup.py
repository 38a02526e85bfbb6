"""The kinds of text that a request may have, and who reads each."""

from __future__ import annotations

from typing import Literal, Protocol

from rhapsode.text.content import SpokenContent
from rhapsode.text.events import TextEvent
from rhapsode.text.html import HtmlReader
from rhapsode.text.markdown.reader import MarkdownReader
from rhapsode.text.ssml import SsmlReader

InputType = Literal["text", "ssml", "markdown", "html"]
INPUT_TYPES: tuple[InputType, ...] = ("text", "ssml", "markdown", "html")
SUFFIXES: dict[str, InputType] = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html"}
"""What a file holds, by its name."""


def input_type_of(name: str) -> InputType:
    """Returns the input type of that name; one that does not exist is plain text."""
    return next((known for known in INPUT_TYPES if known == name), "text")


class MarkupReader(Protocol):
    """Reads a document that arrives in pieces. How it is cut changes nothing."""

    def push(self, text: str) -> list[TextEvent]: ...

    def close(self) -> list[TextEvent]: ...


def reader_of(input_type: InputType, language: str) -> MarkupReader | None:
    """Returns a new reader; `None` for plain text."""
    match input_type:
        case "ssml":
            return SsmlReader(language)
        case "markdown" | "html":
            return _DocumentReader(input_type, language)
        case _:
            return None


class _DocumentReader:
    """Reads Markdown or HTML as speech."""

    def __init__(self, input_type: Literal["markdown", "html"], language: str) -> None:
        self._content = SpokenContent(language)
        self._reader = (MarkdownReader if input_type == "markdown" else HtmlReader)(self._content)

    def push(self, text: str) -> list[TextEvent]:
        self._reader.push(text)
        return self._content.taken()

    def close(self) -> list[TextEvent]:
        self._reader.close()
        return self._content.taken()
