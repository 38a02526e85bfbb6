from __future__ import annotations

import io
import struct
import tracemalloc
import wave
from fractions import Fraction

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.audio.decode import decode
from rhapsode.audio.encode import Encoder, encode
from rhapsode.errors import BadAudio
from rhapsode.types import Clip

FILES = ["wav", "mp3", "flac", "opus", "aac"]


def float_wav(values: np.ndarray, sample_rate: int = 16_000, bits: int = 32) -> bytes:
    data = values.astype(f"<f{bits // 8}").tobytes()
    size = bits // 8
    fmt = struct.pack("<HHIIHH", 3, 1, sample_rate, sample_rate * size, size, bits)
    body = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def muxed(container: str, codec: str, sample_format: str, samples: np.ndarray, video: bool = False) -> bytes:
    """Encodes a file in a format that users upload and the project does not write."""
    file = io.BytesIO()
    with av.open(file, "w", format=container) as out:
        picture = None
        if video:
            picture = out.add_stream("mpeg4", rate=10)
            picture.width = picture.height = 64
        sound = None
        if codec:
            sound = out.add_stream(codec, rate=48_000, layout="mono")
            sound.codec_context.format = sample_format
        if picture is not None:
            frame = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")
            frame.pts = 0
            out.mux(picture.encode(frame))
            out.mux(picture.encode(None))
        if sound is not None:
            audio = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
            audio.sample_rate, audio.time_base, audio.pts = 48_000, Fraction(1, 48_000), 0
            out.mux(sound.encode(audio))
            out.mux(sound.encode(None))
    return file.getvalue()


@pytest.mark.parametrize("fmt", FILES)
def test_every_format_we_write_can_be_read(tone, peak_hz, fmt):
    clip = decode(encode(Clip(tone(440, 0.5), 24_000), fmt))
    assert (clip.samples.dtype, clip.channels) == (np.float32, 1)
    assert clip.duration_s == pytest.approx(0.5, abs=0.09)
    assert peak_hz(clip.samples[0], clip.sample_rate) == pytest.approx(440, abs=4)


@pytest.mark.parametrize(
    ("container", "codec", "sample_format", "video"),
    [
        ("ipod", "aac", "fltp", False),
        ("ipod", "alac", "s16p", False),
        ("mp4", "aac", "fltp", True),
        ("webm", "libopus", "flt", False),
        ("matroska", "flac", "s16", True),
        ("aiff", "pcm_s16be", "s16", False),
        ("caf", "pcm_s24le", "s32", False),
    ],
)
def test_what_phones_and_browsers_record_can_be_read(tone, peak_hz, container, codec, sample_format, video):
    clip = decode(muxed(container, codec, sample_format, tone(440, 0.5, 48_000), video), sample_rate=24_000)
    assert clip.sample_rate == 24_000
    assert clip.duration_s == pytest.approx(0.5, abs=0.03)
    assert peak_hz(clip.samples[0]) == pytest.approx(440, abs=4)
    assert np.std(clip.samples[:, 3_000:9_000]) == pytest.approx(0.3 / np.sqrt(2), rel=0.05)


def test_stereo_becomes_the_mean_of_its_channels_unless_asked_otherwise(noise):
    samples = noise(2_000, 2)
    data = encode(Clip(samples, 24_000), "wav")
    assert decode(data).samples == pytest.approx(samples.mean(axis=0, keepdims=True), abs=1e-4)
    assert decode(data, mono=False).samples == pytest.approx(samples, abs=1e-4)


def test_8_bit_and_float_waves_have_the_right_scale(tone):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 1, 16_000, 0, "NONE", ""))
        out.writeframes(bytes([0, 128, 255]))
    assert decode(file.getvalue()).samples[0] == pytest.approx([-1.0, 0.0, 127 / 128])
    values = tone(440, 0.1, 16_000)[0]
    assert np.array_equal(decode(float_wav(values)).samples[0], values)
    assert decode(float_wav(values, bits=64)).samples[0] == pytest.approx(values)


def test_samples_beyond_full_scale_are_clipped():
    assert np.array_equal(decode(float_wav(np.array([0.5, 3.0, -8.0]))).samples[0], [0.5, 1.0, -1.0])


def test_a_file_on_disk_reads_like_its_bytes(tmp_path, noise):
    data = encode(Clip(noise(3_000), 24_000), "flac")
    path = tmp_path / "x.bin"
    path.write_bytes(data)
    assert np.array_equal(decode(path).samples, decode(data).samples)


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=1, max_size=4_000))
def test_random_bytes_are_bad_audio(data):
    with pytest.raises(BadAudio):
        decode(data)


@settings(max_examples=60, deadline=None)
@given(
    fmt=st.sampled_from(FILES),
    at=st.floats(0, 1),
    junk=st.binary(min_size=1, max_size=300),
    cut=st.booleans(),
)
def test_a_damaged_file_gives_audio_within_full_scale_or_bad_audio(noise, fmt, at, junk, cut):
    data = encode(Clip(noise(6_000), 24_000), fmt)
    where = int(at * len(data))
    data = data[:where] if cut else data[:where] + junk + data[where + len(junk) :]
    try:
        clip = decode(data)
    except BadAudio:
        return
    assert clip.samples.size > 0
    assert np.abs(clip.samples).max() <= 1.0


def test_a_recording_cut_short_gives_what_there_is(noise):
    data = encode(Clip(noise(24_000), 24_000), "mp3")
    assert decode(data[: len(data) // 2]).duration_s == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b"RIFF", "cannot be read"),
        (b"just some text, not audio at all" * 10, "cannot be read"),
        (encode(Clip(np.zeros((1, 0), np.float32), 24_000), "wav"), "empty"),
        (muxed("matroska", "", "", np.zeros(0), video=True), "no audio stream"),
        (float_wav(np.array([0.0, np.nan, 0.1])), "not finite"),
        (float_wav(np.array([0.0, np.inf])), "not finite"),
        (float_wav(np.array([0.0, 1e300]), bits=64), "not finite"),
        (float_wav(np.zeros(100), sample_rate=50), "sample rate"),
        (float_wav(np.zeros(100), sample_rate=2_000_000), "sample rate"),
    ],
)
def test_bad_audio_says_what_is_wrong_with_it(data, says):
    with pytest.raises(BadAudio, match=says):
        decode(data)


def test_no_file_and_a_directory_are_bad_audio(tmp_path):
    for path in (tmp_path / "missing.wav", tmp_path):
        with pytest.raises(BadAudio, match="no audio file"):
            decode(path)


@pytest.mark.parametrize(
    "script",
    [
        "ffconcat version 1.0\nfile '{}'\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{}\n#EXT-X-ENDLIST\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile://{}\n#EXT-X-ENDLIST\n",
    ],
)
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_playlist_cannot_make_us_read_another_file(tmp_path, noise, script, on_disk):
    secret = tmp_path / "secret.wav"
    secret.write_bytes(encode(Clip(noise(24_000), 24_000), "wav"))
    source = tmp_path / "list.m3u8"
    source.write_text(script.format(secret))
    with pytest.raises(BadAudio):
        decode(source if on_disk else source.read_bytes())


def test_a_container_that_is_not_on_the_list_is_not_opened(tone):
    film = muxed("avi", "mp2", "s16", tone(440, 0.5, 48_000))
    with av.open(io.BytesIO(film)) as container:
        assert container.streams.audio
    with pytest.raises(BadAudio, match="unknown format"):
        decode(film)


def test_a_frame_larger_than_any_real_one_is_not_decoded(noise, monkeypatch):
    data = encode(Clip(noise(6_000), 24_000), "flac")
    assert decode(data).samples.shape == (1, 6_000)
    monkeypatch.setattr("rhapsode.audio.decode._MAX_FRAME_SAMPLES", "1000")
    with pytest.raises(BadAudio):
        decode(data)


def test_more_bytes_than_allowed_are_refused_before_they_are_read(tmp_path, noise):
    data = encode(Clip(noise(3_000), 24_000), "wav")
    path = tmp_path / "x.wav"
    path.write_bytes(data)
    for source in (data, path):
        with pytest.raises(BadAudio, match="too large"):
            decode(source, max_bytes=len(data) - 1)
        assert decode(source, max_bytes=len(data)).duration_s == 0.125


def test_exactly_the_longest_allowed_is_allowed_and_one_sample_more_is_not():
    assert decode(encode(Clip(np.zeros((1, 24_000), np.float32), 24_000), "flac"), max_duration_s=1.0)
    with pytest.raises(BadAudio, match="too long"):
        decode(encode(Clip(np.zeros((1, 24_001), np.float32), 24_000), "flac"), max_duration_s=1.0)


def test_hours_of_compressed_silence_stop_at_the_limit():
    encoder = Encoder("flac", 8_000)
    minute = np.zeros((1, 8_000 * 60), np.float32)
    bomb = b"".join(encoder.write(minute) for _ in range(90)) + encoder.close()
    assert len(bomb) < 1_100_000  # 173 MB of samples
    tracemalloc.start()
    try:
        with pytest.raises(BadAudio, match="at most 10 seconds"):
            decode(bomb, max_duration_s=10)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_nothing_is_printed_about_a_damaged_file(noise, capfd, caplog):
    data = bytearray(encode(Clip(noise(24_000), 24_000), "mp3"))
    data[3_000:9_000] = bytes(range(250)) * 24
    decode(bytes(data))
    out = capfd.readouterr()
    assert (out.out, out.err, caplog.text) == ("", "", "")
