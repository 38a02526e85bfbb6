import pytest

from rhapsode.bench.serve.target import make_target
from rhapsode.errors import InvalidRequest


def test_each_server_is_asked_in_its_own_words(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    ours = make_target("localhost:8000", "rhapsode", voice="heart")
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
    vllm = make_target("http://gpu:8091/", "vllm-omni", model="Qwen/Qwen3-TTS", voice="vivian")
    assert vllm.body("Hi.", 7) == {
        "input": "Hi.",
        "model": "Qwen/Qwen3-TTS",
        "voice": "vivian",
        "response_format": "pcm",
        "stream": True,
    }
    openai = make_target("https://api.openai.com/v1", "openai")
    assert openai.url == "https://api.openai.com/v1/audio/speech"
    assert openai.body("Hi.", 7)["model"] == "gpt-4o-mini-tts"
    assert "seed" not in openai.body("Hi.", 7)
    assert openai.headers() == {"Authorization": "Bearer sk-1"}


def test_any_field_can_be_set_or_left_out():
    target = make_target("http://x:1/speak", "rhapsode", extra={"stream_format": None, "max_new_tokens": 52})
    assert target.url == "http://x:1/speak"
    assert target.body("Hi.", 0)["max_new_tokens"] == 52
    assert "stream_format" not in target.body("Hi.", 0)


@pytest.mark.parametrize(
    ("url", "dialect"), [("ftp://x", "rhapsode"), ("http://", "rhapsode"), ("http://x", "vlm-omni")]
)
def test_what_cannot_be_measured_is_said(url, dialect):
    with pytest.raises(InvalidRequest):
        make_target(url, dialect)
