"""The codec that is trained is the codec that is served."""

from pathlib import Path

import numpy as np
import pytest
import torch

import codec as training
from quantizer import LearningQuantizer
from rhapsode.checkpoints.load import load
from rhapsode.models.qwen3_tts.decoder import CodecDecoder
from rhapsode.nn.derived import derive
from speech import Speech
from teacher import HOP, Utterance, _framed, write_shard


@pytest.fixture
def small() -> training.TrainableCodec:
    torch.manual_seed(0)
    config = training.read_config(training.SHAPE / "speech_tokenizer")
    config["encoder_config"] |= {"num_filters": 4, "hidden_size": 48}
    config["decoder_config"] |= {
        "latent_dim": 32, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16, "decoder_dim": 32,
    }  # fmt: skip
    return training.TrainableCodec(config)


def sound(frames: int, rows: int = 2) -> torch.Tensor:
    return torch.randn(rows, 1, frames * HOP, generator=torch.Generator().manual_seed(1)) * 0.1


def begun(codec: training.TrainableCodec) -> training.TrainableCodec:
    codec.quantizer.begin(codec.encoder.features(sound(40, 8)).flatten(0, 1).detach())
    return codec


def test_what_is_saved_is_served_as_it_was_heard(small, tmp_path: Path) -> None:
    codec = begun(small)
    training.save(codec, tmp_path)
    training.restore(codec, tmp_path, torch.device("cpu"))  # weights are kept in 16 bits
    served = CodecDecoder(codec.decoder.config)
    load(served, tmp_path, prefix="decoder.")
    derive(served)
    audio = sound(12)
    with torch.no_grad():
        heard = codec(audio, learn=False).audio.clamp(-1, 1)
        torch.testing.assert_close(served(codec.codes(audio)), heard, rtol=1e-4, atol=1e-5)


def test_every_part_of_the_codec_learns(small) -> None:
    heard = begun(small)(sound(12))
    (heard.audio.square().mean() + heard.commitment + heard.phonemes.square().mean()).backward()
    still = [name for name, weight in small.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert not still


@pytest.mark.slow
def test_codes_go_where_the_features_are(small) -> None:
    features = small.encoder.features(sound(80, 16)).detach()
    quantizer: LearningQuantizer = begun(small).quantizer
    before = quantizer(features, learn=False).commitment
    for _ in range(30):
        quantizer(features)
    assert quantizer(features, learn=False).commitment < before
    assert len(quantizer(features, learn=False).codes[..., 0].unique()) > 16


def test_shards_are_read_as_they_were_written(tmp_path: Path) -> None:
    audio = np.sin(np.arange(3 * HOP + 100) / 20).astype(np.float32) * 0.5
    said: Utterance = _framed(audio, np.arange(1, 11))
    assert len(said.phonemes) == 4  # the last frame is filled up with silence
    assert write_shard(tmp_path / "00-0000.npz", [(7, said, 2), (9, said, -5)]) == pytest.approx(8 * 0.08)
    speech = Speech(tmp_path, hours=0.01, device=torch.device("cpu"))
    assert (speech.load(), speech.load()) == (1, 0)
    assert [tuple(one) for one in speech.utterances] == [(7, 0, 4, 2), (9, 4, 4, -5)]
    whole = speech.whole(speech.utterances, lead=1)
    assert whole.shape == (2, 1, 5 * HOP)
    assert not whole[:, :, :HOP].any()
    np.testing.assert_allclose(whole[1, 0, HOP : HOP + len(audio)], audio, atol=1e-4)
    crop, phonemes = speech.crops(3, 2)
    assert (crop.shape, phonemes.shape) == ((3, 1, 2 * HOP), (3, 2, 4))
