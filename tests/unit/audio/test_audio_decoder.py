"""Audio of users is decoded in processes of its own: slow files, and files that crash a decoder, harm nobody else."""

import io
import os
import signal
import threading
import time
import wave
from collections.abc import Iterator

import numpy as np
import pytest

from rhapsode.audio.decode import decode
from rhapsode.audio.decoder import DecodeLimits, DecoderPool
from rhapsode.audio.encode import encode
from rhapsode.errors import BadAudio, Busy
from rhapsode.types import Clip
from unit.audio.matroska import endless

TONE = Clip((0.5 * np.sin(np.arange(16_000) * 0.05)).astype(np.float32)[None], 16_000)
SLOW = endless(6_000_000, "A_PCM/INT/LIT", b"\x00" * 2)
"""Millions of packets of one sample each: all of them valid."""


@pytest.fixture
def pool() -> Iterator[DecoderPool]:
    with DecoderPool(workers=1, limits=DecodeLimits(max_cpu_s=0.5, max_duration_s=60)) as started:
        yield started


@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "opus"])
def test_the_process_decodes_what_the_function_does(pool: DecoderPool, name: str) -> None:
    data = encode(TONE, name)
    clip, expected = pool.decode(data), decode(data)
    assert clip.sample_rate == expected.sample_rate
    assert np.array_equal(clip.samples, expected.samples)


def test_stereo_is_kept_on_request_and_more_channels_are_refused() -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as surround:
        surround.setparams((6, 2, 16_000, 0, "NONE", ""))
        surround.writeframes(bytes(6 * 2 * 1000))
    stereo = encode(Clip(np.concatenate([TONE.samples, -TONE.samples]), 16_000), "wav")
    with DecoderPool(workers=1, mono=False) as pool:
        assert np.array_equal(pool.decode(stereo).samples, decode(stereo, mono=False).samples)
        assert pool.decode(encode(TONE, "wav")).channels == 1
        with pytest.raises(BadAudio, match="6 channels"):
            pool.decode(file.getvalue())


@pytest.mark.parametrize("data", [b"", b"nonsense", encode(TONE, "flac")[:50]])
def test_what_cannot_be_decoded_has_the_same_words(pool: DecoderPool, data: bytes) -> None:
    with pytest.raises(BadAudio) as expected:
        decode(data)
    with pytest.raises(BadAudio, match=expected.value.message):
        pool.decode(data)


def test_a_file_that_takes_too_long_is_stopped_and_the_next_one_is_decoded(pool: DecoderPool) -> None:
    started_s = time.monotonic()
    with pytest.raises(BadAudio, match="too long to decode"):
        pool.decode(SLOW)
    assert time.monotonic() - started_s < 20
    assert pool.decode(encode(TONE, "wav")).samples.shape == (1, 16_000)


def test_a_decoder_that_crashes_is_replaced(pool: DecoderPool) -> None:
    pool.decode(encode(TONE, "wav"))
    (process,) = pool.processes()
    os.kill(process, signal.SIGKILL)
    with pytest.raises(BadAudio):
        pool.decode(encode(TONE, "wav"))
    assert pool.decode(encode(TONE, "wav")).samples.shape == (1, 16_000)


def test_limits_of_size_and_duration_hold_in_the_process() -> None:
    limits = DecodeLimits(max_bytes=30_000, max_duration_s=0.5)
    with DecoderPool(workers=1, limits=limits) as pool:
        with pytest.raises(BadAudio, match="too large"):
            pool.decode(b"x" * 40_000)
        with pytest.raises(BadAudio, match="too long: at most"):
            pool.decode(encode(TONE, "flac"))


def test_only_so_many_wait_for_a_decoder() -> None:
    with DecoderPool(workers=1, limits=DecodeLimits(max_cpu_s=2), waiting=1) as pool:
        outcomes: list[type] = []

        def attempt() -> None:
            try:
                pool.decode(SLOW)
            except (BadAudio, Busy) as error:
                outcomes.append(type(error))

        threads = [threading.Thread(target=attempt) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        assert outcomes == [Busy, Busy]
        pool.close()
        for thread in threads:
            thread.join(20)
    assert sorted(kind.__name__ for kind in outcomes) == ["BadAudio", "BadAudio", "Busy", "Busy"]


def test_closing_ends_the_processes() -> None:
    pool = DecoderPool(workers=1)
    pool.decode(encode(TONE, "wav"))
    (process,) = pool.processes()
    pool.close()
    pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


@pytest.mark.slow
def test_packets_that_are_all_damaged_are_given_up_early() -> None:
    started_s = time.thread_time()
    with pytest.raises(BadAudio, match="damaged"):
        decode(endless(6_000_000, "A_ALAC"))
    assert time.thread_time() - started_s < 10  # all of it would take minutes
