import base64
import json

import numpy as np
import pytest

from rhapsode.audio.encode import Encoder, encode
from rhapsode.bench.serve.pcm_reader import BadResponse, EventReader, RawReader, WavReader, reader_for
from rhapsode.types import Clip

SAMPLES = (np.sin(np.arange(480) * 0.1) * 20_000).astype(np.int16)
CLIP = Clip((SAMPLES / np.float32(32768)).astype(np.float32)[None], 24_000)


def read(reader, data, step):
    pieces = [reader.feed(data[i : i + step]) for i in range(0, len(data), step)]
    reader.close()
    return np.concatenate(pieces)


@pytest.mark.parametrize("step", [1, 3, 7, 10_000])
def test_raw_samples_may_be_cut_anywhere(step):
    np.testing.assert_array_equal(read(RawReader(24_000), SAMPLES.tobytes(), step), SAMPLES)


def test_half_a_sample_at_the_end_is_an_error():
    reader = RawReader(24_000)
    reader.feed(b"abc")
    with pytest.raises(BadResponse, match="half"):
        reader.close()


@pytest.mark.parametrize("step", [1, 11, 10_000])
def test_a_wav_file_is_read_whole_and_as_a_stream(step):
    streamed = Encoder("wav", 24_000)
    for data in (encode(CLIP, "wav"), streamed.write(CLIP.samples) + streamed.close()):
        reader = WavReader()
        np.testing.assert_array_equal(read(reader, data, step), SAMPLES)
        assert (reader.sample_rate, reader.channels) == (24_000, 1)


def test_something_else_than_a_wav_file_is_an_error():
    with pytest.raises(BadResponse, match="WAV"):
        WavReader().feed(b"<html>not found</html>")
    with pytest.raises(BadResponse, match="header"):
        WavReader().close()


def events(*contents):
    return b"".join(b"data: " + (c if isinstance(c, bytes) else json.dumps(c).encode()) + b"\n\n" for c in contents)


@pytest.mark.parametrize("step", [5, 10_000])
def test_openai_events(step):
    half = [base64.b64encode(part.tobytes()).decode() for part in (SAMPLES[:240], SAMPLES[240:])]
    deltas = [{"type": "speech.audio.delta", "audio": part} for part in half]
    data = events(*deltas, {"type": "speech.audio.done", "usage": {"total_tokens": 3}})
    np.testing.assert_array_equal(read(EventReader(24_000), data, step), SAMPLES)


def test_events_that_carry_wav_files_in_an_object():
    audio = {"data": base64.b64encode(encode(CLIP, "wav")).decode(), "sample_rate": 24_000}
    data = events({"audio": audio}, {"audio": None, "finish_reason": "stop"}, b"[DONE]")
    np.testing.assert_array_equal(read(EventReader(16_000), data, 100), SAMPLES)


def test_an_error_event_is_an_error():
    with pytest.raises(BadResponse, match="too hot") as caught:
        EventReader(24_000).feed(events({"type": "error", "error": {"message": "too hot"}}))
    assert caught.value.kind == "error event"


def test_events_without_a_final_one_were_dropped():
    reader = EventReader(24_000)
    reader.feed(events({"type": "speech.audio.delta", "audio": ""}))
    with pytest.raises(BadResponse) as caught:
        reader.close()
    assert caught.value.kind == "dropped"


def test_the_content_type_chooses_the_reader():
    assert reader_for("audio/pcm", {"x-sample-rate": "16000", "x-channels": "2"}, None).sample_rate == 16_000
    assert reader_for("audio/pcm;rate=24000", {}, None).sample_rate == 24_000
    assert reader_for("audio/pcm", {"x-sample-rate": "16000"}, 48_000).sample_rate == 48_000
    assert isinstance(reader_for("audio/x-wav", {}, None), WavReader)
    assert isinstance(reader_for("text/event-stream; charset=utf-8", {}, None), EventReader)
    with pytest.raises(BadResponse, match="only pcm and wav"):
        reader_for("audio/mpeg", {}, None)
