"""The text to speak: examples, files, and its length."""

from collections.abc import Callable

from e2e.serve.running import LETTER_S, Running
from e2e.web.browsing import Visit

Open = Callable[..., Visit]


def text_file(content: bytes, name: str = "speech.txt") -> dict[str, object]:
    return {"name": name, "mimeType": "text/plain", "buffer": content}


def length(page: Visit) -> str:
    return page.page.locator("#speak .length").inner_text()


def test_an_example_and_a_text_file_become_the_text(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    page.press("Dialogue")
    assert "In a minute" in page.field("Text").input_value()
    chooser = page.page.locator("#speak input[type=file]")
    for content in ("Grüße aus Köln.\r\nBis bald.".encode(), "Grüße aus Köln.\nBis bald.".encode("cp1252")):
        chooser.set_input_files(text_file(content))
        page.page.wait_for_function("document.querySelector('#speak textarea').value === 'Grüße aus Köln.\\nBis bald.'")
        page.press("Greeting")
    chooser.set_input_files(text_file(b"\0\1\2", "speech.bin"))
    assert "not a text file" in page.error_at("Text")
    chooser.set_input_files(text_file(b"x" * 30_000))
    page.page.get_by_text("too long: at most 20000 characters").wait_for()


def test_the_length_is_told_in_characters_and_in_time_as_learnt_from_speech(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    page.field("Text").fill("x" * 150)
    assert length(page) == "150 characters · about 0:10"
    page.press("Speak")  # the dummy takes 80 ms a letter, which the page cannot know before
    page.page.wait_for_function("document.querySelector('#speak .length').textContent.endsWith('0:12')")
    page.press("Stop")
    assert length(page) == f"150 characters · about 0:{150 * LETTER_S:.0f}"
    page.fill("Speed", "2")
    assert length(page).endswith("about 0:06")
    page.field("Text").fill("x" * 20_001)
    assert length(page).startswith("20,001 of 20,000 characters")
    assert "wrong" in page.page.locator("#speak .length").get_attribute("class")
