"""Stereo speech in every format: two channels that differ, streamed or whole, at any speed and rate."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hearing import hear
from rhapsode.audio.formats import FORMATS
from rhapsode.engine.speech import Speech
from rhapsode.serve.response.delivery import Delivery, Playback
from rhapsode.types import AudioChunk, Clip, FinishReason, Outcome, SpeechRequest

RATE = 48_000
LEFT_HZ, RIGHT_HZ = 440.0, 1250.0
MP3_DELAY = 1105
TONES = np.stack([0.4 * np.sin(2 * np.pi * hz * np.arange(RATE) / RATE) for hz in (LEFT_HZ, RIGHT_HZ)])


class Controls:
    def append(self, request_id: str, text: str, final: bool = False) -> None: ...

    def abort(self, request_id: str) -> None: ...


def played(chunk: int, speed: float = 1.0, **wishes) -> tuple[bytes, int, int]:
    """Everything a listener of stereo speech gets, and the rate and the channels it is told of."""
    speech = Speech("a", RATE, 2, Controls(), max_unread_s=60.0)
    for i, start in enumerate(range(0, RATE, chunk)):
        speech.push(AudioChunk(TONES[:, start : start + chunk].astype(np.float32), RATE, i))
    speech.end(Outcome("a", FinishReason.STOP, 1.0, 50, 0.0, 0.0, 0.1), None)

    async def run() -> tuple[bytes, int, int]:
        with ThreadPoolExecutor(1) as pool:
            playback = Playback(speech, SpeechRequest("Hi.", speed=speed), Delivery(**wishes), pool)
            return await playback.whole(), playback.sample_rate, playback.channels

    return asyncio.run(run())


def heard(data: bytes, name: str, rate: int, channels: int) -> Clip:
    samples, rate = hear(data, name, channels, rate)
    return Clip(samples, rate)


def loudest_hz(samples: np.ndarray, rate: int) -> float:
    middle = samples[len(samples) // 4 : -len(samples) // 4]
    return float(np.abs(np.fft.rfft(middle * np.hanning(len(middle)))).argmax() * rate / len(middle))


@pytest.mark.parametrize("mode", ["audio", "whole"])
@pytest.mark.parametrize("name", FORMATS)
def test_each_format_carries_two_different_channels(name: str, mode: str) -> None:
    data, rate, channels = played(960, format=FORMATS[name], mode=mode, channels=2)
    clip = heard(data, name, rate, channels)
    assert (channels, clip.channels) == (2, 2)
    assert clip.duration_s == pytest.approx(1.0, abs=0.1)
    for samples, hz in zip(clip.samples, (LEFT_HZ, RIGHT_HZ), strict=True):
        assert loudest_hz(samples, clip.sample_rate) == pytest.approx(hz, abs=5)


@pytest.mark.parametrize("name", FORMATS)
def test_stereo_streams_as_it_would_come_whole(name: str) -> None:
    """Sample for sample, however it is cut. The header of a whole mp3 names the encoder's delay, and it is skipped."""
    streamed, rate, channels = played(777, format=FORMATS[name], channels=2)
    whole, _, _ = played(RATE, format=FORMATS[name], mode="whole", channels=2)
    expected = heard(whole, name, rate, channels).samples
    found = heard(streamed, name, rate, channels).samples[:, MP3_DELAY if name == "mp3" else 0 :]
    np.testing.assert_array_equal(found[:, : expected.shape[1]], expected)
    assert name == "mp3" or found.shape == expected.shape


@pytest.mark.parametrize("name", FORMATS)
def test_pcm_and_telephony_are_mono_by_default_and_other_formats_are_as_the_model_made_them(name: str) -> None:
    data, rate, channels = played(960, format=FORMATS[name])
    expected = 2 if name in ("mp3", "opus", "aac", "flac", "wav") else 1
    assert channels == heard(data, name, rate, channels).channels == expected


@pytest.mark.parametrize("name", FORMATS)
def test_mono_on_request_has_both_channels_in_it(name: str) -> None:
    data, rate, channels = played(960, format=FORMATS[name], channels=1)
    clip = heard(data, name, rate, channels)
    assert (channels, clip.channels) == (1, 1)
    spectrum = np.abs(np.fft.rfft(clip.samples[0]))
    hz = np.fft.rfftfreq(clip.samples.shape[1], 1 / clip.sample_rate)
    tones = [spectrum[np.abs(hz - tone) < 10].max() for tone in (LEFT_HZ, RIGHT_HZ)]
    assert min(tones) > 20 * np.median(spectrum)
    assert max(tones) < 2 * min(tones)


@pytest.mark.parametrize("name", FORMATS)
def test_events_are_mono_unless_stereo_is_asked_for(name: str) -> None:
    assert Delivery(FORMATS[name], "sse").channels_from(2) == 1
    assert Delivery(FORMATS[name], "sse", channels=2).channels_from(2) == 2


def test_a_mono_model_stays_mono_and_can_be_heard_on_both_sides() -> None:
    assert Delivery(FORMATS["mp3"]).channels_from(1) == 1
    assert Delivery(FORMATS["mp3"], channels=2).channels_from(1) == 2


@pytest.mark.parametrize("chunk", [333, 4800])
def test_speed_and_rate_keep_the_channels_apart(chunk: int) -> None:
    data, rate, channels = played(chunk, 1.6, format=FORMATS["wav"], sample_rate=24_000)
    clip = heard(data, "wav", rate, channels)
    assert (clip.sample_rate, clip.channels) == (24_000, 2)
    assert clip.duration_s == pytest.approx(1 / 1.6, abs=0.01)
    for samples, hz in zip(clip.samples, (LEFT_HZ, RIGHT_HZ), strict=True):
        assert loudest_hz(samples, 24_000) == pytest.approx(hz, abs=10)
