from __future__ import annotations

import io
import wave

import numpy as np
import pytest

from rhapsode.audio.chain import Chain
from rhapsode.audio.encode import Encoder
from rhapsode.audio.resample import Resampler
from rhapsode.audio.tempo import Tempo


def test_a_chain_of_tempo_and_resampler_equals_one_after_the_other(streamed, noise):
    samples = noise(20_000)
    apart = streamed(Resampler(24_000, 48_000), streamed(Tempo(1.3, 24_000), samples, []), [])
    chain = Chain(Tempo(1.3, 24_000), Resampler(24_000, 48_000))
    assert np.array_equal(streamed(chain, samples, [1, 999, 4_000]), apart)


def test_speech_can_be_slowed_resampled_and_encoded_in_one_stream(tone, peak_hz):
    chain = Chain(Tempo(0.5, 24_000), Resampler(24_000, 16_000))
    encoder = Encoder("wav", 16_000)
    samples = tone(440, 1.0)
    data = b"".join(encoder.write(chain.write(samples[:, i : i + 1_920])) for i in range(0, 24_000, 1_920))
    data += encoder.write(chain.close()) + encoder.close()
    with wave.open(io.BytesIO(data)) as file:
        heard = np.frombuffer(file.readframes(10**6), dtype="<i2") / 32768
    assert heard.size == pytest.approx(32_000, abs=1)
    assert peak_hz(heard, 16_000) == pytest.approx(440, rel=0.02)
