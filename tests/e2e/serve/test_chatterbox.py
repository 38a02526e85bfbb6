"""Chatterbox over HTTP: one repository of several models, the fields that its users send, and what is refused."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.serve.running import Running, heard, in_thread
from rhapsode.audio.encode import encode
from rhapsode.types import Clip
from tiny.chatterbox import ENDING, HOP, write
from tiny.qwen3_tts import reference_audio

SAMPLE = encode(Clip(reference_audio(20_000)[None], 24_000), "wav")
DATA_URL = f"data:audio/wav;base64,{base64.b64encode(SAMPLE).decode()}"
SETTINGS: dict[str, Any] = {"limits": {"max_concurrency": 2, "max_positions": 1024}, "threads": 1}
FRAMES = 6


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("repository"), ENDING["original"], ENDING["multilingual"])


@pytest.fixture(scope="module")
def original(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with in_thread(str(repository), tmp_path_factory.mktemp("original"), **SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def multilingual(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    chosen = {**SETTINGS, "options": {"t3": "multilingual"}}
    with in_thread(str(repository), tmp_path_factory.mktemp("multilingual"), **chosen) as started:
        yield started


def say(server: Running, text: str = "Good day to you.", **fields: Any) -> bytes:
    wishes = {"response_format": "pcm", "seed": 7, "max_new_tokens": FRAMES, "stream": False, **fields}
    answer = server.speak(text, **wishes)
    assert answer.status_code == 200, answer.text
    return answer.content


def refused(server: Running, text: str = "Good day to you.", **fields: Any) -> dict[str, Any]:
    answer = server.speak(text, **fields)
    assert answer.status_code == 400, answer.text
    error: dict[str, Any] = answer.json()["error"]
    return error


def test_what_users_of_other_servers_send_has_an_effect(original: Running) -> None:
    usual = say(original)
    assert 0 < len(usual) <= 2 * FRAMES * HOP
    assert usual == say(original, exaggeration=0.5, cfg_weight=0.5, temperature=0.8, min_p=0.05, repetition_penalty=1.2)
    lively = {"temperature": 3.0, "min_p": 0.0}  # then a small change of the scores changes a draw
    assert say(original, **lively) != usual
    for field, value in (("cfg_weight", 0.0), ("top_p", 0.1), ("top_k", 1)):
        assert say(original, **lively, **{field: value}) != say(original, **lively), field
    assert say(original, ref_audio=DATA_URL) != usual


def test_one_repository_is_another_model_by_a_setting(original: Running, multilingual: Running) -> None:
    english, others = (one.http.get("/v1/models").json()["data"][0] for one in (original, multilingual))
    assert (english["languages"], len(others["languages"])) == (["en"], 23)
    assert refused(original, language="fr")["param"] == "language"
    said = {language: say(multilingual, language=language) for language in ("fr", "sw", "ko")}
    assert len(set(said.values())) == 3


def test_a_language_without_its_package_is_refused_until_the_request_is_lenient(multilingual: Running) -> None:
    error = refused(multilingual, "привет", language="ru")
    assert error["param"] == "language"
    assert "russian-text-stresser" in error["message"]
    assert say(multilingual, "привет", language="ru", lenient_text=True)


def test_tokens_that_control_the_model_are_read(original: Running) -> None:
    assert say(original, "Hi [STOP] there.") not in (say(original, "Hi"), say(original, "Hi there."))


def test_a_short_recording_and_wrong_values_are_refused(original: Running) -> None:
    short = encode(Clip(reference_audio(6_000)[None], 24_000), "wav")
    url = f"data:audio/wav;base64,{base64.b64encode(short).decode()}"
    assert "at least 0.5 s" in refused(original, ref_audio=url)["message"]
    assert refused(original, exaggeration=-1)["param"] == "exaggeration"
    assert refused(original, cfg_weight="much")["param"] == "cfg_weight"


def test_a_text_is_heard_sentence_by_sentence(original: Running) -> None:
    answer = original.speak("Good day to you. Yes, it is.", response_format="wav", seed=7)
    assert answer.status_code == 200
    alone = heard(original.speak("Good day to you.", response_format="wav", seed=7).content, "wav", 24_000)
    whole = heard(answer.content, "wav", 24_000)
    assert whole.duration_s > alone.duration_s > 0
