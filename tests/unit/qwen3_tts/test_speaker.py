"""The speaker encoder and its mel spectrogram against upstream's."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.checkpoints.load import load
from rhapsode.errors import BadAudio
from rhapsode.models.qwen3_tts.speaker import SpeakerConfig, SpeakerEncoder
from rhapsode.nn.mel import MelConfig, filterbank, log_mel
from tiny.qwen3_tts import HIDDEN, SAMPLE_RATE, Tiny, reference_audio, write

GOLDEN = Path(__file__).parents[2] / "golden" / "qwen3_tts"
INDEX = json.loads((GOLDEN / "index.json").read_text())
REFERENCES = [int(n) for n in INDEX["reference"]["references"]]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SpeakerEncoder:
    folder = tmp_path_factory.mktemp("checkpoint")
    made = INDEX["checkpoints"][INDEX["reference"]["checkpoint"]]
    assert write(folder, Tiny(**made["recipe"])) == made["fingerprint"]
    config = json.loads((folder / "config.json").read_text())["speaker_encoder_config"]
    with torch.device("meta"):
        encoder = SpeakerEncoder(SpeakerConfig.from_dict(config))
    load(encoder, folder, prefix="speaker_encoder.")
    return encoder


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / "reference.npz"))


@pytest.mark.parametrize("n_samples", REFERENCES)
def test_embeddings_are_upstreams(encoder: SpeakerEncoder, golden: dict[str, np.ndarray], n_samples: int):
    embedding = encoder.embed(torch.from_numpy(reference_audio(n_samples)))
    assert embedding.shape == (HIDDEN,)
    assert np.abs(embedding.numpy() - golden[f"{n_samples}/speaker"]).max() < 1e-4


def test_the_mel_spectrogram_is_upstreams(golden: dict[str, np.ndarray]):
    mel = log_mel(torch.from_numpy(reference_audio(REFERENCES[-1]))[None], MelConfig())[0]
    assert mel.shape == golden["mel"].shape
    assert np.abs(mel.numpy() - golden["mel"]).max() < 1e-4


def test_mel_filters_cover_the_spectrum_with_unit_area():
    config = MelConfig()
    bank = filterbank(config)
    bin_hz = SAMPLE_RATE / config.n_fft
    assert bank.shape == (config.bands, config.n_fft // 2 + 1)
    assert (bank.max(axis=1) > 0).all()
    wide = slice(config.bands // 2, None)  # narrow filters fall between bins
    np.testing.assert_allclose(bank[wide].sum(axis=1) * bin_hz, 1.0, rtol=0.05)


def test_the_shortest_reference_is_as_long_as_the_error_says(encoder: SpeakerEncoder):
    assert encoder.embed(torch.randn(encoder.min_samples)).isfinite().all()
    with pytest.raises(BadAudio, match="at least 53 ms"):
        encoder.embed(torch.randn(encoder.min_samples - 1))


def test_a_batch_of_equal_lengths_is_what_each_is_alone(encoder: SpeakerEncoder):
    mel = torch.randn(2, 30, 128)
    with torch.inference_mode():
        torch.testing.assert_close(encoder(mel)[1:], encoder(mel[1:]), rtol=0, atol=1e-5)
