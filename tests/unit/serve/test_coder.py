"""From chunks to bytes: what is plain is as cheap as possible, and has the same bytes."""

from dataclasses import replace

import numpy as np
import pytest

from rhapsode.audio.formats import FORMATS, PCM
from rhapsode.audio.samples import from_pcm16, pcm16
from rhapsode.engine.speech import Speech
from rhapsode.errors import GenerationFailed
from rhapsode.serve.response.coder import FullCoder, Output, PlainCoder
from rhapsode.serve.response.silence import silent_speech
from rhapsode.serve.response.times import HeardTimes
from rhapsode.types import AudioChunk, Segment, SpeechRequest

RATE = 24_000
REQUEST = SpeechRequest("Hello.")


def speech_of(channels: int = 1) -> Speech:
    class Spec:
        sample_rate = RATE

    Spec.channels = channels
    return silent_speech("a", Spec)


def chunks_of(channels: int) -> list[AudioChunk]:
    """Some chunks as a CPU makes them, some as a GPU does."""
    rng = np.random.default_rng(0)
    made = []
    for index, length in enumerate((1, 480, 0, 777)):
        samples = (rng.standard_normal((channels, length)) * 0.7).astype(np.float32)
        values = pcm16(samples) if index % 2 else None
        made.append(AudioChunk(samples if values is None else from_pcm16(values), RATE, index, pcm16=values))
    return made


@pytest.mark.parametrize("channels", [1, 2])
def test_plain_bytes_are_those_of_the_whole_way(channels: int) -> None:
    speech, output = speech_of(channels), Output(PCM, RATE, channels)
    assert PlainCoder.fits(speech, REQUEST, output, None)
    plain, full = PlainCoder(), FullCoder(speech, REQUEST, output, HeardTimes())
    first, *others = chunks_of(channels)
    written = [coder.write([first]) + coder.write(others) + coder.close() for coder in (plain, full)]
    assert len(written[0]) == (1 + 480 + 777) * channels * 2
    assert written[0] == written[1]


def test_sixteen_bits_are_sent_as_they_came() -> None:
    """They are not looked up in the samples again."""
    chunk = AudioChunk(np.zeros((1, 3), np.float32), RATE, pcm16=np.array([[1, -2, 32767]], np.int16))
    assert PlainCoder().write([chunk]) == np.array([1, -2, 32767], "<i2").tobytes()


def test_what_is_no_number_is_not_sent() -> None:
    chunk = AudioChunk(np.full((1, 3), np.nan, np.float32), RATE)
    with pytest.raises(GenerationFailed):
        PlainCoder().write([chunk])


@pytest.mark.parametrize(
    "request_",
    [
        replace(REQUEST, speed=1.1),
        replace(REQUEST, loudness=-16.0),
        replace(REQUEST, volume=0.5),
        replace(REQUEST, input_type="ssml"),
        replace(REQUEST, word_timestamps=True),
        replace(REQUEST, segments=(Segment("Hello."),)),
    ],
)
def test_what_a_request_changes_is_not_plain(request_: SpeechRequest) -> None:
    assert not PlainCoder.fits(speech_of(), request_, Output(PCM, RATE, 1), None)


@pytest.mark.parametrize(
    "output",
    [
        Output(FORMATS["wav"], RATE, 1),
        Output(FORMATS["l16"], RATE, 1),
        Output(PCM, RATE, 1, is_whole=True),
        Output(PCM, 16_000, 1),
        Output(PCM, RATE, 2),
    ],
)
def test_what_a_client_wants_otherwise_is_not_plain(output: Output) -> None:
    assert not PlainCoder.fits(speech_of(), REQUEST, output, None)
