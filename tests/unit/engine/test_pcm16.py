"""Samples travel from a GPU as 16 bits: the bytes a listener gets are those of the floats they were."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rhapsode.audio.samples import pcm16
from rhapsode.device.landing import Landing
from rhapsode.engine.pcm16 import packed, unpacked
from rhapsode.types import AudioChunk

EDGES = [0.0, -0.0, 1.0, -1.0, 1.5, -7.0, 3e38, 32767 / 32768, 0.5 / 32768, 1.5 / 32768, -0.5 / 32768, 1e-9]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def land(audio: torch.Tensor, device: str) -> np.ndarray:
    return Landing(packed(audio.to(device))).numpy()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_16_bits_are_those_of_the_floats(device, dtype):
    torch.manual_seed(0)
    audio = torch.cat((torch.tensor(EDGES), torch.randn(4084) / 2)).view(2, 2, -1).to(dtype)
    audio = audio.nan_to_num(posinf=2.0)  # float16 has no 3e38
    values = land(audio, device)
    assert values.dtype == np.int16
    for row, wanted in zip(values, audio.float().numpy(), strict=True):
        sixteen = unpacked(row, 0, row.shape[1] - 1)
        heard = AudioChunk.of_pcm16(sixteen, 24_000).samples
        assert np.array_equal(sixteen, pcm16(wanted))
        assert sixteen.base is None  # a slow listener keeps no batch in memory
        assert heard.dtype == np.float32
        assert heard.shape == wanted.shape
        assert np.array_equal(pcm16(heard), pcm16(wanted))
        assert np.abs(heard - wanted.clip(-1, 1)).max() <= 1 / 32768


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_was_not_finite_does_not_become_sound(device, bad):
    audio = torch.zeros(3, 1, 8)
    audio[1, 0, 5] = bad
    found = [unpacked(row, 0, row.shape[1] - 1) for row in land(audio, device)]
    good, broken, other = found
    assert np.isnan(broken).all()
    assert [row.dtype for row in found] == [np.int16, np.float32, np.int16]
    assert not good.any()
    assert not other.any()


def test_what_is_not_packed_is_copied():
    values = np.ones((1, 4), np.float32)
    samples = unpacked(values, 0, values.shape[1])
    values[:] = 0
    assert samples.dtype == np.float32
    assert (samples == 1).all()


def test_a_chunk_makes_floats_only_for_those_who_ask():
    numbers = np.array([[0, 16384, -32768]], np.int16)
    chunk = AudioChunk.of_pcm16(numbers, 24_000, 7)
    assert "samples" not in vars(chunk)
    assert (chunk.duration_s, chunk.index) == (3 / 24_000, 7)
    assert "samples" not in vars(chunk)  # its length is that of the numbers
    assert chunk.samples.tolist() == [[0.0, 0.5, -1.0]]
    assert chunk.samples is chunk.samples
    louder = replace(chunk, samples=chunk.samples * 2, pcm16=None)
    assert louder.samples.tolist() == [[0.0, 1.0, -2.0]]
