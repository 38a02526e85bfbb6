"""Words light up while they are spoken, where the server measures when that is."""

from collections.abc import Callable, Iterator

import pytest

import rhapsode.engine.alignment as alignment_module
from e2e.serve.running import Running, in_thread, running
from e2e.web.browsing import Visit
from spelling.family import SPELLING
from spelling.hearing import ToneModel

Open = Callable[..., Visit]
TEXT = "It costs $12.50, they say."
WRITTEN = ["It", "costs", "$12.50", "they", "say"]
WATCH = """view => {
    const copy = document.querySelector(`#${view} .copy`);
    window.lit = [];
    new MutationObserver(() => {
        const word = copy.querySelector("mark").textContent;
        if (word && word !== window.lit.at(-1)) window.lit.push(word);
    }).observe(copy, { subtree: true, childList: true, characterData: true });
}"""


@pytest.fixture(scope="module")
def timed(browser, tmp_path_factory) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment_module, "load_acoustic", lambda *_: ToneModel())
        with in_thread(SPELLING, tmp_path_factory.mktemp("words"), limits={"max_concurrency": 4}) as server:
            yield server


def test_the_words_of_a_text_light_up_in_turn_where_they_are_written(visit: Open, timed: Running) -> None:
    page = visit(timed)
    page.page.evaluate(WATCH, "speak")
    page.field("Text").fill(TEXT)
    page.press("Speak")
    page.page.wait_for_function("lit.includes('costs')")
    inside = page.page.evaluate("""() => {
        const [mark, area] = ["mark", "textarea"].map((tag) =>
            document.querySelector(`#speak .highlighted ${tag}`).getBoundingClientRect());
        return mark.width > 20 && mark.top > area.top && mark.bottom < area.bottom && mark.right < area.right;
    }""")
    assert inside
    page.await_end()
    assert page.page.evaluate("lit") == WRITTEN
    assert page.page.locator("#speak .copy mark").text_content() == ""


def test_the_subtitles_of_a_take_are_downloaded(visit: Open, timed: Running) -> None:
    page = visit(timed)
    page.field("Text").fill(TEXT + " That is all.")
    page.press("Speak")
    page.await_end()
    found = {}
    for kind in ("srt", "vtt"):
        page.fill("Subtitles of takes", kind)
        with page.page.expect_download() as got:
            page.press("Subtitles of this take")
        assert got.value.suggested_filename == f"speech.{kind}"
        found[kind] = got.value.path().read_text().split("\n\n")
    assert [cue.split("\n")[2].strip() for cue in found["srt"]] == [TEXT, "That is all."]
    assert found["vtt"][0] == "WEBVTT"
    assert [cue.replace(",", ".", 2).split("\n")[:2] for cue in found["srt"]] == [
        cue.split("\n")[:2] for cue in found["vtt"][1:]
    ]


@pytest.mark.slow
def test_the_words_of_the_default_voice_light_up_in_turn(visit: Open, tmp_path) -> None:
    text = "The quick brown fox jumps over the lazy dog."
    with running("rhapsode-nano", tmp_path, limits={"max_concurrency": 1}) as server:
        page = visit(server)
        page.page.evaluate(WATCH, "speak")
        page.field("Text").fill(text)
        page.press("Speak")
        page.page.wait_for_function("lit.includes('dog')", timeout=120_000)
        lit = page.page.evaluate("lit")
    words = text.rstrip(".").split()
    places = [words.index(word, 6) if word == "the" else words.index(word) for word in lit]
    assert places == sorted(places)
    assert len(places) >= 7  # on a busy machine a short word may pass between two frames of the screen


def test_nothing_lights_up_in_a_text_that_was_changed_since(visit: Open, timed: Running) -> None:
    page = visit(timed)
    page.field("Text").fill(TEXT)
    page.press("Speak")
    page.page.wait_for_function("document.querySelector('#speak .copy mark').textContent")
    page.field("Text").press_sequentially("!")
    page.page.evaluate(WATCH, "speak")
    page.await_end()
    assert page.page.evaluate("lit") == []


def test_words_light_up_while_the_next_ones_are_written(visit: Open, timed: Running) -> None:
    page = visit(timed, "talk")
    page.page.evaluate(WATCH, "talk")
    page.field("Type or paste").press_sequentially("One here. And two. ")
    page.page.wait_for_function("lit.at(-1) === 'two'")
    lit = page.page.evaluate("lit")  # a word may come after it was heard: then only the next one is shown
    assert [word for word in ("One", "here", "And", "two") if word in lit] == lit


def test_a_text_whose_words_cannot_be_timed_is_spoken_all_the_same(visit: Open, timed: Running) -> None:
    page = visit(timed)
    asked = []
    page.page.on("response", lambda answer: answer.request.method == "POST" and asked.append(answer.status))
    page.field("Text").fill("Да: a b c.")  # Russian, and the model of words is an English one
    page.press("Speak")
    page.await_sound()
    page.await_end()
    assert asked == [400, 200]
    page.go("Type to talk")
    page.await_silence()
    page.forget()
    page.field("Type or paste").press_sequentially("Да: a b c. ")
    page.await_sound()
