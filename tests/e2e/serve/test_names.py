"""Names that clients of other servers use: aliases, other routes, fields that mean nothing here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.serve.running import Running, in_thread
from rhapsode.config import resolve
from rhapsode.errors import ConfigError
from rhapsode.serve.app import create_app

KEY = {"Authorization": "Bearer sk-one"}
VOICES, MODELS = "/v1/audio/voices", "/v1/audio/models"
ALIASES = {"af_heart": "high", "alloy": "high", "gone": "nobody"}


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    names = {"voice_aliases": ALIASES, "model_aliases": ["kokoro"]}
    settings = {**names, "unknown_fields": "ignore", "api_keys": ["sk-one"], "public_lists": True}
    limits = {"max_concurrency": 2, "max_positions": 512}
    with in_thread("dummy", tmp_path_factory.mktemp("names"), limits=limits, server=settings) as started:
        started.http.headers.update(KEY)
        yield started


def say(server: Running, **fields):
    answer = server.speak("Hi.", response_format="pcm", seed=1, **fields)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize("voice", ["af_heart", "AF_Heart", "alloy"])
def test_an_alias_is_the_voice_it_stands_for(server: Running, voice: str) -> None:
    assert say(server, voice=voice).content == say(server, voice="high").content
    assert say(server, voice=voice).content != say(server, voice="low").content


def test_an_alias_of_a_voice_that_is_not_there_is_an_unknown_voice(server: Running) -> None:
    answer = server.speak("Hi.", voice="gone")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_voice")


def test_aliases_are_listed_with_what_they_stand_for(server: Running) -> None:
    listed = {voice["id"]: voice.get("alias_of") for voice in server.http.get(VOICES).json()["voices"]}
    assert (listed["af_heart"], listed["alloy"]) == ("high", "high")
    assert "gone" not in listed
    assert listed["nova"] in ("low", "high")


def test_an_alias_cannot_hide_a_voice_of_the_model() -> None:
    deployment = resolve(env={}, flags={"model": "dummy", "server": {"voice_aliases": {"HIGH": "low"}}})
    with pytest.raises(ConfigError, match="'high' is a voice of dummy"):
        create_app(deployment)


def test_the_model_has_further_names(server: Running) -> None:
    say(server, model="kokoro")
    assert server.speak("Hi.", model="whisper").status_code == 404
    assert server.http.get("/v1/models/kokoro").json()["family"] == "dummy"
    assert "kokoro" in [model["id"] for model in server.http.get("/v1/models").json()["data"]]


def test_models_are_listed_where_audio_clients_look(server: Running) -> None:
    body = server.http.get(MODELS).json()
    assert body["data"] == body["models"] == server.http.get("/v1/models").json()["data"]


def test_fields_that_mean_nothing_here_are_ignored_and_named(server: Running) -> None:
    answer = say(server, pitch=2, **{"x\ny": 1})
    assert answer.headers["X-Ignored-Fields"] == "pitch, ?"
    assert "X-Ignored-Fields" not in say(server).headers
    events = server.speak("Hi.", stream_format="sse", pitch=2)
    assert events.headers["X-Ignored-Fields"] == "pitch"
    items = [{"input": "Hi.", "pitch": 2}, {"input": "Hi."}]
    batch = server.http.post("/v1/audio/speech/batch", json={"items": items, "priority": 1}).json()
    assert batch["ignored_fields"] == ["priority"]
    assert [result.get("ignored_fields") for result in batch["results"]] == [["pitch"], None]


def test_a_wrong_value_is_an_error_also_where_fields_are_ignored(server: Running) -> None:
    assert server.speak("Hi.", speed="fast").status_code == 400
    assert server.speak("Hi.", ref_audio="data:,").json()["error"]["param"] == "ref_audio"  # another voice, unasked
    assert (
        server.http.post("/v1/audio/speech", content=b"[", headers={"Content-Type": "application/json"}).status_code
        == 400
    )


def test_instructions_without_effect_are_ignored_where_the_deployment_says_so(tmp_path: Path) -> None:
    with in_thread("hibari", tmp_path, server={"unknown_fields": "ignore"}) as server:
        answer = server.speak("Hi.", instructions="calm", temperature=0.5)
        assert (answer.status_code, answer.headers["X-Ignored-Fields"]) == (200, "instructions, temperature")


def test_lists_are_public_where_the_deployment_says_so_and_tell_names_only(server: Running) -> None:
    for path, keys in ((VOICES, {"id", "name", "kind"}), (MODELS, {"id", "object"})):
        found = server.http.get(path, headers={"Authorization": ""}).json()["data"]
        assert found
        assert all(entry.keys() == keys for entry in found)
    for method, path in (
        ("GET", "/v1/models"),
        ("POST", VOICES),
        ("DELETE", f"{VOICES}/x"),
        ("GET", f"{VOICES}/x/embedding"),
    ):
        assert server.http.request(method, path, headers={"Authorization": "Bearer no"}).status_code == 401
