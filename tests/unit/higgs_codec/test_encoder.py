"""References become the codes that upstream makes of them, alone or together with others."""

import numpy as np
import pytest
import torch

from rhapsode.errors import InvalidRequest
from rhapsode.models.higgs.codec import reference
from rhapsode.models.higgs.codec.reference import ReferenceEncoder
from rhapsode.types import Clip
from tiny import higgs_codec as tiny
from unit.higgs_codec.asked import encoder, golden

LENGTHS = sorted({int(name.split("/")[0]) for name in golden() if "/" in name})


def expected(length: int) -> np.ndarray:
    return golden()[f"{length}/codes"]


@pytest.mark.parametrize("length", LENGTHS)
@torch.inference_mode()
def test_features_and_codes_are_upstreams(length):
    """No decision was close: the second nearest vector is at least 1e-3 further away, so no code may differ."""
    references, audio = ReferenceEncoder(encoder()), tiny.recording(length)
    latents, semantic, frames = references.latents([audio], [references.padding(length)])
    assert frames == [len(expected(length))]
    np.testing.assert_allclose(semantic[0], golden()[f"{length}/semantic"], atol=1e-4)
    np.testing.assert_allclose(latents[0], golden()[f"{length}/latent"], atol=1e-4)
    assert np.array_equal(references.encode([audio])[0], expected(length))


def test_the_goldens_have_references_with_and_without_padding():
    references = ReferenceEncoder(encoder())
    assert {references.padding(length) for length in LENGTHS} == {0, tiny.HOP // 2}


def test_recordings_of_different_lengths_are_encoded_together():
    found = ReferenceEncoder(encoder()).encode([tiny.recording(length) for length in LENGTHS])
    assert all(np.array_equal(codes, expected(length)) for codes, length in zip(found, LENGTHS, strict=True))


@torch.inference_mode()
def test_a_recording_is_encoded_as_if_it_were_alone():
    references = ReferenceEncoder(encoder("float64"))
    lengths = (9000, 700, 2999, 4079, 200)
    audio = [tiny.recording(length) for length in lengths]
    paddings = [references.padding(length) for length in lengths]
    assert set(paddings) == {0, tiny.HOP // 2}
    together, _, frames = references.latents(audio, paddings)
    for i, (one, padding) in enumerate(zip(audio, paddings, strict=True)):
        alone, _, _ = references.latents([one], [padding])
        assert (alone[0] - together[i, : frames[i]]).abs().max() < 1e-12


def test_a_crowd_is_encoded_in_passes_of_limited_size(monkeypatch: pytest.MonkeyPatch):
    references = ReferenceEncoder(encoder())
    lengths = (3000, 700, 9000, 700, 2999)
    audio = [tiny.recording(length) for length in lengths]
    alone = [references.encode([one])[0] for one in audio]
    monkeypatch.setattr(reference, "MOST_SAMPLES", 6001)
    assert list(reference._passes(lengths)) == [[1, 3], [4, 0], [2]]
    for found, one in zip(references.encode(audio), alone, strict=True):
        assert np.array_equal(found, one)
    assert references.encode([]) == []


def test_a_short_recording_may_be_followed_by_silence():
    """As v3 does, up to one second."""
    audio = tiny.recording(3000)
    padded = np.pad(audio, (0, 24_000 - 3000))
    assert np.array_equal(
        ReferenceEncoder(encoder(), 1.0).encode([audio])[0], ReferenceEncoder(encoder()).encode([padded])[0]
    )
    assert len(ReferenceEncoder(encoder()).encode([audio])[0]) == 4


def test_channels_are_mixed_and_rates_converted():
    references, audio = ReferenceEncoder(encoder()), tiny.recording(4000)
    stereo = Clip(np.stack([audio + 0.1, audio - 0.1]).astype(np.float32), 24_000)
    assert np.array_equal(references([stereo])[0], references.encode([audio])[0])
    assert references([Clip(audio[None], 48_000)])[0].shape == (2, 3)


@pytest.mark.parametrize("samples", [0, 1, 118])
def test_a_recording_shorter_than_a_frame_is_the_users_error(samples):
    with pytest.raises(InvalidRequest, match="too short"):
        ReferenceEncoder(encoder()).encode([tiny.recording(4000), np.zeros(samples, np.float32)])
