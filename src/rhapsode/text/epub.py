"""EPUB books: the text of their pages in reading order, with headings as chapters."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

from rhapsode.errors import InvalidRequest
from rhapsode.text.chapters import BookText, gather

MOST_PAGE_BYTES = 32 * 2**20

_HEADINGS = {"h1", "h2", "h3"}
_BLOCKS = {"p", "div", "li", "blockquote", "section", "article", "td", "br", "h4", "h5", "h6", "pre", "figcaption"}
_SILENT = {"script", "style", "head", "nav", "svg", "math"}
_CONTAINER = "META-INF/container.xml"
_NAMES = {
    "container": "urn:oasis:names:tc:opendocument:xmlns:container",
    "opf": "http://www.idpf.org/2007/opf",
    "dc": "http://purl.org/dc/elements/1.1/",
}


def read_epub(file: Path) -> BookText:
    """Reads a book; raises `InvalidRequest` if it is encrypted or damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            root = ElementTree.fromstring(_page(archive, _CONTAINER)).find(".//container:rootfile", _NAMES)
            package_name = root.get("full-path", "") if root is not None else ""
            package = ElementTree.fromstring(_page(archive, package_name))
            blocks = [block for name in _spine(package, package_name) for block in _blocks(_page(archive, name))]
    except OSError as error:
        raise InvalidRequest(f"cannot read {file}: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, KeyError, RuntimeError, ElementTree.ParseError, UnicodeDecodeError):
        raise InvalidRequest(f"{file} is not an EPUB that can be read: it is damaged or encrypted.") from None
    title = package.findtext(".//dc:title", "", _NAMES).strip()
    return BookText(title or file.stem, gather(blocks), package.findtext(".//dc:creator", "", _NAMES).strip())


def _page(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > MOST_PAGE_BYTES:
        raise InvalidRequest(f"the page {name} of the EPUB is larger than {MOST_PAGE_BYTES} bytes.")
    return archive.read(name)


def _spine(package: ElementTree.Element, package_name: str) -> Iterator[str]:
    """Yields the names of the pages in reading order."""
    folder = posixpath.dirname(package_name)
    items = {item.get("id"): item for item in package.iterfind(".//opf:manifest/opf:item", _NAMES)}
    for reference in package.iterfind(".//opf:spine/opf:itemref", _NAMES):
        item = items.get(reference.get("idref"))
        if item is not None and "html" in item.get("media-type", "") and "nav" not in item.get("properties", ""):
            yield posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))


def _blocks(page: bytes) -> list[tuple[str | None, str]]:
    reader = _Page()
    reader.feed(page.decode("utf-8"))
    reader.close()
    return reader.found()


class _Page(HTMLParser):
    """Collects headings and paragraphs."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._blocks: list[tuple[str | None, str]] = []
        self._text = ""
        self._silent = 0

    def found(self) -> list[tuple[str | None, str]]:
        self._end_block()
        return self._blocks

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in _SILENT
        if tag in _HEADINGS | _BLOCKS:
            self._end_block()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS:
            self._end_block()

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _SILENT and self._silent > 0
        if tag in _HEADINGS | _BLOCKS:
            self._end_block(is_heading=tag in _HEADINGS)

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._text += data

    def _end_block(self, is_heading: bool = False) -> None:
        text, self._text = " ".join(self._text.split()), ""
        if text:
            self._blocks.append((text, "") if is_heading else (None, text))
