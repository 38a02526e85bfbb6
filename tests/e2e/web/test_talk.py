"""Type-to-talk: words are heard while the next ones are written."""

from collections.abc import Callable

from e2e.serve.running import Running
from e2e.web.browsing import Visit, gaps, samples_of

Open = Callable[..., Visit]
RATE = 16_000
BOX = "Type or paste"


def said(server: Running, text: str) -> bytes:
    return server.speak(text, seed=3, response_format="pcm", sample_rate=RATE).content


def test_appended_text_is_spoken_and_nothing_twice(visit: Open, dummy: Running) -> None:
    page = visit(dummy, "talk")
    page.fill("Seed", "3")
    box = page.field(BOX)
    box.press_sequentially("Say this first, and ")
    page.await_sound()  # while the rest is not even written
    box.press_sequentially("then that.")
    page.await_silence(900)
    gaps(page.heard(), samples_of(said(dummy, "Say this first, and then that.")))  # a pause is the writer's
    assert page.figure("requests") == "1"
    assert page.figure("firstAudioMs").endswith("s")


def test_after_a_pause_another_utterance_is_spoken(visit: Open, dummy: Running) -> None:
    page = visit(dummy, "talk")
    page.field(BOX).press_sequentially("One. ")
    page.await_silence(1500)
    page.forget()
    page.field(BOX).press_sequentially("Two. ")
    page.await_sound()
    page.page.wait_for_function("document.querySelector('#talk [data-figure=requests]').textContent === '2'")
    assert page.figure("requests") == "2"


def test_what_is_pasted_is_spoken_by_hibari(visit: Open, hibari: Running) -> None:
    page = visit(hibari, "talk")
    page.field(BOX).focus()
    page.page.keyboard.insert_text("Pasted text is spoken too. And it needs no button.")
    page.await_sound(20)
    assert len(page.heard()) > 0
    page.press("Stop")


def test_stop_cuts_at_once_and_nothing_of_it_comes_later(visit: Open, dummy: Running) -> None:
    page = visit(dummy, "talk")
    page.field(BOX).focus()
    page.page.keyboard.insert_text("x" * 900 + " ")
    page.await_sound(20)
    page.press("Stop")
    page.await_silence(600)
    last, clicked = page.page.evaluate("[heard.blocks.at(-1).frame + 128, heard.clickedFrame]")
    assert last - clicked <= 0.1 * RATE
    assert dummy.metric("rhapsode_slots_in_use") == 0
    page.forget()
    page.fill("Seed", "3")
    page.field(BOX).press_sequentially("More.")
    page.await_sound()
    page.await_silence(900)
    gaps(page.heard(), samples_of(said(dummy, "More.")))


def test_what_the_server_refuses_is_told_next_to_its_field(visit: Open, dummy: Running) -> None:
    page = visit(dummy, "talk")
    page.fill("Seed", "-1")
    page.field(BOX).press_sequentially("Hello. ")
    assert "greater than or equal to 0" in page.error_at("Seed")
    page.page.wait_for_timeout(700)
    assert len(page.heard()) == 0  # neither as asked nor in some other way
    page.fill("Seed", "1")
    page.field(BOX).press_sequentially("And now. ")
    page.await_sound()
