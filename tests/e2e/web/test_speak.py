"""The Speak view: what is heard is what the API returns, from the first frame on."""

from collections.abc import Callable

import numpy as np
import pytest

from e2e.serve.running import Running, heard
from e2e.web.browsing import Visit, gaps, samples_of, untimed

Open = Callable[..., Visit]
RATE = 16_000  # the dummy's
LONG = "The quick brown fox jumps over the lazy dog, and nobody is surprised any more. " * 30


def say(page: Visit, text: str, **fields: str) -> None:
    page.field("Text").fill(text)
    for label, value in fields.items():
        page.fill(label.replace("_", " "), value)
    page.press("Speak")


@pytest.mark.parametrize(
    ("family", "text"),
    [("dummy", "Chunks are deltas, never repeats."), pytest.param("hibari", "Ah. Oh.", marks=pytest.mark.slow)],
)
def test_what_is_heard_is_what_the_api_returned_without_gap_or_repeat(
    visit: Open, request: pytest.FixtureRequest, family: str, text: str
) -> None:
    server: Running = request.getfixturevalue(family)
    page = visit(server)
    rate = server.http.get("/v1/models").json()["data"][0]["sample_rate"]
    said = samples_of(server.speak(text, seed=7, response_format="pcm", sample_rate=rate).content)
    for _ in range(3):  # where another process takes the machine away, the stream itself may come late
        page.forget()
        say(page, text, Seed="7")
        page.await_sound()
        page.await_end()
        page.await_silence()
        silent = gaps(page.heard(), said)
        if not silent:
            break
        assert page.figure("underruns").endswith(f" {round(silent / rate * 1000)} ms")  # the page counts what we heard
    assert silent == 0
    assert page.figure("underruns") == "0"


def test_sound_starts_before_the_response_has_ended(visit: Open, hibari: Running) -> None:
    page = visit(hibari)
    say(page, LONG)
    page.await_sound()
    page.page.wait_for_function("performance.getEntriesByName(location.origin + '/openai/v1/audio/speech').length")
    ended_ms, sounded_ms = page.page.evaluate(
        "[performance.getEntriesByName(location.origin + '/openai/v1/audio/speech')[0].responseEnd,"
        " heard.blocks[0].arrivedMs]"
    )
    assert sounded_ms < ended_ms
    assert page.figure("firstAudioMs").endswith("s")
    assert 0 < float(page.figure("factor")) < 5
    page.press("Stop")


def test_stop_silences_within_100_ms_and_ends_the_request(visit: Open, hibari: Running) -> None:
    page = visit(hibari)
    for stop in (lambda: page.press("Stop"), lambda: page.page.keyboard.press("Escape")):
        page.forget()
        say(page, LONG)
        page.await_sound(20)
        stop()
        page.await_silence()
        last, clicked = page.page.evaluate("[heard.blocks.at(-1).frame + 128, heard.clickedFrame]")
        assert last - clicked <= 0.1 * 24_000
        hibari.settle()
        page.forget()
        page.page.get_by_role("button", name="Play", exact=True).and_(page.page.locator(":enabled")).wait_for()


def test_what_is_asked_again_replaces_what_is_playing(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    say(page, "x" * 400)
    page.await_sound(10)
    said = samples_of(dummy.speak("Another one.", seed=3, response_format="pcm", sample_rate=RATE).content)
    say(page, "Another one.", Seed="3")
    page.await_end()
    page.await_silence()
    played = np.trim_zeros(page.heard())
    assert (played[-1000:] == np.trim_zeros(said)[-1000:]).all()
    assert len(played) < 400 * 320


def test_it_is_heard_again_and_a_download_is_a_valid_file_of_it(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    said = dummy.speak("Keep this.", seed=5, response_format="pcm", sample_rate=RATE).content
    say(page, "Keep this.", Seed="5")
    page.await_end()
    page.forget()
    page.press("Play")
    page.await_sound()
    page.await_end()
    page.await_silence()
    assert gaps(page.heard(), samples_of(said)) == 0
    for format_ in ("wav", "pcm", "mp3", "opus", "aac", "flac"):
        page.field("Format").select_option(format_)
        with page.page.expect_download() as got:
            page.press("Download this take")
        data = got.value.path().read_bytes()
        assert got.value.suggested_filename == f"speech.{format_}"
        assert abs(heard(data, format_, RATE).duration_s - len(said) / 2 / RATE) < 0.13
        if format_ in ("wav", "pcm"):
            assert data.removeprefix(data[:44] if format_ == "wav" else b"") == said


def test_settings_reach_the_server_and_only_those_that_were_set(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    bodies = []
    page.page.on("request", lambda request: request.method == "POST" and bodies.append(request.post_data_json))
    page.choose_voice("high")
    say(page, "Hi.", Speed="1.5", Instructions="calm", Seed="4", Never_stop="no")
    page.await_end()
    assert [untimed(body) for body in bodies] == [
        {
            "input": "Hi.", "voice": "high", "speed": 1.5, "instructions": "calm", "seed": 4, "endless": False,
            "response_format": "pcm", "sample_rate": RATE, "channels": 1,
        }
    ]  # fmt: skip


def test_the_page_has_fields_for_what_the_checkpoint_takes_and_no_others(visit: Open, dummy: Running, hibari: Running):
    able, plain = visit(dummy), visit(hibari)
    assert (able.field("Instructions").count(), plain.field("Instructions").count()) == (1, 0)
    assert (able.field("Top k").count(), plain.field("Top k").count()) == (1, 0)
    assert plain.field("Language").count() == 0  # it has one
    say(plain, "Hi.")
    plain.await_sound()
    plain.await_end()


def test_an_error_is_told_next_to_the_field_it_concerns(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    for label, wrong, words, right in (
        ("Seed", "-1", "greater than or equal to 0", "1"),
        ("Temperature", "99", "less than or equal to", "1"),
        ("Text", "   ", "the text is empty", "Hi."),
        ("Text", "x" * 30_000, "characters", "Hi."),
    ):
        page.fill(label, wrong)
        page.press("Speak")
        assert words in page.error_at(label).lower()
        assert page.field(label).get_attribute("aria-invalid") == "true"
        page.field(label).fill(right)
        assert page.field(label).get_attribute("aria-invalid") is None


def test_a_stream_that_breaks_off_says_why(visit: Open, dummy: Running) -> None:
    page = visit(dummy)
    say(page, "Never ending.", Never_stop="yes")
    told = page.page.get_by_text("The stream broke off:")
    told.wait_for()
    assert "no end within" in told.inner_text()
