"""Files with books: Markdown and EPUB become parts that are spoken one by one; a hostile file harms nobody."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest

from e2e.serve.running import Running
from e2e.web.browsing import Visit
from rhapsode.text.blocks import blocks_of_markdown
from rhapsode.text.book import read_book
from rhapsode.text.chapters import gather
from unit.text.test_book import CONTAINER, HOSTILE, ONE, PACKAGE, TWO

Open = Callable[..., Visit]
CHAPTERS = "# One\n\nFirst *words*.\n\n```sh\n# no chapter\n```\n\n## Two\n\nLast words."
SPECIAL = """<html><body><h2>Signs and such</h2><p>2 * 3 * 4, [a], &lt;b&gt; &amp;amp; snake_case_name.</p>
<p>1. is no list</p><p># no heading</p><p>- no item</p><pre>code</pre><table><tr><td>a</td><td>b</td></tr></table>
<img src="http://192.0.2.1/x.png" alt="A lamp"/><script>window.isHurt = true</script>
<p onclick="x">End &nbsp;here.</p></body></html>"""


def epub(files: dict[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> dict[str, object]:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in ({"META-INF/container.xml": CONTAINER} | files).items():
            archive.writestr(name, content)
    return {"name": "small.epub", "mimeType": "application/epub+zip", "buffer": packed.getvalue()}


def open_file(page: Visit, file: dict[str, object]) -> None:
    page.page.locator("#speak input[type=file]").set_input_files(file)


def part_titles(page: Visit) -> list[str]:
    return page.page.locator("#speak option").evaluate_all(
        "all => all.filter((one) => one.parentNode.labels[0]?.textContent === 'Part').map((one) => one.textContent)"
    )


def await_text(page: Visit, beginning: str) -> str:
    page.page.wait_for_function(
        "text => document.querySelector('#speak textarea').value.startsWith(text)", arg=beginning
    )
    return page.field("Text").input_value()


def asked_by_speak(page: Visit) -> dict:
    with page.page.expect_request("**/v1/audio/speech") as sent:
        page.press("Speak")
    page.press("Stop")
    return sent.value.post_data_json


def test_a_markdown_file_is_sent_as_markdown_and_its_chapters_can_be_chosen(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    open_file(page, {"name": "notes.md", "mimeType": "text/markdown", "buffer": CHAPTERS.encode()})
    assert await_text(page, "# One") == CHAPTERS
    assert part_titles(page) == ["All of it", "One", "Two"]
    page.field("Part").select_option(label="Two")
    await_text(page, "## Two")
    asked = asked_by_speak(page)
    assert (asked["input"], asked["input_type"]) == ("## Two\n\nLast words.", "markdown")
    page.press("Greeting")  # what is not from the file is plain text again
    assert "input_type" not in asked_by_speak(page)
    assert not page.field("Part").is_visible()


def test_a_markdown_file_that_is_too_long_for_one_request_is_cut_between_paragraphs(
    visit: Open, dummy: Running
) -> None:
    page = visit(dummy)
    text = "# One\n\n" + "\n\n".join(["word " * 100] * 60) + "\n\n# Two\n\nEnd."
    open_file(page, {"name": "long.md", "mimeType": "text/markdown", "buffer": text.encode()})
    page.field("Part").wait_for()
    assert part_titles(page) == ["One (1 of 2)", "One (2 of 2)", "Two"]
    parts = []
    for number in range(3):
        page.field("Part").select_option(str(number))
        parts.append(page.field("Text").input_value())
    assert max(map(len, parts)) <= 20_000
    assert " ".join(parts).split() == text.split()


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_an_epub_is_read_as_the_command_line_reads_it(visit: Open, dummy: Running, tmp_path, method: int) -> None:
    page = visit(dummy)
    two = {"OEBPS/text/one page.xhtml": ONE, "OEBPS/two.xhtml": TWO.replace("</body>", SPECIAL[12:])}
    file = epub({"OEBPS/content.opf": PACKAGE} | two, method)
    (tmp_path / "small.epub").write_bytes(file["buffer"])
    open_file(page, file)
    shown = await_text(page, "# The First")
    assert part_titles(page) == ["All of it", "The First", "The Second", "Signs and such"]
    assert gather(blocks_of_markdown(shown)) == read_book(tmp_path / "small.epub").chapters
    assert asked_by_speak(page)["input_type"] == "markdown"
    assert page.page.evaluate("window.isHurt") is None  # and no picture was asked for, which `visit` checks


BROKEN = {name: files for name, (_, files) in HOSTILE.items() if name not in ("paragraphs", "tags", "elements")}
BROKEN["another compression"] = {}


def test_a_hostile_epub_is_refused_and_the_page_goes_on(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    for name, files in BROKEN.items():
        page.field("Text").fill("Still here.")
        is_packed = name == "another compression"
        open_file(page, epub(files, zipfile.ZIP_BZIP2 if is_packed else zipfile.ZIP_DEFLATED))
        told = page.error_at("Text")
        assert "not an EPUB that can be read" in told or "holds no text" in told, name
        assert page.field("Text").input_value() == "Still here."
    for content in (b"", b"PK\x05\x06" + bytes(18), b"no zip"):
        page.field("Text").fill("Still here.")
        open_file(page, {"name": "broken.EPUB", "mimeType": "", "buffer": content})
        assert "not an EPUB that can be read" in page.error_at("Text"), content
