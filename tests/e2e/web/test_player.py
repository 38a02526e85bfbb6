"""The player: pause, seek, takes, and buffering where speech comes slower than it is played."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from e2e.serve.running import LETTER_S, Running, heard
from e2e.web.browsing import Visit, gaps, samples_of

Open = Callable[..., Visit]
RATE = 16_000  # the dummy's
TEXT = "What is heard is kept."


def said(server: Running, text: str, seed: int = 5) -> np.ndarray:
    return samples_of(server.speak(text, seed=seed, response_format="pcm", sample_rate=RATE).content)


def speak(page: Visit, text: str = TEXT) -> None:
    page.field("Text").fill(text)
    page.fill("Seed", "5")
    page.press("Speak")
    page.await_sound()


def position(page: Visit) -> float:
    return float(page.field("Position").input_value())


def test_a_pause_is_silent_and_loses_no_sample(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    speak(page)
    page.await_sound(40)
    page.page.keyboard.press("Alt+K")
    page.await_silence()
    assert page.page.locator("#speak .dock [role=status]").inner_text() == "Paused"
    stood = position(page)
    page.press("Play")
    page.await_end()
    page.await_silence()
    whole = said(dummy, TEXT)
    assert 0 < stood < len(whole) / RATE
    blocks = page.page.evaluate("heard.blocks.map(({ frame, channels }) => [frame, channels[0]])")
    pauses = [i for i, (one, two) in enumerate(pairwise(blocks)) if two[0] - one[0] > 0.25 * RATE]
    assert len(pauses) == 1
    del blocks[pauses[0]]  # it fades out, and its samples are played again in full
    assert (np.trim_zeros(np.concatenate([samples for _, samples in blocks])) == np.trim_zeros(whole)).all()


@pytest.mark.slow
def test_seeking_goes_back_and_on_also_while_it_is_made(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    text = TEXT * 8
    speak(page, text)
    page.page.wait_for_function("document.querySelector('#speak .seek').max > 10")
    page.field("Position").fill("6")
    page.page.wait_for_function("Number(document.querySelector('#speak .seek').value) > 6")
    page.field("Position").press("ArrowLeft")
    page.page.wait_for_function("Number(document.querySelector('#speak .seek').value) < 3")
    page.page.keyboard.press("Alt+L")
    page.page.wait_for_function("Number(document.querySelector('#speak .seek').value) > 5")
    page.press("Stop")
    page.await_silence()
    page.forget()
    page.field("Position").fill("2.5")  # of what was stopped, as far as it was made
    page.await_sound(30)
    page.press("Stop")
    page.await_silence()
    whole = said(dummy, text)
    played = page.heard()[: 20 * 128]
    assert (played == whole[int(2.5 * RATE) :][: len(played)]).all()


@pytest.mark.slow
def test_takes_are_kept_played_and_downloaded_each_as_it_was(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    texts = ("The first take.", "The second one.")
    for text in texts:
        speak(page, text)
        page.await_end()
    takes = page.page.get_by_role("region", name="Takes").get_by_role("listitem")
    assert [take.locator(".words").inner_text() for take in takes.all()] == ["The second one.", "The first take."]
    first = takes.filter(has_text="The first take.")
    page.await_silence()
    page.forget()
    first.get_by_role("button", name="Play this take").click()
    page.await_sound()
    page.await_end()
    page.await_silence()
    assert gaps(page.heard(), said(dummy, texts[0])) == 0
    page.field("Format").select_option("flac")
    with page.page.expect_download() as got:
        first.get_by_role("button", name="Download this take").click()
    kept = heard(got.value.path().read_bytes(), "flac", RATE)
    assert abs(kept.duration_s - len(texts[0]) * LETTER_S) < 0.1
    first.get_by_role("button", name="Remove this take").click()
    assert takes.count() == 1


@pytest.mark.slow
def test_a_long_text_shows_how_much_of_it_is_made(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    slow(page, bytes_per_s=64_000)
    speak(page, TEXT * 4)
    progress = page.page.get_by_role("progressbar", name="Made so far")
    early = progress.evaluate("node => node.value")
    assert 0 < early < 0.9
    assert page.page.locator("#speak .made").inner_text().endswith("% made")
    page.page.wait_for_function("before => document.querySelector('#speak progress').value > before", arg=early)
    progress.wait_for(state="hidden")
    page.press("Stop")


@pytest.mark.slow
def test_speech_that_comes_slowly_is_buffered_and_not_torn_into_pieces(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    slow(page, bytes_per_s=20_000)  # 0.6 seconds of speech a second
    for underruns in (1, 0):  # the first time the page does not know yet how slowly it comes
        page.forget()
        page.field("Text").fill(TEXT)
        page.fill("Seed", "5")
        page.press("Speak")
        page.page.get_by_text("Buffering").wait_for()
        page.await_sound()
        page.await_end()
        page.await_silence()
        gaps(page.heard(), said(dummy, TEXT))
        assert int(page.figure("underruns").split()[0]) <= underruns


def slow(page: Visit, bytes_per_s: int) -> None:
    """Lets so many bytes a second through to the page."""
    session = page.page.context.new_cdp_session(page.page)
    limits = {"offline": False, "latency": 0, "downloadThroughput": bytes_per_s, "uploadThroughput": -1}
    session.send("Network.emulateNetworkConditions", limits)
