from __future__ import annotations

import gc
import io
import wave
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearing import hear
from rhapsode.audio.encode import Encoder, encode, pcm16
from rhapsode.audio.formats import FORMATS
from rhapsode.errors import GenerationFailed, InvalidRequest
from rhapsode.types import Clip

LOSSY = ["mp3", "opus", "aac"]
LOSSLESS = ["wav", "flac", "pcm", "l16"]


def in_chunks(fmt: str, samples: np.ndarray, chunk: int, sample_rate: int = 24_000) -> list[bytes]:
    encoder = Encoder(fmt, sample_rate, samples.shape[0])
    out = [encoder.write(samples[:, i : i + chunk]) for i in range(0, samples.shape[1], chunk)]
    return [*out, encoder.close()]


@pytest.mark.parametrize("fmt", LOSSLESS)
@pytest.mark.parametrize("channels", [1, 2])
def test_lossless_formats_give_back_every_sample_streamed_or_whole(noise, fmt, channels):
    samples = noise(30_001, channels)
    expected = pcm16(samples) / 32768
    streamed, _ = hear(b"".join(in_chunks(fmt, samples, 977)), fmt, channels)
    whole, _ = hear(encode(Clip(samples, 24_000), fmt), fmt, channels)
    assert np.array_equal(streamed, expected)
    assert np.array_equal(whole, expected)


@settings(max_examples=25, deadline=None)
@given(fmt=st.sampled_from(sorted(FORMATS)), chunk=st.integers(1, 5_000), length=st.integers(1, 9_000))
def test_the_sound_does_not_depend_on_the_chunks(noise, fmt, chunk, length):
    samples = noise(length)
    chunk = max(chunk, length // 50)
    at_once, _ = hear(b"".join(in_chunks(fmt, samples, length)), fmt)
    chunked, _ = hear(b"".join(in_chunks(fmt, samples, chunk)), fmt)
    assert np.array_equal(at_once, chunked)


@pytest.mark.parametrize("fmt", sorted(FORMATS))
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seconds", [0.05, 0.5, 1.013])
def test_a_burst_in_the_last_30_ms_is_heard_in_full(tone, peak_hz, fmt, whole, seconds):
    samples = np.concatenate((tone(200, seconds, level=0.05), tone(2_000, 0.03, level=0.7)), axis=1)
    data = encode(Clip(samples, 24_000), fmt) if whole else b"".join(in_chunks(fmt, samples, 480))
    out, rate = hear(data, fmt)
    loud = np.flatnonzero(np.abs(out[0]) > 0.35)
    assert loud[-1] - loud[0] == pytest.approx(0.03 * rate, abs=0.004 * rate)
    assert peak_hz(out[0, loud[0] : loud[-1]], rate) == pytest.approx(2_000, abs=100)


@pytest.mark.parametrize("fmt", LOSSY)
@pytest.mark.parametrize("sample_rate", [8_000, 22_050, 24_000, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_lossy_formats_keep_length_pitch_and_level_at_any_rate(tone, peak_hz, fmt, sample_rate, channels):
    samples = tone(440, 0.6, sample_rate, channels)
    out, rate = hear(b"".join(in_chunks(fmt, samples, 1_000, sample_rate)), fmt, channels)
    # A stream of mp3 or aac cannot declare the encoder's delay, so up to three frames of it remain.
    longest_delay_s = {
        "opus": 0.0,
        "aac": 2 * 1_024 / rate,
        "mp3": 3 * (576 if rate < 32_000 else 1_152) / rate,
    }
    assert -0.001 <= out.shape[1] / rate - 0.6 <= longest_delay_s[fmt] + 0.001
    for c in range(channels):
        middle = out[c, rate // 5 : rate // 2]
        assert peak_hz(middle, rate) == pytest.approx(440 * 2**c, abs=5)
        assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.3 / np.sqrt(2), rel=0.1)


@pytest.mark.parametrize("fmt", ["opus", "mp3"])
def test_a_whole_file_has_its_exact_length_in_the_header(noise, fmt):
    out, rate = hear(encode(Clip(noise(24_311), 24_000), fmt), fmt)
    assert out.shape[1] == round(24_311 * rate / 24_000)


@pytest.mark.parametrize("fmt", sorted(FORMATS))
def test_most_bytes_are_returned_before_the_end(noise, fmt):
    encoder = Encoder(fmt, 24_000)
    samples = noise(48_000)
    sent = [len(encoder.write(samples[:, i : i + 480])) for i in range(0, 48_000, 480)]
    early, all_sent = sum(sent[:25]), sum(sent)  # half a second of two
    held = len(encoder.close())
    # The look-ahead is two frames for mp3, one for aac and flac, and the resampler's filter for the 8 kHz of
    # telephony; no encoder may wait for a full buffer.
    assert early >= 0.17 * (all_sent + held)
    assert held < 0.1 * (all_sent + held)
    first_ms = 20 * (1 + next(i for i, size in enumerate(sent) if size))
    assert first_ms <= {"mp3": 60, "aac": 100, "flac": 100}.get(fmt, 80 if fmt.endswith("law") else 20)


def test_a_streamed_wav_starts_with_a_header_of_unknown_length(noise):
    first = Encoder("wav", 24_000).write(noise(100))
    assert first[:8] == b"RIFF" + b"\xff" * 4
    assert first[36:44] == b"data" + b"\xff" * 4
    assert len(first) == 44 + 200


@pytest.mark.parametrize(("fmt", "tag", "codec"), [("wav_mulaw", 7, "pcm_mulaw"), ("wav_alaw", 6, "pcm_alaw")])
def test_a_wav_of_telephony_names_its_coding_and_its_length(noise, fmt, tag, codec):
    data = encode(Clip(noise(8_001), 8_000), fmt)
    assert int.from_bytes(data[20:22], "little") == tag
    assert int.from_bytes(data[4:8], "little") == len(data) - 8
    assert len(data) % 2 == 0
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.audio[0]
        assert (stream.codec_context.name, stream.sample_rate) == (codec, 8_000)
        assert sum(frame.samples for frame in container.decode(stream)) == 8_001
    raw = encode(Clip(noise(8_001), 8_000), fmt.removeprefix("wav_"))
    assert data[58:-1] == raw


def test_l16_is_pcm_in_network_byte_order(noise):
    clip = Clip(noise(1_000), 24_000)
    little, big = (np.frombuffer(encode(clip, name), order) for name, order in (("pcm", "<i2"), ("l16", ">i2")))
    assert np.array_equal(little, big)


def test_a_whole_wav_and_flac_have_their_length_in_the_header(noise):
    samples = noise(12_345)
    with wave.open(io.BytesIO(encode(Clip(samples, 24_000), "wav"))) as file:
        assert file.getnframes() == 12_345
    with av.open(io.BytesIO(encode(Clip(samples, 24_000), "flac"))) as container:
        assert container.streams.audio[0].duration == 12_345


@pytest.mark.parametrize("fmt", sorted(FORMATS))
def test_closing_twice_gives_nothing_more_and_writing_after_is_refused(noise, fmt):
    encoder = Encoder(fmt, 24_000)
    encoder.write(noise(1_000))
    encoder.close()
    assert encoder.close() == b""
    with pytest.raises(ValueError, match="closed"):
        encoder.write(noise(10))


@pytest.mark.parametrize("fmt", sorted(FORMATS))
def test_closing_without_a_sample_is_not_an_error(fmt):
    assert isinstance(Encoder(fmt, 24_000).close(), bytes)


@pytest.mark.parametrize("fmt", sorted(FORMATS))
@pytest.mark.parametrize("sample_rate", [24_000, 22_050])
def test_samples_that_are_not_numbers_are_never_encoded(noise, fmt, sample_rate):
    samples = noise(5_000)
    samples[0, 1_000] = np.nan
    encoder = Encoder(fmt, sample_rate)
    with pytest.raises(GenerationFailed, match="not finite"):
        encoder.write(samples)


@pytest.mark.parametrize("fmt", LOSSY)
def test_samples_beyond_full_scale_are_clipped_before_a_codec_sees_them(tone, fmt):
    loud, _ = hear(encode(Clip(tone(440, 0.3, level=40.0), 24_000), fmt), fmt)
    assert np.abs(loud).max() < 1.6


def test_an_unknown_format_or_too_many_channels_are_refused_at_once():
    with pytest.raises(InvalidRequest, match="Unknown audio format"):
        Encoder("midi", 24_000)
    for fmt in FORMATS:
        with pytest.raises(InvalidRequest, match="mono or stereo"):
            Encoder(fmt, 24_000, channels=6)


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac"])
def test_a_stream_that_is_cut_off_leaves_no_threads_and_no_codec(name: str) -> None:
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        pytest.skip("threads are counted in /proc")
    before = len(list(tasks.iterdir()))
    gc.disable()
    try:
        encoders = [Encoder(name, 24_000) for _ in range(4)]
        for encoder in encoders:
            encoder.write(np.zeros((1, 24_000), np.float32))
        for encoder in encoders:
            encoder.abandon()
            encoder.abandon()
        assert len(list(tasks.iterdir())) == before
    finally:
        gc.enable()
    with pytest.raises(ValueError, match="closed"):
        encoders[0].write(np.zeros((1, 100), np.float32))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
def test_an_encoder_may_be_abandoned_before_it_was_given_anything(name: str, whole: bool) -> None:
    encoder = Encoder(name, 24_000, whole=whole)
    encoder.abandon()
    assert encoder.close() == b""
