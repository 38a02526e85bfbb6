"""The codec's encoder against upstream's codes."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.checkpoints.load import load
from rhapsode.errors import BadAudio, CheckpointError
from rhapsode.models.qwen3_tts.encoder import CodecEncoder, CodecEncoderConfig
from rhapsode.nn.derived import derive
from tiny.qwen3_tts import CODEC_CONFIG, GROUPS, HOP, Tiny, reference_audio, write

GOLDEN = Path(__file__).parents[2] / "golden" / "qwen3_tts"
INDEX = json.loads((GOLDEN / "index.json").read_text())
REFERENCES = [int(n) for n in INDEX["reference"]["references"]]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> CodecEncoder:
    folder = tmp_path_factory.mktemp("checkpoint")
    made = INDEX["checkpoints"][INDEX["reference"]["checkpoint"]]
    assert write(folder, Tiny(**made["recipe"])) == made["fingerprint"]
    with torch.device("meta"):
        encoder = CodecEncoder(CodecEncoderConfig.from_dict(CODEC_CONFIG))
    load(encoder, folder / "speech_tokenizer", prefix="encoder.", ignore=("quantizer.*",))
    derive(encoder)
    return encoder


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / "reference.npz"))


@pytest.mark.parametrize("n_samples", REFERENCES)
def test_codes_are_upstreams(encoder: CodecEncoder, golden: dict[str, np.ndarray], n_samples: int):
    codes = encoder.encode(torch.from_numpy(reference_audio(n_samples)))
    assert np.array_equal(codes.numpy(), golden[f"{n_samples}/codes"])


@pytest.mark.parametrize("n_samples", REFERENCES)
def test_what_is_quantized_is_upstreams(encoder: CodecEncoder, golden: dict[str, np.ndarray], n_samples: int):
    with torch.inference_mode():
        features = encoder.features(torch.from_numpy(reference_audio(n_samples))[None, None])[0]
    assert np.abs(features.numpy() - golden[f"{n_samples}/latent"]).max() < 1e-5


@pytest.mark.parametrize(("n_samples", "n_frames"), [(1, 1), (HOP, 1), (HOP + 1, 2)])
def test_a_part_of_a_frame_is_a_frame(encoder: CodecEncoder, n_samples: int, n_frames: int):
    assert encoder.encode(torch.zeros(n_samples)).shape == (n_frames, GROUPS)
    assert encoder.config.hop == HOP


def test_no_audio_is_refused(encoder: CodecEncoder):
    with pytest.raises(BadAudio, match="empty"):
        encoder.encode(torch.zeros(0))


def test_the_config_follows_the_checkpoints_names_for_the_frame_rate():
    def downsampling(**rate: float) -> int:
        values = {k: v for k, v in CODEC_CONFIG["encoder_config"].items() if k != "_frame_rate"}
        return CodecEncoderConfig.from_dict(CODEC_CONFIG | {"encoder_config": values | rate}).downsampling

    assert (downsampling(_frame_rate=12.5), downsampling(frame_rate=6.25), downsampling()) == (2, 4, 2)


def test_a_config_without_an_encoder_is_one_clear_error():
    with pytest.raises(CheckpointError, match="encoder_config"):
        CodecEncoderConfig.from_dict({})
