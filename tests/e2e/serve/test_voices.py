"""Voices: listed, uploaded, spoken with, kept over a restart, deleted; and references that come with a request."""

import base64
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.serve.running import Running, heard, in_thread, running
from rhapsode.audio.encode import encode
from rhapsode.types import Clip
from rhapsode.voices.store import VoiceStore
from tiny.qwen3_tts import HIDDEN, Tiny, reference_audio, write

SAMPLE = encode(Clip(reference_audio(24_000)[None], 24_000), "wav")
DATA_URL = f"data:audio/wav;base64,{base64.b64encode(SAMPLE).decode()}"
SAY = {"input": "Hello there.", "response_format": "pcm", "seed": 1, "max_new_tokens": 6}
EMBEDDING = [round(0.01 * (i % 7) - 0.02, 4) for i in range(HIDDEN)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny-base")
    write(folder, Tiny(kind="base"))
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cloning")


@pytest.fixture(scope="module")
def cloning(checkpoint: Path, place: Path) -> Iterator[Running]:
    limits = {"max_concurrency": 4, "max_positions": 512}
    server = {"fetch": {"allow_private": True}, "max_voices": 3}
    # In float64, so that what is said twice is the same to the bit, however it was cut into chunks.
    with running(str(checkpoint), place, limits=limits, server=server, dtype="float64") as started:
        yield started


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """A web server with a sample on it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path == "/sample.wav"
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(SAMPLE) if found else 0))
            self.end_headers()
            self.wfile.write(SAMPLE if found else b"")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()
        thread.join()


def say(server: Running, **fields) -> bytes:
    answer = server.http.post("/v1/audio/speech", json={**SAY, **fields})
    assert answer.status_code == 200, answer.text
    assert heard(answer.content, "pcm").duration_s > 0.05
    return answer.content


def upload(server: Running, name: str, **fields: str):
    form = {"name": name, "consent": "the speaker agrees", **fields}
    return server.http.post("/v1/audio/voices", data=form, files={"audio_sample": ("a.wav", SAMPLE, "audio/wav")})


def test_presets_and_openai_s_names_are_listed_with_id_and_name(dummy: Running) -> None:
    body = dummy.http.get("/v1/audio/voices").json()
    assert body["data"] == body["voices"]
    assert [v["id"] for v in body["voices"] if v["kind"] == "preset"] == ["low", "high"]
    assert all({"id", "name"} <= v.keys() for v in body["voices"])
    assert {v["name"] for v in body["voices"]} >= {"alloy", "nova", "shimmer"}


def test_a_preset_is_listed_with_what_is_declared_of_it(dummy: Running, hibari: Running) -> None:
    known = {voice["id"]: voice for voice in hibari.http.get("/v1/audio/voices").json()["data"]}
    assert known["heart"] == {
        "id": "heart", "name": "heart", "kind": "preset", "gender": "female", "accent": "American"
    }  # fmt: skip
    assert (known["fable"]["gender"], known["fable"]["accent"]) == ("male", "British")
    labelled = {voice["voice_id"]: voice["labels"] for voice in hibari.http.get("/v1/voices").json()["voices"]}
    assert labelled["heart"] == {"gender": "female", "accent": "American"}
    assert "gender" not in dummy.http.get("/v1/audio/voices").json()["data"][0]  # nothing is declared of it


def test_a_preset_with_an_openai_name_stands_for_itself(hibari: Running) -> None:
    voices = hibari.http.get("/v1/audio/voices").json()["voices"]
    assert [v["kind"] for v in voices if v["id"] == "fable"] == ["preset"]


def test_a_voice_is_uploaded_spoken_with_and_deleted(cloning: Running) -> None:
    stored = upload(cloning, "Ada", text="the ref")
    assert stored.status_code == 201, stored.text
    voice = stored.json()
    assert (voice["name"], voice["kind"], voice["consent"]) == ("Ada", "uploaded", "the speaker agrees")
    assert abs(voice["duration_s"] - 1.0) < 0.01
    by_name, by_id = say(cloning, voice="Ada"), say(cloning, voice={"id": voice["id"]})
    assert by_name == by_id == say(cloning, ref_audio=DATA_URL, ref_text="the ref")
    assert by_name == say(cloning, ref_audio="Ada")
    assert cloning.http.delete(f"/v1/audio/voices/{voice['id']}").json()["deleted"] is True
    assert cloning.http.delete(f"/v1/audio/voices/{voice['id']}").status_code == 404
    assert cloning.http.post("/v1/audio/speech", json={**SAY, "voice": "Ada"}).status_code == 400


@pytest.mark.parametrize(
    "text", [" the ref  ", "the ref\n", "the\r\nref", "\tthe ref", "caf\u00e9", "cafe\u0301"], ids=repr
)
def test_an_uploaded_transcript_keeps_its_bytes(cloning: Running, text: str) -> None:
    """In a form and in JSON; the talker gets what a request gives it as `ref_text`."""
    body = {"name": "Json", "consent": "yes", "audio_sample": DATA_URL, "text": text}
    stored = [upload(cloning, "Form", text=text), cloning.http.post("/v1/audio/voices", json=body)]
    try:
        assert [answer.json()["text"] for answer in stored] == [text, text]
        with_text = say(cloning, ref_audio=DATA_URL, ref_text=text)
        assert with_text != say(cloning, ref_audio=DATA_URL, ref_text="other words that were never said")
        assert with_text == say(cloning, voice="Form") == say(cloning, voice="Json") == say(cloning, ref_audio="Form")
    finally:
        for name in ("Form", "Json"):
            cloning.http.delete(f"/v1/audio/voices/{name}")


def test_a_transcript_of_spaces_is_none_in_a_form_and_an_error_in_a_request(cloning: Running) -> None:
    stored = upload(cloning, "Blank", text=" \r\n")
    assert (stored.status_code, "text" in stored.json()) == (201, False)
    cloning.http.delete("/v1/audio/voices/Blank")
    answer = cloning.http.post("/v1/audio/speech", json={**SAY, "ref_audio": DATA_URL, "ref_text": " \n"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "ref_text")
    assert "transcript is empty" in answer.json()["error"]["message"]


def test_a_name_is_given_once(cloning: Running) -> None:
    assert upload(cloning, "Bea").status_code == 201
    assert upload(cloning, "bea").status_code == 409
    assert cloning.http.delete("/v1/audio/voices/Bea").status_code == 200


def test_only_so_many_voices_are_kept(cloning: Running) -> None:
    answers = [upload(cloning, f"Voice {i}").status_code for i in range(4)]
    assert answers == [201, 201, 201, 409]
    for i in range(3):
        cloning.http.delete(f"/v1/audio/voices/Voice {i}")


def test_an_embedding_is_a_voice_too(cloning: Running) -> None:
    body = {"name": "Numbers", "consent": "yes", "speaker_embedding": EMBEDDING}
    stored = cloning.http.post("/v1/audio/voices", json=body)
    assert stored.json()["embedding_size"] == HIDDEN
    assert say(cloning, voice="Numbers") == say(cloning, speaker_embedding=EMBEDDING)
    assert cloning.http.delete("/v1/audio/voices/Numbers").status_code == 200


def test_an_uploaded_embedding_of_another_size_is_the_voice_s_fault(cloning: Running, place: Path) -> None:
    """Another server, of another model, may have stored it in the same folder."""
    VoiceStore(place / "voices").add("Foreign", embedding=[0.1] * (HIDDEN + 1))
    for field in ("voice", "ref_audio"):
        answer = cloning.http.post("/v1/audio/speech", json={**SAY, field: "Foreign"})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, field)
        assert f"{HIDDEN} finite numbers; got {HIDDEN + 1}" in answer.json()["error"]["message"]
    assert cloning.http.delete("/v1/audio/voices/Foreign").status_code == 200


def test_a_voice_can_be_had_as_an_embedding(cloning: Running) -> None:
    assert upload(cloning, "Dora", text="the ref").status_code == 201
    body = {"name": "Kept", "consent": "yes", "speaker_embedding": EMBEDDING}
    assert cloning.http.post("/v1/audio/voices", json=body).status_code == 201
    kept, heard_in = (cloning.http.get(f"/v1/audio/voices/{name}/embedding").json() for name in ("Kept", "dora"))
    assert kept["embedding"] == pytest.approx(EMBEDDING)
    assert len(heard_in["embedding"]) == HIDDEN
    # What the model hears in a sample is what it speaks with.
    alone = say(cloning, voice="Dora", x_vector_only_mode=True)
    assert say(cloning, speaker_embedding=heard_in["embedding"]) == alone
    for name in ("Dora", "Kept"):
        assert cloning.http.delete(f"/v1/audio/voices/{name}").status_code == 200
    assert cloning.http.get("/v1/audio/voices/Dora/embedding").status_code == 404


def test_a_family_without_an_encoder_of_voices_says_so(cloning_dummy: Running) -> None:
    assert upload(cloning_dummy, "Eve").status_code == 201
    answer = cloning_dummy.http.get("/v1/audio/voices/Eve/embedding")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "voice")
    assert cloning_dummy.http.delete("/v1/audio/voices/Eve").status_code == 200


def test_a_voice_that_could_never_speak_is_not_stored(dummy: Running) -> None:
    body = {"name": "Eve", "consent": "yes", "speaker_embedding": EMBEDDING}
    answers = {
        "audio_sample": upload(dummy, "Eve"),
        "speaker_embedding": dummy.http.post("/v1/audio/voices", json=body),
    }
    for param, answer in answers.items():
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, param)
        assert "qwen3-tts Base" in error["message"]


def test_an_embedding_of_another_size_is_not_stored(cloning: Running) -> None:
    body = {"name": "Eve", "consent": "yes", "speaker_embedding": EMBEDDING[:5]}
    answer = cloning.http.post("/v1/audio/voices", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "speaker_embedding")


def test_a_voice_of_another_server_is_listed_where_it_can_speak(cloning: Running, place: Path, tmp_path: Path):
    assert upload(cloning, "Frida").status_code == 201
    with in_thread("dummy", tmp_path, server={"voices": str(place / "voices")}) as other:
        assert "Frida" not in [v["name"] for v in other.http.get("/v1/audio/voices").json()["voices"]]
    assert cloning.http.delete("/v1/audio/voices/Frida").status_code == 200


def test_an_embedding_of_the_wrong_size_is_400_and_says_the_right_one(cloning: Running) -> None:
    answer = cloning.http.post("/v1/audio/speech", json={**SAY, "speaker_embedding": EMBEDDING[:5]})
    assert answer.status_code == 400
    assert f"{HIDDEN} finite numbers" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "spelling",
    [
        {"ref_audio": DATA_URL, "ref_text": "the ref"},
        {"ref_audio": [DATA_URL], "ref_text": ["the ref"]},
        {"references": [{"audio": DATA_URL, "text": "the ref"}]},
        {"references": [{"audio_path": DATA_URL, "text": "the ref"}]},
        {"ref_audio": DATA_URL, "ref_text": "the ref", "voice": "alloy"},
        {"ref_audio": DATA_URL, "ref_text": "the ref", "task_type": "Base", "language": "Auto"},
    ],
)
def test_a_reference_may_be_spelt_several_ways(cloning: Running, spelling: dict) -> None:
    assert say(cloning, **spelling) == say(cloning, references=[{"url": DATA_URL, "text": "the ref"}])


def test_a_reference_may_be_fetched(cloning: Running, elsewhere: str) -> None:
    fetched = say(cloning, ref_audio=f"{elsewhere}/sample.wav", ref_text="the ref")
    assert fetched == say(cloning, ref_audio=DATA_URL, ref_text="the ref")
    answer = cloning.http.post("/v1/audio/speech", json={**SAY, "ref_audio": f"{elsewhere}/nothing.wav"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_audio")


def test_the_same_reference_is_decoded_once(cloning: Running) -> None:
    say(cloning, ref_audio=DATA_URL)
    hits, misses = (cloning.metric(f"rhapsode_reference_cache_{kind}_total") for kind in ("hits", "misses"))
    encoded = cloning.metric("rhapsode_encoded_cache_misses_total")
    say(cloning, ref_audio=DATA_URL)
    assert cloning.metric("rhapsode_reference_cache_hits_total") == hits + 1
    assert cloning.metric("rhapsode_reference_cache_misses_total") == misses
    assert cloning.metric("rhapsode_encoded_cache_misses_total") == encoded
    assert cloning.metric("rhapsode_encoded_cache_bytes") > 0


@pytest.mark.parametrize(
    "ref_audio",
    ["/etc/passwd", "file:///etc/passwd", "sample.wav", "ftp://x/y.wav", "data:,", "data:audio/wav;base64,!!"],
)
def test_files_of_the_server_and_nonsense_are_no_references(cloning: Running, ref_audio: str) -> None:
    answer = cloning.http.post("/v1/audio/speech", json={**SAY, "ref_audio": ref_audio})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "ref_audio")


@pytest.mark.parametrize(
    "fields",
    [
        {"ref_audio": [DATA_URL, DATA_URL]},
        {"ref_audio": DATA_URL, "speaker_embedding": EMBEDDING},
        {"ref_audio": DATA_URL, "voice": "Ada"},
        {"references": [{"audio": DATA_URL, "url": DATA_URL}]},
        {"voice": "alloy"},
        {},
    ],
)
def test_what_contradicts_itself_or_says_nothing_of_the_voice_is_400(cloning: Running, fields: dict) -> None:
    assert cloning.http.post("/v1/audio/speech", json={**SAY, **fields}).status_code == 400


def test_voices_survive_a_restart(cloning: Running, checkpoint: Path, place: Path, tmp_path: Path) -> None:
    assert upload(cloning, "Carol", text="the ref").status_code == 201
    before = say(cloning, voice="Carol")
    settings = {"dtype": "float64", "limits": {"max_concurrency": 4, "max_positions": 512}}
    with in_thread(str(checkpoint), tmp_path, **settings, server={"voices": str(place / "voices")}) as again:
        assert [v["name"] for v in again.http.get("/v1/audio/voices").json()["voices"]] == ["Carol"]
        assert say(again, voice="Carol") == before
        private = again.http.post("/v1/audio/speech", json={**SAY, "ref_audio": "http://127.0.0.1:1/x.wav"})
        assert private.status_code == 400
    assert cloning.http.delete("/v1/audio/voices/Carol").status_code == 200
    left = {path.name for path in (place / "voices").iterdir()}
    assert not {name for name in left if name.endswith((".json", ".safetensors"))}
