"""Dialects stay at the edge, are small, and translate without a server."""

import asyncio
import base64
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import rhapsode
from rhapsode.config import resolve
from rhapsode.config.server import DIALECTS as NAMES
from rhapsode.config.server import key_id
from rhapsode.errors import ConfigError, InvalidRequest
from rhapsode.serve.dialects import kokoro_fastapi, sglang_omni, sounds, vllm_omni, voice_names
from rhapsode.serve.dialects.answer import TranslatedAnswer
from rhapsode.serve.dialects.as_written import KINDS, as_written
from rhapsode.serve.dialects.dialect import Call, Row
from rhapsode.serve.dialects.middleware import DIALECTS, TranslatedSocket, _take_prefix
from rhapsode.serve.dialects.ssml_tags import tagged
from rhapsode.serve.dialects.tags import passages
from rhapsode.serve.request.names import OPENAI_VOICES

PACKAGE = Path(rhapsode.__path__[0])
HOME = PACKAGE / "serve/dialects"
OTHERS = re.compile("vllm.?omni|sglang.?omni|kokoro.?fastapi", re.IGNORECASE)
MAY_NAME = {"config/server.py", "cli/bench.py", "bench/serve/server.py"}
"""The setting, and the benchmark, which measures those servers themselves."""


def test_nothing_but_the_edge_names_a_dialect() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(HOME)]
    named = {str(path.relative_to(PACKAGE)) for path in files if OTHERS.search(path.read_text("utf-8"))}
    assert named == MAY_NAME
    importing = [path for path in files if "rhapsode.serve.dialects" in path.read_text("utf-8")]
    assert {str(path.relative_to(PACKAGE)) for path in importing} == {"serve/app.py", "edge/guarded.py"}


def test_every_dialect_of_the_setting_is_there() -> None:
    assert ("openai", *DIALECTS) == NAMES


# --- choosing ---


def config(keys: Any, **server: Any):
    return resolve(env={}, flags={"model": "dummy", "server": {"api_keys": keys, **server}}).server


@pytest.mark.parametrize("entry", [{"key": "two", "dialect": "vllm-omni"}, "two vllm-omni", " two  vllm-omni "])
def test_a_key_may_have_a_dialect(entry: Any) -> None:
    server = config(["one", entry])
    assert [key.get_secret_value() for key in server.api_keys] == ["one", "two"]
    assert server.key_dialects == {key_id(b"two"): "vllm-omni"}
    assert server.key_lines() == ["one", "two vllm-omni"]
    assert "two" not in str(server)


def test_keys_in_a_file_and_in_a_variable_may_have_dialects(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\ntwo sglang-omni\n")
    assert list(config((), api_keys_file=file).key_dialects.values()) == ["sglang-omni"]
    env = {"RHAPSODE_SERVER__API_KEYS": "one,two kokoro-fastapi"}
    assert list(resolve(env=env, flags={"model": "dummy"}).server.key_dialects.values()) == ["kokoro-fastapi"]


@pytest.mark.parametrize("entry", [{"key": "two", "dialect": "nobody"}, {"key": "", "dialect": "openai"}, {"key": 7}])
def test_a_wrong_key_is_refused_and_not_shown(entry: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        config([entry])
    assert "two" not in refused.value.message


@pytest.mark.parametrize(
    ("path", "raw", "name", "rest", "raw_rest"),
    [
        ("/vllm-omni/v1/a b", b"/vllm-omni/v1/a%20b", "vllm-omni", "/v1/a b", b"/v1/a%20b"),
        ("/vllm-omni/v1", b"/vllm%2domni/v1", "vllm-omni", "/v1", b"/v1"),
        ("/vllm-omni/v1", b"/vllm-omni%2fv1", "vllm-omni", "/v1", b"/v1"),
        ("/openai/v1/models", b"/openai/v1/models", "openai", "/v1/models", b"/v1/models"),
        ("/vllm-omni", b"/vllm-omni", None, "/vllm-omni", b"/vllm-omni"),
        ("/v1/vllm-omni/", b"/v1/vllm-omni/", None, "/v1/vllm-omni/", b"/v1/vllm-omni/"),
    ],
)
def test_a_prefix_is_taken_from_a_path(path: str, raw: bytes, name: str | None, rest: str, raw_rest: bytes) -> None:
    scope = {"path": path, "raw_path": raw}
    assert _take_prefix(scope) == name
    assert (scope["path"], scope["raw_path"]) == (rest, raw_rest)


# --- bodies ---

ODD = [None, True, 7, -1.5, float("nan"), "", "x", "\ud800", [], [[]], [None], {}, {"a": {}}, [{}], "a(2)+b(1)"]
FIELDS = [
    *("input", "voice", "speaker", "stream", "stream_format", "response_format", "ref_audio", "references", "items"),
    *("extra_params", "speaker_embedding", "task_type", "model", "lang_code", "normalization_options", "ssml", "turns"),
    *("voice_aliases", "allow_voice_tags", "phonemes", "return_download_link"),
    *("volume_multiplier", "pause_between_turns", "return_timestamps", "text", "language", "split_granularity"),
]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_odd_values_are_translated_or_refused(dialect: str) -> None:
    """A value of a wrong type is left to our own route, or is an error of the client's."""
    calls = 0
    for row in DIALECTS[dialect].rows:
        for name in FIELDS:
            for value in ODD:
                for ask in filter(None, (row.ask, row.reply)):
                    calls += 1
                    with suppress(InvalidRequest):
                        ask({name: value, "input": "Hi."}, Call({}, ("low",)))
    assert calls > 500


@pytest.mark.parametrize("dialect", ["vllm-omni", "sglang-omni"])
def test_odd_messages_of_a_socket_pass(dialect: str) -> None:
    make = DIALECTS[dialect].session
    assert make is not None
    for kind in ("session.config", "input.text", "input.commit", "input.done", "nonsense", None, 7, []):
        for name in (*FIELDS, "session", "type"):
            for value in ODD:
                with suppress(InvalidRequest):
                    assert all(isinstance(sent, dict) for sent in make("").inward({"type": kind, name: value}))


def test_a_long_text_is_not_cut_into_a_million_clauses() -> None:
    session = vllm_omni.DIALECT.session("")
    session.inward({"type": "session.config", "split_granularity": "clause"})
    assert len(list(session.inward({"type": "input.text", "text": "a, b"}))) == 3
    assert len(list(session.inward({"type": "input.text", "text": "a, " * 100_000}))) == 1


def test_clauses_are_made_as_they_are_asked_for_and_have_something_to_say() -> None:
    session = vllm_omni.DIALECT.session("")
    session.inward({"type": "session.config", "split_granularity": "clause"})
    assert len(list(session.inward({"type": "input.text", "text": "\uff0c" * 2**15}))) == 1
    clauses = session.inward({"type": "input.text", "text": "a\uff0c" * 2**14})
    assert iter(clauses) is clauses
    assert [next(clauses)["text"], next(clauses)["type"]] == ["a\uff0c", "input.flush"]


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ('"Well," he said, and left', ['"Well,"', " he said,", " and left"]),
        ("1,000 at 10:30: a:b", ["1,000 at 10:30: a:b"]),
        (
            "\u4f60\u597d\uff0c\u4e16\u754c\uff1b\u518d\u89c1",
            ["\u4f60\u597d\uff0c", "\u4e16\u754c\uff1b", "\u518d\u89c1"],
        ),
        ("\u0646\u0639\u0645\u060c \u0644\u0627", ["\u0646\u0639\u0645\u060c", " \u0644\u0627"]),
        (", , a", [", , a"]),
        ("a,, ;) b", ["a,,", " ;) b"]),
        ("," * 30_000 + "x", ["," * 30_000 + "x"]),
        (", " * 16_000 + "x", [", " * 16_000 + "x"]),
    ],
)
def test_clauses(text: str, clauses: list[str]) -> None:
    session = vllm_omni.DIALECT.session("")
    session.inward({"type": "session.config", "split_granularity": "clause"})
    sent = session.inward({"type": "input.text", "text": text})
    assert [message["text"] for message in sent if "text" in message] == clauses


def test_the_rest_of_a_refused_text_is_dropped() -> None:
    """Otherwise the clauses after the longest text there may be would begin the next utterance."""
    config, text = {"type": "session.config", "split_granularity": "clause"}, {"type": "input.text", "text": "a, b, c"}
    asked = iter([config, text, DONE])

    async def receive() -> Any:
        return {"type": "websocket.receive", "text": json.dumps(next(asked))}

    async def send(message: Any) -> None: ...

    async def run() -> list[Any]:
        socket = TranslatedSocket(vllm_omni.DIALECT, "", receive, send)
        got = [json.loads((await socket.receive())["text"]) for _ in range(2)]
        await socket.send({"type": "websocket.send", "text": '{"type": "session.cancelled", "utterance_index": 0}'})
        return [*got, json.loads((await socket.receive())["text"])]

    assert [message.get("text") for message in asyncio.run(run())[1:]] == ["a,", None]


@pytest.mark.parametrize(
    ("pieces", "flushes"),
    [
        (["First", " this", ",", " then"], 1),
        (["a,", "b"], 0),
        (["1,", "000"], 0),
        (["a,", " ", "b"], 1),
        (["a", " b"], 0),
    ],
)
def test_a_clause_ends_where_its_blank_comes_later(pieces: list[str], flushes: int) -> None:
    session = vllm_omni.DIALECT.session("")
    session.inward({"type": "session.config", "split_granularity": "clause"})
    sent = [message for piece in pieces for message in session.inward({"type": "input.text", "text": piece})]
    assert [message["type"] for message in sent].count("input.flush") == flushes
    assert "".join(message.get("text", "") for message in sent) == "".join(pieces)


def test_a_cancelled_text_is_not_counted_as_committed() -> None:
    """The answer to the next `input.done` is the end of the session's utterance."""
    session = vllm_omni.DIALECT.session("")
    for message in ({"type": "input.text", "text": "Hi."}, {"type": "input.commit"}, {"type": "input.cancel"}):
        session.inward(message)
    session.outward({"type": "session.cancelled", "utterance_index": 0})
    session.inward({"type": "input.done"})
    assert session.outward({"type": "session.done", "total_sentences": 0})[-1]["type"] == "session.done"


def test_several_recordings_are_several_references() -> None:
    asked = vllm_omni._ask_fields({"ref_audio": ["a", "b"], "ref_text": "Words.", "voice": "low"})
    assert asked == {"references": [{"audio": "a", "text": "Words."}, {"audio": "b"}]}


@pytest.mark.parametrize(
    ("dialect", "path", "fields"),
    [
        ("vllm-omni", "/v1/audio/speech/batch", {"voice": "x" * 100_000, "items": [{}] * 1500}),
        ("vllm-omni", "/v1/audio/speech/batch", {"voice": {"id": "x" * 100_000}, "items": [{}] * 1500}),
        ("vllm-omni", "/v1/audio/speech/batch", {"speaker": ["x" * 100] * 1000, "items": [{}] * 1500}),
        ("sglang-omni", "/v1/audio/speech/batch", {"voice": "x" * 250, "items": [{}] * 100_000}),
        ("kokoro-fastapi", "/dev/dialogue", {"turns": [{}] * 100_000}),
    ],
)
def test_a_translated_body_is_not_many_times_as_large(dialect: str, path: str, fields: dict[str, Any]) -> None:
    found = DIALECTS[dialect].find("POST", path)
    assert found is not None
    assert found[0].ask is not None
    given = len(json.dumps(fields))
    assert len(json.dumps(found[0].ask(fields, Call({})))) < 2 * given + 2**20


def test_a_shared_voice_that_is_none_stays_for_the_own_route_to_refuse() -> None:
    asked = vllm_omni._ask_batch({"voice": "x" * 300, "items": [{"input": "Hi."}]}, Call({}))
    assert asked == {"voice": "x" * 300, "items": [{"input": "Hi."}], "response_format": "wav"}
    named = vllm_omni._ask_batch({"voice": {"id": "low"}, "items": [{"input": "Hi."}]}, Call({}))
    assert named == {"items": [{"input": "Hi.", "voice": {"id": "low"}}], "response_format": "wav"}


@pytest.mark.parametrize("pause", ["x" * 100_000, [0] * 1000, True, -1, 61, float("nan"), float("inf"), 10**400])
def test_a_pause_between_turns_is_a_small_number(pause: Any) -> None:
    with pytest.raises(InvalidRequest, match="pause_between_turns"):
        kokoro_fastapi._ask_dialogue({"turns": [{"text": "Hi."}] * 3, "pause_between_turns": pause}, Call({}))


@pytest.mark.parametrize("mix", ["\ud800+a", "a+\udfff(2)", "x" * 5000, "a+" + "x" * 5000])
def test_a_mix_with_a_name_that_no_voice_has_is_refused(mix: str) -> None:
    for ask in (kokoro_fastapi._ask_speech, kokoro_fastapi._ask_captioned):
        with pytest.raises(InvalidRequest):
            ask({"voice": mix}, Call({}))


def test_mixes_of_many_turns_are_not_taken_apart_to_know_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is needed is found on the event loop: 100,000 turns took 1.8 s."""
    monkeypatch.setattr(voice_names, "parts_of", lambda mix: pytest.fail("a mix was taken apart"))
    assert kokoro_fastapi._needs_of_dialogue({"turns": [{"voice": "a+b"}] * 2000}) == ["/v1/models"]
    assert kokoro_fastapi._needs_of_dialogue({"turns": [{"voice": "a"}] * 2000}) == []


@pytest.mark.parametrize("mix", ["af_b+af_c-af_b-af_c", "a(1e308)+b(1e308)", "af_b-af_b+af_c-af_c"])
def test_a_mix_of_nothing_is_refused(mix: str) -> None:
    read = {f"/v1/audio/voices/{name}/embedding": {"embedding": [0.1]} for name in ("a", "b", "af_b", "af_c")}
    with pytest.raises(InvalidRequest):
        kokoro_fastapi._ask_speech({"voice": mix}, Call({}, read=read))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("One. [pause:1.5s] Two.", [(None, 0.0, 'One. <break time="1500ms"/> Two.')]),
        ("[PAUSE:1s][pause:.5s]A & <b>", [(None, 1.0, "[pause:.5s]A &amp; &lt;b&gt;")]),
        ("One. [pause:50s]", [(None, 0.0, "One. " + '<break time="20000ms"/>' * 2 + '<break time="10000ms"/>')]),
        ("A [voice:b] B [voice: c ] [pause:2s]", [(None, 0.0, "A "), ("b", 0.0, ' B <break time="2000ms"/>')]),
        (
            "[voice:b][pause:1s] B [rate:2] C [voice:c]D",
            [("b", 1.0, ' B <prosody rate="2"> C </prosody>'), ("c", 0.0, '<prosody rate="0.5">D</prosody>')],
        ),
        ("A [rate:9] B", [(None, 0.0, 'A <prosody rate="4"> B</prosody>')]),
        ("In [Worcester](/w\u028a/), \x00[x].", [(None, 0.0, "In Worcester, [x].")]),
    ],
)
def test_tags_become_passages(text: str, told: list[tuple[str | None, float, str]]) -> None:
    found = passages(text, lambda name: 0.5 if name == "c" else 1.0, has_voices=True)
    if told[0][0] == "b":
        assert found[0].voice == "b"
    assert [(one.voice, one.pause_s, one.document()) for one in found] == [
        (voice, pause_s, f"<speak>{said}</speak>") for voice, pause_s, said in told
    ]


def test_a_turn_without_a_voice_has_tags_too() -> None:
    fields = {"turns": [{"text": "A [pause:1s] B"}, {"text": "C", "voice": "low"}]}
    asked = kokoro_fastapi._ask_dialogue(fields, Call({}, ("low",)))
    assert asked["segments"] == [
        {"input": '<speak>A <break time="1000ms"/> B</speak>', "pause_s": 0.0},
        {"input": "<speak>C</speak>", "voice": "low", "pause_s": 0.0},
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, {"phonemes": "A wˈʊ."}),
        ({"lang_code": "b"}, {"phonemes": "A wˈʊ."}),
        ({"lang_code": "e"}, {}),
        ({"lang_code": ["a"]}, {}),
        ({"input": "[W](/wˈʊ/) [pause:1s]"}, {}),
        ({"input": "<speak>[W](/wˈʊ/)</speak>", "ssml": True}, {}),
    ],
)
def test_words_with_sounds_are_phonemes_for_models_that_take_these(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], told: dict[str, str]
) -> None:
    monkeypatch.setattr(sounds, "american", str)
    monkeypatch.setattr(sounds, "british", str)
    read = {"/v1/models": {"data": [{"id": "one", "options": {"phonemes": {}}}]}}
    asked = kokoro_fastapi._ask_speech({"input": "A [W](/wˈʊ/).", **fields}, Call({}, read=read))
    assert {name: value for name, value in asked.items() if name == "phonemes"} == told


def test_options_that_cannot_be_obeyed_are_named() -> None:
    text = " ".join(f"www.x{at}.de" for at in range(300))
    options = {"url_normalization": False, "email_normalization": True, "unit_normalization": 1}
    asked = kokoro_fastapi._ask_speech({"input": text, "normalization_options": options}, Call({}))
    named = {"normalization_options.url_normalization": False, "normalization_options.unit_normalization": 1}
    assert asked == {"input": text, **named}


def test_without_voices_their_tags_are_text() -> None:
    (one,) = passages("A [voice:b] [rate:2] B", lambda name: 1.0, has_voices=False)
    assert one.document() == "<speak>A [voice:b] [rate:2] B</speak>"


def test_changes_of_the_voice_are_limited() -> None:
    assert len(passages("[voice:a]x" * 1000, lambda name: 1.0, has_voices=True)) == 1000
    with pytest.raises(InvalidRequest, match="1000"):
        passages("[voice:a]x" * 1001, lambda name: 1.0, has_voices=True)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ('<speak>Hi<break time="750ms"/>there</speak>', "Hi [pause:0.750s] there"),
        (
            '<speak>A <voice name="b">B <prosody rate="slow">C</prosody></voice> D</speak>',
            ("A [voice:b] B [rate:0.75] C [rate:1] [voice:a] D"),
        ),
        (
            '<speak><prosody rate="120%">A<voice name="b">B</voice>C</prosody></speak>',
            ("[rate:1.2] A [voice:b] [rate:1.2] B [voice:a] [rate:1.2] C [rate:1]"),
        ),
        ('<?xml version="1.0"?><speak xmlns="u"><p>A<emphasis>B</emphasis></p><sub alias="c">D</sub></speak>', "AB c"),
        (
            '<speak>A<break strength="x-strong"/><break time="x"/><desc>no</desc></speak>',
            "A [pause:1.500s] [pause:0.500s]",
        ),
        ("no document", "no document"),
    ],
)
def test_ssml_that_is_not_ours_becomes_tags(document: str, text: str) -> None:
    assert tagged(document, "a") == text


@pytest.mark.parametrize(
    "document",
    ["<speak><a></speak>", '<!DOCTYPE x [<!ENTITY a "b">]><speak>&a;</speak>', "<speak>" * 100, "<speak>\ud800"],
)
def test_ssml_that_is_none_is_refused(document: str) -> None:
    with pytest.raises(InvalidRequest):
        tagged(document, "a")


def test_what_stays_as_it_is_written_is_no_more_than_a_lexicon_takes() -> None:
    text = "See https://a.com/b, www.c.de or 10KB & me@a.com; +44 20 7946 0958."
    assert as_written(text, KINDS) == {
        one: one for one in ("https://a.com/b", "www.c.de", "10KB", "&", "me@a.com", "+44 20 7946 0958")
    } | {"@": "@", "+": "+"}
    assert as_written(" ".join(f"www.x{at}.de" for at in range(300)), ["url"]) is None
    assert as_written("https://a.com/" + "/b" * 40, ["url"]) is None


@pytest.mark.parametrize("commit_id", ["x" * 300, ["x"], {}, 1.5, 10**300])
def test_an_id_that_is_kept_is_short(commit_id: Any) -> None:
    with pytest.raises(InvalidRequest):
        list(vllm_omni.DIALECT.session("").inward({"type": "input.commit", "commit_id": commit_id}))


def test_a_whole_file_is_asked_for_unless_a_stream_is() -> None:
    for ask in (vllm_omni._ask_speech, sglang_omni._ask_speech):
        asked = ask({"input": "Hi."}, Call({}))
        assert asked == {"input": "Hi.", "response_format": "wav", "stream": False}
        assert ask({"stream": True}, Call({}))["stream_format"] == "sse"
        assert ask({"stream": "yes"}, Call({}))["stream"] == "yes"  # our own route refuses it


@pytest.mark.parametrize(
    ("name", "voice"),
    [("heart", "heart"), ("af_heart", "heart"), ("af_sky", "af_sky"), ("nobody", "nobody"), ("af_heart(2)", "heart")],
)
def test_names_of_kokoro(name: str, voice: str) -> None:
    assert kokoro_fastapi._ask_speech({"voice": name}, Call({}, ("heart", "af_sky")))["voice"] == voice


def test_an_unknown_voice_of_kokoro_is_no_preset_that_would_be_downloaded_by_chance() -> None:
    presets = set(OPENAI_VOICES) - {"sage"}
    names = [f"af_{letter}" for letter in "abcdefghijklmn"]
    found = {kokoro_fastapi._ask_speech({"voice": name}, Call({}, presets))["voice"] for name in names}
    assert found == {"sage"}


@pytest.mark.parametrize(
    ("mix", "can", "voice"),
    [
        ("af_heart(2)+af_sky(1)", ["mixes"], "heart(2)+af_sky(1)"),
        ("af_heart + af_sky(3)", ["presets"], "af_sky"),
        ("af_heart-af_sky", ["mixes"], "heart"),
        ("my-voice", ["mixes"], "my-voice"),
    ],
)
def test_a_mix_of_presets_is_spoken_by_models_that_mix_them(mix: str, can: list[str], voice: str) -> None:
    models = {"data": [{"id": "other", "capabilities": []}, {"id": "one", "capabilities": can}]}
    call = Call({}, ("heart", "af_sky"), read={"/v1/models": models})
    assert kokoro_fastapi._ask_speech({"voice": mix, "model": "one"}, call)["voice"] == voice
    assert ("X-Ignored-Fields" in call.told) == (voice in ("af_sky", "heart"))


# --- answers ---


def translated(
    row: Row, *messages: dict[str, Any], kind: str = "text/event-stream", status: int = 200, kept: Any = None
) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        answer = TranslatedAnswer(vllm_omni.DIALECT, row, Call({}, kept=kept or {}), send)
        headers = [(b"content-type", kind.encode())]
        await answer.send({"type": "http.response.start", "status": status, "headers": headers})
        for message in messages:
            await answer.send({"type": "http.response.body", **message})

    asyncio.run(run())
    return sent


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_events_are_translated_however_they_are_cut(size: int) -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    delta = b'event: speech.audio.delta\ndata: {"type": "speech.audio.delta", "audio": "AA=="}\n\n'
    done = json.dumps({"type": "speech.audio.done", "usage": usage}).encode()
    stream = delta + b"event: speech.audio.done\ndata: " + done + b"\n\n"
    pieces = [{"body": stream[at : at + size], "more_body": True} for at in range(0, len(stream), size)]
    sent = translated(vllm_omni.DIALECT.rows[0], *pieces, {"body": b""}, kept={"format": "pcm"})
    body = b"".join(message["body"] for message in sent[1:])
    assert json.loads(body.split(b"\n")[1][6:]) == {
        "type": "speech.audio.delta",
        "audio": "AA==",
        "response_format": "pcm",
    }
    assert b'"input_token_details": {"text_tokens": 1' in body
    assert not sent[-1].get("more_body", False)


def test_an_event_is_sent_as_soon_as_it_is_complete() -> None:
    delta = b'event: speech.audio.delta\ndata: {"audio": "AA=="}\n\n'
    sent = translated(
        vllm_omni.DIALECT.rows[0], {"body": delta + b"event: x", "more_body": True}, kept={"format": "wav"}
    )
    assert sent[1]["body"].endswith(b'"response_format": "wav"}\n\n')


def test_a_failure_midway_is_an_event_of_theirs() -> None:
    fields = {"type": "error", "error": {"message": "No.", "type": "x", "param": None, "code": "y"}}
    error = f"event: error\ndata: {json.dumps(fields)}\n\n".encode()
    told = translated(vllm_omni.DIALECT.rows[0], {"body": error})[1]["body"].decode()
    assert told.startswith("event: speech.audio.error\n")
    failed = json.loads(told.splitlines()[1][6:])["error"]
    assert (failed["type"], failed["code"], "partial_audio" in failed) == ("server_error", 500, False)
    delta = b'event: speech.audio.delta\ndata: {"audio": "AA=="}\n\n'
    told = translated(vllm_omni.DIALECT.rows[0], {"body": delta + error}, kept={"format": "pcm"})[1]["body"].decode()
    failed = json.loads(told.splitlines()[4][6:])["error"]
    assert (failed["partial_audio"], failed["action"]) == (True, "discard")
    kept = {"is_chunked": True}
    told = translated(sglang_omni.DIALECT.rows[0], {"body": error}, kept=kept)[1]["body"].decode()
    assert told.endswith("data: [DONE]\n\n")
    assert '"message": "No."' in told
    told = translated(sglang_omni.DIALECT.rows[0], {"body": error}, kept={"is_chunked": False})[1]["body"].decode()
    assert json.loads(told.removeprefix("data: ")).keys() == {"type", "error"}


@pytest.mark.parametrize(
    ("kind", "code", "told"),
    [
        ("invalid_request_error", "invalid_value", ("BadRequestError", 400)),
        ("invalid_request_error", "model_not_found", ("invalid_request_error", "model_not_found")),
        ("server_error", "generation_failed", ("server_error", None)),
        ("rate_limit_error", "queue_full", ("rate_limit_error", "queue_full")),
    ],
)
def test_errors_of_sglang_omni(kind: str, code: str, told: tuple[str, Any]) -> None:
    error = {"message": "No.", "type": kind, "param": None, "code": code}
    there = sglang_omni._error(500, error)["error"]
    assert (there["type"], there["code"]) == told
    event = played(sglang_omni, {"type": "error", "message": "No.", "error": error})[0]
    assert (event["error_type"], event.get("code"), event["message"]) == (*told, "No.")
    assert "param" not in event


def test_audio_passes_untouched() -> None:
    sent = translated(vllm_omni.DIALECT.rows[0], {"body": b"\n\nRIFF", "more_body": True}, kind="audio/wav")
    assert sent[1]["body"] == b"\n\nRIFF"


def test_an_error_of_another_protocol_passes_untouched() -> None:
    body = b'{"detail": {"status": "x"}}'
    sent = translated(vllm_omni.DIALECT.rows[0], {"body": body}, kind="application/json", status=400)
    assert b"".join(message.get("body", b"") for message in sent) == body


# --- sockets ---

START = {"type": "audio.start", "sentence_text": "Hi.", "format": "pcm", "sample_rate": 24_000, "channels": 1}
FAILURE = {
    "type": "error",
    "message": "No.",
    "error": {"message": "No.", "type": "server_error", "param": None, "code": "x"},
}
DONE = {"type": "input.done"}


def played(dialect: Any, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns what a client hears of a session; messages are its own, or the server's."""
    session = dialect.DIALECT.session("abc")
    told: list[dict[str, Any]] = []
    for message in messages:
        if message["type"].startswith(("input", "session.config")):
            session.inward(message)
        else:
            told += session.outward(message)
    return told


def spoken(index: int) -> list[dict[str, Any]]:
    where = {"utterance_index": 0, "sentence_index": index}
    return [{**START, **where}, {"type": "audio.done", **where, "finish_reason": "stop"}]


@pytest.mark.parametrize("dialect", [vllm_omni, sglang_omni])
def test_a_sentence_that_fails_before_its_audio_has_an_end_of_its_own(dialect: Any) -> None:
    """A client that saves a file per `audio.done` must not lose the sentence before."""
    told = played(dialect, DONE, *spoken(0), {**FAILURE, "utterance_index": 0}, *spoken(2))
    assert [event["type"] for event in told] == [
        *("audio.start", "audio.done"),
        *("audio.start", "error", "audio.done"),
        *("audio.start", "audio.done"),
    ]
    done = [event for event in told if event["type"] == "audio.done"]
    assert [(event["sentence_index"], event["error"]) for event in done] == [(0, False), (1, True), (2, False)]
    assert done[1]["total_bytes"] == 0
    assert told[2]["sentence_index"] == 1


def test_a_commit_that_is_refused_is_not_waited_for() -> None:
    full = {"type": "error", "message": "No.", "error": {**FAILURE["error"], "code": "queue_full"}}
    ended = {"type": "session.done", "total_sentences": 0}
    told = played(vllm_omni, {"type": "input.commit"}, {"type": "input.commit"}, full, DONE, ended, ended)
    assert [event["type"] for event in told] == ["error", "input.committed", "session.done"]


def test_a_sentence_that_fails_midway_ends_once_and_is_to_be_discarded() -> None:
    session = vllm_omni.DIALECT.session("")
    session.outward({**START, "utterance_index": 0, "sentence_index": 0})
    session.heard(480)
    error, done = session.outward({**FAILURE, "utterance_index": 0})
    assert (error["partial_audio"], error["action"]) == (True, "discard")
    assert (done["sentence_index"], done["total_bytes"], done["error"]) == (0, 480, True)


def test_sentences_are_counted_from_the_start_after_each_utterance() -> None:
    ended = {"type": "session.done", "total_sentences": 1}
    told = played(vllm_omni, DONE, *spoken(0), ended, DONE, *spoken(0), ended)
    assert [(event["utterance_index"], event.get("sentence_index")) for event in told] == [
        *[(0, 0), (0, 0), (0, None)],
        *[(1, 0), (1, 0), (1, None)],
    ]
    assert "session_id" not in told[2]


def test_events_of_sglang_have_ids() -> None:
    ended = {"type": "session.done", "total_sentences": 1}
    told = played(sglang_omni, DONE, {"type": "session.updated"}, *spoken(0), ended)
    assert [(event.get("session_id"), event.get("id")) for event in told] == [
        *[("abc", None), (None, "abc-0"), (None, "abc-0")],
        ("abc", None),
    ]


def test_words_come_after_the_audio_of_a_sentence_and_silence_has_none() -> None:
    config = {"type": "session.config", "word_timestamps": True, "response_format": "pcm", "stream_audio": True}
    start, done = spoken(0)
    audio = {"type": "audio.chunk", "audio_b64": "AAAA" * 80}  # 240 bytes, which take 5 ms
    words = {"type": "audio.words", "words": [{"word": "Hi", "start": 0.001, "end": 0.004}]}
    told = played(vllm_omni, config, {"type": "input.text", "text": "Hi."}, DONE, start, audio, words, audio, done)
    assert told[0]["word_timestamps"] is True
    chunks = [event for event in told if event["type"] == "audio.chunk"]
    assert [(chunk["chunk_start_ms"], chunk["chunk_end_ms"]) for chunk in chunks] == [(0, 5), (5, 10), (0, 10)]
    assert [chunk["timestamps"] for chunk in chunks] == [None, None, [{"word": "Hi", "start_ms": 1.0, "end_ms": 4.0}]]
    assert {(chunk["sample_rate"], chunk["channels"]) for chunk in chunks} == {(24_000, 1)}
    assert (told[-1]["total_bytes"], chunks[-1]["audio_b64"]) == (480, "")
    silent = played(vllm_omni, config, {"type": "input.text", "text": "..."}, DONE, start, audio, done)
    assert [event.get("timestamps") for event in silent[1:-1]] == [None, []]


def test_words_of_a_whole_file_come_before_it_and_are_told_after_it() -> None:
    config = {"type": "session.config", "word_timestamps": True, "response_format": "wav"}
    start, done = spoken(0)
    words = {"type": "audio.words", "words": [{"word": "Hi", "start": 0.001, "end": 0.004}]}
    audio = {"type": "audio.chunk", "audio_b64": base64.b64encode(bytes(44 + 480)).decode()}
    told = played(
        vllm_omni, config, {"type": "input.text", "text": "Hi."}, DONE, words, {**start, "format": "wav"}, audio, done
    )
    assert [event["type"] for event in told] == ["audio.start", "audio.chunk", "audio.chunk", "audio.done"]
    assert told[2]["timestamps"] == [{"word": "Hi", "start_ms": 1.0, "end_ms": 4.0}]
    assert (told[2]["chunk_end_ms"], told[3]["total_bytes"]) == (10, 524)


def test_a_configuration_counts_for_the_text_after_it_only() -> None:
    words = {"type": "session.config", "word_timestamps": True}
    first, second = {"type": "input.text", "text": "Hi."}, {"type": "session.config"}
    told = played(vllm_omni, words, first, DONE, second, *spoken(0))
    assert told[0]["word_timestamps"] is True


def test_an_idle_session_is_closed_without_a_complaint_in_the_code() -> None:
    for dialect in (vllm_omni, sglang_omni):
        session = dialect.DIALECT.session("")
        error = {"type": "server_error", "param": None, "code": "timeout"}
        session.outward({"type": "error", "message": "No.", "error": error})
        assert session.closes


def test_a_socket_is_closed_once_and_then_silent() -> None:
    sent: list[Any] = []
    asked = iter([{"type": "websocket.receive", "text": '{"type": "input.done"}'}])

    async def receive() -> Any:
        return next(asked)

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        socket = TranslatedSocket(sglang_omni.DIALECT, "", receive, send)
        assert json.loads((await socket.receive())["text"]) == {"type": "input.done"}
        await socket.send({"type": "websocket.send", "text": '{"type": "session.done", "total_sentences": 0}'})
        await socket.send({"type": "websocket.send", "text": '{"type": "error"}'})
        assert (await socket.receive())["type"] == "websocket.disconnect"

    asyncio.run(run())
    assert [message["type"] for message in sent] == ["websocket.send", "websocket.close"]


@pytest.mark.parametrize("raw", ["{", "[1]", "[" * 100_000, '{"a": ' * 5000, '"\ud800"', "[" + "1," * 200_000 + "1]"])
def test_a_message_that_cannot_be_read_passes_untouched(raw: str) -> None:
    async def receive() -> Any:
        return {"type": "websocket.receive", "text": raw}

    async def send(message: Any) -> None:
        raise AssertionError

    assert asyncio.run(TranslatedSocket(vllm_omni.DIALECT, "", receive, send).receive())["text"] == raw
