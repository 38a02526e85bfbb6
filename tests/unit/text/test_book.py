"""Books are found in plain text, Markdown and EPUB, with their chapters."""

import zipfile
from pathlib import Path

import pytest

from rhapsode.errors import InvalidRequest
from rhapsode.text.book import read_book, split_chapters
from rhapsode.text.chapters import MOST_PART_CHARS, Chapter

CONTAINER = """<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title>A Small Book</dc:title><dc:creator>Ada</dc:creator></metadata>
<manifest><item id="two" href="two.xhtml" media-type="application/xhtml+xml"/>
<item id="one" href="text/one%20page.xhtml" media-type="application/xhtml+xml"/>
<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="css" href="style.css" media-type="text/css"/></manifest>
<spine><itemref idref="nav"/><itemref idref="one"/><itemref idref="two"/><itemref idref="css"/></spine></package>"""
ONE = """<html><head><title>no</title><style>p {}</style></head><body><h1>The <em>First</em></h1>
<p>Hello &amp; welcome,<br/>reader.</p><script>no</script><p> </p><div>Bye.</div></body></html>"""
TWO = "<html><body><h2>The Second</h2><p>It ends\n here.</p></body></html>"


def titles(text: str, **how) -> list[str]:
    return [chapter.title for chapter in split_chapters(text, **how)]


def test_headings_of_plain_text_begin_chapters() -> None:
    text = (
        "A word before.\n\nCHAPTER I\n\nIt was cold.\nVery cold.\n\nChapter 2: The end\nof it\n\nBye.\n\nIII.\n\nMore."
    )
    chapters = split_chapters(text)
    assert [chapter.title for chapter in chapters] == ["", "CHAPTER I", "Chapter 2: The end of it", "III."]
    assert chapters[1].paragraphs == ("It was cold. Very cold.",)


def test_a_sentence_that_begins_like_a_heading_is_none() -> None:
    text = "Part of the crew was ill, so nothing happened for so many days that everybody gave up all hope of it.\n\nI"
    assert titles("Chapter books are nice.\nThey are.\nThey really are.\n\nYes.") == [""]
    assert titles(text)[0] == ""


def test_a_pattern_of_one_s_own_finds_other_headings() -> None:
    assert titles("== One ==\n\nA.\n\n== Two ==\nB.\n\nChapter 3\n\nC.", pattern="== .+ ==") == [
        "== One ==",
        "== Two ==",
    ]
    with pytest.raises(InvalidRequest, match="not a regular expression"):
        split_chapters("A.", pattern="(")


def test_markdown_is_read_without_its_marks() -> None:
    text = "# One\nA *very* **good** [link](http://x.y) and `code`.\n\n- first\n\n## Two ##\n\n> Said _she_.\n"
    chapters = split_chapters(text, is_markdown=True)
    assert chapters == (
        Chapter("One", ("A very good link and code.", "first")),
        Chapter("Two", ("Said she.",)),
    )


def test_an_epub_is_read_in_its_order(tmp_path: Path) -> None:
    file = tmp_path / "small.epub"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr("OEBPS/content.opf", PACKAGE)
        archive.writestr("OEBPS/text/one page.xhtml", ONE)
        archive.writestr("OEBPS/two.xhtml", TWO)
    book = read_book(file)
    assert (book.title, book.author) == ("A Small Book", "Ada")
    assert book.chapters == (
        Chapter("The First", ("Hello & welcome,", "reader.", "Bye.")),
        Chapter("The Second", ("It ends here.",)),
    )


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"no zip"])
def test_what_is_no_epub_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.epub"
    file.write_bytes(content)
    with pytest.raises(InvalidRequest, match="damaged or encrypted"):
        read_book(file)


def test_parts_are_whole_paragraphs_and_never_too_long() -> None:
    sentence = "This is a sentence of a certain length. "
    chapter = Chapter("Title", (sentence * 20, "Short.", sentence * 200))
    parts = chapter.parts()
    assert parts[0] == "Title"
    assert max(map(len, parts)) <= MOST_PART_CHARS
    assert " ".join(" ".join(parts[1:]).split()) == " ".join((" ".join(chapter.paragraphs)).split())


@pytest.mark.parametrize("text", ["", "***\n\n---"])
def test_a_book_without_words_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="nothing to say"):
        split_chapters(text)
