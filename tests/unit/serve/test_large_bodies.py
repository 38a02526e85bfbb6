"""Large bodies are translated without reading, or writing, what is large in them."""

import asyncio
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from rhapsode.serve.dialects import sglang_omni, vllm_omni
from rhapsode.serve.dialects.dialect import Call
from rhapsode.serve.dialects.middleware import TranslatedBody, TranslatedSocket
from rhapsode.serve.request.large import LONG_BODY_BYTES, LargeObject

LONG = LONG_BODY_BYTES
TEXTS = {
    "a recording": "data:audio/wav;base64," + "A" * LONG,
    "emoji": "\U0001f600" * LONG,
    "quotes": '"' * 100_000 + "x" * LONG,
    "backslashes": "\\" * LONG,
    "backslashes before quotes": "\\" * LONG + '"' + "\\" * 7,
    "control characters": "\n\x00" * (LONG // 4),
    "half a pair": "\ud800" + "x" * LONG + "\udfff",
    "an escape where it is cut": "x" * 63 + "\n" + "y" * LONG,
    "a letter where it is cut": "x" * 63 + "\u00e9" + "y" * LONG,
}


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("kind", TEXTS)
def test_a_long_string_comes_back_as_it_was(kind: str, ascii_only: bool) -> None:
    given = {"input": "Hi. \u00e9", "a": [TEXTS[kind], {"b": TEXTS[kind][:-1]}], "seed": 7, TEXTS[kind][:20_000]: None}
    data = json.dumps(given, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    read = LargeObject(data)
    assert read.fields is not None
    assert (read.fields["input"], read.fields["seed"]) == ("Hi. \u00e9", 7)
    assert len(json.dumps(read.fields)) < 10_000
    assert json.loads(read.write(read.fields)) == given


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": "' + b"x" * LONG,
        b'{"a": "' + b'\\"' * LONG + b'"}',
        b"[" + b'"",' * LONG + b'""]',
        b"[" + b'"xxxxxxxxxxx",' * 90_000 + b"1]",
        b'{"a": "x"' + b" " * 9 * LONG + b"}",
        ('{"a": "' + "x" * LONG + '"}').encode("utf-16"),
    ],
)
def test_what_has_too_much_beside_long_strings_is_not_read(data: bytes) -> None:
    assert LargeObject(data).fields is None


def asked(dialect: Any, data: bytes, after: Callable[[], Any] = lambda: None) -> bytes:
    row = dialect.DIALECT.find("POST", "/v1/audio/speech")[0]

    async def receive() -> Any:
        return {"type": "http.request", "body": data, "more_body": False}

    async def read(path: str) -> Any:
        raise AssertionError

    async def run() -> bytes:
        message = await TranslatedBody(row, Call({}), lambda names: (), read, receive).receive()
        after()
        return message["body"]

    return asyncio.run(run())


def test_a_recording_is_passed_on_as_base64_with_its_type() -> None:
    reference = {"base64": "A" * 2 * LONG, "media_type": "audio/mpeg", "text": "Words."}
    told = json.loads(asked(sglang_omni, json.dumps({"input": "Hi.", "references": [reference]}).encode()))
    assert told["references"] == [{"audio_path": "data:audio/mpeg;base64," + "A" * 2 * LONG, "text": "Words."}]


def test_a_long_shared_name_is_not_copied_into_the_items_of_a_batch() -> None:
    fields = {"voice": "x" * 2 * LONG, "items": [{"input": "Hi."}] * 1000}
    row = vllm_omni.DIALECT.find("POST", "/v1/audio/speech/batch")[0]
    read = LargeObject(json.dumps(fields).encode())
    assert len(read.write(row.ask(read.fields, Call({})))) < 2 * LONG + 100_000


@pytest.mark.parametrize("text", ["\U0001f600" * 2 * LONG, "A" * 8 * LONG, "\u00e9" * 1000])
def test_a_body_does_not_grow_and_takes_little_memory(text: str) -> None:
    data = json.dumps({"input": text}, ensure_ascii=False).encode()
    peaks: list[int] = []
    tracemalloc.start()
    try:
        translated = asked(vllm_omni, data, lambda: peaks.append(tracemalloc.get_traced_memory()[1]))
    finally:
        tracemalloc.stop()
    assert len(translated) < len(data) + 100
    assert peaks[0] < 2.5 * len(data) + 2**20


def test_a_configuration_with_a_recording_is_passed_on() -> None:
    config = {"type": "session.config", "ref_audio": "data:audio/wav;base64," + "A" * 2 * LONG, "voice": "low"}

    async def receive() -> Any:
        return {"type": "websocket.receive", "text": json.dumps(config)}

    async def send(message: Any) -> None: ...

    text = asyncio.run(TranslatedSocket(vllm_omni.DIALECT, "", receive, send).receive())["text"]
    assert json.loads(text)["ref_audio"] == config["ref_audio"]
