"""Phrases said often: a second request is answered without the model, in any format, and never with another voice."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from e2e.serve.running import Running, in_thread
from rhapsode.audio.encode import encode
from rhapsode.types import Clip
from tiny.dummy import write

TEXT = "Please hold the line."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("phrases")
    cache = {"bytes": 10**7, "folder": str(folder / "cache")}
    with in_thread(write(folder / "checkpoint"), folder, server={"cache": cache}) as server:
        yield server


def upload(server: Running, hz: float) -> None:
    tone = (0.3 * np.sin(np.arange(16_000) * hz / 16_000 * 2 * np.pi)).astype(np.float32)[None]
    file = encode(Clip(tone, 16_000), "wav")
    fields = {"name": "Ada", "consent": "she agrees", "text": "A tone."}
    answer = server.http.post("/v1/audio/voices", data=fields, files={"audio_sample": ("a.wav", io.BytesIO(file))})
    assert answer.status_code == 201, answer.text


def test_a_hit_has_the_same_bytes_takes_no_slot_and_serves_every_format(server: Running) -> None:
    wish = {"seed": 1, "response_format": "wav"}
    first = server.speak(TEXT, **wish)
    steps = server.metric("rhapsode_talker_steps_total")
    again, whole = server.speak(TEXT, **wish), server.speak(TEXT, seed=1, response_format="wav", stream=False)
    other = server.speak(TEXT, seed=1, response_format="mulaw", speed=1.5, loudness=-16)
    assert [answer.headers["x-cache"] for answer in (first, again, whole, other)] == ["miss", "hit", "hit", "hit"]
    assert again.content == first.content
    assert whole.content[44:] == first.content[44:]
    assert other.status_code == 200
    assert server.metric("rhapsode_talker_steps_total") == steps
    assert server.metric("rhapsode_phrase_cache_hits_total") >= 3
    assert server.metric("rhapsode_phrase_cache_bytes") > len(first.content)
    outcome = server.http.get(f"/v1/audio/speech/{again.headers['x-request-id']}").json()
    assert (outcome["status"], outcome["delivered"]) == ("finished", True)


def test_a_request_that_would_differ_every_time_is_not_kept(server: Running) -> None:
    assert "x-cache" not in server.speak(TEXT).headers
    assert "x-cache" not in server.speak(TEXT).headers


def test_a_voice_that_was_replaced_or_deleted_is_never_served(server: Running) -> None:
    wish = {"seed": 1, "response_format": "wav", "voice": "Ada"}
    upload(server, 300)
    first = server.speak(TEXT, **wish)
    assert server.speak(TEXT, **wish).headers["x-cache"] == "hit"
    server.http.delete("/v1/audio/voices/Ada")
    assert server.speak(TEXT, **wish).status_code == 400
    upload(server, 500)
    replaced = server.speak(TEXT, **wish)
    assert (first.headers["x-cache"], replaced.headers["x-cache"]) == ("miss", "miss")


def test_an_error_is_not_kept(server: Running) -> None:
    for _ in range(2):
        refused = server.speak(TEXT, seed=3, voice="nobody")
        assert refused.status_code == 400


def test_nothing_is_kept_unless_the_deployment_says_so(dummy: Running) -> None:
    assert "x-cache" not in dummy.speak(TEXT, seed=1).headers


def test_a_deployment_may_repeat_what_was_said_first(tmp_path: Path) -> None:
    with in_thread("dummy", tmp_path, server={"cache": {"bytes": 10**6, "unseeded": True}}) as server:
        said = [server.speak(TEXT, response_format="wav") for _ in range(2)]
    assert [answer.headers["x-cache"] for answer in said] == ["miss", "hit"]
    assert said[0].content == said[1].content


@pytest.mark.slow
def test_what_is_kept_has_an_end_and_outlives_the_server(tmp_path: Path) -> None:
    phrases = ["One.", "Two.", "Six.", "Ten.", "Yes.", "Now."]  # 20 kB each
    cache = {"bytes": 100_000, "folder": str(tmp_path / "cache")}
    with in_thread("dummy", tmp_path, server={"cache": cache}) as server:
        for phrase in phrases:
            assert server.speak(phrase, seed=1, response_format="wav").headers["x-cache"] == "miss"
            assert server.metric("rhapsode_phrase_cache_bytes") <= cache["bytes"]
        assert server.speak(phrases[0], seed=1).headers["x-cache"] == "miss"  # the oldest had to go
        assert server.speak(phrases[-1], seed=1).headers["x-cache"] == "hit"
    with in_thread("dummy", tmp_path, server={"cache": cache}) as server:
        assert server.speak(phrases[-1], seed=1).headers["x-cache"] == "hit"
