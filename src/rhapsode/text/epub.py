"""EPUB books: the text of their pages in reading order, with headings as chapters."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote
from xml.etree.ElementTree import Element, ParseError

from rhapsode.errors import InvalidRequest
from rhapsode.text.blocks import BlockBudget, blocks_of_html
from rhapsode.text.chapters import BookText, gather
from rhapsode.text.xml_tree import parse_xml

MOST_PAGE_BYTES, MOST_BYTES = 16 * 2**20, 64 * 2**20
"""Of one page and of all, as they are when unpacked."""
MOST_PACKAGE_BYTES = 2 * 2**20
MOST_DIRECTORY_BYTES = 4 * 2**20
"""Of the list of a book's files."""
MOST_TAGS, MOST_BLOCKS = 1_000_000, 200_000

_CONTAINER = "META-INF/container.xml"
_NAMES = {
    "container": "urn:oasis:names:tc:opendocument:xmlns:container",
    "opf": "http://www.idpf.org/2007/opf",
    "dc": "http://purl.org/dc/elements/1.1/",
}


def read_epub(file: Path) -> BookText:
    """Reads a book; raises `InvalidRequest` if it is encrypted, damaged or larger than any book."""
    try:
        with _BoundedFile(file) as opened, zipfile.ZipFile(opened) as archive:
            pages = _Pages(archive)
            root = parse_xml(pages.read(_CONTAINER, MOST_PACKAGE_BYTES)).find(".//container:rootfile", _NAMES)
            package_name = root.get("full-path", "") if root is not None else ""
            package = parse_xml(pages.read(package_name, MOST_PACKAGE_BYTES))
            budget = BlockBudget(MOST_TAGS, MOST_BLOCKS)
            names = dict.fromkeys(_spine(package, package_name))  # no page is read twice
            texts = (pages.read(name, MOST_PAGE_BYTES).decode("utf-8") for name in names)
            blocks = [block for text in texts for block in blocks_of_html(text, budget)]
    except OSError as error:
        raise InvalidRequest(f"cannot read {file}: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError, ParseError, ValueError):
        raise InvalidRequest(f"{file} is not an EPUB that can be read: it is damaged or encrypted.") from None
    title = package.findtext(".//dc:title", "", _NAMES).strip()
    return BookText(title or file.stem, gather(blocks), package.findtext(".//dc:creator", "", _NAMES).strip())


class _BoundedFile(io.FileIO):
    """A file that is read in small pieces only: the list of a book's files is read at once, before it is parsed."""

    def read(self, size: int | None = -1, /) -> bytes:
        most = MOST_DIRECTORY_BYTES + 1
        found = super().read(most if size is None or size < 0 else min(size, most)) or b""
        if len(found) > MOST_DIRECTORY_BYTES:
            raise InvalidRequest(f"{self.name!s} holds more files than any book needs.")
        return found


class _Pages:
    """The pages of a book. What they have when unpacked is counted as it is unpacked, whatever the book says."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._left = MOST_BYTES

    def read(self, name: str, most_bytes: int) -> bytes:
        about = self._archive.getinfo(name)
        if about.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile  # EPUB knows no other, and others may take any memory
        most_bytes = min(most_bytes, self._left)
        with self._archive.open(about) as member:
            data = member.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise InvalidRequest(
                f"{name[:100]} of the EPUB is too large: a page has at most {MOST_PAGE_BYTES} bytes, all of them "
                f"{MOST_BYTES}, and the list of pages {MOST_PACKAGE_BYTES}."
            )
        self._left -= len(data)
        return data


def _spine(package: Element, package_name: str) -> Iterator[str]:
    """Yields the names of the pages in reading order."""
    folder = posixpath.dirname(package_name)
    items = {item.get("id"): item for item in package.iterfind(".//opf:manifest/opf:item", _NAMES)}
    for reference in package.iterfind(".//opf:spine/opf:itemref", _NAMES):
        item = items.get(reference.get("idref"))
        if item is not None and "html" in item.get("media-type", "") and "nav" not in item.get("properties", ""):
            yield posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
