"""What is under "Advanced": dialogues, SSML and subtitles."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e.serve.running import Running
from e2e.web.browsing import Visit, samples_of
from rhapsode.alignment.shown import shown_words
from rhapsode.alignment.subtitles import cues, subtitles
from rhapsode.alignment.words import WordTime

Open = Callable[..., Visit]
DIALOGUE = "high: Are you coming?\n\n[low]: In a minute.\nOr two.\n[pause 0.5]\nhigh: It is 7:30."
SEGMENTS = [
    {"input": "Are you coming?", "voice": "high"},
    {"input": "In a minute. Or two.", "voice": "low"},
    {"input": "It is 7:30.", "voice": "high", "pause_s": 0.5},
]
TEXTS = {
    "signs": "“Well,” he said, “it costs $12.50 (or more).” Is that so? Yes!",
    "a long sentence": "This is one of those sentences, which go on for so long that no screen can show them at once, "
    "and which therefore have to be cut where a clause ends, or where they can be cut at all",
    "pauses": "One two.   Three\n\nfour five",
    "marks of HTML": "Tom & Jerry <b> end.",
}


@pytest.fixture(scope="module")
def modules(browser, dummy: Running) -> Iterator:
    context = browser.new_context(bypass_csp=True)
    opened = context.new_page()
    opened.goto(dummy.url)
    yield opened
    context.close()


def timed(text: str) -> list[WordTime]:
    """Words of different lengths; those after an empty line come late."""
    found, at, clock_s = [], 0, 0.25
    for word in text.replace("“", " ").replace("(", " ").split():
        bare = word.strip(".,!?”)")
        if not any(letter.isalnum() for letter in bare):
            continue
        start = text.index(bare, at)
        clock_s += 2.0 if "\n\n" in text[at:start] else 0.1
        end_s = clock_s + 0.07 * len(bare)
        found.append(WordTime(bare, round(clock_s, 3), round(end_s, 3), start, start + len(bare)))
        at, clock_s = start + len(bare), end_s
    return found


@pytest.mark.parametrize("kind", ["srt", "vtt"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_subtitles_are_those_of_the_command_line(modules, text: str, kind: str) -> None:
    words = timed(text)
    ask = "async ([text, words, kind]) => (await import('/web/subtitles.js')).subtitles(text, words, kind)"
    written = modules.evaluate(ask, [text, [word.body() for word in words], kind])
    assert written == subtitles(cues(shown_words(text, words)), kind)


def test_marks_of_markdown_and_ssml_are_not_in_subtitles(modules) -> None:
    text = "# One *two*.\n\nThree <break/> four!"
    words = [WordTime(word, at, at + 0.5, text.index(word), text.index(word) + len(word)) for at, word in
             enumerate(["One", "two", "Three", "four"])]  # fmt: skip
    ask = "async ([text, words]) => (await import('/web/subtitles.js')).subtitles(text, words, 'srt', true)"
    written = modules.evaluate(ask, [text, [word.body() for word in words]])
    assert [cue.split("\n")[2] for cue in written.strip().split("\n\n")] == ["One two.", "Three four!"]


def read_as(page: Visit, kind: str) -> None:
    page.fill("The text is", kind)


def sent_by_speak(page: Visit) -> dict:
    with page.page.expect_request("**/v1/audio/speech") as sent:
        page.press("Speak")
    return sent.value.post_data_json


def test_a_dialogue_is_spoken_by_its_voices(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    read_as(page, "dialogue")
    page.fill("Text", DIALOGUE)
    page.fill("Seed", "3")
    asked = sent_by_speak(page)
    assert asked["segments"] == SEGMENTS
    assert "input" not in asked
    assert "input_type" not in asked
    page.await_sound()
    page.page.wait_for_function("document.querySelector('#speak .dock [role=status]').textContent === 'Finished'")
    said = dummy.http.post(
        "/v1/audio/speech", json={name: asked[name] for name in ("segments", "seed", "sample_rate", "channels")} | {
            "response_format": "pcm", "voice": asked["voice"]}
    )  # fmt: skip
    assert len(page.heard()) > 0.9 * len(samples_of(said.content))
    assert page.page.locator(".takes .words").inner_text().startswith("Are you coming?")
    page.fill("Text", "nobody: Hello.")
    page.press("Speak")
    page.page.get_by_role("alert").filter(has_text="nobody").wait_for()
    page.fill("Text", "  ")
    page.press("Speak")
    assert page.error_at("Text")


def test_ssml_is_sent_as_ssml_and_its_faults_are_shown_at_the_text(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    read_as(page, "ssml")
    page.fill("Text", "<speak>One <break time='200ms'/> two.</speak>")
    asked = sent_by_speak(page)
    assert (asked["input"], asked["input_type"]) == ("<speak>One <break time='200ms'/> two.</speak>", "ssml")
    page.await_sound()
    page.press("Stop")
    page.fill("Text", "<speak>One <break")
    page.press("Speak")
    assert "SSML" in page.error_at("Text")
