"""Kokoro over HTTP: voices and mixes, its options, text that arrives while it speaks, and what it refuses."""

from collections.abc import Iterator

import numpy as np
import pytest

from e2e.serve.running import Running, heard, in_thread
from tiny.kokoro import VOICES, write

SAY = {"seed": 1, "response_format": "pcm"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("kokoro")
    write(folder / "tiny")
    with in_thread(str(folder / "tiny"), folder, threads=1) as started:
        yield started


def say(server: Running, text: str = "Hello there. It is you.", **fields) -> bytes:
    answer = server.speak(text, **{**SAY, **fields})
    assert answer.status_code == 200, answer.text
    return answer.content


def refused(server: Running, **fields) -> dict:
    answer = server.speak("Hello there.", **{**SAY, **fields})
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]


@pytest.mark.parametrize("response_format", ["wav", "mp3", "opus"])
def test_a_file_holds_what_is_streamed(server: Running, response_format: str) -> None:
    streamed, whole = (say(server, response_format=response_format, stream=stream) for stream in (True, False))
    sizes = [heard(data, response_format, 24_000).duration_s for data in (streamed, whole)]
    assert sizes[0] == pytest.approx(sizes[1], abs=0.12)
    assert sizes[0] > 0.2


def test_voices_tell_their_gender_and_accent(server: Running) -> None:
    listed = {voice["name"]: voice for voice in server.http.get("/v1/audio/voices").json()["data"]}
    assert set(VOICES) <= set(listed)
    assert (listed["bf_emma"]["gender"], listed["bf_emma"]["accent"]) == ("female", "British")
    assert listed["am_adam"]["gender"] == "male"
    assert say(server) == say(server, voice="af_heart")
    assert say(server, voice="af_heart") != say(server, voice="am_adam")


def test_voices_can_be_mixed(server: Running) -> None:
    mixed = say(server, voice="af_heart(2)+am_adam")
    assert mixed == say(server, voice="AF_HEART(4) + am_adam(2)")
    others = [say(server, voice=voice) for voice in ("af_heart", "am_adam", "af_heart,am_adam")]
    assert mixed not in others
    assert say(server, voice="af_heart(3)") == others[0]
    error = refused(server, voice="af_heart+nobody")
    assert (error["param"], error["code"]) == ("voice", "unknown_voice")


def test_the_same_seed_repeats_and_another_is_another_take(server: Running) -> None:
    assert say(server) == say(server)
    assert say(server) != say(server, seed=2)


def test_the_model_speaks_faster_by_durations(server: Running) -> None:
    usual, fast = (say(server, trim=False, model_speed=speed) for speed in (1.0, 3.0))
    assert len(fast) < 0.7 * len(usual)


def test_phonemes_are_spoken_in_place_of_the_text(server: Running) -> None:
    said = say(server, "Hello.", phonemes="həlˈO ðɛɹ.")
    assert said == say(server, "Anything else.", phonemes="həlˈO ðɛɹ.")
    assert said != say(server, "Hello.", phonemes="həlˈO ðˈɛɹ mˈɔɹ.")
    error = refused(server, phonemes="h#llo")
    assert error["param"] == "phonemes"
    assert "no phonemes #" in error["message"]
    for wrong in (" ", "a" * 20_001, 7):
        assert refused(server, phonemes=wrong)["param"] == "phonemes"
    half = b'{"input": "Hi.", "phonemes": "\\ud800"}'  # of a character
    headers = {"Content-Type": "application/json"}
    assert server.http.post("/v1/audio/speech", content=half, headers=headers).status_code == 400


def test_silence_is_trimmed_unless_it_is_wanted(server: Running) -> None:
    """A pause between two passes is as long as it is asked to be."""
    short, long = (np.frombuffer(say(server, pause_s=pause), "<i2") for pause in (0.1, 1.0))
    assert (len(long) - len(short)) / 24_000 == pytest.approx(0.9, abs=0.02)


def test_a_language_without_phonemes_says_what_to_install(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    error = refused(server, voice="ef_dora")
    assert (error["param"], "install espeak-ng" in error["message"]) == ("language", True)
    assert refused(server, voice="jf_alpha", language="ja")["param"] == "language"
    assert refused(server, language="de")["param"] == "language"
    assert server.speak("もしもし", voice="jf_alpha").status_code == 400
    assert say(server, voice="jf_alpha") == say(server, voice="jf_alpha", language="en")


def test_a_client_of_kokoro_fastapi_mixes_voices_as_it_is_used_to(server: Running) -> None:
    fields = {"model": "kokoro", "input": "Hello there. It is you.", "voice": "af_heart(2)+am_adam(1)", **SAY}
    answer = server.http.post("/kokoro-fastapi/v1/audio/speech", json=fields)
    assert answer.status_code == 200, answer.text
    assert answer.content == say(server, voice="af_heart(2)+am_adam")


def test_the_first_piece_may_be_a_clause(server: Running) -> None:
    text = "Well, it was the best of times, it was the worst of times. It is you."
    usual, sooner = (say(server, text, **fields) for fields in ({}, {"first_piece_chars": 40}))
    assert usual != sooner
    assert usual == say(server, text, first_piece_chars=100)
    assert refused(server, first_piece_chars=5)["param"] == "first_piece_chars"
