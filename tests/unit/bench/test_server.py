import pytest

from rhapsode.bench.serve.server import speech_server
from rhapsode.errors import InvalidRequest


def test_each_kind_of_server_gets_the_request_it_expects(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    ours = speech_server("localhost:8000", "rhapsode", voice="heart")
    assert ours.url == "http://localhost:8000/v1/audio/speech"
    assert ours.body("Hi.", 7) == {
        "input": "Hi.",
        "voice": "heart",
        "seed": 7,
        "response_format": "pcm",
        "stream": True,
        "stream_format": "audio",
    }
    assert ours.headers() == {}
    vllm = speech_server("http://gpu:8091/", "vllm-omni", model="Qwen/Qwen3-TTS", voice="vivian")
    assert vllm.body("Hi.", 7) == {
        "input": "Hi.",
        "model": "Qwen/Qwen3-TTS",
        "voice": "vivian",
        "response_format": "pcm",
        "stream": True,
    }
    openai = speech_server("https://api.openai.com/v1", "openai")
    assert openai.url == "https://api.openai.com/v1/audio/speech"
    assert openai.body("Hi.", 7)["model"] == "gpt-4o-mini-tts"
    assert "seed" not in openai.body("Hi.", 7)
    assert openai.headers() == {"Authorization": "Bearer sk-1"}


def test_any_field_can_be_set_or_left_out():
    server = speech_server("http://x:1/speak", "rhapsode", extra={"stream_format": None, "max_new_tokens": 52})
    assert server.url == "http://x:1/speak"
    assert server.body("Hi.", 0)["max_new_tokens"] == 52
    assert "stream_format" not in server.body("Hi.", 0)


@pytest.mark.parametrize(("url", "kind"), [("ftp://x", "rhapsode"), ("http://", "rhapsode"), ("http://x", "vlm-omni")])
def test_a_bad_address_or_an_unknown_kind_is_an_error(url, kind):
    with pytest.raises(InvalidRequest):
        speech_server(url, kind)
