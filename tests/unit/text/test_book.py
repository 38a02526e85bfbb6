"""Books are found in plain text, Markdown and EPUB, with their chapters."""

import struct
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rhapsode.errors import InvalidRequest
from rhapsode.text.book import book_of, read_book, split_chapters
from rhapsode.text.chapters import MOST_PART_CHARS, BookText, Chapter

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
    book = book_of(text, "file", input_type="markdown")
    assert book.title == "One"
    assert book.chapters == (
        Chapter("One", ("A very good link and code.", "first")),
        Chapter("Two", ("Said she.",)),
    )


def test_tables_are_read_row_by_row_and_code_is_left_out() -> None:
    markdown = "Three\n=====\n\n| a | b |\n|---|---|\n| c | d |\n\n```\ncode\n```\n\n![lamp](x)\n\n#### Four\n\nend"
    html = "<h2>Three</h2><table><tr><th>a<th>b</tr><tr><td>c</td><td>d</td></tr></table><pre>code</pre>"
    html += "<p><img alt=lamp></p><h4>Four</h4>end"
    expected = (Chapter("Three", ("a, b", "c, d", "lamp", "Four", "end")),)
    assert book_of(markdown, "file", input_type="markdown").chapters == expected
    assert book_of(html.replace("<th>b", "</th><th>b"), "file", input_type="html").chapters == expected


def test_a_book_without_a_heading_has_its_file_s_name() -> None:
    assert book_of("Only text.", "file", input_type="markdown").title == "file"


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


# --- hostile books ---

MIB = 2**20
BODY = "<html><body><p>One word.</p>{}</body></html>"


def package(*pages: str, twice: int = 1) -> str:
    items = "".join(f'<item id="i{n}" href="{page}" media-type="text/html"/>' for n, page in enumerate(pages))
    spine = "".join(f'<itemref idref="i{n}"/>' for n in range(len(pages))) * twice
    return f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{spine}</spine></package>'


def packed(folder: Path, files: dict[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    file = folder / "hostile.epub"
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in ({"META-INF/container.xml": CONTAINER} | files).items():
            archive.writestr(name, content)
    return file


def outcome(file: Path) -> BookText | str:
    """The book, or why it is refused."""
    try:
        return read_book(file)
    except InvalidRequest as error:
        return error.message


@contextmanager
def within(bytes_: int) -> Iterator[None]:
    """Checks that no more memory is taken at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < bytes_
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "page",
    ["<a ", "<", "</", "<a b='", "<!--", "<![CDATA[", "<script>", "<p", "<a" + "b" * 999, "<a" + ' "x"' * 99, "&#1"],
)
def test_tags_without_an_end_cost_little(tmp_path: Path, page: str) -> None:
    hostile = BODY.format((page * 200_000)[:200_000])
    file = packed(tmp_path, {"OEBPS/content.opf": package("a.html"), "OEBPS/a.html": hostile})
    started_s = time.process_time()
    found = outcome(file)
    assert isinstance(found, BookText)
    assert found.chapters[0].paragraphs[0] == "One word."
    assert time.process_time() - started_s < 3  # a parser that looks for each end anew takes an hour


def test_a_page_that_is_named_often_is_read_once(tmp_path: Path) -> None:
    page = BODY.format("<p>More words.</p>" * 5_000)
    file = packed(tmp_path, {"OEBPS/content.opf": package("a.html", twice=2_000), "OEBPS/a.html": page})
    with within(20 * MIB):
        found = outcome(file)
    assert isinstance(found, BookText)
    assert len(found.chapters[0].paragraphs) == 5_001
    assert file.stat().st_size < 10_000


HOSTILE: dict[str, tuple[str, dict[str, str | bytes]]] = {
    "a large page": ("too large", {"OEBPS/content.opf": package("a.html"), "OEBPS/a.html": b" " * 17 * MIB}),
    "large pages": (
        "too large",
        {
            "OEBPS/content.opf": package(*(f"{n}.html" for n in range(9))),
            **{f"OEBPS/{n}.html": b" " * 8 * MIB for n in range(9)},
        },
    ),
    "a large package": ("too large", {"OEBPS/content.opf": b" " * 3 * MIB}),
    "paragraphs": ("more tags", {"OEBPS/content.opf": package("a.html"), "OEBPS/a.html": "<p>a" * 2_001}),
    "tags": ("more tags", {"OEBPS/content.opf": package("a.html"), "OEBPS/a.html": "<" * 20_001}),
    "elements": ("damaged", {"OEBPS/content.opf": "<package>" + "<a/>" * 50_001 + "</package>"}),
    "depth": ("damaged", {"OEBPS/content.opf": "<package>" * 100_000}),
    "entities": (
        "damaged",
        {"OEBPS/content.opf": f'<!DOCTYPE a [<!ENTITY b "{"b" * 9_999}">]><a>{"&b;" * 9_999}</a>'},
    ),
    "an unknown encoding": ("damaged", {"OEBPS/content.opf": b'<?xml version="1.0" encoding="zlib_codec"?><a/>'}),
    "a missing page": ("damaged", {"OEBPS/content.opf": package("../../../etc/passwd")}),
    "no package": ("damaged", {}),
}


@pytest.mark.parametrize(("reason", "files"), HOSTILE.values(), ids=HOSTILE)
def test_a_book_that_no_reader_could_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, files: dict[str, str | bytes]
) -> None:
    monkeypatch.setattr("rhapsode.text.epub.MOST_TAGS", 20_000)
    monkeypatch.setattr("rhapsode.text.epub.MOST_BLOCKS", 2_000)
    file, started_s = packed(tmp_path, files), time.process_time()
    assert reason in str(outcome(file))
    assert time.process_time() - started_s < 5


def test_a_list_of_files_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    file = packed(tmp_path, {f"{number}-{'x' * 9_000}": "" for number in range(500)})
    with within(6 * MIB):
        assert "more files" in str(outcome(file))


def test_a_page_larger_than_it_says_is_damaged(tmp_path: Path) -> None:
    file = packed(tmp_path, {"OEBPS/content.opf": package("a.html"), "OEBPS/a.html": b" " * 8 * MIB})
    data = file.read_bytes()
    file.write_bytes(data.replace(struct.pack("<I", 8 * MIB), struct.pack("<I", 100)))
    with within(40 * MIB):
        assert "damaged" in str(outcome(file))


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_only_the_compression_of_epub_is_unpacked(tmp_path: Path, method: int) -> None:
    with pytest.raises(InvalidRequest, match="damaged"):
        read_book(packed(tmp_path, {"OEBPS/content.opf": package("a.html")}, method))


def test_signs_that_are_no_tags_are_text(tmp_path: Path) -> None:
    page = """<!DOCTYPE html><body><H1>Less &lt; More</h1><p class="a > b">1 < 2 <b>and</B> 3<br/>&nbsp;4 &amp; 5</p>
<!-- <p>no</p> --><script>if (a<b) {"<p>no</p>"}</script><p title=it's>yes<svg><text>no</text></svg></p>"""
    files = {"OEBPS/content.opf": package("a.html"), "OEBPS/a.html": page}
    book = read_book(packed(tmp_path, dict(files)))
    assert book.chapters == (Chapter("Less < More", ("1 < 2 and 3", "4 & 5", "yes")),)


def test_a_reference_to_no_character_is_text(tmp_path: Path) -> None:
    files = {"OEBPS/content.opf": package("a.html"), "OEBPS/a.html": f"<p>&#{'1' * 9_999}; &nope; &#65;"}
    book = read_book(packed(tmp_path, dict(files)))
    assert book.chapters == (Chapter("", (f"&#{'1' * 9_999}; &nope; A",)),)


def test_a_heading_of_many_signs_costs_little() -> None:
    started_s = time.process_time()
    book = book_of("# One " + "#" * 50_000 + "x\n\na\n\n## Two ##\n\nb", "file", input_type="markdown")
    assert book.chapters[1].title == "Two"
    assert time.process_time() - started_s < 2
