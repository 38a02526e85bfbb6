"""Damaged audio files are audio or `BadAudio`, within the limits, whatever their headers say."""

import io
import time
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzzing import damaged_bytes, fuzzed
from rhapsode.audio.decoder import DecodeLimits, DecoderPool
from rhapsode.audio.encode import encode
from rhapsode.errors import BadAudio
from rhapsode.types import Clip

LIMITS = DecodeLimits(max_bytes=2**20, max_duration_s=5, max_cpu_s=1.0)
HANG_S = 60  # of wall time; the process has a limit of CPU time, which is what this relies on
HEADER_BYTES = 600


def muxed(container: str, codec: str) -> bytes:
    """Returns a second of a tone in a container that the project does not write."""
    file = io.BytesIO()
    tone = (0.3 * np.sin(np.arange(48_000) * 0.05)).astype(np.float32)[None]
    with av.open(file, "w", format=container) as out:
        stream = out.add_stream(codec, rate=48_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(tone, format="fltp", layout="mono")
        frame.sample_rate, frame.time_base, frame.pts = 48_000, Fraction(1, 48_000), 0
        fifo = av.AudioFifo()
        fifo.write(frame)
        while (piece := fifo.read(stream.codec_context.frame_size or 960, partial=True)) is not None:
            out.mux(stream.encode(piece))
        out.mux(stream.encode(None))
    return file.getvalue()


TONE = Clip((0.3 * np.sin(np.arange(8_000) * 0.1)).astype(np.float32)[None], 16_000)
FILES = {name: encode(TONE, name) for name in ("wav", "flac", "mp3", "opus", "aac")}
FILES |= {"mkv": muxed("matroska", "libopus"), "mp4": muxed("mp4", "aac")}


@pytest.fixture(scope="module")
def pool() -> Iterator[DecoderPool]:
    with DecoderPool(workers=1, limits=LIMITS) as started:
        yield started


@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_file_is_decoded_or_refused_in_time(pool: DecoderPool, kind: str) -> None:
    assert pool.decode(FILES[kind]).duration_s > 0.4
    refused: list[str] = []

    @fuzzed(40)
    @given(data=damaged_bytes(FILES[kind], within=HEADER_BYTES) | damaged_bytes(FILES[kind]))
    def attempt(data: bytes) -> None:
        started_s = time.monotonic()
        try:
            clip = pool.decode(data)
        except BadAudio as error:
            refused.append(error.message)
        else:
            assert clip.samples.dtype == np.float32
            assert 0 < clip.duration_s <= LIMITS.max_duration_s
            assert np.abs(clip.samples).max() <= 1.0
        assert time.monotonic() - started_s < HANG_S

    attempt()
    assert refused
    assert not any("\n" in message for message in refused)


@pytest.mark.parametrize("kind", FILES)
def test_the_beginning_of_a_file_is_decoded_or_refused(pool: DecoderPool, kind: str) -> None:
    @fuzzed(10)
    @given(size=st.integers(0, len(FILES[kind]) - 1))
    def attempt(size: int) -> None:
        with suppress(BadAudio):
            assert pool.decode(FILES[kind][:size]).duration_s <= LIMITS.max_duration_s

    attempt()
