from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pytest

from rhapsode.audio.av_mux import CODECS
from rhapsode.audio.decode import decode
from rhapsode.audio.encode import encode
from rhapsode.audio.resample import resample
from rhapsode.audio.tempo import Tempo
from rhapsode.marking.detect import Detection, detect
from rhapsode.marking.payload import Payload
from rhapsode.marking.watermark import Watermark
from rhapsode.types import Clip

NOW = datetime(2026, 11, 15, tzinfo=UTC)
PAYLOAD = Payload.at("radio", NOW)


@pytest.fixture(scope="module")
def marked(voice) -> np.ndarray:
    return Watermark(PAYLOAD, 24_000).write(voice(6.0))


def found(samples: np.ndarray, rate: int = 24_000) -> Detection:
    return detect(Clip(samples, rate), NOW)


def is_radio(detection: Detection) -> bool:
    return detection.found and detection.payload == PAYLOAD and detection.confidence > 0.999


def at_bit_rate(samples: np.ndarray, name: str, bit_rate: int, monkeypatch: pytest.MonkeyPatch) -> Clip:
    from dataclasses import replace

    monkeypatch.setitem(CODECS, name, replace(CODECS[name], bit_rate=bit_rate))
    return decode(encode(Clip(samples, 24_000), name))


def test_the_payload_is_found_in_five_seconds_from_anywhere(marked):
    assert is_radio(found(marked[:, 12_345 : 12_345 + 5 * 24_000]))


@pytest.mark.parametrize("seed", range(3))
def test_audio_without_a_watermark_is_not_marked(voice, seed):
    detection = found(voice(5.0, seed=seed))
    assert not detection.found
    assert detection.payload is None
    assert detection.confidence < 0.5


@pytest.mark.parametrize(("name", "bit_rate"), [("mp3", 64_000), ("opus", 24_000), ("aac", 64_000)])
def test_it_survives_codecs(marked, name, bit_rate, monkeypatch):
    assert is_radio(detect(at_bit_rate(marked, name, bit_rate, monkeypatch), NOW))


@pytest.mark.parametrize("speed", [0.9, 1.1])
def test_it_survives_another_speed_at_the_same_pitch(marked, speed):
    tempo = Tempo(speed, 24_000)
    assert is_radio(found(np.concatenate((tempo.write(marked), tempo.close()), axis=1)))


@pytest.mark.parametrize("speed", [0.9, 1.1])
def test_it_survives_another_speed_and_pitch_and_the_speed_is_known(marked, speed):
    detection = found(resample(marked, round(24_000 * speed), 24_000))
    assert is_radio(detection)
    assert detection.speed == pytest.approx(speed, abs=0.003)


CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "a gain of -30 dB": lambda samples: samples * 0.03,
    "the other polarity": lambda samples: -samples,
    "clipping": lambda samples: np.clip(samples, -0.1, 0.1),
    "white noise": lambda samples: samples + np.random.default_rng(0).normal(0, 0.003, samples.shape),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_survives(marked, change):
    assert is_radio(found(CHANGES[change](marked).astype(np.float32)))


@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
def test_any_sample_rate_can_be_marked_and_resampled(voice, rate):
    samples = Watermark(PAYLOAD, rate).write(voice(5.0, rate))
    assert is_radio(found(samples, rate))
    assert is_radio(found(resample(samples, rate, 22_050), 22_050))


def test_the_mix_of_two_channels_is_marked(voice):
    stereo = np.concatenate((voice(5.0), voice(5.0, seed=1)))
    assert is_radio(found(Watermark(PAYLOAD, 24_000, 2).write(stereo)))


def test_a_marked_part_of_a_long_recording_is_found(voice, marked):
    long = np.concatenate((voice(12.0, seed=2), marked[:, : 5 * 24_000], voice(12.0, seed=3)), axis=1)
    assert is_radio(found(long))


def test_a_payload_from_the_future_is_not_believed(voice):
    future = Payload.at("radio", datetime(2040, 1, 1, tzinfo=UTC))
    assert found(Watermark(future, 24_000).write(voice(5.0))).payload is None


@pytest.mark.parametrize("length", [0, 1, 1000, 24_000])
def test_silence_and_scraps_have_no_watermark(length):
    assert not found(np.zeros((1, length), np.float32)).found
    assert not found(np.random.default_rng(0).normal(0, 0.1, (1, length)).astype(np.float32)).found
