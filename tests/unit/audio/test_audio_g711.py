from __future__ import annotations

import numpy as np
import pytest

from hearing import G711, decoded
from rhapsode.audio.g711 import encode_alaw, encode_mulaw

ENCODERS = {"mulaw": encode_mulaw, "alaw": encode_alaw}
EVERY_SAMPLE = np.arange(-32768, 32768).astype(np.int16)
EVERY_CODE = np.arange(256, dtype=np.uint8)


def heard(codes: np.ndarray, name: str) -> np.ndarray:
    """Decodes with PyAV to 16 bits."""
    return np.rint(decoded(G711[name], [codes.tobytes()], 8_000, 1)[0] * 32768).astype(int)


@pytest.mark.parametrize(
    ("name", "sample", "code"),
    [
        ("mulaw", 0, 0xFF),
        ("mulaw", 32767, 0x80),
        ("mulaw", -32768, 0x00),
        ("mulaw", 1000, 0xCE),
        ("mulaw", -1000, 0x4E),
        ("alaw", 0, 0xD5),
        ("alaw", -1, 0x55),
        ("alaw", 32767, 0xAA),
        ("alaw", -32768, 0x2A),
        ("alaw", 1000, 0xFA),
        ("alaw", -1000, 0x7A),
    ],
)
def test_known_samples_have_the_codes_of_the_standard(name: str, sample: int, code: int) -> None:
    assert ENCODERS[name](np.array([sample], np.int16)).tolist() == [code]


@pytest.mark.parametrize("name", ENCODERS)
def test_every_code_that_another_decoder_reads_is_made_again(name: str) -> None:
    samples = heard(EVERY_CODE, name)
    again = ENCODERS[name](samples.astype(np.int16))
    negative_zero = 0x7F if name == "mulaw" else -1  # mu-law has two codes for silence
    assert [c for c, a in zip(EVERY_CODE.tolist(), again.tolist(), strict=True) if c != a] in ([negative_zero], [])


@pytest.mark.parametrize("name", ENCODERS)
def test_no_sample_is_further_from_its_code_than_half_a_step(name: str) -> None:
    found = heard(ENCODERS[name](EVERY_SAMPLE), name)
    error, size = np.abs(found - EVERY_SAMPLE), np.abs(EVERY_SAMPLE.astype(int))
    clipped = size > 32_200
    assert (error[~clipped] <= 8 + size[~clipped] / 32).all()
    assert (error[clipped] <= 700).all()


@pytest.mark.parametrize("name", ENCODERS)
def test_louder_samples_never_have_the_code_of_a_softer_one(name: str) -> None:
    assert (np.diff(heard(ENCODERS[name](EVERY_SAMPLE), name)) >= 0).all()
